// Package announce sends the Events of a cluster: one for each thing that a person wants to know of, once.
package announce

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// Announcer tells people what is done: as Events, once for each thing.
type Announcer struct {
	*pass.Ports
}

// Actions of events, in the words of events.k8s.io: what the controller did or saw.
const (
	Act     = "Act"
	Observe = "Observe"
)

// EventOf is the reason of the event for each kind of action that a person wants to know of. The others are upkeep.
var EventOf = map[reflect.Type]string{
	reflect.TypeFor[topology.CreateVolume]():              v1alpha1.EventCreateVolume,
	reflect.TypeFor[topology.AttachVolume]():              v1alpha1.EventAttachVolume,
	reflect.TypeFor[topology.DetachVolume]():              v1alpha1.EventDetachVolume,
	reflect.TypeFor[topology.ModifyVolume]():              v1alpha1.EventModifyVolume,
	reflect.TypeFor[topology.RetireVolume]():              v1alpha1.EventRetireVolume,
	reflect.TypeFor[topology.DeleteVolume]():              v1alpha1.EventDeleteVolume,
	reflect.TypeFor[topology.LaunchInstance]():            v1alpha1.EventLaunchInstance,
	reflect.TypeFor[topology.StartInstance]():             v1alpha1.EventStartInstance,
	reflect.TypeFor[topology.StopInstance]():              v1alpha1.EventStopInstance,
	reflect.TypeFor[topology.TerminateInstance]():         v1alpha1.EventTerminateInstance,
	reflect.TypeFor[topology.TakeSnapshot]():              v1alpha1.EventTakeSnapshot,
	reflect.TypeFor[topology.CopyVolume]():                v1alpha1.EventTakeSnapshot,
	reflect.TypeFor[topology.DeleteSnapshot]():            v1alpha1.EventDeleteSnapshot,
	reflect.TypeFor[topology.DeleteSecurityGroup]():       v1alpha1.EventDeleteSecurityGroup,
	reflect.TypeFor[topology.SignCertificate]():           v1alpha1.EventSignCertificate,
	reflect.TypeFor[topology.Adopt]():                     v1alpha1.EventAdopt,
	reflect.TypeFor[topology.Bootstrap]():                 v1alpha1.EventBootstrap,
	reflect.TypeFor[topology.CloneFrom]():                 v1alpha1.EventClone,
	reflect.TypeFor[topology.ReplicateFrom]():             v1alpha1.EventReplicate,
	reflect.TypeFor[topology.ResetRelayLog]():             v1alpha1.EventResetRelayLog,
	reflect.TypeFor[topology.Fence]():                     v1alpha1.EventFence,
	reflect.TypeFor[topology.Promote]():                   v1alpha1.EventPromote,
	reflect.TypeFor[topology.Demote]():                    v1alpha1.EventDemote,
	reflect.TypeFor[topology.AdmitVoter]():                v1alpha1.EventAdmitVoter,
	reflect.TypeFor[topology.RemoveVoter]():               v1alpha1.EventRemoveVoter,
	reflect.TypeFor[topology.RemoveAllVoters]():           v1alpha1.EventStandAlone,
	reflect.TypeFor[topology.DisconnectStrangers]():       v1alpha1.EventDisconnectStrangers,
	reflect.TypeFor[topology.RestoreReplicationAccount](): v1alpha1.EventRestoreReplicationAccount,
	reflect.TypeFor[topology.AdoptHarmless]():             v1alpha1.EventAdoptHarmless,
	reflect.TypeFor[topology.RetireGTIDs]():               v1alpha1.EventRetireGTIDs,
	reflect.TypeFor[topology.PinSettings]():               v1alpha1.EventPinSettings,
	reflect.TypeFor[topology.ApplySettings]():             v1alpha1.EventApplySettings,
	reflect.TypeFor[topology.SetMaxConnections]():         v1alpha1.EventSetMaxConnections,
	reflect.TypeFor[topology.Restart]():                   v1alpha1.EventRestart,
	reflect.TypeFor[topology.EnsureDatabase]():            v1alpha1.EventEnsureDatabase,
}

// Action tells of an action that was taken.
func (r *Announcer) Action(s *pass.Pass, a topology.Action) {
	if reason, ok := EventOf[reflect.TypeOf(a)]; ok && s.Cache.Told.News(a.String(), r.Clock.Now()) {
		kind := corev1.EventTypeNormal
		switch a.(type) {
		case topology.DisconnectStrangers, topology.RestoreReplicationAccount, topology.PinSettings: // somebody interfered
			kind = corev1.EventTypeWarning
		}
		// Events that differ in nothing but their note are folded into one; the member keeps them apart.
		r.Events.Eventf(s.Cluster, nil, kind, reason, strings.TrimSpace(Act+" "+a.Target()), "%s", capitalise(a.String()))
		s.Log.Info(a.String())
	}
}

// SecurityGroup tells of the security group once it is made. The action that makes it also keeps its rules, in every pass.
func (r *Announcer) SecurityGroup(s *pass.Pass, id string) {
	if s.Cache.Told.News(id, r.Clock.Now()) {
		r.Events.Eventf(s.Cluster, nil, corev1.EventTypeNormal, v1alpha1.EventCreateSecurityGroup, Act, "Create security group %s in %s", id, s.Seen.VPC)
		s.Log.Info("create security group "+id, "vpc", s.Seen.VPC)
	}
}

// RecordsRestored tells that the records were put back.
func (r *Announcer) RecordsRestored(s *pass.Pass) {
	name := resources.NamesOf(s.Cluster.Name).Members
	s.Log.Info("put the records back, which somebody had changed", "configMap", name)
	r.Events.Eventf(s.Cluster, nil, corev1.EventTypeWarning, v1alpha1.EventRestoreRecords, Act, "Put ConfigMap %s back: somebody had changed what the operator remembers there", name)
}

// StatusChanges tells of what changed in status, after it was written.
func (r *Announcer) StatusChanges(s *pass.Pass, before *v1alpha1.MySQLCluster) {
	was, is := before.Status, s.Cluster.Status
	if told := s.Cache.Told.Status; told != nil {
		was = *told // what was read may be older than what this process wrote last
	}
	s.Cache.Told.Status = is.DeepCopy()
	if was.Phase != is.Phase && is.Phase != "" {
		r.Events.Eventf(s.Cluster, nil, corev1.EventTypeNormal, v1alpha1.EventPhasePrefix+string(is.Phase), Observe, "The cluster is %s (%s members ready)", is.Phase, OrDash(is.ReadyMembers))
	}
	if was.Primary != is.Primary && is.Primary != "" {
		r.Events.Eventf(s.Cluster, nil, corev1.EventTypeNormal, v1alpha1.EventPrimary, Observe, "The primary is %s", is.Primary)
	}
	r.Rollout(s, was)
	for condition, events := range conditionEvents {
		r.conditionChange(s.Cluster, was.Conditions, condition, events)
		s.Cache.Told.Status.Conditions = keepDecided(s.Cache.Told.Status.Conditions, was.Conditions, condition)
	}
}

// keepDecided returns the conditions with what was known of one before it became Unknown: what it becomes next is compared with that.
func keepDecided(now, was []metav1.Condition, condition string) []metav1.Condition {
	is, before := meta.FindStatusCondition(now, condition), meta.FindStatusCondition(was, condition)
	if is != nil && before != nil && is.Status == metav1.ConditionUnknown {
		*is = *before
	}
	return now
}

// conditionEvent says what events report of a condition.
type conditionEvent struct {
	// bad is the status that needs a person. A Warning reports it with the condition's reason and message. Empty for none.
	bad metav1.ConditionStatus
	// always is true for a condition of which also the first status and each change of the reason are reported while it is bad. Of the
	// others only a turn is: a new cluster does not take writes yet.
	always bool
	// good is the status whose return is reported, with goodReason and goodNote.
	good       metav1.ConditionStatus
	goodReason string
	goodNote   string
}

// conditionEvents are the conditions whose changes are reported. The messages of the others change with what the operator does.
var conditionEvents = map[string]conditionEvent{
	v1alpha1.ConditionDegraded: {
		bad: metav1.ConditionTrue, always: true, good: metav1.ConditionFalse,
		goodReason: v1alpha1.ReasonHealthy, goodNote: "Nothing needs attention any more",
	},
	v1alpha1.ConditionRecovered: {
		good:       metav1.ConditionTrue,
		goodReason: v1alpha1.ReasonRecovered, goodNote: "The cluster begins with what spec.bootstrap.recovery names",
	},
	v1alpha1.ConditionAvailable: {
		bad: metav1.ConditionFalse, good: metav1.ConditionTrue,
		goodReason: v1alpha1.ReasonWriteSucceeded, goodNote: "Writes through the primary Service succeed",
	},
	v1alpha1.ConditionBackupHealthy: {
		bad: metav1.ConditionFalse, good: metav1.ConditionTrue,
		goodReason: v1alpha1.ReasonBackupSucceeded, goodNote: "Backups are as spec.backup promises again",
	},
	v1alpha1.ConditionArchiveHealthy: {
		bad: metav1.ConditionFalse, good: metav1.ConditionTrue,
		goodReason: v1alpha1.ReasonArchiving, goodNote: "The archive of binary logs follows the primary again",
	},
}

// wanted are the reasons of what a person asked for: no Warning reports it.
var wanted = []string{v1alpha1.ReasonHibernated, v1alpha1.ReasonWaking, v1alpha1.ReasonDeleting}

// conditionChange sends the event of a condition that changed. A condition that is new and good needs none.
func (r *Announcer) conditionChange(c *v1alpha1.MySQLCluster, was []metav1.Condition, condition string, e conditionEvent) {
	before, now := meta.FindStatusCondition(was, condition), meta.FindStatusCondition(c.Status.Conditions, condition)
	if now == nil {
		return
	}
	turned := before != nil && before.Status != now.Status
	first := e.always && (before == nil || before.Reason != now.Reason)
	// Events that differ in nothing but their note are folded into one; the condition keeps them apart.
	action := Observe + " " + condition
	switch {
	case now.Status == e.bad && (turned || first) && !slices.Contains(wanted, now.Reason):
		r.Events.Eventf(c, nil, corev1.EventTypeWarning, now.Reason, action, "%s", now.Message)
	case now.Status == e.good && turned && (e.always || before.Status == metav1.ConditionFalse):
		r.Events.Eventf(c, nil, corev1.EventTypeNormal, e.goodReason, action, "%s", e.goodNote)
	}
}

// rolloutWords are what events say of a change that goes from member to member: when it begins, and when it is done.
var rolloutWords = map[v1alpha1.RolloutKind]struct{ begun, done string }{
	v1alpha1.RolloutMachines: {"Changing one member after the other: %s", "The instances of all members are as the spec wants them, after %s"},
	v1alpha1.RolloutRestarts: {"Restarting one mysqld after the other, of %s", "No mysqld is left to be restarted, after %s"},
	v1alpha1.RolloutVolumes:  {"Modifying one volume after the other, of %s", "No volume is left to be modified, after %s"},
}

// Rollout tells that a change which goes from member to member began, and that it is done. Of several, the one is told
// that status shows.
func (r *Announcer) Rollout(s *pass.Pass, was v1alpha1.MySQLClusterStatus) {
	kind := func(st *v1alpha1.RolloutStatus) v1alpha1.RolloutKind {
		if st == nil || st.Since == nil {
			return ""
		}
		return cmp.Or(st.Kind, v1alpha1.RolloutMachines) // the status may be of a release that had no others
	}
	before, now := kind(was.Rollout), kind(s.Cluster.Status.Rollout)
	if s.Deleting() || s.Desired.Hibernate || before == now {
		return
	}
	goesOn := slices.ContainsFunc(s.Plan.Rollouts, func(rollout topology.Rollout) bool { return rollout.Kind == before })
	if before != "" && !goesOn {
		took := r.Clock.Since(was.Rollout.Since.Time).Round(time.Second)
		r.Metrics.Rolled(before, took)
		r.Events.Eventf(s.Cluster, nil, corev1.EventTypeNormal, v1alpha1.EventRollingChangeDone, Observe, rolloutWords[before].done, took)
	}
	if now != "" {
		st := s.Cluster.Status.Rollout
		members := st.Next
		if st.Current != "" {
			members = append([]string{st.Current}, members...)
		}
		r.Events.Eventf(s.Cluster, nil, corev1.EventTypeNormal, v1alpha1.ReasonRolling, Act, rolloutWords[now].begun, strings.Join(members, ", "))
	}
}

// TagsRestored tells that tags were put back.
func (r *Announcer) TagsRestored(s *pass.Pass, id string) {
	r.Events.Eventf(s.Cluster, nil, corev1.EventTypeNormal, v1alpha1.EventRestoreTags, Act, "Put the tags of %s back: somebody had removed them", id)
}

// Abandoned lists what a deletion leaves behind that was given up.
func (r *Announcer) Abandoned(s *pass.Pass, why *engine.Problem) {
	var left []string
	for _, m := range s.Plan.Members {
		for _, id := range []string{m.InstanceID, m.VolumeID} {
			if id != "" {
				left = append(left, id)
			}
		}
	}
	if s.Observed.SecurityGroup != "" {
		left = append(left, s.Observed.SecurityGroup)
	}
	note := fmt.Sprintf("Left behind in %s, to be deleted by hand: everything with the tag %s=%s; known: %s",
		s.Cluster.Spec.AWS.Region, v1alpha1.TagClusterUID, s.UID(), OrDash(strings.Join(left, ", ")))
	r.Events.Eventf(s.Cluster, nil, corev1.EventTypeWarning, v1alpha1.ReasonAbandoned, Act, "%s", note)
	s.Log.Info("abandoned cloud resources", "left", left, "problem", why.Message)
}

func capitalise(text string) string {
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// OrDash is text, or a dash for none.
func OrDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
