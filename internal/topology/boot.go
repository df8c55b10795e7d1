package topology

import (
	"fmt"
	"strings"
	"time"
)

// Boot is how far an instance has come on its way to mysqld, by what it printed to its console.
type Boot struct {
	Instance string
	// Stage is the last stage that was printed; empty while none was seen. Since is when it was first seen.
	Stage string
	Since time.Time
	// Slow says whether the stage takes minutes when nothing is wrong. Failure is why a stage of this boot failed last; empty when none has.
	Slow    bool
	Failure string
}

// At returns the boot once its console shows a stage as the last one, and a failure.
func (b Boot) At(stage, failure string, slow bool, now time.Time) Boot {
	next := Boot{Instance: b.Instance, Stage: stage, Since: b.Since, Slow: slow, Failure: failure}
	switch {
	case stage == "":
		return b
	case stage != b.Stage:
		next.Since = now
	}
	return next
}

// String returns the stage, since when it lasts, and what failed before it is tried again.
func (b Boot) String() string {
	if b.Stage == "" {
		return "last boot stage: none"
	}
	text := fmt.Sprintf("last boot stage since %s: %s", b.Since.UTC().Format(time.TimeOnly), b.Stage)
	if b.Failure != "" && !strings.Contains(b.Stage, b.Failure) {
		text += ", after it failed: " + b.Failure
	}
	return text
}

// overdue says whether a member has not answered for so long that somebody has to look at it.
func (o Observed) overdue(m *Member) bool {
	in := m.CurrentInstance()
	poweringUp := in != nil && in.sincePowerUp(o.Now) < silenceAllowed
	return !m.SilentSince.IsZero() && o.Now.Sub(m.SilentSince) >= silenceAllowed && !poweringUp && !o.booting(m)
}

// booting says whether an instance on which the member never joined makes progress. It refuses connections meanwhile: a port that is
// silent is the network's fault, whatever the boot does.
func (o Observed) booting(m *Member) bool {
	in := m.CurrentInstance()
	if in == nil || m.SQL.Access != AccessRefused || o.Records.Members[m.Name].SignedInstance == in.ID {
		return false
	}
	if m.Boot.Stage == "" || m.Boot.Failure != "" || in.sincePowerUp(o.Now) >= bootAllowed {
		return false
	}
	return m.Boot.Slow || o.Now.Sub(m.Boot.Since) < silenceAllowed
}
