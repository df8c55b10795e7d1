package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// processGrace is how long a process has between SIGTERM and SIGKILL.
	processGrace = 5 * time.Second
	// killGrace bounds the wait for the kernel to bury what got SIGKILL.
	killGrace = time.Minute
	// pollEvery is the pause between two looks at something that is about to vanish.
	pollEvery = 20 * time.Millisecond
	// netNSDir is where iproute2 keeps the names of network namespaces.
	netNSDir = "/run/netns"
)

// undo removes the resource and says whether it was there.
func undo(ctx context.Context, entry Entry) (bool, error) {
	switch entry.Kind {
	case KindProcess:
		return undoProcess(ctx, entry)
	case KindNetNS:
		return undoNetNS(ctx, entry)
	case KindLink:
		return undoLink(ctx, entry)
	case KindMount:
		return unmountAll(entry.Path)
	case KindLoop:
		return undoLoop(ctx, entry)
	case KindCgroup:
		return undoCgroup(ctx, entry.Path)
	case KindDir:
		return undoDir(entry.Path)
	case KindFile:
		return removed(os.Remove(entry.Path))
	case KindSysctl:
		return undoSysctl(entry)
	default:
		return false, fmt.Errorf("unknown kind %q", entry.Kind)
	}
}

// removed turns the error of a removal into (was there, real error).
func removed(err error) (bool, error) {
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func undoProcess(ctx context.Context, entry Entry) (bool, error) {
	handle, found, err := openProcess(entry.PID, entry.StartTime)
	if err != nil || !found {
		return false, err
	}
	defer unix.Close(handle)
	return true, stopProcess(ctx, handle, processGrace)
}

func undoNetNS(ctx context.Context, entry Entry) (bool, error) {
	if _, err := os.Lstat(filepath.Join(netNSDir, entry.Name)); err == nil {
		if _, err := Run(ctx, "ip", "netns", "del", entry.Name); err != nil {
			return false, err
		}
		return true, restoreNetNSDir(entry.Value)
	} else if !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	return false, restoreNetNSDir(entry.Value)
}

// What the directory of the names was before a namespace was made.
const (
	netNSDirMissing = "missing"
	netNSDirPlain   = "plain"
	netNSDirMounted = "mounted"
)

func netNSDirState() (string, error) {
	if _, err := os.Lstat(netNSDir); errors.Is(err, os.ErrNotExist) {
		return netNSDirMissing, nil
	}
	points, err := mountPoints()
	if err != nil {
		return "", err
	}
	if contains(points, netNSDir) {
		return netNSDirMounted, nil
	}
	return netNSDirPlain, nil
}

// restoreNetNSDir undoes what the first namespace did to the directory, unless somebody else has put a name there.
func restoreNetNSDir(before string) error {
	if before != netNSDirMissing && before != netNSDirPlain {
		return nil
	}
	names, err := os.ReadDir(netNSDir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(names) > 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := unmountAll(netNSDir); err != nil || before == netNSDirPlain {
		return err
	}
	_, err = removed(os.Remove(netNSDir))
	return err
}

func undoLink(ctx context.Context, entry Entry) (bool, error) {
	var args []string
	if entry.NetNS != "" {
		if _, err := os.Lstat(filepath.Join(netNSDir, entry.NetNS)); errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		args = append(args, "-n", entry.NetNS)
	}
	if _, err := Run(ctx, "ip", append(args, "link", "show", entry.Name)...); err != nil {
		if strings.Contains(err.Error(), "does not exist") {
			return false, nil
		}
		return false, err
	}
	_, err := Run(ctx, "ip", append(args, "link", "del", entry.Name)...)
	if err != nil && (strings.Contains(err.Error(), "Cannot find device") || strings.Contains(err.Error(), "does not exist")) {
		return false, nil // a veth goes with its namespace, which the kernel takes down in its own time
	}
	return err == nil, err
}

// unmountAll detaches everything mounted at the path itself, however often.
func unmountAll(path string) (bool, error) {
	was := false
	for {
		points, err := mountPoints()
		if err != nil {
			return was, err
		}
		if !contains(points, path) {
			return was, nil
		}
		if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return was, fmt.Errorf("unmount %s: %w", path, err)
		}
		was = true
	}
}

func contains(list []string, wanted string) bool {
	for _, item := range list {
		if item == wanted {
			return true
		}
	}
	return false
}

// mountPoints lists the mount points of the caller's namespace, in the order in which they were made.
func mountPoints() ([]string, error) {
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	var points []string
	for _, line := range strings.Split(strings.TrimSpace(string(content)), "\n") {
		if fields := strings.Fields(line); len(fields) > 4 {
			points = append(points, unescapeMount(fields[4]))
		}
	}
	return points, nil
}

// unescapeMount undoes the octal escapes of mountinfo (space, tab, newline, backslash).
func unescapeMount(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

// undoDir removes a directory tree. It never goes into something that is mounted: it detaches that first.
func undoDir(path string) (bool, error) {
	if !filepath.IsAbs(path) || strings.Count(filepath.Clean(path), "/") < 2 {
		return false, fmt.Errorf("refuse to remove %q: want an absolute path of at least two elements", path)
	}
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	points, err := mountPoints()
	if err != nil {
		return false, err
	}
	for i := len(points) - 1; i >= 0; i-- {
		if points[i] == path || strings.HasPrefix(points[i], path+"/") {
			if err := unix.Unmount(points[i], unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
				return false, fmt.Errorf("unmount %s: %w", points[i], err)
			}
		}
	}
	return removed(os.RemoveAll(path))
}

func undoSysctl(entry Entry) (bool, error) {
	now, err := os.ReadFile(entry.Path)
	if err != nil {
		return removed(err)
	}
	if strings.TrimSpace(string(now)) == strings.TrimSpace(entry.Value) {
		return false, nil
	}
	err = os.WriteFile(entry.Path, []byte(entry.Value), 0)
	return err == nil, err
}

// undoLoop detaches the loop devices of a backing file. The file may be deleted already; the kernel says so.
func undoLoop(ctx context.Context, entry Entry) (bool, error) {
	backings, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return false, err
	}
	was := false
	for _, backing := range backings {
		content, err := os.ReadFile(backing)
		if err != nil {
			continue // detached since the listing
		}
		file := strings.TrimSuffix(strings.TrimSpace(string(content)), " (deleted)")
		if file != entry.Path {
			continue
		}
		device := "/dev/" + strings.Split(backing, "/")[3]
		if _, err := Run(ctx, "losetup", "-d", device); err != nil {
			return was, err
		}
		was = true
	}
	return was, nil
}

// until polls the condition until it holds, the time is over, or the context ends.
func until(ctx context.Context, limit time.Duration, condition func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		done, err := condition()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}
