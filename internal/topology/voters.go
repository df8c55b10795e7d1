package topology

// vote plans to make a running replica a voter, one at a time, and returns what it waits for.
func (p *planner) vote(m, primary *Member, admitting *bool) string {
	row := *p.plan.Membership
	if row.Has(m.Name) {
		// A primary that waits needs its acknowledgements until it no longer does.
		wants := len(row.Voters) > 1 && (p.Lossless || primary.SQL.SemiSync.SourceEnabled)
		if m.acknowledgesOtherThan(wants) {
			p.retry(waitMySQL/2, SetAcknowledging{m.Name, wants})
			return "switching its acknowledgements " + onOff(wants)
		}
		return ""
	}
	switch {
	case (m.SQL.SemiSync.ReplicaEnabled || m.SQL.SemiSync.ReplicaActive) && len(row.Voters) > 1:
		// Nobody may count on an acknowledgement of a member that a promotion would not ask.
		p.retry(waitMySQL/2, SetAcknowledging{m.Name, false})
		return "switching its acknowledgements off until it is a voter"
	case m.Ordinal >= p.Replicas:
		return ""
	case *admitting || p.changingVotes():
		p.waitAtMost(waitMySQL)
		return "waiting to become a voter"
	case !m.SQL.Replication.LagKnown || m.SQL.Replication.Lag > p.MaxLag:
		p.waitAtMost(waitMySQL)
		return "catching up with " + primary.Name
	}
	if p.strangerAcknowledges(m, primary) {
		p.waitAtMost(waitMySQL)
		return "waiting until no member acknowledges that is not a voter"
	}
	*admitting = true
	p.retry(waitMySQL/4, AdmitVoter{Member: m.Name, Primary: primary.Name, From: row, SemiSync: p.Lossless})
	return "becoming a voter"
}

// acknowledgesOtherThan says whether a member's acknowledgements are not as they should be, by setting or in effect.
func (m *Member) acknowledgesOtherThan(wants bool) bool {
	s := m.SQL.SemiSync
	return s.ReplicaEnabled != wants || m.SQL.Replication.IOState == ioOn && s.ReplicaActive != wants
}

// strangerAcknowledges says whether the primary counts more acknowledging replicas than the voters and the newcomer can
// account for. Once the newcomer counts, such an acknowledgement could stand in for a voter's, and a promotion would not
// ask its giver.
func (p *planner) strangerAcknowledges(newcomer, primary *Member) bool {
	accounted := 0
	for _, m := range p.Members {
		if m != primary && m.verified() && m.SQL.SemiSync.ReplicaActive && (m == newcomer || p.plan.Membership.Has(m.Name)) {
			accounted++
		}
	}
	return primary.SQL.SemiSync.Clients > accounted
}

// keepWait keeps the primary's semi-synchronous settings in agreement with the membership row. While a voter is being
// admitted the count may be higher on purpose.
func (p *planner) keepWait(primary *Member, admitting bool) {
	row := *p.plan.Membership
	enabled := p.Lossless && len(row.Voters) > 1
	s := primary.SQL.SemiSync
	if admitting || p.busy(primary.Name) || p.changingVotes() {
		return
	}
	if s.SourceEnabled != enabled || enabled && s.WaitCount != row.W {
		p.retry(waitMySQL/2, SetSourceWait{Member: primary.Name, Enabled: enabled, W: row.W, Alone: len(row.Voters) == 1 || !p.Lossless})
	}
}

// expel takes the vote of a member that was reached and is to be rebuilt, and says whether it has none any more. First it
// acknowledges no more.
func (p *planner) expel(m, primary *Member) bool {
	row := *p.plan.Membership
	if !row.Has(m.Name) {
		return true
	}
	if p.unconfirmed || p.busy(primary.Name) || p.changingVotes() {
		p.waitAtMost(waitMySQL)
		return false
	}
	if m.SQL.SemiSync.ReplicaEnabled || m.SQL.SemiSync.ReplicaActive {
		p.retry(waitMySQL/2, SetAcknowledging{m.Name, false})
		return false
	}
	p.removeVote(m, primary)
	return false
}

// removeVote plans to take a vote. A primary that is left alone is remembered before: its row is known to nobody else.
func (p *planner) removeVote(m, primary *Member) {
	row := *p.plan.Membership
	if len(row.Voters) == 2 {
		p.plan.Records.Alone, p.plan.Records.AloneSince = primary.Name, row.Epoch+1
	}
	p.retry(waitMySQL/4, RemoveVoter{Member: m.Name, Primary: primary.Name, From: row, SemiSync: p.Lossless})
}

// changingVotes says whether a voter is admitted or removed in this pass already: one a step.
func (p *planner) changingVotes() bool {
	for _, a := range p.plan.Actions {
		switch a.(type) {
		case AdmitVoter, RemoveVoter:
			return true
		}
	}
	return false
}

// removeLostVoters takes the vote of members that can no longer acknowledge, one at a time: their machine is confirmed
// stopped or gone, or EC2 no longer has their volume. So the loss of one after another can be survived. A machine that is
// started again acknowledges nothing until the operator lets it. The last replica keeps its vote for a while, in which
// writes wait for it, unless its volume is gone.
func (p *planner) removeLostVoters(primary *Member) {
	row := *p.plan.Membership
	if p.unconfirmed || !p.CloudReachable || !row.Has(primary.Name) {
		return
	}
	for _, name := range row.Voters {
		m := p.Members[name]
		if name == primary.Name || m != nil && m.verified() {
			continue
		}
		if m == nil {
			m = &Member{Name: name} // EC2 shows nothing of it
		}
		in, lost := m.CurrentInstance(), m.volume() == nil
		if in != nil && in.State != stateStopped {
			if lost {
				p.stop(m, in)
			}
			continue
		}
		if len(row.Voters) == 2 && !lost && (m.DownSince.IsZero() || p.Now.Sub(m.DownSince) < lastVotePatience) {
			p.waitAtMost(waitMySQL)
			continue
		}
		p.removeVote(m, primary)
		return
	}
}
