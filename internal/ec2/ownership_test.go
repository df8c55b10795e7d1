package ec2

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// TestAnotherClustersResourcesAreNeverTouched: what a cluster is said to have may be forged, by whoever may write to its
// records. The tag in EC2 alone decides whose a thing is, for a process that knows it and for one that has never seen it.
func TestAnotherClustersResourcesAreNeverTouched(t *testing.T) {
	l := newLab(t)
	ctx := t.Context()
	i, v := l.running("orders-0"), l.available("orders-0")
	snapshot, err := l.cloud.CreateSnapshot(ctx, SnapshotSpec{Owner: l.owner, Member: "orders-0", VolumeID: v.ID, Purpose: "backup-1"})
	if err != nil {
		t.Fatal(err)
	}
	group, err := l.cloud.EnsureSecurityGroup(ctx, SecurityGroupSpec{Owner: l.owner, VPCID: l.seeded.VPC, ClientCIDRs: []string{"10.0.0.0/8"}})
	if err != nil {
		t.Fatal(err)
	}
	other := l.owner
	other.ClusterUID = "uid-of-another-" + t.Name()
	was := l.owner
	l.owner = other
	theirs, machine := l.available("orders-0"), l.running("orders-0")
	l.owner = was
	l.proxy.ResetCalls()
	uid := other.ClusterUID
	for name, cloud := range map[string]*Cloud{"one that knows it": l.cloud, "a new process": l.newCloud()} {
		for what, do := range map[string]func() error{
			"start":          func() error { return cloud.StartInstance(ctx, uid, i.ID) },
			"stop":           func() error { return cloud.StopInstance(ctx, uid, i.ID, StopPower) },
			"terminate":      func() error { return cloud.TerminateInstance(ctx, uid, i.ID) },
			"delete":         func() error { return cloud.DeleteVolume(ctx, uid, v.ID) },
			"retire":         func() error { return cloud.RetireVolume(ctx, uid, v.ID) },
			"mark version":   func() error { return cloud.TagVersion(ctx, uid, v.ID, "9.9.9") },
			"mark recovered": func() error { return cloud.TagRecovered(ctx, uid, v.ID) },
			"attach theirs":  func() error { return cloud.AttachVolume(ctx, uid, v.ID, machine.ID, device) },
			"attach to them": func() error { return cloud.AttachVolume(ctx, uid, theirs.ID, i.ID, device) },
			"detach":         func() error { return cloud.DetachVolume(ctx, uid, v.ID, i.ID) },
			"delete backup":  func() error { return cloud.DeleteSnapshot(ctx, uid, snapshot.ID) },
			"delete group":   func() error { return cloud.DeleteSecurityGroup(ctx, uid, group) },
			"claim by tags":  func() error { return cloud.RestoreTags(ctx, uid, v.ID, other.TagsOf("orders-0", 1)) },
			"mark as member": func() error {
				return cloud.RestoreTags(ctx, uid, v.ID, map[string]string{v1alpha1.TagMember: "orders-1"})
			},
			"by no cluster": func() error { return cloud.DeleteVolume(ctx, "", v.ID) },
			"grow": func() error {
				_, err := cloud.ModifyVolume(ctx, v.ID, VolumeSpec{Owner: other, Member: "orders-0", SizeGiB: 100})
				return err
			},
			"snapshot": func() error {
				_, err := cloud.CreateSnapshot(ctx, SnapshotSpec{Owner: other, Member: "orders-0", VolumeID: v.ID, Purpose: "final"})
				return err
			},
		} {
			if err := do(); !errors.Is(err, awsapi.ErrForeign) || awsapi.Explain(err).Reason != v1alpha1.ReasonForeignResource {
				t.Errorf("%s by %s: %v, want ErrForeign", what, name, err)
			}
		}
	}
	for _, call := range l.proxy.Calls() {
		if !strings.HasPrefix(call.Action, "Describe") {
			t.Errorf("%s was called", call.Action)
		}
	}
	if err := l.cloud.RetireVolume(ctx, was.ClusterUID, v.ID); err != nil {
		t.Errorf("its own cluster: %v", err)
	}
}

// TestWhoseAnInstanceIsItsTokenProves: its tags are gone, and still it is the member's for which it was launched, and nobody else's.
func TestWhoseAnInstanceIsItsTokenProves(t *testing.T) {
	l := newLab(t)
	i := l.running("orders-0")
	lost := []types.Tag{{Key: aws.String(v1alpha1.TagClusterUID)}, {Key: aws.String(v1alpha1.TagMember)}}
	if _, err := l.sdk().DeleteTags(t.Context(), &awsec2.DeleteTagsInput{Resources: []string{i.ID}, Tags: lost}); err != nil {
		t.Fatal(err)
	}
	found, err := l.newCloud().Inventory.InstancesByID(t.Context(), []string{i.ID, "i-0123456789abcdef0"})
	if err != nil || len(found) != 1 || found[i.ID].Tags[v1alpha1.TagClusterUID] != "" {
		t.Fatalf("%+v, %v", found, err)
	}
	other, rebuilt := l.owner, l.owner
	other.ClusterUID = "uid-of-another"
	rebuilt.CountedSince = time.Now()
	for name, row := range map[string]struct {
		owner  awsapi.Ownership
		member string
		newest int
		want   bool
	}{
		"its member":                          {l.owner, "orders-0", 1, true},
		"its member, three instances later":   {l.owner, "orders-0", 4, true},
		"its member, after records were lost": {rebuilt, "orders-0", 1, true},
		"a member that never had one":         {l.owner, "orders-0", 0, false},
		"another member":                      {l.owner, "orders-1", 1, false},
		"another cluster":                     {other, "orders-0", 1, false},
	} {
		if n, ok := found[i.ID].LaunchedFor(row.owner, row.member, row.newest); ok != row.want || ok && n != 1 {
			t.Errorf("%s: %v as incarnation %d, want %v", name, ok, n, row.want)
		}
	}
}
