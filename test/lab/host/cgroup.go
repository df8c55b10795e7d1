package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Hierarchy is one mounted tree of control groups.
type Hierarchy struct {
	// Mount is where it is mounted.
	Mount string
	// V2 says that it is the unified hierarchy.
	V2 bool
	// CPUSet says that it is the version 1 hierarchy of the cpuset controller.
	CPUSet bool
}

// Hierarchies lists the control group trees of this machine.
func Hierarchies() ([]Hierarchy, error) {
	content, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("list control groups: %w", err)
	}
	var found []Hierarchy
	for _, line := range strings.Split(string(content), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[1], "/sys/fs/cgroup") {
			continue
		}
		switch fields[2] {
		case "cgroup2":
			found = append(found, Hierarchy{Mount: fields[1], V2: true})
		case "cgroup":
			options := strings.Split(fields[3], ",")
			found = append(found, Hierarchy{Mount: fields[1], CPUSet: contains(options, "cpuset")})
		}
	}
	return found, nil
}

// MakeCgroup makes the directory name below every hierarchy and returns the directories. A version 1 cpuset
// gets its parent's processors and memory nodes, without which nothing can join it.
func (l *Ledger) MakeCgroup(name string) ([]string, error) {
	hierarchies, err := Hierarchies()
	if err != nil {
		return nil, err
	}
	var made []string
	for _, hierarchy := range hierarchies {
		dir := filepath.Join(hierarchy.Mount, name)
		if _, err := l.Add(Entry{Kind: KindCgroup, Path: dir}); err != nil {
			return made, err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return made, fmt.Errorf("make control group: %w", err)
		}
		if hierarchy.CPUSet {
			if err := fillCPUSet(dir); err != nil {
				return made, fmt.Errorf("fill %s: %w", dir, err)
			}
		}
		made = append(made, dir)
	}
	return made, nil
}

// MakeKillCgroup makes a directory in one hierarchy only, for processes that are to be killed together: in the
// unified one, where the kernel kills all at once, or else in the first one.
func (l *Ledger) MakeKillCgroup(name string) (string, error) {
	hierarchies, err := Hierarchies()
	if err != nil {
		return "", err
	}
	if len(hierarchies) == 0 {
		return "", errors.New("no control groups are mounted below /sys/fs/cgroup")
	}
	chosen := hierarchies[0]
	for _, hierarchy := range hierarchies {
		if hierarchy.V2 {
			chosen = hierarchy
		}
	}
	dir := filepath.Join(chosen.Mount, name)
	if _, err := l.Add(Entry{Kind: KindCgroup, Path: dir}); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make control group: %w", err)
	}
	return dir, nil
}

func fillCPUSet(dir string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		content, err := os.ReadFile(filepath.Join(filepath.Dir(dir), name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0); err != nil {
			return err
		}
	}
	return nil
}

// JoinCgroup moves a process into a control group.
func JoinCgroup(dir string, pid int) error {
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
		return fmt.Errorf("move process %d into control group %s: %w", pid, dir, err)
	}
	return nil
}

// undoCgroup kills what lives in the group and its children, then removes them from the leaves up.
func undoCgroup(ctx context.Context, dir string) (bool, error) {
	if !strings.HasPrefix(filepath.Clean(dir), "/sys/fs/cgroup/") {
		return false, fmt.Errorf("refuse to remove %q: not a control group", dir)
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	err := until(ctx, killGrace, func() (bool, error) {
		if err := killCgroup(dir); err != nil {
			return false, err
		}
		return removeCgroup(dir)
	})
	if err != nil {
		return false, fmt.Errorf("empty and remove the group: %w", err)
	}
	return true, nil
}

func killCgroup(dir string) error {
	err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
	if err == nil || !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
		return ignoreGone(err)
	}
	// Version 1 has no such file.
	return walkCgroups(dir, func(group string) error {
		content, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
		if err != nil {
			return ignoreGone(err)
		}
		for _, field := range strings.Fields(string(content)) {
			pid, err := strconv.Atoi(field)
			if err != nil || pid <= 1 || pid == os.Getpid() {
				continue
			}
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("kill %d: %w", pid, err)
			}
		}
		return nil
	})
}

// removeCgroup removes the tree and says whether all of it is gone; a busy group is not an error.
func removeCgroup(dir string) (bool, error) {
	var groups []string
	if err := walkCgroups(dir, func(group string) error { groups = append(groups, group); return nil }); err != nil {
		return false, err
	}
	for i := len(groups) - 1; i >= 0; i-- {
		err := os.Remove(groups[i])
		if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOTEMPTY) {
			return false, nil
		}
		if ignoreGone(err) != nil {
			return false, err
		}
	}
	return true, nil
}

// walkCgroups visits the group and all below it, parents first.
func walkCgroups(dir string, visit func(string) error) error {
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return ignoreGone(err)
		}
		if !entry.IsDir() {
			return nil
		}
		return visit(path)
	})
	return ignoreGone(err)
}

// ignoreGone accepts that a group vanishes while it is looked at.
func ignoreGone(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}
