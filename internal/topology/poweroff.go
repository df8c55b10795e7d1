package topology

import (
	"fmt"
	"slices"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// needsPowerOff says whether stopping the voters' IO threads does not keep the old primary from answering commits: with durability
// Async it waits for nobody, and in an uncovered time it may have waited for replicas that are no members.
func (st *state) needsPowerOff() bool {
	return !st.Lossless || slices.ContainsFunc(st.Records.Uncovered, func(u Uncovered) bool { return !u.Fenced })
}

// depose records that a primary is replaced, and powers off the primary of the row if it is not reached: until then clients that are still
// connected to it read what is no longer so. It can acknowledge nothing any more. Whom only the records name is left on: it may never have
// been opened, and hold in memory alone what it acknowledged.
func (p *failover) depose(row Membership, successor string) {
	rec, replaced := &p.plan.Records, p.lastPrimary(row)
	if replaced == successor {
		replaced = row.Primary // the promotion is retried
	}
	if replaced != successor {
		in := p.silentInstance(replaced)
		rec.recordFailover(p.Now, in != nil && in.ID != rec.FencedPrimary)
	}
	if in := p.silentInstance(row.Primary); in != nil && row.Primary != successor {
		rec.FencedPrimary = in.ID
		p.stop(p.Members[row.Primary], in)
	}
}

// silentInstance returns the instance of a member that runs and is not reached, nil for none.
func (o Observed) silentInstance(member string) *Instance {
	m := o.Members[member]
	if m == nil || m.verified() {
		return nil
	}
	if in := m.CurrentInstance(); in != nil && in.State == stateRunning {
		return in
	}
	return nil
}

// finishDeposed goes on powering off the instance of a primary that was replaced, until it is stopped or its mysqld says
// that it takes no writes.
func (p *failover) finishDeposed() {
	id := p.plan.Records.FencedPrimary
	if id == "" {
		return
	}
	for _, m := range p.ordered() {
		in := m.CurrentInstance()
		if in == nil || in.ID != id {
			continue
		}
		if in.State != stateStopped && (!m.verified() || m.SQL.Writable) {
			p.stop(m, in)
			return
		}
	}
	p.plan.Records.FencedPrimary = "" // stopped, read-only, or no longer the instance of its volume
}

// instancesRun plans to power off the instances of the members that may be the primary and are not reached, and says whether
// one may still run. Without semi-synchronous replication stopping the replicas' IO threads fences nobody: a primary that
// only we do not reach goes on answering its clients. Once it was seen stopped it may be started again: it takes no writes
// then.
func (p *failover) instancesRun(row Membership) bool {
	runs := false
	for _, name := range row.Voters {
		// The last one to be promoted may be known to nobody but itself. Lost records may have forgotten even who it is.
		if name == row.Primary || name == p.Records.Leader || p.Records.Uncovered.Of(name) != nil || p.Records.AloneUnknown {
			runs = p.instanceRuns(p.Members[name]) || runs
		}
	}
	if runs && p.plan.Waiting.Reason == "" {
		p.plan.Waiting = Finding{v1alpha1.ReasonNoPrimary, "the primary is gone; its instance is powered off before another member is promoted"}
	}
	return runs
}

func (p *failover) instanceRuns(m *Member) bool {
	if m == nil || m.verified() {
		return false
	}
	in := m.CurrentInstance()
	if in != nil && slices.Contains(p.Records.PoweredOff, in.ID) {
		return false
	}
	if p.off(m) {
		if in != nil {
			p.plan.Records.PoweredOff = append(p.plan.Records.PoweredOff, in.ID)
		}
		return false
	}
	switch f := p.mayStillWrite(m); {
	case f != nil && f.Stopped != 0:
		p.waitAtMost(waitMySQL)
		p.plan.Waiting = Finding{v1alpha1.ReasonNoPrimary, fmt.Sprintf("instance %s of %s was stopped by force, or took minutes to stop, and its host may still answer clients; a member is promoted once volume %s is detached", f.Instance, m.Name, f.Volume)}
	case in == nil:
	case in.LaunchTime.After(m.DownSince) && p.Now.Sub(in.LaunchTime) < lateAnswers:
		p.waitAtMost(waitSuspect) // it was started since: it returns read-only, with all that it had committed
	default:
		p.stop(m, in)
	}
	return true
}
