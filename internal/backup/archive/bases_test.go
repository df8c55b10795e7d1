package archive

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// TestOnlyAGoodBackupIsABase: one that was good a minute ago may have been damaged, refuted, or half removed since.
func TestOnlyAGoodBackupIsABase(t *testing.T) {
	f := newFolder(t)
	folder := backup.FolderOf(began, "b")
	m := backup.Manifest{Backup: "b", GTIDSet: uuid + ":1-9", TakenAt: began}
	m.LeftOut = []podclient.LeftOut{{What: "table mysql.mine", EndsReplay: true}, {What: "component c"}}
	var err error
	m.Dump, err = f.Pack(t.Context(), folder, "dump.sql", strings.NewReader("rows"))
	must(t, err)
	must(t, f.WriteManifest(t.Context(), folder, m))
	a := New(Options{Folder: f})
	expect := func(what string, bases int) {
		t.Helper()
		must(t, a.base.look(t.Context()))
		if got := len(a.base.newestFirst()); got != bases {
			t.Errorf("%s: %d bases", what, got)
		}
	}
	expect("a whole one", 1)
	if got := a.base.unreplayable(); !slices.Equal(got, []string{"table mysql.mine"}) {
		t.Errorf("a replay ends at %q", got)
	}
	must(t, f.RecordVerdict(t.Context(), folder, backup.ErrCorrupt, time.Now()))
	expect("one that was refuted", 0)
	must(t, f.RecordVerdict(t.Context(), folder, nil, time.Now()))
	expect("one that passed", 1)
	must(t, f.Store.Delete(t.Context(), f.Folder(folder)+"/"+m.Dump.Objects[0].Name))
	expect("one without its dump", 0)
}
