package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/host"
)

// machine describes the node's view of the file system; the first process of the node reads it from a file.
type machine struct {
	// Lower is the shared tree, Upper and Work take the changes, Root is where they are mounted together.
	Lower, Upper, Work, Root string
	// Binds are directories that the node shares with the host.
	Binds []bind
	// Sysctls are set in the node's network namespace.
	Sysctls map[string]string
}

type bind struct {
	From, To string
	ReadOnly bool
}

// makeNode starts the first process of the node in namespaces of its own and lays the cable to it.
func (c *Cluster) makeNode(ctx context.Context) error {
	if err := c.makeDirs(); err != nil {
		return err
	}
	groups, err := c.makeCgroups()
	if err != nil {
		return err
	}
	if err := c.startFirstProcess(ctx, groups); err != nil {
		return err
	}
	return c.layCable(ctx)
}

func (c *Cluster) makeDirs() error {
	if err := c.opts.Ledger.MakeDir(c.layout.state, 0o755); err != nil {
		return err
	}
	for _, dir := range []string{c.layout.pki, c.layout.config, c.layout.log, c.machine().Upper, c.machine().Work, c.machine().Root} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for _, shared := range c.machine().Binds {
		if err := os.MkdirAll(shared.From, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// makeCgroups makes the group of the node's own processes, which it returns, and the parent group of all pods.
func (c *Cluster) makeCgroups() ([]string, error) {
	own, err := c.opts.Ledger.MakeKillCgroup(nodeCgroup)
	if err != nil {
		return nil, err
	}
	if _, err := c.opts.Ledger.MakeCgroup(podsCgroup); err != nil {
		return nil, err
	}
	return []string{own}, nil
}

func (c *Cluster) machine() machine {
	in := func(name string) string { return filepath.Join(c.layout.state, name) }
	return machine{
		Lower: c.paths["node-root"], Upper: in("upper"), Work: in("work"), Root: in("root"),
		Binds: []bind{
			{From: c.opts.Build.CacheDir, To: c.opts.Build.CacheDir, ReadOnly: true},
			{From: c.layout.pki, To: c.layout.pki, ReadOnly: true},
			{From: c.layout.config, To: c.layout.config, ReadOnly: true},
			{From: in("etcd"), To: "/var/lib/etcd"},
			{From: in("containerd"), To: "/var/lib/containerd"},
			{From: in("kubelet"), To: "/var/lib/kubelet"},
			{From: in("pods"), To: "/var/log/pods"},
			{From: in("audit"), To: auditFolder},
			{From: in("volumes"), To: volumesFolder},
		},
		Sysctls: map[string]string{
			"net/ipv4/ip_forward": "1",
			// Without it, pods on the bridge do not reach each other through a Service. It is missing where the
			// bridge filter is not built in; then it is not needed.
			"net/bridge/bridge-nf-call-iptables": "1",
		},
	}
}

// startFirstProcess waits until the node's file system stands.
func (c *Cluster) startFirstProcess(ctx context.Context, groups []string) error {
	spec, err := json.Marshal(c.machine())
	if err != nil {
		return err
	}
	specFile := filepath.Join(c.layout.config, "machine.json")
	if err := os.WriteFile(specFile, spec, 0o644); err != nil {
		return err
	}
	ready, report, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	process, err := c.opts.Ledger.StartProcess(ctx, host.Spec{
		Name: c.opts.Self, Args: []string{firstProcessCommand, specFile}, LogFile: c.logFile("node"),
		ExtraFiles: []*os.File{report}, Cgroups: groups,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET},
	})
	if err := errors.Join(err, report.Close()); err != nil {
		return err
	}
	c.nodePID = process.PID
	c.nodeGroups = groups
	if err := ready.SetReadDeadline(time.Now().Add(firstProcessLimit)); err != nil {
		return err
	}
	// One byte says that it is ready; the end of the pipe without one says that it failed.
	if n, err := ready.Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("prepare the node's file system (%w): %s", err, tail(c.logFile("node"), logTail))
	}
	return nil
}

// firstProcessLimit is generous: it is a dozen mounts.
const firstProcessLimit = 20 * time.Second

func (c *Cluster) layCable(ctx context.Context) error {
	if err := c.opts.Ledger.MakeVeth(ctx, hostLink, "eth0", c.nodePID); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"addr", "add", HostAddress + cablePrefix, "dev", hostLink},
		{"link", "set", hostLink, "up"},
	} {
		if _, err := host.Run(ctx, "ip", args...); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"addr", "add", NodeAddress + cablePrefix, "dev", "eth0"},
		{"link", "set", "eth0", "up"},
		{"route", "add", "default", "via", HostAddress},
	} {
		if _, err := host.RunInPid(ctx, c.nodePID, "ip", args...); err != nil {
			return err
		}
	}
	return nil
}
