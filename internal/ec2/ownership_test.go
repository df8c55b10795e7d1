package ec2

import (
	"context"
	"errors"
	"maps"
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
	theirs, launched := l.available("orders-0"), l.running("orders-0")
	l.owner = was
	l.proxy.ResetCalls()
	for name, cloud := range map[string]*Cloud{"one that knows it": l.cloud, "a new process": l.newCloud()} {
		calls := foreign{cloud: cloud, as: other, ownVolume: theirs.ID, ownInstance: launched.ID,
			instance: i.ID, volume: v.ID, snapshot: snapshot.ID, group: group}.calls(ctx)
		coversCloud(t, maps.Keys(calls), touchNothing)
		for what, do := range calls {
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

// touchNothing are the methods of Cloud that are given nothing of a cluster's to change, with what they do.
var touchNothing = map[string]string{
	"ResolveImage": "reads", "InstanceType": "reads", "Preflight": "dry runs of what is not there yet", "CanRehearse": "reads the store", "Rehearsed": "makes no call",
	"Rehearse": "dry runs on what carries the owner's tag", "ConsoleOutput": "reads",
	"LaunchInstance": "makes, with the owner's tag", "CreateVolume": "makes, with the owner's tag",
	"EnsureSecurityGroup": "finds the group by the owner",
	"KeepGroups":          "finds the instances by the owner's tag",
	"CopyVolume":          "only reads the volume, whose the caller finds out",
	"DeleteSnapshotsFor":  "finds the snapshots by the owner's tag, and deletes them by DeleteSnapshot",
}

// foreign is what a cluster is said to have, and what is another's.
type foreign struct {
	cloud *Cloud
	// as is the cluster, which has a volume and an instance of its own.
	as                                awsapi.Ownership
	ownVolume, ownInstance            string
	instance, volume, snapshot, group string
}

// calls would change it. The name of each begins with its method.
func (f foreign) calls(ctx context.Context) map[string]func() error {
	cloud, uid := f.cloud, f.as.ClusterUID
	return map[string]func() error{
		"StartInstance":          func() error { return cloud.StartInstance(ctx, uid, f.instance) },
		"StopInstance":           func() error { return cloud.StopInstance(ctx, uid, f.instance, StopPower) },
		"TerminateInstance":      func() error { return cloud.TerminateInstance(ctx, uid, f.instance) },
		"DeleteVolume":           func() error { return cloud.DeleteVolume(ctx, uid, f.volume) },
		"DeleteVolume of nobody": func() error { return cloud.DeleteVolume(ctx, "", f.volume) },
		"RetireVolume":           func() error { return cloud.RetireVolume(ctx, uid, f.volume) },
		"TagVersion":             func() error { return cloud.TagVersion(ctx, uid, f.volume, "9.9.9") },
		"TagRecovered":           func() error { return cloud.TagRecovered(ctx, uid, f.volume) },
		"AttachVolume to its own": func() error {
			return cloud.AttachVolume(ctx, uid, f.volume, f.ownInstance, device)
		},
		"AttachVolume of its own": func() error {
			return cloud.AttachVolume(ctx, uid, f.ownVolume, f.instance, device)
		},
		"DetachVolume":        func() error { return cloud.DetachVolume(ctx, uid, f.volume, f.instance) },
		"DeleteSnapshot":      func() error { return cloud.DeleteSnapshot(ctx, uid, f.snapshot) },
		"DeleteSecurityGroup": func() error { return cloud.DeleteSecurityGroup(ctx, uid, f.group) },
		"RestoreTags of all":  func() error { return cloud.RestoreTags(ctx, uid, f.volume, f.as.TagsOf("orders-0", 1)) },
		"RestoreTags of a member": func() error {
			return cloud.RestoreTags(ctx, uid, f.volume, map[string]string{v1alpha1.TagMember: "orders-1"})
		},
		"ModifyVolume": func() error {
			_, err := cloud.ModifyVolume(ctx, f.as.ClusterUID, f.volume, VolumeConfiguration{SizeGiB: 100})
			return err
		},
		"CreateSnapshot": func() error {
			_, err := cloud.CreateSnapshot(ctx, SnapshotSpec{Owner: f.as, Member: "orders-0", VolumeID: f.volume, Purpose: "final"})
			return err
		},
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
