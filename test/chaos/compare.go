package chaos

import (
	"fmt"
	"slices"
	"time"
)

// Row is a write as a member holds it.
type Row struct {
	ID     uint64
	Round  int
	Worker int
	Seq    uint32
	Server uint32
}

// Difference is what a comparison of the ledger with a member's rows found wrong. All of it is empty when all is well.
type Difference struct {
	// Lost were acknowledged and are not there. Duplicated are there more than once. Uncalled are there and were refused,
	// or nobody sent them. Changed are there with other contents than were sent.
	Lost, Duplicated, Uncalled, Changed []uint64
}

// Empty says that nothing is wrong.
func (d Difference) Empty() bool {
	return len(d.Lost)+len(d.Duplicated)+len(d.Uncalled)+len(d.Changed) == 0
}

// String names at most a few ids of each kind.
func (d Difference) String() string {
	text := ""
	for _, kind := range []struct {
		name string
		ids  []uint64
	}{{"lost", d.Lost}, {"duplicated", d.Duplicated}, {"uncalled for", d.Uncalled}, {"changed", d.Changed}} {
		if len(kind.ids) == 0 {
			continue
		}
		const named = 8
		ids := slices.Sorted(slices.Values(kind.ids))
		text += fmt.Sprintf("%d %s %v ", len(ids), kind.name, ids[:min(named, len(ids))])
	}
	if text == "" {
		return "equal"
	}
	return text
}

// Compare holds a ledger against the rows of a member, one by one.
func Compare(entries []Entry, rows []Row) Difference {
	var d Difference
	sent := make(map[uint64]Entry, len(entries))
	for _, e := range entries {
		sent[e.ID] = e
	}
	there := make(map[uint64]bool, len(rows))
	for _, row := range rows {
		e, known := sent[row.ID]
		switch {
		case there[row.ID]:
			d.Duplicated = append(d.Duplicated, row.ID)
		case !known || e.Outcome == Refused:
			d.Uncalled = append(d.Uncalled, row.ID)
		case row != (Row{ID: e.ID, Round: e.Round, Worker: e.Worker, Seq: e.Seq, Server: e.Server}):
			d.Changed = append(d.Changed, row.ID)
		}
		there[row.ID] = true
	}
	for _, e := range entries {
		if e.Outcome == Acknowledged && !there[e.ID] {
			d.Lost = append(d.Lost, e.ID)
		}
	}
	return d
}

// shortestReign is how long a member is primary at the least: fencing, promotion and a switchover back take longer.
// Two members that acknowledge take turns much faster, for each is written to several times a second.
const shortestReign = time.Second

// Rivals looks for two members that acknowledged side by side: A answered, then B a write that was sent later, then A
// again one that was sent after that, and all of it within a time in which nobody is deposed and promoted again.
func Rivals(entries []Entry) (first, second Entry, found bool) {
	acked := slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return e.Outcome != Acknowledged })
	slices.SortFunc(acked, func(a, b Entry) int { return int(a.Answered - b.Answered) })
	last := map[uint32]Entry{} // the newest answer of each member
	for _, e := range acked {
		for server, other := range last {
			own, before := last[e.Server]
			if server == e.Server || !before {
				continue
			}
			// own, then other, then e, each sent after the one before was answered.
			if other.Sent >= own.Answered && e.Sent >= other.Answered && e.Sent-own.Answered < shortestReign {
				return other, e, true
			}
		}
		last[e.Server] = e
	}
	return Entry{}, Entry{}, false
}

// History checks that rows in the order in which they were written name one primary after another: once a later primary
// has acknowledged a write, none that an earlier one acknowledged was sent afterwards. Rows are in the order of commit.
func History(entries []Entry, rows []Row) (stale, newer Entry, found bool) {
	sent := make(map[uint64]Entry, len(entries))
	for _, e := range entries {
		sent[e.ID] = e
	}
	var soonest Entry // the earliest acknowledgement in any later reign
	var reign []Entry
	end := func() {
		for _, e := range reign {
			if soonest.ID == 0 || e.Answered < soonest.Answered {
				soonest = e
			}
		}
		reign = nil
	}
	for _, row := range slices.Backward(rows) {
		e := sent[row.ID]
		if e.Outcome != Acknowledged {
			continue
		}
		if len(reign) > 0 && reign[0].Server != e.Server {
			end()
		}
		if soonest.ID != 0 && e.Sent > soonest.Answered {
			return e, soonest, true
		}
		reign = append(reign, e)
	}
	return Entry{}, Entry{}, false
}

// Gap is the longest time without an acknowledgement to the clients of the Service that ends at or after a time. Pauses, in
// which nobody was meant to write, do not count. It returns 0 when nothing was acknowledged afterwards.
func Gap(entries []Entry, pauses []span, after time.Duration) time.Duration {
	var acked []time.Duration
	for _, e := range entries {
		if e.Outcome.answered() && e.Worker < directWorkers {
			acked = append(acked, e.Answered)
		}
	}
	slices.Sort(acked)
	longest := time.Duration(0)
	for i := 1; i < len(acked); i++ {
		if acked[i] < after {
			continue
		}
		gap := acked[i] - acked[i-1]
		for _, p := range pauses {
			gap -= max(0, min(p.to, acked[i])-max(p.from, acked[i-1]))
		}
		longest = max(longest, gap)
	}
	return longest
}
