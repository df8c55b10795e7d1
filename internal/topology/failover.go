package topology

import (
	"fmt"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// choosePrimary returns the member that takes writes, or plans to make one and returns nil.
func (p *planner) choosePrimary() *Member {
	row := p.newestMembership()
	if row == nil {
		p.bootstrap()
		return nil
	}
	p.plan.Membership = row
	var current, outdated []*Member
	for _, m := range p.primaries() {
		if m.SQL.Membership != nil && m.SQL.Membership.Epoch == row.Epoch {
			current = append(current, m)
		} else {
			outdated = append(outdated, m)
		}
	}
	p.unseat(outdated)
	switch len(current) {
	case 1:
		return current[0]
	case 0:
		if len(outdated) == 0 {
			p.promote(*row)
		}
	default:
		p.settleRivals(current, *row)
	}
	return nil
}

// unseat takes the writable state from members that must not have it. A member whose clients still wait for an
// acknowledgement cannot be made read-only (fact 2); its machine is powered off instead, which answers none of them.
func (p *planner) unseat(members []*Member) {
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
func (p *planner) settleRivals(rivals []*Member, row Membership) {
	p.waitAtMost(waitMySQL)
	if p.fence(row) {
		return
	}
	chosen := prove(row, p.Members).Candidate
	var others []*Member
	for _, m := range rivals {
		if m.Name != chosen {
			others = append(others, m)
		}
	}
	p.unseat(others)
}

// bootstrap makes a virgin member the first primary of a cluster that never had one.
func (p *planner) bootstrap() {
	begun := p.plan.Records.Bootstrapped
	for _, m := range p.ordered() {
		if !m.verified() || !m.SQL.MembershipKnown || m.Ordinal >= p.Replicas && m.Name != begun {
			continue
		}
		vol := m.volume()
		if vol == nil {
			continue
		}
		if begun == "" && !m.SQL.Executed.IsEmpty() {
			p.degraded(v1alpha1.ReasonForeignResource, fmt.Sprintf("%s holds transactions but no membership of this cluster; it is left alone", m.Name))
			p.waitAtMost(waitReady)
			return
		}
		if begun == "" && p.mayBootstrap() {
			p.plan.Records.Bootstrapped, p.plan.Records.BootstrappedVolume, begun = m.Name, vol.ID, m.Name
		}
		if m.Name == begun && vol.ID == p.plan.Records.BootstrappedVolume {
			p.do(Bootstrap{m.Name})
			return
		}
	}
	p.waitAtMost(waitMySQL)
	if begun != "" {
		p.plan.Waiting = Finding{v1alpha1.ReasonBootstrapping, "waiting for " + begun + ", on which the cluster began"}
	}
}

// mayBootstrap says whether it is certain that no member holds a cluster already. With intact records it is. With
// records rebuilt from tags, only if every member that ever had a volume says so itself.
func (p *planner) mayBootstrap() bool {
	if p.Records.RebuiltAt.IsZero() {
		return true
	}
	for name := range p.Records.Members {
		m := p.Members[name]
		if m == nil || !m.verified() || !m.SQL.MembershipKnown || !m.SQL.Executed.IsEmpty() {
			return false
		}
	}
	return true
}

// promote looks for a member that provably holds every acknowledged commit. First nobody acknowledges any more, so
// that what is counted cannot grow; only then it is counted.
func (p *planner) promote(row Membership) {
	p.waitAtMost(waitMySQL)
	if late := p.mayReturn(row); late != "" {
		p.plan.Waiting = Finding{v1alpha1.ReasonNoPrimary, "the primary is gone; waiting a moment for " + late + ", whose machine runs"}
		return
	}
	if witness := p.sourceSeen(row); witness != "" {
		p.plan.Waiting = Finding{v1alpha1.ReasonNoPrimary, "the primary does not answer the operator, but " + witness + " still receives from it"}
		return
	}
	if p.fence(row) || !p.Lossless && p.machinesRun(row) {
		return
	}
	proof := prove(row, p.Members)
	if proof.Candidate == "" {
		p.degraded(v1alpha1.ReasonPromotionNotProven, notProven(row, proof))
		return
	}
	semiSync := p.Lossless && len(row.Voters) > 1
	p.do(Promote{Member: proof.Candidate, Membership: row, SemiSync: semiSync, MustHold: proof.MustHold.String()})
}

// machinesRun plans to power off the machines of voters that are not reached, and says whether any still runs. Without
// semi-synchronous replication stopping the replicas' IO threads fences nobody: a primary that only we do not reach
// goes on answering its clients.
func (p *planner) machinesRun(row Membership) bool {
	running := false
	for _, name := range row.Voters {
		m := p.Members[name]
		if m == nil || m.verified() {
			continue
		}
		if in := m.CurrentInstance(); in != nil && in.State != stateStopped {
			p.stop(m, in)
			running = true
		}
	}
	if running {
		p.plan.Waiting = Finding{v1alpha1.ReasonNoPrimary, "the primary is gone; its machine is powered off before another member is promoted"}
	}
	return running || !p.CloudReachable
}

// mayReturn returns a voter that is not reached, but only for a moment, on a machine that runs: mysqld restarts in
// seconds, and a primary that returns holds whatever it had committed without an acknowledgement. Promoted again it
// loses nothing; passed over it would have to be rebuilt.
func (p *planner) mayReturn(row Membership) string {
	for _, name := range row.Voters {
		m := p.Members[name]
		if m == nil || m.verified() || m.SilentSince.IsZero() {
			continue
		}
		if in := m.CurrentInstance(); in != nil && in.State == stateRunning && !in.Impaired && p.Now.Sub(m.SilentSince) < returnPatience {
			return name
		}
	}
	return ""
}

// sourceSeen returns a voter that still receives from a source which the operator does not reach. Such a primary may
// still serve its clients; the operator's own network is then the likelier culprit.
func (p *planner) sourceSeen(row Membership) string {
	for _, name := range row.Voters {
		m := p.Members[name]
		if m == nil || !m.verified() || m.SQL.Replication == nil || m.SQL.Replication.IOState != ioOn {
			continue
		}
		if source := p.memberAt(m.SQL.Replication.SourceHost); source == nil || !source.verified() {
			return name
		}
	}
	return ""
}

// memberAt returns the member whose instance has an address.
func (p *planner) memberAt(address string) *Member {
	for _, m := range p.ordered() {
		if in := m.CurrentInstance(); in != nil && in.Address == address {
			return m
		}
	}
	return nil
}

// fence plans to stop the IO threads that still run at reached voters, and says whether any did.
func (p *planner) fence(row Membership) bool {
	fenced := false
	for _, name := range row.Voters {
		m := p.Members[name]
		if m != nil && m.verified() && m.SQL.Replication != nil && m.SQL.Replication.IOState != ioOff {
			p.retry(waitNext, Fence{name})
			fenced = true
		}
	}
	return fenced
}

func notProven(row Membership, proof Proof) string {
	if len(proof.Unreached) > len(row.Voters)-proof.Needed {
		return fmt.Sprintf("no primary: %d of the %d voters must be reached to prove that no acknowledged commit is lost; not reached: %s",
			proof.Needed, len(row.Voters), strings.Join(proof.Unreached, ", "))
	}
	return fmt.Sprintf("no primary: no voter that was reached holds every transaction that may have been acknowledged (%s); not reached: %s",
		proof.MayBeAcknowledged, orNone(strings.Join(proof.Unreached, ", ")))
}
