package simulation

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// scenarioShare is how many of a hundred schedules follow a scenario.
const scenarioShare = 30

// scenario is a chain of events that leads into a corner which faults that are drawn one by one seldom reach. It leaves enough
// to chance to be another story each time.
type scenario struct {
	name   string
	weight int
	shape  func(w *world, s *shape)
	unfold func(w *world, at int64)
}

var scenarios = []scenario{
	{"the primary is cut off and cannot be powered off", 6, sized(3, 3, 3, 5, 4, 2), func(w *world, at int64) {
		w.shape.slowStops = w.chance(50)
		w.later(at, "EC2 answers nothing", func() { w.silenceEC2(w.between(40, 100) * second) })
		w.later(at+w.between(0, 3*second), "the primary is cut off", func() { w.isolate(w.primaryNode(), w.between(24, 75)*second, int(w.between(0, 2))) })
	}},
	{"the primary is lost while appliers lag", 6, sized(3, 3, 5, 4, 2), func(w *world, at int64) {
		all, lost := w.chance(50), at+w.between(second, 30*second)
		node, lags := -1, w.between(30, 90)*second
		switch w.rng.IntN(3) {
		case 0:
			lost, lags = lost+35*second, lags+60*second // by then its vote is being taken, and nobody has applied that
			w.shape.span = max(w.shape.span, 170*second)
			w.later(at+w.between(0, 3*second), "a replica is stopped", func() {
				stopped := w.someReplica()
				w.noRoom(stopped, lost-w.now+w.between(0, 5*second))
				w.stopMember(stopped)
			})
		case 1:
			w.later(at+w.between(0, second), "the other replicas receive nothing", func() {
				for other := range w.desired.Replicas {
					if primary := w.primaryNode(); other != primary && other != node {
						w.separate(primary, other, lost-w.now)
					}
				}
			})
		}
		w.later(at, "appliers lag", func() { node = w.lag(all, lags) })
		w.later(lost, "the primary is lost", w.losePrimary)
	}},
	{"the operator ends in the middle of what it does", 10, sized(2, 2, 3, 3, 3, 4, 5), func(w *world, at int64) {
		kinds := []string{"AdmitVoter", "RemoveVoter", "SettleVoters", "Promote", "RecordPrimary", "Switchover", "RemoveAllVoters", "Fence", "SetAcknowledging", "ReplicateFrom", "Demote", "CloneFrom"}
		kind := kinds[w.rng.IntN(len(kinds))]
		w.shape.span = max(w.shape.span, 150*second)
		w.later(at, "the operator is to end while it plans to "+kind, func() {
			w.aimed = aim{kind: kind, calls: int(w.between(1, 24)), loses: w.chance(60)}
			if w.chance(60) {
				w.aimed.freeze = w.between(16, 130) * second
			}
			if strings.HasSuffix(kind, "Voter") && w.chance(50) {
				// One who stays is parted from the primary: the row waits. Sometimes the operator goes on.
				w.aimed.also = func(topology.Action) { w.separate(w.primaryNode(), w.someReplica(), w.between(5, 40)*second) }
				w.aimed.loses = w.chance(30)
				if w.chance(50) {
					w.aimed.calls = 0
				}
			}
		})
		w.later(at+w.between(0, 5*second), "something is to do", func() { w.provoke(kind) })
	}},
	{"the first to be admitted is cut off from the operator meanwhile", 3, func(w *world, s *shape) {
		sized(3, 3, 4)(w, s)
		s.fresh, s.span = true, max(s.span, 170*second)
	}, func(w *world, _ int64) {
		w.aimed = aim{kind: "AdmitVoter", calls: int(w.between(8, 40)), also: func(a topology.Action) {
			w.isolate(w.ordinal(a.(topology.AdmitVoter).Member), w.between(25, 90)*second, 0)
		}}
		if w.chance(50) {
			w.aimed.freeze = w.between(16, 60) * second
		}
	}},
	{"the primary is left alone, lost, and the other returns", 4, sized(2, 2, 2, 3), func(w *world, at int64) {
		w.shape.span = max(w.shape.span, 190*second)
		node := 1
		w.later(at, "a replica cannot be started", func() {
			node = w.someReplica()
			w.noRoom(node, w.between(90, 140)*second)
			w.stopMember(node)
		})
		if w.chance(40) {
			w.later(at+w.between(75, 120)*second, "the records are lost", w.loseRecords)
		}
		w.later(at+w.between(80, 130)*second, "the primary is lost and cannot be started", func() {
			w.noRoom(w.primaryNode(), w.between(20, 90)*second)
			w.losePrimary()
		})
	}},
	{"EC2 refuses to answer while a member is cut off from the operator", 5, sized(3, 3, 4, 5, 2), func(w *world, at int64) {
		w.later(at, "EC2 throttles", func() {
			w.shape.weather.throttled = true
			w.after(w.between(60, 110)*second, func() { w.shape.weather.throttled = false })
		})
		w.later(at+w.between(0, 5*second), "a member is cut off from the operator", func() {
			node := w.someReplica()
			if w.chance(40) {
				node = w.primaryNode()
			}
			w.isolate(node, w.between(40, 80)*second, 0)
		})
	}},
	{"transactions are prepared when the primary is handed over", 3, sized(3, 3, 4, 5, 2), func(w *world, at int64) {
		w.shape.prepared = true
		for range 3 {
			w.later(at, "asked for another primary", func() { w.desired.SwitchoverTo = w.desired.MemberName(w.someReplica()) })
			at += w.between(5, 25) * second
		}
	}},
	{"the instances of the spec change", 8, func(w *world, s *shape) {
		sized(3, 3, 3, 1, 2, 4, 5)(w, s)
		s.volumesLost, s.faults, s.span = 1, int(w.between(0, 4)), max(s.span, 240*second)
	}, func(w *world, at int64) {
		for range w.between(1, 2) {
			w.later(at, "the spec is changed", w.changeTemplate)
			at += w.between(5, 90) * second
			if w.chance(60) {
				w.later(at, "the primary is lost", w.losePrimary)
			}
		}
	}},
	{"members come and go", 6, func(w *world, s *shape) {
		sized(3, 3, 4, 5, 2, 1)(w, s)
		s.volumesLost, s.faults, s.span = 1, int(w.between(0, 4)), max(s.span, 240*second)
		s.policy = []v1alpha1.DeletionPolicy{v1alpha1.DeletionPolicySnapshot, v1alpha1.DeletionPolicyRetain, v1alpha1.DeletionPolicyDelete}[w.rng.IntN(3)]
	}, func(w *world, at int64) {
		for range w.between(1, 3) {
			w.later(at, "the spec asks for another number of members", w.changeSize)
			at += w.between(2, 100) * second
			if w.chance(40) {
				w.later(at, "the instances of the spec change as well", w.changeTemplate)
			}
		}
	}},
	{"the network of the primary comes and goes", 4, sized(3, 3, 3, 4, 5), func(w *world, at int64) {
		w.shape.span = max(w.shape.span, 200*second)
		w.shape.slowStops = w.chance(50)
		for range w.between(4, 9) {
			w.later(at, "the primary is cut off for a moment", func() { w.isolate(w.primaryNode(), w.between(1500, 9*second), int(w.between(0, 2))) })
			at += w.between(6, 25) * second
		}
	}},
	{"the primary is cut off and replication is asynchronous", 3, func(w *world, s *shape) { sized(2, 3, 3, 4)(w, s); s.lossless = false }, func(w *world, at int64) {
		w.shape.slowStops = w.chance(70)
		w.later(at, "the primary is cut off", func() { w.isolate(w.primaryNode(), w.between(10, 60)*second, int(w.between(0, 1))) })
	}},
}

// sized draws a scenario's number of members.
func sized(sizes ...int) func(w *world, s *shape) {
	return func(w *world, s *shape) {
		s.size = sizes[w.rng.IntN(len(sizes))]
		s.lossless, s.fresh, s.deleteAt, s.growTo = true, false, 0, 0
		s.faults = int(w.between(0, 3))
		s.span = max(s.span, 60*second)
	}
}

// drawScenario gives some schedules a scenario. Whether is drawn from numbers of its own, so that the others stay as they are.
func (w *world) drawScenario(seed, schedule uint64) {
	rng := rand.New(rand.NewPCG(seed, ^schedule))
	if rng.IntN(100) >= scenarioShare {
		if rng.IntN(100) < calledOff {
			w.scenario = &upgradeCalledOff
			w.scenario.shape(w, &w.shape)
		}
		return
	}
	total := 0
	for _, p := range scenarios {
		total += p.weight
	}
	x := rng.IntN(total)
	for i := range scenarios {
		if x -= scenarios[i].weight; x < 0 {
			w.scenario = &scenarios[i]
			w.scenario.shape(w, &w.shape)
			return
		}
	}
}

// later lets an event of a scenario happen, unless the faults have stopped by then.
func (w *world) later(at int64, name string, event func()) {
	w.after(at, func() {
		if w.healed > 0 {
			return
		}
		w.say("PLOT: %s", name)
		event()
		w.roles = true
		w.wake()
	})
}

// primaryNode is the node to which the primary Service leads.
func (w *world) primaryNode() int {
	if s := w.serverAt(w.kube.primary); s != nil {
		return s.on.node
	}
	return 0
}

// someReplica draws a node that is not the primary's.
func (w *world) someReplica() int {
	if w.desired.Replicas < 2 {
		return 0
	}
	return (w.primaryNode() + int(w.between(1, int64(w.desired.Replicas-1)))) % w.desired.Replicas
}

// isolate cuts a member off from the operator, with degree 1 from the other members as well, with 2 also from the clients.
func (w *world) isolate(node int, ms int64, degree int) {
	cut := func(on bool) {
		for other := range nodes {
			if other == node || degree == 0 && other != operatorNode || degree < 2 && other == clientNode {
				continue
			}
			w.net.cut[node][other], w.net.cut[other][node] = on, on
		}
	}
	cut(true)
	w.after(ms, func() { cut(false); w.wake() })
}

func (w *world) silenceEC2(ms int64) {
	if w.chance(50) {
		w.shape.weather.down = true
		w.after(ms, func() { w.shape.weather.down = false })
		return
	}
	w.shape.weather.throttled = true
	w.after(ms, func() { w.shape.weather.throttled = false })
}

// separate cuts the network between two nodes for a while.
func (w *world) separate(a, b int, ms int64) {
	w.net.cut[a][b], w.net.cut[b][a] = true, true
	w.after(ms, func() {
		w.net.cut[a][b], w.net.cut[b][a] = false, false
		w.wake()
	})
}

// lag holds up the applier of all replicas, or of one, which it returns.
func (w *world) lag(all bool, ms int64) int {
	one := w.someReplica()
	for node := range w.desired.Replicas {
		if s := w.serverOf(node); s != nil && !s.writable && (all || node == one) {
			s.lagUntil = w.now + ms
			w.after(ms, w.wake)
		}
	}
	return one
}

func (w *world) machineOf(node int) *instance {
	for _, in := range w.cloud.instances {
		if in.node == node && in.State == running {
			return in
		}
	}
	return nil
}

func (w *world) stopMember(node int) {
	if in := w.machineOf(node); in != nil {
		w.stopInstance(in)
	}
}

// losePrimary takes the primary away, one way or another.
func (w *world) losePrimary() {
	in := w.machineOf(w.primaryNode())
	if in == nil {
		return
	}
	switch w.rng.IntN(5) {
	case 0:
		w.powerOff(in) // EC2 goes on calling it running
		cycle := in.cycle
		w.after(w.between(10*second, 60*second), func() {
			if in.cycle == cycle && in.State == running {
				in.Impaired = true
				w.recordInstance(in)
			}
		})
	case 1:
		w.stopInstance(in)
	case 2:
		if in.powered && !in.frozen {
			in.frozen = true
			w.after(w.between(10*second, 60*second), func() { w.thawInstance(in) })
		}
	case 3:
		w.isolate(in.node, w.between(10, 60)*second, 2)
	default:
		if in.server != nil {
			in.server.end(false)
			w.bootMySQL(in, w.between(second, 20*second))
		}
	}
}

// noRoom leaves a member's zone without capacity for a while.
func (w *world) noRoom(node int, ms int64) {
	zone := w.desired.Subnets[node%len(w.desired.Subnets)].Zone
	w.cloud.noRoom[zone] = true
	w.after(ms, func() { delete(w.cloud.noRoom, zone) })
}

// aim lets the operator die or freeze so many calls after it began to take an action of a kind.
type aim struct {
	kind   string
	calls  int
	freeze int64
	loses  bool // and the primary is lost soon after
	also   func(topology.Action)
}

// hit is told of every action that an operator takes.
func (w *world) hit(op *operator, a topology.Action) {
	if w.aimed.kind == "" || op != w.leader || w.healed > 0 || !strings.HasSuffix(fmt.Sprintf("%T", a), "."+w.aimed.kind) {
		return
	}
	it := w.aimed
	w.aimed = aim{}
	if op.cutIn = it.calls; it.freeze > 0 && it.calls > 0 {
		op.cutIn, op.freezeIn, op.freezeFor = 0, it.calls, it.freeze
	}
	if it.also != nil {
		it.also(a)
	}
	if it.loses {
		w.later(w.between(0, 25*second), "the primary is lost", w.losePrimary)
	}
}

// provoke makes an action of a kind necessary.
func (w *world) provoke(kind string) {
	switch kind {
	case "Switchover":
		w.desired.SwitchoverTo = w.desired.MemberName(w.someReplica())
	case "AdmitVoter":
		if w.desired.Replicas < maxMembers && w.chance(50) {
			w.desired.Replicas++
			return
		}
		w.stopMember(w.someReplica())
	case "RemoveVoter", "SettleVoters", "RemoveAllVoters", "SetAcknowledging":
		node := w.someReplica()
		if s := w.serverOf(node); kind != "RemoveAllVoters" && s != nil && w.chance(40) {
			w.writeTo(s)
			return
		}
		if w.chance(60) {
			w.noRoom(node, w.between(40, 100)*second)
		}
		w.stopMember(node)
	case "Demote":
		w.silenceEC2(w.between(30, 60) * second)
		w.isolate(w.primaryNode(), w.between(24, 50)*second, int(w.between(0, 1)))
	case "CloneFrom":
		if s := w.serverOf(w.someReplica()); s != nil {
			w.writeTo(s)
		}
	default:
		w.losePrimary()
	}
}

// writeTo lets a person write to a replica.
func (w *world) writeTo(s *mysqld) {
	if mayBeWrittenTo(s) {
		writeByHand(s, false)
	}
}
