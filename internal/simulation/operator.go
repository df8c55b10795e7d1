package simulation

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const (
	// leaseFor is how long a lease holds that nobody renews; renewEvery is how often its holder does.
	leaseFor   = 15 * second
	renewEvery = 2 * second
	// probeEvery is how often the prober writes to the primary.
	probeEvery = second
)

// operator is one process of the operator: the shell around the planner, which in production is controllers.
type operator struct {
	w         *world
	name      string
	dead      bool
	frozen    bool
	processes []*process
	parked    []*process
	doom
	wake func()

	picture *picture
	slots   map[*instance]*slot
	// stored are the records that this pass stands on, memory what this process wrote.
	stored *engine.Recorder
	memory *engine.RecordMemory
	// shown is what clients are shown.
	shown engine.Publication
	// born is when this process began to lead, with caches that were fresh.
	born int64
	// desired is the spec that this pass stands on.
	desired  topology.Desired
	looks    *engine.Looks
	requests *engine.Requests
	// calls are the times of the last minute at which EC2 was asked, by what for.
	calls  map[string][]int64
	goneAt map[string]int64
	// watchedSince is when this process first looked, nil before; the zero time when nothing had been made for the cluster then.
	watchedSince *time.Time
	primary      *instance // what the prober watches
	said         string    // the plan that was told last
}

// doom is what is to befall a process.
type doom struct {
	// cutIn and freezeIn count the calls until it dies or freezes; 0 for never.
	cutIn, freezeIn int
	freezeFor       int64
}

// lead starts an operator that holds the lease.
func (w *world) lead() {
	op := &operator{
		w: w, name: fmt.Sprintf("operator-%d", len(w.every)+1), picture: newPicture(), slots: map[*instance]*slot{}, looks: engine.NewLooks(), memory: engine.NewRecordMemory(&turnstile{}), born: w.now, goneAt: map[string]int64{}, calls: map[string][]int64{},
		requests: engine.NewRequests(),
	}
	w.every = append(w.every, op)
	w.leader, w.kube.holder, w.kube.renewed = op, op, w.now
	w.say("%s leads", op.name)
	w.spawn(op, nil, op.run)
	w.after(renewEvery, op.renew)
}

// renew keeps the lease, or notices that it is somebody else's and ends the process.
func (op *operator) renew() {
	w := op.w
	switch {
	case op.dead:
		return
	case op.frozen:
	case w.kube.holder == op:
		w.kube.renewed = w.now
	default:
		op.die("it lost its lease")
		return
	}
	w.after(renewEvery, op.renew)
}

// succeed starts another operator once the lease of the present one runs out.
func (w *world) succeed() {
	if w.kube.holder == w.leader && !w.leader.dead && !w.leader.frozen {
		return
	}
	if left := w.kube.renewed + leaseFor - w.now; left > 0 {
		w.after(left+w.between(0, 2*second), w.succeed)
		return
	}
	w.lead()
}

func (w *world) holdsLease(op *operator) bool {
	return w.kube.holder == op && w.now-w.kube.renewed < leaseFor
}

// die is kill -9 of the operator.
func (op *operator) die(why string) {
	if op.dead {
		return
	}
	op.dead = true
	op.w.say("%s is dead: %s", op.name, why)
	op.w.after(0, func() {
		for _, p := range op.processes {
			if !p.over {
				p.stop()
			}
		}
	})
	op.w.after(0, op.w.succeed)
}

// freeze stops a process of the operator in its tracks for a while. It does not know.
func (op *operator) freeze(ms int64) {
	if op.dead || op.frozen {
		return
	}
	op.frozen = true
	op.w.say("%s is frozen", op.name)
	op.w.after(ms, op.thaw)
	op.w.after(0, op.w.succeed)
}

func (op *operator) thaw() {
	if !op.frozen {
		return
	}
	op.frozen = false
	op.w.say("%s is thawed", op.name)
	parked := op.parked
	op.parked = nil
	for _, p := range parked {
		op.w.after(op.w.between(0, 20), p.resume)
	}
}

// point is a place between two calls: the operator may die or freeze here.
func (op *operator) point(p *process) {
	if op.cutIn > 0 {
		if op.cutIn--; op.cutIn == 0 {
			op.die("killed between two calls")
			panic(killed{})
		}
	}
	if op.freezeIn > 0 {
		if op.freezeIn--; op.freezeIn == 0 {
			op.freeze(op.freezeFor)
			op.parked = append(op.parked, p)
			p.pause()
		}
	}
	if op.frozen { // by another of its threads
		op.parked = append(op.parked, p)
		p.pause()
	}
}

// run is the reconcile loop.
func (op *operator) run(p *process) {
	for !op.w.gone {
		again := op.reconcile(p)
		op.nap(p, again)
		if len(op.processes) > 50 {
			op.processes = slices.DeleteFunc(op.processes, func(p *process) bool { return p.over })
		}
	}
}

// nap waits for the next pass, unless the prober finds the primary silent before.
func (op *operator) nap(p *process, ms int64) {
	w := op.w
	awake := false
	op.wake = func() {
		if !awake {
			awake = true
			p.resume()
		}
	}
	w.after(max(ms, 20), op.wake)
	if ms > probeEvery {
		op.probe(op.primary != nil && op.reaches(op.primary), op.primary.commitFacts(), func() bool { return awake }, op.wake)
	}
	p.pause()
}

// probe looks every second whether the primary still answers as before, and wakes the reconciler when that changed.
func (op *operator) probe(before bool, facts string, over func() bool, wake func()) {
	op.w.after(probeEvery, func() {
		switch {
		case op.dead || over():
		case op.frozen || op.reaches(op.primary) == before && (!before || op.primary.commitFacts() == facts):
			op.probe(before, facts, over, wake)
		default:
			wake()
		}
	})
}

func (op *operator) reaches(in *instance) bool {
	return in != nil && in.server != nil && in.server.writable && !in.frozen && op.w.net.open(operatorNode, in.node)
}

// commitFacts is what the prober reads with each write; a change wakes the reconciler.
func (in *instance) commitFacts() string {
	if in == nil || in.server == nil {
		return ""
	}
	s := in.server
	return fmt.Sprint(s.sourceEnabled, s.timedOut, s.wait, s.counted(), s.offTimes)
}

// reconcile is one pass: observe, decide, remember, act, publish. It returns after how many milliseconds the next is due.
func (op *operator) reconcile(p *process) int64 {
	w := op.w
	began := w.now
	if err := op.openRecords(p); err != nil {
		w.say("%s: %v", op.name, err)
		return second
	}
	lost := op.stored.Lost
	w.forgot = w.forgot || lost
	o, ok := op.observe(p, lost)
	if !ok {
		return second
	}
	d := w.desired
	d.Template, d.PreviousTemplate = templateText(d), beforeOf(op.records(), d.Version)
	d.Subnets = op.requests.WithRefusals(d.Subnets, w.time())
	op.desired = d
	if !o.CloudReachable {
		d.Subnets = nil
	}
	plan := topology.Next(d, o)
	op.looks.Detector.Expect(plan)
	if text := planText(plan, o); text != op.said {
		w.say("%s: %s", op.name, text)
		op.said = text
	}
	w.checkPlan(plan, o, d)
	if lost && !o.CloudReachable {
		// Rebuilt records cannot be saved yet. An action that saves its part of them would make lost ones pass for whole.
		return second
	}
	moved := op.stored.Moves(plan.Records)
	if _, err := op.stored.Remember(p.context(), plan.Records.Clone()); err != nil {
		w.say("%s: %v", op.name, err)
		return second
	}
	w.dying.recordAsked(d.RebuildMember, began)
	op.observed(plan, o, began)
	if op.shown.PrimaryFirst(plan, o) {
		op.publish(p, plan, o)
	}
	outcome := op.act(p, d, plan, o)
	outcome.Moved = moved
	op.publish(p, plan, o)
	if w.leader == op {
		op.conclude(d, plan, began)
	}
	op.writeStatus(p, plan)
	return outcome.LookAgain(plan).Milliseconds()
}

// observed notes when the operator observed the primary, and the strangers that it had then.
func (op *operator) observed(plan topology.Plan, o topology.Observed, began int64) {
	primary := op.w.serverOf(op.w.ordinal(plan.Primary))
	if primary == nil || plan.Primary == "" || o.Members[plan.Primary].SQL.Access != topology.AccessVerified {
		return
	}
	primary.st.observed = began
	for _, st := range op.w.strangersOf(primary) {
		st.passes++
	}
}

// writeStatus is the last thing that a pass does.
func (op *operator) writeStatus(p *process, plan topology.Plan) {
	op.point(p)
	if plan.Primary == "" || op.w.desired.Deleting {
		return
	}
	for _, u := range plan.Records.Uncovered.LostWith(plan.Primary) {
		op.w.kube.uncovered[u.Primary] = u.Since
	}
}

// conclude notes what a pass of the leader means for those who wait for it.
func (op *operator) conclude(d topology.Desired, plan topology.Plan, began int64) {
	w := op.w
	w.passes++
	if began >= w.healed {
		w.plan = plan // what an operator that was frozen saw before says nothing of the end
	}
	if plan.Answers.Switchover.Given() && w.desired.SwitchoverTo == d.SwitchoverTo {
		w.desired.SwitchoverTo = "" // done with, as controllers remove the annotation
	}
	answerRebuild(w, d, plan)
	if plan.Gone {
		w.gone = true
	}
}

// publish shows the cluster to the clients: what was observed before this pass acted.
func (op *operator) publish(p *process, plan topology.Plan, o topology.Observed) {
	w := op.w
	op.point(p)
	op.primary = nil
	if plan.Primary == "" || w.desired.Deleting {
		return
	}
	if in := o.Members[plan.Primary].CurrentInstance(); in != nil {
		op.primary = w.instance(in.ID)
		if w.kube.primary != in.Address {
			w.say("%s: the primary Service leads to %s", op.name, plan.Primary)
		}
		w.kube.primary = in.Address
	}
	op.shown.PrimaryShown(plan, o)
	op.shown.Shown(engine.Endpoints(plan), w.time())
	clear(w.kube.inService)
	for _, v := range plan.Members {
		if v.InService && v.Role == v1alpha1.RoleReplica {
			w.kube.inService[v.Name] = true
		}
	}
}

// planText is a plan in one line.
func planText(plan topology.Plan, o topology.Observed) string {
	text := fmt.Sprintf("phase %s, primary %q,", plan.Phase, plan.Primary)
	for _, name := range slices.Sorted(maps.Keys(o.Members)) {
		m := o.Members[name]
		text += " " + name + "=" + stateText(m)
	}
	for _, a := range plan.Actions {
		if _, upkeep := a.(topology.EnsureSecurityGroup); !upkeep {
			text += "; " + a.String()
		}
	}
	if plan.Waiting.Reason != "" {
		text += " (" + plan.Waiting.Message + ")"
	}
	for _, f := range plan.Degraded {
		text += " [" + f.Message + "]"
	}
	return text + fmt.Sprintf(" again in %s", plan.RequeueAfter.Round(time.Millisecond))
}

func stateText(m *topology.Member) string {
	text := "-"
	if in := m.CurrentInstance(); in != nil {
		text = in.State
	}
	s := m.SQL
	if s.Access != topology.AccessVerified {
		return text + "/" + string(s.Access)
	}
	if s.Writable {
		text += fmt.Sprintf("/writable W=%d on=%t pending=%d clients=%d", s.SemiSync.WaitCount, s.SemiSync.SourceEnabled, s.PendingCommits, s.SemiSync.Clients)
	}
	if r := s.Replication; r != nil {
		text += fmt.Sprintf("/io=%s sql=%t ack=%t from=%s", r.IOState, r.SQLRunning, s.SemiSync.ReplicaActive, r.SourceHost)
	}
	if s.Membership != nil {
		text += fmt.Sprintf("/e%d%v", s.Membership.Epoch, s.Membership.Voters)
	}
	return text
}
