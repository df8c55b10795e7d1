package topology

import (
	"fmt"
	"math"
	"time"
)

const (
	// catchUpPatience is for how long the member whose turn it is may be no less behind than before until a person is told.
	catchUpPatience = 10 * time.Minute
	// catchUpNoted is how often it is noted at most that it is less behind: each time is a write.
	catchUpNoted = time.Minute
)

// comesNoNearer says for how long a member that answers on its new instance has been no less behind than it was already. While it
// does not answer, or a copy is being made, which shows a progress of its own, that is not counted.
func (p *rollout) comesNoNearer(m *Member) time.Duration {
	rec := &p.plan.Records
	if !m.verified() || m.cloning() {
		rec.Nearest, rec.NearestAt = 0, 0
		return 0
	}
	lag := int64(math.MaxInt64)
	if r := m.SQL.Replication; r != nil && r.LagKnown {
		lag = int64(r.Lag.Seconds())
	}
	since := p.Now.Sub(time.Unix(rec.NearestAt, 0))
	if !p.WatchedSince.IsZero() {
		since = min(since, p.Now.Sub(p.WatchedSince)) // nobody looked before
	}
	if rec.NearestAt != 0 && (lag >= rec.Nearest || since < catchUpNoted) {
		return since
	}
	rec.Nearest, rec.NearestAt = lag, p.Now.Unix()
	return 0
}

// behind says how far a replica is behind, to be added to a message: ", 12 s behind". It is empty for less than a second and while
// that is not known. The longer it takes, the coarser it is told, so that status is not written for nothing.
func (m *Member) behind() string {
	r := m.SQL.Replication
	if r == nil || !r.LagKnown {
		return ""
	}
	switch lag := r.Lag; {
	case lag < time.Second:
		return ""
	case lag < time.Minute:
		return fmt.Sprintf(", %d s behind", int(lag.Seconds()))
	case lag < 2*time.Hour:
		return fmt.Sprintf(", %d min behind", int(lag.Minutes()))
	default:
		return fmt.Sprintf(", %d h behind", int(lag.Hours()))
	}
}

// caughtUp says whether a replica is near enough to the primary to be a voter.
func (d Desired) caughtUp(m *Member) bool {
	r := m.SQL.Replication
	return r.LagKnown && r.Lag <= d.MaxLag && (!d.Lossless || r.UpToDate)
}
