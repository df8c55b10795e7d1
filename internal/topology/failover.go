package topology

import (
	"fmt"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// failover finds the primary, or makes one.
type failover struct {
	*pass
	acks    *acks
	volumes *volumes
	healing *healing
}

// choosePrimary returns the member that takes writes, or plans to make one and returns nil.
func (p *failover) choosePrimary() *Member {
	if p.recovering() {
		if p.volumes.copying() {
			p.volumes.recoverCopy()
		} else {
			p.recover()
		}
		return nil
	}
	row := p.newestMembership()
	if row == nil {
		p.begin()
		return nil
	}
	if rec := &p.plan.Records; !rec.Established {
		rec.Established = true
		if !rec.RebuiltAt.IsZero() {
			rec.ReadyMembers = p.Replicas // the cluster was there when its records were lost
		}
	}
	p.plan.Records.takeBack(p.Members)
	p.plan.Membership = row
	current, outdated := p.rivals(row)
	if named := p.Members[row.Primary]; len(current) == 0 && len(outdated) == 1 && named != nil && named.verified() {
		// The member that the newest row names is back, and takes no writes: that row may never have been acknowledged, while
		// the one that was promoted without it has a row of its own that waits for it.
		return p.confirm(outdated[0], *row)
	}
	p.unseat(outdated)
	switch {
	case len(current) == 1 && p.leads(current[0], *row):
		return p.lead(current[0], *row)
	case len(current) == 1:
		return p.confirm(current[0], *row)
	case len(current) > 1:
		p.settleRivals(current, *row)
	case len(outdated) == 0:
		p.promote(*row)
	}
	return nil
}

// begin plans what a cluster needs of which nobody shows a row: one that runs has lost it, any other has yet to begin.
func (p *failover) begin() {
	if !p.restoreRow() {
		p.bootstrap()
	}
}

// rivals returns the writable members that may be the primary by the newest row, and those that cannot. Replicas may show a row before
// the primary that wrote it, which waits for their acknowledgement.
func (o Observed) rivals(row *Membership) (current, outdated []*Member) {
	for _, m := range o.primaries() {
		if own := m.SQL.Membership; own != nil && (own.Epoch == row.Epoch || row.Primary == m.Name) {
			current = append(current, m)
		} else {
			outdated = append(outdated, m)
		}
	}
	return current, outdated
}

// leads says whether a writable member is the primary without a proof: the newest row names it. Those who hold a newer one may have forgotten
// it where they acknowledge from memory, so that there the records must name it as well.
func (p *failover) leads(m *Member, row Membership) bool {
	return row.Primary == m.Name && !p.anotherMayLead(m) && (len(row.Memory) == 0 || p.plan.Records.ledLast(m.Name))
}

// anotherMayLead says whether another member than the primary was to be opened for writes last, and nothing shows that it was not:
// with it gone, members that replicated from it may hold what it had acknowledged before it wrote a row of its own.
func (o Observed) anotherMayLead(primary *Member) bool {
	name := o.Records.Leader
	if name == "" || name == primary.Name {
		return false
	}
	m := o.Members[name]
	return m == nil || !m.verified() || m.SQL.Replication == nil
}

// lead makes the primary's own row the one that everything goes by: what it shows was acknowledged. While replicas show
// a newer one, that waits for its acknowledgement, and nobody's vote is changed.
func (p *failover) lead(m *Member, newest Membership) *Member {
	p.plan.Records.PoweredOff = nil
	p.recordLed(m, newest)
	p.refuseLoss(m)
	p.plan.Membership = m.SQL.Membership
	if m.SQL.Membership.Epoch != newest.Epoch || m.SQL.Membership.Primary != m.Name {
		p.unconfirmed = true
		p.waitAtMost(waitSuspect)
		return m
	}
	p.plan.Records.LossAccepted = 0
	if p.plan.Records.inTerm(newest) {
		p.plan.Records.LeaderVoid = ""
	}
	if p.Records.AloneUnknown {
		p.recordAlone(m)
	}
	return m
}

// recordLed remembers that a member is led on that is not the last one that was to be opened for writes, which proves nothing; unless
// every voter is reached and shows that it holds whatever was acknowledged.
func (p *failover) recordLed(m *Member, newest Membership) {
	rec := &p.plan.Records
	if rec.ledLast(m.Name) {
		if rec.LeaderServer != m.SQL.ServerUUID {
			rec.LeaderEpoch, rec.LeaderVoid, rec.LeaderAcknowledged = 0, "", "" // it writes under another UUID than the one that was noted
		}
		return
	}
	rec.LeaderDoubted = true
	if !p.Lossless || m.SQL.Membership.Epoch != newest.Epoch || m.SQL.Membership.Primary != m.Name || !newest.Settled() {
		return
	}
	for _, name := range newest.Voters {
		if v := p.Members[name]; !counts(v) || !v.position().Subtract(m.position()).WithoutSource(m.SQL.ServerUUID).IsEmpty() {
			return
		}
	}
	rec.recordLeader(m, p.nextEpoch())
}

// recordAlone learns from a confirmed primary's own row what lost records knew: whether it is the only voter.
func (p *failover) recordAlone(primary *Member) {
	rec, row := &p.plan.Records, primary.SQL.Membership
	rec.AloneUnknown = false
	if len(row.Voters) == 1 {
		rec.Alone, rec.AloneSince = primary.Name, row.Epoch
	}
}

// confirm deals with a single writable member that its own membership row does not name: its promotion was cut off, or
// waits for an acknowledgement of the row. A member that somebody else opened for writes looks the same, so that it has
// to be the one that the rule of promotion names. So has the one that the row names when another may have led since.
func (p *failover) confirm(m *Member, row Membership) *Member {
	if p.fenceOthers(m) {
		return nil
	}
	proof := prove(row, p.Members, p.Records)
	if m.SQL.Replication != nil || proof.Candidate != m.Name {
		p.unseat([]*Member{m})
		return nil
	}
	if p.silenceSources(m) {
		return nil
	}
	p.plan.Records.recordProven(m, p.nextEpoch(), proof)
	if m.SQL.PendingCommits == 0 {
		p.retry(waitMySQL/4, RecordPrimary{Member: m.Name, Next: p.at(row.LedBy(m)), SemiSync: p.Lossless && len(row.Voters) > 1})
	}
	return p.lead(m, row)
}

// unseat takes the writable state from members that must not have it. A member whose clients still wait for an
// acknowledgement cannot be made read-only (fact 2); its instance is powered off instead, which answers none of them.
func (p *failover) unseat(members []*Member) {
	for _, m := range members {
		p.degraded(v1alpha1.ReasonMemberUntrusted, m.Name+" was writable and must not be; it is made read-only")
		if in := m.CurrentInstance(); m.SQL.PendingCommits > 0 && in != nil && p.CloudReachable {
			p.stop(m, in)
			continue
		}
		p.retry(waitMySQL, Demote{m.Name})
	}
}

// settleRivals deals with several writable members of one epoch. None is trusted: nobody acknowledges any more, then all
// but the one that the rule of promotion names are unseated. Without such a one all are.
func (p *failover) settleRivals(rivals []*Member, row Membership) {
	p.waitAtMost(waitMySQL)
	if p.fenceOthers(nil) {
		return
	}
	chosen := prove(row, p.Members, p.Records).Candidate
	var others []*Member
	for _, m := range rivals {
		if m.Name != chosen {
			others = append(others, m)
		}
	}
	p.unseat(others)
}

// bootstrap makes a virgin member the first primary of a cluster that never had one.
func (p *failover) bootstrap() {
	begun := p.plan.Records.Bootstrapped
	if p.Records.Established {
		p.waitAtMost(waitMySQL)
		p.plan.Waiting = Finding{v1alpha1.ReasonNoPrimary, "no member that knows the voters answers"}
		return
	}
	if p.recoveryForgotten() {
		return
	}
	for _, m := range p.ordered() {
		if !p.mayBegin(m, begun) {
			continue
		}
		if begun == "" && !m.SQL.Executed.IsEmpty() && !p.plan.Records.Recovered {
			p.degraded(v1alpha1.ReasonForeignResource, fmt.Sprintf("%s holds transactions but no membership of this cluster; it is left alone", m.Name))
			p.waitAtMost(waitReady)
			return
		}
		vol := m.volume()
		if begun == "" && p.mayBootstrap() {
			p.plan.Records.Bootstrapped, p.plan.Records.BootstrappedVolume, begun = m.Name, vol.ID, m.Name
		}
		if m.Name == begun && vol.ID == p.plan.Records.BootstrappedVolume {
			p.do(Bootstrap{m.Name})
			return
		}
	}
	p.waitAtMost(waitMySQL)
	switch writable, unread := p.primaries(), firstUnread(p.ordered()); {
	case begun != "":
		p.plan.Waiting = Finding{v1alpha1.ReasonBootstrapping, "waiting for " + begun + ", on which the cluster began"}
	case unread != nil:
		p.plan.Waiting = Finding{v1alpha1.ReasonBootstrapping, saysUnread(unread)}
	case len(writable) > 0:
		p.plan.Waiting = Finding{v1alpha1.ReasonBootstrapping, writable[0].Name + " takes writes, and is no member that the cluster could begin on; make it read-only"}
	}
}

// mayBegin says whether a member is one that the cluster can begin on, or the one that it began on. What was restored, or begun on, is also one
// that spec.replicas does not ask for any more: it hands over and leaves.
func (p *failover) mayBegin(m *Member, begun string) bool {
	vol := m.volume()
	if !m.verified() || !m.SQL.MembershipKnown || vol == nil {
		return false
	}
	restored := p.plan.Records.Recovered && vol.ID == p.plan.Records.Recovering
	switch {
	case m.Ordinal >= p.Replicas && m.Name != begun && !restored:
		return false
	case m.SQL.Clone != nil && !restored:
		return false // it was seeded; on a copy that says only how the volume's first owner came by its data
	case begun != "":
		return true
	case p.plan.Records.Recovered && !restored:
		return false // the cluster begins where it was restored
	}
	return m.SQL.Writable || len(p.primaries()) == 0 // else it was begun on another, by somebody whose records are lost
}

// mayBootstrap says whether it is certain that no member holds a cluster already. With intact records it is. With
// records rebuilt from tags, only if every member that ever had a volume says so itself.
func (o Observed) mayBootstrap() bool {
	if o.Records.RebuiltAt.IsZero() {
		return true
	}
	for name := range o.Records.Members {
		m := o.Members[name]
		if m == nil || !m.verified() || !m.SQL.MembershipKnown || !m.SQL.Executed.IsEmpty() {
			return false
		}
	}
	return true
}

// promote looks for a member that provably holds every acknowledged commit. First nobody acknowledges any more, so
// that what is counted cannot grow; only then it is counted.
func (p *failover) promote(row Membership) {
	p.plan.Failing = true
	p.waitAtMost(waitSuspect)
	for _, u := range p.Records.Uncovered {
		if p.Lossless {
			p.degraded(v1alpha1.ReasonCommitsUncovered, u.String()+". They are lost if it does not return")
		}
	}
	if p.mayStillServe(row) || p.fenceOthers(nil) || p.needsPowerOff() && p.instancesRun(row) {
		return
	}
	proof := p.proof(row)
	if proof.Candidate == "" {
		p.waitAtMost(waitMySQL)
		p.degraded(v1alpha1.ReasonPromotionNotProven, p.notProven(row, proof))
		p.bringBack(row, proof)
		return
	}
	m := p.Members[proof.Candidate]
	if !p.attains(m, row, proof) {
		return
	}
	if m.Name == row.Primary {
		p.degraded(v1alpha1.ReasonNoPrimary, fmt.Sprintf("the primary %s is read-only (read_only or super_read_only is ON, as after a start of mysqld); the operator opens it for writes", m.Name))
	}
	if missed, found := p.missedBy(m, row); found && !p.Exposure.Unwatched.IsZero() && p.Lossless && row.WaitCount() > 0 {
		p.acks.beginUncovered(Uncovered{Primary: missed, Cause: unwatched, Fenced: true})
	}
	p.depose(row, proof.Candidate)
	next := p.at(row.LedBy(m))
	p.plan.Records.recordPromotion(m, next.Epoch, proof)
	p.plan.Records.keepDoubt(m)
	semiSync := p.Lossless && len(row.Voters) > 1
	p.retry(waitSuspect, Promote{Member: m.Name, Membership: row, Next: next, SemiSync: semiSync, MustHold: proof.MustHold.String()})
}

// attains says whether a candidate has, or has received, what its promotion is proven for, and plans what gets it there.
func (p *failover) attains(m *Member, row Membership, proof Proof) bool {
	if p.silenceSources(m) {
		return false // what it has to hold may still grow
	}
	if m.waitsInVain() && m.SQL.Replication != nil && !m.SQL.Executed.Contains(m.SQL.Replication.Retrieved) && m.CurrentInstance() != nil {
		p.endVainWait(m) // it cannot apply what it received as long as those wait
		return false
	}
	if r := m.SQL.Replication; r.applierBroken() {
		p.degraded(v1alpha1.ReasonReplicationBroken, fmt.Sprintf("%s is to be promoted once it has applied what it received; its applier stopped: %s", m.Name, r.ApplierError))
	}
	if m.attainable().Contains(proof.MustHold) {
		return true
	}
	// It may never get through. So nobody is deposed for it, and it is not noted: whoever returns may be the better one.
	p.retry(waitSuspect, ApplyReceived{m.Name, proof.MustHold.String()})
	p.bringBack(row, proof)
	return false
}

// bringBack stops and starts the voters without which nobody can be promoted: one that is silent, and one that shows less than others have
// received from it, because it waits for acknowledgements of the rest in vain. Its recovery commits that, so it holds it then.
func (p *failover) bringBack(row Membership, proof Proof) {
	p.healing.cycle(p.silentVoter(row))
	for _, name := range row.Voters {
		m := p.Members[name]
		if counts(m) && m.waitsInVain() && p.stalledFor(m, brokenPatience) && wouldReuse(m, proof.MayBeAcknowledged) {
			p.endVainWait(m)
		}
	}
}

// endVainWait powers off a read-only member on which commits wait that nobody may acknowledge any more: so their clients are not answered.
// Where its applier alone waits, that is ended instead.
func (p *failover) endVainWait(m *Member) {
	if m.applierIsSource() {
		p.retry(waitNext, m.endApplierWait())
		return
	}
	p.plan.Waiting = Finding{v1alpha1.ReasonNoPrimary, m.Name + " may be promoted once it is powered off and started again: commits wait on it that nobody may acknowledge any more"}
	if in := m.CurrentInstance(); in != nil && p.CloudReachable {
		p.stop(m, in)
	}
}

// missedBy returns the member besides a candidate that may have led last.
func (p *failover) missedBy(candidate *Member, row Membership) (name string, found bool) {
	for _, name := range []string{p.plan.Records.Leader, row.Primary} {
		if name != candidate.Name && name != "" {
			return name, true
		}
	}
	return "", false
}

// fenceOthers plans to stop the IO threads that still run at the members that were reached, and says whether any did.
// Those that receive from the given member, if any, go on. All members are fenced, not only the voters of the row that
// was read: a newer row may not be applied yet anywhere.
func (p *failover) fenceOthers(receivingFrom *Member) bool {
	fenced := false
	for _, m := range p.ordered() {
		if !m.verified() || m.SQL.Replication == nil || m.SQL.Replication.IOState == ioOff {
			continue
		}
		if receivingFrom != nil && p.memberAt(m.SQL.Replication.SourceHost) == receivingFrom {
			continue
		}
		p.retry(waitNext, Fence{m.Name})
		fenced = true
	}
	return fenced
}

// silenceSources plans to have the read-only members that were reached answer no commit any more, but for the one that is to lead, and says
// whether one of them still might: XA COMMIT passes super_read_only (fact 35), and a replica that was not reached may acknowledge it.
func (p *failover) silenceSources(leader *Member) bool {
	found := false
	for _, m := range p.ordered() {
		if s := m.SQL.SemiSync; m != leader && m.verified() && !m.SQL.Writable && s.SourceEnabled && s.WaitCount < NobodyAnswers {
			p.retry(waitNext, SetSourceWait{Member: m.Name, Enabled: true, W: NobodyAnswers})
			found = true
		}
	}
	return found
}

// silentVoter returns a voter that does not answer although its instance runs, when no primary can be proven without it.
func (o Observed) silentVoter(row Membership) *Member {
	reached := false
	var silent *Member
	for _, name := range row.Voters {
		m := o.Members[name]
		switch {
		case m == nil:
		case m.verified():
			reached = true
		case silent == nil && o.silentInstance(name) != nil:
			silent = m
		}
	}
	if !reached {
		return nil // nobody is reached at all: that is the operator's own network, or none of its business
	}
	return silent
}

func (o Observed) notProven(row Membership, proof Proof) string {
	advice := "bring them back: start their instances, or repair the network between them and the operator" + orGiveUp(o, row)
	switch {
	case proof.Needs != "":
		return fmt.Sprintf("no primary: %s may have acknowledged commits by itself since epoch %d and is not reached; bring it back", proof.Needs, o.Records.AloneSince) + orGiveUp(o, row)
	case proof.enough() && len(proof.Unreached) == 0:
		return "no primary: it is not known who led last, and each voter lacks what may have been acknowledged: " + strings.Join(lacking(row, o.Members, proof.MayBeAcknowledged), ", ") +
			"; " + giveUp("what the member lacks that takes over", row)
	case len(proof.Forgetful) > 0 && len(proof.Unreached)+len(proof.Forgetful) > len(row.Voters)-proof.Needed:
		return fmt.Sprintf("no primary: %d of the %d voters must be reached that still have what they acknowledged from memory, or %s, which led last; not reached: %s; started since, and not yet seen to hold it all: %s; %s",
			proof.Needed, len(row.Voters), row.Primary, orNone(strings.Join(proof.Unreached, ", ")), strings.Join(proof.Forgetful, ", "), advice)
	case len(proof.Unreached) > len(row.Voters)-proof.Needed:
		return fmt.Sprintf("no primary: %d of the %d voters must be reached to prove that no acknowledged commit is lost; not reached: %s; %s",
			proof.Needed, len(row.Voters), strings.Join(proof.Unreached, ", "), advice)
	}
	return fmt.Sprintf("no primary: no voter that was reached holds every transaction that may have been acknowledged (%s); not reached: %s; %s",
		proof.MayBeAcknowledged, orNone(strings.Join(proof.Unreached, ", ")), advice)
}

// lacking returns what each voter lacks of a set, in words.
func lacking(row Membership, members map[string]*Member, set gtid.Set) []string {
	var found []string
	for _, name := range row.Voters {
		if m := members[name]; m != nil {
			found = append(found, fmt.Sprintf("%s lacks %s", name, set.Subtract(m.position())))
		}
	}
	return found
}
