package ec2

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/iam"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

// TestCopiesOfWhatIsNotOurs: somebody else's volume is copied once, whatever answers are lost, and never marked; what is made
// from the copy says so until it is told otherwise.
func TestCopiesOfWhatIsNotOurs(t *testing.T) {
	l := newLabFor(t, allowedBesides(t, iam.Statement{Effect: "Allow", Action: iam.OneOrMany{"ec2:CreateSnapshot"}, Resource: iam.OneOrMany{"arn:aws:ec2:*:*:volume/*"}}))
	l.owner.Namespace = l.owner.ClusterUID // snapshots are looked for in the whole of one
	ctx := t.Context()
	foreign, err := l.sdk().CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: aws.String(zoneA), Size: aws.Int32(3)})
	if err != nil {
		t.Fatal(err)
	}
	id := aws.ToString(foreign.VolumeId)
	spec := SnapshotSpec{Owner: l.owner, Member: "orders-0", VolumeID: id, Purpose: "recovery", MySQLVersion: "9.7.4"}
	l.until("there", func(inventory.Inventory) bool {
		v, ok, err := l.cloud.Inventory.VolumeByID(ctx, id)
		return err == nil && ok && v.State == inventory.VolumeAvailable
	})
	if _, err := l.cloud.CreateSnapshot(ctx, spec); !errors.Is(err, awsapi.ErrForeign) {
		t.Errorf("as if it were ours: %v, want ErrForeign", err)
	}
	l.fault(proxy.LoseAnswers(1, "CreateSnapshot"))
	if _, err := l.cloud.CopyVolume(ctx, spec); !awsapi.IsUnreachable(err) {
		t.Errorf("lost answer: %v", err)
	}
	l.pass(unknownFor)
	var taken inventory.Snapshot
	for _, cloud := range []*Cloud{l.cloud, l.newCloud()} {
		if taken, err = cloud.CopyVolume(ctx, spec); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(l.observe().Snapshots); n != 1 || taken.VolumeID != id || taken.Tags[v1alpha1.TagMySQLVersion] != "9.7.4" {
		t.Errorf("%d snapshots, %+v", n, taken)
	}
	l.until("whole", func(inventory.Inventory) bool {
		s, ok, err := l.cloud.Inventory.SnapshotByID(ctx, taken.ID)
		return err == nil && ok && s.State == inventory.SnapshotCompleted
	})
	all := inventory.SnapshotQuery{Namespace: l.owner.Namespace, Purpose: "recovery", ClusterUID: l.owner.ClusterUID, ID: taken.ID}
	for _, q := range []inventory.SnapshotQuery{all, {Namespace: all.Namespace, Purpose: all.Purpose}} {
		if s, ok, err := l.cloud.Inventory.SnapshotOf(ctx, q); err != nil || !ok || s.ID != taken.ID || s.SizeGiB != 3 {
			t.Errorf("%+v, %t, %v", s, ok, err)
		}
	}
	for what, change := range map[string]func(*inventory.SnapshotQuery){
		"another namespace": func(q *inventory.SnapshotQuery) { q.Namespace = "other" },
		"another cluster":   func(q *inventory.SnapshotQuery) { q.ClusterUID = "other" },
		"another purpose":   func(q *inventory.SnapshotQuery) { q.Purpose = "other" },
		"another snapshot":  func(q *inventory.SnapshotQuery) { q.ID = "snap-0a1b2c3d4e5f60718" },
	} {
		q := all
		change(&q)
		if s, ok, err := l.cloud.Inventory.SnapshotOf(ctx, q); err != nil || ok {
			t.Errorf("for %s: %+v, %v", what, s, err)
		}
	}
	if _, ok, err := l.cloud.Inventory.SnapshotByID(ctx, "snap-0a1b2c3d4e5f60718"); err != nil || ok {
		t.Errorf("one that there is not: %t, %v", ok, err)
	}
	v, err := l.cloud.CreateVolume(ctx, VolumeSpec{Owner: l.owner, Member: "orders-0", Incarnation: 1, Zone: zoneA, VolumeConfiguration: VolumeConfiguration{SizeGiB: 5, Type: "gp3"}, SnapshotID: taken.ID, MySQLVersion: "9.7.5"})
	if err != nil || v.SizeGiB != 5 || v.Tags[v1alpha1.TagRecovery] != v1alpha1.RecoveryPending || v.Tags[v1alpha1.TagMySQLVersion] != "9.7.5" {
		t.Fatalf("%+v, %v", v, err)
	}
	if err := errors.Join(l.cloud.TagRecovered(ctx, l.owner.ClusterUID, v.ID), l.cloud.TagVersion(ctx, l.owner.ClusterUID, v.ID, "9.7.6")); err != nil {
		t.Fatal(err)
	}
	for _, cloud := range []*Cloud{l.cloud, l.newCloud()} {
		inv, err := cloud.Inventory.Observe(ctx, l.owner.ClusterUID, 0)
		if err != nil || len(inv.Volumes) != 1 || inv.Volumes[0].Tags[v1alpha1.TagRecovery] != v1alpha1.RecoveryDone || inv.Volumes[0].Tags[v1alpha1.TagMySQLVersion] != "9.7.6" {
			t.Errorf("%+v (%v)", inv.Volumes, err)
		}
	}
	if err := l.cloud.TagRecovered(ctx, l.owner.ClusterUID, id); !errors.Is(err, awsapi.ErrForeign) {
		t.Errorf("marking what is not ours: %v, want ErrForeign", err)
	}
}
