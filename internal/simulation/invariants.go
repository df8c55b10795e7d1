package simulation

import (
	"slices"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// The invariants, by name.
const (
	lostCommit     = "no acknowledged commit is missing from a primary that acknowledges"
	twoPrimaries   = "two members never both can acknowledge"
	untold         = "what was answered without the voters is told when it is lost"
	untoldStall    = "writes never wait for long without a word"
	thinCommit     = "a commit is answered only when the row's voters keep it"
	wildRow        = "the voters change one at a time and in two rows, with W = N/2 and epochs of their own"
	duplicated     = "no instance and no volume is duplicated"
	leaked         = "nothing is leaked"
	dataDeleted    = "no volume with data is deleted but by the deletion policy"
	wrongStatus    = "the status never calls a member the primary that is not"
	notConverged   = "when faults stop it converges"
	sleepless      = "when faults stop a cluster that is to hibernate has no instances soon"
	silentDiverged = "replicas hold what was acknowledged, and nothing that the primary does not"
	reissued       = "no client's transaction gets a GTID that another had"
	keptVote       = "a member that votes is never emptied"
	droppedRelay   = "nothing that was received is thrown away before it is applied"
	rolledRashly   = "a member is disturbed on purpose only when all others are well, and the primary last"
	tooOld         = "no older mysqld is started on what a newer one has opened"
	heldBack       = "nobody is disturbed while that is held back"
	undone         = "what people asked for is done"
	expelledRashly = "a member that crashes loses its vote only when others that are stable can do without it"
	wronglyCrashed = "mysqld of a member is said to crash only when it did"
	wrongZone      = "an instance is launched in the zone of its volume"
	lateWrites     = "no volume is used while a host that EC2 calls stopped may write to it"
	unsyncedVoter  = "a voter acknowledges from memory only when it has itself executed a row that says so"
	flaps          = "of failovers by mere silence two may follow each other at once, and one a minute after that"
	asksHotly      = "EC2 is asked the same a bounded number of times a minute"
)

// check holds the invariants that may break at any moment.
func (w *world) check() {
	if !w.roles || w.failure != nil {
		return
	}
	w.roles = false
	var able *mysqld
	for _, in := range w.cloud.instances {
		s := in.server
		if s == nil || !s.canAcknowledge() {
			continue
		}
		if able != nil {
			w.fail(twoPrimaries, "%s on %s and %s on %s", able.on.member, able.on.ID, in.member, in.ID)
			return
		}
		able = s
		if !w.lossy && !s.st.content.contains(w.acked) {
			w.fail(lostCommit, "%s lacks%s; %s", in.member, w.ledger.names(w.acked.without(s.st.content)), rowText(s.st.row))
		}
	}
}

// canAcknowledge says whether a commit on this server would be answered with OK, now or later, without anybody changing
// anything on any server: it is writable, and waits for nobody or for replicas that may all come to acknowledge. Frozen
// instances may thaw and networks may heal, so those count.
func (s *mysqld) canAcknowledge() bool {
	if !s.writable {
		return false
	}
	if s.meddled && s.unseen(s.meddledAt) || s.timedOut && s.unseen(s.timedOutAt) {
		return false // it may well, and nobody can know
	}
	if !s.waits() {
		return true
	}
	able := s.knownStrangers()
	for _, in := range s.w.cloud.instances {
		r := in.server
		if r != nil && r != s && r.io != ioOff && r.acknowledges && r.st.source == s.on.Address {
			able++
		}
	}
	return able >= s.wait
}

// answered is told of every commit that a server is about to answer.
func (w *world) answered(s *mysqld, c *commit) {
	if w.lossy || w.ledger.all[c.id].client < 0 {
		return
	}
	if !s.st.content.contains(w.acked) && !w.survives(c, s) && !w.uncover(s, c) {
		w.fail(lostCommit, "%s answers a commit and lacks%s", s.on.member, w.ledger.names(w.acked.without(s.st.content)))
	}
	row := s.st.row
	if row == nil || w.volumesLost() && (voting(w, row.Voters, c.heldOn) > len(row.Voters)/2 || !w.uncover(s, c)) {
		return
	}
	if !s.sourceEnabled && !s.meddled && (w.kube.records.Alone == s.on.member && w.kube.records.AloneSince > row.Epoch || w.aloneForgotten()) {
		return // the other is not promoted without it
	}
	checkKept(w, s, c, row)
}

// checkKept holds that more than half of the voters keep a commit: they hold it, or no proof counts them. No promotion can miss it then.
func checkKept(w *world, s *mysqld, c *commit, row *mysql.Membership) {
	keeps := func(v *volume) bool { return c.heldOn(v) || w.forgetful(v, row) }
	keptBefore := voting(w, row.Previous, keeps) > len(row.Previous)/2
	if w.forgot && len(row.Previous) > 0 && keptBefore {
		return // the operator no longer knew who was leaving; a promotion is proven under the voters before as well
	}
	for _, voters := range [][]string{row.Voters, row.Previous} {
		if len(row.Previous) > len(row.Voters) && keptBefore {
			break // one that is being removed stands in; until that is confirmed a promotion is proven under the voters before as well
		}
		if len(voters) == 0 || voting(w, voters, c.heldOn) > len(voters)/2 || w.uncover(s, c) {
			continue // what a stranger stood in for may be lost, whoever has forgotten something
		}
		if n := voting(w, voters, keeps); n < len(voters)/2+1 {
			w.fail(thinCommit, "%s answers%s, which %d of %v keep; %s", s.on.member, w.ledger.names([]int{c.id}), n, voters, rowText(row))
		}
	}
}

// survives says whether a commit that is answered late is in what others have gone on from: whoever took over holds it, and all
// that was acknowledged. Acknowledgements that were given before the take-over, and one that comes after it, may together answer
// a client of the old primary; nothing is lost by that, and nothing else can be answered there. Whether enough answer the new one
// at the moment does not matter.
func (w *world) survives(c *commit, old *mysqld) bool {
	for _, in := range w.cloud.instances {
		if s := in.server; s != nil && s != old && s.writable && s.st.row != nil && old.st.row != nil && s.st.row.Epoch > old.st.row.Epoch &&
			s.st.content.has(c.id) && s.st.content.contains(w.acked) {
			return true
		}
	}
	return false
}

// heldOn says whether a volume has a commit.
func (c *commit) heldOn(v *volume) bool {
	return v.st.content.has(c.id) || slices.Contains(v.st.relay, c.id)
}

// voting counts the voters of which something holds.
func voting(w *world, voters []string, is func(*volume) bool) int {
	n := 0
	for _, v := range w.cloud.volumes {
		if v.st != nil && !v.retired && slices.Contains(voters, v.member) && is(v) {
			n++
		}
	}
	return n
}

// forgetful says whether a voter acknowledged from a memory that is gone, by what a row says. One that was opened, and replicates from
// nobody since, had executed all.
func (w *world) forgetful(v *volume, row *mysql.Membership) bool {
	memory, opened := row.Memory[v.member], v.st.source == "" && v.st.row != nil && v.st.row.Primary == v.member
	if s := w.serverOf(w.ordinal(v.member)); memory == "" || opened || s != nil && s.st == v.st && s.memory == memory {
		return false
	}
	return true
}

func (w *world) volumesLost() bool {
	for _, v := range w.cloud.volumes {
		if v.State == deleted {
			return true
		}
	}
	return false
}

// checkRow is told of every membership row that is about to be written.
func (w *world) checkRow(s *mysqld, next *mysql.Membership) {
	if other := w.rows[next.Epoch]; other != "" && other != rowText(next) && !w.forgot {
		w.fail(wildRow, "%s is to write %s, and %s was written", s.on.member, rowText(next), other)
	}
	w.rows[next.Epoch] = rowText(next)
	before := s.st.row
	if before == nil {
		return
	}
	fits := follows(before, next) || w.lossy && next.Epoch > before.Epoch && follows(w.rowBefore(next.Epoch), next)
	if next.Epoch <= before.Epoch || next.W != len(next.Voters)/2 || !fits {
		w.fail(wildRow, "%s is to write %s after %s", s.on.member, rowText(next), rowText(before))
	}
}

// rowBefore returns the newest row that was written before an epoch. With asynchronous replication who is promoted under it
// may not have received it: rows are lost like other commits.
func (w *world) rowBefore(epoch uint64) *mysql.Membership {
	var newest *mysql.Membership
	for _, t := range w.ledger.all {
		if t.row != nil && t.row.Epoch < epoch && (newest == nil || t.row.Epoch > newest.Epoch) {
			newest = t.row
		}
	}
	return newest
}

// follows says whether a row's voters may follow those of another: they stay, a change of one is begun or confirmed, or
// the primary is left alone.
func follows(before, next *mysql.Membership) bool {
	if slices.Equal(before.Voters, next.Voters) {
		return len(next.Previous) == 0 || slices.Equal(next.Previous, before.Previous)
	}
	if len(next.Voters) == 1 && next.Voters[0] == next.Primary && next.W == 0 {
		return true
	}
	changes := 0
	for _, v := range next.Voters {
		if !slices.Contains(before.Voters, v) {
			changes++
		}
	}
	for _, v := range before.Voters {
		if !slices.Contains(next.Voters, v) {
			changes++
		}
	}
	return changes == 1 && len(before.Previous) == 0 && slices.Equal(next.Previous, before.Voters)
}

// checkDeletion is told of every volume that is about to be deleted, and by which spec: a person may have changed it a moment ago.
func (w *world) checkDeletion(v *volume, d topology.Desired) {
	if v.Foreign {
		return // nothing was ever written to it
	}
	if v.st != nil && !w.desired.Deleting && w.specChanges > 0 {
		keptFor := func(prefix string) bool {
			return slices.ContainsFunc(w.cloud.snapshots, func(s *snapshot) bool {
				return s.VolumeID == v.ID && s.State == completed && strings.HasPrefix(s.Purpose, prefix)
			})
		}
		if w.ordinal(v.member) < d.Replicas {
			if !keptFor("quarantine-takenback-") || w.kube.records.Rolling != v.member {
				w.fail(dataDeleted, "volume %s of %s carries data, which mysqld %s has opened, and is not kept", v.ID, v.member, v.st.opened)
			}
			return
		}
		kept := keptFor("scalein-")
		if w.shape.policy == v1alpha1.DeletionPolicyRetain || w.shape.policy == v1alpha1.DeletionPolicySnapshot && !kept || w.kube.records.Rolling != v.member {
			w.fail(dataDeleted, "volume %s of %s carries data and is not kept", v.ID, v.member)
		}
		return
	}
	if v.st != nil && !w.desired.Deleting {
		w.fail(dataDeleted, "volume %s of %s carries data", v.ID, v.member)
	}
	if v.st == nil || w.desired.DeletionPolicy != v1alpha1.DeletionPolicySnapshot || w.kube.records.Bootstrapped == "" {
		return
	}
	for _, id := range w.kube.records.FinalVolumes {
		done := slices.ContainsFunc(w.cloud.snapshots, func(s *snapshot) bool { return s.VolumeID == id && s.State == completed })
		if alive := w.volume(id); !done && alive != nil && alive.State != deleted {
			w.fail(dataDeleted, "volume %s goes before the final snapshot of %s is completed", v.ID, id)
		}
	}
}

// checkPlan holds what must be true of every plan. d is the spec that it was made for.
func (w *world) checkPlan(plan topology.Plan, o topology.Observed, d topology.Desired) {
	primaries := 0
	for _, v := range plan.Members {
		m := o.Members[v.Name]
		if v.Role == v1alpha1.RolePrimary {
			primaries++
			if m == nil || !m.SQL.Writable || plan.Primary != "" && v.Name != plan.Primary { // without a row a plan has none
				w.fail(wrongStatus, "%s is called the primary", v.Name)
			}
		}
		if !v.InService {
			continue
		}
		replicates := m.SQL.Replication != nil && m.SQL.Replication.IOState == ioOn && m.SQL.Replication.SQLRunning
		if m.SQL.Access != topology.AccessVerified || v.Role != v1alpha1.RolePrimary && !replicates {
			w.fail(wrongStatus, "%s is in service as %s", v.Name, v.Role)
		}
	}
	if primaries > 1 {
		w.fail(wrongStatus, "%d members are called the primary", primaries)
	}
	w.checkRolling(plan, o)
	w.checkStall(plan, o)
	w.checkExpelled(plan, o, d)
	checkCrashing(w, o)
	w.checkInventory(false)
}

// useless says whether a member neither follows the primary nor could: it has no source, an error stopped its applier, or it holds
// what the primary does not.
func useless(m, primary *topology.Member) bool {
	r := m.SQL.Replication
	return r == nil || r.IOState == ioOff || !r.SQLRunning && r.ApplierError != "" ||
		primary != nil && !m.SQL.Executed.Subtract(primary.SQL.Executed).WithoutSource(primary.SQL.ServerUUID).IsEmpty()
}

// stallTold is how long a commit may wait, in a pass that has seen it wait, before the plan must say so.
const stallTold = 25 * time.Second

// checkStall holds that a person is told of writes that wait.
func (w *world) checkStall(plan topology.Plan, o topology.Observed) {
	m := o.Members[plan.Primary]
	if m == nil || m.StalledSince.IsZero() || o.Now.Sub(m.StalledSince) < stallTold || len(plan.Degraded) > 0 || w.desired.Deleting || w.desired.Hibernate {
		return
	}
	w.fail(untoldStall, "commits have waited on %s since %s, and nobody is told", m.Name, m.StalledSince)
}

// checkRolling holds what must be true of every disturbance on purpose: nobody else is away, it is not the primary's turn
// while there is another who could be, and no replica gets a newer source.
func (w *world) checkRolling(plan topology.Plan, o topology.Observed) {
	for _, a := range plan.Actions {
		switch a := a.(type) {
		case topology.StopInstance:
			if !a.Gracefully {
				continue
			}
			if a.Member == plan.Primary && w.desired.Replicas > 1 {
				w.fail(rolledRashly, "%s is shut down, and is the primary", a.Member)
			}
			if plan.Membership != nil && !plan.Membership.Has(a.Member) && useless(o.Members[a.Member], o.Members[plan.Primary]) {
				continue // neither a voter nor a replica that works: nobody misses it
			}
			for n := range w.desired.Replicas {
				if name := w.desired.MemberName(n); w.ordinal(a.Member) < w.desired.Replicas && name != a.Member && plan.Membership != nil && !plan.Membership.Has(name) {
					w.fail(rolledRashly, "%s is shut down while %s is no voter", a.Member, name)
				}
			}
		case topology.Switchover:
			for n := range w.desired.Replicas {
				m, to := o.Members[w.desired.MemberName(n)], o.Members[a.To]
				if m != nil && to != nil && w.desired.SwitchoverTo == "" && m.Name != a.Member && m.SQL.Access == topology.AccessVerified && versionBelow(m.SQL.Version, to.SQL.Version) {
					w.fail(rolledRashly, "%s with mysqld %s becomes the source of %s with %s", a.To, to.SQL.Version, m.Name, m.SQL.Version)
				}
			}
		}
	}
}

// checkInventory looks for what EC2 holds twice, and at the end for what nobody needs.
func (w *world) checkInventory(end bool) {
	machines, volumes := map[string]int{}, map[string]int{}
	for _, in := range w.cloud.instances {
		if in.State != terminated && in.State != shuttingDown {
			machines[in.member]++
		}
	}
	for _, v := range w.cloud.volumes {
		if v.State != deleted && v.State != deleting && !v.retired {
			volumes[v.member]++
		}
	}
	for member, n := range machines {
		if n > 1 && (end || n > 2+w.specChanges || w.specChanges == 0) {
			w.fail(duplicated, "%s has %d instances", member, n)
		}
	}
	for member, n := range volumes {
		if n > 1 {
			w.fail(duplicated, "%s has %d volumes", member, n)
		}
	}
	if end && (len(machines) != w.desired.Replicas || len(volumes) != w.desired.Replicas) {
		w.fail(leaked, "%d members have %d instances and %d volumes", w.desired.Replicas, len(machines), len(volumes))
	}
}

// converged says whether nothing is left to do, and every client writes again.
func (w *world) converged() bool {
	if w.desired.Deleting {
		return w.gone
	}
	if w.plan.Phase != v1alpha1.PhaseReady || w.plan.Primary == "" || len(w.plan.Members) != w.desired.Replicas || w.plan.Rolling.Reason != "" || w.plan.Records.Rolling != "" {
		return false
	}
	for _, a := range w.plan.Actions {
		if _, upkeep := a.(topology.EnsureSecurityGroup); !upkeep {
			return false
		}
	}
	for _, c := range w.clients {
		if c.healthy <= w.healed {
			return false
		}
	}
	if w.desired.RebuildMember != "" || w.damaged() != nil {
		return false
	}
	for n := range w.desired.Replicas {
		if s := w.serverOf(n); s == nil || s.on.State != running || !s.writable && (s.io != ioOn || !s.sqlRunning || s.lagUntil > w.now) {
			return false
		}
	}
	return true
}

// even says whether nothing is left to do, all members hold the same, and what people asked for is done.
func (w *world) even() bool {
	if w.desired.Deleting {
		return true
	}
	primary := w.serverOf(w.ordinal(w.plan.Primary))
	if w.plan.Phase != v1alpha1.PhaseReady || primary == nil || w.notDone() != "" {
		return false
	}
	for n := range w.desired.Replicas {
		if s := w.serverOf(n); s == nil || len(w.ledger.covered.missing(primary.st.content, s.st.content, s.st.executed.bitset)) > 0 || len(w.ledger.covered.beyond(s.st.content, primary.st.content)) > 0 {
			return false
		}
	}
	return true
}

// checkEnd holds what must be true once everything is well again.
func (w *world) checkEnd() {
	if w.desired.Deleting {
		w.checkGone()
		return
	}
	w.checkInventory(true)
	if what := w.notDone(); what != "" {
		w.fail(undone, "%s", what)
	}
	for _, v := range w.plan.Members {
		s := w.serverOf(w.ordinal(v.Name))
		if s == nil {
			w.fail(notConverged, "%s does not run", v.Name)
			return
		}
		if primary := w.serverOf(w.ordinal(w.plan.Primary)); primary != nil {
			if beyond := w.ledger.covered.beyond(s.st.content, primary.st.content); len(beyond) > 0 {
				w.fail(silentDiverged, "%s holds%s", v.Name, w.ledger.names(beyond))
			}
		}
		if w.lossy || s.st.content.contains(w.acked) {
			continue
		}
		invariant := silentDiverged
		if v.Name == w.plan.Primary {
			invariant = lostCommit
		}
		w.fail(invariant, "%s lacks%s", v.Name, w.ledger.names(w.acked.without(s.st.content)))
	}
	if !w.even() {
		w.fail(notConverged, "the members do not hold the same %ds after the faults stopped", (w.now-w.healed)/second)
	}
}

// checkEmptied judges every member whose data is about to be dropped. The row that is in force says who votes: a former primary that is
// still writable shows an older one.
func (w *world) checkEmptied(s *mysqld) {
	row := w.ledger.inForce
	if row != nil && (slices.Contains(row.Voters, s.on.member) || slices.Contains(row.Previous, s.on.member)) {
		w.fail(keptVote, "%s is cloned, and votes: %s", s.on.member, rowText(row))
	}
}

// checkRelay is told of every relay log that is about to be deleted by a statement.
func (w *world) checkRelay(s *mysqld) {
	for _, id := range s.st.relay {
		if !w.ledger.knows(s.st.executed.bitset, id) {
			w.fail(droppedRelay, "%s throws away%s", s.on.member, w.ledger.names([]int{id}))
			return
		}
	}
}

// checkUnsynced looks at a member whose relay log is not synced any more, or that begins to acknowledge.
func checkUnsynced(w *world, s *mysqld) {
	if s.unsynced && s.acknowledges && s.io != ioOff && (s.st.row == nil || s.st.row.Memory[s.on.member] == "") {
		w.fail(unsyncedVoter, "%s acknowledges what is not on its disk; %s", s.on.member, rowText(s.st.row))
	}
}

// checkGone looks for what a deletion left behind.
func (w *world) checkGone() {
	for _, in := range w.cloud.instances {
		if in.State != terminated {
			w.fail(leaked, "instance %s of %s is %s after the deletion", in.ID, in.member, in.State)
		}
	}
	for _, v := range w.cloud.volumes {
		if v.State != deleted && !v.retired && w.desired.DeletionPolicy != v1alpha1.DeletionPolicyRetain {
			w.fail(leaked, "volume %s of %s is %s after the deletion", v.ID, v.member, v.State)
		}
	}
	for _, s := range w.cloud.snapshots {
		if kept := strings.HasPrefix(s.Purpose, "final-") || strings.HasPrefix(s.Purpose, "scalein-"); !kept && w.desired.DeletionPolicy != v1alpha1.DeletionPolicyRetain {
			w.fail(leaked, "snapshot %s (%s) is left after the deletion", s.ID, s.Purpose)
		}
	}
	if w.cloud.group {
		w.fail(leaked, "the security group is left after the deletion")
	}
}
