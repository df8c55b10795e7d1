package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/host"
)

// TestDownIfKilled: a lab that runs is left alone, one that is not there is no error, and what a killed one left goes away.
func TestDownIfKilled(t *testing.T) {
	dir := t.TempDir()
	if err := downKilled(t.Context(), dir, io.Discard); err != nil {
		t.Fatalf("no lab was ever here: %v", err)
	}
	status := filepath.Join(dir, statusFile)
	if err := os.WriteFile(status, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	lock, err := host.AcquireLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := downKilled(t.Context(), dir, io.Discard); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(status); err != nil {
		t.Fatalf("the lab runs, and was touched: %v", err)
	}

	// A process that is gone, as the lock's file names it.
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "lock"), []byte("4194303 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := downKilled(t.Context(), dir, io.Discard); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(status); !os.IsNotExist(err) {
		t.Fatalf("what the killed lab left is still there: %v", err)
	}
}
