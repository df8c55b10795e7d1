package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// claimName is an abstract socket: the kernel drops it with its owner, and it leaves no file behind.
const claimName = "@nairobi-lab"

// claimAnswer bounds asking another lab for its name.
const claimAnswer = time.Second

// ErrClaimed says that another lab runs on this machine.
var ErrClaimed = errors.New("another lab runs on this machine")

// Claim is held by the one lab that runs on a machine: labs share the names and addresses of what they make,
// wherever they keep their state.
type Claim struct{ listener net.Listener }

// ClaimMachine takes the machine for the lab in dir. It returns ErrClaimed, with the other lab's directory, when it
// is taken.
func ClaimMachine(ctx context.Context, dir string) (*Claim, error) {
	return claim(ctx, claimName, dir)
}

func claim(ctx context.Context, name, dir string) (*Claim, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", name)
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("%w, in %s", ErrClaimed, claimant(ctx, name))
	}
	if err != nil {
		return nil, fmt.Errorf("claim the machine: %w", err)
	}
	go func() {
		for {
			caller, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(caller, dir)
			_ = caller.Close()
		}
	}()
	return &Claim{listener: listener}, nil
}

func claimant(ctx context.Context, name string) string {
	ctx, cancel := context.WithTimeout(ctx, claimAnswer)
	defer cancel()
	owner, err := (&net.Dialer{}).DialContext(ctx, "unix", name)
	if err != nil {
		return "an unknown directory"
	}
	defer owner.Close()
	if err := owner.SetDeadline(time.Now().Add(claimAnswer)); err != nil {
		return "an unknown directory"
	}
	dir, err := io.ReadAll(owner)
	if err != nil || len(dir) == 0 {
		return "an unknown directory"
	}
	return string(dir)
}

// Release gives the machine back.
func (c *Claim) Release() error { return c.listener.Close() }

// ErrForeign says that something of that name is there already and is not ours.
var ErrForeign = errors.New("it exists already and this lab did not make it; is there another lab?")

// foreign says whether the resource is there before we make it. Undoing the entry would then take away somebody
// else's, so the entry must not be made. Kinds whose names cannot be another lab's are never foreign.
func foreign(entry Entry) (bool, error) {
	var path string
	switch entry.Kind {
	case KindNetNS:
		path = filepath.Join(netNSDir, entry.Name)
	case KindLink:
		if entry.NetNS != "" {
			return false, nil // the namespace is ours, or it would have been refused
		}
		path = filepath.Join("/sys/class/net", entry.Name)
	case KindCgroup:
		path = entry.Path
	case KindProcess, KindMount, KindLoop, KindDir, KindFile, KindSysctl:
		return false, nil
	default:
		return false, nil
	}
	_, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// outlivesBoot says whether a resource can still be there after the machine has started anew.
func (k Kind) outlivesBoot() bool { return k == KindDir || k == KindFile }

// bootID identifies the time between two starts of the machine.
func bootID() (string, error) {
	content, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the boot's id: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}
