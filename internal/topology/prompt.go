package topology

import (
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// promptSince is how old a look at the primary is at least by which its replicas are judged: one of the same moment would find what
// is on its way to them missing. An older one asks for less.
const promptSince = 200 * time.Millisecond

// Pursuit remembers what the primary had executed when it was looked at last, so that replicas that receive what it commits at once
// are told from those that still receive what it committed long ago: these acknowledge nothing new before they have it all. The
// zero value knows of no primary. It is not safe for concurrent use.
type Pursuit struct {
	server string
	looks  [2]glimpse           // the older one first
	late   map[string]time.Time // since when a replica lacks what there was, by member
}

type glimpse struct {
	at       time.Time
	executed gtid.Set
}

// Note sets Replication.Prompt of every replica in an observation, and remembers what it says of the primary.
func (u *Pursuit) Note(o *Observed) {
	var primary *Member
	for _, m := range o.Members {
		if !m.verified() || !m.SQL.Writable {
			continue
		}
		if primary != nil {
			*u = Pursuit{} // two: nobody knows whom to follow
			return
		}
		primary = m
	}
	if primary == nil || primary.SQL.ServerUUID != u.server {
		*u = Pursuit{}
	}
	if primary == nil {
		return
	}
	u.server = primary.SQL.ServerUUID
	look, known := u.usable(o.Now)
	for _, m := range o.Members {
		switch {
		case !m.verified() || m.SQL.Replication == nil || m.SQL.Replication.IOState != ioOn:
			delete(u.late, m.Name) // it receives nothing
		case known:
			u.judge(m, look, o.Now)
		}
	}
	if o.Now.Sub(u.looks[1].at) >= promptSince {
		u.looks = [2]glimpse{u.looks[1], {o.Now, primary.SQL.Executed}}
	}
}

// judge says whether a replica holds what the primary had executed at a look, and since when it does not.
func (u *Pursuit) judge(m *Member, look glimpse, now time.Time) {
	r := m.SQL.Replication
	r.Prompt = m.position().Contains(look.executed)
	since, late := u.late[m.Name]
	switch {
	case r.Prompt:
		delete(u.late, m.Name)
	case late:
		r.LateSince = since
	default:
		if u.late == nil {
			u.late = map[string]time.Time{}
		}
		u.late[m.Name], r.LateSince = now, now
	}
}

// usable is the newest look that is old enough.
func (u *Pursuit) usable(now time.Time) (glimpse, bool) {
	look := u.looks[1]
	if now.Sub(look.at) < promptSince {
		look = u.looks[0]
	}
	return look, !look.at.IsZero()
}

// holdsUp says whether commits would wait if a voter went away that acknowledges: those of the others that are needed then still
// receive what was committed long ago. Where too few others acknowledge at all, waiting for them does not help.
func (p *planner) holdsUp(m, primary *Member) bool {
	row := p.plan.Membership
	if !p.Lossless || primary == nil || row == nil || !row.Has(m.Name) || !p.receives(m, primary) || !m.SQL.SemiSync.ReplicaActive {
		return false
	}
	others, late := p.acknowledging(primary, m.Name)
	if len(others) < row.WaitCount() || len(others)-len(late) >= row.WaitCount() {
		return false
	}
	p.waitAtMost(waitMySQL)
	for _, other := range late {
		if since := other.SQL.Replication.LateSince; !since.IsZero() && p.Now.Sub(since) >= catchUpPatience {
			p.degraded(v1alpha1.ReasonRollingStopped, fmt.Sprintf("%s has received late since %s what %s commits, and without %s every commit would wait for it: nobody is restarted, replaced or taken away meanwhile. See to its network, or give it time with fewer writes",
				other.Name, since.UTC().Format(time.TimeOnly), primary.Name, m.Name))
		}
	}
	return true
}

// proxyPause is how long a proxy of Kubernetes may take after a change of the endpoints until it takes up the next one at once:
// kube-proxy does so once a second at most by default (minSyncPeriod).
const proxyPause = 1500 * time.Millisecond

// handsOverLater says why a primary that is to be restarted or replaced does not hand over to a member yet although that is ready:
// writes would stop for longer than the hand-over itself takes. Empty when it can.
func (p *planner) handsOverLater(primary, to *Member) string {
	if p.holdsUp(to, primary) {
		return awaitsOthers
	}
	if p.shownLately() {
		return "waiting a moment until clients have been shown the last change"
	}
	return ""
}

// shownLately says whether clients may not have been shown yet which members there are.
func (p *planner) shownLately() bool {
	left := p.ShownAt.Add(proxyPause).Sub(p.Now)
	if p.Shown != "" && p.plan.Primary != "" && p.Shown != p.plan.Primary {
		left = proxyPause // in this pass they are
	} else if p.ShownAt.IsZero() || left <= 0 {
		return false
	}
	p.waitAtMost(left)
	return true
}

// awaitsOthers is what a member waits for that nobody can do without yet.
const awaitsOthers = "waiting until another has received what was committed"
