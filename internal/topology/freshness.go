package topology

import (
	"fmt"
	"strings"
	"time"
)

// holdsUp says whether commits would wait if a voter went away that acknowledges: those of the others that are needed then still
// receive what was committed long ago. Where too few others acknowledge at all, waiting for them does not help.
func (p *acks) holdsUp(m, primary *Member) bool {
	row := p.plan.Membership
	if !p.Lossless || primary == nil || row == nil || !row.Has(m.Name) || !p.receives(m, primary) || !m.SQL.SemiSync.ReplicaActive {
		return false
	}
	prompt, late := p.acknowledging(primary, m.Name)
	if len(prompt)+len(late) < row.WaitCount() || len(prompt) >= row.WaitCount() {
		return false
	}
	p.waitAtMost(waitMySQL)
	return true
}

// proxyPause is how long a proxy of Kubernetes may take after a change of the endpoints until it takes up the next one at once:
// kube-proxy does so once a second at most by default (minSyncPeriod).
const proxyPause = 1500 * time.Millisecond

// handsOverLater says why a primary that is to be restarted or replaced does not hand over to a member yet although that is ready:
// writes would stop for longer than the hand-over itself takes. Empty when it can.
func (p *acks) handsOverLater(primary, to *Member) Step {
	if p.holdsUp(to, primary) {
		return waits(awaitsOthers)
	}
	if p.shownLately() {
		return waits("waiting a moment until clients have been shown the last change")
	}
	return Step{}
}

// shownLately says whether clients may not have been shown yet which members there are.
func (p *acks) shownLately() bool {
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

// whyWritesWait says since when commits wait, for how many voters, and what keeps each of those that do not acknowledge. Counts are
// rounded, so that status is not written for each transaction.
func (p *acks) whyWritesWait(primary *Member) string {
	row := p.newestMembership()
	var missing []string
	for _, name := range row.Voters {
		if m := p.Members[name]; name != primary.Name {
			if why, kept := p.whyNoAcknowledgement(m, primary); kept {
				missing = append(missing, name+" "+why)
			}
		}
	}
	also := ""
	if n := len(primary.SQL.SemiSync.Strangers); n > 0 {
		also = fmt.Sprintf(", and of as many more as acknowledge and are no members (%d, of %s)", n, primary.SQL.SemiSync.Strangers[0].Account)
	}
	return fmt.Sprintf("writes have waited since %s: a commit needs the acknowledgement of %d replicas%s, and %d voters acknowledge: %s. Bring them back, or reduce the write rate",
		primary.StalledSince.UTC().Format(time.TimeOnly), row.WaitCount(), also, p.acknowledgers(primary, ""), orNone(strings.Join(missing, ", ")))
}

// whyNoAcknowledgement says what keeps a voter from acknowledging, if anything does.
func (o Observed) whyNoAcknowledgement(m, primary *Member) (why string, kept bool) {
	switch {
	case m == nil || !m.verified():
		return "does not answer", true
	case !o.receives(m, primary):
		return "is not connected to " + primary.Name + m.SQL.Replication.whyNotConnected(), true
	case !m.SQL.SemiSync.ReplicaActive:
		return "is not told to acknowledge yet", true
	case m.SQL.Replication.UpToDate:
		return "", false
	}
	text := "is behind in receiving"
	if r := m.SQL.Replication; r.CatchUp > 0 {
		text += fmt.Sprintf(" and catches up in about %s (%s transactions)", roughly(r.CatchUp), rounded(r.Missing))
	} else if r.Missing > 0 {
		text += fmt.Sprintf(" by %s transactions and does not catch up", rounded(r.Missing))
	}
	return text, true
}

// roughly rounds a duration up to ten seconds, or to minutes.
func roughly(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%d s", int((d+9*time.Second)/(10*time.Second))*10)
	}
	return fmt.Sprintf("%d min", int((d+time.Minute-1)/time.Minute))
}

// rounded is a count with one digit that means something.
func rounded(n uint64) string {
	unit := uint64(1)
	for n/unit >= 10 {
		unit *= 10
	}
	return fmt.Sprintf("%d", (n+unit-1)/unit*unit)
}
