package engine

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const (
	// logLimit is when the search for transactions in a member's binary logs is given up. No pass waits so long.
	logLimit = 10 * time.Second
	// logTries is how often it is tried. What could not be read then is taken for diverged.
	logTries = 3
	// logAgain is after which time what was read is read once more: the log may have been purged since, or reset, and then nobody can be
	// certain of what was found in it.
	logAgain = time.Minute
)

// logged is what is known of the errant transactions of one run of a mysqld by its binary log. Another run may be one after a CLONE,
// after which the server may use a GTID for another transaction.
type logged struct {
	server   string // its UUID
	run      int64
	read     gtid.Set
	readAt   time.Time
	harmless []topology.HarmlessTransaction
	// search is under way, nil for none; failed counts those before it that failed.
	search *logSearch
	failed int
}

// logSearch is one search in the binary logs of a member.
type logSearch struct {
	wanted gtid.Set
	task   Task

	mu    sync.Mutex
	over  bool
	found []mysql.LoggedTransaction
	err   error
}

// readLogs has each replica's errant transactions looked up in its binary log, and once more every logAgain as long as there are any, and
// sets what is known of them.
func (k *Looks) readLogs(ctx context.Context, o *topology.Observed, p LookPorts) {
	errant := topology.OwnErrant(o)
	for _, m := range o.Members {
		if in := m.CurrentInstance(); in != nil && m.SQL.Access == topology.AccessVerified && errant[m.Name].IsEmpty() {
			delete(k.logs, in.ID)
		}
	}
	var tasks []func(context.Context)
	for _, name := range slices.Sorted(maps.Keys(errant)) {
		l := k.logOf(o.Members[name])
		l.take(o.Now)
		unread := errant[name].Subtract(l.read)
		if unread.IsEmpty() && o.Now.Sub(l.readAt) >= logAgain {
			unread = errant[name]
		}
		if l.search == nil && !unread.IsEmpty() {
			l.search = beginSearch(ctx, unread, p.Server(ctx, o.Members[name]), p.Threads)
		}
		if l.search != nil && topology.AnyWritable(o) {
			search := l.search
			tasks = append(tasks, func(ctx context.Context) { search.task.Await(ctx, lookPatience) })
		}
	}
	if len(tasks) > 0 {
		p.Threads.All(ctx, tasks)
	}
	for name := range errant {
		m := o.Members[name]
		l := k.logOf(m)
		l.take(o.Now)
		m.SQL.Replication.Own = topology.OwnTransactions{Reading: !l.read.Contains(errant[name]), Harmless: l.harmless}
	}
}

// logOf returns what is known of a member's present run.
func (k *Looks) logOf(m *topology.Member) *logged {
	id := m.CurrentInstance().ID
	if l := k.logs[id]; l == nil || l.run != m.SQL.Run || l.server != m.SQL.ServerUUID {
		k.logs[id] = &logged{server: m.SQL.ServerUUID, run: m.SQL.Run}
	}
	return k.logs[id]
}

// beginSearch begins a search in the binary logs of a member.
func beginSearch(ctx context.Context, wanted gtid.Set, server LookedAt, threads Threads) *logSearch {
	search := &logSearch{wanted: wanted}
	search.task = threads.Start(ctx, logLimit, func(ctx context.Context) {
		found, err := server.LoggedTransactions(ctx, wanted.String())
		search.mu.Lock()
		defer search.mu.Unlock()
		search.found, search.err, search.over = found, err, true
	})
	return search
}

// answer returns what a search found, and whether it is over.
func (s *logSearch) answer() (found []mysql.LoggedTransaction, err error, over bool) { //nolint:revive // the error belongs to what was found
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found, s.err, s.over
}

// take takes the answer of a search that is over. What it did not find counts as read, and as no harmless transaction, whatever was found
// before. What could not be read once more is as it was.
func (l *logged) take(now time.Time) {
	search := l.search
	if search == nil {
		return
	}
	found, err, over := search.answer()
	if !over {
		return
	}
	l.search = nil
	if err != nil && l.read.Contains(search.wanted) {
		l.readAt = now
		return
	}
	if err != nil && l.failed+1 < logTries {
		l.failed++
		return
	}
	l.failed, l.read, l.readAt = 0, l.read.Union(search.wanted), now
	l.harmless = slices.DeleteFunc(l.harmless, func(t topology.HarmlessTransaction) bool {
		one, err := gtid.Parse(t.GTID)
		return err != nil || search.wanted.Contains(one)
	})
	for _, t := range found {
		if what, certain := t.ChangesNothing(); certain {
			l.harmless = append(l.harmless, topology.HarmlessTransaction{GTID: t.GTID, What: what})
		}
	}
}
