package topology

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// replication seeds members, and connects them to the primary.
type replication struct {
	*pass
	acks      *acks
	turns     *turns
	votes     *votes
	soundness *soundness
	seeding   *seeding
	failover  *failover
	adoption  *adoption
}

// replicate gives the members that answer their roles.
func (p *replication) replicate() {
	p.dropRebuildRequests()
	p.acks.recordRivals()
	primary := p.failover.choosePrimary()
	if primary == nil {
		for _, m := range p.ordered() {
			if v := p.views[m.Name]; v.Phase == v1alpha1.PhaseReplicating && m.verified() {
				v.Step = waits("waiting for a primary")
			}
		}
		return
	}
	p.plan.Primary = primary.Name
	p.views[primary.Name].Role = v1alpha1.RolePrimary
	p.views[primary.Name].InService = true
	p.acks.coverCommits(primary)
	p.acks.outwaitStrangers(primary)
	p.votes.finishLeaving(primary)
	p.acks.forgetNonVoterAcks()
	if !p.votes.bridge(primary) {
		p.votes.removeLostVoters(primary)
	}
	p.takeRebuildRequest(primary)
	p.restoreAccount(primary)
	admitting := p.unconfirmed
	for _, m := range p.ordered() {
		v := p.views[m.Name]
		v.Voter = p.plan.Membership.Has(m.Name)
		if m != primary && v.Phase == v1alpha1.PhaseReplicating {
			p.follow(m, primary, &admitting)
		}
	}
	p.votes.keepWait(primary, admitting)
	p.adoption.adopt(primary)
	if v := p.views[primary.Name]; v.Phase == v1alpha1.PhaseReplicating && !p.unconfirmed {
		v.Phase = v1alpha1.PhaseReady
	}
}

// follow makes a member a replica that serves and votes.
func (p *replication) follow(m, primary *Member, admitting *bool) {
	v := p.views[m.Name]
	v.Role = v1alpha1.RoleReplica
	switch {
	case !m.verified(): // restarting; join said so
		return
	case p.plan.Records.Rolling == m.Name && (m.Ordinal >= p.Replicas || p.turns.tooNew(m)) && !p.turns.mayBeNeeded(m):
		return // it is being taken away, and what it cannot do any more must not hold that up
	case m.SQL.Writable:
		// Being unseated. Replicating would switch off its wait for acknowledgements, and so answer commits that
		// nobody else holds (fact 4).
		v.Step = waits("being made read-only")
		p.waitAtMost(waitMySQL)
		return
	}
	v.Step = p.votes.excludeUnstable(m, primary)
	if !v.Step.Waits() {
		v.Step = p.votes.expelLate(m, primary)
	}
	if !v.Step.Waits() {
		v.Step = p.seed(m, primary)
	}
	if !v.Step.Waits() {
		v.Step = p.soundness.restore(m, primary)
	}
	if !v.Step.Waits() {
		v.Step = p.votes.vote(m, primary, admitting)
	}
	p.serve(m, v)
}

// seed plans a replica's next step until both its threads run, and returns what it waits for.
func (p *replication) seed(m, primary *Member) Step {
	if why := p.endSource(m, primary); why.Waits() {
		return why
	}
	switch {
	case m.cloning():
		p.waitFor(m)
		return waits("being cloned: " + m.SQL.Clone.Message)
	case p.restartMayHelp(m):
		p.retry(waitMySQL, Restart{m.Name})
		return waits("restarting mysqld, because a changed setting waits for it, before it is rebuilt")
	case p.acknowledgesInVain(m):
		// Nobody may count on an acknowledgement of a member that a promotion would not ask, and its threads are not started as long as
		// it would give one.
		p.retry(waitMySQL/2, SetAcknowledging{m.Name, false, primary.Name})
		return waits("switching its acknowledgements off until it is a voter")
	case m.SQL.Clone.unread() && !p.mayVote(m):
		p.waitAtMost(waitMySQL)
		return waits("no voter before mysqld shows how its last CLONE ended: " + m.SQL.Clone.Message)
	case m.SQL.Executed.IsEmpty(), m.cloneCutOff() && !p.mayVote(m):
		// What a CLONE that was cut off leaves behind may say that it executed what it no longer holds (fact 19).
		return p.seeding.rebuild(m, primary, "")
	}
	if why := p.rebuildOnRequest(m, primary); why.Waits() {
		return why
	}
	if why := p.rebuildDiverged(m, primary); why.Waits() {
		return why
	}
	if why := p.rebuildGapped(m, primary); why.Waits() {
		return why
	}
	if r := m.SQL.Replication; r != nil && r.Own.Reading {
		p.waitAtMost(waitMySQL / 4)
		if !p.mayVote(m) {
			return waits(fmt.Sprintf("reading in its binary log what it holds and %s does not", primary.Name))
		}
	}
	return p.connect(m, primary)
}

// endSource has a member that replicates wait for no acknowledgements, and returns what it waits for. Where a client's commit waits its instance
// is powered off, one at a time, and while it acknowledges only if others do too.
func (p *replication) endSource(m, primary *Member) Step {
	in := m.CurrentInstance()
	switch {
	case m.applierIsSource():
		p.retry(waitMySQL/2, m.endApplierWait())
		return waits("switching rpl_semi_sync_source_enabled off, which is for the primary alone: its applier would wait for acknowledgements")
	case !m.waitsInVain() || in == nil:
		return Step{}
	}
	p.waitAtMost(waitMySQL)
	if p.receives(m, primary) && p.mayVote(m) && (slices.ContainsFunc(p.plan.Actions, isStop) || !p.votes.mayRemove(m, primary)) {
		return waits("commits wait on it that nobody may acknowledge any more; it is powered off once others acknowledge without it")
	}
	if p.CloudReachable && !p.busy(m.Name) {
		p.stop(m, in)
	}
	return waits("powered off: commits wait on it that nobody may acknowledge any more")
}

// restartMayHelp says whether an error keeps a member from replicating, or from being cloned, that has no vote and whose mysqld is to be
// restarted for a setting: that may be what is wrong, as with innodb_force_recovery. Nobody waits for such a member, so it waits for nobody
// to be well. It waits while changes are held back: what is wrong may as well be something else.
func (p *replication) restartMayHelp(m *Member) bool {
	return p.Hold == "" && m.SQL.RestartPending && (m.broken() || m.cloneCutOff()) && !p.mayVote(m) && p.plan.Membership.Settled()
}

func isStop(a Action) bool { _, stop := a.(StopInstance); return stop }

// acknowledgesInVain says whether a member that is no voter, and that nobody waits for, acknowledges.
func (p *replication) acknowledgesInVain(m *Member) bool {
	row := p.plan.Membership
	return !row.Has(m.Name) && m.mayBeHeard() && !p.acks.awaited(m) && (len(row.Voters) > 1 || !m.following())
}

// rebuildDiverged plans to rebuild a member that holds what the primary does not, or lacks what the binary logs no longer hold, and
// returns what it waits for.
func (p *replication) rebuildDiverged(m, primary *Member) Step {
	row := p.plan.Membership
	// A primary whose row still waits, or waits to be confirmed, may need the acknowledgement of a member that is to be rebuilt, and
	// so may one that has too few others.
	if errant := p.errant(m, primary); !errant.IsEmpty() && (!p.mayVote(m) || !p.unconfirmed && row.Settled() && p.votes.mayRemove(m, primary)) {
		p.degraded(v1alpha1.ReasonMemberUntrusted, fmt.Sprintf("%s holds transactions that %s does not: %s; its volume is kept as a snapshot for 7 days and the member is rebuilt", m.Name, primary.Name, errant))
		return p.seeding.rebuild(m, primary, errant.String())
	}
	if outOfReach(m, primary) {
		return p.rebuildOutOfReach(m, primary)
	}
	return Step{}
}

// rebuildOutOfReach plans to rebuild a member that lacks what the binary logs no longer hold, and returns what it waits for. A voter that still
// receives lacks nothing that was acknowledged, as after SET GLOBAL gtid_purged on the primary: it keeps its vote until all others vote.
func (p *replication) rebuildOutOfReach(m, primary *Member) Step {
	until, votes := "all other members vote and acknowledge", m.following() && p.receives(m, primary) && p.mayVote(m)
	if p.Replicas == 2 {
		until = fmt.Sprintf("its connection ends, because no other replica votes. Annotate the cluster with %s=%s to have it rebuilt now", v1alpha1.AnnotationRebuild, m.Name)
	}
	if votes && (len(p.plan.Membership.Voters) == 2 || p.needsVote(m, primary).Waits()) {
		p.degraded(v1alpha1.ReasonReplicationBroken, m.Name+" lacks transactions that the binary logs no longer hold; it is rebuilt when "+until)
		p.waitAtMost(waitMySQL)
		return waits("to be rebuilt when " + until)
	}
	p.degraded(v1alpha1.ReasonReplicationBroken, m.Name+" lacks transactions that the binary logs no longer hold; reseeding it")
	return p.seeding.rebuild(m, primary, "")
}

// rebuildGapped plans to replace what a member with a gap holds, and returns what it waits for. While its vote is needed it acknowledges
// on: what it has received is in its relay log, and its position in a proof is right.
func (p *replication) rebuildGapped(m, primary *Member) Step {
	gap := p.plan.Records.gap(m)
	if !gap.found() || p.plan.Records.gap(primary).found() {
		return Step{}
	}
	if row := p.plan.Membership; p.mayVote(m) && (p.unconfirmed || !row.Settled() || !p.votes.mayRemove(m, primary)) {
		return Step{}
	}
	return p.seeding.rebuild(m, primary, fmt.Sprintf("gap after %s: %s", gap.After, gap.Why))
}

// connect has a member replicate from the primary, and returns what it waits for.
func (p *replication) connect(m, primary *Member) Step {
	source := primary.CurrentInstance()
	if source == nil {
		p.waitAtMost(waitEC2)
		return waits("waiting for the address of " + primary.Name)
	}
	r := m.SQL.Replication
	idle := r == nil || r.IOState == ioOff
	switch {
	case r.relayLogMissing() && (!p.acks.leaderDoubted() || !p.dispensed(m, primary)):
		return p.resetRelayLog(m, primary)
	case m.stuck(p.Now):
		return p.mend(m, primary, source.Address)
	case !r.isOf(source.Address) || (idle || !r.SQLRunning) && !r.Broken():
		p.do(ReplicateFrom{m.Name, primary.Name, source.Address, idle && p.acks.acknowledges(m, primary)})
		return waits("starting replication from " + primary.Name)
	case m.broken():
		return p.mend(m, primary, source.Address)
	case r.IOState == ioConnecting:
		p.waitFor(m)
		return waits("connecting to " + primary.Name + r.whyNotConnected())
	}
	return Step{}
}

// restoreAccount has the primary take the account of its replicas again. Without it no replica that was cut off once comes back.
func (p *replication) restoreAccount(primary *Member) {
	source := primary.CurrentInstance()
	for _, m := range p.ordered() {
		r := m.SQL.Replication
		if source != nil && m.verified() && r != nil && r.AccountRefused && r.IOState != ioOn && r.SourceHost == source.Address {
			p.retry(waitMySQL, RestoreReplicationAccount{primary.Name})
			return
		}
	}
}

// whyNotConnected follows the name of a source that a replica is not connected to.
func (r *Replication) whyNotConnected() string {
	if r == nil || r.ConnectError == "" {
		return ""
	}
	return ": " + r.ConnectError
}

// isOf says whether a channel is the one from a source, and is as the operator sets it.
func (r *Replication) isOf(address string) bool {
	return r != nil && r.SourceHost == address && !r.Tampered()
}

// waitsInVain says whether commits of a read-only member wait for acknowledgements: prepared transactions that were committed after it
// had been made read-only. Replicating would answer their clients.
func (m *Member) waitsInVain() bool { return m.SQL.SemiSync.SourceEnabled && m.SQL.PendingCommits > 0 }

// applierIsSource says whether a replica applies while semi-sync is on for what it commits, as after SET GLOBAL by a person: its applier waits
// (fact 7). No client's commit does: that has a GTID of the replica's own.
func (m *Member) applierIsSource() bool {
	r, waiting := m.SQL.Replication, m.SQL.Waiting
	applies := m.SQL.SemiSync.SourceEnabled && !m.SQL.Writable && r != nil && r.SQLRunning
	return applies && (m.SQL.PendingCommits == 0 || !waiting.IsEmpty() && waiting.Equal(waiting.WithoutSource(m.SQL.ServerUUID)))
}

// endApplierWait is the action that lets such an applier go on. It answers no client.
func (m *Member) endApplierWait() Action {
	return SetSourceWait{Member: m.Name, Alone: m.SQL.PendingCommits > 0}
}

// outOfReach says whether a replica lacks transactions that the primary's binary logs no longer hold.
func outOfReach(m, primary *Member) bool {
	return !m.SQL.Executed.Contains(primary.SQL.Purged) && !m.position().Contains(primary.SQL.Purged)
}

// stuck says whether an applier has been stopped by an error for so long that starting it again is of no use. Such a member
// can follow no other source either: what it received has to be applied before.
func (m *Member) stuck(now time.Time) bool {
	return m.verified() && m.SQL.Replication.applierBroken() && !m.BrokenSince.IsZero() && now.Sub(m.BrokenSince) >= brokenPatience
}

// mend tries for a while to start replication again that an error stopped, then has the member rebuilt.
func (p *replication) mend(m, primary *Member, address string) Step {
	r := m.SQL.Replication
	p.degraded(v1alpha1.ReasonReplicationBroken, fmt.Sprintf("%s: %s", m.Name, r.stopped()))
	if m.BrokenSince.IsZero() || p.Now.Sub(m.BrokenSince) < brokenPatience {
		p.retry(waitEC2, ReplicateFrom{m.Name, primary.Name, address, r.IOState == ioOff && p.acks.acknowledges(m, primary)})
		return waits(r.stopped())
	}
	return p.seeding.rebuild(m, primary, m.SQL.Executed.String())
}

// resetRelayLog has a member whose relay log is missing receive again what it had not applied, and returns what it waits for. Its word stays
// what it was, because it shows nothing of that relay log either way. Where others acknowledge without it, it loses its vote first, so that
// no proof rests on that word whatever took the file; where they do not, its disk is worth more than its vote.
func (p *replication) resetRelayLog(m, primary *Member) Step {
	if p.dispensed(m, primary) && !p.votes.expel(m, primary) {
		p.waitAtMost(waitMySQL)
		return waits("losing its vote before its relay log is reset")
	}
	p.degraded(v1alpha1.ReasonReplicationBroken, fmt.Sprintf("%s: the relay log that its applier reads is missing, as after a power failure; the operator resets it, and %s sends what was not applied again", m.Name, primary.Name))
	p.retry(waitMySQL/4, ResetRelayLog{m.Name})
	return waits("its relay log is being reset")
}

// dispensed says whether commits are acknowledged by as many other voters as they wait for.
func (p *replication) dispensed(m, primary *Member) bool {
	return p.Lossless && len(p.plan.Membership.Voters) > 2 && p.acks.suffice(*p.plan.Membership, primary, m.Name)
}

// mysqlAddress returns host:port of a member's mysqld, once its instance has an address.
func mysqlAddress(m *Member) (address string, known bool) {
	in := m.CurrentInstance()
	if in == nil || in.Address == "" {
		return "", false
	}
	return net.JoinHostPort(in.Address, strconv.Itoa(v1alpha1.MySQLPort)), true
}

// serve decides whether a replica serves reads, and with it whether it is Ready. It goes into service within MaxLag
// and out again only past twice that.
func (p *replication) serve(m *Member, v *View) {
	r := m.SQL.Replication
	if r == nil {
		return
	}
	v.Lag, v.LagKnown = r.Lag, r.LagKnown
	if !r.LateSince.IsZero() {
		v.Lag, v.LagKnown = max(r.Lag, p.Now.Sub(r.LateSince)), true // MySQL says 0 s of what was not received
	}
	limit := p.MaxLag
	if p.InService[m.Name] {
		limit *= 2
	}
	v.InService = r.LagKnown && v.Lag <= limit && r.SQLRunning && r.IOState == ioOn && !m.cloning() && !p.plan.Records.gap(m).found()
	p.reportApplier(m)
	switch {
	case v.Step.Waits():
	case !v.InService:
		p.waitFor(m)
		v.Step = waits("catching up" + m.behind())
	default:
		v.Phase = v1alpha1.PhaseReady
	}
}
