package archive

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// newPrimary is the UUID of who leads after a failover.
const newPrimary = "4e11fa47-71ca-11e1-9e33-c80aa9429562"

// TestWhatWasUsedUpIsLost: the archiver was away while the cluster lost what is archived, and used up its GTIDs. What it knew of, or read
// itself under a GTID that was used up, is not lost once more.
func TestWhatWasUsedUpIsLost(t *testing.T) {
	const lost = uuid + ":8-9"
	usedUp := began.Add(time.Hour)
	for name, row := range map[string]struct {
		known, retired Losses
		purged         string
		lost, gap      string
		losses         string
	}{
		"nothing":                        {},
		"it was away":                    {retired: Losses{{lost, usedUp}}, lost: lost, losses: lost + "@1h0m0s"},
		"and what was used up is purged": {retired: Losses{{lost, usedUp}}, purged: uuid + ":1-9", lost: lost, gap: lost, losses: lost + "@1h0m0s"},
		"it knew":                        {known: Losses{{lost, began}}, retired: Losses{{lost, usedUp}}, losses: lost + "@0s"},
		"it knew some":                   {known: Losses{{uuid + ":8", began}}, retired: Losses{{lost, usedUp}}, lost: uuid + ":9", losses: uuid + ":8@0s " + uuid + ":9@1h0m0s"},
		"the archive held none of it":    {retired: Losses{{uuid + ":20", usedUp}}, losses: uuid + ":20@1h0m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			f, s := newFolder(t), newSpool(t)
			spoolSegment(t, s, Header{Number: 1, ClusterUID: "c", AnchorNumber: 1, AnchorTime: began, Losses: row.known}, 1, 9, began)
			storePending(t, s, f)
			head, newest, err := f.Head(t.Context(), 0)
			must(t, err)
			a := New(Options{Folder: f, Spool: s, ClusterUID: "c", Log: logr.FromSlogHandler(slog.DiscardHandler)})
			at := server{uuid: newPrimary, executed: gtid.MustParse(uuid + ":1-9," + newPrimary + ":1-3"), purged: gtid.MustParse(row.purged), at: usedUp.Add(time.Hour), retired: row.retired}
			next, _, err := a.resume(t.Context(), nil, tail{head, newest}, at)
			must(t, err)
			var losses []string
			for _, l := range next.Losses {
				losses = append(losses, fmt.Sprint(l.GTIDSet, "@", l.At.Sub(began)))
			}
			before := gtid.MustParse(uuid + ":1-9").Subtract(gtid.MustParse(row.lost)).Union(gtid.MustParse(row.gap))
			if next.Lost != row.lost || next.Gap != row.gap || !next.Preceding().Equal(before) || strings.Join(losses, " ") != row.losses {
				t.Errorf("the next segment is %+v", next)
			}
			if broken := row.lost != ""; broken != (next.AnchorNumber == 2) || broken && next.Anchor != next.Before {
				t.Errorf("the anchor is %q before segment %d", next.Anchor, next.AnchorNumber)
			}
		})
	}
}

// TestWhatWaitsOfWhatWasUsedUpIsReadAgain: it is what was lost, unless it was read after that was known.
func TestWhatWaitsOfWhatWasUsedUpIsReadAgain(t *testing.T) {
	lost := Losses{{uuid + ":10", began}}
	for name, row := range map[string]struct {
		known Losses
		kept  int
	}{
		"read before it was lost": {nil, 0},
		"read after that":         {lost, 1},
	} {
		t.Run(name, func(t *testing.T) {
			a := New(Options{Spool: newSpool(t), ClusterUID: "c", Log: logr.FromSlogHandler(slog.DiscardHandler)})
			head := &Header{Number: 3, ClusterUID: "c", Cumulative: uuid + ":1-9", Anchor: "a", AnchorNumber: 1}
			spoolSegment(t, a.o.Spool, Header{Number: 4, ClusterUID: "c", Before: uuid + ":1-9", Anchor: "a", AnchorNumber: 1, Losses: row.known}, 10, 10, began)
			at := primaryWith(uuid + ":1-12")
			at.retired = lost
			_, _, err := a.resumeSpool(head, head.All(), Header{Number: 4, Anchor: "a", AnchorNumber: 1}, at)
			must(t, err)
			if got := len(a.o.Spool.Pending()); got != row.kept {
				t.Errorf("%d segments are kept", got)
			}
		})
	}
}

// TestAnArchiveDoesNotBeginWithWhatWasUsedUp: a dump of what the cluster lost is no base, although the primary has its GTIDs.
func TestAnArchiveDoesNotBeginWithWhatWasUsedUp(t *testing.T) {
	executed := uuid + ":1-9," + newPrimary + ":1-3"
	for name, row := range map[string]struct {
		retired Losses
		anchor  string
	}{
		"lost after it":  {Losses{{uuid + ":9", began.Add(time.Hour)}}, executed},
		"lost before it": {Losses{{uuid + ":9", began.Add(-time.Hour)}}, uuid + ":1-9"},
		"nothing lost":   {nil, uuid + ":1-9"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			folder := backup.FolderOf(began, "b")
			m := backup.Manifest{Backup: "b", GTIDSet: uuid + ":1-9", TakenAt: began}
			var err error
			m.Dump, err = f.Pack(t.Context(), folder, "dump.sql", strings.NewReader("rows"))
			must(t, err)
			must(t, f.WriteManifest(t.Context(), folder, m))
			a := New(Options{Folder: f, Spool: newSpool(t), ClusterUID: "c"})
			a.o.Clock = clocktesting.NewFakePassiveClock(began.Add(2 * time.Hour))
			next, _, err := a.resume(t.Context(), nil, tail{}, server{uuid: newPrimary, executed: gtid.MustParse(executed), at: began.Add(2 * time.Hour), retired: row.retired})
			must(t, err)
			if !next.Base().Equal(gtid.MustParse(row.anchor)) || len(next.Losses) != len(row.retired) {
				t.Errorf("it begins with %+v", next)
			}
		})
	}
}

// TestWhatWasUsedUpIsStoredAsThat: a segment is read while the primary uses up a GTID in it that the archive never held. It is stored with a
// header that names the loss, so that another pod does not take the empty transaction for the lost one.
func TestWhatWasUsedUpIsStoredAsThat(t *testing.T) {
	f, s := newFolder(t), newSpool(t)
	options := Options{Folder: f, Spool: s, ClusterUID: "c", Log: logr.FromSlogHandler(slog.DiscardHandler)}
	first := Header{Number: 1, ClusterUID: "c", AnchorNumber: 1, AnchorTime: began}
	spoolSegment(t, s, first, 1, 8, began)
	storePending(t, s, f)
	resume := func(a *Archiver, at server) Header {
		t.Helper()
		head, newest, err := f.Head(t.Context(), 0)
		must(t, err)
		next, _, err := a.resume(t.Context(), nil, tail{head, newest}, at)
		must(t, err)
		return next
	}
	a, at := New(options), primaryWith(uuid+":1-8")
	next := resume(a, at)
	spoolSegment(t, s, next, 9, 9, began)
	next.Number, next.Before = 3, uuid+":1-9"
	spoolSegment(t, s, next, 10, 10, began)
	at = primaryWith(uuid + ":1-10")
	at.retired = Losses{{uuid + ":10", began}}
	if published, err := a.publishCommitted(t.Context(), s.Pending(), at); !published || !errors.Is(err, errRetired) || len(s.Pending()) != 1 {
		t.Fatalf("published %v, %v; %d segments wait", published, err, len(s.Pending()))
	}
	next = resume(a, at)
	if len(s.Pending()) > 0 || next.Number != 3 || next.Before != uuid+":1-9" || next.Losses.all().String() != uuid+":10" {
		t.Fatalf("the segment is not read again: %+v", next)
	}
	spoolSegment(t, s, next, 10, 10, began)
	_, err := a.publishCommitted(t.Context(), s.Pending(), at)
	must(t, err)

	options.Spool = newSpool(t)
	next = resume(New(options), at)
	if next.Number != 4 || next.Before != uuid+":1-10" || next.Lost != "" || next.AnchorNumber != 1 || next.Anchor != first.Anchor {
		t.Errorf("another pod writes %+v", next)
	}
}
