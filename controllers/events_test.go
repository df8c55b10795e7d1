package controllers

import (
	"reflect"
	"slices"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/announce"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// What is made in EC2 is told once, the security group included; an operator that finds it there tells nothing.
func TestWhatIsMadeIsToldOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	w.follow(o, 5)
	if n := len(o.told("CreateSecurityGroup")); n != 1 {
		t.Errorf("the security group was told of %d times, want once", n)
	}
	o = w.newOperator(nil)
	w.follow(o, 10)
	if n := len(o.told("CreateSecurityGroup")); n != 0 {
		t.Errorf("a new operator told of the old security group %d times", n)
	}
}

func TestStepsOfAFailoverAreTold(t *testing.T) {
	t.Parallel()
	var reasons []string
	for _, a := range []topology.Action{topology.Fence{Member: "orders-0"}, topology.StopInstance{Member: "orders-0"}, topology.Promote{Member: "orders-1"}} {
		reasons = append(reasons, announce.EventOf[reflect.TypeOf(a)])
	}
	if !slices.Equal(reasons, []string{"Fence", "StopInstance", "Promote"}) {
		t.Errorf("told as %v", reasons)
	}
}
