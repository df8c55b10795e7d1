package topology

import "time"

// What an answer of a member is worth.

// askedBefore says whether what is known of a member is older than a time: its answer came late.
func (m *Member) askedBefore(t time.Time) bool { return !m.Asked.IsZero() && m.Asked.Before(t) }

// cloning says whether the member is being seeded at the moment.
func (m *Member) cloning() bool { return m.SQL.Clone != nil && m.SQL.Clone.State == cloneInProgress }

// blind says whether a member's mysqld shows little of itself: it starts so when the settings for performance_schema ask for
// more memory than there is.
func (m *Member) blind() bool {
	_, wrong := m.SQL.Misconfigured["performance_schema"]
	return wrong
}

// cloneCutOff says whether the last CLONE onto this member did not come to its end.
func (m *Member) cloneCutOff() bool {
	return m.SQL.Clone != nil && (m.SQL.Clone.State == cloneFailed || m.SQL.Clone.State == cloneInterrupted)
}
