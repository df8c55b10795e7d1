// Package disk makes files in memory as slow as files on a volume, for processes that are started with its environment:
// a small C library, which is compiled on first use and preloaded, lets every call that waits for the disk wait longer.
// So benchmarks get from one machine, which has one disk or none, as many independent volumes as they start processes.
//
// The model is a queue with a depth: each fsync, fdatasync, msync(MS_SYNC), sync_file_range(WAIT_AFTER) and each write to a
// file that is opened with O_DSYNC or O_SYNC takes Latency, at most Depth of them are in flight, and others wait for a place.
// Waiting sleeps and takes no processor time.
//
// EBS gp3 answers a small write after about a millisecond, and takes several at a time: 3,000 operations a second, however
// fast the instance is. GP3 has the depth with which one volume reaches just that. Not modelled: bytes a second (gp3: 125 MiB),
// the second write of an fsync that has a journal to write too, reads, and writes of pages by O_DIRECT, which only
// background threads of InnoDB do.
package disk

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

//go:embed preload/disk.c
var source []byte

// Disk is the volume that each process gets.
type Disk struct {
	Latency time.Duration // 0: as fast as memory
	Depth   int           // operations in flight, 1 to 64
}

// GP3 is a gp3 volume with the IOPS that every one has.
var GP3 = Disk{Latency: time.Millisecond, Depth: 3}

// Library compiles the library into a folder and returns its path.
func Library(ctx context.Context, folder string) (string, error) {
	code, path := filepath.Join(folder, "disk.c"), filepath.Join(folder, "disk.so")
	if err := os.WriteFile(code, source, 0o600); err != nil {
		return "", err
	}
	return path, compile(ctx, "-shared", "-fPIC", "-o", path, code)
}

func compile(ctx context.Context, arguments ...string) error {
	out, err := exec.CommandContext(ctx, "gcc", append([]string{"-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"}, arguments...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("compile: %w: %s", err, out)
	}
	return nil
}

// Environment are the variables of a process that has the disk, where it sees the library at the given path.
func (d Disk) Environment(library string) []string {
	return []string{
		"LD_PRELOAD=" + library,
		"NAIROBI_DISK_LATENCY_US=" + strconv.FormatInt(d.Latency.Microseconds(), 10),
		"NAIROBI_DISK_DEPTH=" + strconv.Itoa(d.Depth),
	}
}
