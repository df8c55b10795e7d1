package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// applierStops are the transactions at which the applier of one run of a mysqld stopped. Once they count as executed, the member's binary log
// shows whether they were applied, or whether a person committed an empty transaction in the place of one to get past the error.
type applierStops struct {
	server string // its UUID
	run    int64
	// at are those of which that is not known, skipped those that were not applied, unread those of which the log could not be read.
	at, skipped, unread gtid.Set
	// search is under way, nil for none; failed counts those before it that failed.
	search  *logSearch
	failed  int
	retryAt time.Time
}

// skipAgain is after which time a search is begun again that failed.
const skipAgain = 2 * time.Second

// findSkipped sets which transactions each replica has in name only, or may have.
func (k *Looks) findSkipped(ctx context.Context, o *topology.Observed, p LookPorts) {
	for _, name := range slices.Sorted(maps.Keys(o.Members)) {
		m := o.Members[name]
		r := m.SQL.Replication
		if m.CurrentInstance() == nil || m.SQL.Access != topology.AccessVerified || r == nil {
			continue
		}
		s := k.stopsOf(m)
		failed := gtid.Set{}
		if one, err := gtid.Parse(mysql.FailedTransaction(r.ApplierError)); err == nil {
			failed, s.at = one, s.at.Union(one)
		}
		s.take(o.Now)
		wanted := s.at.Intersect(m.SQL.Executed).Subtract(failed)
		if s.search == nil && !wanted.IsEmpty() && !o.Now.Before(s.retryAt) {
			s.search = beginSearch(ctx, wanted, p.Server(ctx, m), p.Threads)
		}
		r.Stops = topology.ApplierStops{Skipped: s.skipped, Unread: s.unread, Reading: !wanted.IsEmpty()}
	}
}

// stopsOf returns what is known of a member's present run.
func (k *Looks) stopsOf(m *topology.Member) *applierStops {
	id := m.CurrentInstance().ID
	if s := k.applierStops[id]; s == nil || s.run != m.SQL.Run || s.server != m.SQL.ServerUUID {
		k.applierStops[id] = &applierStops{server: m.SQL.ServerUUID, run: m.SQL.Run}
	}
	return k.applierStops[id]
}

// take takes the answer of a search that is over. A transaction that the log does not show was skipped as well. What could not be read in
// logTries searches nobody knows: it counts as little as what was skipped.
func (s *applierStops) take(now time.Time) {
	if s.search == nil {
		return
	}
	wanted := s.search.wanted
	found, err, over := s.search.answer()
	if !over {
		return
	}
	s.search = nil
	if err != nil {
		if s.failed++; s.failed < logTries {
			s.retryAt = now.Add(skipAgain)
			return
		}
		s.failed, s.at, s.unread = 0, s.at.Subtract(wanted), s.unread.Union(wanted)
		return
	}
	applied := gtid.Set{}
	for _, t := range found {
		if one, err := gtid.Parse(t.GTID); err == nil && !t.Empty() {
			applied = applied.Union(one)
		}
	}
	s.failed, s.at, s.skipped = 0, s.at.Subtract(wanted), s.skipped.Union(wanted.Subtract(applied))
}
