//go:build lab

package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/build"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/host"
)

// settle is how long the kernel may take to free what belonged to processes that are gone, such as namespaces.
const settle = time.Minute

// TestMachineIsAsBefore brings the whole lab up and takes it away, in every way in which a lab can end, and
// compares the machine before and after. It needs root and no lab running.
func TestMachineIsAsBefore(t *testing.T) {
	program := buildLab(t)
	for _, ending := range []struct {
		name string
		end  func(t *testing.T, dir string)
		down []string
	}{
		{"down", func(*testing.T, string) {}, nil},
		{"daemon gets SIGTERM", func(t *testing.T, dir string) { signalDaemon(t, dir, syscall.SIGTERM) }, nil},
		{"daemon gets SIGKILL", func(t *testing.T, dir string) { signalDaemon(t, dir, syscall.SIGKILL) }, nil},
		{
			"daemon gets SIGKILL and tests begin",
			func(t *testing.T, dir string) { signalDaemon(t, dir, syscall.SIGKILL) },
			[]string{"--if-killed"},
		},
	} {
		t.Run(ending.name, func(t *testing.T) {
			dir := t.TempDir()
			before := snapshot(t, dir)
			t.Cleanup(func() { lab(t, program, dir, "down") })
			lab(t, program, dir, "up")
			if now := snapshot(t, dir); slices.Equal(now, before) {
				t.Fatal("the snapshot does not see a running lab")
			}
			lab(t, program, dir, "down", "--if-killed")
			lab(t, program, dir, "status")
			ending.end(t, dir)
			lab(t, program, dir, append([]string{"down"}, ending.down...)...)
			compare(t, dir, before)
		})
	}
}

// TestSecondUp: a lab whose owner was killed does not stand in the way of the next one, and `up` is idempotent.
func TestSecondUp(t *testing.T) {
	program, dir := buildLab(t), t.TempDir()
	before := snapshot(t, dir)
	t.Cleanup(func() { lab(t, program, dir, "down") })
	lab(t, program, dir, "up")
	signalDaemon(t, dir, syscall.SIGKILL)
	cached, began := cache(t), time.Now()
	lab(t, program, dir, "up")
	t.Logf("up with everything cached: %s", time.Since(began).Round(time.Second))
	if now := cache(t); !slices.Equal(now, cached) {
		t.Errorf("up with everything cached has made something anew: %v, before %v", now, cached)
	}
	lab(t, program, dir, "up")
	lab(t, program, dir, "status")
	lab(t, program, dir, "down")
	lab(t, program, dir, "down")
	compare(t, dir, before)
}

// TestInterruptedUp: what was made until the interruption is taken away by `up` itself.
func TestInterruptedUp(t *testing.T) {
	program, dir := buildLab(t), t.TempDir()
	before := snapshot(t, dir)
	cmd := labCommand(t, program, dir, "up")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitForStep(t, dir, "control plane")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("an interrupted up says that all is well")
	}
	compare(t, dir, before)
}

// cache lists what the lab is made of, with the time at which each was made.
func cache(t *testing.T) (made []string) {
	t.Helper()
	builds, err := build.NewConfig(t.Output())
	if err != nil {
		t.Fatal(err)
	}
	found, err := os.ReadDir(builds.CacheDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range found {
		if info, err := one.Info(); err == nil && one.IsDir() {
			made = append(made, one.Name()+" of "+info.ModTime().Format(time.RFC3339Nano))
		}
	}
	return made
}

func buildLab(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "lab")
	if output, err := host.Run(t.Context(), "go", "build", "-o", program, "."); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return program
}

func labCommand(t *testing.T, program, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, args...)
	cmd.Env = append(os.Environ(), "NAIROBI_LAB="+dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd
}

func lab(t *testing.T, program, dir string, args ...string) {
	t.Helper()
	if err := labCommand(t, program, dir, args...).Run(); err != nil {
		t.Fatalf("lab %s: %v", strings.Join(args, " "), err)
	}
}

// signalDaemon waits until the daemon has ended.
func signalDaemon(t *testing.T, dir string, signal syscall.Signal) {
	t.Helper()
	if found, err := host.SignalHolder(dir, signal); err != nil || !found {
		t.Fatalf("signal the daemon: found %v, %v", found, err)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(lookEvery) {
		if found, err := host.SignalHolder(dir, 0); err == nil && !found {
			return
		}
	}
	t.Fatal("the daemon did not end")
}

func waitForStep(t *testing.T, dir, name string) {
	t.Helper()
	for deadline := time.Now().Add(upLimit); time.Now().Before(deadline); time.Sleep(lookEvery) {
		now, err := readStatus(dir, statusFile)
		if err == nil && slices.ContainsFunc(now.Steps, func(s step) bool { return s.Name == name }) {
			return
		}
	}
	t.Fatalf("step %q never began", name)
}

// compare waits for the kernel and reports every difference.
func compare(t *testing.T, dir string, before []string) {
	t.Helper()
	var after []string
	for deadline := time.Now().Add(settle); time.Now().Before(deadline); time.Sleep(lookEvery) {
		if after = snapshot(t, dir); slices.Equal(after, before) {
			return
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			t.Errorf("left or changed: %s", line)
		}
	}
	for _, line := range before {
		if !slices.Contains(after, line) {
			t.Errorf("missing: %s", line)
		}
	}
}

// snapshot describes everything on the machine that a lab could change, one thing a line.
func snapshot(t *testing.T, dir string) []string {
	t.Helper()
	var lines []string
	for _, command := range [][]string{
		{"ip", "netns"}, {"ip", "-brief", "link"}, {"ip", "route"}, {"losetup", "-a"}, {"nft", "list", "ruleset"},
		{"cat", "/proc/self/mounts"}, {"find", "/sys/fs/cgroup", "-type", "d"},
	} {
		output, err := host.Run(t.Context(), command[0], command[1:]...)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(output, "\n") {
			lines = append(lines, command[0]+": "+line)
		}
	}
	lines = append(append(lines, sysctls(t)...), processes(t, dir)...)
	slices.Sort(lines)
	return lines
}

// isCounter names files below /proc/sys that change by themselves.
func isCounter(path string) bool {
	for _, prefix := range []string{
		"kernel/random/", "kernel/ns_last_pid", "kernel/pty/nr", "fs/dentry-state", "fs/inode-", "fs/file-nr",
		"fs/aio-nr", "fs/quota/", "net/netfilter/nf_conntrack_count", "kernel/tainted", "kernel/keys/",
	} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

func sysctls(t *testing.T) []string {
	t.Helper()
	var lines []string
	const root = "/proc/sys/"
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, root)
		if errors.Is(err, fs.ErrNotExist) || entry.IsDir() || isCounter(name) {
			return nil // interfaces of others come and go during the walk
		}
		// Some can only be written, whatever their mode says.
		if content, err := os.ReadFile(path); err == nil {
			lines = append(lines, "sysctl: "+name+" = "+strings.TrimSpace(string(content)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// processes lists those that belong to the lab in dir, by what they were started with or where they live.
func processes(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, file := range found {
		groups, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		command, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if err != nil || len(command) == 0 { // gone, or waiting for its parent to notice that it is
			continue
		}
		if strings.Contains(string(groups), "/nairobi-lab") || strings.Contains(string(command), dir) {
			lines = append(lines, "process: "+file+" "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return lines
}
