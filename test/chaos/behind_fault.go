package chaos

import (
	"context"
	"errors"
	"time"
)

// DefaultBehind is how long a replica is cut off under load so that it needs minutes to receive what it missed: every
// transaction costs it a flush of its relay log.
const DefaultBehind = 90 * time.Second

// laggingFaults are about replicas that receive late.
func laggingFaults() []Fault {
	return []Fault{{"one replica far behind, power cut, the other", farBehind, moment, short}}
}

// farBehind cuts one replica off from the primary until it is far behind, and takes the power of the other one in the second
// in which the first one is back. That one is connected and acknowledges nothing until it has received everything.
func farBehind(ctx context.Context, s *Scene) error {
	if len(s.Replicas) < 2 {
		return errors.New("this fault needs two replicas")
	}
	behind, other := s.Replicas[0], s.Replicas[1]
	ways := both(s.Primary.InstanceID, behind.InstanceID)
	if err := cutAll(ctx, s, ways...); err != nil {
		return err
	}
	if err := pause(ctx, s.behindFor()); err != nil {
		return err
	}
	s.begins()
	for _, w := range ways {
		if err := s.do(ctx, "mend", w.from, w.to); err != nil {
			return err
		}
	}
	s.undo("poweron", other.InstanceID)
	if err := s.do(ctx, "powercut", other.InstanceID); err != nil {
		return err
	}
	if err := pause(ctx, s.length(short, long)); err != nil {
		return err
	}
	entries, pauses := s.ledger.round(s.round), s.ledger.pausesSince(s.since)
	s.say("     so far the longest time without an acknowledged write is %s s, and %s s have passed since the last one",
		seconds(Gap(entries, pauses, s.since)), seconds(s.ledger.now()-s.ledger.lastAck()))
	return nil
}

// behindFor is how long the replica is cut off.
func (s *Scene) behindFor() time.Duration {
	d := s.behind
	if d == 0 {
		d = DefaultBehind
	}
	if s.holdAtMost > 0 {
		d = min(d, s.holdAtMost)
	}
	return d
}
