package controllers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// live takes a cluster through its whole life: it is made, with the policy Snapshot it is damaged from outside and mended,
// and it is deleted. The first operator's calls to AWS go through the scissors; when they kill it another takes over,
// which knows nothing. It returns with which call the deletion began.
func (w *world) live(s *scissors, policy v1alpha1.DeletionPolicy) (deletion int) {
	w.t.Helper()
	o := w.newOperator(func(next http.RoundTripper) http.RoundTripper { s.next = next; return s })
	s.operator = o
	until := func(done func() bool) {
		w.t.Helper()
		for finished := false; !finished; {
			w.drive(o, patience, func() bool { finished = done(); return finished || o.dead.Load() })
			if o.dead.Load() {
				o = w.newOperator(nil)
			}
		}
	}
	until(w.machinesUp)
	w.oneOfEach(members)
	volumes := w.dataVolumes()
	w.initialised()
	if policy == v1alpha1.DeletionPolicySnapshot {
		w.wait(time.Hour)
		ended := w.damage()
		until(func() bool { return w.mended(ended) })
		w.oneOfEach(members)
		if now := w.dataVolumes(); !slices.Equal(now, volumes) {
			w.t.Errorf("the members had the volumes %v, and have %v", volumes, now)
		}
		// That of a member that was rebuilt, which goes with the cluster.
		w.snapshot(volumes[0], map[string]string{
			v1alpha1.TagClusterUID: string(w.cluster.UID), v1alpha1.TagMember: "orders-0", awsapi.TagPurpose: "quarantine-1",
		})
		w.wait(time.Hour) // so that a sweep shows what another made
	}
	deletion = s.made() + 1
	w.delete()
	until(w.gone)
	w.promised(policy, volumes)
	return deletion
}

// machinesUp says whether every member's instance runs and has its volume.
func (w *world) machinesUp() bool {
	if !w.phaseIs(v1alpha1.PhaseEC2Ready)() {
		return false
	}
	l := w.left()
	for _, v := range l.volumes {
		if !slices.ContainsFunc(l.instances, func(in thing) bool {
			return in.id == v.of && in.state == inventory.StateRunning && in.member == v.member
		}) {
			return false
		}
	}
	return len(l.volumes) == members
}

// dataVolumes are the ids of the members' volumes.
func (w *world) dataVolumes() []string { return idsOf(w.left().volumes, "") }

// initialised lets the cluster's records say that there is data, as they do once the first member is bootstrapped: no
// server runs here that could be.
func (w *world) initialised() {
	w.t.Helper()
	w.changeRecords(func(records *topology.ClusterRecord) { records.Bootstrapped = w.cluster.Name + "-0" })
}

func (w *world) changeRecords(change func(*topology.ClusterRecord)) {
	w.t.Helper()
	cm, records := w.records()
	change(&records)
	text, err := json.Marshal(records)
	must(w.t, err)
	before := cm.DeepCopy()
	cm.Data[resources.KeyMembers] = string(text)
	must(w.t, w.client.Patch(w.t.Context(), cm, client.MergeFrom(before)))
}

// remembered runs passes until the cluster has its records: the first pass makes them, unless EC2 does not answer it.
func (w *world) remembered(o *operator) {
	w.t.Helper()
	w.drive(o, patience, func() bool { return w.exists("orders-members", &corev1.ConfigMap{}) })
}

// records reads the members ConfigMap.
func (w *world) records() (*corev1.ConfigMap, topology.ClusterRecord) {
	w.t.Helper()
	name := resources.NamesOf(w.cluster.Name).Members
	cm, records := &corev1.ConfigMap{}, topology.ClusterRecord{}
	must(w.t, w.client.Get(w.t.Context(), client.ObjectKey{Namespace: w.cluster.Namespace, Name: name}, cm))
	must(w.t, json.Unmarshal([]byte(cm.Data[resources.KeyMembers]), &records))
	return cm, records
}

// damage does to the cluster what people and instances do: one instance is stopped, one is terminated, a volume loses its
// member's tag, the spec asks for larger volumes, and the security group lets in whom the spec does not name, and not whom it names. It returns the instance
// that is no more.
func (w *world) damage() string {
	w.t.Helper()
	ctx, api := w.t.Context(), w.account.api
	l := w.left()
	stopped, ended := idsOf(l.instances, "orders-0"), idsOf(l.instances, "orders-1")
	_, err := api.StopInstances(ctx, &awsec2.StopInstancesInput{InstanceIds: stopped})
	must(w.t, err)
	_, err = api.ModifyInstanceAttribute(ctx, &awsec2.ModifyInstanceAttributeInput{InstanceId: aws.String(ended[0]), DisableApiTermination: &types.AttributeBooleanValue{Value: aws.Bool(false)}})
	must(w.t, err)
	_, err = api.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: ended})
	must(w.t, err)
	_, err = api.DeleteTags(ctx, &awsec2.DeleteTagsInput{Resources: idsOf(l.volumes, "orders-2"), Tags: []types.Tag{{Key: aws.String(v1alpha1.TagMember)}}})
	must(w.t, err)
	before, _ := w.get()
	wish := before.DeepCopy()
	wish.Spec.Storage.Size = ptr.To(resource.MustParse(fmt.Sprintf("%dGi", before.StorageGiB()+1)))
	must(w.t, w.client.Patch(ctx, wish, client.MergeFrom(before)))
	id := w.group().GroupId
	_, err = api.RevokeSecurityGroupIngress(ctx, &awsec2.RevokeSecurityGroupIngressInput{GroupId: id, IpPermissions: from("10.0.0.0/8")})
	must(w.t, err)
	_, err = api.AuthorizeSecurityGroupIngress(ctx, &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: id, IpPermissions: from("0.0.0.0/0")})
	must(w.t, err)
	return ended[0]
}

// from is the permission to reach MySQL from a range of addresses.
func from(cidr string) []types.IpPermission {
	return []types.IpPermission{{
		IpProtocol: aws.String("tcp"), FromPort: aws.Int32(v1alpha1.MySQLPort), ToPort: aws.Int32(v1alpha1.MySQLPort), IpRanges: []types.IpRange{{CidrIp: aws.String(cidr)}},
	}}
}

// group is the cluster's own security group.
func (w *world) group() types.SecurityGroup {
	w.t.Helper()
	name := ec2.GroupName(string(w.cluster.UID))
	found, err := w.account.api.DescribeSecurityGroups(w.t.Context(), &awsec2.DescribeSecurityGroupsInput{Filters: []types.Filter{{Name: aws.String("group-name"), Values: []string{name}}}})
	must(w.t, err)
	if len(found.SecurityGroups) != 1 {
		w.t.Fatalf("%d security groups are called %s", len(found.SecurityGroups), name)
	}
	return found.SecurityGroups[0]
}

// mended says whether everything that damage did is repaired, with another instance in place of the one that ended. It
// looks into status first: what costs no call to EC2 is asked after every pass.
func (w *world) mended(ended string) bool {
	c, _ := w.get()
	for _, m := range c.Status.Members {
		if m.InstanceID == ended || m.InstanceID == "" {
			return false
		}
	}
	if !w.machinesUp() || len(idsOf(w.left().volumes, "orders-2")) != 1 {
		return false
	}
	volumes, err := w.account.api.DescribeVolumes(w.t.Context(), &awsec2.DescribeVolumesInput{VolumeIds: idsOf(w.left().volumes, "")})
	must(w.t, err)
	for _, v := range volumes.Volumes {
		if aws.ToInt32(v.Size) != c.StorageGiB() {
			return false
		}
	}
	var ranges []string
	for _, p := range w.group().IpPermissions {
		for _, r := range p.IpRanges {
			ranges = append(ranges, aws.ToString(r.CidrIp))
		}
	}
	return slices.Equal(ranges, []string{"10.0.0.0/8"})
}

// promised fails the test unless a cluster that is gone left exactly what its policy promises of its volumes, and nothing
// in its namespace is held any more.
func (w *world) promised(policy v1alpha1.DeletionPolicy, volumes []string) {
	w.t.Helper()
	l := w.left()
	var of, free []string
	for _, s := range l.snapshots {
		if s.state == inventory.SnapshotCompleted && strings.HasPrefix(s.purpose, "final-") {
			of = append(of, s.of)
		}
	}
	for _, v := range l.volumes {
		if v.state == inventory.VolumeAvailable {
			free = append(free, v.id)
		}
	}
	slices.Sort(of)
	slices.Sort(free)
	wantSnapshots, wantVolumes := []string(nil), []string(nil)
	switch policy {
	case v1alpha1.DeletionPolicySnapshot:
		wantSnapshots = volumes
	case v1alpha1.DeletionPolicyRetain:
		wantVolumes = volumes
	case v1alpha1.DeletionPolicyDelete:
	}
	if len(l.instances)+len(l.groups) != 0 || len(of) != len(l.snapshots) || len(free) != len(l.volumes) || !slices.Equal(of, wantSnapshots) || !slices.Equal(free, wantVolumes) {
		w.t.Errorf("%s: want nothing left but one final snapshot of each of %v, and the volumes %v; there are %+v", policy, wantSnapshots, wantVolumes, l)
	}
	w.nothingHeld()
}

// nothingHeld fails the test when a finalizer of the operator's holds anything in the cluster's namespace.
func (w *world) nothingHeld() {
	w.t.Helper()
	var secrets corev1.SecretList
	var maps corev1.ConfigMapList
	must(w.t, w.client.List(w.t.Context(), &secrets, client.InNamespace(w.cluster.Namespace)))
	must(w.t, w.client.List(w.t.Context(), &maps, client.InNamespace(w.cluster.Namespace)))
	for _, s := range secrets.Items {
		if slices.Contains(s.Finalizers, v1alpha1.Finalizer) {
			w.t.Errorf("Secret %s is still held", s.Name)
		}
	}
	for _, m := range maps.Items {
		if slices.Contains(m.Finalizers, v1alpha1.Finalizer) {
			w.t.Errorf("ConfigMap %s is still held", m.Name)
		}
	}
}
