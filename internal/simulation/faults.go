package simulation

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// fault is something that goes wrong.
//
// A new one goes into separate: there it draws nothing that others draw, and the schedules in which it does not strike keep their stories.
// Those that regressions and mutants are tied to stay good.
type fault struct {
	name   string
	weight int
	strike func(w *world)
}

// faults are drawn by their weights.
var faults = []fault{
	{"mysqld is killed", 10, func(w *world) {
		if s := w.someServer(); s != nil {
			s.end(false)
			w.bootMySQL(s.on, w.between(second, 8*second))
		}
	}},
	{"power is cut, EC2 says stopped", 8, func(w *world) {
		if in := w.someInstance(); in != nil && in.State == running {
			w.powerOff(in)
			in.State = stopping
			in.cycle++
			w.recordInstance(in)
			cycle := in.cycle
			w.after(w.between(100, 20*second), func() {
				if in.cycle == cycle {
					in.State = stopped
					w.recordInstance(in)
				}
			})
		}
	}},
	{"the host fails", 4, func(w *world) {
		if in := w.someInstance(); in != nil && in.State == running {
			w.powerOff(in)
			cycle := in.cycle
			w.after(w.between(10*second, 60*second), func() {
				if in.cycle == cycle && in.State == running {
					in.Impaired = true
					w.recordInstance(in)
				}
			})
		}
	}},
	{"somebody stops an instance", 6, func(w *world) {
		if in := w.someInstance(); in != nil {
			w.stopInstance(in)
		}
	}},
	{"somebody terminates an instance", 5, func(w *world) {
		if in := w.someInstance(); in != nil {
			w.endInstance(in, "Client.InstanceInitiatedShutdown")
		}
	}},
	{"an instance freezes", 8, func(w *world) {
		if in := w.someInstance(); in != nil && in.powered && !in.frozen {
			in.frozen = true
			w.after(w.between(second, 60*second), func() { w.thawInstance(in) })
		}
	}},
	{"two members are parted", 8, func(w *world) {
		a, b := w.rng.IntN(w.desired.Replicas), w.rng.IntN(w.desired.Replicas)
		w.part(a, b, w.chance(60))
	}},
	{"a member is cut off from all", 8, func(w *world) {
		n, both := w.someNode(), w.chance(70)
		for other := range nodes {
			if other < w.desired.Replicas || other >= operatorNode {
				w.part(n, other, both)
			}
		}
	}},
	{"the operator is cut off from a member", 8, func(w *world) {
		if w.chance(70) {
			w.part(operatorNode, w.someNode(), true)
		} else if w.chance(50) {
			w.part(operatorNode, w.someNode(), false)
		} else {
			w.part(w.someNode(), operatorNode, false)
		}
	}},
	{"a member is cut off from members and operator", 8, func(w *world) {
		n := w.someNode()
		for other := range nodes - 1 {
			if other < w.desired.Replicas || other == operatorNode {
				w.part(n, other, true)
			}
		}
	}},
	{"clients are cut off from a member", 3, func(w *world) {
		if w.chance(50) {
			w.part(clientNode, w.someNode(), true)
		} else {
			w.part(w.someNode(), clientNode, false)
		}
	}},
	{"EC2 does not answer", 5, func(w *world) {
		w.shape.weather.down = true
		w.after(w.between(5*second, 90*second), func() { w.shape.weather.down = false })
	}},
	{"EC2 throttles", 4, func(w *world) {
		w.shape.weather.throttled = true
		w.after(w.between(5*second, 90*second), func() { w.shape.weather.throttled = false })
	}},
	{"EC2's lists are late", 5, func(w *world) { w.shape.weather.lag = w.between(second, 30*second) }},
	{"EC2's answers get lost", 4, func(w *world) { w.shape.weather.loses = 20 }},
	{"a zone has no room", 4, func(w *world) {
		zone := w.desired.Subnets[w.rng.IntN(len(w.desired.Subnets))].Zone
		w.cloud.noRoom[zone] = true
		w.after(w.between(5*second, 180*second), func() { delete(w.cloud.noRoom, zone) })
	}},
	{"a volume is lost", 3, func(w *world) { w.loseSomeVolume() }},
	{"an applier lags", 6, func(w *world) {
		if s := w.someServer(); s != nil {
			s.lagUntil = w.now + w.between(second, 60*second)
			w.after(s.lagUntil-w.now, w.wake)
		}
	}},
	{"an applier stops", 4, func(w *world) {
		if s := w.someServer(); s != nil && s.sqlRunning {
			s.stopOnError("error 1205: lock wait time-out")
		}
	}},
	{"locks block the primary", 4, func(w *world) {
		if s := w.someServer(); s != nil {
			s.blockUntil = w.now + w.between(second, 40*second)
		}
	}},
	{"binary logs are purged", 3, func(w *world) {
		if s := w.someServer(); s != nil && s.st.committed > 0 {
			keep := w.rng.IntN(s.st.committed)
			if w.shape.volumesLost == 0 && w.canPurge(s, s.st.committed-keep) {
				s.purge(s.st.committed - keep)
			}
		}
	}},
	{"the operator is killed", 6, func(w *world) { w.leader.die("killed") }},
	{"the operator is killed at a call", 14, func(w *world) { w.leader.cutIn = 1 + w.rng.IntN(60) }},
	{"the operator freezes at a call", 14, func(w *world) {
		w.leader.freezeIn, w.leader.freezeFor = 1+w.rng.IntN(60), w.between(second, 90*second)
	}},
	{"a person asks for a switchover", 8, func(w *world) { w.askForSwitchover() }},
	{"settings are changed", 4, func(w *world) {
		w.desired.Settings = map[string]string{"innodb_log_file_size": strconv.Itoa(w.rng.IntN(4))}
	}},
	{"the cluster is sent to sleep for a while", 3, func(w *world) {
		w.desired.Hibernate = true
		w.after(w.between(5*second, 120*second), func() { w.desired.Hibernate = w.desired.Hibernate && w.healed > 0 }) // else see sleepFirst
	}},
	{"EC2 announces a disruption", 4, func(w *world) {
		if in := w.someInstance(); in != nil {
			in.Event, in.EventAt = "system-reboot", w.time().Add(time.Duration(w.between(minute, 30*60*minute))*time.Millisecond)
			w.recordInstance(in)
		}
	}},
	{"a person writes to a replica", 3, func(w *world) {
		if s := w.someServer(); s != nil {
			w.writeTo(s)
		}
	}},
	{"a replica's data differs", 3, func(w *world) {
		if s := w.someServer(); s != nil && w.canDiverge(s) {
			s.st.diverged = true
		}
	}},
	{"the records are lost", 2, func(w *world) { w.loseRecords() }},
}

// loseRecords loses the records, unless a volume was lost before, whose member may have been the only voter for all that anybody knows,
// or a cluster that is to begin with a copy is not known to have: a person has to make that one again.
func (w *world) loseRecords() {
	if w.shape.volumesLost > 0 || w.heritage != nil && !w.kube.records.Established {
		return
	}
	w.kube.setRecords(topology.ClusterRecord{}, w.now)
	w.kube.lost, w.kube.gone = true, w.chance(50)
	if w.chance(60) {
		w.leader.die("killed with the records") // otherwise it puts them back
	}
}

// changeTemplate changes what the spec says of the instances, sometimes with the version of mysqld.
func (w *world) changeTemplate() {
	w.specChanges++
	w.desired.TemplateHash = strconv.Itoa(w.specChanges)
	if w.chance(40) {
		w.desired.Version = w.nextVersion()
	}
	w.say("the spec asks for instances of template %s with mysqld %s", w.desired.TemplateHash, w.desired.Version)
}

// changeSize asks for another number of members.
func (w *world) changeSize() {
	w.specChanges++
	w.desired.Replicas = int(w.between(1, 5))
	w.say("the spec asks for %d members", w.desired.Replicas)
}

// planFaults spreads the schedule's faults over its time. Some come in quick succession.
func (w *world) planFaults() {
	if w.scenario != nil {
		w.scenario.unfold(w, w.between(second, 15*second))
	}
	at := int64(0)
	for range w.shape.faults {
		if w.chance(50) {
			at = w.between(0, w.shape.span)
		} else {
			at += w.between(0, 8*second)
		}
		w.after(at, w.strike)
	}
	if w.shape.growTo > 0 {
		w.after(w.between(0, w.shape.span), func() { w.desired.Replicas = w.shape.growTo })
	}
	if w.shape.deleteAt > 0 {
		w.after(w.shape.deleteAt, func() { w.desired.Deleting = true })
	}
}

// separateFault is a fault that draws from numbers of its own.
type separateFault struct {
	name string
	// percent is in how many of a hundred schedules it strikes, most how often at most.
	percent, most int
	strike        func(w *world, draw *rand.Rand)
}

var separate = []separateFault{
	{"a member's clock jumps", 6, 2, func(w *world, draw *rand.Rand) {
		in, ahead := w.machineOf(draw.IntN(w.desired.Replicas)), time.Duration(draw.Int64N(7200)-3600)*time.Second
		lasts := 10*second + draw.Int64N(110*second)
		if in == nil {
			return
		}
		in.clockAhead = ahead
		w.after(lasts, func() { in.clockAhead = 0 })
	}},
	{"a subnet has no free address", 6, 2, func(w *world, draw *rand.Rand) {
		subnet, appended := w.desired.Subnets[draw.IntN(3)], draw.IntN(2) == 0
		fillSubnet(w, subnet, appended)
		w.after(5*second+draw.Int64N(175*second), func() { delete(w.cloud.full, subnet.ID) })
	}},
}

// fillSubnet leaves a subnet without a free address. A person may then append another of its zone, as status says.
func fillSubnet(w *world, subnet topology.Subnet, appended bool) {
	w.cloud.full[subnet.ID] = true
	if appended {
		w.desired.Subnets = append(slices.Clone(w.desired.Subnets), topology.Subnet{ID: subnet.ID + "-large", Zone: subnet.Zone})
	}
}

// drawSeparate decides which of them strike, and when.
func drawSeparate(w *world, seed, schedule uint64) {
	for _, f := range separate {
		stream := fnv.New64a()
		_, _ = stream.Write([]byte(f.name))
		draw := rand.New(rand.NewPCG(seed^stream.Sum64(), schedule))
		if draw.IntN(100) >= f.percent {
			continue
		}
		for range 1 + draw.IntN(f.most) {
			w.after(draw.Int64N(w.shape.span+1), func() { befall(w, f.name, func(w *world) { f.strike(w, draw) }) })
		}
	}
}

// strike lets one fault of those that are drawn together happen.
func (w *world) strike() {
	if w.healed > 0 {
		return
	}
	total := 0
	for _, f := range faults {
		total += f.weight
	}
	x := w.rng.IntN(total)
	for _, f := range faults {
		if x -= f.weight; x < 0 {
			befall(w, f.name, f.strike)
			return
		}
	}
}

// befall lets a fault happen, unless the faults have stopped.
func befall(w *world, name string, strike func(w *world)) {
	if w.healed > 0 {
		return
	}
	w.say("FAULT: %s", name)
	w.faults++
	strike(w)
	w.roles = true
	w.wake()
}

// heal ends all faults that do not end by themselves.
func (w *world) heal() {
	w.healed = max(w.now, 1)
	w.passes, w.plan = 0, topology.Plan{}
	w.say("the faults stop")
	w.net = network{}
	w.shape.weather = weather{}
	clear(w.cloud.noRoom)
	clear(w.cloud.full)
	w.seeOff()
	for _, in := range w.cloud.instances {
		w.thawInstance(in)
		in.clockAhead = 0
		if in.Event != "" {
			in.Event, in.EventAt = "", time.Time{}
			w.recordInstance(in)
		}
		if in.powered && in.server == nil {
			w.bootMySQL(in, w.between(second, 8*second))
		}
	}
	for _, op := range w.every {
		op.cutIn, op.freezeIn = 0, 0
		op.thaw()
	}
	sleepFirst(w)
	w.wake()
}

// sleepTime is within which a cluster that is to hibernate has no instances after the faults stop.
const sleepTime = 10 * minute

// sleepFirst wakes a cluster that is to hibernate once it has no instances.
func sleepFirst(w *world) {
	left := slices.ContainsFunc(w.cloud.instances, func(in *instance) bool { return in.State != terminated })
	switch {
	case !w.desired.Hibernate || w.desired.Deleting:
		w.desired.Hibernate = false
	case left && w.now-w.healed > sleepTime:
		w.fail(sleepless, "%ds after the faults stopped: waiting for %q, %v", (w.now-w.healed)/second, w.plan.Waiting.Message, w.plan.Degraded)
	case left:
		w.after(second, func() { sleepFirst(w) })
	default:
		w.desired.Hibernate, w.healed, w.passes = false, w.now, 0
		w.wake()
	}
}

func (w *world) thawInstance(in *instance) {
	if in.frozen {
		in.frozen = false
		w.say("%s: instance %s is thawed", in.member, in.ID)
		w.roles = true
		w.wake()
	}
}

// part cuts the network between two nodes for a while.
func (w *world) part(a, b int, both bool) {
	if a == b {
		return
	}
	w.say("%d -> %d is cut, both ways: %t", a, b, both)
	w.net.cut[a][b] = true
	if both {
		w.net.cut[b][a] = true
	}
	w.after(w.between(second, 90*second), func() {
		w.net.cut[a][b] = false
		if both {
			w.net.cut[b][a] = false
		}
		w.wake()
	})
}

// someNode prefers the primary: most of what can go wrong goes wrong around it.
func (w *world) someNode() int {
	if s := w.serverAt(w.kube.primary); s != nil && w.chance(45) {
		return s.on.node
	}
	return w.rng.IntN(w.desired.Replicas)
}

func (w *world) someServer() *mysqld { return w.serverOf(w.someNode()) }

func (w *world) someInstance() *instance {
	node := w.someNode()
	for _, in := range w.cloud.instances {
		if in.node == node && in.State != terminated && in.State != shuttingDown {
			return in
		}
	}
	return nil
}

// askForSwitchover names some member, or one that is none.
func (w *world) askForSwitchover() {
	w.desired.SwitchoverTo = w.desired.MemberName(w.rng.IntN(w.desired.Replicas + 1))
	w.say("asked for %s as primary", w.desired.SwitchoverTo)
}

// canDiverge says whether a replica may come to hold other data than it should: another voter must be able to take over.
func (w *world) canDiverge(s *mysqld) bool {
	if s.writable || !s.sqlRunning || s.st.hollow || w.desired.Replicas < 3 || w.shape.volumesLost > 0 {
		return false
	}
	return !slices.ContainsFunc(w.cloud.volumes, func(v *volume) bool { return v.st != nil && v.st.diverged })
}

// changing says whether a change of the voters is under way.
func (w *world) changing() bool {
	if w.kube.records.Leaving != "" {
		return true
	}
	return slices.ContainsFunc(w.cloud.volumes, func(v *volume) bool {
		if v.st == nil {
			return false
		}
		return v.st.row != nil && len(v.st.row.Previous) > 0 ||
			slices.ContainsFunc(v.st.binlog[v.st.committed:], func(id int) bool { return w.ledger.all[id].row != nil })
	})
}

// canPurge says whether enough others keep up with a server that loses the oldest n transactions of its binary log. A person who
// takes from several voters what they still need, and leaves others too few to acknowledge, has to bring it back.
func (w *world) canPurge(s *mysqld, n int) bool {
	if s.st.row == nil || len(s.st.row.Voters) < 4 {
		return true
	}
	behind := 0
	for _, v := range w.cloud.volumes {
		if v.st != nil && v.st != s.st && slices.ContainsFunc(s.st.binlog[:n], func(id int) bool { return !v.st.executed.has(id) }) {
			behind++
		}
	}
	return behind <= len(s.st.row.Voters)-1-topology.WaitFor(len(s.st.row.Voters))
}

// purge removes the oldest transactions from a server's binary log.
func (s *mysqld) purge(n int) {
	st := s.st
	for _, id := range st.binlog[:n] {
		st.purged.add(id)
	}
	st.binlog = append([]int(nil), st.binlog[n:]...)
	st.committed -= n
	for _, c := range s.waiting {
		c.at -= n
	}
	st.dropped += n
	for _, acks := range []map[*store]int{s.acks, s.foreign} {
		for in, upTo := range acks {
			acks[in] = max(upTo-n, 0)
		}
	}
	for _, in := range s.w.cloud.instances {
		if in.server != nil && in.server.from == s {
			in.server.cursor, in.server.reached = max(in.server.cursor-n, 0), max(in.server.reached-n, 0)
		}
	}
}
