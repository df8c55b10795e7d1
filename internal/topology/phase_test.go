package topology

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// until runs passes until the cluster is in a phase and nothing of a rollout is left, and returns the phases on the way, each once in a row.
func (w *world) until(phase v1alpha1.Phase) []v1alpha1.Phase {
	w.t.Helper()
	var seen []v1alpha1.Phase
	for range 400 {
		plan := w.pass(-1)
		if len(seen) == 0 || seen[len(seen)-1] != plan.Phase {
			seen = append(seen, plan.Phase)
		}
		if plan.Phase == phase && plan.Rolling.Reason == "" && plan.RequeueAfter >= waitEC2 {
			return seen
		}
	}
	w.t.Fatalf("not %s, phases %v\n%s", phase, seen, strings.Join(w.trace, "\n"))
	return nil
}

// TestPhases follows one cluster through its life: the phases of the way up are shown on the way up only.
func TestPhases(t *testing.T) {
	w := newWorld(t, 3)
	w.desired.TemplateHash = "first"
	up := []v1alpha1.Phase{v1alpha1.PhaseProvisioning, v1alpha1.PhaseEC2Ready, v1alpha1.PhaseReplicating, v1alpha1.PhaseReady}
	only := func(what string, saw []v1alpha1.Phase, must v1alpha1.Phase, allowed ...v1alpha1.Phase) {
		t.Helper()
		for _, phase := range saw {
			if !slices.Contains(append(allowed, must), phase) {
				t.Errorf("%s: phases %v, and only %s and %v are right", what, saw, must, allowed)
				return
			}
		}
		if !slices.Contains(saw, must) {
			t.Errorf("%s: phases %v, never %s", what, saw, must)
		}
	}
	only("a new cluster", w.until(v1alpha1.PhaseReady), v1alpha1.PhaseProvisioning, up...)

	w.endInstance("orders-2")
	only("an instance is gone", w.until(v1alpha1.PhaseReady), v1alpha1.PhaseRepairing, v1alpha1.PhaseReady)

	w.desired.TemplateHash = "another"
	only("another template", w.until(v1alpha1.PhaseReady), v1alpha1.PhaseUpdating, v1alpha1.PhaseReady)

	w.desired.Replicas = 5
	only("scale-out", w.until(v1alpha1.PhaseReady), v1alpha1.PhaseUpdating, v1alpha1.PhaseReady)

	w.desired.Replicas = 3
	only("scale-in", w.until(v1alpha1.PhaseReady), v1alpha1.PhaseUpdating, v1alpha1.PhaseReady)

	w.desired.Replicas = 4
	for w.pass(-1).Phase != v1alpha1.PhaseUpdating {
	}
	w.endInstance("orders-1")
	only("an instance is gone during scale-out", w.until(v1alpha1.PhaseReady), v1alpha1.PhaseRepairing, v1alpha1.PhaseUpdating, v1alpha1.PhaseReady)

	w.records = Rebuild(w.observe())
	w.endInstance("orders-3")
	only("the records are lost as well", w.until(v1alpha1.PhaseReady), v1alpha1.PhaseRepairing, v1alpha1.PhaseReady)

	w.desired.Hibernate = true
	only("hibernation", w.until(v1alpha1.PhaseHibernated), v1alpha1.PhaseUpdating, v1alpha1.PhaseHibernated)
	w.desired.Hibernate = false
	only("waking", w.until(v1alpha1.PhaseReady), v1alpha1.PhaseProvisioning, up...)
	w.endInstance("orders-2")
	only("an instance is gone after waking", w.until(v1alpha1.PhaseReady), v1alpha1.PhaseRepairing, v1alpha1.PhaseReady)

	w.desired.Deleting = true
	if phase := w.pass(-1).Phase; phase != v1alpha1.PhaseDeleting {
		t.Errorf("phase %s while it is deleted", phase)
	}
}

// TestPhaseWhileReplicasAreRepointed: after a hand-over the replicas follow the new primary a moment later, which is no repair. After a
// failover it is one, and so is a replica that falls behind later.
func TestPhaseWhileReplicasAreRepointed(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*scene)
		want   v1alpha1.Phase
	}{
		"handed over":                    {func(s *scene) { s.observed.Records.Promotion.To = "orders-0" }, v1alpha1.PhaseUpdating},
		"failed over":                    {func(*scene) {}, v1alpha1.PhaseRepairing},
		"another was handed over to":     {func(s *scene) { s.observed.Records.Promotion.To = "orders-2" }, v1alpha1.PhaseRepairing},
		"a switchover is asked for":      {func(s *scene) { s.desired.SwitchoverTo = "orders-2" }, v1alpha1.PhaseUpdating},
		"a cluster that was never Ready": {func(s *scene) { s.observed.Records.ReadyMembers = 0 }, v1alpha1.PhaseReplicating},
		"it follows, and is behind": {func(s *scene) {
			s.observed.Records.Promotion.To = "orders-0"
			s.member(1).SQL.Replication.SourceHost, s.member(1).SQL.Replication.Lag = "10.0.0.0", time.Hour
		}, v1alpha1.PhaseRepairing},
	} {
		s := newScene()
		s.observed.Records.ReadyMembers = 3
		s.member(1).SQL.Replication.SourceHost = "10.0.0.9"
		row.change(s)
		if p, _ := s.plan(); p.Phase != row.want {
			t.Errorf("%s: phase %s, want %s", name, p.Phase, row.want)
		}
	}
}
