package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

const (
	bootCommand = "boot-inside"
	// bootFD is where the machine's settings are read from.
	bootFD = 3
	// networkTimeout bounds setting up the machine's one interface.
	networkTimeout = time.Minute
	// idLinks is where udev names disks by what they are.
	idLinks = "dev/disk/by-id"
)

// bootSettings tell a machine what it is.
type bootSettings struct {
	ID       string   `json:"id"`
	Hostname string   `json:"hostname"`
	Address  string   `json:"address"`
	Lower    []string `json:"lower"` // root file systems, the topmost first
	// Dir holds upper, work and root.
	Dir     string   `json:"dir"`
	Devices []device `json:"devices"`
}

// device is a volume as the machine sees it.
type device struct {
	Volume string `json:"volume"`
	Name   string `json:"name"` // nvme1n1
	Major  uint32 `json:"major"`
	Minor  uint32 `json:"minor"`
}

// serial is what the disk of an EBS volume answers on Nitro.
func (d device) serial() string { return strings.Replace(d.Volume, "vol-", "vol", 1) }

// links are the names under /dev/disk/by-id that udev would make: the old one, and the one with the namespace.
func (d device) links() []string {
	link := "nvme-Amazon_Elastic_Block_Store_" + d.serial()
	return []string{link, link + "_1"}
}

// paths are what a machine sees of the volume.
func (d device) paths() []string {
	paths := []string{filepath.Join("dev", d.Name), filepath.Join("sys/block", d.Name)}
	for _, link := range d.links() {
		paths = append(paths, filepath.Join(idLinks, link))
	}
	return paths
}

// Commands are what the lab's program must offer for instances to boot.
func Commands() []*cobra.Command {
	return []*cobra.Command{{
		Use:    bootCommand,
		Short:  "Become an instance's first process (called by the hypervisor in fresh namespaces)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return BootInside(cmd.Context()) },
	}}
}

// BootInside turns this process, the first one in fresh network, pid, mount,
// uts, ipc and cgroup namespaces, into an instance's systemd. It reads its
// settings from descriptor 3 until end of file and returns only with an error.
// Standard input must be the console's terminal.
func BootInside(ctx context.Context) error {
	// What is dropped of the capabilities is dropped of one thread: exec must
	// happen on the same one.
	runtime.LockOSThread()
	var s bootSettings
	pipe := os.NewFile(bootFD, "settings")
	if err := json.NewDecoder(pipe).Decode(&s); err != nil {
		return fmt.Errorf("read the machine's settings: %w", err)
	}
	if err := pipe.Close(); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(strings.Split(s.Hostname, ".")[0])); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if err := configureNetwork(ctx, s.Address); err != nil {
		return fmt.Errorf("set up the network: %w", err)
	}
	root := filepath.Join(s.Dir, "root")
	for _, step := range []struct {
		doing string
		do    func() error
	}{
		{"mount the root", func() error { return mountRoot(s, root) }},
		{"mount /proc", func() error { return mountProc(root) }},
		{"mount /sys", func() error { return mountSys(s, root) }},
		{"fill /dev", func() error { return mountDev(s, root) }},
		{"enter the root", func() error { return pivot(root) }},
		{"open the console", openConsole},
		{"drop capabilities", dropCapabilities},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.doing, err)
		}
	}
	return unix.Exec("/usr/lib/systemd/systemd",
		[]string{"systemd", "--system", "--log-target=journal-or-kmsg", "systemd.show_status=1"},
		[]string{"container=nairobi-lab", "TERM=dumb", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"})
}

// configureNetwork runs before the root is changed, with the host's tools.
func configureNetwork(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, networkTimeout)
	defer cancel()
	// Neighbours may hold the address's entry of the time without power.
	if err := os.WriteFile("/proc/sys/net/ipv4/conf/eth0/arp_notify", []byte("1"), 0); err != nil {
		return err
	}
	return runAll(ctx, []string{
		"ip link set lo up",
		"ip addr add " + address + vpcBits + " dev eth0",
		"ip link set eth0 up",
		"ip route add default via " + gateway,
		"ip route add " + imdsAddress + "/32 dev eth0",
	})
}

func mountRoot(s bootSettings, root string) error {
	for _, d := range []string{"upper", "work", "root"} {
		if err := os.MkdirAll(filepath.Join(s.Dir, d), 0o755); err != nil {
			return err
		}
	}
	return unix.Mount("overlay", root, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s",
		strings.Join(s.Lower, ":"), filepath.Join(s.Dir, "upper"), filepath.Join(s.Dir, "work")))
}

const noFiles = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// mountProc keeps the machine from the host's settings, its network's excepted.
func mountProc(root string) error {
	proc := filepath.Join(root, "proc")
	sys := filepath.Join(proc, "sys")
	network := filepath.Join(sys, "net")
	return errors.Join(
		unix.Mount("proc", proc, "proc", noFiles, ""),
		unix.Mount(sys, sys, "", unix.MS_BIND, ""),
		unix.Mount(network, network, "", unix.MS_BIND, ""),
		unix.Mount("", sys, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|noFiles, ""),
	)
}

// mountSys shows the kernel's /sys read-only, with a hypervisor that cloud-init
// takes for EC2's, a private tree of control groups, and no disks but the
// machine's volumes.
func mountSys(s bootSettings, root string) error {
	sys, whole := filepath.Join(root, "sys"), filepath.Join(s.Dir, "sysfs")
	if err := os.MkdirAll(whole, 0o755); err != nil {
		return err
	}
	if err := errors.Join(
		unix.Mount("tmpfs", sys, "tmpfs", noFiles, "mode=755"),
		unix.Mount("sysfs", whole, "sysfs", unix.MS_RDONLY|noFiles, ""),
	); err != nil {
		return err
	}
	entries, err := os.ReadDir(whole)
	if err != nil {
		return err
	}
	for _, e := range entries {
		to := filepath.Join(sys, e.Name())
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		if e.Name() == "fs" || e.Name() == "hypervisor" || e.Name() == "block" {
			continue
		}
		if err := unix.Mount(filepath.Join(whole, e.Name()), to, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	groups := filepath.Join(sys, "fs/cgroup")
	uuid := filepath.Join(sys, "hypervisor/uuid")
	return errors.Join(
		unix.Unmount(whole, unix.MNT_DETACH),
		os.MkdirAll(groups, 0o755), os.MkdirAll(filepath.Dir(uuid), 0o755), os.MkdirAll(filepath.Join(sys, "block"), 0o755),
		os.WriteFile(uuid, []byte("ec2"+s.ID[2:7]+"-0000-4000-8000-000000000000\n"), 0o444),
		unix.Mount("cgroup2", groups, "cgroup2", noFiles, ""),
		unix.Mount("tmpfs", filepath.Join(sys, "block"), "tmpfs", noFiles, "mode=755"),
		unix.Mount("", sys, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|noFiles, ""),
	)
}

// mountDev makes the devices, the volumes and the console.
func mountDev(s bootSettings, root string) error {
	dev := filepath.Join(root, "dev")
	if err := unix.Mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID, "mode=755"); err != nil {
		return err
	}
	for name, number := range map[string]uint64{
		"null": unix.Mkdev(1, 3), "zero": unix.Mkdev(1, 5), "full": unix.Mkdev(1, 7),
		"random": unix.Mkdev(1, 8), "urandom": unix.Mkdev(1, 9), "tty": unix.Mkdev(5, 0),
	} {
		path := filepath.Join(dev, name)
		if err := errors.Join(unix.Mknod(path, unix.S_IFCHR, int(number)), os.Chmod(path, 0o666)); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0",
		"stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(target, filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	for _, d := range s.Devices {
		if err := addDevice(root, d); err != nil {
			return err
		}
	}
	for _, m := range []struct {
		path, kind, data string
		flags            uintptr
	}{
		{"dev/pts", "devpts", "newinstance,ptmxmode=0666,mode=620,gid=5", unix.MS_NOSUID | unix.MS_NOEXEC},
		{"dev/shm", "tmpfs", "mode=1777", unix.MS_NOSUID | unix.MS_NODEV},
		{"dev/mqueue", "mqueue", "", noFiles},
		{"run", "tmpfs", "mode=755", unix.MS_NOSUID | unix.MS_NODEV},
		{"tmp", "tmpfs", "mode=1777", unix.MS_NOSUID | unix.MS_NODEV},
	} {
		path := filepath.Join(root, m.path)
		if err := errors.Join(os.MkdirAll(path, 0o755), unix.Mount(m.kind, path, m.kind, m.flags, m.data)); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
	}
	// By its name: the descriptor belongs to another mount namespace.
	tty, err := os.Readlink("/proc/self/fd/0")
	if err != nil {
		return err
	}
	console := filepath.Join(dev, "console")
	return errors.Join(os.WriteFile(console, nil, 0o600), unix.Mount(tty, console, "", unix.MS_BIND, ""))
}

// addDevice makes a volume's node, its links, and its serial in /sys below a
// machine's root. A loop device has no serial of its own.
func addDevice(root string, d device) error {
	links, disk := filepath.Join(root, idLinks), filepath.Join(root, "sys/block", d.Name, "device")
	if err := errors.Join(os.MkdirAll(links, 0o755), os.MkdirAll(disk, 0o755)); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(disk, "serial"), []byte(d.serial()+"\n"), 0o444); err != nil {
		return err
	}
	node := filepath.Join(root, "dev", d.Name)
	if err := unix.Mknod(node, unix.S_IFBLK|0o660, int(unix.Mkdev(d.Major, d.Minor))); err != nil {
		return fmt.Errorf("make %s: %w", d.Name, err)
	}
	for _, link := range d.links() {
		if err := os.Symlink("../../"+d.Name, filepath.Join(links, link)); err != nil {
			return err
		}
	}
	return nil
}

func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "mnt"); err != nil {
		return err
	}
	return errors.Join(os.Chdir("/"), unix.Unmount("/mnt", unix.MNT_DETACH))
}

func openConsole() error {
	fd, err := unix.Open("/dev/console", unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	for _, to := range []int{0, 1, 2} {
		if err := unix.Dup3(fd, to, 0); err != nil {
			return err
		}
	}
	return unix.Close(fd)
}

// dropCapabilities takes from the machine what would reach its host.
func dropCapabilities() error {
	for _, c := range []uintptr{
		unix.CAP_SYS_MODULE, unix.CAP_SYS_TIME, unix.CAP_SYS_RAWIO, unix.CAP_SYSLOG, unix.CAP_WAKE_ALARM,
		unix.CAP_MAC_ADMIN, unix.CAP_MAC_OVERRIDE,
	} {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return err
		}
	}
	return nil
}
