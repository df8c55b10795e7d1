package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// takeInCloud gives an action on EC2 its effect, and says whether it was one.
func (x *Execution) takeInCloud(ctx context.Context, action topology.Action) (bool, error) {
	if x.Requests.justTaken(topology.Identity(action), x.Clock.Now()) {
		return true, ErrUnderWay
	}
	handled, err := x.make(ctx, action)
	if !handled {
		handled, err = x.change(ctx, action)
	}
	if err == nil || errors.Is(err, ErrUnderWay) {
		return handled, err
	}
	return handled, x.cloudFailure(action, err)
}

// make gives an action that makes or removes something in EC2 its effect.
func (x *Execution) make(ctx context.Context, action topology.Action) (bool, error) {
	switch a := action.(type) {
	case topology.EnsureSecurityGroup:
		return true, x.Cloud.EnsureSecurityGroup(ctx)
	case topology.DeleteSecurityGroup:
		return true, x.Cloud.DeleteSecurityGroup(ctx, a)
	case topology.CreateVolume:
		return true, x.createVolume(ctx, a)
	case topology.LaunchInstance:
		return true, x.launch(ctx, a)
	case topology.TerminateInstance:
		return true, x.Cloud.TerminateInstance(ctx, a)
	case topology.DeleteVolume:
		return true, x.Cloud.DeleteVolume(ctx, a)
	case topology.TakeSnapshot:
		return true, x.Cloud.TakeSnapshot(ctx, a)
	case topology.CopyVolume:
		return true, x.Cloud.CopyVolume(ctx, a)
	case topology.DeleteSnapshot:
		return true, x.Cloud.DeleteSnapshot(ctx, a)
	}
	return false, nil
}

// change gives an action that changes something in EC2 its effect.
func (x *Execution) change(ctx context.Context, action topology.Action) (bool, error) {
	cloud := x.Cloud
	switch a := action.(type) {
	case topology.AttachVolume:
		return true, x.onMember(ctx, &call{action: a, finish: asItIs}, func(ctx context.Context) error { return cloud.AttachVolume(ctx, a) })
	case topology.DetachVolume:
		return true, cloud.DetachVolume(ctx, a)
	case topology.ModifyVolume:
		return true, x.modify(ctx, a)
	case topology.RetireVolume:
		return true, cloud.RetireVolume(ctx, a)
	case topology.StartInstance:
		return true, x.start(ctx, a)
	case topology.StopInstance:
		// It may be a fence, and nothing that follows from it may wait for an EC2 that answers slowly.
		finish := func(_ context.Context, x *Execution, err error) error {
			if err == nil {
				x.Requests.stopTaken(a, x.Clock.Now())
			}
			return err
		}
		return true, x.detach(ctx, shortWait, &call{action: a, finish: finish}, func(ctx context.Context) error { return cloud.StopInstance(ctx, a) })
	}
	return false, nil
}

// createVolume creates a member's data volume. It records a lack of capacity, so that the plan can choose another zone.
func (x *Execution) createVolume(ctx context.Context, a topology.CreateVolume) error {
	request, err := x.Cloud.PrepareVolume(a)
	if err != nil {
		return err
	}
	finish := func(ctx context.Context, x *Execution, err error) error {
		x.Requests.recordCapacity(a.Member, a.Zone, true, err, x.Clock.Now())
		return x.ordered(ctx, a, err)
	}
	return x.onMember(ctx, &call{action: a, finish: finish}, request)
}

// launch launches a member's instance. It records a lack of room, so that the plan can choose another subnet or zone.
func (x *Execution) launch(ctx context.Context, a topology.LaunchInstance) error {
	request, err := x.Cloud.PrepareLaunch(a)
	if err != nil {
		return err
	}
	before, subnets := x.Desired.PreviousTemplate.Hash, x.Desired.Subnets
	finish := func(ctx context.Context, x *Execution, err error) error {
		if a.Previous {
			x.Requests.RecordPreviousTemplate(before, err, x.Clock.Now())
		}
		x.Requests.recordLaunch(a, subnets, err, x.Clock.Now())
		return x.ordered(ctx, a, err)
	}
	return x.onMember(ctx, &call{action: a, finish: finish}, request)
}

// ordered takes the outcome of an order for an instance or a volume. Its client token may be spent, also because the instance ended so
// long ago that EC2 no longer shows it: then the next incarnation has another.
func (x *Execution) ordered(ctx context.Context, action topology.Action, err error) error {
	o, _ := orderOf(action)
	if !x.Requests.tokenSpent(o, err, x.Clock.Now()) && awsapi.Code(err) != codeTokenEnded {
		return err
	}
	if unsaved := x.saveRecord(ctx, o.member, func(rec *topology.MemberRecord) {
		if o.volume {
			rec.Volume = max(rec.Volume, o.incarnation+1)
		} else {
			rec.Instance = max(rec.Instance, o.incarnation+1)
		}
	}); unsaved != nil {
		return fmt.Errorf("%w; and the next incarnation cannot be recorded: %v", err, unsaved) //nolint:errorlint // EC2's error is what counts
	}
	return err
}

// modify makes a volume what the spec asks for, and counts what EC2 takes of that.
func (x *Execution) modify(ctx context.Context, a topology.ModifyVolume) error {
	modified, err := x.Cloud.ModifyVolume(ctx, a)
	if err != nil || !modified {
		return err
	}
	if err := x.saveRecord(ctx, a.Member, func(rec *topology.MemberRecord) { rec.RecordModified(a.VolumeID, x.Clock.Now()) }); err != nil {
		return AsProblem(err) // which is none of EC2's
	}
	return nil
}

// start starts a member's stopped instance. A zone may be out of capacity for that as for a launch, which EC2 says at once or
// only after it took the start.
func (x *Execution) start(ctx context.Context, a topology.StartInstance) error {
	in, zone := topology.Instance{}, ""
	if m := x.Observed.Members[a.Member]; m != nil && m.CurrentInstance() != nil {
		in = *m.CurrentInstance()
		zone = in.Zone
	}
	if failed := x.Requests.startFailed(a.InstanceID, in.StateReason, x.Clock.Now()); failed > 0 {
		x.Requests.recordCapacity(a.Member, zone, false, awsapi.StopError(in.StateReason), x.Clock.Now())
		pause := min(startPause<<min(failed-1, 8), startPauseMax)
		return &Problem{
			Reason: v1alpha1.ReasonBootFailed, After: AfterWaiting, Pause: pause, PauseFrom: pause,
			Message: fmt.Sprintf("EC2 accepted the start and the instance stopped again: %s; retrying with back-off, at most every 5 minutes", in.StateReason),
		}
	}
	cloud := x.Cloud
	finish := func(_ context.Context, x *Execution, err error) error {
		if err == nil && x.Requests.startTaken(a.InstanceID, x.Clock.Now()) > 0 {
			return nil // it was taken before as well: whether the zone has room is not known yet
		}
		x.Requests.recordCapacity(a.Member, zone, false, err, x.Clock.Now())
		return err
	}
	return x.onMember(ctx, &call{action: a, finish: finish}, func(ctx context.Context) error { return cloud.StartInstance(ctx, a) })
}
