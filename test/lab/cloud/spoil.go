package cloud

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// intact is what the name of a spoilt program ends with.
	intact = ".intact"
	// spoilt stands where a program was.
	spoilt = "#!/bin/sh\n[ \"$*\" = --version ] && exec \"$0" + intact + "\" --version\necho \"$0: this program is damaged\" >&2\nexit 1\n"
)

// Spoil puts something that fails in the place of a program on an instance's own disk; all that it still does is to tell its
// version. program is its absolute path there. It lasts as long as the disk does; whoever runs the program already goes on.
func (c *Cloud) Spoil(_ context.Context, id, program string) error {
	_, v, err := c.powered(id)
	if err != nil {
		return err
	}
	disk, err := os.OpenRoot(filepath.Join("/proc", strconv.Itoa(v.init), "root")) // a link of the guest's leads nowhere outside
	if err != nil {
		return fmt.Errorf("open the disk of %s: %w", id, err)
	}
	defer func() { _ = disk.Close() }()
	theirs, err := disk.Stat(".")
	if err != nil {
		return fmt.Errorf("look at the disk of %s: %w", id, err)
	}
	ours, err := os.Stat("/")
	if err != nil {
		return fmt.Errorf("look at the host's disk: %w", err)
	}
	if os.SameFile(theirs, ours) {
		return fmt.Errorf("instance %s has not entered its disk yet", id)
	}
	name := strings.TrimPrefix(program, "/")
	if err := disk.Rename(name, name+intact); err != nil {
		return fmt.Errorf("spoil %s of %s: %w", program, id, err)
	}
	const executable = 0o755
	if err := disk.WriteFile(name, []byte(spoilt), executable); err != nil {
		return fmt.Errorf("spoil %s of %s: %w", program, id, err)
	}
	return nil
}
