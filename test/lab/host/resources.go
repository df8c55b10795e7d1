package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// MakeDir makes a directory and its parents; undoing removes the directory with its content, not the parents.
func (l *Ledger) MakeDir(path string, mode os.FileMode) error {
	if _, err := l.Add(Entry{Kind: KindDir, Path: path}); err != nil {
		return err
	}
	if err := os.MkdirAll(path, mode); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	return nil
}

// WriteFile makes a file that undoing removes.
func (l *Ledger) WriteFile(path string, content []byte, mode os.FileMode) error {
	if _, err := l.Add(Entry{Kind: KindFile, Path: path}); err != nil {
		return err
	}
	return os.WriteFile(path, content, mode)
}

// SetSysctl writes a value to a file below /proc/sys, for example "net/ipv4/ip_forward".
func (l *Ledger) SetSysctl(name, value string) error {
	path := filepath.Join("/proc/sys", name)
	before, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read sysctl: %w", err)
	}
	if strings.TrimSpace(string(before)) == value {
		return nil
	}
	if _, err := l.Add(Entry{Kind: KindSysctl, Path: path, Value: strings.TrimSpace(string(before))}); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		return fmt.Errorf("set sysctl: %w", err)
	}
	return nil
}

// MakeNetNS makes a named network namespace.
func (l *Ledger) MakeNetNS(ctx context.Context, name string) error {
	if _, err := l.Add(Entry{Kind: KindNetNS, Name: name}); err != nil {
		return err
	}
	_, err := Run(ctx, "ip", "netns", "add", name)
	return err
}

// MakeVeth makes a pair of virtual interfaces: name here, peer in the network namespace of the process pid.
func (l *Ledger) MakeVeth(ctx context.Context, name, peer string, pid int) error {
	if _, err := l.Add(Entry{Kind: KindLink, Name: name}); err != nil {
		return err
	}
	_, err := Run(ctx, "ip", "link", "add", name, "type", "veth", "peer", "name", peer, "netns", fmt.Sprint(pid))
	return err
}

// MakeVethNetNS is MakeVeth with the peer in a named network namespace.
func (l *Ledger) MakeVethNetNS(ctx context.Context, name, peer, netNS string) error {
	if _, err := l.Add(Entry{Kind: KindLink, Name: name}); err != nil {
		return err
	}
	_, err := Run(ctx, "ip", "link", "add", name, "type", "veth", "peer", "name", peer, "netns", netNS)
	return err
}

// Mount mounts source on target in the owner's mount namespace.
func (l *Ledger) Mount(source, target, fsType string, flags uintptr, data string) error {
	if _, err := l.Add(Entry{Kind: KindMount, Path: target}); err != nil {
		return err
	}
	if err := unix.Mount(source, target, fsType, flags, data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", source, target, err)
	}
	return nil
}

// AttachLoop binds a file to a free loop device and returns the device (/dev/loopN) and the entry's id.
func (l *Ledger) AttachLoop(ctx context.Context, file string) (device string, id uint64, err error) {
	id, err = l.Add(Entry{Kind: KindLoop, Path: file})
	if err != nil {
		return "", 0, err
	}
	device, err = Run(ctx, "losetup", "--find", "--show", file)
	return device, id, err
}
