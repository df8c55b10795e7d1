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
	writable := p.primaries()
	if len(writable) == 1 && writable[0].SQL.Membership != nil && writable[0].SQL.Membership.Epoch == row.Epoch {
		return writable[0]
	}
	if len(writable) > 0 {
		p.resolveWritable(writable, *row)
		return nil
	}
	p.promote(*row)
	return nil
}

// bootstrap makes a virgin member the first primary of a cluster that never had one.
func (p *planner) bootstrap() {
	begun := p.plan.Records.Bootstrapped
	for _, m := range p.ordered() {
		if !m.verified() || !m.SQL.MembershipKnown || m.Ordinal >= p.Replicas {
			continue
		}
		if begun == "" && !m.SQL.Executed.IsEmpty() {
			p.degraded(v1alpha1.ReasonForeignResource, fmt.Sprintf("%s holds transactions but no membership of this cluster; it is left alone", m.Name))
			p.waitAtMost(waitReady)
			return
		}
		if begun == "" && p.mayBootstrap() {
			p.plan.Records.Bootstrapped, begun = m.Name, m.Name
		}
		if m.Name == begun {
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

// resolveWritable deals with writable members that must not be: those outside the highest epoch are demoted; of
// several with the same epoch none is trusted, and the rule of promotion decides once all are read-only.
func (p *planner) resolveWritable(writable []*Member, row Membership) {
	current := 0
	for _, m := range writable {
		if m.SQL.Membership != nil && m.SQL.Membership.Epoch == row.Epoch {
			current++
		}
	}
	for _, m := range writable {
		outdated := m.SQL.Membership == nil || m.SQL.Membership.Epoch < row.Epoch
		if outdated || current > 1 {
			p.do(Demote{m.Name})
			p.degraded(v1alpha1.ReasonMemberUntrusted, m.Name+" was writable and must not be; it is made read-only")
		}
	}
	p.waitAtMost(waitMySQL)
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
	if p.fence(row) {
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
			p.do(Fence{name})
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
