package ec2

import (
	"maps"
	"slices"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

// memberWith is a running instance with groups; its id is that of the member.
func memberWith(name string, groups ...string) inventory.Instance {
	return inventory.Instance{ID: name, Member: name, State: inventory.StateRunning, Interface: inventory.Interface{SecurityGroupIDs: groups}, Tags: map[string]string{v1alpha1.TagClusterUID: "uid"}}
}

func in(state string, i inventory.Instance) inventory.Instance {
	i.State = state
	return i
}

// TestGroupsAreChangedInTwoSteps: nobody loses a group by which the others may know him before everybody has what is wanted.
func TestGroupsAreChangedInTwoSteps(t *testing.T) {
	stranger := memberWith("", "sg-9")
	for name, row := range map[string]struct {
		want     []string
		have     []inventory.Instance
		changes  map[string][]string
		launched []string
	}{
		"all is well": {[]string{"sg-2", "sg-1"}, []inventory.Instance{memberWith("a", "sg-1", "sg-2"), memberWith("b", "sg-1", "sg-2")}, nil, []string{"sg-1", "sg-2"}},
		"other groups are added first": {[]string{"sg-3"}, []inventory.Instance{memberWith("a", "sg-1"), memberWith("b", "sg-1", "sg-2")},
			map[string][]string{"a": {"sg-1", "sg-3"}, "b": {"sg-1", "sg-2", "sg-3"}}, []string{"sg-1", "sg-2", "sg-3"}},
		"one lacks it still": {[]string{"sg-3"}, []inventory.Instance{memberWith("a", "sg-1", "sg-3"), memberWith("b", "sg-1")},
			map[string][]string{"b": {"sg-1", "sg-3"}}, []string{"sg-1", "sg-3"}},
		"then the others go": {[]string{"sg-3"}, []inventory.Instance{memberWith("a", "sg-1", "sg-3"), memberWith("b", "sg-3")},
			map[string][]string{"a": {"sg-3"}}, []string{"sg-1", "sg-3"}},
		"one that is stopped counts": {[]string{"sg-3"}, []inventory.Instance{memberWith("a", "sg-1", "sg-3"), in(inventory.StateStopped, memberWith("b", "sg-1"))},
			map[string][]string{"b": {"sg-1", "sg-3"}}, []string{"sg-1", "sg-3"}},
		"one that is made just now is waited for": {[]string{"sg-3"}, []inventory.Instance{memberWith("a", "sg-1", "sg-3"), in(inventory.StatePending, memberWith("b", "sg-1"))},
			nil, []string{"sg-1", "sg-3"}},
		"nothing is known of one": {[]string{"sg-3"}, []inventory.Instance{memberWith("a", "sg-1", "sg-3"), memberWith("b")}, nil, []string{"sg-1", "sg-3"}},
		"what is gone and what is nobody's does not count": {[]string{"sg-3"}, []inventory.Instance{memberWith("a", "sg-1", "sg-3"), stranger,
			in(inventory.StateTerminated, memberWith("b", "sg-1")), in(inventory.StateShuttingDown, memberWith("b", "sg-8"))},
			map[string][]string{"a": {"sg-3"}}, []string{"sg-1", "sg-3"}},
		"the first member": {[]string{"sg-3"}, nil, nil, []string{"sg-3"}},
	} {
		got := map[string][]string{}
		for _, i := range groupChanges(row.want, row.have) {
			got[i.ID] = i.SecurityGroupIDs
		}
		if !maps.EqualFunc(got, row.changes, slices.Equal) {
			t.Errorf("%s: the groups become %v, want %v", name, got, row.changes)
		}
		if launched := LaunchGroups(row.want, row.have); !slices.Equal(launched, row.launched) {
			t.Errorf("%s: a new one is launched with %v, want %v", name, launched, row.launched)
		}
	}
}

// TestGroupsAreChangedInPlace: of instances that run, in two calls for each, and with none once all is as wanted. What EC2 refuses one
// instance keeps nothing from the others, and nobody loses a group meanwhile.
func TestGroupsAreChangedInPlace(t *testing.T) {
	l := newLab(t)
	before, after := l.clientGroup("before"), l.clientGroup("after")
	for _, member := range []string{"orders-0", "orders-1"} {
		spec := l.launchSpec(member, 1)
		spec.SecurityGroupIDs = []string{before}
		if _, err := l.cloud.LaunchInstance(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
	}
	l.until("two that run", func(inv inventory.Inventory) bool {
		return len(inv.Instances) == 2 && !slices.ContainsFunc(inv.Instances, func(i inventory.Instance) bool { return i.State != inventory.StateRunning })
	})
	keep := func() error { return l.cloud.KeepGroups(t.Context(), l.owner.ClusterUID, []string{after}) }
	have := func(what string, want ...string) {
		t.Helper()
		slices.Sort(want)
		for _, i := range l.newCloudsInstances() {
			if !slices.Equal(i.SecurityGroupIDs, want) {
				t.Errorf("%s: %s has %v, want %v", what, i.Member, i.SecurityGroupIDs, want)
			}
		}
	}
	remove := l.fault(proxy.Rule{Actions: []string{"ModifyInstanceAttribute"}, Kind: proxy.Fail, Code: "SecurityGroupsPerInterfaceLimitExceeded"})
	err := keep()
	if p := awsapi.Explain(err); p.Reason != v1alpha1.ReasonQuotaExceeded || p.Field != awsapi.FieldGroups || p.Retry {
		t.Errorf("too many groups: %+v", p)
	}
	if n := l.proxy.Counts()["ModifyInstanceAttribute"]; n != 2 {
		t.Errorf("%d calls for two instances, of which the first was refused", n)
	}
	have("refused", before)
	remove()
	for _, step := range []struct {
		what string
		want []string
	}{{"first step", []string{before, after}}, {"second step", []string{after}}} {
		if err := keep(); err != nil {
			t.Fatal(err)
		}
		have(step.what, step.want...)
	}
	l.proxy.ResetCalls()
	if err := keep(); err != nil || len(l.proxy.Calls()) > 0 {
		t.Errorf("all is as wanted: %v, after the calls %v", err, l.proxy.Calls())
	}
}

// newCloudsInstances are the cluster's instances as a new process sees them.
func (l *lab) newCloudsInstances() []inventory.Instance {
	l.t.Helper()
	inv, err := l.newCloud().Inventory.Observe(l.t.Context(), l.owner.ClusterUID, 0)
	if err != nil || len(inv.Instances) == 0 {
		l.t.Fatalf("%d instances: %v", len(inv.Instances), err)
	}
	return inv.Instances
}
