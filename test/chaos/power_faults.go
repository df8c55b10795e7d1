package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// sleepTimeout bounds the wait for a cluster to hibernate.
const sleepTimeout = 3 * time.Minute

// PowerFaults take the power of several members, each while what the one before it acknowledged may be in memory alone: until it
// has started again, received what it missed, and has a certificate.
func PowerFaults() []Fault {
	primary := func(s *Scene) v1alpha1.MemberStatus { return s.Primary }
	replica := func(s *Scene) v1alpha1.MemberStatus { return s.Replicas[0] }
	other := func(s *Scene) v1alpha1.MemberStatus { return s.Replicas[len(s.Replicas)-1] }
	return []Fault{
		{"all members lose their power", fullOutage, short, long},
		{"a second failover right after the first", secondFailover, short, long},
		{"power cuts, a replica, then the primary", cutInTurn(replica, primary), short, long},
		{"power cuts, the primary, then a replica", cutInTurn(primary, replica), short, long},
		{"power cuts, one replica, then the other", cutInTurn(replica, other), short, long},
		{"power cuts, both replicas, then the primary", cutInTurn(replica, other, primary), short, long},
		{"power cut, a replica, and the primary in its return", cutInReturn(replica, primary), short, long},
		{"power cut, the primary, and a replica in its return", cutInReturn(primary, replica), short, long},
		{"power cut, a replica, and again in its return", cutInReturn(replica, replica), short, long},
		{"hibernation, power cut of the primary in the wake", hibernation, short, long},
	}
}

// cutInTurn takes the power of members one after another, within seconds. They get it back in random order.
func cutInTurn(members ...func(*Scene) v1alpha1.MemberStatus) func(context.Context, *Scene) error {
	return func(ctx context.Context, s *Scene) error {
		for _, member := range members {
			if err := s.cutPower(ctx, member(s)); err != nil {
				return err
			}
			if err := pause(ctx, between(s.Random, 0, moment)); err != nil {
				return err
			}
		}
		s.Random.Shuffle(len(s.heals), func(a, b int) { s.heals[a], s.heals[b] = s.heals[b], s.heals[a] })
		return nil
	}
}

// cutInReturn takes the power of one member and gives it back; while that member starts or receives what it missed, the other
// one loses its own.
func cutInReturn(first, second func(*Scene) v1alpha1.MemberStatus) func(context.Context, *Scene) error {
	return func(ctx context.Context, s *Scene) error {
		if err := s.cutPower(ctx, first(s)); err != nil {
			return err
		}
		if err := pause(ctx, s.length(moment, short)); err != nil {
			return err
		}
		if err := s.do(ctx, "poweron", first(s).InstanceID); err != nil && !powerless(err) {
			return err
		}
		if err := pause(ctx, between(s.Random, 0, 2*short)); err != nil {
			return err
		}
		return s.cutPower(ctx, second(s))
	}
}

// cutPower takes the power of a member's instance, unless it has none, and gives it back later.
func (s *Scene) cutPower(ctx context.Context, m v1alpha1.MemberStatus) error {
	s.undo("poweron", m.InstanceID)
	if err := s.do(ctx, "powercut", m.InstanceID); err != nil && !powerless(err) {
		return err
	}
	return nil
}

// hibernation lets the cluster sleep, wakes it, and takes the power of who was its primary while it wakes.
func hibernation(ctx context.Context, s *Scene) error {
	s.later(func(ctx context.Context) error { return s.hibernate(ctx, false) })
	if err := s.hibernate(ctx, true); err != nil {
		return err
	}
	if err := s.awaitSleep(ctx); err != nil {
		return err
	}
	if err := s.hibernate(ctx, false); err != nil {
		return err
	}
	s.begins()
	if err := pause(ctx, between(s.Random, moment, 2*short)); err != nil {
		return err
	}
	return s.cutPower(ctx, s.Primary)
}

func (s *Scene) hibernate(ctx context.Context, yes bool) error {
	c := &v1alpha1.MySQLCluster{}
	c.Namespace, c.Name = s.key.Namespace, s.key.Name
	return s.lab.Client.Patch(ctx, c, client.RawPatch(client.Merge.Type(), fmt.Appendf(nil, `{"spec":{"hibernate":%t}}`, yes)))
}

func (s *Scene) awaitSleep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sleepTimeout)
	defer cancel()
	for {
		c, err := s.cluster(ctx)
		if err == nil && c.Status.Phase == v1alpha1.PhaseHibernated {
			return nil
		}
		if stop := pause(ctx, lookEvery); stop != nil {
			return fmt.Errorf("the cluster does not hibernate: %w", errors.Join(err, stop))
		}
	}
}
