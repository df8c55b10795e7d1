package observe_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestCrashError: why mysqld crashed on a damaged page is read after it started again.
func TestCrashError(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx, s := t.Context(), w.Servers[2]
	primary := mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, primary, "CREATE DATABASE crash")
	t.Cleanup(func() { _, _ = primary.ExecContext(context.WithoutCancel(ctx), "DROP DATABASE crash") })
	mysqltest.Exec(t, primary, "CREATE TABLE crash.t (id INT PRIMARY KEY, filler VARBINARY(4000))")
	for id := range 50 {
		mysqltest.Exec(t, primary, "INSERT INTO crash.t VALUES (?, REPEAT('x', 4000))", id)
	}
	mysqltest.CatchUp(t, m[2], m[0])
	mysqltest.Exec(t, mysqltest.Root(t, s), "SET GLOBAL innodb_fast_shutdown = 0")
	_, _ = mysqltest.Root(t, s).ExecContext(ctx, "SHUTDOWN") // everything is in the file then, and nothing in memory
	mysqltest.WaitFor(t, "mysqld ends", func() bool { return !s.Running() })
	s.Kill()

	file := filepath.Join(filepath.Dir(filepath.Dir(s.Socket())), "volume", "data", "crash", "t.ibd")
	whole, err := os.ReadFile(file)
	mysqltest.Must(t, err)
	const pageSize = 16 << 10
	damaged := bytes.Clone(whole)
	for at := 5 * pageSize; at+pageSize <= len(damaged); at += pageSize {
		copy(damaged[at+200:], bytes.Repeat([]byte{0xab}, 4000))
	}
	mysqltest.Must(t, os.WriteFile(file, damaged, 0o600))
	t.Cleanup(func() {
		s.Kill()
		if err := os.WriteFile(file, whole, 0o600); err != nil {
			t.Error(err)
		}
	})
	mysqltest.Must(t, s.Boot(ctx))
	_, _ = mysqltest.Root(t, s).ExecContext(ctx, "SELECT SUM(LENGTH(filler)) FROM crash.t")
	mysqltest.WaitFor(t, "the damaged page ends mysqld", func() bool { return !s.Running() })
	s.Kill()
	mysqltest.Must(t, s.Boot(ctx))
	message, err := m[2].CrashError(ctx)
	mysqltest.Must(t, err)
	if !strings.Contains(message, "Database page corruption") {
		t.Errorf("after a crash it says %q", message)
	}
}
