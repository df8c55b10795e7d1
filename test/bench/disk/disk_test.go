package disk

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// program makes calls through the C library, as mysqld does and Go does not.
type program struct{ library, path string }

func compiled(t *testing.T) program {
	t.Helper()
	folder := t.TempDir()
	library, err := Library(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	p := program{library: library, path: filepath.Join(folder, "calls")}
	if err := compile(t.Context(), "-o", p.path, "testdata/calls.c"); err != nil {
		t.Fatal(err)
	}
	return p
}

// run returns how long it took until each of some threads had made a call some times.
func (p program) run(t *testing.T, d Disk, call string, times, threads int) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, p.path, call, filepath.Join(t.TempDir(), "file"), strconv.Itoa(times), strconv.Itoa(threads))
	command.Env = append(os.Environ(), d.Environment(p.library)...)
	began := time.Now()
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", call, err, out)
	}
	return time.Since(began)
}

const latency = 100 * time.Millisecond

// TestCallsWait: every call by which a program waits for its disk takes the time that the disk does.
func TestCallsWait(t *testing.T) {
	p := compiled(t)
	for _, call := range []string{"fsync", "fdatasync", "sync_file_range", "msync", "O_DSYNC+write", "O_SYNC+pwrite", "O_DSYNC+writev", "O_DSYNC+pwritev"} {
		if took := p.run(t, Disk{Latency: latency, Depth: 1}, call, 2, 1); took < 2*latency {
			t.Errorf("two times %s took %s, less than %s", call, took, 2*latency)
		}
	}
}

// TestOtherCallsDoNotWait: what does not wait for a disk is not delayed, so that a latency of an hour is never noticed.
func TestOtherCallsDoNotWait(t *testing.T) {
	p := compiled(t)
	for _, call := range []string{"write", "pwrite", "writev", "pwritev", "msync_async"} {
		p.run(t, Disk{Latency: time.Hour, Depth: 1}, call, 2, 1)
	}
}

// TestDepth: no more operations are in flight than the depth allows, and as many as it allows.
func TestDepth(t *testing.T) {
	p := compiled(t)
	const threads = 8
	for _, depth := range []int{1, 4} {
		if took, want := p.run(t, Disk{Latency: latency / 4, Depth: depth}, "fsync", 1, threads), threads/time.Duration(depth)*latency/4; took < want {
			t.Errorf("%d calls with %d in flight took %s, less than %s", threads, depth, took, want)
		}
	}
	// One after the other they would take a minute.
	if took := p.run(t, Disk{Latency: time.Second, Depth: 60}, "fsync", 1, 60); took > 40*time.Second {
		t.Errorf("60 calls with 60 in flight took %s, as if they had waited for each other", took)
	}
}
