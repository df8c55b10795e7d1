package engine

import (
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

func TestPublication(t *testing.T) {
	plan := topology.Plan{Primary: "a", Members: []topology.View{
		{Name: "a", Address: "10.0.0.1", Role: v1alpha1.RolePrimary, InService: true}, {Name: "b", Address: "10.0.0.2"}, {Name: "c"},
	}}
	o := topology.Observed{Members: map[string]*topology.Member{"a": {Name: "a", Instances: []topology.Instance{{ID: "i-1", Incarnation: 1, State: "running", Address: "10.0.0.1"}}}}}
	first := Endpoints(plan)
	if len(first) != 2 || !first[0].Primary || !first[0].Ready || first[1].Primary || first[1].Ready {
		t.Fatalf("clients are led to %+v", first)
	}
	var p Publication
	if !p.PrimaryFirst(plan, o) {
		t.Error("a primary that clients were not shown is not shown first")
	}
	for _, a := range []topology.Action{topology.Demote{Member: "b"}, topology.StopInstance{Member: "b"}, topology.SetSourceWait{Member: "a"}} {
		busy := plan
		busy.Actions = []topology.Action{topology.Fence{Member: "b"}, a}
		if p.PrimaryFirst(busy, o) {
			t.Errorf("the primary is shown before: %s", a)
		}
	}
	p.Shown(first, time.Unix(1, 0))
	p.PrimaryShown(plan, o)
	if p.Observe(&o); o.Shown != "a" || !o.ShownAt.IsZero() {
		t.Errorf("what is shown first is new: %q since %s", o.Shown, o.ShownAt)
	}
	if p.PrimaryFirst(plan, o) {
		t.Error("the primary is shown again")
	}
	p.Shown(first[:1], time.Unix(2, 0))
	p.Shown(first[:1], time.Unix(3, 0))
	if p.Observe(&o); !o.ShownAt.Equal(time.Unix(2, 0)) {
		t.Errorf("changed at %s", o.ShownAt)
	}
	o.Members["a"].Instances[0].Address = "10.0.0.9"
	if !p.PrimaryFirst(plan, o) {
		t.Error("a primary at another address is not shown first")
	}
}
