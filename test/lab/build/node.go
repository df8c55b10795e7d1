package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// nodeSuite is the Debian suite of the node: the first one whose containerd (2.1) still serves a kubelet of
// Kubernetes 1.36 and later.
const nodeSuite = "sid"

// nodePackages are unpacked with all that they depend on; no maintainer script runs.
func nodePackages() []string {
	return []string{
		"base-files", "containerd", "runc", "containernetworking-plugins", "iptables", "conntrack", "nftables", "ipset",
		"iproute2", "mount", "util-linux", "kmod", "procps", "coreutils", "dash", "libc-bin", "busybox-static",
	}
}

// nodeLayout changes whenever finishNode does, so that an older tree in the cache is not taken.
const nodeLayout = "1"

func nodeEntry() entry {
	sum := sha256.Sum256([]byte(nodeSuite + " " + nodeLayout + " " + strings.Join(nodePackages(), " ")))
	return entry{
		name: Node, version: hex.EncodeToString(sum[:4]), takes: "about 15 seconds", make: makeNode,
		paths: map[string]string{"node-root": "root", "busybox": "root/usr/bin/busybox"},
	}
}

// ErrNoMmdebstrap says which package the machine lacks.
var ErrNoMmdebstrap = errors.New("mmdebstrap is not installed (apt-get install mmdebstrap)")

func makeNode(ctx context.Context, _ Config, dir string) error {
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		return ErrNoMmdebstrap
	}
	root := filepath.Join(dir, "root")
	cmd := exec.CommandContext(ctx, "mmdebstrap", "--mode=root", "--variant=extract", "--quiet",
		// The suite's index may look expired to a machine whose clock is not today's.
		`--aptopt=Acquire::Check-Valid-Until "false"`,
		"--include="+strings.Join(nodePackages(), ","), nodeSuite, root)
	// What it mounts below root is never seen by the machine, and goes with it when it is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("mmdebstrap: %w\n%s", err, output.Bytes())
	}
	return finishNode(root)
}

// finishNode does the little that the packages' scripts would have done and that a node needs.
func finishNode(root string) error {
	for link, target := range map[string]string{
		"usr/sbin/iptables": "iptables-nft", "usr/sbin/iptables-save": "iptables-nft-save",
		"usr/sbin/iptables-restore": "iptables-nft-restore", "usr/sbin/ip6tables": "ip6tables-nft",
		"usr/sbin/ip6tables-save": "ip6tables-nft-save", "usr/sbin/ip6tables-restore": "ip6tables-nft-restore",
	} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			return err
		}
	}
	for _, dir := range []string{
		"var/lib/containerd", "var/lib/kubelet", "var/log/pods", "var/log/containers", "etc/containerd",
		"etc/cni/net.d", "etc/kubernetes", "usr/local/bin", "lab", "run", "tmp",
	} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	for name, content := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
		"etc/group":  "root:x:0:\nnogroup:x:65534:\n",
		"etc/hosts":  "127.0.0.1 localhost\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}
