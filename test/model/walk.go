package model

import (
	"context"
	"math/bits"
	"math/rand/v2"
)

// walkSteps is the length of a walk.
const walkSteps = 150

// WalkResult is what random walks found.
type WalkResult struct {
	Walks, Steps, Acknowledged, Promotions int
	Counterexample                         []string
	Broken                                 error
}

// Walk follows one random transition after the other, so many times from the beginning, or until the context ends. Its bounds may be
// larger than those of a search; each walk draws its own below them.
func (m *Model) Walk(ctx context.Context, seed uint64, walks int) WalkResult {
	rng := rand.New(rand.NewPCG(seed, 1))
	var total WalkResult
	for total.Walks < walks && ctx.Err() == nil && total.Broken == nil {
		drawn := *m
		drawn.bounds = m.bounds.draw(rng)
		w := walker{transitions: transitions{Model: &drawn}, rng: rng}
		w.visit = w.consider
		w.walk(&total)
	}
	return total
}

// draw returns bounds that are at most as large, with a write and a promotion at least.
func (b Bounds) draw(rng *rand.Rand) Bounds {
	for _, most := range []*int{&b.Writes, &b.PowerCuts, &b.Kills, &b.Promotions, &b.LostRecords, &b.Certificates, &b.VoterChanges} {
		*most = rng.IntN(*most + 1)
	}
	b.Writes, b.Promotions = max(b.Writes, 1), max(b.Promotions, 1)
	return b
}

// walker makes one walk.
type walker struct {
	transitions
	rng    *rand.Rand
	seen   int // transitions out of the present state
	picked state
	words  string
	broken error
}

func (w *walker) walk(total *WalkResult) {
	s := w.initial()
	w.tidy(&s)
	var way []string
	for range walkSteps {
		if !w.pick(&s) {
			break
		}
		way = append(way, w.words)
		total.Steps++
		if w.broken != nil {
			total.Broken, total.Counterexample = w.broken, way
			return
		}
		s = w.picked
		w.tidy(&s)
	}
	total.Walks++
	total.Acknowledged += bits.OnesCount16(uint16(s.acknowledged))
	total.Promotions += int(s.spent.promotions)
}

// pick chooses a transition out of a state, half of the time one of the operator's where there is one of each kind; one that breaks an
// invariant in any case. It is false when there is none.
func (w *walker) pick(s *state) bool {
	kinds := []func(*state){w.world, w.operator}
	if w.rng.IntN(2) == 0 {
		kinds[0], kinds[1] = kinds[1], kinds[0]
	}
	for _, kind := range kinds {
		w.seen = 0
		if kind(s); w.seen > 0 {
			return true
		}
	}
	return false
}

// consider keeps each of the transitions that it sees with the same probability.
func (w *walker) consider(next *state, words func() string, broken error) {
	if w.broken != nil {
		return
	}
	if w.seen++; broken != nil || w.rng.IntN(w.seen) == 0 {
		w.picked, w.words, w.broken = *next, words(), broken
	}
}
