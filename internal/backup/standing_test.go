package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// shelved stores a backup with a dump of its own name.
func shelved(t *testing.T, p Place, name string, at time.Time) string {
	t.Helper()
	m, folder := Manifest{Backup: name, TakenAt: at, CompletedAt: at}, FolderOf(at, name)
	var err error
	m.Dump, err = p.Pack(t.Context(), folder, "dump.sql", strings.NewReader(name))
	must(t, err)
	must(t, p.WriteManifest(t.Context(), folder, m))
	return folder
}

// standings reads them with a reader that may have read before.
func standings(t *testing.T, b *Backups) map[string]Standing {
	t.Helper()
	found := map[string]Standing{}
	for s, err := range b.NewestFirst(t.Context()) {
		must(t, err)
		if (s.Why != nil) == s.Standing.Good() {
			t.Errorf("%s is %v because of %v", s.Folder, s.Standing, s.Why)
		}
		found[NameIn(s.Folder)] = s.Standing
	}
	return found
}

// TestStandingFollowsWhatIsStored: a reader that knows a backup notices each change of it, and who restores takes the newest good one.
func TestStandingFollowsWhatIsStored(t *testing.T) {
	p, at := shelf(t), time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	older, newer := shelved(t, p, "older", at), shelved(t, p, "newer", at.Add(time.Hour))
	b := p.Backups()
	expect := func(what string, standing Standing, restored string) {
		t.Helper()
		if got := standings(t, b); got["newer"] != standing || got["older"] != Complete {
			t.Errorf("%s: they are %v", what, got)
		}
		if got, err := p.Newest(t.Context()); err != nil || got != restored {
			t.Errorf("%s: restored is %s: %v", what, got, err)
		}
	}
	expect("as they were stored", Complete, newer)
	must(t, p.RecordVerdict(t.Context(), newer, nil, at))
	expect("one was verified", Passed, newer)
	must(t, p.RecordVerdict(t.Context(), newer, ErrTooOld, at))
	must(t, p.RecordVerdict(t.Context(), newer, store.ErrUnavailable, at))
	expect("what says nothing of the backup", Passed, newer)
	must(t, p.RecordVerdict(t.Context(), newer, fmt.Errorf("%w: the disk is full", ErrLoad), at))
	expect("a load that was interrupted", Passed, newer)
	must(t, p.RecordVerdict(t.Context(), newer, rejection(conn.ClientError("ERROR 3819 (HY000) at line 5: x")), at))
	expect("no server takes one", Refuted, older)
	must(t, p.RecordVerdict(t.Context(), newer, nil, at))
	must(t, p.RecordVerdict(t.Context(), newer, ErrDiffers, at))
	expect("one was refuted", Refuted, older)
	must(t, p.RecordVerdict(t.Context(), newer, nil, at))
	expect("it passed after all", Passed, newer)
	dump := p.Folder(newer) + "/dump.sql.zst"
	whole, err := store.ReadAll(t.Context(), p.Store, dump, 1<<20)
	must(t, err)
	_, err = p.Store.Put(t.Context(), dump, strings.NewReader("x"))
	must(t, err)
	expect("its dump is cut short", Damaged, older)
	must(t, p.Store.Delete(t.Context(), dump))
	expect("its dump is gone", Damaged, older)
	_, err = p.Store.Put(t.Context(), dump, strings.NewReader(string(whole)))
	must(t, err)
	expect("its dump is back", Passed, newer)
	// A removal that was cut off.
	must(t, p.Store.Delete(t.Context(), p.Folder(newer)+"/"+manifestName))
	if got := standings(t, b); len(got) != 1 {
		t.Errorf("without its manifest: %v", got)
	}
	must(t, p.Remove(t.Context(), newer))
	must(t, p.RecordVerdict(t.Context(), newer, nil, at))
	if folders, err := p.Folders(t.Context()); err != nil || len(folders) != 1 {
		t.Errorf("a verdict on what was removed left %v: %v", folders, err)
	}
	must(t, p.RecordVerdict(t.Context(), older, ErrCorrupt, at))
	if _, err := p.Newest(t.Context()); !errors.Is(err, store.ErrNotFound) || !errors.Is(err, ErrCorrupt) {
		t.Errorf("without a good one: %v", err)
	}
}

// TestManifestsAreReadOnce: the archive's pod looks every minute, at hundreds of them.
func TestManifestsAreReadOnce(t *testing.T) {
	p, at := shelf(t), time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	folder := shelved(t, p, "one", at)
	must(t, p.RecordVerdict(t.Context(), folder, nil, at))
	counted := &reads{Store: p.Store}
	p.Store = counted
	b := p.Backups()
	for range 3 {
		standings(t, b)
	}
	if counted.n != 2 {
		t.Errorf("it read %d objects", counted.n)
	}
}

// reads counts what is read.
type reads struct {
	store.Store
	n int
}

func (r *reads) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	r.n++
	return r.Store.Get(ctx, key)
}
