package controllers

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/status"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
)

// mute is a client that may not write any status.
type mute struct {
	client.Client
	on    *atomic.Bool
	tried *atomic.Int64
}

// Status implements client.Client.
func (m mute) Status() client.SubResourceWriter { return muteStatus{m.Client.Status(), m} }

type muteStatus struct {
	client.SubResourceWriter
	of mute
}

// Patch implements client.SubResourceWriter.
func (m muteStatus) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	if m.of.on.Load() {
		m.of.tried.Add(1)
		return errors.New("a webhook that does not answer")
	}
	return m.SubResourceWriter.Patch(ctx, obj, patch, opts...)
}

// TestAStatusThatIsRefusedHoldsUpNothing: the cluster goes on at the pace of its plan, the status is tried again now and then.
func TestAStatusThatIsRefusedHoldsUpNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	m := mute{Client: o.Client, on: &atomic.Bool{}, tried: &atomic.Int64{}}
	m.on.Store(true)
	o.Client = m
	began := w.clock.Now()
	for passes := 0; w.clock.Since(began) < 2*time.Minute; passes++ {
		result, err := w.pass(o)
		if err != nil && passes > 2 { // those before may find a cache that is late
			t.Fatalf("pass %d: %v", passes, err)
		}
		w.wait(pauseAfter(result, err))
	}
	w.oneOfEach(3)
	if n := m.tried.Load(); n < 3 || n > 8 {
		t.Errorf("the status was tried %d times in two minutes", n)
	}
	m.on.Store(false)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
}

// TestReadyIsNotBelievedOfWhatNobodyLookedAt: passes end early, and nobody knows whether writes go through.
func TestReadyIsNotBelievedOfWhatNobodyLookedAt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	s := w.seen(o)
	for _, kind := range []string{v1alpha1.ConditionAvailable, v1alpha1.ConditionReady} {
		meta.SetStatusCondition(&s.Cluster.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Before"})
	}
	s.Cache.Published.Write.Missing = nil // the Service leads somewhere
	s.Cluster.Generation++
	looked := s.Cluster.Status.ObservedGeneration
	o.reporter.Project(s, &engine.Problem{Reason: v1alpha1.ReasonCALost, Message: "the certificate authority is gone", After: engine.AfterPerson})
	for _, kind := range []string{v1alpha1.ConditionAvailable, v1alpha1.ConditionReady} {
		if c := meta.FindStatusCondition(s.Cluster.Status.Conditions, kind); c.Status != metav1.ConditionUnknown || c.Reason != v1alpha1.ReasonNotProbed {
			t.Errorf("%s is %s, %s: %s", kind, c.Status, c.Reason, c.Message)
		}
	}
	if s.Cluster.Status.ObservedGeneration != looked {
		t.Errorf("generation %d passes for looked at", s.Cluster.Status.ObservedGeneration)
	}
	// Writes may go through all the same: of the members nothing is known.
	meta.SetStatusCondition(&s.Cluster.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Before"})
	c := pass.Conditions{Cluster: s.Cluster}
	status.ReadyUnplanned(c, true, &engine.Problem{Message: "a conflict"})
	if ready := meta.FindStatusCondition(s.Cluster.Status.Conditions, v1alpha1.ConditionReady); ready.Status != metav1.ConditionTrue {
		t.Errorf("after a conflict Ready is %s, %s", ready.Status, ready.Reason)
	}
	status.ReadyUnplanned(c, true, &engine.Problem{Reason: v1alpha1.ReasonCALost, Message: "the certificate authority is gone"})
	if ready := meta.FindStatusCondition(s.Cluster.Status.Conditions, v1alpha1.ConditionReady); ready.Status != metav1.ConditionUnknown || ready.Reason != v1alpha1.ReasonCALost {
		t.Errorf("Ready is %s, %s: %s", ready.Status, ready.Reason, ready.Message)
	}
}
