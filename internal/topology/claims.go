package topology

import (
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// claimHistory finds the GTIDs that members count as executed although they never got these transactions. SET GLOBAL gtid_purged makes a
// member claim GTIDs that its primary has yet to give out; RESET BINARY LOGS AND GTIDS makes the primary give out those again that its
// replicas have. A replica acknowledges such a transaction and skips it. The zero value has seen nothing.
type claimHistory struct {
	// seen is what each member showed last.
	seen map[string]lastShown
	// server is the primary, and forgotten is what it had executed and does not count as executed any more.
	server    string
	forgotten gtid.Set
}

// lastShown is what a member showed when it was reached last.
type lastShown struct {
	// server and clone say which data it was: those of another server, or after another CLONE, are others.
	server, clone string
	at            time.Time // when the answer was there
	executed      gtid.Set
	// suspected are GTIDs of the primary that the primary showed neither as executed nor as waiting in a later look. One that it committed
	// while it answered is executed in its next answer.
	suspected gtid.Set
	claimed   gtid.Set
}

// record sets Claimed of every member in an observation. Primary is the only writable member; nil when there is none.
func (h *claimHistory) record(o *Observed, primary *Member) {
	if h.seen == nil {
		h.seen = map[string]lastShown{}
	}
	var forgotten gtid.Set
	if primary != nil {
		forgotten = h.recordPrimary(primary)
	}
	for name, m := range o.Members {
		if m.verified() && !m.blind() && !m.cloning() {
			h.seen[name] = h.shows(m, primary, forgotten, o.Now)
		}
		m.Claims = Claims{h.seen[name].claimed, h.seen[name].clone}
	}
}

// recordPrimary returns what the primary has forgotten since it was seen last. Whoever holds some of it holds another transaction than the
// one that the primary gives the GTID to next.
func (h *claimHistory) recordPrimary(primary *Member) gtid.Set {
	if h.server != primary.SQL.ServerUUID {
		h.server, h.forgotten = primary.SQL.ServerUUID, gtid.Set{}
	}
	before, known := h.seen[primary.Name]
	if !known || !before.isOf(primary) {
		return gtid.Set{}
	}
	forgotten := before.executed.Subtract(primary.SQL.Executed)
	if forgotten.IsEmpty() {
		return forgotten
	}
	h.forgotten = h.forgotten.Union(forgotten)
	for name, shown := range h.seen {
		if name != primary.Name {
			shown.claimed = shown.claimed.Union(shown.executed.Intersect(forgotten))
			h.seen[name] = shown
		}
	}
	return forgotten
}

// shows returns what a member shows now. Forgotten is what the primary has forgotten since the observation before.
func (h *claimHistory) shows(m, primary *Member, forgotten gtid.Set, now time.Time) lastShown {
	shown := lastShown{server: m.SQL.ServerUUID, clone: m.lastClone(), at: now, executed: m.SQL.Executed}
	before, known := h.seen[m.Name]
	if shown.clone == unknownClone && before.isOf(m) {
		shown.clone = before.clone
	}
	switch {
	case m == primary: // what it has executed is what counts
	case !known:
		shown.claimed = m.SQL.Executed.Intersect(h.forgotten)
	case before.isOf(m):
		shown.claimed = before.claimed.Union(before.purgedOutOfOrder(m)).Union(m.SQL.Executed.Intersect(forgotten))
		if primary != nil {
			shown.claimed = shown.claimed.Union(neverCommitted(primary, before.suspected))
			if !primary.askedBefore(before.at) {
				shown.suspected = neverCommitted(primary, before.executed)
			}
		}
	}
	return shown
}

// isOf says whether a member may still have the data that it showed: no other CLONE is known.
func (s lastShown) isOf(m *Member) bool {
	clone := m.lastClone()
	return s.server == m.SQL.ServerUUID && (s.clone == clone || s.clone == unknownClone || clone == unknownClone)
}

// purgedOutOfOrder returns what a member's binary log lacks and cannot have held since it was seen last: binary logs are purged from their
// beginning on, and this one still holds something that was executed before.
func (s lastShown) purgedOutOfOrder(m *Member) gtid.Set {
	if s.executed.Intersect(m.SQL.Executed).Subtract(m.SQL.Purged).IsEmpty() {
		return gtid.Set{}
	}
	return m.SQL.Purged.Subtract(s.executed)
}

// neverCommitted returns what of a set has the GTID of a primary and shows there neither as executed nor as waiting.
func neverCommitted(m *Member, set gtid.Set) gtid.Set {
	return set.Subtract(set.WithoutSource(m.SQL.ServerUUID)).Subtract(m.SQL.Executed).Subtract(m.SQL.Waiting)
}

// keeps says whether a member holds a set of transactions, and not their GTIDs alone.
func (m *Member) keeps(set gtid.Set) bool { return m.position().Subtract(m.Claimed).Contains(set) }

// cause returns, as a cause, that voters skip what the primary commits: they claim its GTIDs.
func (h *claimHistory) cause(primary *Member, members map[string]*Member) Cause {
	for _, name := range primary.SQL.Membership.Voters {
		v := members[name]
		switch {
		case v == nil || v == primary || v.Claimed.IsEmpty():
		case !h.forgotten.IsEmpty():
			return Cause{CauseNotKept, primary.Name + " does not count as executed what it gave to its replicas, as after RESET BINARY LOGS AND GTIDS, and they skip what gets the same GTIDs"}
		case counts(v) && v.SQL.SemiSync.ReplicaActive:
			return Cause{CauseNotKept, name + " acknowledges transactions and skips them, because it counts their GTIDs as executed"}
		}
	}
	return Cause{}
}

// lastClone identifies the member's last CLONE; empty for none.
func (m *Member) lastClone() string {
	if !m.verified() {
		return m.SeenClone
	}
	if m.blind() || m.SQL.Clone.unread() {
		return unknownClone
	}
	if m.SQL.Clone == nil {
		return ""
	}
	return m.SQL.Clone.Began
}
