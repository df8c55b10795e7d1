package topology

// acks decides who acknowledges the commits of the primary, and for how many acknowledgements they wait. It remembers the times in
// which commits were not covered by any.
type acks struct {
	*pass
}

const (
	// relaySynced is the value of sync_relay_log with which a replica has on disk what it acknowledges.
	relaySynced = "1"
	// relayUnsynced is the one with which it has it in memory: after so many events at the latest it is on disk.
	relayUnsynced = "10000"
)

// ownMemory says whether a member has itself executed a row that says in which memory it acknowledges. Whoever reaches it then sees
// that row, or a newer one: only so its relay log need not be synced.
func (m *Member) ownMemory() bool {
	row := m.SQL.Membership
	return row != nil && row.Memory[m.Name] != ""
}

// mayAcknowledge says whether what a member acknowledges is where the rows say.
func (m *Member) mayAcknowledge() bool { return m.SQL.RelaySync == relaySynced || m.ownMemory() }

// acknowledges says whether a voter is to acknowledge. A primary that waits needs its acknowledgements until it no longer
// does. One whose removal was begun gives none, also while the row that removes it still waits for others.
func (p *acks) acknowledges(m, primary *Member) bool {
	row := p.plan.Membership
	if !m.mayAcknowledge() || !m.certified(*row) && !p.plan.Records.ledLast(primary.Name) {
		return false
	}
	return row.MayAcknowledge(m.Name) && m.Name != p.plan.Records.Leaving && len(row.Voters) > 1 && !p.silenced(m) && (p.Lossless || primary.SQL.SemiSync.SourceEnabled)
}

// acknowledgers counts the voters, but for one that is to leave, that acknowledge at once what the primary commits.
func (p *acks) acknowledgers(primary *Member, leaving string) int {
	prompt, _ := p.acknowledging(primary, leaving)
	return len(prompt)
}

// acknowledging returns the voters that acknowledge to the primary: those that have received what it committed a moment ago, and
// those that have to receive what was committed before, which acknowledge nothing new until then.
func (p *acks) acknowledging(primary *Member, leaving string) (prompt, late []*Member) {
	for _, m := range p.ordered() {
		if m == primary || m.Name == leaving || !p.receives(m, primary) || !m.SQL.SemiSync.ReplicaActive || !p.mayAcknowledge(m) {
			continue
		}
		if m.SQL.Replication.UpToDate {
			prompt = append(prompt, m)
		} else {
			late = append(late, m)
		}
	}
	return prompt, late
}

// connected counts the other voters that receive from the primary.
func (p *acks) connected(primary *Member) int {
	n := 0
	for _, name := range p.plan.Membership.Voters {
		m := p.Members[name]
		if m != nil && m != primary && p.receives(m, primary) {
			n++
		}
	}
	return n
}

// wasReleased says whether an operator was cut off in between an admission or a removal, so that nothing is safe but the primary alone:
// the row of the admission may be among the commits that wait, and released it would count; or those that waited were released already,
// exist only on the primary, and no voter is connected that could receive them.
func (p *acks) wasReleased(primary *Member) bool {
	row, s := p.plan.Membership, primary.SQL.SemiSync
	switch {
	case !p.Lossless:
		return false
	case len(row.Voters) == 1:
		return s.SourceEnabled && primary.SQL.PendingCommits > 0
	}
	return !s.SourceEnabled && p.Records.goesAlone(primary) && p.connected(primary) < row.WaitCount()
}

// wantedWait returns how many acknowledgements the primary is to wait for besides those of strangers that are connected, and whether it
// is to wait at all.
func (p *acks) wantedWait() (count int, enabled bool) {
	row := p.plan.Membership
	return row.WaitCount() + p.Exposure.Departed, p.Lossless && len(row.Voters) > 1
}

// raiseWait plans to have the primary wait for as many acknowledgements as it must, and says whether it waits for fewer. It comes before
// whatever else is planned for the primary: an action that fails in each pass must not delay it.
func (p *acks) raiseWait(primary *Member) bool {
	s := primary.SQL.SemiSync
	want, enabled := p.wantedWait()
	if !enabled || s.Waits() && s.WaitCount >= want+len(s.Strangers) {
		return false
	}
	p.first(waitMySQL/2, SetSourceWait{Member: primary.Name, Enabled: true, W: want})
	return true
}

// lowerWait plans to have the primary wait for fewer acknowledgements, or for none, and says whether it waits for too many. A count that
// is too high stays while too few voters acknowledge: lowering it would answer what voters do not hold.
func (p *acks) lowerWait(primary *Member) bool {
	row, s := *p.plan.Membership, primary.SQL.SemiSync
	want, enabled := p.wantedWait()
	switch {
	case s.SourceEnabled && !enabled:
		p.retry(waitMySQL/2, SetSourceWait{Member: primary.Name, Enabled: false, W: want, Alone: !p.Lossless})
	case enabled && s.WaitCount > want+len(s.Strangers) && p.suffice(row, primary, "") && p.mayWaitForFewer(primary, row.WaitCount()):
		p.retry(waitMySQL/2, LowerSourceWait{primary.Name, want, len(s.Strangers)})
	default:
		return false
	}
	return true
}

// mayAdopt says whether the primary may commit empty transactions under GTIDs that another member holds: nobody doubts that it leads.
func (p *acks) mayAdopt(primary *Member) bool {
	return p.mayCommitEmpty(primary) && p.plan.Records.ledLast(primary.Name) && !p.plan.Records.AloneUnknown
}

// mayCommitEmpty says whether the primary may commit empty transactions under GTIDs of others: nothing else is under way that it, or who
// votes, has to be settled for.
func (p *acks) mayCommitEmpty(primary *Member) bool {
	row := p.plan.Membership
	settled := !p.unconfirmed && row.Settled() && p.plan.Records.Leaving == ""
	return settled && !p.busy(primary.Name) && !p.changingVotes() && (!p.Lossless || p.suffice(*row, primary, ""))
}

// suffice says whether as many voters acknowledge at once as a row asks for, also without one that is to leave (empty for none).
func (p *acks) suffice(row Membership, primary *Member, leaving string) bool {
	return p.acknowledgers(primary, leaving) >= row.WaitCount()
}

// changeIsAcknowledged says whether enough voters hold the row that changes them: they show it, or have received all that the primary
// has executed. The primary's word for it is not enough: crash recovery commits a row that nobody acknowledged.
func (p *acks) changeIsAcknowledged(primary *Member) bool {
	row, n := p.plan.Membership, 0
	for _, m := range p.ordered() {
		if m == primary || !counts(m) || !row.Has(m.Name) {
			continue
		}
		if m.SQL.Membership.Epoch >= row.Epoch || m.position().Contains(primary.SQL.Executed) {
			n++
		}
	}
	if p.Lossless && n < row.WaitCount() {
		p.waitAtMost(waitMySQL)
		return false
	}
	return true
}

// changingVotes says whether a voter is admitted or removed in this pass already, or the wait for them is changed: one a step.
func (p *acks) changingVotes() bool {
	for _, a := range p.plan.Actions {
		switch a := a.(type) {
		case AdmitVoter, RemoveVoter, SettleVoters, RemoveAllVoters, RecordPrimary, LowerSourceWait, Certify:
			return true
		case SetSourceWait: // a replica's is ended at any time
			if a.Member == p.plan.Primary {
				return true
			}
		}
	}
	return false
}

// leaderDoubted says whether another member may have been the primary after this one, because the records were lost or it was to be
// opened for writes: then a voter that is off, but has its volume, is waited for. It may hold what was acknowledged since.
func (p *acks) leaderDoubted() bool { return p.Lossless && p.plan.Records.LeaderDoubted }

// isNeededAgain says whether a voter that was silenced for its removal is back with all that was committed, while commits wait for
// others that are too few or too far behind. The row that removes it may be among those commits: then it acknowledges that too. Once
// the primary shows that row it stays silent: the row that confirms it may wait, and only those who stay may acknowledge that.
func (p *acks) isNeededAgain(m, primary *Member) bool {
	return p.Lossless && p.plan.Membership.Has(m.Name) && p.stalledFor(primary, stallPatience) && p.receives(m, primary) && m.SQL.Replication.UpToDate &&
		!p.suffice(*p.plan.Membership, primary, m.Name)
}

// waitsForNobody says whether commits have waited for long, too few voters acknowledge, and there is no doubt about who leads.
func (p *acks) waitsForNobody(primary *Member) bool {
	row := *p.plan.Membership
	return p.Lossless && row.WaitCount() > 0 && p.Replicas >= 3 && !p.leaderDoubted() && p.stalledFor(primary, bridgePatience) && !p.suffice(row, primary, "")
}
