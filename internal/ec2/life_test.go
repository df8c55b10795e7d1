package ec2

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
)

// copyPurpose is the purpose of the snapshot that CopyVolume takes.
const copyPurpose = "copy"

// life is all that is done for a cluster in EC2, from its preflight to its deletion.
type life struct {
	*lab
	group            string
	instance         inventory.Instance
	volume, restored inventory.Volume
	snapshot         inventory.Snapshot
}

// live takes all steps, and returns the first error that waiting does not help.
func (l *lab) live(t *testing.T) error {
	t.Helper()
	if err := keysAndProfiles(); err != nil {
		t.Fatal(err)
	}
	this := &life{lab: l}
	for name, step := range this.steps() {
		for deadline := time.Now().Add(settleTime); ; time.Sleep(settleDelay / 2) {
			l.pass(inventory.RefreshFloor)
			if _, err := l.cloud.Inventory.Refresh(t.Context(), l.owner.ClusterUID); err != nil {
				return fmt.Errorf("refresh: %w", err)
			}
			err := step()
			if err == nil {
				break
			}
			if !awsapi.IsWaiting(err) || time.Now().After(deadline) {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// steps yields them in their order.
func (l *life) steps() func(yield func(string, func() error) bool) {
	return func(yield func(string, func() error) bool) {
		for _, phase := range []func() []namedStep{l.begin, l.run, l.end} {
			for _, s := range phase() {
				if !yield(s.name, s.do) {
					return
				}
			}
		}
	}
}

// namedStep is a step by a name that begins with the method of Cloud that it calls, or with a small letter.
type namedStep struct {
	name string
	do   func() error
}

// begin are the steps until there is an instance with its volume.
func (l *life) begin() []namedStep {
	ctx := l.t.Context()
	return []namedStep{
		{"take on a tenant's role", func() error {
			cloud, err := NewFactory(Options{Config: awsapi.Config{Endpoint: l.proxy.Endpoint(), Clock: l.clock}}).Cloud(ctx, awsapi.Account{Region: moto.Region,
				RoleARN: tenantsRole, ExternalID: "shop/orders", Static: &awsapi.StaticCredentials{AccessKeyID: moto.AccessKeyID, SecretAccessKey: moto.SecretAccessKey}})
			if err != nil {
				return err
			}
			_, err = cloud.Inventory.AskSubnets(ctx, l.seeded.SubnetIDs())
			return err
		}},
		{"Preflight", func() error {
			spec := l.preflightSpec()
			spec.ImageID, spec.ImageSSMParameter = "", l.seeded.SSMParameter
			spec.Launch.KeyName, spec.Launch.IAMInstanceProfile = labKeyPair, memberRole
			problems, err := l.cloud.Preflight(ctx, spec)
			return errors.Join(first(problems), err)
		}},
		{"lists", func() error {
			if _, err := l.cloud.Inventory.Observe(ctx, l.owner.ClusterUID, 0); err != nil {
				return err
			}
			for _, list := range l.cloud.Inventory.Unanswered() {
				return list.Err
			}
			return nil
		}},
		{"EnsureSecurityGroup", func() (err error) {
			l.group, err = l.cloud.EnsureSecurityGroup(ctx, SecurityGroupSpec{Owner: l.owner, VPCID: l.seeded.VPC, ClientCIDRs: []string{"10.0.0.0/8"}})
			return err
		}},
		{"EnsureSecurityGroup with other rules", func() error {
			_, err := l.cloud.EnsureSecurityGroup(ctx, SecurityGroupSpec{Owner: l.owner, VPCID: l.seeded.VPC, ClientCIDRs: []string{"10.1.0.0/16"}})
			return err
		}},
		{"LaunchInstance", func() (err error) {
			spec := l.launchSpec("orders-0", 1)
			spec.KeyName, spec.IAMInstanceProfile, spec.SecurityGroupIDs = labKeyPair, memberRole, []string{l.group}
			l.instance, err = l.cloud.LaunchInstance(ctx, spec)
			return err
		}},
		{"CreateVolume", func() (err error) { l.volume, err = l.cloud.CreateVolume(ctx, l.volumeSpec("orders-0", 1)); return err }},
		{"TagVersion", func() error { return l.cloud.TagVersion(ctx, l.owner.ClusterUID, l.volume.ID, "9.7.4") }},
		{"RestoreTags", func() error {
			return l.cloud.RestoreTags(ctx, l.owner.ClusterUID, l.instance.ID, map[string]string{v1alpha1.TagMember: "orders-0"})
		}},
		{"AttachVolume", func() error {
			return l.cloud.AttachVolume(ctx, l.owner.ClusterUID, l.volume.ID, l.instance.ID, DataDevice)
		}},
		{"attached", func() error {
			return l.await(func(i inventory.Inventory) bool {
				return slices.ContainsFunc(i.Volumes, func(v inventory.Volume) bool { return v.AttachState == inventory.AttachAttached })
			})
		}},
	}
}

// run are the steps of a cluster that serves, and those of its failover.
func (l *life) run() []namedStep {
	ctx, uid := l.t.Context(), l.owner.ClusterUID
	state := func(want string) func() error {
		return func() error {
			return l.await(func(i inventory.Inventory) bool {
				return slices.ContainsFunc(i.Instances, func(i inventory.Instance) bool { return i.ID == l.instance.ID && i.State == want })
			})
		}
	}
	var own string
	return []namedStep{
		{"ConsoleOutput", func() error { _, err := l.cloud.ConsoleOutput(ctx, l.instance.ID); return err }},
		{"CreateSnapshot", func() (err error) {
			l.snapshot, err = l.cloud.CreateSnapshot(ctx, SnapshotSpec{Owner: l.owner, Member: "orders-0", VolumeID: l.volume.ID, Purpose: "final"})
			return err
		}},
		{"completed", func() error {
			return l.await(func(i inventory.Inventory) bool {
				return slices.ContainsFunc(i.Snapshots, func(s inventory.Snapshot) bool { return s.State == inventory.SnapshotCompleted })
			})
		}},
		{"CopyVolume", func() error {
			_, err := l.cloud.CopyVolume(ctx, SnapshotSpec{Owner: l.owner, Member: "orders-0", VolumeID: l.volume.ID, Purpose: copyPurpose})
			return err
		}},
		{"CreateVolume from a snapshot", func() (err error) {
			spec := l.volumeSpec("orders-1", 1)
			spec.SnapshotID = l.snapshot.ID
			l.restored, err = l.cloud.CreateVolume(ctx, spec)
			return err
		}},
		{"TagRecovered", func() error { return l.cloud.TagRecovered(ctx, uid, l.restored.ID) }},
		{"RetireVolume", func() error { return l.cloud.RetireVolume(ctx, uid, l.restored.ID) }},
		{"ModifyVolume", func() error {
			wanted := l.volumeSpec("orders-0", 1).VolumeConfiguration
			wanted.SizeGiB *= 2
			_, err := l.cloud.ModifyVolume(ctx, uid, l.volume.ID, wanted)
			return err
		}},
		{"StopInstance", func() error { return l.cloud.StopInstance(ctx, uid, l.instance.ID, StopPower) }},
		{"stopped", state(inventory.StateStopped)},
		{"DetachVolume", func() error { return l.cloud.DetachVolume(ctx, uid, l.volume.ID, l.instance.ID) }},
		{"StartInstance", func() error { return l.cloud.StartInstance(ctx, uid, l.instance.ID) }},
		{"running", state(inventory.StateRunning)},
		{"KeepGroups", func() error {
			if own == "" {
				own = l.clientGroup("own")
			}
			return l.cloud.KeepGroups(ctx, uid, []string{own}) // which has no tag of ours
		}},
	}
}

// end are the steps of a deletion.
func (l *life) end() []namedStep {
	ctx, uid := l.t.Context(), l.owner.ClusterUID
	return []namedStep{
		{"TerminateInstance", func() error { return l.cloud.TerminateInstance(ctx, uid, l.instance.ID) }},
		{"DeleteVolume", func() error { return l.cloud.DeleteVolume(ctx, uid, l.volume.ID) }},
		{"DeleteVolume from a snapshot", func() error { return l.cloud.DeleteVolume(ctx, uid, l.restored.ID) }},
		{"DeleteSnapshotsFor", func() error { return l.cloud.DeleteSnapshotsFor(ctx, uid, copyPurpose) }},
		{"DeleteSnapshot", func() error { return l.cloud.DeleteSnapshot(ctx, uid, l.snapshot.ID) }},
		{"DeleteSecurityGroup", func() error { return l.cloud.DeleteSecurityGroup(ctx, uid, l.group) }},
	}
}

// await is an error of class Waiting until the inventory is as wanted.
func (l *life) await(ok func(inventory.Inventory) bool) error {
	if ok(l.cloud.Inventory.Known(l.owner.ClusterUID)) {
		return nil
	}
	return awsapi.NewWaiting("not yet")
}
