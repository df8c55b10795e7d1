package cloud

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/host"
)

const (
	gib = int64(1) << 30
	// loopTimeout bounds the wait for the kernel to let a device go: the mounts
	// of a dead machine are undone after its last process.
	loopTimeout = time.Minute
	loopPoll    = 20 * time.Millisecond
	// ioctlShutdown is XFS_IOC_GOINGDOWN and EXT4_IOC_SHUTDOWN: _IOR('X', 125, __u32).
	ioctlShutdown = 0x8004587d
	// shutdownNoFlush loses what is not on the disk, as a power cut does.
	shutdownNoFlush = 2
	// FIFREEZE and FITHAW: _IOWR('X', 119 and 120, int).
	ioctlFreeze = 0xc0045877
	ioctlThaw   = 0xc0045878
)

// disks are the files behind volumes and snapshots.
type disks struct {
	ledger             *host.Ledger
	volumes, snapshots string // directories
}

func (d *disks) volumeFile(id string) string   { return filepath.Join(d.volumes, id+".img") }
func (d *disks) snapshotFile(id string) string { return filepath.Join(d.snapshots, id+".img") }

// create makes a volume's file, sparse, with a snapshot's content if there is
// one. A file that is there stays.
func (d *disks) create(ctx context.Context, id string, size int64, snapshot string) error {
	file := d.volumeFile(id)
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	tmp := file + ".new"
	if snapshot != "" {
		if err := copySparse(ctx, d.snapshotFile(snapshot), tmp); err != nil {
			return fmt.Errorf("copy snapshot %s: %w", snapshot, err)
		}
	} else if err := os.WriteFile(tmp, nil, 0o600); err != nil {
		return err
	}
	return errors.Join(os.Truncate(tmp, size), os.Rename(tmp, file))
}

// grow makes a volume's file, and its device if it has one, larger.
func (d *disks) grow(ctx context.Context, id string, size int64) error {
	file := d.volumeFile(id)
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if info.Size() < size {
		if err := os.Truncate(file, size); err != nil {
			return err
		}
	}
	for _, loop := range loopsOf(file) {
		if _, err := host.Run(ctx, "losetup", "-c", loop); err != nil {
			return err
		}
	}
	return nil
}

// snapshot copies a volume as it is now.
func (d *disks) snapshot(ctx context.Context, id, volume string) error {
	return copySparse(ctx, d.volumeFile(volume), d.snapshotFile(id))
}

func copySparse(ctx context.Context, from, to string) error {
	if _, err := host.Run(ctx, "cp", "--sparse=always", "--reflink=auto", from, to+".tmp"); err != nil {
		return err
	}
	return os.Rename(to+".tmp", to)
}

// sweep removes files whose volumes and snapshots are no longer wanted.
func (d *disks) sweep(wanted func(id string) bool) error {
	var errs []error
	for _, dir := range []string{d.volumes, d.snapshots} {
		files, err := filepath.Glob(filepath.Join(dir, "*.img"))
		errs = append(errs, err)
		for _, f := range files {
			if !wanted(strings.TrimSuffix(filepath.Base(f), ".img")) && len(loopsOf(f)) == 0 {
				errs = append(errs, os.Remove(f))
			}
		}
	}
	return errors.Join(errs...)
}

// plugged is a volume in a machine that has power.
type plugged struct {
	device
	path  string // /dev/loopN
	entry uint64 // in the ledger
}

// plug binds a volume's file to a loop device.
func (d *disks) plug(ctx context.Context, volume, name string) (plugged, error) {
	path, entry, err := d.ledger.AttachLoop(ctx, d.volumeFile(volume))
	if err != nil {
		return plugged{}, err
	}
	var info unix.Stat_t
	if err := unix.Stat(path, &info); err != nil {
		return plugged{}, err
	}
	return plugged{
		device: device{Volume: volume, Name: name, Major: unix.Major(info.Rdev), Minor: unix.Minor(info.Rdev)},
		path:   path, entry: entry,
	}, nil
}

// unplug lets a volume's device go and waits until nobody holds it: two
// devices on one file would corrupt it.
func (d *disks) unplug(ctx context.Context, p plugged) error {
	file := d.volumeFile(p.Volume)
	if err := d.ledger.Undo(ctx, p.entry); err != nil {
		return err
	}
	for deadline := time.Now().Add(loopTimeout); len(loopsOf(file)) > 0; {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is still held after %s", p.path, loopTimeout)
		}
		if !pause(ctx, loopPoll) {
			return ctx.Err()
		}
	}
	return nil
}

// loopsOf lists the loop devices of a file.
func loopsOf(file string) []string {
	var found []string
	backings, _ := filepath.Glob("/sys/block/loop*/loop/backing_file") // the pattern is well-formed
	for _, b := range backings {
		content, err := os.ReadFile(b)
		if err == nil && strings.TrimSuffix(strings.TrimSpace(string(content)), " (deleted)") == file {
			found = append(found, "/dev/"+strings.Split(b, "/")[3])
		}
	}
	return found
}

// mountOf returns where a process sees a device mounted, "" if nowhere.
func mountOf(pid int, d device) (string, error) {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/mountinfo")
	if err != nil {
		return "", err
	}
	number := fmt.Sprintf("%d:%d", d.Major, d.Minor)
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 4 && fields[2] == number {
			return fields[4], nil
		}
	}
	return "", lines.Err()
}

// onMount calls an ioctl of a file system inside a machine, if d is mounted
// there.
func onMount(pid int, d device, request uintptr, argument int) (mounted bool, err error) {
	point, err := mountOf(pid, d)
	if err != nil || point == "" {
		return false, err
	}
	fd, err := unix.Open(filepath.Join("/proc", strconv.Itoa(pid), "root", point), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	if err := unix.IoctlSetPointerInt(fd, uint(request), argument); err != nil {
		return false, fmt.Errorf("ioctl %#x on %s: %w", request, point, err)
	}
	return true, nil
}

// pause returns false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
