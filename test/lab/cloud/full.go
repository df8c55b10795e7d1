package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// fillerFile is what Fill writes to the root of a volume's file system.
const fillerFile = ".lab-filler"

// Fill leaves no room on the file systems of the volumes that an instance has mounted, or so many percent of each. The space is
// reserved, not written: it takes no time and no room on this machine.
func (c *Cloud) Fill(_ context.Context, id, percent string) error {
	left := 0.0
	if percent != "" {
		var err error
		if left, err = strconv.ParseFloat(percent, 64); err != nil {
			return fmt.Errorf("how much is left is %q, not a percentage: %w", percent, err)
		}
	}
	return c.onVolumes(id, func(root string) error { return fill(root, left/100) })
}

// Drain ends Fill.
func (c *Cloud) Drain(_ context.Context, id string) error {
	return c.onVolumes(id, func(root string) error {
		if err := os.Remove(filepath.Join(root, fillerFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	})
}

// onVolumes does something to the root of each file system on a volume of an instance. At least one must be mounted.
func (c *Cloud) onVolumes(id string, do func(root string) error) error {
	_, v, err := c.powered(id)
	if err != nil {
		return err
	}
	found := false
	for _, p := range v.plugs() {
		point, err := mountOf(v.init, p.device)
		if err != nil {
			return err
		}
		if point == "" {
			continue
		}
		found = true
		if err := do(filepath.Join("/proc", strconv.Itoa(v.init), "root", point)); err != nil {
			return fmt.Errorf("volume %s of %s: %w", p.Volume, id, err)
		}
	}
	if !found {
		return fmt.Errorf("instance %s has no volume mounted", id)
	}
	return nil
}

// fill reserves what is free in a file system but for a share of the whole, in ever smaller pieces, down to a block.
func fill(root string, left float64) error {
	file, err := os.OpenFile(filepath.Join(root, fillerFile), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	var space unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &space); err != nil {
		return err
	}
	const block = 4096
	room := int64(space.Bfree)*space.Bsize - int64(left*float64(space.Blocks))*space.Bsize //nolint:gosec // counts of blocks of a file of ours
	for piece := room / block * block; piece >= block; piece = min(piece, room/block*block) {
		err := unix.Fallocate(int(file.Fd()), 0, end, piece)
		switch {
		case err == nil:
			end, room = end+piece, room-piece
		case errors.Is(err, unix.ENOSPC):
			piece = piece / 2 / block * block
		default:
			return fmt.Errorf("reserve %d bytes: %w", piece, err)
		}
	}
	return nil
}
