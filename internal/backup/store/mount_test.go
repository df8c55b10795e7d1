package store

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// mountSmall puts a file system in memory of so many bytes over a directory until the test ends.
func mountSmall(t *testing.T, dir string, size int) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size)); err != nil {
		t.Fatalf("mount (root?): %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}
