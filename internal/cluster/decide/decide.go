// Package decide has the plan of a pass made. Before anything is launched it asks EC2 whether the spec can be.
package decide

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/bootstrap"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/execute"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/observe"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// Decider has a plan made of what was observed.
type Decider struct {
	*pass.Ports
	Executor   *execute.Executor
	preflights preflights
}

// New returns a Decider for all clusters.
func New(ports *pass.Ports, executor *execute.Executor) *Decider {
	return &Decider{Ports: ports, Executor: executor, preflights: newPreflights()}
}

// preflightEvery is how often a preflight that found problems is tried again.
const preflightEvery = 30 * time.Second

// preflightPause is how long it is not tried again after EC2 did not answer it; each further failure doubles that, up to
// preflightEvery.
const preflightPause = 2 * time.Second

// Preflight asks EC2 whether the spec could be launched, before anything is: once for each spec, and only while
// something has to be made.
func (r *Decider) Preflight(ctx context.Context, s *pass.Pass) error {
	if s.Deleting() {
		s.Cache.Preflight.Abandon()
		return nil
	}
	if s.Access.Cloud != nil {
		r.rehearse(ctx, s)
	}
	if len(s.Access.Violations) > 0 {
		return nil
	}
	foresee(r.Ports, s, func() string { return architectureOf(ctx, s) })
	if s.Access.Cloud == nil || !s.Observed.CloudReachable || len(s.Desired.Subnets) == 0 {
		return nil
	}
	if s.Seen.PreflightProblem = r.unlaunchable(s); s.Seen.PreflightProblem == nil {
		r.tryLaunch(ctx, s)
	}
	return nil
}

// tryLaunch asks EC2, unless it did, or nothing has to be made. What EC2 says when nothing has to be made any more counts for no later launch.
func (r *Decider) tryLaunch(ctx context.Context, s *pass.Pass) {
	if !r.somethingToMake(s) {
		s.Cache.Preflight.Abandon()
		s.Observed.Launchable = true
		return
	}
	n, key := &s.Cache.Preflight, PreflightKey(s.Cluster)
	if n.Run != nil || n.Passed != key || !n.Clean() && r.Clock.Since(n.At) >= preflightEvery {
		s.Access.Problem = r.askPreflight(ctx, s, key)
	}
	if s.Access.Problem == nil && n.Passed == key {
		takePreflight(s)
	}
}

// unlaunchable says why an instance would come up without mysqld, as far as that is known without asking; nil if it is not.
func (r *Decider) unlaunchable(s *pass.Pass) *engine.Problem {
	if s.Keys.Unsigned != nil {
		return s.Keys.Unsigned
	}
	if at, expired := s.Access.Policy.ReleaseKeys().Expired(r.Clock.Now()); expired && needsReleaseKeys(s.Cluster.Spec.AWS) {
		return &engine.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf("MySQL's release keys expired on %s, so no instance is launched: "+
			"put MySQL's present key block into ConfigMap %s in the operator's namespace, key %s, or set spec.aws.download.url and sha256",
			at.Format(time.DateOnly), v1alpha1.PolicyConfigMap, policy.ReleaseKeysKey)}
	}
	if tooLarge := observe.ShrinksTooFar(s); len(tooLarge) > 0 {
		whys := strings.Join(slices.Sorted(maps.Values(tooLarge)), "; ")
		return &engine.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: "spec.aws.instanceType: no instance is launched, because settings do not fit: " + whys}
	}
	return nil
}

// takePreflight has the pass go by what the preflight found last.
func takePreflight(s *pass.Pass) {
	n := s.Cache
	s.Seen.PreflightProblem, s.Observed.Launchable = n.Preflight.Problem, n.Preflight.Problem == nil
	if short := n.Preflight.Shortage; short != nil {
		s.Unmet = append(s.Unmet, topology.Finding{Reason: short.Reason, Message: short.Message})
	}
}

// askPreflight has EC2 check the spec, and takes the outcome once it is there. What EC2 does not answer costs a dozen calls, and is not asked
// in every pass.
func (r *Decider) askPreflight(ctx context.Context, s *pass.Pass, key string) (silent *engine.Problem) {
	n, errand := &s.Cache.Preflight, engine.Errand{What: engine.PreflightErrand}
	if n.Run == nil {
		if p := s.Cache.Requests.Refusal(errand, r.Clock.Now()); p != nil {
			return p
		}
		spec, err := r.PreflightSpec(s)
		if err != nil {
			r.RecordPreflight(s, key, []awsapi.Problem{{Field: "spec", Message: err.Error(), Reason: v1alpha1.ReasonInvalidSpec}})
			return nil //nolint:nilerr // it is what was found
		}
		n.Run = r.beginPreflight(ctx, s, key, spec)
	}
	run := n.Run
	select {
	case <-run.Over:
		n.Run = nil
	default:
		return nil
	}
	if run.Err != nil {
		p := engine.CloudError(run.Err)
		p.PauseFrom, p.Pause = preflightPause, preflightEvery
		s.Cache.Requests.Fail(errand, p, r.Clock.Now())
		return p
	}
	s.Cache.Requests.Succeed(errand)
	r.RecordPreflight(s, run.Key, run.Problems)
	return nil
}

// beginPreflight begins a preflight beside the passes, and waits a moment for it; not at all while others go first or a member does not
// answer, because what is done about that comes first. The cluster is looked at again when it is over.
func (r *Decider) beginPreflight(ctx context.Context, s *pass.Pass, key string, spec ec2.PreflightSpec) *pass.PreflightRun {
	cloud, cluster := s.Access.Cloud, client.ObjectKeyFromObject(s.Cluster)
	ask := func(ctx context.Context) ([]awsapi.Problem, error) { return cloud.Preflight(ctx, spec) }
	run, atOnce := r.preflights.begin(ctx, key, ask, func() { r.LookNow(cluster) })
	if !atOnce || !s.Cache.Told.FailingSince.IsZero() || s.Cache.Looks.Members.Detector.SomeSilent() {
		return run
	}
	patience := time.NewTimer(preflightPatience)
	defer patience.Stop()
	select {
	case <-run.Over:
	case <-patience.C:
	case <-ctx.Done():
	}
	return run
}

// rehearse has EC2 try what may have to be done one day to what there is, and shows what is not permitted. Only replacements of members that
// work wait for it. While a cluster fails, or something has to be made for it or cannot be, no call is made, and what is known already counts.
func (r *Decider) rehearse(ctx context.Context, s *pass.Pass) {
	known := s.Access.Cloud.Rehearsed()
	if s.Observed.CloudReachable && len(s.Access.Violations) == 0 && s.Cache.Told.FailingSince.IsZero() && !r.somethingToMake(s) {
		known = s.Access.Cloud.Rehearse(ctx, s.Owner())
		for _, p := range known.Problems {
			s.Unmet = append(s.Unmet, topology.Finding{Reason: p.Reason, Message: p.Message})
		}
	}
	s.Observed.Rehearsal = topology.Rehearsal{Completed: true, Unanswered: known.Unanswered}
	for _, permission := range topology.ReplacementPermissions() {
		s.Observed.Rehearsal.Completed = s.Observed.Rehearsal.Completed && slices.Contains(known.Answered, permission)
	}
	for _, p := range known.Problems {
		s.Observed.Rehearsal.Lacks = append(s.Observed.Rehearsal.Lacks, p.Lacks)
	}
}

// RecordPreflight records what a preflight found. One zone's shortage does not hold up the members of the others: it is only reported. Nor
// does, once there are members, what is wrong with one subnet or one group of clients, or what their launches do without.
func (r *Decider) RecordPreflight(s *pass.Pass, key string, problems []awsapi.Problem) {
	n, begun := s.Cache, len(s.Records().Members) > 0
	n.Preflight.Passed, n.Preflight.At, n.Preflight.Problem, n.Preflight.Shortage = key, r.Clock.Now(), nil, nil
	for _, p := range problems {
		found := &n.Preflight.Problem
		if p.Reason == v1alpha1.ReasonInsufficientCapacity || begun && (p.OfOnePlace() || p.Advisory) {
			found = &n.Preflight.Shortage
		}
		message := p.Message
		if p.Field != "" {
			message = p.Field + ": " + message
		}
		if *found == nil {
			*found = &engine.Problem{Reason: p.Reason, Message: message, After: preflightEvery}
		} else {
			(*found).Message += "; " + message
		}
	}
}

// somethingToMake says whether a wanted member lacks its volume or its instance.
func (r *Decider) somethingToMake(s *pass.Pass) bool {
	for ordinal := range s.Desired.Replicas {
		m := s.Observed.Members[s.Desired.MemberName(ordinal)]
		if m == nil || m.CurrentInstance() == nil || len(m.Volumes) == 0 {
			return true
		}
	}
	return false
}

// PreflightKey identifies what a preflight is about.
func PreflightKey(c *v1alpha1.MySQLCluster) string {
	text, err := json.Marshal([]any{c.Spec.AWS, c.Spec.Storage, c.Spec.Version, c.Spec.Settings(), c.ReplicaCount()})
	if err != nil {
		return fmt.Sprintf("generation %d", c.Generation)
	}
	return string(text)
}

// anyVolume stands for the id of a volume that is not made yet.
const anyVolume = "vol-0123456789abcdef0"

// PreflightSpec is what is asked about: all members, and the first one's instance with the user data that it would get. It shares nothing with
// the cluster that is written to: the preflight may outlast the pass.
func (r *Decider) PreflightSpec(s *pass.Pass) (ec2.PreflightSpec, error) {
	aws := s.Cluster.Spec.AWS
	first := topology.LaunchInstance{Member: s.Desired.MemberName(0), Incarnation: 1, VolumeIncarnation: 1, VolumeID: anyVolume}
	userData, err := bootstrap.Render(r.Executor.BootstrapInput(s, first))
	if err != nil {
		return ec2.PreflightSpec{}, err
	}
	launch := observe.LaunchSpec(s, first)
	launch.UserData = userData
	launch.SubnetID = aws.SubnetIDs[0]
	launch.SecurityGroupIDs = slices.Clone(aws.SecurityGroupIDs)
	launch.Owner.UserTags = maps.Clone(launch.Owner.UserTags)
	volume := execute.VolumeSpec(s, topology.CreateVolume{Member: s.Desired.MemberName(0), Incarnation: 1, Zone: s.Desired.Subnets[0].Zone})
	volume.Owner.UserTags = launch.Owner.UserTags
	return ec2.PreflightSpec{
		Launch: launch, Volume: volume,
		SubnetIDs: observe.SubnetIDs(s), ImageID: aws.ImageID, ImageSSMParameter: aws.ImageSSMParameter,
		SecurityGroupIDs: launch.SecurityGroupIDs, ClientSecurityGroupIDs: slices.Clone(aws.ClientSecurityGroupIDs), Replicas: int(s.Cluster.ReplicaCount()),
		Begun: len(s.Records().Members) > 0,
	}, nil
}

// Decide lets the planner plan.
func (r *Decider) Decide(_ context.Context, s *pass.Pass) error {
	s.Observed.LaunchProblem, s.Observed.SubnetsProblem = s.Seen.PreflightProblem.Text(), s.Seen.DependencyProblem.Text()
	s.Plan = topology.Next(s.Desired, s.Observed)
	s.Cache.Looks.Members.Detector.Expect(s.Plan)
	s.Planned = true
	switch {
	case !s.Plan.Failing:
		s.Cache.Told.FailingSince = time.Time{}
	case s.Cache.Told.FailingSince.IsZero():
		s.Cache.Told.FailingSince = r.Clock.Now()
	}
	if s.Plan.Gone && s.Seen.LostGroup != "" {
		s.Plan.Gone, s.Plan.RequeueAfter = false, engine.AfterWaiting
		s.Plan.Waiting = topology.Finding{Reason: v1alpha1.ReasonDeleting, Message: s.Seen.LostGroup}
		s.Result.Problems = append(s.Result.Problems, &engine.Problem{Reason: v1alpha1.ReasonForeignResource, Message: s.Seen.LostGroup, After: engine.AfterPerson})
	}
	for _, a := range s.Plan.Actions {
		s.Log.V(1).Info("planned", "action", a.String())
	}
	return nil
}
