package mysqld

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// network is a network namespace with nothing but a loopback interface, to which every address of one prefix belongs. It
// has no name and ends with the last process in it. A nil network is the one that this process is in.
type network struct {
	own, farm *os.File
}

// newNetwork makes a network namespace in which every address of cidr is a local one.
func newNetwork(ctx context.Context, cidr string) (*network, error) {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return nil, fmt.Errorf("make a network of %q: %w", cidr, err)
	}
	first := netip.PrefixFrom(prefix.Masked().Addr().Next(), prefix.Bits())
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	n := &network{own: own}
	if n.farm, err = unshareNetwork(ctx, first.String()); err != nil {
		return nil, errors.Join(err, n.leave(), own.Close())
	}
	return n, n.leave()
}

// unshareNetwork moves the calling thread to a new network namespace and returns that.
func unshareNetwork(ctx context.Context, address string) (*os.File, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	for _, arguments := range [][]string{
		// On a loopback interface a prefix makes all of its addresses local.
		{"address", "add", address, "dev", "lo"},
		{"link", "set", "lo", "up"},
	} {
		if out, err := exec.CommandContext(ctx, "ip", arguments...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("ip %s: %w: %s", strings.Join(arguments, " "), err, out)
		}
	}
	return os.Open("/proc/thread-self/ns/net")
}

// enter locks the calling goroutine to its thread and moves that to the network. Call leave when it returned no error.
func (n *network) enter() error {
	runtime.LockOSThread()
	if n == nil {
		return nil
	}
	if err := unix.Setns(int(n.farm.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter the network of the farm: %w", err)
	}
	return nil
}

// leave undoes enter. A thread that cannot go back stays locked, so that nobody else runs on it. All others must live on:
// a child with a death signal dies with the thread that started it, and threads are shared with everybody.
func (n *network) leave() error {
	if n != nil {
		if err := unix.Setns(int(n.own.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("leave the network of the farm: %w", err)
		}
	}
	runtime.UnlockOSThread()
	return nil
}

// dial dials an address in the network. A socket belongs to the namespace in which it was made, and the dialer makes it
// on the calling thread when the address needs no resolver.
func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	var dialer net.Dialer
	if n == nil {
		return dialer.DialContext(ctx, kind, address)
	}
	if _, err := netip.ParseAddrPort(address); err != nil {
		return nil, fmt.Errorf("dial in the network of the farm: %w", err)
	}
	if err := n.enter(); err != nil {
		return nil, err
	}
	connection, err := dialer.DialContext(ctx, kind, address)
	if back := n.leave(); back != nil {
		if connection != nil {
			connection.Close()
		}
		return nil, back
	}
	return connection, err
}

func (n *network) close() error {
	if n == nil {
		return nil
	}
	n.own.Close()
	return n.farm.Close()
}
