package controllers

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
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// announcer tells people what is done: as Events, once for each thing.
type announcer struct {
	*Ports
}

// Actions of events, in the words of events.k8s.io: what the controller did or saw.
const (
	actionAct     = "Act"
	actionObserve = "Observe"
)

// eventOf is the reason of the event for each kind of action that a person wants to know of. The others are upkeep.
var eventOf = map[reflect.Type]string{
	reflect.TypeFor[topology.CreateVolume]():        v1alpha1.EventCreateVolume,
	reflect.TypeFor[topology.AttachVolume]():        v1alpha1.EventAttachVolume,
	reflect.TypeFor[topology.DetachVolume]():        v1alpha1.EventDetachVolume,
	reflect.TypeFor[topology.ModifyVolume]():        v1alpha1.EventModifyVolume,
	reflect.TypeFor[topology.RetireVolume]():        v1alpha1.EventRetireVolume,
	reflect.TypeFor[topology.DeleteVolume]():        v1alpha1.EventDeleteVolume,
	reflect.TypeFor[topology.LaunchInstance]():      v1alpha1.EventLaunchInstance,
	reflect.TypeFor[topology.StartInstance]():       v1alpha1.EventStartInstance,
	reflect.TypeFor[topology.StopInstance]():        v1alpha1.EventStopInstance,
	reflect.TypeFor[topology.TerminateInstance]():   v1alpha1.EventTerminateInstance,
	reflect.TypeFor[topology.TakeSnapshot]():        v1alpha1.EventTakeSnapshot,
	reflect.TypeFor[topology.CopyVolume]():          v1alpha1.EventTakeSnapshot,
	reflect.TypeFor[topology.DeleteSnapshot]():      v1alpha1.EventDeleteSnapshot,
	reflect.TypeFor[topology.DeleteSecurityGroup](): v1alpha1.EventDeleteSecurityGroup,
	reflect.TypeFor[topology.SignCertificate]():     v1alpha1.EventSignCertificate,
	reflect.TypeFor[topology.Adopt]():               v1alpha1.EventAdopt,
	reflect.TypeFor[topology.Bootstrap]():           v1alpha1.EventBootstrap,
	reflect.TypeFor[topology.CloneFrom]():           v1alpha1.EventClone,
	reflect.TypeFor[topology.ReplicateFrom]():       v1alpha1.EventReplicate,
	reflect.TypeFor[topology.Fence]():               v1alpha1.EventFence,
	reflect.TypeFor[topology.Promote]():             v1alpha1.EventPromote,
	reflect.TypeFor[topology.Demote]():              v1alpha1.EventDemote,
	reflect.TypeFor[topology.AdmitVoter]():          v1alpha1.EventAdmitVoter,
	reflect.TypeFor[topology.RemoveVoter]():         v1alpha1.EventRemoveVoter,
	reflect.TypeFor[topology.StandAlone]():          v1alpha1.EventStandAlone,
	reflect.TypeFor[topology.DisconnectStrangers](): v1alpha1.EventDisconnectStrangers,
	reflect.TypeFor[topology.PinSettings]():         v1alpha1.EventPinSettings,
	reflect.TypeFor[topology.ApplySettings]():       v1alpha1.EventApplySettings,
	reflect.TypeFor[topology.SetMaxConnections]():   v1alpha1.EventSetMaxConnections,
	reflect.TypeFor[topology.Restart]():             v1alpha1.EventRestart,
	reflect.TypeFor[topology.EnsureDatabase]():      v1alpha1.EventEnsureDatabase,
}

// announce tells of an action that was taken.
func (r *announcer) announce(s *pass, a topology.Action) {
	if reason, ok := eventOf[reflect.TypeOf(a)]; ok && s.cache.told.news(a.String(), r.Clock.Now()) {
		kind := corev1.EventTypeNormal
		switch a.(type) {
		case topology.DisconnectStrangers, topology.PinSettings: // somebody interfered
			kind = corev1.EventTypeWarning
		}
		// Events that differ in nothing but their note are folded into one; the member keeps them apart.
		r.Events.Eventf(s.cluster, nil, kind, reason, strings.TrimSpace(actionAct+" "+a.Target()), "%s", capitalise(a.String()))
		s.log.Info(a.String())
	}
}

// announceGroup tells of the security group once it is made. The action that makes it also keeps its rules, in every pass.
func (r *announcer) announceGroup(s *pass, id string) {
	if s.cache.told.news(id, r.Clock.Now()) {
		r.Events.Eventf(s.cluster, nil, corev1.EventTypeNormal, v1alpha1.EventCreateSecurityGroup, actionAct, "Create security group %s in %s", id, s.seen.vpc)
		s.log.Info("create security group "+id, "vpc", s.seen.vpc)
	}
}

// announceRecords tells that the records were put back.
func (r *announcer) announceRecords(s *pass) {
	name := resources.NamesOf(s.cluster.Name).Members
	s.log.Info("put the records back, which somebody had changed", "configMap", name)
	r.Events.Eventf(s.cluster, nil, corev1.EventTypeWarning, v1alpha1.EventRestoreRecords, actionAct, "Put ConfigMap %s back: somebody had changed what the operator remembers there", name)
}

// announceChanges tells of what changed in status, after it was written.
func (r *announcer) announceChanges(s *pass, before *v1alpha1.MySQLCluster) {
	was, is := before.Status, s.cluster.Status
	if told := s.cache.told.status; told != nil {
		was = *told // what was read may be older than what this process wrote last
	}
	s.cache.told.status = is.DeepCopy()
	if was.Phase != is.Phase && is.Phase != "" {
		r.Events.Eventf(s.cluster, nil, corev1.EventTypeNormal, v1alpha1.EventPhasePrefix+string(is.Phase), actionObserve, "The cluster is %s (%s members ready)", is.Phase, orDash(is.ReadyMembers))
	}
	if was.Primary != is.Primary && is.Primary != "" {
		r.Events.Eventf(s.cluster, nil, corev1.EventTypeNormal, v1alpha1.EventPrimary, actionObserve, "The primary is %s", is.Primary)
	}
	if recovered := v1alpha1.ConditionRecovered; meta.IsStatusConditionTrue(is.Conditions, recovered) && !meta.IsStatusConditionTrue(was.Conditions, recovered) {
		r.Events.Eventf(s.cluster, nil, corev1.EventTypeNormal, v1alpha1.ReasonRecovered, actionObserve, "The cluster begins with what spec.bootstrap.recovery names")
	}
	r.announceRollout(s, was)
	r.announceCondition(s, was, v1alpha1.ConditionDegraded)
}

// rolloutWords are what events say of a change that goes from member to member: when it begins, and when it is done.
var rolloutWords = map[v1alpha1.RolloutKind]struct{ begun, done string }{
	v1alpha1.RolloutMachines: {"Changing one member after the other: %s", "The machines of all members are as the spec wants them, after %s"},
	v1alpha1.RolloutRestarts: {"Restarting one mysqld after the other, of %s", "No mysqld is left to be restarted, after %s"},
	v1alpha1.RolloutVolumes:  {"Modifying one volume after the other, of %s", "No volume is left to be modified, after %s"},
}

// announceRollout tells that a change which goes from member to member began, and that it is done. Of several, the one is told
// that status shows.
func (r *announcer) announceRollout(s *pass, was v1alpha1.MySQLClusterStatus) {
	kind := func(st *v1alpha1.RolloutStatus) v1alpha1.RolloutKind {
		if st == nil || st.Since == nil {
			return ""
		}
		return cmp.Or(st.Kind, v1alpha1.RolloutMachines) // the status may be of a release that had no others
	}
	before, now := kind(was.Rollout), kind(s.cluster.Status.Rollout)
	if s.deleting() || s.desired.Hibernate || before == now {
		return
	}
	goesOn := slices.ContainsFunc(s.plan.Rollouts, func(rollout topology.Rollout) bool { return rollout.Kind == before })
	if before != "" && !goesOn {
		took := r.Clock.Since(was.Rollout.Since.Time).Round(time.Second)
		r.Metrics.rolled(before, took)
		r.Events.Eventf(s.cluster, nil, corev1.EventTypeNormal, v1alpha1.EventRollingChangeDone, actionObserve, rolloutWords[before].done, took)
	}
	if now != "" {
		st := s.cluster.Status.Rollout
		members := st.Next
		if st.Current != "" {
			members = append([]string{st.Current}, members...)
		}
		r.Events.Eventf(s.cluster, nil, corev1.EventTypeNormal, v1alpha1.ReasonRolling, actionAct, rolloutWords[now].begun, strings.Join(members, ", "))
	}
}

// announceCondition tells of a problem once, when its condition turns or its reason changes.
func (r *announcer) announceCondition(s *pass, was v1alpha1.MySQLClusterStatus, kind string) {
	find := func(st v1alpha1.MySQLClusterStatus) (reason, message string, bad bool) {
		for _, cond := range st.Conditions {
			if cond.Type == kind {
				return cond.Reason, cond.Message, cond.Status == metav1.ConditionTrue
			}
		}
		return "", "", false
	}
	oldReason, _, wasBad := find(was)
	reason, message, bad := find(s.cluster.Status)
	switch {
	case bad && (!wasBad || oldReason != reason):
		r.Events.Eventf(s.cluster, nil, corev1.EventTypeWarning, reason, actionObserve, "%s", shorten(message))
	case wasBad && !bad:
		r.Events.Eventf(s.cluster, nil, corev1.EventTypeNormal, v1alpha1.ReasonHealthy, actionObserve, "Nothing needs attention any more")
	}
}

// announceRebuild tells that the member that a person wanted rebuilt was, or why it was not.
func (r *announcer) announceRebuild(s *pass, member, refused string) {
	if refused != "" {
		r.Events.Eventf(s.cluster, nil, corev1.EventTypeWarning, v1alpha1.ReasonRebuildRefused, actionAct, "No rebuild: %s", shorten(refused))
		return
	}
	r.Events.Eventf(s.cluster, nil, corev1.EventTypeNormal, v1alpha1.ReasonMemberRebuilt, actionAct, "Rebuilt %s; the snapshot of its volume is kept for 7 days", member)
}

// announceTags tells that tags were put back.
func (r *announcer) announceTags(s *pass, id string) {
	r.Events.Eventf(s.cluster, nil, corev1.EventTypeNormal, v1alpha1.EventRestoreTags, actionAct, "Put the tags of %s back: somebody had removed them", id)
}

// announceAbandoned lists what a deletion leaves behind that was given up.
func (r *announcer) announceAbandoned(s *pass, why *engine.Problem) {
	var left []string
	for _, m := range s.plan.Members {
		for _, id := range []string{m.InstanceID, m.VolumeID} {
			if id != "" {
				left = append(left, id)
			}
		}
	}
	if s.observed.SecurityGroup != "" {
		left = append(left, s.observed.SecurityGroup)
	}
	note := fmt.Sprintf("Left behind in %s, to be deleted by hand: everything with the tag %s=%s; known: %s",
		s.cluster.Spec.AWS.Region, v1alpha1.TagClusterUID, s.uid(), orDash(strings.Join(left, ", ")))
	r.Events.Eventf(s.cluster, nil, corev1.EventTypeWarning, v1alpha1.ReasonAbandoned, actionAct, "%s", shorten(note))
	s.log.Info("abandoned cloud resources", "left", left, "problem", why.Message)
}

// longestNote is what events.k8s.io accepts as a note, in bytes.
const longestNote = 1024

func shorten(text string) string {
	if len(text) <= longestNote {
		return text
	}
	return text[:longestNote-3] + "..."
}

func capitalise(text string) string {
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
