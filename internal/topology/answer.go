package topology

import "time"

// What an answer of a member is worth.

// askedBefore says whether what is known of a member is older than a time: its answer came late.
func (m *Member) askedBefore(t time.Time) bool { return !m.Asked.IsZero() && m.Asked.Before(t) }

// cloning says whether the member is being seeded at the moment.
func (m *Member) cloning() bool { return m.SQL.Clone != nil && m.SQL.Clone.State == cloneInProgress }

// unread says whether mysqld refuses to show how the last CLONE onto its server ended, as without the plug-in of CLONE. It may have been cut off, and
// be another one than before.
func (c *Clone) unread() bool { return c != nil && c.State == cloneUnread }

// firstUnread returns the first of some members of which mysqld does not show how the last CLONE ended; nil for none.
func firstUnread(all []*Member) *Member {
	for _, m := range all {
		if m.SQL.Clone.unread() {
			return m
		}
	}
	return nil
}

// saysUnread is what status says of a member of which mysqld does not show how the last CLONE ended.
func saysUnread(m *Member) string {
	return m.Name + " does not show whether it was cloned, and how that ended: " + m.SQL.Clone.Message
}

// unknownClone is in the place of what identifies a CLONE while mysqld does not show it.
const unknownClone = "unknown"

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
