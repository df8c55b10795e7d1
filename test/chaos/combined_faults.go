package chaos

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

const (
	// annotationSwitchover asks for another primary.
	annotationSwitchover = v1alpha1.Prefix + "switchover"
	// switchoverTimeout bounds the wait for a switchover, whichever way it ends.
	switchoverTimeout = 2 * time.Minute
	// secondTimeout bounds the wait for the first failover of two.
	secondTimeout = 3 * time.Minute
)

// combinedFaults are several at once, or one in the middle of something.
func combinedFaults() []Fault {
	return []Fault{
		{"several at once", severalAtOnce, short, long},
		{"primary alone, and full of clients that wait", crowd, long - moment, long},
		{"switchover", func(ctx context.Context, s *Scene) error {
			return s.switchover(ctx, s.Replicas[0].Name)
		}, moment, short},
		{"huge transaction in a switchover", hugeTransaction, moment, short},
		{"locked tables in a switchover", tableLock, moment, short},
		{"global read lock in a switchover", func(ctx context.Context, s *Scene) error { return readLock(ctx, s, s.Primary) }, moment, short},
		{"global read lock on the target of a switchover", func(ctx context.Context, s *Scene) error { return readLock(ctx, s, s.Replicas[0]) }, moment, short},
		{"power cut, primary, in a switchover", func(ctx context.Context, s *Scene) error {
			if err := s.askSwitchover(ctx, s.Replicas[0].Name); err != nil {
				return err
			}
			if err := pause(ctx, between(s.Random, 0, moment/2)); err != nil {
				return err
			}
			return cutPrimary(ctx, s)
		}, short, long},
		{"power cut, target, in a switchover", func(ctx context.Context, s *Scene) error {
			if err := s.askSwitchover(ctx, s.Replicas[0].Name); err != nil {
				return err
			}
			if err := pause(ctx, between(s.Random, 0, moment/2)); err != nil {
				return err
			}
			s.undo("poweron", s.Replicas[0].InstanceID)
			return s.do(ctx, "powercut", s.Replicas[0].InstanceID)
		}, short, long},
	}
}

// fullOutage takes the power of all instances in a random order within seconds, and gives it back in another.
func fullOutage(ctx context.Context, s *Scene) error {
	all := append([]v1alpha1.MemberStatus{s.Primary}, s.Replicas...)
	shuffle := func() { s.Random.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] }) }
	shuffle()
	for _, m := range all {
		if err := s.do(ctx, "powercut", m.InstanceID); err != nil {
			return err
		}
		if err := pause(ctx, between(s.Random, 0, moment/2)); err != nil {
			return err
		}
	}
	shuffle()
	for _, m := range all {
		rest := between(s.Random, 0, short)
		s.undo("poweron", m.InstanceID)
		s.later(func(ctx context.Context) error { return pause(ctx, rest) })
	}
	return nil
}

// severalAtOnce does two or three of the faults of instances and networks within seconds.
func severalAtOnce(ctx context.Context, s *Scene) error {
	kinds := slices.Concat(machineFaults(), networkFaults())
	s.Random.Shuffle(len(kinds), func(a, b int) { kinds[a], kinds[b] = kinds[b], kinds[a] })
	const least, more = 2, 2
	for _, f := range kinds[:least+s.Random.IntN(more)] {
		s.say("     and %s", f.Name)
		// An instance that one of them took away cannot be hit by the next.
		if err := f.Do(ctx, s); err != nil && !powerless(err) {
			return err
		}
		if err := pause(ctx, between(s.Random, 0, moment)); err != nil {
			return err
		}
	}
	return nil
}

// secondFailover takes the power of the new primary as soon as it has acknowledged a write.
func secondFailover(ctx context.Context, s *Scene) error {
	if err := cutPrimary(ctx, s); err != nil {
		return err
	}
	old := s.ledger.lastServer()
	ctx, cancel := context.WithTimeout(ctx, secondTimeout)
	defer cancel()
	for s.ledger.lastServer() == old {
		if err := pause(ctx, lookEvery/10); err != nil {
			return fmt.Errorf("nobody was promoted: %w", err)
		}
	}
	for {
		c, err := s.cluster(ctx)
		if err != nil {
			return err
		}
		for _, m := range c.Status.Members {
			if m.Name == c.Status.Primary && m.Name != s.Primary.Name {
				s.undo("poweron", m.InstanceID)
				return s.do(ctx, "powercut", m.InstanceID)
			}
		}
		if err := pause(ctx, lookEvery/10); err != nil {
			return fmt.Errorf("the status names no new primary: %w", err)
		}
	}
}

// askSwitchover asks the operator for another primary. A wish that is still open when the fault is healed is taken back, so
// that it is not fulfilled in the middle of the next one.
func (s *Scene) askSwitchover(ctx context.Context, member string) error {
	s.later(func(ctx context.Context) error { return s.annotateSwitchover(ctx, "null") })
	return s.annotateSwitchover(ctx, fmt.Sprintf("%q", member))
}

func (s *Scene) annotateSwitchover(ctx context.Context, to string) error {
	c := &v1alpha1.MySQLCluster{}
	c.Namespace, c.Name = s.key.Namespace, s.key.Name
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, annotationSwitchover, to)
	return s.lab.Client.Patch(ctx, c, client.RawPatch(client.Merge.Type(), patch))
}

// switchover asks for another primary and waits until the operator is done with it: it removes the annotation.
func (s *Scene) switchover(ctx context.Context, member string) error {
	if err := s.askSwitchover(ctx, member); err != nil {
		return err
	}
	return s.awaitSwitchover(ctx)
}

func (s *Scene) awaitSwitchover(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, switchoverTimeout)
	defer cancel()
	for {
		c, err := s.cluster(ctx)
		if err == nil && c.Annotations[annotationSwitchover] == "" {
			return nil
		}
		if err := pause(ctx, lookEvery/10); err != nil {
			return fmt.Errorf("the operator is not done with the switchover after %s: %w", switchoverTimeout, err)
		}
	}
}
