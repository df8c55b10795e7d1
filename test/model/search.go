package model

import (
	"context"
	"slices"
)

// Limits end a search before everything is visited. 0 stands for no limit.
type Limits struct {
	States int
	Depth  int
	// Level is called after each depth with what was found until then.
	Level func(Result)
}

// Result is what a search found.
type Result struct {
	States, Transitions, Depth int
	// Exhaustive says that every state within the bounds was visited.
	Exhaustive bool
	// Broken says which invariant is broken, and how; nil when none is.
	Broken error
	// Counterexample is a shortest way there, step by step.
	Counterexample []string
}

// Search visits all states breadth first, so that the first counterexample is a shortest one. It ends early when the context does.
func (m *Model) Search(ctx context.Context, limits Limits) Result {
	q := &search{Model: m, limits: limits, steps: transitions{Model: m}, links: []link{{}}, next: &queue{}}
	q.steps.visit = q.visit
	first := m.initial()
	m.tidy(&first)
	q.seen.add(m.canonical(&first))
	level := &queue{}
	level.add(&first)
	complete := true
	for level.count > 0 && q.result.Broken == nil && complete {
		if limits.Depth > 0 && q.result.Depth == limits.Depth {
			complete = false
			break
		}
		complete = q.level(ctx, level)
		level, q.next = q.next, &queue{}
		q.result.Depth++
		if limits.Level != nil {
			limits.Level(q.result)
		}
	}
	q.result.Exhaustive = complete && q.result.Broken == nil
	return q.result
}

// link says how a state was reached first: from which one, by its number, and by which of that one's transitions.
type link struct {
	parent uint32
	nth    uint16
}

// search is a breadth-first search.
type search struct {
	*Model
	limits Limits
	steps  transitions
	result Result
	seen   fingerprints
	links  []link // of every state, in the order in which they were found
	next   *queue // those of the next depth
	first  int    // the number of the first state of this depth
	parent int    // the number of the state whose transitions are visited
	nth    int
}

// level visits what follows the states of one depth. It is false when a limit was met.
func (q *search) level(ctx context.Context, states *queue) bool {
	n := states.count
	for i := range n {
		if i%1024 == 0 && ctx.Err() != nil || q.limits.States > 0 && q.seen.count >= q.limits.States {
			return false
		}
		q.parent, q.nth = q.first+i, 0
		q.steps.from(states.take(i))
		if q.result.Broken != nil {
			return true
		}
	}
	q.first += n
	return true
}

func (q *search) visit(next *state, _ func() string, broken error) {
	if q.result.Broken != nil {
		return
	}
	q.result.Transitions++
	q.nth++
	if broken != nil {
		q.result.Broken = broken
		q.result.Counterexample = q.replay(q.parent, q.nth)
		return
	}
	q.tidy(next)
	if q.seen.add(q.canonical(next)) {
		q.result.States = q.seen.count
		q.next.add(next)
		q.links = append(q.links, link{uint32(q.parent), uint16(q.nth)})
	}
}

// replay returns in words how a state is reached, and one transition more.
func (q *search) replay(number, nth int) []string {
	path := []int{nth}
	for number != 0 {
		path = append(path, int(q.links[number].nth))
		number = int(q.links[number].parent)
	}
	slices.Reverse(path)
	s := q.initial()
	q.tidy(&s)
	var words []string
	for _, want := range path {
		nth := 0
		var chosen state
		steps := transitions{Model: q.Model, visit: func(next *state, say func() string, _ error) {
			if nth++; nth == want {
				chosen = *next
				words = append(words, say())
			}
		}}
		steps.from(&s)
		q.tidy(&chosen)
		s = chosen
	}
	return words
}

// queue holds the states of one depth. They are not moved when it grows, and what was taken is freed.
type queue struct {
	blocks [][]state
	count  int
}

const blockSize = 1 << 10

func (q *queue) add(s *state) {
	if q.count%blockSize == 0 {
		q.blocks = append(q.blocks, make([]state, 0, blockSize))
	}
	last := &q.blocks[len(q.blocks)-1]
	*last = append(*last, *s)
	q.count++
}

// take returns a state. They are taken in their order.
func (q *queue) take(i int) *state {
	if i > 0 && i%blockSize == 0 {
		q.blocks[i/blockSize-1] = nil
	}
	return &q.blocks[i/blockSize][i%blockSize]
}

// fingerprints is a set of fingerprints, in a table of which at most two thirds are filled. 0 is an empty place.
type fingerprints struct {
	table []uint64
	count int
}

// add says whether a fingerprint is new.
func (f *fingerprints) add(h uint64) bool {
	if 3*(f.count+1) > 2*len(f.table) {
		f.grow()
	}
	if !f.place(h) {
		return false
	}
	f.count++
	return true
}

func (f *fingerprints) place(h uint64) bool {
	mask := uint64(len(f.table) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		switch f.table[i] {
		case h:
			return false
		case 0:
			f.table[i] = h
			return true
		}
	}
}

func (f *fingerprints) grow() {
	old := f.table
	f.table = make([]uint64, max(2*len(old), 1<<12))
	for _, h := range old {
		if h != 0 {
			f.place(h)
		}
	}
}
