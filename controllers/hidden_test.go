package controllers

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/observe"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/records"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// forge does what a tenant who may edit ConfigMaps can do to the records.
func (w *world) forge(change func(*topology.ClusterRecord)) {
	w.t.Helper()
	cm, records := w.records()
	records = records.Clone()
	change(&records)
	text, err := json.Marshal(records)
	must(w.t, err)
	cm.Data[resources.KeyMembers] = string(text)
	must(w.t, w.client.Update(w.t.Context(), cm))
}

// someVolume makes a volume in the account that everybody shares, past the operator.
func someVolume(t *testing.T, tags map[string]string) string {
	t.Helper()
	input := &awsec2.CreateVolumeInput{AvailabilityZone: aws.String("us-east-1a"), Size: aws.Int32(10), VolumeType: types.VolumeTypeGp3}
	if len(tags) > 0 {
		spec := types.TagSpecification{ResourceType: types.ResourceTypeVolume}
		for k, v := range tags {
			spec.Tags = append(spec.Tags, types.Tag{Key: aws.String(k), Value: aws.String(v)})
		}
		input.TagSpecifications = []types.TagSpecification{spec}
	}
	made, err := sharedAccount().api.CreateVolume(t.Context(), input)
	must(t, err)
	return aws.ToString(made.VolumeId)
}

// Two tenants share the operator's identity. One writes the id of the other's volume into the records of his own cluster.
func TestForgedRecordsReachNoOtherClustersVolume(t *testing.T) {
	t.Parallel()
	tags := map[string]string{
		v1alpha1.TagClusterUID: "00000000-0000-4000-8000-00000000beef", v1alpha1.TagNamespace: "bank", v1alpha1.TagCluster: "orders",
		v1alpha1.TagMember: "orders-0", v1alpha1.TagIncarnation: "1",
	}
	victim := someVolume(t, tags)
	w := newHomeWorld(t, func(c *v1alpha1.MySQLCluster) { c.Spec.Replicas = ptr.To[int32](1) })
	o := w.newOperator(nil)
	w.remembered(o)
	w.forge(func(r *topology.ClusterRecord) {
		r.Account, r.Bootstrapped, r.BootstrappedVolume = homeAccount, "orders-0", victim
		r.Members["orders-0"] = topology.MemberRecord{Instance: 1, Volume: 1, VolumeID: victim}
	})
	w.drive(w.newOperator(nil), patience, w.conditionHas(v1alpha1.ConditionDegraded, v1alpha1.ReasonForeignResource, victim, "is not used"))
	w.forge(func(r *topology.ClusterRecord) {
		r.FinalChosen, r.FinalAt, r.FinalVolumes = true, w.clock.Now().Unix(), []string{victim}
		r.Members["orders-0"] = topology.MemberRecord{Instance: 1, Volume: 1, VolumeID: victim}
	})
	w.delete()
	w.drive(w.newOperator(nil), patience, w.gone)
	api := sharedAccount().api
	copies, err := api.DescribeSnapshots(t.Context(), &awsec2.DescribeSnapshotsInput{
		OwnerIds: []string{"self"}, Filters: []types.Filter{{Name: aws.String("volume-id"), Values: []string{victim}}}})
	must(t, err)
	if len(copies.Snapshots) != 0 {
		t.Errorf("the victim's data was copied: %+v", copies.Snapshots)
	}
	left, err := api.DescribeVolumes(t.Context(), &awsec2.DescribeVolumesInput{VolumeIds: []string{victim}})
	must(t, err)
	have := map[string]string{}
	for _, tag := range left.Volumes[0].Tags {
		have[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
	}
	if !maps.Equal(have, tags) || aws.ToInt32(left.Volumes[0].Size) != 10 || left.Volumes[0].State != types.VolumeStateAvailable {
		t.Errorf("the victim's volume is now %+v", left.Volumes[0])
	}
}

// A recorded volume that lacks the cluster's tag is its member's as long as nothing on it says otherwise, and is never touched.
func TestRecordedVolumesAreJudgedByTheirTags(t *testing.T) {
	t.Parallel()
	w := newHomeWorld(t, nil)
	w.remembered(w.newOperator(nil))
	own := map[string]string{v1alpha1.TagNamespace: w.cluster.Namespace, v1alpha1.TagCluster: "orders", v1alpha1.TagMember: "orders-1"}
	with := func(key, value string) map[string]string {
		tags := maps.Clone(own)
		tags[key] = value
		return tags
	}
	for name, scenario := range map[string]struct {
		tags map[string]string
		used bool
	}{
		"no tag is left":             {nil, true},
		"only the UID is lost":       {own, true},
		"tags of a person's":         {map[string]string{"team": "payments"}, true},
		"another cluster's":          {with(v1alpha1.TagClusterUID, "00000000-0000-4000-8000-00000000beef"), false},
		"another namespace's":        {with(v1alpha1.TagNamespace, "bank"), false},
		"another name's":             {with(v1alpha1.TagCluster, "invoices"), false},
		"another member's":           {with(v1alpha1.TagMember, "orders-2"), false},
		"our UID, and the member's":  {with(v1alpha1.TagClusterUID, string(w.cluster.UID)), true},
		"another's, only by its UID": {map[string]string{v1alpha1.TagClusterUID: "00000000-0000-4000-8000-00000000beef"}, false},
		"an instance's root disk":    {map[string]string{awsapi.TagPurpose: "root"}, false},
	} {
		id := someVolume(t, scenario.tags)
		w.forge(func(r *topology.ClusterRecord) {
			r.Account, r.Members = homeAccount, map[string]topology.MemberRecord{"orders-1": {Instance: 1, Volume: 1, VolumeID: id}}
		})
		s := w.seen(w.newOperator(nil))
		m := s.Observed.Members["orders-1"]
		used := m != nil && slices.ContainsFunc(m.Volumes, func(v topology.Volume) bool { return v.ID == id })
		if used != scenario.used {
			t.Errorf("%s: used %v, want %v", name, used, scenario.used)
		}
		text := fmt.Sprint(s.Unmet, s.Seen.Strangers)
		if silent := scenario.tags[v1alpha1.TagClusterUID] == string(w.cluster.UID) || scenario.tags[awsapi.TagPurpose] != ""; !silent && !strings.Contains(text, id) {
			t.Errorf("%s: it is not told of: %s", name, text)
		}
		if !used || scenario.tags[v1alpha1.TagClusterUID] != "" {
			continue
		}
		err := s.Access.Cloud.DeleteVolume(t.Context(), s.UID(), id)
		if awsapi.Explain(err).Reason != v1alpha1.ReasonForeignResource {
			t.Errorf("%s: deleting it: %v", name, err)
		}
	}
}

// Whoever may edit the records costs the account one call, however much he writes there.
func TestForgedRecordsCostOneCall(t *testing.T) {
	t.Parallel()
	w := newHomeWorld(t, nil)
	o := w.newOperator(nil)
	w.remembered(o)
	w.forge(func(r *topology.ClusterRecord) {
		r.Account = homeAccount
		for i := range 2000 {
			r.Members[fmt.Sprintf("orders-%d", i)] = topology.MemberRecord{VolumeID: fmt.Sprintf("vol-%017x", i)}
		}
	})
	w.seen(o) // and with that a sweep
	w.proxy.ResetCalls()
	s := w.seen(o)
	if n := w.proxy.Counts()["DescribeVolumes"]; n != 0 {
		t.Errorf("EC2 was asked %d times for what it has just denied", n)
	}
	if n := len(s.Cache.Cloud.GoneAt); n > v1alpha1.MaxReplicas || len(s.Records().Members) != v1alpha1.MaxReplicas {
		t.Errorf("%d denials are remembered, of %d members", n, len(s.Records().Members))
	}
	w.wait(observe.GoneFor)
	w.proxy.ResetCalls()
	s = w.seen(o)
	if n := w.proxy.Counts()["DescribeVolumes"]; n != 1 {
		t.Errorf("EC2 was asked %d times, want once for all", n)
	}
	if text := fmt.Sprint(s.Unmet); !strings.Contains(text, "1991 members") {
		t.Errorf("it is not told of: %s", text)
	}
	w.forge(func(r *topology.ClusterRecord) { r.Members = nil })
	w.wait(observe.GoneFor)
	if s = w.seen(o); len(s.Cache.Cloud.GoneAt) != 0 {
		t.Errorf("%d denials are remembered of what nobody asks for any more", len(s.Cache.Cloud.GoneAt))
	}
}

func TestRecordsBeyondMeasureAreRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*topology.ClusterRecord){
		"too long": func(r *topology.ClusterRecord) {
			r.Members["orders-0"] = topology.MemberRecord{Shortfall: topology.Shortfall{Tail: strings.Repeat("x", records.MaxRecords)}}
		},
		"too many held": func(r *topology.ClusterRecord) { r.Held = make([]string, records.MaxListed+1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newHomeWorld(t, nil)
			w.remembered(w.newOperator(nil))
			w.forge(change)
			o := w.newOperator(nil)
			w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, v1alpha1.ReasonForeignResource, "orders-members", "Empty its key"))
			cm, _ := w.records()
			cm.Data[resources.KeyMembers] = ""
			must(t, w.client.Update(t.Context(), cm))
			w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
		})
	}
}

// TestRecordsOfANewerOperatorAreLeftAlone: whether this one could decode them or not. The newer one goes on where it was.
func TestRecordsOfANewerOperatorAreLeftAlone(t *testing.T) {
	const newer = topology.RecordsSchema + 1
	t.Parallel()
	for name, text := range map[string]string{
		"that can be decoded":    fmt.Sprintf(`{"schema":%d,"hand":"newer"}`, newer),
		"that cannot be decoded": fmt.Sprintf(`{"schema":%d,"hand":"newer","members":["orders-0"]}`, newer),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newHomeWorld(t, nil)
			w.remembered(w.newOperator(nil))
			cm, _ := w.records()
			before := cm.Data[resources.KeyMembers]
			cm.Data[resources.KeyMembers] = text
			must(t, w.client.Update(t.Context(), cm))
			o := w.newOperator(nil)
			w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, v1alpha1.ReasonNewerRecords, fmt.Sprintf("schema %d", newer)))
			must(t, w.client.Get(t.Context(), client.ObjectKeyFromObject(cm), cm))
			if cm.Data[resources.KeyMembers] != text {
				t.Errorf("the records are %s", cm.Data[resources.KeyMembers])
			}
			cm.Data[resources.KeyMembers] = before
			must(t, w.client.Update(t.Context(), cm))
			w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
		})
	}
}

// Somebody takes tags off an instance, and the operator restarts: the sweep does not show the instance any more. It is still its
// member's, no other is launched, and a deletion neither forgets it nor is stuck without a word.
func TestMachineThatLostItsTags(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]func(tags map[string]string) []types.Tag{
		"the UID": func(map[string]string) []types.Tag {
			return []types.Tag{{Key: aws.String(v1alpha1.TagClusterUID)}}
		},
		"all of them": func(tags map[string]string) (all []types.Tag) {
			for key := range tags {
				all = append(all, types.Tag{Key: aws.String(key)})
			}
			return all
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.drive(w.newOperator(nil), patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
			id := idsOf(w.left().instances, "orders-1")[0]
			shown, err := w.account.api.DescribeInstances(t.Context(), &awsec2.DescribeInstancesInput{InstanceIds: []string{id}})
			must(t, err)
			tags := map[string]string{}
			for _, tag := range shown.Reservations[0].Instances[0].Tags {
				tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
			}
			_, err = w.account.api.DeleteTags(t.Context(), &awsec2.DeleteTagsInput{Resources: []string{id}, Tags: lost(tags)})
			must(t, err)
			o := w.newOperator(nil)
			w.proxy.ResetCalls()
			w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "instance "+id+" of orders-1 has lost the tag"))
			w.follow(o, 20)
			c, _ := w.get()
			if n := w.proxy.Counts()["RunInstances"]; n != 0 || c.Status.Members[1].InstanceID != id {
				t.Errorf("%d launches, and orders-1 is %s, want %s", n, c.Status.Members[1].InstanceID, id)
			}
			w.delete()
			o = w.newOperator(nil)
			w.drive(o, patience, func() bool { return len(w.left().instances) < members })
			w.follow(o, 30)
			if w.gone() || !w.conditionHas(v1alpha1.ConditionDegraded, id)() {
				t.Fatalf("gone %v, Degraded is %s", w.gone(), w.condition(v1alpha1.ConditionDegraded))
			}
			back := &awsec2.CreateTagsInput{Resources: []string{id}}
			for key, value := range tags {
				back.Tags = append(back.Tags, types.Tag{Key: aws.String(key), Value: aws.String(value)})
			}
			_, err = w.account.api.CreateTags(t.Context(), back)
			must(t, err)
			w.drive(o, patience, w.gone)
			w.nothing(0)
		})
	}
}

// A person puts a member's volume into an instance of his own: that is not the member's.
func TestRescueMachineIsNoMembers(t *testing.T) {
	t.Parallel()
	owner := awsapi.Ownership{ClusterUID: "uid"}
	if _, ours := (inventory.Instance{ID: "i-1"}).LaunchedFor(owner, "orders-0", 3); ours {
		t.Error("an instance without a token is taken for a member's")
	}
	if _, ours := (inventory.Instance{ID: "i-1", Token: "3f1c0b9e"}).LaunchedFor(owner, "orders-0", 3); ours {
		t.Error("an instance with another's token is taken for a member's")
	}
}
