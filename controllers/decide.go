package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/bootstrap"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// decider has a plan made of what was observed.
type decider struct {
	*Ports
	executor *executor
}

// preflightEvery is how often a preflight that found problems is tried again.
const preflightEvery = 30 * time.Second

// preflightPause is how long it is not tried again after EC2 did not answer it; each further failure doubles that, up to
// preflightEvery.
const preflightPause = 2 * time.Second

// preflightYields is for how long a cluster without a primary looks for one before it asks EC2 what it could launch: the
// preflight takes seconds, in which nobody can write.
const preflightYields = 15 * time.Second

// lacksMySQL is told of a cluster whose machines would come up without a server.
const lacksMySQL = "spec.aws: the default image, Amazon Linux 2023, has no MySQL, so no machine is launched: name MySQL's tarball in spec.aws.download, or an image that contains MySQL in spec.aws.imageID"

// preflight asks EC2 whether the spec could be launched, before anything is: once for each spec, and only while
// something has to be made.
func (r *decider) preflight(ctx context.Context, s *pass) error {
	if s.deleting() || s.access.cloud == nil || !s.observed.CloudReachable || len(s.desired.Subnets) == 0 {
		return nil
	}
	if len(s.access.violations) > 0 {
		return nil
	}
	if s.cluster.LacksMySQL() {
		s.seen.preflightProblem = &engine.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: lacksMySQL}
		return nil
	}
	if !r.somethingToMake(s) {
		s.observed.Launchable = true
		rehearse(ctx, s)
		return nil
	}
	n, key := s.cache, preflightKey(s.cluster)
	if !n.told.failingSince.IsZero() && r.Clock.Since(n.told.failingSince) < preflightYields {
		s.observed.Launchable = n.preflight.passed == key && n.preflight.problem == nil
		return nil
	}
	clean := n.preflight.problem == nil && n.preflight.shortage == nil
	if n.preflight.passed != key || !clean && r.Clock.Since(n.preflight.at) >= preflightEvery {
		s.access.problem = r.askPreflight(ctx, s, key)
	}
	if s.access.problem == nil {
		takePreflight(s)
	}
	return nil
}

// takePreflight has the pass go by what the preflight found last.
func takePreflight(s *pass) {
	n := s.cache
	s.seen.preflightProblem, s.observed.Launchable = n.preflight.problem, n.preflight.problem == nil
	if short := n.preflight.shortage; short != nil {
		s.unmet = append(s.unmet, topology.Finding{Reason: short.Reason, Message: short.Message})
	}
}

// askPreflight has EC2 check the spec, and notes what it finds. What EC2 does not answer costs a dozen calls, and is not asked in
// every pass.
func (r *decider) askPreflight(ctx context.Context, s *pass, key string) (silent *engine.Problem) {
	if p := s.cache.requests.Refusal(engine.Errand{What: engine.PreflightErrand}, r.Clock.Now()); p != nil {
		return p
	}
	spec, err := r.preflightSpec(s)
	if err != nil {
		r.notePreflight(s, key, []ec2.Problem{{Field: "spec", Message: err.Error(), Reason: v1alpha1.ReasonInvalidSpec}})
		return nil //nolint:nilerr // it is what was found
	}
	problems, err := s.access.cloud.Preflight(ctx, spec)
	if err != nil {
		p := engine.CloudError(err)
		p.PauseFrom, p.Pause = preflightPause, preflightEvery
		s.cache.requests.Fail(engine.Errand{What: engine.PreflightErrand}, p, r.Clock.Now())
		return p
	}
	s.cache.requests.Succeed(engine.Errand{What: engine.PreflightErrand})
	r.notePreflight(s, key, problems)
	return nil
}

// rehearse has EC2 try what may have to be done one day to what there is, and tells what is not permitted. Nothing waits for it: not
// while a cluster fails either.
func rehearse(ctx context.Context, s *pass) {
	if !s.cache.told.failingSince.IsZero() {
		return
	}
	for _, p := range s.access.cloud.Rehearse(ctx, s.owner()) {
		s.unmet = append(s.unmet, topology.Finding{Reason: p.Reason, Message: p.Message})
	}
}

// notePreflight notes what a preflight found. One zone's shortage does not hold up the members of the others: it is only told. Nor does
// what is wrong with one subnet, or one group of clients, once there are members.
func (r *decider) notePreflight(s *pass, key string, problems []ec2.Problem) {
	n, begun := s.cache, len(s.records().Members) > 0
	n.preflight.passed, n.preflight.at, n.preflight.problem, n.preflight.shortage = key, r.Clock.Now(), nil, nil
	for _, p := range problems {
		found := &n.preflight.problem
		if p.Reason == v1alpha1.ReasonInsufficientCapacity || begun && p.OfOnePlace() {
			found = &n.preflight.shortage
		}
		message := p.Field + ": " + p.Message
		if *found == nil {
			*found = &engine.Problem{Reason: p.Reason, Message: message, After: preflightEvery}
		} else {
			(*found).Message += "; " + message
		}
	}
}

// somethingToMake says whether a wanted member lacks its volume or its instance.
func (r *decider) somethingToMake(s *pass) bool {
	for ordinal := range s.desired.Replicas {
		m := s.observed.Members[s.desired.MemberName(ordinal)]
		if m == nil || m.CurrentInstance() == nil || len(m.Volumes) == 0 {
			return true
		}
	}
	return false
}

// preflightKey identifies what a preflight is about.
func preflightKey(c *v1alpha1.MySQLCluster) string {
	text, err := json.Marshal([]any{c.Spec.AWS, c.Spec.Storage, c.Spec.Version, c.Spec.MySQLD, c.ReplicaCount()})
	if err != nil {
		return fmt.Sprintf("generation %d", c.Generation)
	}
	return string(text)
}

// anyVolume stands for the id of a volume that is not made yet.
const anyVolume = "vol-0123456789abcdef0"

// preflightSpec is what is asked about: all members, and the first one's machine with the user data that it would get.
func (r *decider) preflightSpec(s *pass) (ec2.PreflightSpec, error) {
	aws := s.cluster.Spec.AWS
	first := topology.LaunchInstance{Member: s.desired.MemberName(0), Incarnation: 1, VolumeIncarnation: 1, VolumeID: anyVolume}
	userData, err := bootstrap.Render(r.executor.bootstrapInput(s, first))
	if err != nil {
		return ec2.PreflightSpec{}, err
	}
	launch := r.executor.launchSpec(s, first)
	launch.UserData = userData
	launch.SubnetID = aws.SubnetIDs[0]
	launch.SecurityGroupIDs = aws.SecurityGroupIDs
	return ec2.PreflightSpec{
		Launch:    launch,
		Volume:    volumeSpec(s, topology.CreateVolume{Member: s.desired.MemberName(0), Incarnation: 1, Zone: s.desired.Subnets[0].Zone}),
		SubnetIDs: subnetIDs(s), ImageID: aws.ImageID, ImageSSMParameter: aws.ImageSSMParameter,
		SecurityGroupIDs: aws.SecurityGroupIDs, ClientSecurityGroupIDs: aws.ClientSecurityGroupIDs, Replicas: int(s.cluster.ReplicaCount()),
	}, nil
}

// decide lets the brain plan.
func (r *decider) decide(_ context.Context, s *pass) error {
	s.observed.LaunchProblem, s.observed.SubnetsProblem = s.seen.preflightProblem.Text(), s.seen.dependencyProblem.Text()
	s.plan = topology.Next(s.desired, s.observed)
	s.cache.looks.members.Detector.Expect(s.plan)
	s.planned = true
	switch {
	case !s.plan.Failing:
		s.cache.told.failingSince = time.Time{}
	case s.cache.told.failingSince.IsZero():
		s.cache.told.failingSince = r.Clock.Now()
	}
	if s.plan.Gone && s.seen.lostGroup != "" {
		s.plan.Gone, s.plan.RequeueAfter = false, engine.AfterWaiting
		s.plan.Waiting = topology.Finding{Reason: v1alpha1.ReasonDeleting, Message: s.seen.lostGroup}
		s.result.problems = append(s.result.problems, &engine.Problem{Reason: v1alpha1.ReasonForeignResource, Message: s.seen.lostGroup, After: engine.AfterPerson})
	}
	for _, a := range s.plan.Actions {
		s.log.V(1).Info("planned", "action", a.String())
	}
	return nil
}
