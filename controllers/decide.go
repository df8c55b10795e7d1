package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// preflightEvery is how often a preflight that found problems is tried again.
const preflightEvery = 30 * time.Second

// preflightPause is how long it is not tried again after EC2 did not answer it; each further failure doubles that, up to
// preflightEvery. preflightAttempt is its name in memory.
const (
	preflightPause   = 2 * time.Second
	preflightAttempt = "check before launching"
)

// preflightYields is for how long a cluster without a primary looks for one before it asks EC2 what it could launch: the
// preflight takes seconds, in which nobody can write.
const preflightYields = 15 * time.Second

// preflight asks EC2 whether the spec could be launched, before anything is: once for each spec, and only while
// something has to be made.
func (r *MySQLClusterReconciler) preflight(ctx context.Context, s *scope) error {
	if s.deleting() || s.cloud == nil || !s.observed.CloudReachable || len(s.desired.Subnets) == 0 {
		return nil
	}
	if len(s.violations) > 0 {
		return nil
	}
	if !r.somethingToMake(s) {
		s.observed.Launchable = true
		return nil
	}
	n, key := s.notes, preflightKey(s.cluster)
	if !n.failingSince.IsZero() && r.Clock.Since(n.failingSince) < preflightYields {
		s.observed.Launchable = n.preflight == key && n.preflightProblem == nil
		return nil
	}
	if n.preflight == key && (n.preflightProblem == nil || r.Clock.Since(n.preflightAt) < preflightEvery) {
		s.preflightProblem = n.preflightProblem
		s.observed.Launchable = n.preflightProblem == nil
		return nil
	}
	problems, silent := r.askPreflight(ctx, s)
	if s.cloudProblem = silent; silent == nil {
		r.notePreflight(s, key, problems)
	}
	return nil
}

// askPreflight has EC2 check the spec. What it does not answer costs a dozen calls, and is not asked in every pass.
func (r *MySQLClusterReconciler) askPreflight(ctx context.Context, s *scope) ([]ec2.Problem, *problem) {
	if p := r.memory.refusal(s.notes, preflightAttempt, r.Clock.Now()); p != nil {
		return nil, p
	}
	problems, err := s.cloud.Preflight(ctx, r.preflightSpec(s))
	if err != nil {
		p := cloudError(err)
		p.pauseFrom, p.pause = preflightPause, preflightEvery
		r.memory.fail(s.notes, preflightAttempt, p, r.Clock.Now())
		return nil, p
	}
	r.memory.succeed(s.notes, preflightAttempt)
	return problems, nil
}

// notePreflight notes what a preflight found.
func (r *MySQLClusterReconciler) notePreflight(s *scope, key string, problems []ec2.Problem) {
	n := s.notes
	n.preflight, n.preflightAt, n.preflightProblem = key, r.Clock.Now(), nil
	for _, p := range problems {
		if p.Reason == v1alpha1.ReasonInsufficientCapacity {
			continue // one zone's shortage does not hold up the members of the others
		}
		found := &problem{reason: p.Reason, message: p.Field + ": " + p.Message, after: preflightEvery}
		if n.preflightProblem == nil {
			n.preflightProblem = found
		} else {
			n.preflightProblem.message += "; " + found.message
		}
	}
	s.preflightProblem = n.preflightProblem
	s.observed.Launchable = n.preflightProblem == nil
}

// somethingToMake says whether a wanted member lacks its volume or its instance.
func (r *MySQLClusterReconciler) somethingToMake(s *scope) bool {
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
	text, err := json.Marshal([]any{c.Spec.AWS, c.Spec.Storage, c.Spec.Version})
	if err != nil {
		return fmt.Sprintf("generation %d", c.Generation)
	}
	return string(text)
}

func (r *MySQLClusterReconciler) preflightSpec(s *scope) ec2.PreflightSpec {
	aws := s.cluster.Spec.AWS
	launch := r.launchSpec(s, s.desired.MemberName(0), 1)
	launch.SubnetID = aws.SubnetIDs[0]
	launch.SecurityGroupIDs = aws.SecurityGroupIDs
	return ec2.PreflightSpec{
		Launch:    launch,
		Volume:    r.volumeSpec(s, topology.CreateVolume{Member: s.desired.MemberName(0), Incarnation: 1, Zone: s.desired.Subnets[0].Zone}),
		SubnetIDs: s.subnetIDs(), ImageID: aws.ImageID, ImageSSMParameter: aws.ImageSSMParameter,
		SecurityGroupIDs: aws.SecurityGroupIDs, ClientSecurityGroupIDs: aws.ClientSecurityGroupIDs,
	}
}

// decide lets the brain plan.
func (r *MySQLClusterReconciler) decide(_ context.Context, s *scope) error {
	s.plan = topology.Next(s.desired, s.observed)
	s.planned = true
	switch {
	case !s.plan.Failing:
		s.notes.failingSince = time.Time{}
	case s.notes.failingSince.IsZero():
		s.notes.failingSince = r.Clock.Now()
	}
	for _, a := range s.plan.Actions {
		s.log.V(1).Info("planned", "action", a.String())
	}
	return nil
}
