package ec2

import (
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

const device = "/dev/sdf"

func attached(volume string) func(inventory.Inventory) bool {
	return func(inv inventory.Inventory) bool {
		return find(inv.Volumes, func(v inventory.Volume) bool { return v.ID == volume && v.AttachState == inventory.AttachAttached }) != nil
	}
}

// The life of a member: volume and instance, attach, replace the instance, delete all.
func TestMemberLife(t *testing.T) {
	l := newLab(t)
	ctx := t.Context()
	old, v := l.running("orders-0"), l.available("orders-0")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(l.cloud.AttachVolume(ctx, l.owner.ClusterUID, v.ID, old.ID, device))
	must(l.cloud.AttachVolume(ctx, l.owner.ClusterUID, v.ID, old.ID, device))
	inv := l.until("attached", attached(v.ID))
	if got := inv.Volumes[0]; got.AttachedTo != old.ID || got.State != inventory.VolumeInUse {
		t.Errorf("the volume is %+v", got)
	}
	if a := find(l.observe().Instances[0].Attachments, func(a inventory.Attachment) bool { return a.VolumeID == v.ID }); a == nil || a.Device != device {
		t.Errorf("the instance's attachments do not show %s at %s", v.ID, device)
	}

	next, err := l.cloud.LaunchInstance(ctx, l.launchSpec("orders-0", 2))
	must(err)
	l.until("running", func(inv inventory.Inventory) bool {
		return find(inv.Instances, func(i inventory.Instance) bool { return i.ID == next.ID && i.State == inventory.StateRunning }) != nil
	})
	if err := l.cloud.AttachVolume(ctx, l.owner.ClusterUID, v.ID, next.ID, device); !awsapi.IsWaiting(err) {
		t.Errorf("attaching what is attached elsewhere: %v (%s), want Waiting", err, awsapi.Classify(err))
	}
	must(l.cloud.StopInstance(ctx, l.owner.ClusterUID, old.ID, StopPower))
	l.until("stopped", func(inv inventory.Inventory) bool {
		return find(inv.Instances, func(i inventory.Instance) bool { return i.ID == old.ID && i.State == inventory.StateStopped }) != nil
	})
	must(l.cloud.DetachVolume(ctx, l.owner.ClusterUID, v.ID, old.ID))
	must(l.cloud.DetachVolume(ctx, l.owner.ClusterUID, v.ID, old.ID))
	l.until("detached", func(inv inventory.Inventory) bool { return inv.Volumes[0].State == inventory.VolumeAvailable })
	must(l.cloud.DetachVolume(ctx, l.owner.ClusterUID, v.ID, old.ID))
	must(l.cloud.AttachVolume(ctx, l.owner.ClusterUID, v.ID, next.ID, device))
	l.until("attached", attached(v.ID))
	if err := l.cloud.DeleteVolume(ctx, l.owner.ClusterUID, v.ID); !awsapi.IsWaiting(err) {
		t.Errorf("deleting an attached volume: %v, want Waiting", err)
	}

	for _, id := range []string{old.ID, next.ID} {
		must(l.cloud.TerminateInstance(ctx, l.owner.ClusterUID, id))
		must(l.cloud.TerminateInstance(ctx, l.owner.ClusterUID, id))
	}
	l.until("terminated", func(inv inventory.Inventory) bool {
		return find(inv.Instances, func(i inventory.Instance) bool { return i.State != inventory.StateTerminated }) == nil
	})
	l.until("free", func(inv inventory.Inventory) bool {
		return inv.Volumes[0].State == inventory.VolumeAvailable && inv.Volumes[0].AttachedTo == ""
	})
	must(l.cloud.DeleteVolume(ctx, l.owner.ClusterUID, v.ID))
	l.until("deleted", func(inv inventory.Inventory) bool { return len(inv.Volumes) == 0 })
	must(l.cloud.DeleteVolume(ctx, l.owner.ClusterUID, v.ID))
	if inv := l.observe(); len(inv.Volumes) != 0 {
		t.Errorf("the deleted volume shows: %v", inv.Volumes)
	}
}

func TestStopTellsTheServerHowHard(t *testing.T) {
	l := newLab(t)
	for member, how := range map[string]Stop{"orders-0": StopGracefully, "orders-1": StopPower, "orders-2": StopByForce} {
		force, skip := how == StopByForce, how != StopGracefully
		i := l.running(member)
		if err := l.cloud.StopInstance(t.Context(), l.owner.ClusterUID, i.ID, how); err != nil {
			t.Fatal(err)
		}
		world, err := server.moto.World(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := find(world.Instances, func(x moto.Instance) bool { return x.ID == i.ID })
		if got == nil || got.Force != force || got.SkipShutdown != skip {
			t.Errorf("force %t, skip %t: the server saw %+v", force, skip, got)
		}
		l.until("stopped", func(inv inventory.Inventory) bool {
			return find(inv.Instances, func(x inventory.Instance) bool { return x.ID == i.ID && x.State == inventory.StateStopped }) != nil
		})
		if err := l.cloud.StartInstance(t.Context(), l.owner.ClusterUID, i.ID); err != nil {
			t.Error(err)
		}
		if err := l.cloud.StartInstance(t.Context(), l.owner.ClusterUID, i.ID); err != nil {
			t.Errorf("starting twice: %v", err)
		}
	}
}

func TestLostAnswersOfWrites(t *testing.T) {
	l := newLab(t)
	ctx := t.Context()
	i, v := l.running("orders-0"), l.available("orders-0")
	// Only the first answer is lost: the SDK's own second try meets a call that took effect.
	l.fault(proxy.LoseAnswers(1, "AttachVolume"))
	if err := l.cloud.AttachVolume(ctx, l.owner.ClusterUID, v.ID, i.ID, device); err != nil {
		t.Errorf("attach: %v", err)
	}
	l.until("attached", attached(v.ID))
	for _, action := range []string{"StopInstances", "DetachVolume", "TerminateInstances", "DeleteVolume"} {
		l.fault(proxy.LoseAnswers(2, action))
	}
	twice := func(what string, do func() error) {
		t.Helper()
		if err := do(); err != nil && !awsapi.IsUnreachable(err) {
			t.Errorf("%s, answers lost: %v", what, err)
		}
		if err := do(); err != nil {
			t.Errorf("%s again: %v", what, err)
		}
	}
	twice("stop", func() error { return l.cloud.StopInstance(ctx, l.owner.ClusterUID, i.ID, StopPower) })
	l.until("stopped", func(inv inventory.Inventory) bool { return inv.Instances[0].State == inventory.StateStopped })
	twice("detach", func() error { return l.cloud.DetachVolume(ctx, l.owner.ClusterUID, v.ID, i.ID) })
	twice("terminate", func() error { return l.cloud.TerminateInstance(ctx, l.owner.ClusterUID, i.ID) })
	l.pass(time.Second)
	l.observe()
	twice("delete", func() error { return l.cloud.DeleteVolume(ctx, l.owner.ClusterUID, v.ID) })
}

func TestWhatDoesNotExistIsDeleted(t *testing.T) {
	l := newLab(t)
	for what, err := range map[string]error{
		"instance":                  l.cloud.TerminateInstance(t.Context(), l.owner.ClusterUID, "i-0123456789abcdef0"),
		"instance to be stopped":    l.cloud.StopInstance(t.Context(), l.owner.ClusterUID, "i-0123456789abcdef0", StopPower),
		"snapshot":                  l.cloud.DeleteSnapshot(t.Context(), l.owner.ClusterUID, "snap-0123456789abcdef0"),
		"volume":                    l.cloud.DeleteVolume(t.Context(), l.owner.ClusterUID, "vol-0123456789abcdef0"),
		"group":                     l.cloud.DeleteSecurityGroup(t.Context(), l.owner.ClusterUID, "sg-0123456789abcdef0"),
		"attachment of a lost disk": l.cloud.DetachVolume(t.Context(), l.owner.ClusterUID, "vol-0123456789abcdef0", "i-0123456789abcdef0"),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Known to the store, but gone behind the operator's back.
	v := l.available("orders-0")
	if _, err := l.sdk().DeleteVolume(t.Context(), &awsec2.DeleteVolumeInput{VolumeId: aws.String(v.ID)}); err != nil {
		t.Fatal(err)
	}
	l.pass(inventory.FreshFor + time.Second)
	if err := l.cloud.DeleteVolume(t.Context(), l.owner.ClusterUID, v.ID); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"start":  l.cloud.StartInstance(t.Context(), l.owner.ClusterUID, "i-0123456789abcdef0"),
		"attach": l.cloud.AttachVolume(t.Context(), l.owner.ClusterUID, "vol-0123456789abcdef0", "i-0123456789abcdef0", device),
	} {
		if !awsapi.IsNotFound(err) {
			t.Errorf("%s: %v, want NotFound", what, err)
		}
	}
}

func TestForeignResourcesAreNeverTouched(t *testing.T) {
	l := newLab(t)
	ctx, sdk := t.Context(), l.sdk()
	run, err := sdk.RunInstances(ctx, &awsec2.RunInstancesInput{ImageId: aws.String(l.seeded.Image), InstanceType: "m6i.large",
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: aws.String(l.seeded.Subnets[zoneA])})
	if err != nil {
		t.Fatal(err)
	}
	vol, err := sdk.CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: aws.String(zoneA), Size: aws.Int32(1)})
	if err != nil {
		t.Fatal(err)
	}
	sg, err := sdk.CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{GroupName: aws.String(GroupName(l.owner.ClusterUID)),
		Description: aws.String("x"), VpcId: aws.String(l.seeded.VPC)})
	if err != nil {
		t.Fatal(err)
	}
	i, v, g := *run.Instances[0].InstanceId, *vol.VolumeId, *sg.GroupId
	ours := l.volume("orders-0")
	l.proxy.ResetCalls()
	for what, do := range map[string]func() error{
		"start":          func() error { return l.cloud.StartInstance(ctx, l.owner.ClusterUID, i) },
		"stop":           func() error { return l.cloud.StopInstance(ctx, l.owner.ClusterUID, i, StopPower) },
		"terminate":      func() error { return l.cloud.TerminateInstance(ctx, l.owner.ClusterUID, i) },
		"delete":         func() error { return l.cloud.DeleteVolume(ctx, l.owner.ClusterUID, v) },
		"retire":         func() error { return l.cloud.RetireVolume(ctx, l.owner.ClusterUID, v) },
		"detach":         func() error { return l.cloud.DetachVolume(ctx, l.owner.ClusterUID, v, i) },
		"attach theirs":  func() error { return l.cloud.AttachVolume(ctx, l.owner.ClusterUID, v, i, device) },
		"attach to them": func() error { return l.cloud.AttachVolume(ctx, l.owner.ClusterUID, ours.ID, i, device) },
		"delete group":   func() error { return l.cloud.DeleteSecurityGroup(ctx, l.owner.ClusterUID, g) },
		"claim by tags":  func() error { return l.cloud.RestoreTags(ctx, l.owner.ClusterUID, v, l.owner.TagsOf("orders-0", 1)) },
		"snapshot": func() error {
			_, err := l.cloud.CreateSnapshot(ctx, SnapshotSpec{Owner: l.owner, Member: "orders-0", VolumeID: v, Purpose: "final"})
			return err
		},
		"use a group of our name": func() error {
			_, err := l.cloud.EnsureSecurityGroup(ctx, SecurityGroupSpec{Owner: l.owner, VPCID: l.seeded.VPC})
			return err
		},
	} {
		if err := do(); !errors.Is(err, awsapi.ErrForeign) || awsapi.Explain(err).Reason != v1alpha1.ReasonForeignResource {
			t.Errorf("%s: %v, want ErrForeign", what, err)
		}
	}
	for _, call := range l.proxy.Calls() {
		if len(call.Action) < 8 || call.Action[:8] != "Describe" {
			t.Errorf("%s was called", call.Action)
		}
	}
	if err := l.cloud.RestoreTags(ctx, l.owner.ClusterUID, ours.ID, map[string]string{v1alpha1.TagClusterUID: "another"}); !errors.Is(err, awsapi.ErrForeign) {
		t.Errorf("handing a volume to another cluster: %v, want ErrForeign", err)
	}
}

func TestRetiredVolume(t *testing.T) {
	l := newLab(t)
	v := l.available("orders-0")
	if err := l.cloud.RetireVolume(t.Context(), l.owner.ClusterUID, v.ID); err != nil {
		t.Fatal(err)
	}
	for _, cloud := range []*Cloud{l.cloud, l.newCloud()} {
		inv, err := cloud.Inventory.Observe(t.Context(), l.owner.ClusterUID, 0)
		if err != nil || len(inv.Volumes) != 1 || !inv.Volumes[0].Retired {
			t.Errorf("%+v (%v)", inv.Volumes, err)
		}
	}
	// The incarnations were forgotten: the member's next volume has the same one, and is another.
	again := l.volumeSpec("orders-0", 1)
	again.Owner.CountedSince = time.Now()
	for _, cloud := range []*Cloud{l.cloud, l.newCloud()} {
		next, err := cloud.CreateVolume(t.Context(), again)
		if err != nil || next.ID == v.ID || next.Retired {
			t.Errorf("created %+v (%v)", next, err)
		}
	}
	if n := len(l.realVolumes()); n != 2 {
		t.Errorf("%d volumes, want the retired one and one more", n)
	}
}

// TestModifyVolumeSaysWhatCounts: only what EC2 took does.
func TestModifyVolumeSaysWhatCounts(t *testing.T) {
	l := newLab(t)
	v := l.available("orders-0")
	wanted := l.volumeSpec("orders-0", 1).VolumeConfiguration
	for _, row := range []struct {
		more int32
		want bool
	}{{0, false}, {10, true}} {
		wanted.SizeGiB = v.SizeGiB + row.more
		if modified, err := l.cloud.ModifyVolume(t.Context(), l.owner.ClusterUID, v.ID, wanted); err != nil || modified != row.want {
			t.Errorf("to %d GiB: %t (%v), want %t", wanted.SizeGiB, modified, err, row.want)
		}
	}
}

// TestConvertedVolumeIsWhatTheSpecSays: one modification is enough, also where the performance is the same for both types.
func TestConvertedVolumeIsWhatTheSpecSays(t *testing.T) {
	l := newLab(t)
	spec := l.volumeSpec("orders-0", 1)
	spec.VolumeConfiguration = VolumeConfiguration{SizeGiB: 100, Type: "gp3", IOPS: 10000, Throughput: 300}
	v, err := l.cloud.CreateVolume(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, wanted := range []VolumeConfiguration{{SizeGiB: 100, Type: "io2", IOPS: 10000}, spec.VolumeConfiguration} {
		l.until("modified", func(inventory.Inventory) bool {
			modified, err := l.cloud.ModifyVolume(t.Context(), l.owner.ClusterUID, v.ID, wanted)
			if err != nil && !awsapi.IsWaiting(err) {
				t.Fatal(err)
			}
			return modified
		})
		is := l.realVolumes()[0]
		if got := (VolumeConfiguration{aws.ToInt32(is.Size), string(is.VolumeType), aws.ToInt32(is.Iops), aws.ToInt32(is.Throughput)}); got != wanted {
			t.Errorf("it is %+v, want %+v", got, wanted)
		}
	}
}

func TestSnapshots(t *testing.T) {
	l := newLab(t)
	ctx := t.Context()
	v := l.available("orders-0")
	first, err := l.cloud.CreateSnapshot(ctx, SnapshotSpec{Owner: l.owner, Member: "orders-0", VolumeID: v.ID, Purpose: "final"})
	if err != nil {
		t.Fatal(err)
	}
	if first.State != inventory.SnapshotPending || first.VolumeID != v.ID || first.Member != "orders-0" {
		t.Errorf("%+v", first)
	}
	for _, cloud := range []*Cloud{l.cloud, l.newCloud()} {
		again, err := cloud.CreateSnapshot(ctx, SnapshotSpec{Owner: l.owner, Member: "orders-0", VolumeID: v.ID, Purpose: "final"})
		if err != nil || again.ID != first.ID {
			t.Errorf("again: %s, %v", again.ID, err)
		}
	}
	if other, err := l.cloud.CreateSnapshot(ctx, SnapshotSpec{Owner: l.owner, Member: "orders-0", VolumeID: v.ID, Purpose: "errant"}); err != nil || other.ID == first.ID {
		t.Errorf("for another purpose: %s, %v", other.ID, err)
	}
	l.until("completed", func(inv inventory.Inventory) bool {
		return len(inv.Snapshots) == 2 && find(inv.Snapshots, func(s inventory.Snapshot) bool { return s.State != inventory.SnapshotCompleted }) == nil
	})
}

// CreateSnapshot has no client token: after a lost answer it is looked for, and only then asked for again.
func TestLostSnapshotIsNotMadeTwice(t *testing.T) {
	l := newLab(t)
	ctx := t.Context()
	v := l.available("orders-0")
	l.fault(proxy.Rule{Kind: proxy.Absent, For: 20 * time.Second, Actions: []string{"CreateSnapshot"}})
	l.fault(proxy.LoseAnswers(1, "CreateSnapshot"))
	if _, err := l.cloud.CreateSnapshot(ctx, SnapshotSpec{Owner: l.owner, Member: "orders-0", VolumeID: v.ID, Purpose: "final"}); !awsapi.IsUnreachable(err) {
		t.Errorf("lost answer: %v", err)
	}
	if _, err := l.cloud.CreateSnapshot(ctx, SnapshotSpec{Owner: l.owner, Member: "orders-0", VolumeID: v.ID, Purpose: "final"}); !awsapi.IsWaiting(err) {
		t.Errorf("right after: %v, want Waiting", err)
	}
	if err := l.cloud.DeleteSnapshotsFor(ctx, l.owner.ClusterUID, "final"); !awsapi.IsWaiting(err) {
		t.Errorf("deleting it right after: %v, want Waiting", err)
	}
	if err := l.cloud.DeleteSnapshotsFor(ctx, l.owner.ClusterUID, "another"); err != nil {
		t.Errorf("deleting what was never asked for: %v", err)
	}
	l.pass(21 * time.Second)
	if _, err := l.cloud.CreateSnapshot(ctx, SnapshotSpec{Owner: l.owner, Member: "orders-0", VolumeID: v.ID, Purpose: "final"}); err != nil {
		t.Errorf("once shown: %v", err)
	}
	l.pass(unknownFor)
	if _, err := l.cloud.CreateSnapshot(ctx, SnapshotSpec{Owner: l.owner, Member: "orders-0", VolumeID: v.ID, Purpose: "final"}); err != nil {
		t.Error(err)
	}
	if n := len(l.observe().Snapshots); n != 1 {
		t.Errorf("%d snapshots, want 1", n)
	}
}

// What was taken in quarantine goes after its time; what others took stays.
func TestOnlyOurOwnSnapshotsAreDeleted(t *testing.T) {
	l := newLab(t)
	ctx := t.Context()
	v := l.available("orders-0")
	ours, err := l.cloud.CreateSnapshot(ctx, SnapshotSpec{Owner: l.owner, Member: "orders-0", VolumeID: v.ID, Purpose: "errant-1a2b"})
	if err != nil {
		t.Fatal(err)
	}
	// Backup plans copy the tags of the volume to what they take.
	plan, err := l.sdk().CreateSnapshot(ctx, &awsec2.CreateSnapshotInput{VolumeId: aws.String(v.ID),
		TagSpecifications: []types.TagSpecification{awsapi.TagSpec(types.ResourceTypeSnapshot, v.Tags)}})
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := l.sdk().CreateSnapshot(ctx, &awsec2.CreateSnapshotInput{VolumeId: aws.String(v.ID)})
	if err != nil {
		t.Fatal(err)
	}
	l.until("completed", func(inv inventory.Inventory) bool {
		return len(inv.Snapshots) == 1 && inv.Snapshots[0].State == inventory.SnapshotCompleted && !inv.Snapshots[0].StartTime.IsZero()
	})
	for _, cloud := range []*Cloud{l.cloud, l.newCloud()} {
		for _, id := range []string{*plan.SnapshotId, *foreign.SnapshotId} {
			if err := cloud.DeleteSnapshot(ctx, l.owner.ClusterUID, id); !errors.Is(err, awsapi.ErrForeign) {
				t.Errorf("deleting a snapshot of somebody else's: %v, want ErrForeign", err)
			}
		}
	}
	if n := l.proxy.Counts()["DeleteSnapshot"]; n != 0 {
		t.Errorf("%d calls of DeleteSnapshot", n)
	}
	l.fault(proxy.LoseAnswers(2, "DeleteSnapshot"))
	if err := l.cloud.DeleteSnapshot(ctx, l.owner.ClusterUID, ours.ID); err != nil && !awsapi.IsUnreachable(err) {
		t.Error(err)
	}
	for range 2 {
		if err := l.cloud.DeleteSnapshot(ctx, l.owner.ClusterUID, ours.ID); err != nil {
			t.Errorf("again: %v", err)
		}
	}
	if inv := l.observe(); len(inv.Snapshots) != 1 || inv.Snapshots[0].ID != *plan.SnapshotId {
		t.Errorf("left are %+v, want the one of the backup plan", inv.Snapshots)
	}
}

// TestSnapshotsAreDeletedByWhatTheyWereTakenFor: of this cluster and this purpose, of whichever volume, and no others.
func TestSnapshotsAreDeletedByWhatTheyWereTakenFor(t *testing.T) {
	l := newLab(t)
	ctx := t.Context()
	other := l.owner
	other.ClusterUID = "7d1c3e4f-0123-4567-89ab-0123456789ab"
	take := func(owner awsapi.Ownership, member, purpose string) string {
		was := l.owner
		defer func() { l.owner = was }()
		l.owner = owner // whose volume it is as well
		s, err := l.cloud.CreateSnapshot(ctx, SnapshotSpec{Owner: owner, Member: member, VolumeID: l.available(member).ID, Purpose: purpose})
		if err != nil {
			t.Fatal(err)
		}
		return s.ID
	}
	take(l.owner, "orders-0", "backup-1")
	take(l.owner, "orders-1", "backup-1")
	kept := []string{take(l.owner, "orders-0", "backup-2"), take(other, "orders-0", "backup-1")}
	for _, cloud := range []*Cloud{l.cloud, l.newCloud()} {
		if err := cloud.DeleteSnapshotsFor(ctx, l.owner.ClusterUID, "backup-1"); err != nil {
			t.Error(err)
		}
		for _, nobody := range [][2]string{{"", "backup-1"}, {l.owner.ClusterUID, ""}} {
			if err := cloud.DeleteSnapshotsFor(ctx, nobody[0], nobody[1]); !errors.Is(err, awsapi.ErrForeign) {
				t.Errorf("of %q: %v, want ErrForeign", nobody, err)
			}
		}
	}
	left, err := l.newCloud().Inventory.Snapshots.ByID(ctx, kept...)
	if err != nil || len(left) != len(kept) {
		t.Errorf("of those that were not meant %v are left (%v)", left, err)
	}
	if n := l.proxy.Counts()["DeleteSnapshot"]; n != 2 {
		t.Errorf("%d snapshots were deleted, not 2", n)
	}
}

func TestConsole(t *testing.T) {
	l := newLab(t)
	i := l.running("orders-0")
	text := "nairobi-mysql: start\nnairobi-mysql: volume\n"
	if err := server.moto.Report(t.Context(), moto.Report{Instances: []moto.InstanceReport{{ID: i.ID, Console: &text}}}); err != nil {
		t.Fatal(err)
	}
	if got, err := l.cloud.ConsoleOutput(t.Context(), i.ID); err != nil || got != text {
		t.Errorf("%q, %v", got, err)
	}
	l.fault(proxy.Rule{Kind: proxy.Fail, Code: "UnsupportedOperation", Count: 1, Actions: []string{"GetConsoleOutput"}})
	if got, err := l.cloud.ConsoleOutput(t.Context(), i.ID); err != nil || got != text {
		t.Errorf("on a type without live console: %q, %v", got, err)
	}
}

func TestTerminationProtectionStandsUntilWeClearIt(t *testing.T) {
	l := newLab(t)
	i := l.running("orders-0")
	_, err := l.sdk().TerminateInstances(t.Context(), &awsec2.TerminateInstancesInput{InstanceIds: []string{i.ID}})
	if awsapi.Code(err) != "OperationNotPermitted" {
		t.Errorf("somebody else's termination: %v, want OperationNotPermitted", err)
	}
	l.fault(proxy.Deny("TerminateInstances"))
	if err := l.cloud.TerminateInstance(t.Context(), l.owner.ClusterUID, i.ID); !awsapi.IsDenied(err) || awsapi.RefusedAction(err) != "ec2:TerminateInstances" {
		t.Errorf("%v", err)
	}
	l.proxy.Clear()
	if err := l.cloud.TerminateInstance(t.Context(), l.owner.ClusterUID, i.ID); err != nil {
		t.Error(err)
	}
	if state := l.observe().Instances[0].State; state != inventory.StateShuttingDown && state != string(types.InstanceStateNameTerminated) {
		t.Errorf("its state is %s", state)
	}
}
