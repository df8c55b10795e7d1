package backup

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// workshop is a folder whose name is short enough for a socket, and that must be empty in the end.
func workshop(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "verify-")
	must(t, err)
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		must(t, err)
		if len(left) > 0 {
			t.Errorf("the verification left %v", left)
		}
		must(t, os.RemoveAll(dir))
	})
	return dir
}

// TestVerify restores backups into a throw-away mysqld: what is whole passes, and what is not does not.
func TestVerify(t *testing.T) {
	w := theWorld(t)
	programs, err := mysqld.HostPrograms(t.Context())
	must(t, err)
	sql(t, w.primary, "CREATE TABLE IF NOT EXISTS nairobi_mysql.heartbeat (id TINYINT UNSIGNED NOT NULL PRIMARY KEY, at TIMESTAMP(6) NOT NULL); REPLACE INTO nairobi_mysql.heartbeat VALUES (1, NOW(6))")
	o := w.options(t, w.primary)
	taken, err := patiently(t, o)
	must(t, err)
	key := o.Place.Folder(o.Folder) + "/"
	document, err := store.ReadAll(t.Context(), o.Place.Store, key+manifestName, maxManifest)
	must(t, err)
	dump, err := store.ReadAll(t.Context(), o.Place.Store, key+"dump.sql.zst", 1<<30)
	must(t, err)
	put := func(name string, content []byte) {
		t.Helper()
		_, err := o.Place.Store.Put(t.Context(), key+name, strings.NewReader(string(content)))
		must(t, err)
	}
	checksums := 0
	for _, s := range taken.Samples {
		if s.Checksum != nil {
			checksums++
		}
	}
	tomorrow := clocktesting.NewFakePassiveClock(time.Now().Add(27 * time.Hour))
	for _, row := range []struct {
		name   string
		before func(*VerifyOptions)
		want   error
	}{
		{"as it is", nil, nil},
		{"too old", func(v *VerifyOptions) { v.Clock = tomorrow }, ErrTooOld},
		{"of any age", func(v *VerifyOptions) { v.Clock, v.MaxAge = tomorrow, 0 }, nil},
		{"a bit is another", func(*VerifyOptions) { put("dump.sql.zst", flip(dump, len(dump)/2)) }, ErrCorrupt},
		{"half of it is gone", func(*VerifyOptions) { put("dump.sql.zst", dump[:len(dump)/2]) }, ErrCorrupt},
		{"a row more was promised", func(*VerifyOptions) {
			lie := taken
			lie.Tables = append([]TableRows(nil), taken.Tables...)
			lie.Tables[0].Rows++
			must(t, o.Place.WriteManifest(t.Context(), o.Folder, lie))
		}, ErrDiffers},
		{"other contents were promised", func(*VerifyOptions) {
			lie := taken
			lie.Samples = append([]Sample(nil), taken.Samples...)
			at := slices.IndexFunc(lie.Samples, func(s Sample) bool { return s.Checksum != nil })
			other := *lie.Samples[at].Checksum + 1
			lie.Samples[at].Checksum = &other
			must(t, o.Place.WriteManifest(t.Context(), o.Folder, lie))
		}, ErrDiffers},
		{"it is not there", func(v *VerifyOptions) { v.Folder = FolderOf(time.Now(), "another") }, store.ErrNotFound},
		{"there is no mysqld", func(v *VerifyOptions) {
			v.Program = func(ctx context.Context, name string, arguments ...string) *exec.Cmd {
				return exec.CommandContext(ctx, "/no/such/"+name, arguments...)
			}
		}, ErrServer},
		{"mysqld refuses to start", func(v *VerifyOptions) {
			genuine := v.Program
			v.Program = func(ctx context.Context, name string, arguments ...string) *exec.Cmd {
				if name == "mysqld" && !strings.Contains(strings.Join(arguments, " "), "--initialize") {
					arguments = append(arguments, "--no-such-option")
				}
				return genuine(ctx, name, arguments...)
			}
		}, ErrServer},
	} {
		t.Run(row.name, func(t *testing.T) {
			v := VerifyOptions{Place: o.Place, Folder: o.Folder, Dir: workshop(t), Program: programs, MaxAge: 26 * time.Hour, StallTimeout: time.Minute, Clock: o.Clock}
			if row.before != nil {
				row.before(&v)
			}
			t.Cleanup(func() { put(manifestName, document); put("dump.sql.zst", dump) })
			found, err := Verify(t.Context(), v)
			if !errors.Is(err, row.want) || (err == nil) != (row.want == nil) {
				t.Fatalf("got %v, want %v", err, row.want)
			}
			if err == nil && (found.Tables != len(taken.Tables) || found.Tables == 0 || found.Checksums != checksums || found.Checksums == 0 || found.Manifest.Backup != "b") {
				t.Errorf("it looked at %d tables and %d contents of %s", found.Tables, found.Checksums, found.Manifest.Backup)
			}
		})
	}
}

// TestARowInTheWrongPartition makes a backup that no server takes. Its verification says which table it is and what to do, and that helps.
func TestARowInTheWrongPartition(t *testing.T) {
	w := theWorld(t)
	from := w.source(t, nil)
	programs, err := mysqld.HostPrograms(t.Context())
	must(t, err)
	verify := func() error {
		o := w.options(t, from)
		_, err := patiently(t, o)
		must(t, err)
		_, err = Verify(t.Context(), VerifyOptions{Place: o.Place, Folder: o.Folder, Dir: workshop(t), Program: programs, StallTimeout: time.Minute, Clock: o.Clock})
		return err
	}
	sql(t, from, "CREATE DATABASE s; CREATE TABLE s.p (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20)); CREATE TABLE s.x (id INT PRIMARY KEY); INSERT INTO s.x VALUES (5), (15), (99); "+
		"ALTER TABLE s.p EXCHANGE PARTITION p0 WITH TABLE s.x WITHOUT VALIDATION")
	if err := verify(); !errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), "table s.p (") || !strings.HasSuffix(err.Error(), misplaced) {
		t.Errorf("it ended with %v", err)
	}
	sql(t, from, "ALTER TABLE s.p ADD PARTITION (PARTITION p2 VALUES LESS THAN (100)); ALTER TABLE s.p REPAIR PARTITION ALL")
	must(t, verify())
	if got := sql(t, from, "SELECT GROUP_CONCAT(id ORDER BY id) FROM s.p"); got != "5,15,99" {
		t.Errorf("the table holds %s", got)
	}
}
