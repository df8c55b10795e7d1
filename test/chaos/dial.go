package chaos

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// nodeNetwork dials from the network namespace of the Kubernetes node, where kube-proxy gives Services their addresses and
// from where connections to members come as those of pods do.
type nodeNetwork struct {
	// pid is a process in that namespace.
	pid int
}

// dial connects to an address of the node's network. The socket stays in its namespace; no thread does.
func (n nodeNetwork) dial(ctx context.Context, network, address string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		conn, err := n.dialHere(ctx, network, address)
		done <- result{conn, err}
	}()
	r := <-done
	return r.conn, r.err
}

// dialHere moves its thread to the node's network for the time of the call. A thread that cannot come home ends with its
// goroutine.
func (n nodeNetwork) dialHere(ctx context.Context, network, address string) (net.Conn, error) {
	runtime.LockOSThread()
	home, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open our own network namespace: %w", err)
	}
	defer func() { _ = unix.Close(home) }()
	away, err := unix.Open("/proc/"+strconv.Itoa(n.pid)+"/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the node's network namespace: %w", err)
	}
	defer func() { _ = unix.Close(away) }()
	if err := unix.Setns(away, unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("enter the node's network namespace: %w", err)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if unix.Setns(home, unix.CLONE_NEWNET) == nil {
		runtime.UnlockOSThread()
	}
	return conn, err
}
