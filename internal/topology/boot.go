package topology

import (
	"fmt"
	"time"
)

// Boot is how far an instance has come on its way to mysqld, by what it printed to its console.
type Boot struct {
	Instance string
	// Stage is the last stage that was printed; empty while none was seen. Since is when it was first seen.
	Stage string
	Since time.Time
	// Slow says whether the stage takes minutes when nothing is wrong; Failed whether a stage has failed since the boot began.
	Slow, Failed bool
}

// At returns the boot once its console shows a stage as the last one.
func (b Boot) At(stage string, slow, failed bool, now time.Time) Boot {
	if stage == "" || stage == b.Stage {
		return b
	}
	return Boot{Instance: b.Instance, Stage: stage, Since: now, Slow: slow, Failed: failed || b.Failed}
}

// String returns the stage, and since when it lasts.
func (b Boot) String() string {
	if b.Stage == "" {
		return "last boot stage: none"
	}
	return fmt.Sprintf("last boot stage since %s: %s", b.Since.UTC().Format(time.TimeOnly), b.Stage)
}

// overdue says whether a member has not answered for so long that somebody has to look at it.
func (o Observed) overdue(m *Member) bool {
	return !m.SilentSince.IsZero() && o.Now.Sub(m.SilentSince) >= silenceAllowed && !o.booting(m)
}

// booting says whether an instance on which the member never joined makes progress. It refuses connections meanwhile: a port that is
// silent is the network's fault, whatever the boot does.
func (o Observed) booting(m *Member) bool {
	in := m.CurrentInstance()
	if in == nil || m.SQL.Access != AccessRefused || o.Records.Members[m.Name].SignedInstance == in.ID {
		return false
	}
	if m.Boot.Stage == "" || m.Boot.Failed || o.Now.Sub(in.LaunchTime) >= bootAllowed {
		return false
	}
	return m.Boot.Slow || o.Now.Sub(m.Boot.Since) < silenceAllowed
}
