package topology

import "slices"

// Who is no voter must not acknowledge: its acknowledgement could stand in for a voter's, and a promotion would not ask its giver.
// Here is how those are kept silent, and who is remembered because that is not certain.

// mayBeHeard says whether a replica acknowledges what it receives, or would as soon as it receives anything.
func (m *Member) mayBeHeard() bool {
	return m.SQL.SemiSync.ReplicaEnabled || m.SQL.SemiSync.ReplicaActive
}

// strangerAcknowledges says whether a member gives acknowledgements, or would, that is neither a voter nor the newcomer, or the
// primary counts more than these can account for. Once the newcomer counts, such an acknowledgement could stand in for a voter's, and
// a promotion would not ask its giver.
func (p *acks) strangerAcknowledges(newcomer, primary *Member) bool {
	accounted, stranger := 0, false
	for _, m := range p.ordered() {
		if m == primary || !m.verified() || !m.mayBeHeard() {
			continue
		}
		switch {
		case m != newcomer && !p.plan.Membership.Has(m.Name):
			stranger = true
			if !p.busy(m.Name) {
				p.retry(waitMySQL/2, SetAcknowledging{m.Name, false, primary.Name})
			}
		case m.SQL.SemiSync.ReplicaActive:
			accounted++
		}
	}
	return stranger || primary.SQL.SemiSync.Clients > accounted+len(primary.SQL.SemiSync.Strangers)
}

// silenced says whether this pass ends a member's acknowledgements already, its own or everybody's.
func (p *acks) silenced(m *Member) bool {
	return slices.ContainsFunc(p.plan.Actions, func(a Action) bool {
		set, ok := a.(SetAcknowledging)
		_, alone := a.(RemoveAllVoters)
		return alone || ok && set.Member == m.Name && !set.On
	})
}

// mayAcknowledge says whether a member's acknowledgements count: under the primary's row, or under the newest one, which waits.
func (p *acks) mayAcknowledge(m *Member) bool {
	return p.plan.Membership.MayAcknowledge(m.Name) || p.awaited(m)
}

// awaited says whether the newest row, which the primary has written and which waits, makes a member a voter whose acknowledgement of
// that very row counts. When another voter is lost at that moment, or there is no other, the row waits for this one's.
func (p *acks) awaited(m *Member) bool {
	return p.Lossless && p.unconfirmed && !p.plan.Membership.Has(m.Name) && p.newestMembership().MayAcknowledge(m.Name)
}

// recordNonVoterAcks remembers a member that may acknowledge although no row says so.
func (p *acks) recordNonVoterAcks(member string) {
	if rec := &p.plan.Records; !slices.Contains(rec.MayAckNonVoters, member) {
		rec.MayAckNonVoters = append(rec.MayAckNonVoters, member)
	}
}

// forgetNonVoterAcks forgets who was remembered once its acknowledgements are those of a voter, or it is certain that it gives none.
func (p *acks) forgetNonVoterAcks() {
	if p.unconfirmed {
		return
	}
	p.plan.Records.MayAckNonVoters = slices.DeleteFunc(p.plan.Records.MayAckNonVoters, func(name string) bool {
		m := p.Members[name]
		return p.plan.Membership.Has(name) || m == nil || m.verified() && !m.mayBeHeard() || !m.verified() && p.off(m)
	})
}

// recordFormerVoterAcks remembers which voters may go on acknowledging when the primary becomes the only one, and lets none begin to.
func (p *acks) recordFormerVoterAcks(primary *Member) {
	for _, m := range p.ordered() {
		voter := p.plan.Membership.Has(m.Name) || p.awaited(m)
		if voter && m != primary && (m.verified() && m.mayBeHeard() || !m.verified() && !p.off(m)) {
			p.recordNonVoterAcks(m.Name)
		}
	}
	p.plan.Actions = slices.DeleteFunc(p.plan.Actions, func(a Action) bool {
		set, ok := a.(SetAcknowledging)
		return ok && set.On
	})
	for i, a := range p.plan.Actions {
		if from, ok := a.(ReplicateFrom); ok && from.Acknowledging {
			from.Acknowledging = false
			p.plan.Actions[i] = from
		}
	}
}

// awaitSilence has one that is to become a voter wait until no other member but the primary may acknowledge without being a voter.
// One that does not answer for long is powered off: nobody misses it.
func (p *votes) awaitSilence(newcomer, primary *Member) Step {
	for _, name := range p.plan.Records.MayAckNonVoters {
		if name == newcomer.Name || name == primary.Name {
			continue
		}
		if m := p.Members[name]; m != nil && p.CloudReachable {
			p.stopSilent(m, primary)
		}
		p.waitAtMost(waitMySQL)
		return waits("no voter until it is certain that " + name + ", which is none, acknowledges nothing")
	}
	return Step{}
}
