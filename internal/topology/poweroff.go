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

// depose records that a primary is replaced, and powers it off if it is not reached: until then clients that are still connected to it read
// what is no longer so. It can acknowledge nothing any more.
func (p *failover) depose(row Membership, successor string) {
	primary := row.Primary
	if primary == "" || primary == successor {
		return
	}
	rec, m, running := &p.plan.Records, p.Members[primary], (*Instance)(nil)
	if m != nil && !m.verified() {
		if in := m.CurrentInstance(); in != nil && in.State == stateRunning {
			running = in
		}
	}
	rec.recordFailover(p.Now, running != nil && running.ID != rec.FencedPrimary)
	if running != nil {
		rec.FencedPrimary = running.ID
		p.stop(m, running)
	}
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
		p.plan.Waiting = Finding{v1alpha1.ReasonNoPrimary, fmt.Sprintf("instance %s of %s had to be stopped by force and its host may still answer clients; a member is promoted once volume %s is detached", f.Instance, m.Name, f.Volume)}
	case in == nil:
	case in.LaunchTime.After(m.DownSince) && p.Now.Sub(in.LaunchTime) < lateAnswers:
		p.waitAtMost(waitSuspect) // it was started since: it returns read-only, with all that it had committed
	default:
		p.stop(m, in)
	}
	return true
}
