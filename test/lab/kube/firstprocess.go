package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// firstProcessCommand is the hidden subcommand of the lab's program that becomes the node's first process.
const firstProcessCommand = "node-first-process"

// Commands returns the hidden subcommands that the lab's program must have.
func Commands() []*cobra.Command {
	return []*cobra.Command{{
		Use: firstProcessCommand + " FILE", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return firstProcess(args[0]) },
	}}
}

// readyFD is the descriptor on which the first process says that the node's file system stands.
const readyFD = 3

// firstProcess runs in new network and mount namespaces. It builds the node's file system, then only keeps the
// namespaces alive until SIGTERM.
func firstProcess(specFile string) error {
	content, err := os.ReadFile(specFile)
	if err != nil {
		return err
	}
	var m machine
	if err := json.Unmarshal(content, &m); err != nil {
		return fmt.Errorf("read %s: %w", specFile, err)
	}
	if err := errors.Join(m.enter(), m.shieldSysctls(), m.setSysctls()); err != nil {
		return err
	}
	report := os.NewFile(readyFD, "report")
	if _, err := report.WriteString("r"); err != nil {
		return err
	}
	if err := report.Close(); err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	<-signals
	return nil
}

// mount is one mount of the node, below its root.
type mount struct {
	source, target, fsType string
	flags                  uintptr
	data                   string
}

// enter makes the node's tree and moves into it.
func (m machine) enter() error {
	// Nothing that is mounted here may show up on the host.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	overlay := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", m.Lower, m.Upper, m.Work)
	mounts := []mount{
		{source: "overlay", fsType: "overlay", data: overlay},
		{source: "proc", target: "proc", fsType: "proc"},
		// A new one, for it shows the network devices of the namespace in which it was mounted.
		{source: "sysfs", target: "sys", fsType: "sysfs"},
		{source: "/sys/fs/cgroup", target: "sys/fs/cgroup", flags: unix.MS_BIND | unix.MS_REC},
		{source: "/dev", target: "dev", flags: unix.MS_BIND | unix.MS_REC},
		{source: "tmpfs", target: "run", fsType: "tmpfs"},
		{source: "tmpfs", target: "tmp", fsType: "tmpfs"},
	}
	for _, shared := range m.Binds {
		mounts = append(mounts, mount{source: shared.From, target: shared.To, flags: unix.MS_BIND})
		if shared.ReadOnly {
			mounts = append(mounts, mount{target: shared.To, flags: unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY})
		}
	}
	for _, one := range mounts {
		target := filepath.Join(m.Root, one.target)
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(one.source, target, one.fsType, one.flags, one.data); err != nil {
			return fmt.Errorf("mount %s on %s: %w", one.source, target, err)
		}
	}
	return m.pivot()
}

// pivot makes the new tree the root of the mount namespace, where everything that enters it later starts.
func (m machine) pivot() error {
	if err := os.Chdir(m.Root); err != nil {
		return err
	}
	// The old root ends up on top of the new one, and is taken off; no directory is needed to keep it.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach the old root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	// Kubelet and containerd hand mounts to pods, and want them to propagate.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("make mounts shared: %w", err)
	}
	return nil
}

// shieldSysctls puts plain files over the settings of the whole machine that a kubelet changes when it starts.
func (m machine) shieldSysctls() error {
	const shields = "/run/sysctl"
	if err := os.MkdirAll(shields, 0o755); err != nil {
		return err
	}
	for _, name := range []string{
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	} {
		setting := filepath.Join("/proc/sys", name)
		value, err := os.ReadFile(setting)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		shield := filepath.Join(shields, strings.ReplaceAll(name, "/", "."))
		if err := os.WriteFile(shield, value, 0o644); err != nil {
			return err
		}
		if err := unix.Mount(shield, setting, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("shield %s: %w", setting, err)
		}
	}
	return nil
}

func (m machine) setSysctls() error {
	for name, value := range m.Sysctls {
		err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}
