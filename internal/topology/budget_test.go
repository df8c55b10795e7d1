package topology

import (
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// TestBudgetOfModifications: EC2 is not asked a fifth time within a day, nothing else waits for that, and it is told until when.
func TestBudgetOfModifications(t *testing.T) {
	w := withTemplate(t, 3)
	first := w.now
	for range modificationsTaken {
		w.desired.SizeGiB += 10
		w.settle(100)
	}
	w.desired.SizeGiB, w.desired.TemplateHash = 60, "new"
	for range 600 {
		w.pass(-1)
	}
	w.allFrom("new")
	plan := w.pass(-1)
	if plan.Phase != v1alpha1.PhaseReady || plan.RequeueAfter != waitReady {
		t.Errorf("all are %s, looked at again after %s", plan.Phase, plan.RequeueAfter)
	}
	for _, v := range plan.Members {
		if !strings.Contains(v.Step.Message, "EC2 takes 4 modifications of a volume within 24 hours, and it has had them; the next is asked for at 2026-01-02T00:0") {
			t.Errorf("%s: %q", v.Name, v.Step.Message)
		}
	}
	if len(plan.Degraded) != 3 || plan.Degraded[0].Reason != v1alpha1.ReasonVolumeModificationLimited {
		t.Errorf("told: %v", plan.Degraded)
	}
	w.now = first.Add(modificationsPeriod + time.Minute)
	if plan = w.settle(100); plan.Waiting.Message != "" || len(plan.Degraded) > 0 {
		t.Errorf("a day later: waiting for %q, told %v", plan.Waiting.Message, plan.Degraded)
	}
	for _, v := range w.volumes {
		if v.SizeGiB != 60 {
			t.Errorf("the volume of %s has %d GiB", v.member, v.SizeGiB)
		}
	}
}

// TestWhatABudgetIsOf: of one volume, and of what was remembered at a time that was.
func TestWhatABudgetIsOf(t *testing.T) {
	used := func(volume string, ago time.Duration) func(*scene) {
		return func(s *scene) {
			rec := s.observed.Records.Members["orders-2"]
			for range modificationsTaken {
				rec.RecordModified(volume, s.observed.Now.Add(-ago))
			}
			s.observed.Records.Members["orders-2"] = rec
		}
	}
	for name, row := range map[string]struct {
		change   func(*scene)
		modified bool
	}{
		"it is used up":                  {used("vol-2", 23*time.Hour), false},
		"it was used up yesterday":       {used("vol-2", 24*time.Hour), true},
		"it was another volume's":        {used("vol-1", time.Hour), true},
		"the clock was put back by days": {used("vol-2", -48*time.Hour), true},
		"three were asked for": {func(s *scene) {
			rec := s.observed.Records.Members["orders-2"]
			for range modificationsTaken - 1 {
				rec.RecordModified("vol-2", s.observed.Now)
			}
			s.observed.Records.Members["orders-2"] = rec
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.desired.SizeGiB = 20
			for i := range s.desired.Replicas {
				s.member(i).Volumes[0].SizeGiB = 20
			}
			s.member(2).Volumes[0].SizeGiB = 10
			row.change(s)
			if _, actions := s.plan(); (onlyWords(actions, "modify") != "") != row.modified {
				t.Errorf("planned %q", actions)
			}
		})
	}
}
