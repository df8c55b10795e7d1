package conn

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
)

// TestReasonsAreTheSame for connections from different ports.
func TestReasonsAreTheSame(t *testing.T) {
	reset := func(port int) error {
		return &net.OpError{
			Op: "read", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: port}, Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 3306},
			Err: os.NewSyscallError("read", syscall.ECONNRESET),
		}
	}
	if one, other := Reason(reset(40000)), Reason(reset(40001)); one != other || one != "read tcp 10.0.0.2:3306: read: connection reset by peer" {
		t.Errorf("%q and %q", one, other)
	}
	if got := Reason(errors.New("Access denied")); got != "Access denied" {
		t.Errorf("%q", got)
	}
}
