package model

// visitor receives one transition: the state that it leads to, valid during the call; what happens, in words; and the invariant that it
// breaks, nil for none.
type visitor func(next *state, words func() string, broken error)

// transitions makes all states that may follow a state. It is used by one goroutine.
type transitions struct {
	*Model
	s       *state // never changed
	visit   visitor
	scratch [maxMembers + 2]state // one for each candidate, and the state that they are proven in
	turn    int
}

// from visits everything that may follow a state.
func (t *transitions) from(s *state) {
	t.world(s)
	t.operator(s)
}

// copy returns a copy of a state. It lasts for maxMembers + 1 copies more.
func (t *transitions) copy(s *state) *state {
	t.turn = (t.turn + 1) % len(t.scratch)
	t.scratch[t.turn] = *s
	return &t.scratch[t.turn]
}

// next is a copy of the present state, to be changed.
func (t *transitions) next() *state { return t.copy(t.s) }

// below says whether something may happen once more.
func below(done uint8, most int) bool { return int(done) < most }

// room says whether there may be another transaction.
func (t *transitions) room() bool { return int(t.s.count) < t.bounds.limit() }
