package topology

import (
	"fmt"
	"time"
)

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
