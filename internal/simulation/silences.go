package simulation

const (
	// silenceFrom and silenceUntil bound the silence of a primary that runs as far as EC2 knows: one that was heard just now is handed
	// over on purpose, and beyond the other time the failovers are not limited.
	silenceFrom, silenceUntil = second, 10 * second
	// failoverWindow is in what time more than failoverBurst failovers by mere silence are too many.
	failoverWindow, failoverBurst = 60 * second, 2
)

// silences are the failovers for no other reason than that the primary did not answer.
type silences struct {
	// heard is when each instance last answered the operator.
	heard map[*instance]int64
	// primary is the instance that was made the primary last, and failovers are when another was by mere silence.
	primary   *instance
	failovers []int64
}

// hear records an answer.
func (s *silences) hear(in *instance, now int64) {
	if s.heard == nil {
		s.heard = map[*instance]int64{}
	}
	s.heard[in] = now
}

// opened holds the limit of such failovers when an instance was made the primary.
func (s *silences) opened(w *world, in *instance) {
	last := s.primary
	s.primary = in
	if last == nil || last.member == in.member || last.State != running || w.forgot {
		return
	}
	if silent := w.now - s.heard[last]; silent < silenceFrom || silent >= silenceUntil {
		return
	}
	s.failovers = append(s.failovers, w.now)
	if n := len(s.failovers); n > failoverBurst && w.now-s.failovers[n-1-failoverBurst] < failoverWindow-silenceUntil {
		w.fail(flaps, "%s replaces %s, the third in %d ms", in.member, last.member, w.now-s.failovers[n-1-failoverBurst])
	}
}
