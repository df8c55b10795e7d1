package ec2

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
)

const (
	// rehearsedFor is how long a rehearsal in which nothing was found holds: policies change seldom.
	rehearsedFor = 24 * time.Hour
	// rehearseAgain is after how long one is made again that found something, or that EC2 did not answer after it had answered another.
	rehearseAgain = 10 * time.Minute
	// rehearseSoon is after how long one is made again while EC2 has answered none: replacements wait for it.
	rehearseSoon = time.Minute
	// rehearsalTimeout bounds a whole rehearsal, of some fifteen calls.
	rehearsalTimeout = time.Minute
)

// rehearsal tries what may have to be done one day, see Cloud.Rehearse.
type rehearsal struct {
	api       awsapi.API
	inventory *inventory.Reader
	clock     clock.PassiveClock
	patience  time.Duration
	flights   singleflight.Group
	// fence is shared with the stops that are made: what a rehearsal learns of them counts for those.
	fence fence

	mu    sync.Mutex
	known Rehearsal
	next  time.Time
}

// Rehearsal is what rehearsals have shown so far.
type Rehearsal struct {
	// Problems are what the last one found.
	Problems []awsapi.Problem
	// Completed is false until EC2 has answered one to its end: then permissions may be missing that Problems does not name.
	Completed bool
	// Unanswered says why the last one did not come to its end, or cannot be made; empty otherwise.
	Unanswered string
}

// nothingToTry is Unanswered while there is nothing that a rehearsal could be made on.
const nothingToTry = "EC2 shows no running instance of the cluster with its volume attached"

// rehearse is Cloud.Rehearse.
func (r *rehearsal) rehearse(ctx context.Context, owner awsapi.Ownership) Rehearsal {
	tries, things := r.tries(owner)
	if tries == nil {
		known := r.found()
		if !known.Completed && known.Unanswered == "" {
			known.Unanswered = nothingToTry
		}
		return known
	}
	if !r.due() {
		return r.found()
	}
	done := r.flights.DoChan("rehearsal", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rehearsalTimeout)
		defer cancel()
		r.record(r.tryAll(ctx, tries, things))
		return nil, nil
	})
	patience := time.NewTimer(r.patience)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
	case <-ctx.Done():
	}
	return r.found()
}

// record takes in what a rehearsal found, and how it ended. What was found before counts as long as EC2 does not answer.
func (r *rehearsal) record(found []awsapi.Problem, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	if err == nil || len(found) > 0 {
		r.known.Problems = found
	}
	switch r.known.Unanswered = awsapi.Message(err); {
	case err != nil && !r.known.Completed:
		r.next = now.Add(rehearseSoon)
	case err == nil && len(found) == 0:
		r.next = now.Add(rehearsedFor)
	}
	r.known.Completed = r.known.Completed || err == nil
}

// CanRehearse says whether there is something of a cluster on which Rehearse can try calls.
func (c *Cloud) CanRehearse(clusterUID string) bool {
	tries, _ := c.rehearsal.tries(awsapi.Ownership{ClusterUID: clusterUID})
	return tries != nil
}

// due says whether one is due, and if so reserves the time in which it is made.
func (r *rehearsal) due() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	if now.Before(r.next) {
		return false
	}
	r.next = now.Add(rehearseAgain)
	return true
}

func (r *rehearsal) found() Rehearsal {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.known
	known.Problems = slices.Clone(known.Problems)
	return known
}

// try is a call that is made as a dry run.
type try func(ctx context.Context) error

// tryAll makes dry runs on things and returns the permissions that are missing. One that EC2 refuses for another reason, such as the
// state of what it is made on, is permitted. The error is set when EC2 did not answer one, or when one of the things is gone.
func (r *rehearsal) tryAll(ctx context.Context, tries []try, things []string) (found []awsapi.Problem, err error) {
	for _, try := range tries {
		err := try(ctx)
		if awsapi.LacksPermission(awsapi.Code(err)) {
			if gone := r.inventory.UnlessGone(ctx, err, things...); !awsapi.IsDenied(gone) {
				return found, fmt.Errorf("rehearse: %w", gone)
			}
		}
		switch {
		case passed(err):
		case awsapi.Classify(err) == awsapi.Throttled, awsapi.Classify(err) == awsapi.Transient, awsapi.Classify(err) == awsapi.Unreachable:
			return found, fmt.Errorf("rehearse: %w", err)
		case awsapi.LacksPermission(awsapi.Code(err)):
			// AWS names the thing that it was tried on, which may be another cluster's, and another one each time.
			action := awsapi.RefusedAction(err)
			problem := awsapi.Problem{Reason: v1alpha1.ReasonNotPermitted, Lacks: action, Message: fmt.Sprintf(
				"the AWS identity that serves this cluster lacks the permission %s, which will be needed one day for what there is in EC2: allow it, see docs/aws.md", action)}
			if !slices.Contains(found, problem) {
				found = append(found, problem)
			}
		case awsapi.Classify(err) == awsapi.Denied:
			return found, fmt.Errorf("rehearse: %w", err) // AWS does not accept the credentials: others say so
		}
	}
	return found, nil
}

// tries returns the dry runs for a cluster and the ids that they are made on, nil as long as there is no running instance of it with a
// volume attached.
func (r *rehearsal) tries(owner awsapi.Ownership) (tries []try, things []string) {
	known := r.inventory.Known(owner.ClusterUID)
	for _, v := range known.Volumes {
		i := slices.IndexFunc(known.Instances, func(i inventory.Instance) bool { return i.ID == v.AttachedTo && i.State == inventory.StateRunning })
		if i < 0 {
			continue
		}
		tries, things = slices.Concat(r.tryInstance(known.Instances[i]), r.tryDisk(owner, v)), []string{v.AttachedTo, v.ID}
		if g := slices.IndexFunc(known.SecurityGroups, func(g inventory.SecurityGroup) bool { return g.Name == GroupName(owner.ClusterUID) }); g >= 0 {
			tries, things = append(tries, r.tryRules(known.SecurityGroups[g].ID)...), append(things, known.SecurityGroups[g].ID)
		}
		if s := slices.IndexFunc(known.Snapshots, func(s inventory.Snapshot) bool { return s.Tags[awsapi.TagPurpose] != "" }); s >= 0 {
			things = append(things, known.Snapshots[s].ID)
			tries = append(tries, func(ctx context.Context) error {
				_, err := r.api.DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: aws.String(known.Snapshots[s].ID), DryRun: aws.Bool(true)})
				return err
			})
		}
		return tries, things
	}
	return nil, nil
}

// tryInstance are dry runs of what may have to be done to an instance, the fence first.
func (r *rehearsal) tryInstance(i inventory.Instance) []try {
	dry, ids := aws.Bool(true), []string{i.ID}
	return []try{
		func(ctx context.Context) error {
			_, err := r.fence.stop(ctx, r.api, i.ID, StopPower, dry)
			return err
		},
		func(ctx context.Context) error {
			_, err := r.fence.stop(ctx, r.api, i.ID, StopByForce, dry)
			return err
		},
		func(ctx context.Context) error {
			_, err := r.api.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: ids, DryRun: dry})
			return err
		},
		func(ctx context.Context) error {
			_, err := r.api.ModifyInstanceAttribute(ctx, &ec2.ModifyInstanceAttributeInput{
				InstanceId: aws.String(i.ID), DisableApiTermination: &types.AttributeBooleanValue{Value: aws.Bool(false)}, DryRun: dry})
			return err
		},
		func(ctx context.Context) error {
			_, err := r.api.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids, DryRun: dry})
			return err
		},
		func(ctx context.Context) error {
			_, err := r.api.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{InstanceId: aws.String(i.ID), DryRun: dry})
			return err
		},
		func(ctx context.Context) error {
			tags := map[string]string{v1alpha1.TagMember: i.Member}
			_, err := r.api.CreateTags(ctx, &ec2.CreateTagsInput{Resources: ids, Tags: awsapi.ToTags(tags), DryRun: dry})
			return err
		},
	}
}

// tryDisk are dry runs of what may have to be done to a data volume.
func (r *rehearsal) tryDisk(owner awsapi.Ownership, v inventory.Volume) []try {
	dry, id := aws.Bool(true), aws.String(v.ID)
	return []try{
		func(ctx context.Context) error {
			_, err := r.api.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{VolumeId: id, DryRun: dry,
				TagSpecifications: snapshotTags(SnapshotSpec{Owner: owner, Member: v.Member, Purpose: "rehearsal"})})
			return err
		},
		func(ctx context.Context) error {
			_, err := r.api.DetachVolume(ctx, &ec2.DetachVolumeInput{VolumeId: id, InstanceId: aws.String(v.AttachedTo), DryRun: dry})
			return err
		},
		func(ctx context.Context) error {
			_, err := r.api.AttachVolume(ctx, &ec2.AttachVolumeInput{VolumeId: id, InstanceId: aws.String(v.AttachedTo), Device: aws.String(DataDevice), DryRun: dry})
			return err
		},
		func(ctx context.Context) error {
			_, err := r.api.ModifyVolume(ctx, &ec2.ModifyVolumeInput{VolumeId: id, Size: aws.Int32(v.SizeGiB), DryRun: dry})
			return err
		},
		func(ctx context.Context) error {
			_, err := r.api.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: id, DryRun: dry})
			return err
		},
	}
}

// tryRules are dry runs of what may have to be done to the cluster's own security group.
func (r *rehearsal) tryRules(group string) []try {
	dry, id := aws.Bool(true), aws.String(group)
	rules := []types.IpPermission{{
		IpProtocol: aws.String("tcp"), FromPort: aws.Int32(v1alpha1.MySQLPort), ToPort: aws.Int32(v1alpha1.MySQLPort),
		IpRanges: []types.IpRange{{CidrIp: aws.String("192.0.2.0/24")}}, // of RFC 5737: nobody's
	}}
	return []try{
		func(ctx context.Context) error {
			_, err := r.api.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{GroupId: id, IpPermissions: rules, DryRun: dry})
			return err
		},
		func(ctx context.Context) error {
			_, err := r.api.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: id, IpPermissions: rules, DryRun: dry})
			return err
		},
		func(ctx context.Context) error {
			_, err := r.api.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: id, DryRun: dry})
			return err
		},
	}
}

// codeDryRun is EC2's way of saying that a dry run would have succeeded: as an error.
const codeDryRun = "DryRunOperation"

// passed reports that a dry run found nothing.
func passed(err error) bool { return err == nil || awsapi.Code(err) == codeDryRun }
