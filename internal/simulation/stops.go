package simulation

import "math/rand/v2"

// stops are those without the shutdown of the operating system, and by force.
type stops struct {
	w   *world
	rng *rand.Rand // draws which get stuck, nil for none
}

// cutPower stops an instance without the shutdown of its operating system. In some schedules some of these stops get stuck: EC2 calls the
// instance stopping until it is stopped by force, and its host goes on or does not.
func (s stops) cutPower(in *instance) {
	w, rng := s.w, s.rng
	if rng == nil || in.State != running && in.State != pending || rng.IntN(100) >= 50 {
		w.stopInstance(in)
		return
	}
	in.State = stopping
	in.cycle++
	w.recordInstance(in)
	if rng.IntN(2) == 0 {
		w.powerOff(in)
	}
}

// byForce has EC2 call an instance stopped, whatever its host does: in some cases that goes on for up to a minute.
func (s stops) byForce(in *instance) {
	w, rng := s.w, s.rng
	if rng == nil || in.State != stopping && in.State != running {
		w.stopInstance(in)
		return
	}
	in.State = stopping
	in.cycle++
	cycle := in.cycle
	w.recordInstance(in)
	w.after(100+rng.Int64N(20*second), func() {
		if in.cycle != cycle {
			return
		}
		in.State = stopped
		w.recordInstance(in)
		if in.volume == nil || !in.powered || rng.IntN(4) == 0 {
			w.powerOff(in)
			return
		}
		in.lingers = w.now + second + rng.Int64N(59*second)
		in.volume.lateUntil = in.lingers
		w.say("%s: the host of instance %s goes on", in.member, in.ID)
		until := in.lingers
		w.after(until-w.now, func() {
			if in.lingers == until {
				s.endLingering(in)
			}
		})
	})
}

// endLingering ends a host that went on after a stop by force.
func (s stops) endLingering(in *instance) {
	in.lingers = 0
	s.w.powerOff(in)
}

// drawStuck returns what draws which stops get stuck in a schedule, with numbers of its own; nil in most.
func drawStuck(seed, schedule uint64) *rand.Rand {
	rng := rand.New(rand.NewPCG(seed^stuckSeed, schedule))
	if rng.IntN(100) < stuckStops {
		return rng
	}
	return nil
}

const (
	// stuckSeed begins the numbers from which is drawn which stops get stuck, stuckStops are so many of a hundred schedules in which some
	// do.
	stuckSeed  = 0x73747563
	stuckStops = 25
)
