package status

import (
	"context"
	"fmt"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/metrics"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/objects"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/text"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// Conclude writes what the pass found into status and decides when to look again. It runs also when a step failed.
func (r *Reporter) Conclude(ctx context.Context, s *pass.Pass, failed error) (ctrl.Result, error) {
	if s.Done {
		return ctrl.Result{}, failed
	}
	failure := pass.AsProblem(failed)
	before := s.Cluster.DeepCopy()
	r.trackPromotion(s)
	r.trackWrites(s)
	recheck := r.Project(s, failure)
	r.Metrics.Judge(s.Cluster, r.figures(s, failure))
	told, err := r.writeStatus(ctx, s, before)
	if err != nil && !s.Planned {
		return ctrl.Result{}, err
	}
	if told && s.Result.Promotion != nil {
		s.Cache.Told.Promotion = s.Result.Promotion
	}
	r.reportPromotion(s, told)
	if s.Planned {
		r.Metrics.Observe(s.Cluster, s.Plan, s.Observed)
	}
	result, failing := r.Next(s, failure)
	if recheck > 0 && failing == nil {
		result.RequeueAfter = min(result.RequeueAfter, recheck)
	}
	if err != nil || !told {
		result.RequeueAfter = min(result.RequeueAfter, r.retryStatus(s))
	}
	return result, failing
}

// retryStatus returns when a status that was not written is due: soon, unless it was refused.
func (r *Reporter) retryStatus(s *pass.Pass) time.Duration {
	if s.Cache.Requests.MayTry(engine.Errand{What: engine.StatusErrand}, r.Clock.Now()) {
		return engine.AfterProgress
	}
	return engine.AfterWaiting
}

// writeStatus writes status where it changed, and says whether it is written. It locks: the pass may have read a status from before the
// last one that was written, and what differs from the older one would then be a mixture of both. That pass writes nothing. A status that
// is refused is tried again at the pace of refused objects: what the cluster needs next, a failover may be, does not wait for that.
func (r *Reporter) writeStatus(ctx context.Context, s *pass.Pass, before *v1alpha1.MySQLCluster) (told bool, err error) {
	if apiequality.Semantic.DeepEqual(before.Status, s.Cluster.Status) {
		return true, nil
	}
	if !s.Cache.Requests.MayTry(engine.Errand{What: engine.StatusErrand}, r.Clock.Now()) {
		return false, nil
	}
	written := s.Cluster.DeepCopy() // the answer is decoded into it
	err = r.Client.Status().Patch(ctx, written, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return false, nil
	}
	if client.IgnoreNotFound(err) != nil {
		err = fmt.Errorf("write status: %w", err)
		p := &engine.Problem{Reason: v1alpha1.ReasonObjectRefused, Message: err.Error(), PauseFrom: objects.RefusalPause, Pause: objects.RefusalPauseMost, Cause: err}
		if s.Cache.Requests.Fail(engine.Errand{What: engine.StatusErrand}, p, r.Clock.Now()) {
			s.Log.Error(err, "failed to update the status; reconciliation continues")
		}
		return false, err
	}
	s.Cache.Requests.Succeed(engine.Errand{What: engine.StatusErrand})
	r.Announcer.StatusChanges(s, before)
	return true, nil
}

// Next says when to look again: when the plan asks for it, unless a problem asks for longer, or has no answer but to
// back off.
func (r *Reporter) Next(s *pass.Pass, failure *engine.Problem) (ctrl.Result, error) {
	if failure != nil {
		if failure.After > 0 {
			return ctrl.Result{RequeueAfter: failure.After}, nil
		}
		return ctrl.Result{}, failure
	}
	// The preflight, and what the spec names, are looked for at a pace of their own, and the plan waits for them where it needs them.
	outcome := engine.Outcome{Moved: s.Result.Moved, Promoted: s.Result.Promoted, Acted: s.Result.Acted, Problems: s.Result.Problems}
	return ctrl.Result{RequeueAfter: outcome.LookAgain(s.Plan)}, nil // an object that is in the way has a pace of its own
}

// Project computes status from the pass. It is pure but for the clock and the probe's last word. It returns after how long Degraded
// changes by itself, 0 when it does not.
func (r *Reporter) Project(s *pass.Pass, failure *engine.Problem) (recheck time.Duration) {
	st := &s.Cluster.Status
	if s.Planned || st.ObservedGeneration <= 0 {
		st.ObservedGeneration = s.Cluster.Generation // otherwise nothing came of what the spec asks for
	}
	st.Selector = v1alpha1.LabelCluster + "=" + s.Cluster.Name
	if s.Planned {
		projectMembers(s, st)
	} else if st.Phase == "" {
		st.Phase = v1alpha1.PhaseProvisioning
	}
	r.projectCost(s)
	st.Conditions = pass.KeepTypes(st.Conditions, v1alpha1.ClusterConditions)
	c := pass.Conditions{Cluster: s.Cluster}
	problems := problems(s, failure)
	r.setCloudReachable(s, c)
	e := r.evidence(s, problems)
	v := e.judge()
	c.Set(v1alpha1.ConditionAvailable, v.available.Status, v.available.Reason, v.available.Message)
	if d := v.degraded; d != nil {
		c.Set(v1alpha1.ConditionDegraded, d.Status, d.Reason, d.Message)
	}
	setProgressing(c, s, failure, problems)
	setRecovered(c, s)
	r.Backups.ProjectBackups(s, c)
	setReady(c, s, v, failure)
	settle(c, s, problems)
	return e.counts(v)
}

// setReady sets Ready from the phase and from whether the cluster takes writes.
func setReady(c pass.Conditions, s *pass.Pass, v verdict, failure *engine.Problem) {
	st, available := &c.Cluster.Status, v.available.Status == metav1.ConditionTrue
	switch {
	case !s.Planned && meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionReady) != nil:
		ReadyUnplanned(c, available, failure)
	case st.Phase == v1alpha1.PhaseHibernated:
		meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionReady) // nothing is waited for; Available says that no writes are taken
	case st.Phase == v1alpha1.PhaseReady && available:
		c.Set(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAllMembersReady, fmt.Sprintf("%s members are ready", st.ReadyMembers))
	case st.Phase == v1alpha1.PhaseReady && v.available.Status == metav1.ConditionUnknown:
		c.Set(v1alpha1.ConditionReady, metav1.ConditionUnknown, v.available.Reason, v.available.Message)
	case st.Phase == v1alpha1.PhaseReady:
		c.Set(v1alpha1.ConditionReady, metav1.ConditionFalse, v.available.Reason, "all members are ready, but "+v.available.Message)
	default:
		message := "no member is ready"
		if st.ReadyMembers != "" {
			message = fmt.Sprintf("%s members are ready", st.ReadyMembers)
		}
		if d := v.degraded; d != nil && d.Status == metav1.ConditionTrue {
			message += "; " + d.Message
		}
		c.Set(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonMembersNotReady, message)
	}
}

// ReadyUnplanned judges Ready after a pass that came to no plan, so that nothing new is known of the members. Ready is not what takes
// no writes, or may not; nor what is not looked after.
func ReadyUnplanned(c pass.Conditions, available bool, failure *engine.Problem) {
	all := c.Cluster.Status.Conditions
	switch a := meta.FindStatusCondition(all, v1alpha1.ConditionAvailable); {
	case !meta.IsStatusConditionTrue(all, v1alpha1.ConditionReady):
	case !available && a != nil:
		c.Set(v1alpha1.ConditionReady, a.Status, a.Reason, a.Message)
	case failure != nil && !failure.Quiet():
		c.Set(v1alpha1.ConditionReady, metav1.ConditionUnknown, failure.Reason, "the members are not looked after: "+failure.Message)
	}
}

// longestStatusText is how long a text of status may be, in bytes.
const longestStatusText = 1024

const (
	// longestMemberMessage is how long the message of a member may be, in bytes: an error of replication has 1024.
	longestMemberMessage = 2048
	// longestVersion is how long a version may be that a server says it has, in bytes: those of MySQL have less than ten.
	longestVersion = 64
)

// rolloutStatus tells how far a change has got, nil when none is under way.
func rolloutStatus(rollout topology.Rollout) *v1alpha1.RolloutStatus {
	if rollout.Total() == 0 {
		return nil
	}
	st := &v1alpha1.RolloutStatus{
		Kind: rollout.Kind, Plan: rollout.Plan, Done: int32(len(rollout.Done)), Total: int32(rollout.Total()), Current: rollout.Current, Step: text.Shorten(rollout.Step, longestStatusText), Next: rollout.Next,
		PreviousVersion: rollout.PreviousVersion,
	}
	if rollout.Since != 0 {
		since := metav1.Unix(rollout.Since, 0)
		st.Since = &since
	}
	return st
}

func projectMembers(s *pass.Pass, st *v1alpha1.MySQLClusterStatus) {
	p := s.Plan
	st.Phase, st.Primary = p.Phase, p.Primary
	if s.Result.Promotion != nil {
		st.LastPromotion = s.Result.Promotion
	}
	st.Rollout = rolloutStatus(p.Rollout)
	if !s.Observed.Snapshots.Taken.IsZero() { // otherwise EC2 has not said how many there are
		st.QuarantineSnapshots = int32(p.Quarantined)
	}
	if s.Observed.CloudReachable {
		st.VolumeSize = fmt.Sprintf("%dGi", s.LargestVolume().SizeGiB)
	}
	st.Members, st.Replicas, st.ReadyReplicas, st.Version, st.Lag = nil, 0, 0, "", ""
	worst := -1
	for _, v := range p.Members {
		m := v1alpha1.MemberStatus{
			Name: v.Name, Phase: v.Phase, Role: v.Role, Voter: v.Voter, InstanceID: v.InstanceID, VolumeID: v.VolumeID,
			Zone: v.Zone, Address: v.Address, Version: text.Shorten(v.Version, longestVersion), Message: text.Shorten(v.Step.Message, longestMemberMessage),
		}
		if v.LagKnown {
			step := lagStep(v.Lag)
			m.Lag = lagSteps[step].name
			worst = max(worst, step)
		}
		if v.InstanceID != "" {
			st.Replicas++
		}
		if v.Phase == v1alpha1.PhaseReady {
			st.ReadyReplicas++
		}
		if v.Version != "" && (st.Version == "" || v.Name == p.Primary) {
			st.Version = text.Shorten(v.Version, longestVersion)
		}
		st.Members = append(st.Members, m)
	}
	if worst >= 0 {
		st.Lag = lagSteps[worst].name
	}
	st.ReadyMembers = fmt.Sprintf("%d/%d", st.ReadyReplicas, s.Desired.Replicas)
	st.Endpoints = &v1alpha1.Endpoints{Primary: resources.PrimaryHost(s.Cluster), Replicas: resources.ReplicasHost(s.Cluster)}
	if p.Membership != nil {
		st.Voters = &v1alpha1.VotersStatus{Epoch: int64(p.Membership.Epoch), Names: p.Membership.Voters, WaitFor: int32(p.Membership.W)}
	}
}

// lagSteps keep status from changing with every measurement.
var lagSteps = []struct {
	below time.Duration
	name  string
}{
	{time.Millisecond, "0s"}, {time.Second, "<1s"}, {5 * time.Second, "<5s"}, {10 * time.Second, "<10s"}, {30 * time.Second, "<30s"},
	{time.Minute, "<1m"}, {5 * time.Minute, "<5m"}, {15 * time.Minute, "<15m"}, {1<<63 - 1, ">=15m"},
}

func lagStep(lag time.Duration) int {
	for i, step := range lagSteps {
		if lag < step.below {
			return i
		}
	}
	return len(lagSteps) - 1
}

func (r *Reporter) setCloudReachable(s *pass.Pass, c pass.Conditions) {
	switch p := s.Access.Problem; {
	case p != nil && !p.Quiet():
		c.Set(v1alpha1.ConditionCloudReachable, metav1.ConditionFalse, p.Reason, p.Message)
	case s.Planned && s.Observed.CloudReachable:
		c.Set(v1alpha1.ConditionCloudReachable, metav1.ConditionTrue, v1alpha1.ReasonCloudAnswered, "EC2 answers for region "+s.Cluster.Spec.AWS.Region)
	}
}

// figures are what the metrics say of a cluster: all that problems finds, and each condition that is False for a fault.
func (r *Reporter) figures(s *pass.Pass, failure *engine.Problem) metrics.Verdict {
	all, due := s.Cluster.Status.Conditions, s.Cache.Told.Writes.Due
	found := problems(s, failure)
	v := metrics.Verdict{
		Available: meta.IsStatusConditionTrue(all, v1alpha1.ConditionAvailable),
		Managed:   s.Cluster.Status.Replicas > 0 && !s.Deleting(), Reconciled: s.Planned,
		Undecided: !s.Planned && len(found) == 0,
	}
	// A first write is not missed until a probe had the time to make one.
	tried := !r.writes(s).LastSuccess.IsZero() || r.Clock.Since(due) > firstProbe
	v.Due = !due.IsZero() && (v.Available || tried)
	for _, f := range found {
		v.Problems = append(v.Problems, f.Reason)
	}
	for _, c := range all {
		faulty := c.Type == v1alpha1.ConditionBackupHealthy || c.Type == v1alpha1.ConditionArchiveHealthy || c.Type == v1alpha1.ConditionRecovered ||
			c.Type == v1alpha1.ConditionAvailable && !due.IsZero()
		if faulty && c.Status == metav1.ConditionFalse {
			v.Problems = append(v.Problems, c.Reason)
		}
	}
	slices.Sort(v.Problems)
	v.Problems = slices.Compact(v.Problems)
	return v
}

// problems lists what a person should know, the most fundamental first.
func problems(s *pass.Pass, failure *engine.Problem) []topology.Finding {
	var all []topology.Finding
	add := func(p *engine.Problem) {
		if p != nil && !p.Quiet() {
			all = append(all, topology.Finding{Reason: p.Reason, Message: p.Message})
		}
	}
	add(failure)
	all = append(all, s.Access.Violations...)
	if !s.Access.Refused || s.Access.Unread && s.Records().Account != "" {
		add(s.Access.Problem)
	}
	add(s.Seen.DependencyProblem)
	all = append(all, s.Unmet...)
	add(s.Seen.PreflightProblem)
	for _, p := range s.Result.Problems {
		add(p)
	}
	for _, p := range s.Result.InTheWay {
		add(p)
	}
	for _, message := range s.Seen.Strangers {
		all = append(all, topology.Finding{Reason: v1alpha1.ReasonForeignResource, Message: message})
	}
	switch {
	case s.Keys.Leaving:
		all = append(all, topology.Finding{Reason: v1alpha1.ReasonDeletionProtected, Message: leavingMessage})
	case protectedDeletion(s):
		all = append(all, topology.Finding{Reason: v1alpha1.ReasonDeletionProtected, Message: protectedMessage})
	}
	return append(all, s.Plan.Degraded...)
}

const protectedMessage = "the cluster was deleted but is protected; it keeps running and nothing in AWS is touched. To delete it for good set spec.deletionProtection to false"

const leavingMessage = "the namespace is being deleted but the cluster is protected; it keeps running and nothing in AWS is touched. Its Services and Secrets in this namespace are gone and cannot be made again. To delete it for good set spec.deletionProtection to false"

func protectedDeletion(s *pass.Pass) bool {
	return !s.Cluster.DeletionTimestamp.IsZero() && s.Cluster.IsProtected()
}

func setProgressing(c pass.Conditions, s *pass.Pass, failure *engine.Problem, problems []topology.Finding) {
	switch {
	case s.Planned && s.Plan.Rollout.Total() > 0 && !s.Plan.Failing:
		c.Set(v1alpha1.ConditionProgressing, metav1.ConditionTrue, s.Plan.Rolling.Reason, s.Plan.Rolling.Message)
	case s.Planned && s.Plan.Waiting.Reason != "":
		c.Set(v1alpha1.ConditionProgressing, metav1.ConditionTrue, s.Plan.Waiting.Reason, s.Plan.Waiting.Message)
	case s.Planned && s.Plan.Phase == v1alpha1.PhaseHibernated:
		c.Set(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonHibernated, "the cluster hibernates")
	case s.Planned && s.Plan.Rolling.Reason != "":
		c.Set(v1alpha1.ConditionProgressing, metav1.ConditionTrue, s.Plan.Rolling.Reason, s.Plan.Rolling.Message)
	case s.Planned && s.Plan.Phase == v1alpha1.PhaseReady:
		c.Set(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonStable, "the cluster is as the spec wants it")
	case failure != nil && !failure.Quiet():
		c.Set(v1alpha1.ConditionProgressing, metav1.ConditionFalse, failure.Reason, failure.Message)
	case len(problems) > 0:
		c.Set(v1alpha1.ConditionProgressing, metav1.ConditionFalse, problems[0].Reason, problems[0].Message)
	default:
		c.Set(v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonReconciling, "working towards the spec")
	}
}

// setRecovered tells how the recovery goes.
func setRecovered(c pass.Conditions, s *pass.Pass) {
	if s.Cluster.Recovery() == nil || !s.Planned {
		return
	}
	message := s.Restorer()
	switch {
	case s.Records().Recovered || s.Plan.Records.Recovered, !s.Plan.Records.RebuiltAt.IsZero() && s.Plan.Records.Established:
		c.Set(v1alpha1.ConditionRecovered, metav1.ConditionTrue, v1alpha1.ReasonRecovered, "the cluster began with what spec.bootstrap.recovery names"+s.Restored())
	case s.Backup.Recovery[task.ReportState] == pass.RestoreFailed:
		c.Set(v1alpha1.ConditionRecovered, metav1.ConditionFalse, v1alpha1.ReasonRecoveryFailed, message)
	case s.Backup.Unadoptable != "":
		c.Set(v1alpha1.ConditionRecovered, metav1.ConditionFalse, v1alpha1.ReasonRecoveryFailed, s.Backup.Unadoptable)
	case s.Observed.Source.Final:
		c.Set(v1alpha1.ConditionRecovered, metav1.ConditionFalse, v1alpha1.ReasonRecoveryFailed, s.Observed.Source.Why.Message)
	default:
		if message == "" || s.Plan.Records.Replayed != "" { // then the pod has done its part
			message = s.Plan.Waiting.Message
		}
		c.Set(v1alpha1.ConditionRecovered, metav1.ConditionFalse, v1alpha1.ReasonRecovering, message)
	}
}
