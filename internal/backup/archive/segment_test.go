package archive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/binlog"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

const uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newFolder(t *testing.T) Folder {
	t.Helper()
	return folderIn(t, t.TempDir())
}

func folderIn(t *testing.T, dir string) Folder {
	t.Helper()
	s, err := store.NewFolder(dir, "pvc://backups")
	must(t, err)
	return Folder{backup.Place{Store: s, Root: backup.RootOf("shop", "orders", "uid")}}
}

// event is one of a log with checksums.
func event(kind byte, body []byte) binlog.Event {
	e := make([]byte, 19, 19+len(body)+4)
	e[4] = kind
	e = append(e, body...)
	binary.LittleEndian.PutUint32(e[9:], uint32(len(e)+4)) //nolint:gosec // small
	return binary.LittleEndian.AppendUint32(e, crc32.ChecksumIEEE(e))
}

// format is a FORMAT_DESCRIPTION event.
func format(t *testing.T) *binlog.Format {
	t.Helper()
	body := make([]byte, 2+50+4+1+40+1)
	copy(body[2:], "9.7.4")
	body[len(body)-1] = 1 // CRC32
	f, err := binlog.ParseFormat(event(15, body))
	must(t, err)
	return f
}

// spoolSegment writes a segment of transactions into a spool.
func spoolSegment(t *testing.T, s *Spool, next Header, first, last int64, at time.Time) *Header {
	t.Helper()
	return spoolSegmentOf(t, s, uuid, next, first, last, at)
}

// spoolSegmentOf writes one of the transactions of a server.
func spoolSegmentOf(t *testing.T, s *Spool, server string, next Header, first, last int64, at time.Time) *Header {
	t.Helper()
	w, err := s.begin(next, format(t), at)
	must(t, err)
	for n := first; n <= last; n++ {
		must(t, w.write(event(2, fmt.Appendf(nil, "transaction %d", n))))
		w.committed(&binlog.Transaction{UUID: server, Number: n, Committed: at.Add(time.Duration(n) * time.Second)})
	}
	h, err := w.finish(at.Add(time.Hour))
	must(t, err)
	return h
}

func newSpool(t *testing.T) *Spool {
	t.Helper()
	s, err := OpenSpool(t.TempDir())
	must(t, err)
	return s
}

// store puts what waits in a spool into an archive.
func storePending(t *testing.T, s *Spool, f Folder) {
	t.Helper()
	for _, h := range s.Pending() {
		r, closer, err := s.open(h)
		must(t, err)
		must(t, f.Store.Create(t.Context(), f.key(h.Number), r))
		must(t, closer.Close())
		must(t, s.done())
	}
}

var began = time.Date(2026, 1, 2, 3, 4, 5, 678_000, time.UTC)

func TestASegmentSaysWhatItHolds(t *testing.T) {
	f, s := newFolder(t), newSpool(t)
	h := spoolSegment(t, s, Header{Number: 1, ClusterUID: "uid", Before: uuid + ":1-4", Anchor: uuid + ":1-4", AnchorNumber: 1}, 5, 9, began)
	storePending(t, s, f)
	if h.GTIDSet != uuid+":5-9" || h.Cumulative != uuid+":1-9" || h.Transactions != 5 || !h.First.Equal(began.Add(5*time.Second)) || !h.Last.Equal(began.Add(9*time.Second)) || !h.Reaches.Equal(h.Last) {
		t.Errorf("it says %+v", h)
	}
	read, err := f.Verify(t.Context(), 1)
	must(t, err)
	if fmt.Sprint(*read) != fmt.Sprint(*h) {
		t.Errorf("it reads\n%+v\nand was\n%+v", *read, *h)
	}
	segment, err := f.Open(t.Context(), 1)
	must(t, err)
	defer segment.Close()
	content, err := io.ReadAll(segment)
	must(t, err)
	log, err := binlog.NewReader(bytes.NewReader(content))
	must(t, err)
	events := 0
	for {
		e, err := log.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		if want := fmt.Sprintf("transaction %d", 5+events); string(log.Format.Body(e)) != want {
			t.Errorf("event %d is %q", events, log.Format.Body(e))
		}
		events++
	}
	if events != 5 || log.Format.Version != "9.7.4" {
		t.Errorf("%d events of %s", events, log.Format.Version)
	}
}

// TestDamageIsNoticed flips every bit, and cuts at every byte, of a stored segment.
func TestDamageIsNoticed(t *testing.T) {
	dir := t.TempDir()
	f, s := folderIn(t, dir), newSpool(t)
	spoolSegment(t, s, Header{Number: 1}, 1, 3, began)
	storePending(t, s, f)
	whole, err := store.ReadAll(t.Context(), f.Store, f.key(1), 1<<20)
	must(t, err)
	try := func(what string, content []byte) {
		t.Helper()
		// Not by the store, which waits for the disk each time.
		must(t, os.WriteFile(filepath.Join(dir, f.key(1)), content, 0o600))
		if _, err := f.Verify(t.Context(), 1); !errors.Is(err, backup.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range whole {
		flipped := slices.Clone(whole)
		flipped[i] ^= 1 << (i % 8)
		try(fmt.Sprintf("bit %d of byte %d of %d", i%8, i, len(whole)), flipped)
		try(fmt.Sprintf("%d of %d bytes", i, len(whole)), whole[:i])
	}
	try("one byte more", append(slices.Clone(whole), 'x'))
	_, err = f.Store.Put(t.Context(), f.key(2), bytes.NewReader(whole))
	must(t, err)
	if _, err := f.Verify(t.Context(), 2); !errors.Is(err, backup.ErrCorrupt) {
		t.Errorf("in another's place: %v", err)
	}
}

// TestTheSpoolSurvivesItsPod opens a spool again as a pod left it that was killed at any point.
func TestTheSpoolSurvivesItsPod(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenSpool(dir)
	must(t, err)
	one := spoolSegment(t, s, Header{Number: 1}, 1, 3, began)
	two := spoolSegment(t, s, Header{Number: 2, Before: one.Cumulative}, 4, 6, began)
	unfinished, err := s.begin(Header{Number: 3}, format(t), began)
	must(t, err)
	must(t, unfinished.write([]byte("half of it")))
	must(t, writeFile(dir+"/"+number20(9)+bodyExt, []byte("a body without a header")))
	must(t, writeFile(dir+"/"+number20(8)+headerExt, []byte("no header")))
	again, err := OpenSpool(dir)
	must(t, err)
	if got := again.Pending(); len(got) != 2 || fmt.Sprint(*got[0], *got[1]) != fmt.Sprint(*one, *two) {
		t.Fatalf("it holds %v", got)
	}
	if again.Bytes() != one.Stored+two.Stored {
		t.Errorf("%d bytes wait", again.Bytes())
	}
	f := newFolder(t)
	storePending(t, again, f)
	if again.Hint() != 2 || len(again.Pending()) != 0 || again.Bytes() != 0 {
		t.Errorf("after all is stored: hint %d, %d pending, %d bytes", again.Hint(), len(again.Pending()), again.Bytes())
	}
	for n := range uint64(2) {
		_, err := f.Verify(t.Context(), n+1)
		must(t, err)
	}
}

// TestADamagedSpoolIsNotArchived: what the disk gives back must be what was written.
func TestADamagedSpoolIsNotArchived(t *testing.T) {
	f, s := newFolder(t), newSpool(t)
	h := spoolSegment(t, s, Header{Number: 1}, 1, 3, began)
	damaged := make([]byte, h.Stored)
	must(t, writeFile(s.path(1, bodyExt), damaged))
	r, closer, err := s.open(h)
	must(t, err)
	defer closer.Close()
	if err := f.Store.Create(t.Context(), f.key(1), r); !errors.Is(err, errSpool) {
		t.Errorf("stored: %v", err)
	}
	if _, err := f.Header(t.Context(), 1); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("there is a segment: %v", err)
	}
}

func TestHead(t *testing.T) {
	f, s := newFolder(t), newSpool(t)
	check := func(what string, hint, head, newest uint64) {
		t.Helper()
		h, n, err := f.Head(t.Context(), hint)
		must(t, err)
		if n != newest || head == 0 && h != nil || head != 0 && (h == nil || h.Number != head) {
			t.Errorf("%s: head %+v, newest %d", what, h, n)
		}
	}
	check("empty", 0, 0, 0)
	check("empty with a hint", 7, 0, 0)
	for n := range int64(12) {
		spoolSegment(t, s, Header{Number: uint64(n) + 1}, n+1, n+1, began) //nolint:gosec // small
	}
	storePending(t, s, f)
	check("no hint", 0, 12, 12)
	check("an old hint", 3, 12, 12)
	check("the newest as hint", 12, 12, 12)
	check("a hint of what is not there", 20, 12, 12)
	_, err := f.Store.Put(t.Context(), f.key(12), bytes.NewReader([]byte("x")))
	must(t, err)
	check("the newest is damaged", 0, 11, 12)
	check("the newest is damaged, with a hint", 4, 11, 12)
	check("the hint is damaged", 12, 11, 12)
}

// TestPrune deletes what all backups hold, and nothing else.
func TestPrune(t *testing.T) {
	for name, row := range map[string]struct {
		backups []string
		left    int
	}{
		"no backup":                       {nil, 6},
		"one of before":                   {[]string{uuid + ":1"}, 6},
		"one in the middle of a segment":  {[]string{uuid + ":1-5"}, 4},
		"the oldest counts":               {[]string{uuid + ":1-4", uuid + ":1-12"}, 4},
		"one of all: the newest stays":    {[]string{uuid + ":1-12"}, 1},
		"one that lacks something of old": {[]string{uuid + ":2-12"}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			f, s := newFolder(t), newSpool(t)
			before := ""
			for n := range int64(6) {
				before = spoolSegment(t, s, Header{Number: uint64(n) + 1, Before: before}, 2*n+1, 2*n+2, began).Cumulative //nolint:gosec // small
			}
			storePending(t, s, f)
			for i, set := range row.backups {
				must(t, f.WriteManifest(t.Context(), backup.FolderOf(began.Add(time.Duration(i)*time.Hour), "b"), backup.Manifest{GTIDSet: set}))
			}
			a := New(Options{Folder: f})
			must(t, a.base.look(t.Context()))
			tidyNow(t, a)
			numbers, err := f.Numbers(t.Context())
			must(t, err)
			if len(numbers) != row.left || numbers[len(numbers)-1] != 6 {
				t.Errorf("left are %v", numbers)
			}
		})
	}
}

// TestSegmentsThatAreGoneAreMissed: a person or a rule of the bucket deletes segments, and a backup of before is no base
// for what follows any more.
func TestSegmentsThatAreGoneAreMissed(t *testing.T) {
	for name, row := range map[string]struct {
		gone    []uint64
		damaged uint64
		missing string
		after   string
	}{
		"none":                         {nil, 0, "", ""},
		"one in the middle":            {[]uint64{3}, 0, uuid + ":5-6", uuid + ":1-6"},
		"two apart: the newest counts": {[]uint64{2, 5}, 0, uuid + ":9-10", uuid + ":1-10"},
		"two in a row":                 {[]uint64{3, 4}, 0, uuid + ":5-8", uuid + ":1-8"},
		"the oldest":                   {[]uint64{1, 2}, 0, "", uuid + ":1-4"},
		"all but the newest":           {[]uint64{1, 2, 3, 4, 5}, 0, "", uuid + ":1-10"},
		"the next one cannot be read":  {[]uint64{3}, 4, uuid + ":5-8", uuid + ":1-8"},
		"the one before cannot either": {[]uint64{3}, 2, uuid + ":1-6", uuid + ":1-6"},
	} {
		t.Run(name, func(t *testing.T) {
			f, s := newFolder(t), newSpool(t)
			before := ""
			for n := range int64(6) {
				before = spoolSegment(t, s, Header{Number: uint64(n) + 1, Before: before}, 2*n+1, 2*n+2, began).Cumulative //nolint:gosec // small
			}
			storePending(t, s, f)
			for _, number := range row.gone {
				must(t, f.Store.Delete(t.Context(), f.key(number)))
			}
			if row.damaged > 0 {
				_, err := f.Store.Put(t.Context(), f.key(row.damaged), bytes.NewReader([]byte("x")))
				must(t, err)
			}
			var told Report
			a := New(Options{Folder: f, Report: func(r Report) { told = r }})
			tidyNow(t, a)
			if told.Missing != row.missing || a.hole.after.String() != row.after {
				t.Errorf("missing are %q, and a base must hold %q", told.Missing, a.hole.after)
			}
			for set, good := range map[string]bool{row.after: true, uuid + ":1-12": true, uuid + ":2": row.after == ""} {
				a.base = &bases{newest: []base{{folder: "b", taken: began, set: gtid.MustParse(set)}}}
				if _, found := a.base.firstRecoverable(a.hole.after, gtid.MustParse(uuid+":1-12"), began, nil); found != good {
					t.Errorf("a backup with %q: %v", set, found)
				}
			}
		})
	}
	numbers, err := newFolder(t).findHole(t.Context(), nil)
	if err != nil || !numbers.after.IsEmpty() || !numbers.missing.IsEmpty() {
		t.Errorf("an empty archive: %+v, %v", numbers, err)
	}
}

// TestABackupOfWhatWasLostIsNoBase: it holds a transaction that the cluster lost at a failover. Only one that has just been taken
// may be ahead of what was heard of the primary.
func TestABackupOfWhatWasLostIsNoBase(t *testing.T) {
	taken := time.Unix(1000000, 0)
	b := &bases{newest: []base{{folder: "b", taken: taken, set: gtid.MustParse(uuid + ":1-9")}}}
	anchor, executed := gtid.MustParse(uuid+":1-5"), gtid.MustParse(uuid+":1-8")
	if _, found := b.firstRecoverable(anchor, executed, taken.Add(2*baseSettles), nil); found {
		t.Error("a backup with a transaction that was lost counts as a base")
	}
	if _, found := b.firstRecoverable(anchor, executed, taken.Add(baseSettles/2), nil); !found {
		t.Error("a backup of this minute does not count")
	}
	if _, found := b.firstRecoverable(anchor, gtid.MustParse(uuid+":1-20"), taken.Add(time.Hour), nil); !found {
		t.Error("a backup of what the primary holds does not count")
	}
	// The GTID that was lost is that of another transaction by now. The archive remembers until when it was not.
	lost := Losses{{uuid + ":9", taken.Add(time.Minute)}}
	if _, found := b.firstRecoverable(anchor, gtid.MustParse(uuid+":1-20"), taken.Add(time.Hour), lost); found {
		t.Error("a backup of what was lost counts once its GTID is given out again")
	}
	lost[0].At = taken.Add(-time.Minute)
	if _, found := b.firstRecoverable(anchor, gtid.MustParse(uuid+":1-20"), taken.Add(time.Hour), lost); !found {
		t.Error("a backup of after the loss does not count")
	}
}
