package topology

import (
	"fmt"
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// votes changes who votes: members that have caught up are admitted, those that can acknowledge no more are removed.
type votes struct {
	*pass
	acks         *acks
	turns        *turns
	certificates *certificates
}

// vote plans to make a running replica a voter, one at a time, and returns what it waits for.
func (p *votes) vote(m, primary *Member, admitting *bool) Step {
	row := *p.plan.Membership
	if row.Has(m.Name) {
		wants := p.acks.acknowledges(m, primary)
		if m.acknowledgesOtherThan(wants) {
			p.retry(waitMySQL/2, SetAcknowledging{m.Name, wants, primary.Name})
			return waits("switching its acknowledgements " + onOff(wants))
		}
		if !m.certified(row) {
			p.waitAtMost(waitMySQL / 2)
			return waits("waiting until it is recorded that it holds all that it acknowledged before its mysqld was started")
		}
		return Step{}
	}
	if p.acks.awaited(m) && m.acknowledgesOtherThan(true) {
		p.retry(waitMySQL/2, SetAcknowledging{m.Name, true, primary.Name})
		return waits("switching its acknowledgements on: commits wait for them")
	}
	if m.Ordinal >= p.Replicas || p.turns.givesVoteBack(m) {
		return Step{}
	}
	if why := p.mayNotVote(m, primary, *admitting); why.Waits() {
		return why
	}
	*admitting = true
	if len(row.Voters) == 1 && p.Lossless {
		p.acks.recordNonVoterAcks(m.Name) // it acknowledges before it is a voter
	}
	next := p.at(row.With(m.Name, p.certificates.admits(m)))
	p.retry(waitMySQL/4, AdmitVoter{Member: m.Name, Primary: primary.Name, From: row, Next: next, Settled: p.at(next.Confirmed()), SemiSync: p.Lossless})
	return waits("becoming a voter")
}

// mayNotVote returns what a replica that is to become a voter waits for.
func (p *votes) mayNotVote(m, primary *Member, admitting bool) Step {
	row := *p.plan.Membership
	switch {
	case m.unstable():
		p.waitAtMost(waitReady)
		return waits(noVoteUnstable + m.Unstable.String())
	case admitting || p.acks.changingVotes() || !row.Settled() || p.plan.Records.Leaving != "":
		p.waitFor(m)
		return waits("waiting to become a voter")
	case !p.caughtUp(m):
		p.waitFor(m)
		return waits("catching up with " + primary.Name + m.behind())
	}
	if p.Lossless && m.SQL.RelaySync != relaySynced {
		p.waitFor(m)
		return waits("waiting until its relay log is synced")
	}
	if why := p.settleTail(m, primary); why.Waits() {
		return why
	}
	if p.acks.strangerAcknowledges(m, primary) {
		p.waitAtMost(waitMySQL)
		return waits("waiting until no member acknowledges that is not a voter")
	}
	if p.Lossless && len(row.Voters) > 1 && (!p.acks.suffice(row.With(m.Name, ""), primary, "") || p.Exposure.Departed > 0) {
		p.waitAtMost(waitMySQL)
		return waits("waiting until enough voters acknowledge")
	}
	return p.awaitSilence(m, primary)
}

// acknowledgesOtherThan says whether a member's acknowledgements are not as they should be, by setting or in effect.
func (m *Member) acknowledgesOtherThan(wants bool) bool {
	s := m.SQL.SemiSync
	return s.ReplicaEnabled != wants || m.SQL.Replication.IOState == ioOn && s.ReplicaActive != wants
}

// expelLate takes the vote of a voter that has lacked for a while what the primary commits, as long as others acknowledge, and returns
// what it waits for.
func (p *votes) expelLate(m, primary *Member) Step {
	r := m.SQL.Replication
	if !p.Lossless || r == nil || r.LateSince.IsZero() || p.Now.Sub(r.LateSince) < votePatience || !p.plan.Membership.Has(m.Name) || !p.mayRemove(m, primary) {
		return Step{}
	}
	p.expel(m, primary)
	p.waitAtMost(waitMySQL)
	return waits("losing its vote: it has been behind in receiving since " + r.LateSince.UTC().Format(time.TimeOnly))
}

// keepWait keeps the primary's semi-synchronous settings in agreement with its membership row, and confirms a change of
// the voters that was acknowledged. While a voter is being admitted the count may be higher on purpose.
func (p *votes) keepWait(primary *Member, admitting bool) {
	row := *p.plan.Membership
	switch {
	case admitting || p.unconfirmed || p.acks.changingVotes():
	case !p.acks.wasReleased(primary) && p.acks.raiseWait(primary):
	case p.busy(primary.Name):
	case p.acks.wasReleased(primary):
		p.standAlone(primary)
	case p.acks.lowerWait(primary):
	case p.stalledFor(primary, stallPatience) && p.acks.suffice(row, primary, ""):
		p.retry(waitMySQL, CommitEmptyTransaction{primary.Name})
	case !row.Settled() && p.leaverIsSilent(row) && p.acks.changeIsAcknowledged(primary):
		p.retry(waitMySQL/4, SettleVoters{Member: primary.Name, From: row, Next: p.at(row.Confirmed()), SemiSync: p.Lossless})
	default:
		p.certificates.certify(primary)
	}
	p.certificates.setRelaySync()
}

// leaverIsSilent says whether the voter that leaves with a row gives no acknowledgement any more: what it acknowledged
// would be counted on the strength of a row that does not ask it.
func (p *votes) leaverIsSilent(row Membership) bool {
	for _, name := range row.Previous {
		if row.Has(name) {
			continue
		}
		switch m := p.Members[name]; {
		case m == nil || !m.verified() && p.off(m):
		case !m.verified() || m.SQL.SemiSync.ReplicaActive || m.SQL.SemiSync.ReplicaEnabled:
			p.waitAtMost(waitMySQL)
			return false
		}
	}
	return true
}

// expel takes the vote of a member that was reached and is to be rebuilt, and says whether it has none any more. First it
// acknowledges no more. While too few others acknowledge it has to stay: its disk is worth more than none.
func (p *votes) expel(m, primary *Member) bool {
	row, heard := *p.plan.Membership, m.SQL.SemiSync.ReplicaEnabled || m.SQL.SemiSync.ReplicaActive
	switch {
	case !p.mayVote(m) && row.Settled():
		return true
	case !p.mayVote(m) && len(row.Voters) > 1 && heard:
		// Its removal was begun by an operator that remembered it. As long as it acknowledges that is not confirmed.
		p.retry(waitMySQL/2, SetAcknowledging{m.Name, false, primary.Name})
		return false
	case p.votesMayNotChange(m, primary):
		p.waitAtMost(waitMySQL)
		return false
	case !p.mayRemove(m, primary):
		return false
	}
	p.plan.Records.Leaving = m.Name
	if heard {
		p.retry(waitMySQL/2, SetAcknowledging{m.Name, false, primary.Name})
	} else {
		p.removeVote(m, primary)
	}
	return false
}

// votesMayNotChange says whether something else has to be done before a member loses its vote.
func (p *votes) votesMayNotChange(m, primary *Member) bool {
	leaving := p.plan.Records.Leaving
	return p.unconfirmed || p.busy(primary.Name) || p.busy(m.Name) || p.acks.changingVotes() || !p.plan.Membership.Settled() || leaving != "" && leaving != m.Name
}

// mayRemove says whether the row that takes a member's vote would be acknowledged at once by those who stay, as many as the row
// before asks for. The last one may go in any case: then the primary stands alone.
func (p *votes) mayRemove(m, primary *Member) bool {
	row := *p.plan.Membership
	if !p.Lossless || len(row.Voters) == 2 || p.acks.suffice(row, primary, m.Name) {
		return true
	}
	p.waitAtMost(waitMySQL)
	return false
}

// removeVote plans to take a vote. A primary that is left alone is remembered before: its row is known to nobody else.
func (p *votes) removeVote(m, primary *Member) {
	row := *p.plan.Membership
	if len(row.Voters) == 2 {
		p.standAlone(primary)
		return
	}
	p.plan.Records.Leaving, p.plan.Records.Removing = m.Name, m.Name
	next := p.at(row.Without(m.Name))
	p.retry(waitMySQL/4, RemoveVoter{Member: m.Name, Primary: primary.Name, From: row, Next: next, Settled: p.at(next.Confirmed()), SemiSync: p.Lossless})
}

// standAlone makes the primary the only voter. The records remember it before anything is done, because the others know
// only of a row under which they might be promoted.
func (p *votes) standAlone(primary *Member) {
	next := p.at(Membership{Primary: primary.Name, Voters: []string{primary.Name}, W: WaitFor(1)})
	p.plan.Records.Alone, p.plan.Records.AloneSince, p.plan.Records.Leaving, p.plan.Records.Removing = primary.Name, next.Epoch, "", ""
	p.acks.recordFormerVoterAcks(primary)
	p.retry(waitMySQL/4, RemoveAllVoters{Member: primary.Name, Next: next, SemiSync: p.Lossless})
}

// removeLostVoters takes the vote of members that can no longer acknowledge, one at a time: their instances are confirmed
// stopped or gone. So the loss of one after another can be survived. An instance that is started again acknowledges nothing
// until the operator lets it. When nobody is left who could acknowledge, writes wait for a minute; then the primary goes
// on alone, unless it is doubted.
func (p *votes) removeLostVoters(primary *Member) {
	row := *p.plan.Membership
	if !p.CloudReachable && !p.someOff(row.Voters) || !row.Has(primary.Name) || len(row.Voters) == 1 {
		return
	}
	p.stopFailed(primary)
	found := p.lostVoters(primary)
	switch {
	case p.nobodyIsLeft(found):
		p.silenceAndRemoveAllVoters(found.heard, primary)
	case len(found.off) == 0:
	case len(row.Voters) == 2 || p.unconfirmed || !row.Settled():
		p.waitAtMost(waitMySQL)
	default:
		for _, m := range found.off {
			if (p.plan.Records.Leaving == "" || p.plan.Records.Leaving == m.Name) && p.mayRemove(m, primary) {
				p.removeVote(m, primary)
				return
			}
		}
	}
}

// nobodyIsLeft says whether no voter will acknowledge again. A single one that is there and ruined leaves in the ordinary way, but not
// while the primary's own row waits for it.
func (p *votes) nobodyIsLeft(found lostVoters) bool {
	return found.hopeless == len(p.plan.Membership.Voters)-1 && (len(found.off) > 0 || found.hopeless > 1 || p.unconfirmed)
}

// silenceAndRemoveAllVoters makes the primary the only voter, once those are silent that may still be heard: they connect when the network
// lets them.
func (p *votes) silenceAndRemoveAllVoters(heard []*Member, primary *Member) {
	for _, m := range heard {
		p.retry(waitMySQL/4, SetAcknowledging{m.Name, false, primary.Name})
	}
	if len(heard) == 0 {
		p.standAlone(primary)
	}
}

// lostVoters are the voters besides the primary that acknowledge nothing any more.
type lostVoters struct {
	// off are those whose instances are off.
	off []*Member
	// hopeless counts those that will not acknowledge again before they are rebuilt, and those that have been off for long; heard are
	// those of them that are there, and may acknowledge.
	hopeless int
	heard    []*Member
}

// lostVoters finds them. Those whose volume is lost are powered off.
func (p *votes) lostVoters(primary *Member) lostVoters {
	var found lostVoters
	for _, name := range p.plan.Membership.Voters {
		m := p.Members[name]
		switch {
		case name == primary.Name:
			continue
		case m != nil && m.verified():
			if p.ruined(m, primary) {
				found.hopeless++
				if m.mayBeHeard() {
					found.heard = append(found.heard, m)
				}
			}
			continue
		case m == nil:
			m = &Member{Name: name, DownSince: p.CloudTaken.Add(-lateAnswers)} // neither EC2 nor the records know anything of it
		}
		if p.volumeLost(m) {
			p.powerOff(m)
		}
		if !p.off(m) {
			p.waitAtMost(waitEC2)
			continue
		}
		found.off = append(found.off, m)
		if p.offForGood(m, primary) {
			found.hopeless++
		}
	}
	return found
}

// offForGood says whether a voter that is off has lost its volume, or has been off for so long that it is not waited for.
func (p *votes) offForGood(m, primary *Member) bool {
	long := !m.DownSince.IsZero() && p.Now.Sub(m.DownSince) >= lastVotePatience
	switch {
	case p.volumeLost(m) || len(m.Instances) == 0 && m.volume() == nil || long && !p.acks.leaderDoubted():
		return true
	case long && primary.SQL.PendingCommits > 0:
		p.degraded(v1alpha1.ReasonAcknowledgementsMissing, fmt.Sprintf("%s is powered off, and writes wait for it: it may hold acknowledged commits, because the records were lost or a failover was under way. Make its instance start", m.Name))
	}
	return false
}

// finishLeaving forgets whose removal was begun once it is done, or once it is certain that it was not: the member answers,
// is still a voter, and no commit of the primary's waits that could be the row which removes it.
func (p *votes) finishLeaving(primary *Member) {
	row, rec := *p.plan.Membership, &p.plan.Records
	leaving := rec.Leaving
	m := p.Members[leaving]
	if m != nil {
		p.keepLeaver(m, primary)
	}
	switch {
	case rec.Leaving == "" || p.unconfirmed || !row.Settled():
	case m != nil && row.Has(leaving) && p.turns.givesVoteBack(m): // it goes on giving its vote back
	case !row.Has(leaving) || m != nil && m.verified() && (primary.SQL.PendingCommits == 0 || len(row.Voters) == 2):
		// With two voters no row removes one of them: the primary goes on alone, which forgets the leaver before. And what waits may
		// wait for this very one.
		rec.Leaving, rec.Removing = "", ""
	}
}

// keepLeaver calls a removal off that was begun, when the member is needed again.
func (p *votes) keepLeaver(m, primary *Member) {
	rec := &p.plan.Records
	if m.verified() && p.plan.Membership.Has(m.Name) && rec.Removing != m.Name && !p.mayRemove(m, primary) {
		rec.Leaving = "" // others were lost after it fell silent, and no row was written yet
	}
	if rec.Leaving != "" && p.acks.isNeededAgain(m, primary) {
		rec.Leaving, rec.Removing = "", ""
	}
}

// bridge has the primary go on alone when its commits have waited, no voter can acknowledge them soon, and another replica, which
// receives already, can take a vote. Until that has caught up only the primary's volume holds what is committed; the records keep
// everybody from being promoted without it.
func (p *votes) bridge(primary *Member) bool {
	row := p.plan.Membership
	if !p.acks.waitsForNobody(primary) {
		return false
	}
	var heard []*Member
	receiving := false
	for _, m := range p.ordered() {
		if m == primary {
			continue
		}
		receiving = receiving || p.receives(m, primary) && !m.cloning() && !m.broken()
		switch {
		case !row.MayAcknowledge(m.Name):
		case p.mayReturn(m):
			return false
		case m.verified() && m.mayBeHeard():
			heard = append(heard, m)
		}
	}
	if receiving {
		p.silenceAndRemoveAllVoters(heard, primary)
	}
	return receiving
}

// mayReturn says whether a voter that does not acknowledge may well do so in a moment.
func (o Observed) mayReturn(m *Member) bool {
	if !m.verified() {
		return m.DownSince.IsZero() || o.Now.Sub(m.DownSince) < bridgePatience
	}
	r := m.SQL.Replication
	return r == nil || r.UpToDate || r.LateSince.IsZero() || o.Now.Sub(r.LateSince) < bridgePatience
}

// volumeLost says whether EC2 has denied a member's volume for so long that it is believed.
func (o Observed) volumeLost(m *Member) bool {
	return m.volume() == nil && !m.VolumeMissingSince.IsZero() && o.Now.Sub(m.VolumeMissingSince) >= volumePatience
}

// ruined says whether a member that answers gives no acknowledgement, and will not before it is rebuilt.
func (p *votes) ruined(m, primary *Member) bool {
	return m.verified() && !m.SQL.SemiSync.ReplicaActive && (m.Name == p.plan.Records.Leaving || m.SQL.Executed.IsEmpty() && !p.acks.leaderDoubted() || outOfReach(m, primary) ||
		m.broken() && !m.BrokenSince.IsZero() && p.Now.Sub(m.BrokenSince) >= brokenPatience)
}

// retiredAtOnce is how many GTIDs the primary uses up in one action.
const retiredAtOnce = 256

// settleTail returns what a rebuilt member waits for because of the transactions that it lost, empty for nothing. As long as another member may
// hold some of them it is no voter, and so never primary: it would give their GTIDs to others, which whoever holds them would skip without
// a word. Those who hold them are rebuilt as well. Then the primary uses the GTIDs up: archived binary logs, dumps and snapshots may
// hold them too. What the primary has came back with the copy; what the member has besides is another transaction under the same GTID, which is
// adopted if it changes no data, and else the member is rebuilt.
func (p *votes) settleTail(m, primary *Member) Step {
	rec := p.plan.Records.Members[m.Name]
	if rec.Tail == "" {
		return Step{}
	}
	tail, err := gtid.Parse(rec.Tail)
	if err != nil {
		return waits("no voter: the record of what it lost when it was rebuilt cannot be read")
	}
	tail = tail.Subtract(primary.SQL.Executed)
	for _, other := range p.ordered() {
		if other != m && (!other.verified() || other.cloning() || !other.position().Intersect(tail).IsEmpty()) {
			p.waitAtMost(waitMySQL)
			return waits("no voter until it is certain that " + other.Name + " holds nothing of what it lost when it was rebuilt")
		}
	}
	if !tail.IsEmpty() {
		p.waitAtMost(waitMySQL)
		if unused := tail.Subtract(m.position()); !unused.IsEmpty() && p.acks.mayCommitEmpty(primary) { // every member was reached
			p.retry(waitMySQL/4, RetireGTIDs{Member: primary.Name, Of: m.Name, Epoch: p.plan.Membership.Epoch, GTIDs: unused.First(retiredAtOnce)})
		}
		return waits("no voter until " + primary.Name + " has used up the GTIDs of what it lost when it was rebuilt")
	}
	rec.Tail = ""
	p.plan.Records.Members[m.Name] = rec
	return Step{}
}

// excludeUnstable takes the vote of an unstable member when the others can do without it, and returns what the member waits for.
// Empty means that its replication goes on.
func (p *votes) excludeUnstable(m, primary *Member) Step {
	row := p.plan.Membership
	if !m.unstable() || !row.Has(m.Name) || p.unconfirmed || !row.Settled() || p.busy(primary.Name) || p.acks.changingVotes() {
		return Step{}
	}
	if leaving := p.plan.Records.Leaving; leaving != "" && leaving != m.Name || !p.dispensable(m, primary) || p.acks.holdsUp(m, primary) {
		return Step{}
	}
	p.expel(m, primary)
	p.waitAtMost(waitMySQL)
	return waits("losing its vote because " + m.Unstable.String())
}

// dispensable says whether enough other voters that are stable acknowledge. The only other voter of a primary is never dispensable:
// without it nobody else has the data.
func (p *votes) dispensable(m, primary *Member) bool {
	row := p.plan.Membership
	if len(row.Voters) <= 2 {
		return false
	}
	stable := 0
	for _, other := range p.ordered() {
		if other == m || other == primary || other.unstable() || !row.Has(other.Name) || !p.receives(other, primary) {
			continue
		}
		if !p.Lossless || other.SQL.SemiSync.ReplicaActive {
			stable++
		}
	}
	return stable >= row.WaitCount()
}

// stopSilent powers a member off that leaves and has not answered for long, and says whether an instance of it runs: only one whose
// instances are all off is known to acknowledge nothing, and in the middle of its turn it has two. While the others cannot do without
// its vote it stays on.
func (p *votes) stopSilent(m, primary *Member) bool {
	if !m.running() || !p.silentLong(m) {
		return false
	}
	if !p.busy(m.Name) && (!p.plan.Membership.Has(m.Name) || p.mayRemove(m, primary)) {
		p.powerOff(m)
	}
	return true
}

// onlyFailed says whether every voter but the primary is off, or is kept from starting by a version that was set back. None of
// them acknowledges again before it is rebuilt.
func (p *votes) onlyFailed(primary *Member) bool {
	row := p.turns.presentMembership()
	if row == nil || p.turns.tooNew(primary) || p.acks.leaderDoubted() {
		return false
	}
	for _, name := range append(slices.Clone(row.Voters), row.Previous...) {
		m := p.Members[name]
		if name != primary.Name && m != nil && (m.verified() || !p.off(m) && (!p.turns.tooNew(m) || !p.silentLong(m))) {
			return false
		}
	}
	return true
}

// stopFailed powers off the voters that do not start because the version was set back, when the primary has no others. Only an
// instance that is off certainly acknowledges nothing; then the primary may go on alone.
func (p *votes) stopFailed(primary *Member) {
	if !p.onlyFailed(primary) {
		return
	}
	for _, name := range p.plan.Membership.Voters {
		m := p.Members[name]
		if m == nil || m == primary || !p.turns.tooNew(m) || p.busy(name) {
			continue
		}
		p.powerOff(m)
	}
}
