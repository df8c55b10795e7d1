package simulation

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const (
	// healPasses and healTime are within which a cluster must be well again after the faults stop. A new operator gives a stop that got
	// stuck ten minutes, and a volume five more after the instance was stopped by force, with four passes a second.
	healPasses = 6000
	healTime   = 60 * minute
	// calm is how long a cluster that is well is watched before the end, at least.
	calm = 10 * second
	// eventLimit ends a schedule in which time does not go on.
	eventLimit = 3_000_000
)

// shape is what a schedule is about.
type shape struct {
	size     int
	lossless bool
	memory   bool // voters acknowledge from memory
	fresh    bool // begins with nothing, not with a cluster that is Ready
	faults   int
	span     int64 // how long faults go on
	growTo   int
	deleteAt int64
	policy   v1alpha1.DeletionPolicy
	weather  weather
	metal    bool // instances are bare metal
	// slowStops lets instances that are being stopped serve on for long.
	slowStops bool
	// prepared lets clients commit prepared transactions on a primary that was made read-only.
	prepared bool
	// volumesLost counts the volumes that were lost, maySpare how many the cluster can do without.
	volumesLost int
}

func (s shape) String() string {
	return fmt.Sprintf("%d members, lossless %t, from memory %t, from nothing %t, %d faults within %ds, grows to %d, deleted at %ds (%s)",
		s.size, s.lossless, s.memory, s.fresh, s.faults, s.span/second, s.growTo, s.deleteAt/second, s.policy)
}

// Result is what became of a schedule.
type Result struct {
	Seed, Schedule uint64
	// Invariant and Message say what broke; empty when nothing did.
	Invariant, Message string
	// Trace tells the schedule's story when it was asked for. Hash is over that story in any case: a change that leaves it alone
	// changes nothing that the simulation can see.
	Trace string
	Hash  uint64
	// Events, Passes and Acknowledged count the model's steps, the reconciles after the faults, and the commits that
	// clients saw OK for. HealTime is how long the cluster took to be well after the faults stopped.
	Events, Passes, Acknowledged int
	HealTime                     time.Duration
}

// Run plays a schedule, in a world that changes have made another.
func Run(seed, schedule uint64, told bool, changes ...func(*world)) Result {
	w := newWorld(seed, schedule)
	for _, change := range changes {
		change(w)
	}
	w.trace.kept = told
	w.play()
	r := Result{Seed: seed, Schedule: schedule, Events: w.events, Passes: w.passes, HealTime: time.Duration(w.now-w.healed) * time.Millisecond}
	r.Acknowledged = len(w.acked.without(nil))
	if w.failure != nil {
		r.Invariant, r.Message = w.failure.invariant, w.failure.message
	}
	r.Trace, r.Hash = w.trace.text.String(), w.trace.hash.Sum64()
	return r
}

func newWorld(seed, schedule uint64) *world {
	w := emptyWorld(seed, schedule)
	w.shape = w.drawShape()
	w.drawScenario(seed, schedule)
	w.shape.memory = rand.New(rand.NewPCG(seed^0x6d656d6f7279, schedule)).IntN(4) > 0
	w.lossy, w.desired = !w.shape.lossless, desiredFor(w.shape)
	if rand.New(rand.NewPCG(seed^0x6272616b65, schedule)).IntN(8) == 0 {
		w.desired.MaxApplyLag = 2 * time.Second
	}
	w.drawRecoverySource(seed, schedule)
	w.drawPeople(seed, schedule)
	w.drawSeries(seed, schedule)
	w.drawMeddling(seed, schedule)
	w.drawDying(seed, schedule)
	drawSeparate(w, seed, schedule)
	drawRestarts(w, seed, schedule)
	w.cloud.rotation = drawRotation(seed, schedule)
	drawFlushes(w, seed, schedule)
	w.cloud.slow, w.cloud.stops.rng = drawSlow(seed, schedule), drawStuck(seed, schedule)
	return w
}

func emptyWorld(seed, schedule uint64) *world {
	w := &world{
		rng: rand.New(rand.NewPCG(seed, schedule)), ledger: newLedger(), trace: trace{hash: fnv.New64a()},
		cloud: &cloud{tokens: map[string]string{}, noRoom: map[string]bool{}, full: map[string]bool{}}, kube: kube{inService: map[string]bool{}, uncovered: map[string]int64{}}, rows: map[uint64]string{}, broken: map[string]bool{},
	}
	w.cloud.stops.w = w
	return w
}

// desiredFor is the spec of a cluster.
func desiredFor(s shape) topology.Desired {
	return topology.Desired{
		Cluster: "orders", Replicas: s.size, Durability: topology.Durability{Lossless: s.lossless, AckFromMemory: s.memory}, MaxLag: 30 * time.Second, SizeGiB: 100, ManagedSecurityGroup: true, Database: true,
		Subnets:        []topology.Subnet{{ID: "subnet-a", Zone: "a"}, {ID: "subnet-b", Zone: "b"}, {ID: "subnet-c", Zone: "c"}},
		DeletionPolicy: s.policy, TemplateHash: "first", Version: "9.7.4",
	}
}

func (w *world) drawShape() shape {
	s := shape{lossless: !w.chance(8), fresh: w.chance(12), faults: int(w.between(1, 8)), span: w.between(5, 120) * second, policy: v1alpha1.DeletionPolicySnapshot}
	switch x := w.rng.IntN(100); {
	case x < 6:
		s.size = 1
	case x < 20:
		s.size = 2
	case x < 74:
		s.size = 3
	case x < 82:
		s.size = 4
	case x < 95:
		s.size = 5
	default:
		s.size = int(w.between(6, maxMembers))
	}
	if w.chance(10) {
		s.growTo = min(s.size+int(w.between(1, 2)), maxMembers)
	}
	if w.chance(6) {
		s.deleteAt = w.between(0, s.span)
		s.policy = []v1alpha1.DeletionPolicy{v1alpha1.DeletionPolicySnapshot, v1alpha1.DeletionPolicyRetain, v1alpha1.DeletionPolicyDelete}[w.rng.IntN(3)]
	}
	return s
}

func (w *world) ordinal(member string) int {
	n, _ := w.desired.Ordinal(member)
	return n
}

// play runs the schedule: faults for a while, then peace until all is well.
func (w *world) play() {
	w.say("schedule: %s", w.shape)
	if w.scenario != nil {
		w.say("scenario: %s", w.scenario.name)
	}
	if !w.shape.fresh {
		w.preset()
	}
	w.lead()
	for n := range 3 {
		c := &client{w: w, n: n}
		w.clients = append(w.clients, c)
		c.again(0, second)
	}
	w.planFaults()
	end := w.shape.span + w.between(0, 30*second)
	for w.now < end && w.step() {
		w.limit()
	}
	w.heal()
	for !w.converged() && w.step() {
		w.limit()
		giveUp(w)
		if w.now-w.healed > healTime || w.passes > healPasses {
			w.fail(notConverged, "after %d passes in %ds: phase %s, primary %q, waiting for %q, %v", w.passes, (w.now-w.healed)/second,
				w.plan.Phase, w.plan.Primary, w.plan.Waiting.Message, w.plan.Degraded)
		}
	}
	w.quiet = true // what is on its way arrives
	// A replica that is still found to be broken is mended, which takes its time.
	for since := w.now; (w.now < since+calm || !w.even() && w.now < since+healTime) && w.step(); {
		w.limit()
	}
	if w.failure == nil {
		w.checkEnd()
	}
	for _, op := range w.every {
		for _, p := range op.processes {
			if !p.over {
				p.stop()
			}
		}
	}
}

func (w *world) limit() {
	if w.events > eventLimit {
		w.fail(notConverged, "%d events and no end", w.events)
	}
}

// preset makes a cluster that is Ready, as the operator would have made it.
func (w *world) preset() {
	var common []int
	uuids := make([]int, w.shape.size)
	voters := []string{}
	for n := range w.shape.size {
		uuids[n] = w.ledger.newServer()
		voters = append(voters, w.desired.MemberName(n))
	}
	row := &mysql.Membership{Epoch: uint64(w.shape.size), Primary: voters[0], Voters: voters, W: len(voters) / 2}
	for n := range 3 + w.shape.size {
		common = append(common, w.ledger.record(transaction{uuid: uuids[0], number: n + 1, row: row, client: -1}))
	}
	w.ledger.acknowledged(common[0])
	w.kube.claimed = true
	w.kube.setRecords(topology.ClusterRecord{Established: true, Epoch: row.Epoch, Bootstrapped: voters[0], BootstrappedVolume: "vol-1", Database: "made", Members: map[string]topology.MemberRecord{}}, w.now)
	w.cloud.group = true
	for n, name := range voters {
		st := &store{uuid: uuids[n], binlog: append([]int(nil), common...), committed: len(common), row: row, persisted: map[string]string{}}
		for _, id := range common {
			st.executed.add(id)
			st.content.add(id)
		}
		w.presetMember(n, name, st)
	}
	for n := range voters {
		w.presetRole(n)
	}
}

func (w *world) presetMember(n int, name string, st *store) {
	zone := w.desired.Subnets[n%len(w.desired.Subnets)].Zone
	v := &volume{member: name, st: st, Volume: topology.Volume{
		ID: fmt.Sprintf("vol-%d", n+1), Incarnation: 1, State: inUse, Zone: zone, AttachedTo: fmt.Sprintf("i-%d", n+1), AttachState: attached, SizeGiB: w.desired.SizeGiB}}
	in := &instance{member: name, node: n, powered: true, certificate: certificate{signed: true}, volume: v, Instance: topology.Instance{
		ID: v.AttachedTo, Incarnation: 1, State: running, Zone: zone, Address: address(n + 1), LaunchTime: w.time().Add(-time.Hour), TemplateHash: w.desired.TemplateHash, BareMetal: w.shape.metal}}
	in.version = w.desired.Version
	w.cloud.volumes, w.cloud.instances = append(w.cloud.volumes, v), append(w.cloud.instances, in)
	w.cloud.tokens[token("volume", name, 1, time.Time{})], w.cloud.tokens[token("instance", name, 1, time.Time{})] = v.ID, in.ID
	v.past = []staleRead[topology.Volume]{{-int64(time.Hour / time.Millisecond), v.Volume}}
	in.past = []staleRead[topology.Instance]{{-int64(time.Hour / time.Millisecond), in.Instance}}
	w.start(in, st)
	w.kube.records.Members[name] = topology.MemberRecord{Instance: 1, Volume: 1, SignedInstance: in.ID, SignedKey: "key of " + in.ID, VolumeID: v.ID}
}

func (w *world) presetRole(n int) {
	s := w.cloud.instances[n].server
	if n == 0 {
		s.writable, s.superReadOnly = true, false
		s.wait = max(w.shape.size/2, 1)
		s.sourceEnabled = w.shape.lossless && w.shape.size > 1
		w.kube.primary = s.on.Address
		return
	}
	s.st.source = w.cloud.instances[0].Address
	s.replicaEnabled = w.shape.lossless
	s.startIO()
	s.startSQL()
	w.kube.inService[s.on.member] = true
}
