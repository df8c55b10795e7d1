package simulation

import "math/rand/v2"

const (
	// rotationSeed begins the numbers from which is drawn which losses of power come right after a rotation of the relay log;
	// rotationSchedules are so many of a hundred schedules in which some do, and rotationCuts so many of a hundred losses of power there.
	rotationSeed      = 0x726f7461
	rotationSchedules = 20
	rotationCuts      = 50
)

// rotation says which losses of power come right after a rotation of the relay log.
type rotation struct {
	rng  *rand.Rand // nil for none
	next bool       // the next one does, because a script says so
}

func drawRotation(seed, schedule uint64) rotation {
	rng := rand.New(rand.NewPCG(seed^rotationSeed, schedule))
	if rng.IntN(100) < rotationSchedules {
		return rotation{rng: rng}
	}
	return rotation{}
}

// strikes says whether this loss of power is one of them.
func (r *rotation) strikes() bool {
	if r.next {
		r.next = false
		return true
	}
	return r.rng != nil && r.rng.IntN(100) < rotationCuts
}

// loses takes the relay log from a server whose power is cut, when it is drawn that this is right after a rotation, and says whether it did.
// The applier went on to the new file, whose name is not on the disk yet (fact 31). So it had applied all of the old ones; nothing in
// the new one was acknowledged, because syncing that keeps the name.
func (r *rotation) loses(s *mysqld) bool {
	st := s.st
	if st.source == "" || st.hollow || st.applied < st.synced || !r.strikes() {
		return false
	}
	s.forgetRelay()
	st.relayMissing = true
	s.w.say("%s: the relay log that is applied is lost", s.on.member)
	return true
}
