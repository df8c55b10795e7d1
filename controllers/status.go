package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// reporter writes what is known of a cluster into its status.
type reporter struct {
	*Ports
	announcer *announcer
	backups   *backups
}

// conclude writes what the pass found into status and decides when to look again. It runs also when a step failed.
func (r *reporter) conclude(ctx context.Context, s *pass, failed error) (ctrl.Result, error) {
	if s.done {
		return ctrl.Result{}, failed
	}
	failure := asProblem(failed)
	before := s.cluster.DeepCopy()
	r.trackPromotion(s)
	r.trackWrites(s)
	recheck := r.project(s, failure)
	told, err := r.writeStatus(ctx, s, before)
	if err != nil && !s.planned {
		return ctrl.Result{}, err
	}
	if told && s.result.promotion != nil {
		s.cache.told.promotion = s.result.promotion
	}
	if told || !s.cache.told.timeline.opened.IsZero() { // what is owed stays owed
		r.tellOfPromotion(s)
	}
	if s.planned {
		r.Metrics.observe(s.cluster, s.plan)
	}
	result, failing := r.next(s, failure)
	if recheck > 0 && failing == nil {
		result.RequeueAfter = min(result.RequeueAfter, recheck)
	}
	if err != nil || !told {
		result.RequeueAfter = min(result.RequeueAfter, engine.AfterWaiting) // to tell it then
	}
	return result, failing
}

// writeStatus writes status where it changed, and says whether what it says is told. A status that cannot be written is told in the log,
// and tried again at the pace of refused objects: what the cluster needs next, a failover may be, does not wait for that.
func (r *reporter) writeStatus(ctx context.Context, s *pass, before *v1alpha1.MySQLCluster) (told bool, err error) {
	if apiequality.Semantic.DeepEqual(before.Status, s.cluster.Status) {
		return true, nil
	}
	if !s.cache.requests.MayTry(engine.Errand{What: engine.StatusErrand}, r.Clock.Now()) {
		return false, nil
	}
	written := s.cluster.DeepCopy() // the answer is decoded into it
	if err := client.IgnoreNotFound(r.Client.Status().Patch(ctx, written, client.MergeFrom(before))); err != nil {
		err = fmt.Errorf("write status: %w", err)
		p := &engine.Problem{Reason: v1alpha1.ReasonObjectRefused, Message: err.Error(), PauseFrom: refusalPause, Pause: refusalPauseMost, Cause: err}
		if s.cache.requests.Fail(engine.Errand{What: engine.StatusErrand}, p, r.Clock.Now()) {
			s.log.Error(err, "the status is not written; the cluster is looked after all the same")
		}
		return false, err
	}
	s.cache.requests.Succeed(engine.Errand{What: engine.StatusErrand})
	r.announcer.announceChanges(s, before)
	return true, nil
}

// next says when to look again: when the plan asks for it, unless a problem asks for longer, or has no answer but to
// back off.
func (r *reporter) next(s *pass, failure *engine.Problem) (ctrl.Result, error) {
	if failure != nil {
		if failure.After > 0 {
			return ctrl.Result{RequeueAfter: failure.After}, nil
		}
		return ctrl.Result{}, failure
	}
	problems := slices.Clone(s.result.problems)
	for _, p := range []*engine.Problem{s.seen.dependencyProblem, s.seen.preflightProblem} {
		if p != nil {
			problems = append(problems, p)
		}
	}
	outcome := engine.Outcome{Moved: s.result.moved, Promoted: s.result.promoted, Acted: s.result.acted, Problems: problems}
	return ctrl.Result{RequeueAfter: outcome.LookAgain(s.plan)}, nil // an object that is in the way has a pace of its own
}

// project computes status from the pass. It is pure but for the clock and the probe's last word. It returns after how long Degraded
// changes by itself, 0 when it does not.
func (r *reporter) project(s *pass, failure *engine.Problem) (recheck time.Duration) {
	st := &s.cluster.Status
	if s.planned || st.ObservedGeneration == 0 {
		st.ObservedGeneration = s.cluster.Generation // otherwise nothing came of what the spec asks for
	}
	st.Selector = v1alpha1.LabelCluster + "=" + s.cluster.Name
	if s.planned {
		projectMembers(s, st)
	} else if st.Phase == "" {
		st.Phase = v1alpha1.PhaseProvisioning
	}
	c := conditions{cluster: s.cluster}
	problems := problems(s, failure)
	r.setCloudReachable(s, c)
	e := r.evidence(s, problems)
	v := e.judge()
	c.set(v1alpha1.ConditionAvailable, v.available.Status, v.available.Reason, v.available.Message)
	if d := v.degraded; d != nil {
		c.set(v1alpha1.ConditionDegraded, d.Status, d.Reason, d.Message)
	}
	c.setProgressing(s, failure, problems)
	c.setRecovered(s)
	r.backups.projectBackups(s, c)
	c.setReady(s, v, failure)
	return e.counts(v)
}

// setReady sets Ready from the phase and from whether the cluster takes writes.
func (c conditions) setReady(s *pass, v verdict, failure *engine.Problem) {
	st, available := &c.cluster.Status, v.available.Status == metav1.ConditionTrue
	switch {
	case !s.planned && meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionReady) != nil:
		c.readyUnplanned(available, failure)
	case st.Phase == v1alpha1.PhaseHibernated:
		c.set(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHibernated, "the cluster hibernates: there are no instances, the volumes are kept; set spec.hibernate to false to wake it")
	case st.Phase == v1alpha1.PhaseReady && available:
		c.set(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAllMembersReady, fmt.Sprintf("%s members are ready", st.ReadyMembers))
	case st.Phase == v1alpha1.PhaseReady && v.available.Status == metav1.ConditionUnknown:
		c.set(v1alpha1.ConditionReady, metav1.ConditionUnknown, v.available.Reason, v.available.Message)
	case st.Phase == v1alpha1.PhaseReady:
		c.set(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWriteFailed, "all members are ready, but no write went through the primary Service in the last seconds")
	default:
		message := fmt.Sprintf("%s members are ready", st.ReadyMembers)
		if d := v.degraded; d != nil && d.Status == metav1.ConditionTrue {
			message += "; " + d.Message
		}
		c.set(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonMembersNotReady, message)
	}
}

// readyUnplanned judges Ready after a pass that came to no plan, so that nothing new is known of the members. Ready is not what takes
// no writes, or may not; nor what is not looked after.
func (c conditions) readyUnplanned(available bool, failure *engine.Problem) {
	all := c.cluster.Status.Conditions
	switch a := meta.FindStatusCondition(all, v1alpha1.ConditionAvailable); {
	case !meta.IsStatusConditionTrue(all, v1alpha1.ConditionReady):
	case !available && a != nil:
		c.set(v1alpha1.ConditionReady, a.Status, a.Reason, a.Message)
	case failure != nil && !failure.Quiet():
		c.set(v1alpha1.ConditionReady, metav1.ConditionUnknown, failure.Reason, "the members are not looked after: "+failure.Message)
	}
}

// rolloutStatus tells how far a change has got, nil when none is under way.
func rolloutStatus(rollout topology.Rollout) *v1alpha1.RolloutStatus {
	if rollout.Total() == 0 {
		return nil
	}
	st := &v1alpha1.RolloutStatus{
		Kind: rollout.Kind, Plan: rollout.Plan, Done: int32(len(rollout.Done)), Total: int32(rollout.Total()), Current: rollout.Current, Step: shorten(rollout.Step), Next: rollout.Next,
		PreviousVersion: rollout.PreviousVersion,
	}
	if rollout.Since != 0 {
		since := metav1.Unix(rollout.Since, 0)
		st.Since = &since
	}
	return st
}

func projectMembers(s *pass, st *v1alpha1.MySQLClusterStatus) {
	p := s.plan
	st.Phase, st.Primary = p.Phase, p.Primary
	if s.result.promotion != nil {
		st.LastPromotion = s.result.promotion
	}
	st.Rollout = rolloutStatus(p.Rollout)
	st.QuarantineSnapshots = int32(p.Quarantined)
	st.Members, st.Replicas, st.ReadyReplicas, st.Version, st.Lag = nil, 0, 0, "", ""
	worst := -1
	for _, v := range p.Members {
		m := v1alpha1.MemberStatus{
			Name: v.Name, Phase: v.Phase, Role: v.Role, Voter: v.Voter, InstanceID: v.InstanceID, VolumeID: v.VolumeID,
			Zone: v.Zone, Address: v.Address, Version: v.Version, Message: v.Step.Message,
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
			st.Version = v.Version
		}
		st.Members = append(st.Members, m)
	}
	if worst >= 0 {
		st.Lag = lagSteps[worst].name
	}
	st.ReadyMembers = fmt.Sprintf("%d/%d", st.ReadyReplicas, s.desired.Replicas)
	st.Endpoints = &v1alpha1.Endpoints{Primary: resources.PrimaryHost(s.cluster), Replicas: resources.ReplicasHost(s.cluster)}
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

// conditions sets conditions of a cluster for its present generation.
type conditions struct{ cluster *v1alpha1.MySQLCluster }

func (c conditions) set(kind string, status metav1.ConditionStatus, reason, message string) {
	const longest = 32768 // metav1.Condition
	if len(message) > longest {
		message = message[:longest]
	}
	meta.SetStatusCondition(&c.cluster.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: c.cluster.Generation,
	})
}

func (r *reporter) setCloudReachable(s *pass, c conditions) {
	switch p := s.access.problem; {
	case p != nil && !p.Quiet():
		c.set(v1alpha1.ConditionCloudReachable, metav1.ConditionFalse, p.Reason, p.Message)
	case s.planned && s.observed.CloudReachable:
		c.set(v1alpha1.ConditionCloudReachable, metav1.ConditionTrue, v1alpha1.ReasonCloudAnswered, "EC2 answers for region "+s.cluster.Spec.AWS.Region)
	}
}

// problems lists what a person should know, the most fundamental first.
func problems(s *pass, failure *engine.Problem) []topology.Finding {
	var all []topology.Finding
	add := func(p *engine.Problem) {
		if p != nil && !p.Quiet() {
			all = append(all, topology.Finding{Reason: p.Reason, Message: p.Message})
		}
	}
	add(failure)
	all = append(all, s.access.violations...)
	if !s.access.refused || s.access.unread && s.records().Account != "" {
		add(s.access.problem)
	}
	add(s.seen.dependencyProblem)
	all = append(all, s.unmet...)
	add(s.seen.preflightProblem)
	for _, p := range s.result.problems {
		add(p)
	}
	for _, p := range s.result.inTheWay {
		add(p)
	}
	for _, message := range s.seen.strangers {
		all = append(all, topology.Finding{Reason: v1alpha1.ReasonForeignResource, Message: message})
	}
	switch {
	case s.keys.leaving:
		all = append(all, topology.Finding{Reason: v1alpha1.ReasonDeletionProtected, Message: leavingMessage})
	case protectedDeletion(s):
		all = append(all, topology.Finding{Reason: v1alpha1.ReasonDeletionProtected, Message: protectedMessage})
	}
	return append(all, s.plan.Degraded...)
}

const protectedMessage = "the cluster was deleted but is protected; it keeps running and nothing in AWS is touched. To delete it for good set spec.deletionProtection to false"

const leavingMessage = "the namespace is being deleted but the cluster is protected; it keeps running and nothing in AWS is touched. Its Services and Secrets in this namespace are gone and cannot be made again. To delete it for good set spec.deletionProtection to false"

func protectedDeletion(s *pass) bool {
	return !s.cluster.DeletionTimestamp.IsZero() && s.cluster.IsProtected()
}

func (c conditions) setProgressing(s *pass, failure *engine.Problem, problems []topology.Finding) {
	switch {
	case s.planned && s.plan.Rollout.Total() > 0 && !s.plan.Failing:
		c.set(v1alpha1.ConditionProgressing, metav1.ConditionTrue, s.plan.Rolling.Reason, s.plan.Rolling.Message)
	case s.planned && s.plan.Waiting.Reason != "":
		c.set(v1alpha1.ConditionProgressing, metav1.ConditionTrue, s.plan.Waiting.Reason, s.plan.Waiting.Message)
	case s.planned && s.plan.Phase == v1alpha1.PhaseHibernated:
		c.set(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonHibernated, "the cluster hibernates")
	case s.planned && s.plan.Rolling.Reason != "":
		c.set(v1alpha1.ConditionProgressing, metav1.ConditionTrue, s.plan.Rolling.Reason, s.plan.Rolling.Message)
	case s.planned && s.plan.Phase == v1alpha1.PhaseReady:
		c.set(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonStable, "the cluster is as the spec wants it")
	case failure != nil && !failure.Quiet():
		c.set(v1alpha1.ConditionProgressing, metav1.ConditionFalse, failure.Reason, failure.Message)
	case len(problems) > 0:
		c.set(v1alpha1.ConditionProgressing, metav1.ConditionFalse, problems[0].Reason, problems[0].Message)
	default:
		c.set(v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonReconciling, "working towards the spec")
	}
}
