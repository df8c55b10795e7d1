package ec2

import (
	"context"
	"fmt"
	"maps"
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
	// rehearseAgain is after how long one is made again that found something.
	rehearseAgain = 10 * time.Minute
	// rehearseSoon is after how long the dry runs are made again that EC2 did not answer: replacements may wait for them. The pause doubles up
	// to rehearseLate, which is short enough to get an answer from an EC2 that throttles most.
	rehearseSoon = 15 * time.Second
	rehearseLate = 2 * time.Minute
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
	// answers are EC2's last ones, by the permission.
	answers map[string]answer
	next    time.Time
	pause   time.Duration
}

// answer is what EC2 said to a dry run.
type answer struct {
	// lacks is the permission that is missing; nil when none is.
	lacks *awsapi.Problem
	// at is when it said so, zero once EC2 has answered the other dry runs of the same rehearsal as well: until then it is not made again for
	// those, unless it found something and is old.
	at time.Time
}

// Rehearsal is what rehearsals have shown so far.
type Rehearsal struct {
	// Problems are what the last one found.
	Problems []awsapi.Problem
	// Completed is false until EC2 has answered one to its end: then permissions may be missing that Problems does not name.
	Completed bool
	// Answered are the permissions of which EC2 has answered a dry run: those that are missing are in Problems.
	Answered []string
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
		answers, err := r.tryAll(ctx, r.unanswered(tries), things)
		r.record(tries, answers, err)
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

// unanswered returns the dry runs that the rehearsal under way has no answer to yet.
func (r *rehearsal) unanswered(tries []try) []try {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(tries), func(t try) bool {
		a := r.answers[t.permission]
		return !a.at.IsZero() && (a.lacks == nil || r.clock.Since(a.at) < rehearseAgain)
	})
}

// record takes in what EC2 answered, and why it did not answer the rest. To that its last answers count.
func (r *rehearsal) record(tries []try, answers map[string]answer, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answers == nil {
		r.answers = map[string]answer{}
	}
	maps.Copy(r.answers, answers)
	r.known.Problems, r.known.Unanswered = nil, awsapi.Message(err)
	for _, t := range tries {
		if lacks := r.answers[t.permission].lacks; lacks != nil && !slices.Contains(r.known.Problems, *lacks) {
			r.known.Problems = append(r.known.Problems, *lacks)
		}
	}
	r.known.Answered = slices.Sorted(maps.Keys(r.answers))
	now := r.clock.Now()
	if err != nil {
		r.pause = min(max(2*r.pause, rehearseSoon), rehearseLate)
		r.next = now.Add(r.pause)
		return
	}
	r.known.Completed, r.pause, r.next = true, 0, now.Add(rehearseAgain)
	if len(r.known.Problems) == 0 {
		r.next = now.Add(rehearsedFor)
	}
	for permission, a := range r.answers {
		r.answers[permission] = answer{lacks: a.lacks}
	}
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
	r.next = now.Add(rehearsalTimeout)
	return true
}

func (r *rehearsal) found() Rehearsal {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.known
	known.Problems, known.Answered = slices.Clone(known.Problems), slices.Clone(known.Answered)
	return known
}

// try is a call that is made as a dry run, and the permission that it is for.
type try struct {
	permission string
	call       func(ctx context.Context) error
}

// tryAll makes dry runs on things and returns what EC2 answered. The error is set when it did not answer one, or when one of the things is
// gone. One that EC2 throttles does not keep the others from being made: it counts the calls of each action for themselves.
func (r *rehearsal) tryAll(ctx context.Context, tries []try, things []string) (answers map[string]answer, unanswered error) {
	answers = map[string]answer{}
	for _, t := range tries {
		lacks, err := r.ask(ctx, t, things)
		if err == nil {
			answers[t.permission] = answer{lacks: lacks, at: r.clock.Now()}
			continue
		}
		if unanswered == nil {
			unanswered = fmt.Errorf("rehearse: %w", err)
		}
		if class := awsapi.Classify(err); class != awsapi.Throttled && class != awsapi.Transient {
			break
		}
	}
	return answers, unanswered
}

// ask makes a dry run and returns the permission that is missing. One that EC2 refuses for another reason, such as the state of what it is
// made on, is permitted.
func (r *rehearsal) ask(ctx context.Context, t try, things []string) (lacks *awsapi.Problem, err error) {
	err = t.call(ctx)
	if awsapi.LacksPermission(awsapi.Code(err)) {
		if gone := r.inventory.UnlessGone(ctx, err, things...); !awsapi.IsDenied(gone) {
			return nil, gone
		}
		// AWS names the thing that it was tried on, which may be another cluster's, and another one each time.
		action := awsapi.RefusedAction(err)
		return &awsapi.Problem{Reason: v1alpha1.ReasonNotPermitted, Lacks: action, Message: fmt.Sprintf(
			"the AWS identity that serves this cluster lacks the permission %s, which will be needed one day for what there is in EC2: allow it, see docs/aws.md", action)}, nil
	}
	if unjudged(err) {
		return nil, err
	}
	return nil, nil
}

// unjudged says whether EC2 did not answer a dry run, or does not accept the credentials.
func unjudged(err error) bool {
	silent := []awsapi.Class{awsapi.Throttled, awsapi.Transient, awsapi.Unreachable, awsapi.Denied}
	return !passed(err) && slices.Contains(silent, awsapi.Classify(err))
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
		tries = slices.Concat(r.tryReplacement(known.Instances[i], v), r.tryInstance(known.Instances[i]), r.tryDisk(owner, v))
		things = []string{v.AttachedTo, v.ID}
		if g := slices.IndexFunc(known.SecurityGroups, func(g inventory.SecurityGroup) bool { return g.Name == GroupName(owner.ClusterUID) }); g >= 0 {
			tries, things = append(tries, r.tryRules(known.SecurityGroups[g].ID)...), append(things, known.SecurityGroups[g].ID)
		}
		if s := slices.IndexFunc(known.Snapshots, func(s inventory.Snapshot) bool { return s.Tags[awsapi.TagPurpose] != "" }); s >= 0 {
			things = append(things, known.Snapshots[s].ID)
			tries = append(tries, try{"ec2:DeleteSnapshot", func(ctx context.Context) error {
				_, err := r.api.DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: aws.String(known.Snapshots[s].ID), DryRun: aws.Bool(true)})
				return err
			}})
		}
		return tries, things
	}
	return nil, nil
}

// tryReplacement are dry runs of what takes a member from one instance to another, the fence first. They come before the others, because
// members are replaced only once EC2 has answered these.
func (r *rehearsal) tryReplacement(i inventory.Instance, v inventory.Volume) []try {
	dry, id := aws.Bool(true), aws.String(v.ID)
	return []try{
		{"ec2:StopInstances", func(ctx context.Context) error {
			if _, err := r.fence.stop(ctx, r.api, i.ID, StopPower, dry); unjudged(err) {
				return err
			}
			_, err := r.fence.stop(ctx, r.api, i.ID, StopByForce, dry)
			return err
		}},
		{"ec2:DetachVolume", func(ctx context.Context) error {
			_, err := r.api.DetachVolume(ctx, &ec2.DetachVolumeInput{VolumeId: id, InstanceId: aws.String(v.AttachedTo), DryRun: dry})
			return err
		}},
		{"ec2:AttachVolume", func(ctx context.Context) error {
			_, err := r.api.AttachVolume(ctx, &ec2.AttachVolumeInput{VolumeId: id, InstanceId: aws.String(v.AttachedTo), Device: aws.String(DataDevice), DryRun: dry})
			return err
		}},
	}
}

// tryInstance are dry runs of what else may have to be done to an instance.
func (r *rehearsal) tryInstance(i inventory.Instance) []try {
	dry, ids := aws.Bool(true), []string{i.ID}
	return []try{
		{"ec2:StartInstances", func(ctx context.Context) error {
			_, err := r.api.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: ids, DryRun: dry})
			return err
		}},
		{"ec2:ModifyInstanceAttribute", func(ctx context.Context) error {
			call := &ec2.ModifyInstanceAttributeInput{InstanceId: aws.String(i.ID), Groups: i.SecurityGroupIDs, DryRun: dry}
			if len(i.SecurityGroupIDs) == 0 { // with groups, AWS judges those as well
				call.DisableApiTermination = &types.AttributeBooleanValue{Value: aws.Bool(false)}
			}
			_, err := r.api.ModifyInstanceAttribute(ctx, call)
			return err
		}},
		{"ec2:TerminateInstances", func(ctx context.Context) error {
			_, err := r.api.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids, DryRun: dry})
			return err
		}},
		{"ec2:GetConsoleOutput", func(ctx context.Context) error {
			_, err := r.api.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{InstanceId: aws.String(i.ID), DryRun: dry})
			return err
		}},
		{"ec2:CreateTags", func(ctx context.Context) error {
			tags := map[string]string{v1alpha1.TagMember: i.Member}
			_, err := r.api.CreateTags(ctx, &ec2.CreateTagsInput{Resources: ids, Tags: awsapi.ToTags(tags), DryRun: dry})
			return err
		}},
	}
}

// tryDisk are dry runs of what else may have to be done to a data volume.
func (r *rehearsal) tryDisk(owner awsapi.Ownership, v inventory.Volume) []try {
	dry, id := aws.Bool(true), aws.String(v.ID)
	return []try{
		{"ec2:CreateSnapshot", func(ctx context.Context) error {
			_, err := r.api.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{VolumeId: id, DryRun: dry,
				TagSpecifications: snapshotTags(SnapshotSpec{Owner: owner, Member: v.Member, Purpose: "rehearsal"})})
			return err
		}},
		{"ec2:ModifyVolume", func(ctx context.Context) error {
			_, err := r.api.ModifyVolume(ctx, &ec2.ModifyVolumeInput{VolumeId: id, Size: aws.Int32(v.SizeGiB), DryRun: dry})
			return err
		}},
		{"ec2:DeleteVolume", func(ctx context.Context) error {
			_, err := r.api.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: id, DryRun: dry})
			return err
		}},
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
		{"ec2:AuthorizeSecurityGroupIngress", func(ctx context.Context) error {
			_, err := r.api.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{GroupId: id, IpPermissions: rules, DryRun: dry})
			return err
		}},
		{"ec2:RevokeSecurityGroupIngress", func(ctx context.Context) error {
			_, err := r.api.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: id, IpPermissions: rules, DryRun: dry})
			return err
		}},
		{"ec2:DeleteSecurityGroup", func(ctx context.Context) error {
			_, err := r.api.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: id, DryRun: dry})
			return err
		}},
	}
}

// codeDryRun is EC2's way of saying that a dry run would have succeeded: as an error.
const codeDryRun = "DryRunOperation"

// passed reports that a dry run found nothing.
func passed(err error) bool { return err == nil || awsapi.Code(err) == codeDryRun }
