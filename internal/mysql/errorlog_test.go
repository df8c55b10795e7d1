package mysql

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCrashError: why mysqld crashed on a damaged page is read after it started again.
func TestCrashError(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	ctx, s := t.Context(), w.servers[2]
	primary := root(t, w.servers[0])
	exec(t, primary, "CREATE DATABASE crash")
	t.Cleanup(func() { _, _ = primary.ExecContext(context.WithoutCancel(ctx), "DROP DATABASE crash") })
	exec(t, primary, "CREATE TABLE crash.t (id INT PRIMARY KEY, filler VARBINARY(4000))")
	for id := range 50 {
		exec(t, primary, "INSERT INTO crash.t VALUES (?, REPEAT('x', 4000))", id)
	}
	catchUp(t, m[2], m[0])
	exec(t, root(t, s), "SET GLOBAL innodb_fast_shutdown = 0")
	_, _ = root(t, s).ExecContext(ctx, "SHUTDOWN") // everything is in the file then, and nothing in memory
	waitFor(t, "mysqld ends", func() bool { return !s.Running() })
	s.Kill()

	file := filepath.Join(filepath.Dir(filepath.Dir(s.Socket())), "volume", "data", "crash", "t.ibd")
	whole, err := os.ReadFile(file)
	must(t, err)
	const pageSize = 16 << 10
	damaged := bytes.Clone(whole)
	for at := 5 * pageSize; at+pageSize <= len(damaged); at += pageSize {
		copy(damaged[at+200:], bytes.Repeat([]byte{0xab}, 4000))
	}
	must(t, os.WriteFile(file, damaged, 0o600))
	t.Cleanup(func() {
		s.Kill()
		if err := os.WriteFile(file, whole, 0o600); err != nil {
			t.Error(err)
		}
	})
	must(t, s.Boot(ctx))
	_, _ = root(t, s).ExecContext(ctx, "SELECT SUM(LENGTH(filler)) FROM crash.t")
	waitFor(t, "the damaged page ends mysqld", func() bool { return !s.Running() })
	s.Kill()
	must(t, s.Boot(ctx))
	message, err := m[2].CrashError(ctx)
	must(t, err)
	if !strings.Contains(message, "Database page corruption") {
		t.Errorf("after a crash it says %q", message)
	}
}
