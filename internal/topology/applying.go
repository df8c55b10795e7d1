package topology

import (
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// applyPatience is for how long what a replica has received and not applied must have grown until that is reported.
const applyPatience = time.Minute

// left is how long applying the backlog takes at the present rate; known is false while nothing is applied.
func (a Applier) left() (d time.Duration, known bool) {
	if a.Applies <= 0 {
		return 0, false
	}
	return time.Duration(float64(a.Backlog) / a.Applies * float64(time.Second)), true
}

// ApplyHistory remembers how much each replica had received and applied. The zero value has observed nothing. It is not safe for
// concurrent use.
type ApplyHistory struct {
	members map[string]applied
}

// applied is what one replica had received and applied at a time.
type applied struct {
	server             string
	at                 time.Time
	received, executed uint64
	applier            Applier
}

// Record sets the Applier of every replica in an observation.
func (h *ApplyHistory) Record(o *Observed) {
	now := map[string]applied{}
	for name, m := range o.Members {
		switch before, known := h.members[name]; {
		case !m.verified():
			if known {
				now[name] = before // a look that came to nothing breaks no growth
			}
		case m.SQL.Replication != nil:
			now[name] = before.followedBy(m, o.Now)
			m.SQL.Replication.Applier = now[name].applier
		}
	}
	h.members = now
}

// followedBy returns what a replica shows after an observation. One less than rateWindow after the last says nothing of rates.
func (a applied) followedBy(m *Member, now time.Time) applied {
	next := applied{server: m.SQL.ServerUUID, at: now, received: m.position().Count(), executed: m.SQL.Executed.Count()}
	backlog, before := next.received-next.executed, a.received-a.executed
	passed := now.Sub(a.at)
	switch {
	case a.server != next.server || next.executed < a.executed || next.received < a.received:
		next.applier.Backlog = backlog // another server, or its data was replaced
		return next
	case passed < rateWindow:
		a.applier.Backlog = backlog
		return a
	}
	next.applier = Applier{
		Backlog:  backlog,
		Receives: float64(next.received-a.received) / passed.Seconds(),
		Applies:  float64(next.executed-a.executed) / passed.Seconds(),
	}
	if backlog > before {
		next.applier.GrowsSince = a.applier.GrowsSince
		if next.applier.GrowsSince.IsZero() {
			next.applier.GrowsSince = a.at
		}
	}
	return next
}

// within says whether the backlog is applied within a time, at the present rate.
func (a Applier) within(limit time.Duration) bool {
	left, known := a.left()
	return a.Backlog == 0 || known && left <= limit
}

// reportApplier reports a replica that applies more slowly than it receives, once a failover to it would wait longer than a replica may be
// behind: what it has received it has to apply first.
func (p *pass) reportApplier(m *Member) {
	a := m.SQL.Replication.Applier
	if a.GrowsSince.IsZero() || p.Now.Sub(a.GrowsSince) < applyPatience {
		return
	}
	wait := "for as long as it applies nothing"
	if left, known := a.left(); known {
		wait = "about " + roughly(left)
	}
	if a.within(p.MaxLag) {
		return
	}
	p.degraded(v1alpha1.ReasonApplierBehind, fmt.Sprintf("%s applies %s transactions a second and receives %s: a failover to it would wait %s for its applier. Raise replica_parallel_workers, take a larger instance type, or reduce the write rate",
		m.Name, rounded(uint64(a.Applies)), rounded(uint64(a.Receives)), wait))
}
