package chaos

import (
	"context"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/cloud"
)

// Fault is one kind of thing that happens.
type Fault struct {
	// Name is what the table calls it.
	Name string
	// Do makes it happen, and notes in the scene how it is healed.
	Do func(ctx context.Context, s *Scene) error
	// Least and Most bound the time after which it is healed.
	Least, Most time.Duration
}

// Holding times: one that the operator rides out, and one in which it must act.
const (
	moment = 2 * time.Second
	short  = 8 * time.Second
	long   = 40 * time.Second
)

// machineFaults are about instances and what runs on them.
func machineFaults() []Fault {
	primary := func(s *Scene) string { return s.Primary.InstanceID }
	replica := func(s *Scene) string { return s.Replicas[0].InstanceID }
	simple := func(fault, undo string, who func(*Scene) string, more ...string) func(context.Context, *Scene) error {
		return func(ctx context.Context, s *Scene) error {
			parties := append([]string{who(s)}, more...)
			if undo != "" {
				s.undo(undo, who(s))
			}
			return s.do(ctx, fault, parties...)
		}
	}
	return []Fault{
		{"power cut, primary", simple("powercut", "poweron", primary), short, long},
		{"power cut, replica", simple("powercut", "poweron", replica), short, long},
		{"freeze, primary", simple("freeze", "thaw", primary), moment, long},
		{"freeze, replica", simple("freeze", "thaw", replica), moment, long},
		{"mysqld kill -9, primary", simple("kill", "", primary, mysqldUnit), moment, short},
		{"mysqld kill -9, replica", simple("kill", "", replica, mysqldUnit), moment, short},
		{"disk full, primary", simple("fill", "drain", primary), short, long},
		{"disk full, replica", simple("fill", "drain", replica), short, long},
	}
}

// way is a direction between two parties.
type way struct{ from, to string }

// both are the two directions.
func both(a, b string) []way { return []way{{a, b}, {b, a}} }

// cutAll cuts ways, to be mended later.
func cutAll(ctx context.Context, s *Scene, ways ...way) error {
	for _, w := range ways {
		s.undo("mend", w.from, w.to)
		if err := s.do(ctx, "cut", w.from, w.to); err != nil {
			return err
		}
	}
	return nil
}

// networkFaults are about who reaches whom.
func networkFaults() []Fault {
	cuts := func(ways func(p, r string) []way) func(context.Context, *Scene) error {
		return func(ctx context.Context, s *Scene) error {
			return cutAll(ctx, s, ways(s.Primary.InstanceID, s.Replicas[0].InstanceID)...)
		}
	}
	const members, node = cloud.PartyMembers, cloud.PartyNode
	return []Fault{
		{"partition, primary and a replica", cuts(both), moment, long},
		{"partition, two replicas", func(ctx context.Context, s *Scene) error {
			return cutAll(ctx, s, both(s.Replicas[0].InstanceID, s.Replicas[1].InstanceID)...)
		}, moment, long},
		{"one way, primary to a replica", cuts(func(p, r string) []way { return []way{{p, r}} }), moment, long},
		{"one way, a replica to primary", cuts(func(p, r string) []way { return []way{{r, p}} }), moment, long},
		{"primary alone, from members", cuts(func(p, _ string) []way { return both(p, members) }), moment, long},
		{"primary alone, from clients and operator", cuts(func(p, _ string) []way { return both(p, node) }), moment, long},
		{"primary alone, from all", cuts(func(p, _ string) []way { return append(both(p, node), both(p, members)...) }), moment, long},
		{"replica alone, from all", cuts(func(_, r string) []way { return append(both(r, node), both(r, members)...) }), moment, long},
		{"one way, primary to all", cuts(func(p, _ string) []way { return []way{{p, node}, {p, members}} }), moment, long},
		{"one way, all to primary", cuts(func(p, _ string) []way { return []way{{node, p}, {members, p}} }), moment, long},
		{"primary away from the operator", func(ctx context.Context, s *Scene) error {
			return s.awayFromOperator(ctx, s.Primary.InstanceID)
		}, moment, long},
		{"all members away from the operator", func(ctx context.Context, s *Scene) error {
			return s.awayFromOperator(ctx, members)
		}, moment, long},
		{"guest shut down, primary alone", func(ctx context.Context, s *Scene) error {
			if err := cutAll(ctx, s, both(s.Primary.InstanceID, members)...); err != nil {
				return err
			}
			if err := pause(ctx, between(s.Random, moment/4, moment)); err != nil {
				return err
			}
			return s.do(ctx, "poweroff", s.Primary.InstanceID)
		}, short, long},
	}
}

// awayFromOperator cuts instances off from the operator's pods alone.
func (s *Scene) awayFromOperator(ctx context.Context, who string) error {
	pods, err := s.operators(ctx)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if err := cutAll(ctx, s, both(cloud.PartyPod+pod.Status.PodIP, who)...); err != nil {
			return err
		}
	}
	return nil
}
