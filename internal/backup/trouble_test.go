package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// midway is a store in the middle of whose first upload something happens.
type midway struct {
	store.Store
	once *sync.Once
	do   func()
}

func (m midway) Put(ctx context.Context, key string, r io.Reader) (int64, error) {
	begin := io.LimitReader(r, 1<<20)
	return m.Store.Put(ctx, key, io.MultiReader(begin, readerFunc(func([]byte) (int, error) {
		m.once.Do(m.do)
		return 0, io.EOF
	}), r))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// bulk makes a table that nothing compresses, of some 8 MiB.
func (w *world) bulk(t *testing.T) {
	t.Helper()
	sql(t, w.primary, "CREATE DATABASE bulk; CREATE TABLE bulk.t (id INT PRIMARY KEY AUTO_INCREMENT, b BLOB); SET cte_max_recursion_depth = 10000; "+
		"INSERT INTO bulk.t (b) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 8192) SELECT RANDOM_BYTES(1024) FROM n")
	t.Cleanup(func() {
		_, err := w.primary.SQL(context.Background(), "DROP DATABASE bulk")
		must(t, err)
	})
}

// small is a folder on a file system of its own in memory, of so many bytes.
func small(t *testing.T, dir string, size int) {
	t.Helper()
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size)))
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
}

// TestTheSourceIsDemotedMidDump: the primary that is dumped becomes a replica. The dump shows the moment in which it began.
func TestTheSourceIsDemotedMidDump(t *testing.T) {
	w := theWorld(t)
	w.bulk(t)
	p := admin.Open(w.pool, endpoint(w.primary), w.operator)
	o := w.options(t, w.primary)
	demoted := false
	o.Place.Store = midway{o.Place.Store, &sync.Once{}, func() {
		if err := p.DemoteBounded(t.Context(), admin.DemoteSpec{Patience: time.Second, Kill: true}); err != nil {
			t.Errorf("demote it: %v", err)
		}
		demoted = true
	}}
	m, err := Dump(t.Context(), o)
	readOnly := sql(t, w.primary, "SELECT @@super_read_only")
	must(t, p.Promote(t.Context(), mysql.PromoteSpec{}))
	must(t, err)
	if !demoted || readOnly != "1" {
		t.Fatal("it was not demoted: this tries nothing")
	}
	if rows := m.rows("bulk", "t"); rows != 8192 {
		t.Errorf("the dump has %d rows", rows)
	}
	target := w.fresh(t)
	_, err = Restore(t.Context(), w.restore(t, o, target))
	must(t, err)
	const sum = "CHECKSUM TABLE bulk.t"
	if got, want := sql(t, target, sum), sql(t, w.primary, sum); got != want {
		t.Errorf("restored is %s of %s", got, want)
	}
}

// TestTheVolumeIsFullMidDump leaves no backup, nothing that takes room, and a server that goes on.
func TestTheVolumeIsFullMidDump(t *testing.T) {
	w := theWorld(t)
	w.bulk(t)
	o := w.options(t, w.primary)
	dir := t.TempDir()
	small(t, dir, 4<<20)
	var err error
	o.Place.Store, err = store.NewFolder(dir, "pvc://backups")
	must(t, err)
	if _, err := patiently(t, o); !errors.Is(err, store.ErrFull) {
		t.Errorf("got %v", err)
	}
	must(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			t.Errorf("it left %s", path)
		}
		return err
	}))
	sql(t, w.primary, "INSERT INTO bulk.t (b) VALUES ('x')")
	ended(t, w.primary)
}

// TestTheWorkVolumeIsFullMidVerification: the throw-away server has no room for the dump. That is told, and nothing is left.
func TestTheWorkVolumeIsFullMidVerification(t *testing.T) {
	w := theWorld(t)
	w.bulk(t)
	o := w.options(t, w.primary)
	_, err := patiently(t, o)
	must(t, err)
	programs, err := mysqld.HostPrograms(t.Context())
	must(t, err)
	dir := workshop(t)
	small(t, dir, 512<<20)
	filled := filepath.Join(dir, "filled")
	v := VerifyOptions{Place: o.Place, Folder: o.Folder, Dir: dir, StallTimeout: time.Minute, Clock: o.Clock}
	v.Program = func(ctx context.Context, name string, arguments ...string) *exec.Cmd {
		if name == "mysql" { // the server runs; now its volume fills up but for a little
			file, err := os.Create(filled)
			must(t, err)
			for { // the server writes too: what was free a moment ago may be gone
				var fs unix.Statfs_t
				must(t, unix.Statfs(dir, &fs))
				room := int64(fs.Bavail) * fs.Bsize
				if room <= 4<<20 {
					break
				}
				if err := unix.Fallocate(int(file.Fd()), 0, 0, room-4<<20); err == nil {
					break
				} else if !errors.Is(err, unix.ENOSPC) {
					t.Fatal(err)
				}
			}
			must(t, file.Close())
		}
		return programs(ctx, name, arguments...)
	}
	_, err = Verify(t.Context(), v)
	if !errors.Is(err, ErrLoad) {
		t.Errorf("got %v", err)
	}
	must(t, os.Remove(filled))
	left, err := os.ReadDir(dir)
	must(t, err)
	if len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}
