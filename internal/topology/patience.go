package topology

import (
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// mayStillServe says whether the primary is waited for a while: it may return in a moment, or still serve clients that reach it.
func (p *failover) mayStillServe(row Membership) bool {
	if waiting, left := p.patience(row); left > 0 {
		p.plan.Waiting = waiting
		p.waitAtMost(left)
		return true
	}
	if witness := p.sourceSeen(row); witness != nil {
		p.plan.Waiting = Finding{v1alpha1.ReasonNoPrimary, "the primary does not answer the operator, but " + witness.Name + " still receives from it"}
		return true
	}
	return false
}

// lastPrimary returns the member that took writes last. The records name it before it is opened for writes, and its own row may have reached
// nobody else. While they are in doubt it is the primary of the row.
func (p *failover) lastPrimary(row Membership) string {
	if rec := p.plan.Records; rec.Leader != "" && !rec.LeaderDoubted {
		return rec.Leader
	}
	return row.Primary
}

// patience says for whom a promotion waits a moment and why, and how long: for the primary, on an instance that runs. mysqld restarts in
// seconds, and a primary that returns holds whatever it had committed without an acknowledgement. Promoted again it loses
// nothing; passed over it may have to be rebuilt.
func (p *failover) patience(row Membership) (why Finding, left time.Duration) {
	m := p.Members[p.lastPrimary(row)]
	if m == nil || m.verified() {
		return Finding{}, 0
	}
	since := m.SilentSince
	if m.SQL.Access == AccessDenied {
		since = m.DownSince // it is full, perhaps for a moment
	}
	in := m.CurrentInstance()
	if since.IsZero() || in == nil || in.State != stateRunning || in.Impaired || in.LaunchTime.After(since) {
		return Finding{}, 0 // off, broken, or started since: then it comes back read-only, and no sooner than others are ready
	}
	silent, limit := p.Now.Sub(since), silencePatience
	finding := Finding{v1alpha1.ReasonNoPrimary, "the primary " + m.Name + " does not answer; waiting a moment for it"}
	if m.SQL.Access == AccessRefused {
		limit = returnPatience
		finding.Message = "mysqld of the primary " + m.Name + " is down; waiting a moment for its restart"
	}
	if limit < coolPatience && p.Records.failoversSpent(p.Now) {
		limit = coolPatience
		finding = Finding{v1alpha1.ReasonCoolDown, fmt.Sprintf("the primary %s does not answer; %d before it were replaced within minutes, so that this one is given %s to return", m.Name, failoverBurst, coolPatience)}
	}
	return finding, limit - silent
}

// sourceSeen returns a member that still receives from a source which the operator does not reach; nil for none. Such a primary may
// still serve its clients; the operator's own network is then the likelier culprit. Not for longer than witnessPatience: clients are where
// the operator is more often than not. An address of no member is taken for that of the primary of the row.
func (o Observed) sourceSeen(row Membership) *Member {
	for _, m := range o.ordered() {
		r := m.SQL.Replication
		if !m.verified() || r == nil || r.IOState != ioOn || r.SourceSilence < 0 || r.SourceSilence >= sourceFresh {
			continue
		}
		source := o.memberAt(r.SourceHost)
		if source == nil {
			source = o.Members[row.Primary]
		}
		if source != nil && !source.verified() && (source.SilentSince.IsZero() || o.Now.Sub(source.SilentSince) < witnessPatience) {
			return m
		}
	}
	return nil
}

// memberAt returns the member whose instance has an address.
func (o Observed) memberAt(address string) *Member {
	for _, m := range o.ordered() {
		if in := m.CurrentInstance(); in != nil && in.Address == address {
			return m
		}
	}
	return nil
}
