package archive

import (
	"log/slog"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// TestASegmentAfterABreakIsKept: one that waits in the spool and begins with a break follows the archive's end, less what was lost
// and with what nobody has. Else it would be read, and thrown away, again and again. What was lost and is there again is no break.
func TestASegmentAfterABreakIsKept(t *testing.T) {
	const other = "21d075a3-e627-11f1-abd1-fae89b4db295"
	for name, row := range map[string]struct {
		lost, gap, before, executed string
		kept                        int
	}{
		"it follows":                {"", "", uuid + ":1-9", uuid + ":1-12", 1},
		"what was lost is left out": {uuid + ":8-9", "", uuid + ":1-7", uuid + ":1-7," + other + ":1-3", 1},
		"a gap is passed over":      {"", other + ":1", uuid + ":1-9," + other + ":1", uuid + ":1-12," + other + ":1-3", 1},
		"both":                      {uuid + ":8-9", other + ":1", uuid + ":1-7," + other + ":1", uuid + ":1-7," + other + ":1-3", 1},
		"what was lost is back":     {uuid + ":8-9", "", uuid + ":1-7", uuid + ":1-12," + other + ":1-3", 0},
		"another archive's":         {"", "", uuid + ":1-5", uuid + ":1-12", 0},
	} {
		t.Run(name, func(t *testing.T) {
			server, first := other, int64(2)
			if row.lost == "" && row.gap == "" {
				server, first = uuid, 10
			}
			a := New(Options{Spool: newSpool(t), ClusterUID: "c", Log: logr.FromSlogHandler(slog.DiscardHandler)})
			head := &Header{Number: 3, ClusterUID: "c", Cumulative: uuid + ":1-9", Anchor: "a", AnchorNumber: 1}
			waiting := Header{Number: 4, ClusterUID: "c", Before: row.before, Lost: row.lost, Gap: row.gap, Anchor: row.before, AnchorNumber: 4}
			spoolSegmentOf(t, a.o.Spool, server, waiting, first, first, began)
			have, next, err := a.resumeSpool(head, head.All(), Header{Number: 4, Anchor: "a", AnchorNumber: 1}, primaryWith(row.executed))
			must(t, err)
			if got := len(a.o.Spool.Pending()); got != row.kept {
				t.Fatalf("%d segments are kept", got)
			}
			if row.kept == 1 && (next.Number != 5 || next.Anchor != row.before || !have.Subtract(gtid.MustParse(row.executed)).IsEmpty()) {
				t.Errorf("it goes on with %+v after %s", next, have)
			}
		})
	}
}

// primaryWith is a primary that has executed this.
func primaryWith(executed string) server {
	return server{uuid: uuid, executed: gtid.MustParse(executed), at: time.Now()}
}

// TestWhatWaitsOfAnotherEpochIsReadAgain: a failover may have lost it, and the primary may have other transactions under its GTIDs by now.
// What nobody has any more is kept.
func TestWhatWaitsOfAnotherEpochIsReadAgain(t *testing.T) {
	for name, row := range map[string]struct {
		epoch  uint64
		purged string
		kept   int
	}{
		"the same":               {4, uuid + ":1-9", 1},
		"another":                {5, uuid + ":1-9", 0},
		"another, and it is all": {5, uuid + ":1-10", 1},
	} {
		t.Run(name, func(t *testing.T) {
			a := New(Options{Spool: newSpool(t), ClusterUID: "c", Log: logr.FromSlogHandler(slog.DiscardHandler)})
			head := &Header{Number: 3, ClusterUID: "c", Cumulative: uuid + ":1-9", Anchor: "a", AnchorNumber: 1}
			spoolSegment(t, a.o.Spool, Header{Number: 4, ClusterUID: "c", Epoch: 4, Before: uuid + ":1-9", Anchor: "a", AnchorNumber: 1}, 10, 10, began)
			at := primaryWith(uuid + ":1-12")
			at.epoch, at.purged = row.epoch, gtid.MustParse(row.purged)
			_, _, err := a.resumeSpool(head, head.All(), Header{Number: 4, Anchor: "a", AnchorNumber: 1}, at)
			must(t, err)
			if got := len(a.o.Spool.Pending()); got != row.kept {
				t.Errorf("%d segments are kept", got)
			}
		})
	}
}
