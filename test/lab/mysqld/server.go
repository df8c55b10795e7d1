package mysqld

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/bootstrap"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
)

const (
	bootTimeout = 2 * time.Minute
	// restartExitCode is how mysqld asks its supervisor to start it again, after RESTART and at the end of CLONE.
	restartExitCode = 16
)

// Options of one server.
type Options struct {
	// Name is the member's; default orders-<n>.
	Name string
	// ServerID defaults to a number of its own.
	ServerID uint32
	// Incarnation goes into the join token.
	Incarnation int
	// Unjoined leaves the server with its self-signed bootstrap certificate. Otherwise it has one of the cluster's CA.
	Unjoined bool
	// Settings are what spec.mysqld says.
	Settings map[string]string
	// Arguments are what mysqld is started with in addition, as the machine's script does for a volume that it adopts.
	Arguments []string
	// Environment are variables of mysqld's process, as NAME=value.
	Environment []string
	// Files are written into the server's folder /etc/nairobi-mysql before it boots, by their names there.
	Files map[string][]byte
	// IP and InstanceID default to those of the farm's own counting. IP must be an address of the farm's network.
	IP, InstanceID string
	// Authority is the CA of the server's cluster; default the farm's. Another one is for servers that begin Unjoined.
	Authority *pki.Authority
}

// Server is one mysqld with the directories of its instance.
type Server struct {
	Name string

	farm       *Farm
	options    Options
	ip         string
	dir        string
	instanceID string
	host       int // of addresses; 0 where its address was chosen by others

	mu      sync.Mutex
	process *os.Process
	stop    context.CancelFunc
	done    chan struct{}
}

// IP is the server's own loopback address.
func (s *Server) IP() string { return s.ip }

// Address is host:port.
func (s *Server) Address() string { return net.JoinHostPort(s.ip, strconv.Itoa(Port)) }

// DNSName is a name that the server's certificate carries.
func (s *Server) DNSName() string { return s.Name + ".orders.shop.svc" }

// InstanceID is what the server put into its seal.
func (s *Server) InstanceID() string { return s.instanceID }

// Incarnation is what the server's join token was made with.
func (s *Server) Incarnation() int { return s.options.Incarnation }

// Socket is where root@localhost gets in without a password, on the host.
func (s *Server) Socket() string { return filepath.Join(s.dir, "run", "mysqld.sock") }

// Data is the data directory, on the host.
func (s *Server) Data() string { return filepath.Join(s.dir, "volume", "data") }

// Exchange is where LOAD_FILE reads, on the host.
func (s *Server) Exchange() string { return filepath.Join(s.dir, "etc", "exchange") }

// ErrorLog is what mysqld wrote since the server was prepared.
func (s *Server) ErrorLog() string {
	text, err := os.ReadFile(filepath.Join(s.dir, "volume", "error.log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// mounts puts the server's directories where an instance has them, inside an overlay of the shared root file system,
// and becomes mysqld there.
const mounts = `set -e
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
mkdir -p "$2/root/etc/nairobi-mysql" "$2/root/var/lib/nairobi-mysql" "$2/root/run/mysqld" "$2/root/dev" "$2/root/proc"
mount --bind "$2/etc" "$2/root/etc/nairobi-mysql"
mount --bind "$2/volume" "$2/root/var/lib/nairobi-mysql"
mount --bind "$2/run" "$2/root/run/mysqld"
mount --rbind /dev "$2/root/dev"
mount -t proc proc "$2/root/proc"
dir="$2"
shift 2
exec chroot "$dir/root" /usr/bin/env "$@"`

// command is mysqld in its own mount namespace. It runs as root: a change of user would clear the death signal.
func (s *Server) command(ctx context.Context, arguments ...string) *exec.Cmd {
	server := slices.Concat(s.options.Environment, []string{"/usr/sbin/mysqld", "--defaults-file=" + bootstrap.ConfigDir + "/my.cnf"}, arguments)
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", mounts, "sh", s.farm.root, s.dir}, server...)...)
	// RESTART works only when this variable names the parent process, which on an instance is systemd, number 1.
	parent := "MYSQLD_PARENT_PID=" + strconv.Itoa(os.Getpid())
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", parent}
	cmd.Stdout, cmd.Stderr = s.farm.log, s.farm.log
	inMountNamespace(cmd)
	return cmd
}

// Boot starts a server that is down and returns when it accepts connections.
func (s *Server) Boot(ctx context.Context) error {
	s.mu.Lock()
	if s.stop != nil {
		s.mu.Unlock()
		return fmt.Errorf("boot %s: it is running", s.Name)
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop, s.done = stop, make(chan struct{})
	done := s.done
	s.mu.Unlock()

	failed := make(chan error, 1)
	go s.supervise(running, done, failed)
	go s.playPathUnit(running)

	deadline := time.Now().Add(bootTimeout)
	for time.Now().Before(deadline) {
		select {
		case err := <-failed:
			s.Kill()
			return fmt.Errorf("boot %s: %w\n%s", s.Name, err, s.ErrorLog())
		case <-time.After(50 * time.Millisecond):
		}
		if s.answers(ctx) {
			return nil
		}
	}
	s.Kill()
	return fmt.Errorf("boot %s: no answer after %s\n%s", s.Name, bootTimeout, s.ErrorLog())
}

// supervise runs mysqld, again and again while it asks for that. The thread must live as long as the child does.
func (s *Server) supervise(ctx context.Context, done chan struct{}, failed chan<- error) {
	defer close(done)
	if err := s.farm.private.enter(); err != nil {
		failed <- err
		return
	}
	defer func() {
		if err := s.farm.private.leave(); err != nil {
			fmt.Fprintf(s.farm.log, "%s: %v\n", s.Name, err)
		}
	}()
	for ctx.Err() == nil {
		cmd := s.command(ctx, s.options.Arguments...)
		if err := cmd.Start(); err != nil {
			failed <- err
			return
		}
		s.mu.Lock()
		s.process = cmd.Process
		s.mu.Unlock()
		err := cmd.Wait()
		s.mu.Lock()
		s.process = nil
		s.mu.Unlock()
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == restartExitCode {
			continue
		}
		if ctx.Err() == nil {
			failed <- fmt.Errorf("mysqld ended: %w", errors.Join(err, errors.New("not asked for")))
		}
		return
	}
}

// answers says whether MySQL greets a new connection.
func (s *Server) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	connection, err := s.farm.Dial(ctx, "tcp", s.Address())
	if err != nil {
		return false
	}
	defer connection.Close()
	if err := connection.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		return false
	}
	_, err = io.ReadFull(connection, make([]byte, 4))
	return err == nil
}

// Kill ends mysqld at once, as a power cut of the process alone does: what the kernel has is kept. It stays down until Boot.
func (s *Server) Kill() {
	s.mu.Lock()
	stop, done := s.stop, s.done
	s.stop = nil
	s.mu.Unlock()
	if stop != nil {
		stop()
		<-done
	}
}

// Freeze stops mysqld without ending it: connections are accepted by the kernel, and nothing answers.
func (s *Server) Freeze() error { return s.signal(syscall.SIGSTOP) }

// Thaw ends a Freeze.
func (s *Server) Thaw() error { return s.signal(syscall.SIGCONT) }

func (s *Server) signal(signal syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return fmt.Errorf("signal %s: it is down", s.Name)
	}
	return s.process.Signal(signal)
}

// Running says whether mysqld's process exists.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process != nil
}

// Booted says whether the server was booted and not killed since. Its process may be about to be started again.
func (s *Server) Booted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop != nil
}

// PID is the number of mysqld's process, 0 while there is none. Another one says that the server has restarted.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return 0
	}
	return s.process.Pid
}

// SQL runs statements as root@localhost with the command line client of the root file system and returns what it prints:
// rows without a header, columns apart by tabs.
func (s *Server) SQL(ctx context.Context, statements string) (string, error) {
	return s.SQLAs(ctx, "root", statements)
}

// SQLAs is SQL as another user at localhost without a password.
func (s *Server) SQLAs(ctx context.Context, user, statements string) (string, error) {
	s.mu.Lock()
	process := s.process
	s.mu.Unlock()
	if process == nil {
		return "", fmt.Errorf("run SQL on %s: it is down", s.Name)
	}
	// The server's root directory is reached through its process: it is in another mount namespace.
	cmd := exec.CommandContext(ctx, "chroot", fmt.Sprintf("/proc/%d/root", process.Pid),
		"/usr/bin/mysql", "--no-defaults", "--user="+user, "--socket=/run/mysqld/mysqld.sock", "--batch", "--skip-column-names")
	cmd.Stdin = strings.NewReader(statements)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run SQL on %s: %w: %s", s.Name, err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// Program makes the command of a program of the root file system that sees what the server sees: its socket, and its
// folder /etc/nairobi-mysql. A server that is down has none.
func (s *Server) Program(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	s.mu.Lock()
	process := s.process
	s.mu.Unlock()
	pid := 0
	if process != nil {
		pid = process.Pid
	}
	return exec.CommandContext(ctx, "chroot", append([]string{fmt.Sprintf("/proc/%d/root", pid), "/usr/bin/env", "-i", "PATH=/usr/bin:/bin", name}, arguments...)...)
}

// WriteFile puts a file into the server's folder /etc/nairobi-mysql.
func (s *Server) WriteFile(name string, content []byte) error { return s.write(name, content) }
