package topology

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// TestLossIsAcceptedByAPersonOnly: where nobody is proven, a person who names the epoch of the row gives up what is missing. Then the best
// of those who are reached takes over once the others are certainly off, and status does not claim that nothing was lost.
func TestLossIsAcceptedByAPersonOnly(t *testing.T) {
	const promoted = "promote orders-2"
	for name, row := range map[string]struct {
		happened func(s *scene)
		want     string // of the actions; without it nobody is promoted
		refused  string
	}{
		"nobody asked for it": {func(s *scene) { s.desired.AcceptLoss = 0 }, "", ""},
		"asked for":           {func(*scene) {}, promoted, ""},
		"an instance that is missing may run": {func(s *scene) {
			s.member(0).Instances[0].State = stateRunning
		}, "stop instance i-0 of orders-0", ""},
		"for another epoch":           {func(s *scene) { s.desired.AcceptLoss-- }, "", "has epoch 5, not 4"},
		"for what is no epoch":        {func(s *scene) { s.desired.AcceptLoss = math.MaxUint64 }, "", "has epoch 5"},
		"it was accepted before":      {func(s *scene) { s.desired.AcceptLoss, s.observed.Records.LossAccepted = 0, 5 }, promoted, ""},
		"it was accepted for another": {func(s *scene) { s.desired.AcceptLoss, s.observed.Records.LossAccepted = 0, 4 }, "", ""},
		"there is a primary": {func(s *scene) {
			whole := newScene()
			s.observed = whole.observed
		}, "", "the cluster has a primary, orders-0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.lose(0)
			s.lose(1)
			for _, m := range []*Member{s.member(0), s.member(1)} {
				m.DownSince = s.observed.Now.Add(-2 * lateAnswers)
				m.Instances[0].State = stateStopped
			}
			s.io(ioOff, 2)
			s.desired.AcceptLoss = 5
			row.happened(s)
			p, actions := s.plan()
			if !strings.Contains(actions, row.want) || row.want != promoted && strings.Contains(actions, "promote") {
				t.Errorf("planned %q", actions)
			}
			if p.Answers.AcceptLoss.Refused != row.refused && (row.refused == "" || !strings.Contains(p.Answers.AcceptLoss.Refused, row.refused)) {
				t.Errorf("refused: %q", p.Answers.AcceptLoss.Refused)
			}
			if row.want != promoted || s.desired.AcceptLoss == 0 {
				return
			}
			if !strings.Contains(p.Answers.AcceptLoss.Done, "orders-2 takes over with what it holds; commits that only orders-0, orders-1 held are lost") || p.Records.LossAccepted != 5 {
				t.Errorf("accepted %q, recorded %d", p.Answers.AcceptLoss.Done, p.Records.LossAccepted)
			}
			if u := p.Records.Uncovered.Of("orders-0"); u == nil || u.Kind != CauseAccepted {
				t.Errorf("uncovered: %v", p.Records.Uncovered)
			}
		})
	}
}

// TestGivingUpIsNamedOnceAVolumeIsGone: the message of a cluster that cannot go on says how to give up what does not come back.
func TestGivingUpIsNamedOnceAVolumeIsGone(t *testing.T) {
	for _, gone := range []bool{false, true} {
		s := newScene()
		s.lose(0)
		s.lose(1)
		s.io(ioOff, 2)
		if gone {
			s.member(0).Volumes = nil
			s.member(0).VolumeMissingSince = s.observed.Now.Add(-2 * volumePatience)
		}
		p, _ := s.plan()
		named := slices.ContainsFunc(p.Degraded, func(f Finding) bool {
			return f.Reason == v1alpha1.ReasonPromotionNotProven && strings.Contains(f.Message, v1alpha1.AnnotationAcceptLoss+`: "5"`)
		})
		if named != gone {
			t.Errorf("volume gone: %t, named: %t: %v", gone, named, p.Degraded)
		}
	}
}
