// Package mysqld runs real mysqld servers on this machine for tests: the server of the lab's instance root file system,
// with an instance's paths and settings, each in a mount namespace of its own, on an address of its own: of this machine's
// loopback network, or of a network that only the farm's servers and its Dial are in.
//
// What is real: mysqld, its TLS, replication, semi-sync, CLONE and RESTART. What stands in for the instance: a goroutine
// that plays the unit which takes certificates into use, and one that plays systemd's restart on exit code 16.
// It needs root. Nothing outlives the test process.
package mysqld

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/settings"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/rootfs"
)

// Port is what every server listens on, each on its own address.
const Port = 3306

// dirPrefix begins the name of a farm's directory; the process id follows.
const dirPrefix = "nairobi-mysqld-"

const (
	// memoryDir is a file system in memory on every common Linux.
	memoryDir = "/dev/shm"
	// enoughMemory, in bytes, has room for the 120 MB of each of some dozen servers.
	enoughMemory = 6 << 30
)

// initialiseTimeout bounds mysqld --initialize, which takes three to six seconds on an idle machine.
const initialiseTimeout = 2 * time.Minute

// Farm holds what the servers of one cluster share: root file system, authority and an initialised data directory.
type Farm struct {
	// Authority is the cluster's CA.
	Authority *pki.Authority

	root     string   // instance root file system, read-only
	dir      string   // everything that the farm writes
	network  string   // first three bytes of its loopback addresses
	private  *network // where the servers are instead; nil for this machine's network
	operator struct{ cert, key []byte }
	log      io.Writer

	mu      sync.Mutex
	servers []*Server
	next    int
}

// NewFarm prepares a farm in a new temporary directory, in memory where there is plenty, on this machine's loopback
// network. What mysqld and the builders say goes to log. Close it.
func NewFarm(ctx context.Context, log io.Writer) (*Farm, error) {
	return newFarm(ctx, log, nil, workDir())
}

// NewDiskFarm is NewFarm where temporary files go: for servers with more data than memory should hold.
func NewDiskFarm(ctx context.Context, log io.Writer) (*Farm, error) {
	return newFarm(ctx, log, nil, os.TempDir())
}

// NewPrivateFarm is NewFarm in a network namespace of its own, in which every address of cidr is a local one: so servers
// can have addresses that somebody else chose, such as EC2. Only Dial reaches them.
func NewPrivateFarm(ctx context.Context, log io.Writer, cidr string) (*Farm, error) {
	private, err := newNetwork(ctx, cidr)
	if err != nil {
		return nil, err
	}
	f, err := newFarm(ctx, log, private, workDir())
	if err != nil {
		return nil, errors.Join(err, private.close())
	}
	return f, nil
}

func newFarm(ctx context.Context, log io.Writer, private *network, parent string) (*Farm, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("real servers need root: namespaces and mounts")
	}
	root, err := rootfs.Ensure(ctx, "", log, rootfs.Instance)
	if err != nil {
		return nil, err
	}
	removeLeftovers()
	// Short: a socket's path has at most 107 bytes.
	dir, err := os.MkdirTemp(parent, fmt.Sprintf("%s%d-", dirPrefix, os.Getpid()))
	if err != nil {
		return nil, err
	}
	f := &Farm{root: root, dir: dir, log: log, private: private}
	// The process id makes the addresses unique among test processes of this machine.
	pid := os.Getpid()
	f.network = fmt.Sprintf("127.%d.%d", 100+pid>>8&0x7f, pid&0xff)
	uid := make([]byte, 16)
	if _, err := rand.Read(uid); err != nil {
		return nil, err
	}
	now := time.Now()
	if f.Authority, err = pki.NewAuthority(hex.EncodeToString(uid), "orders", now); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if f.operator.cert, f.operator.key, err = f.Authority.IssueOperator(now); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := f.makeTemplate(ctx); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// workDir is where farms make their directories: in memory, because what they hold ends with them and mysqld waits for
// every commit to reach the disk; else, and when memory is short, where temporary files go.
func workDir() string {
	var fs unix.Statfs_t
	if err := unix.Statfs(memoryDir, &fs); err != nil || fs.Type != unix.TMPFS_MAGIC || int64(fs.Bavail)*fs.Bsize < enoughMemory {
		return os.TempDir()
	}
	return memoryDir
}

// addresses are the last numbers of the addresses that servers of this process have: all its farms share one network.
type addresses struct {
	mu   sync.Mutex
	last int
	used map[int]bool
}

var hosts = addresses{used: map[int]bool{}}

// lastHost is the last number of a network that is not its broadcast address.
const lastHost = 254

func (a *addresses) take() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	for range lastHost {
		if a.last = a.last%lastHost + 1; !a.used[a.last] {
			break // with all of them in use mysqld says that its address is taken
		}
	}
	a.used[a.last] = true
	return a.last
}

// free gives an address back; 0 stands for none.
func (a *addresses) free(host int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if host != 0 {
		delete(a.used, host)
	}
}

// removeLeftovers deletes the directories of farms whose process was killed. Their servers died with it.
func removeLeftovers() {
	var dirs []string
	for _, parent := range []string{memoryDir, os.TempDir()} {
		found, err := filepath.Glob(filepath.Join(parent, dirPrefix+"*"))
		if err != nil {
			return
		}
		dirs = append(dirs, found...)
	}
	for _, dir := range dirs {
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(dir), dirPrefix+"%d-", &pid); err != nil {
			continue
		}
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			os.RemoveAll(dir)
		}
	}
}

// OperatorIdentity returns the CA's certificate and the operator's certificate and key, in PEM.
func (f *Farm) OperatorIdentity() (ca, cert, key []byte) {
	return f.Authority.CertificatePEM(), f.operator.cert, f.operator.key
}

// makeTemplate initialises one data directory, which each server starts from a copy of.
func (f *Farm) makeTemplate(ctx context.Context) error {
	s := &Server{farm: f, Name: "template", ip: "127.0.0.1", dir: filepath.Join(f.dir, "template"), options: Options{ServerID: 1, Authority: f.Authority}}
	if err := s.prepare(); err != nil {
		return err
	}
	if err := s.initialise(ctx); err != nil {
		return err
	}
	return os.Remove(filepath.Join(s.dir, "volume", "data", "auto.cnf"))
}

// initialise makes the data directory of a server.
func (s *Server) initialise(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, initialiseTimeout)
	defer cancel()
	if err := s.command(ctx, "--initialize-insecure").Run(); err != nil {
		return fmt.Errorf("initialise a data directory: %w\n%s", err, s.ErrorLog())
	}
	return nil
}

// fill gives a server a copy of the template's data directory, or one of its own where a setting is fixed when that is made.
func (s *Server) fill(ctx context.Context) error {
	if len(settings.AtCreation(s.options.Settings)) > 0 {
		return s.initialise(ctx)
	}
	volume := filepath.Join(s.dir, "volume")
	if err := os.RemoveAll(volume); err != nil {
		return err
	}
	copying := exec.CommandContext(ctx, "cp", "-a", "--reflink=auto", filepath.Join(s.farm.dir, "template", "volume"), volume)
	if out, err := copying.CombinedOutput(); err != nil {
		return fmt.Errorf("copy the data directory: %w: %s", err, out)
	}
	return nil
}

// Start prepares and boots a server, and returns when it accepts connections.
func (f *Farm) Start(ctx context.Context, o Options) (*Server, error) {
	f.mu.Lock()
	f.next++
	n := f.next
	f.mu.Unlock()
	if o.ServerID == 0 {
		o.ServerID = uint32(16 + n)
	}
	if o.Name == "" {
		o.Name = fmt.Sprintf("orders-%d", n-1)
	}
	host := 0
	if o.IP == "" {
		host = hosts.take()
		o.IP = fmt.Sprintf("%s.%d", f.network, host)
	}
	if o.InstanceID == "" {
		o.InstanceID = fmt.Sprintf("i-%017x", n)
	}
	if o.Authority == nil {
		o.Authority = f.Authority
	}
	s := &Server{farm: f, Name: o.Name, options: o, ip: o.IP, dir: filepath.Join(f.dir, fmt.Sprint(n)), instanceID: o.InstanceID, host: host}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	if err := s.fill(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.servers = append(f.servers, s)
	f.mu.Unlock()
	return s, s.Boot(ctx)
}

// Close ends every server and deletes the farm's directory.
func (f *Farm) Close() error {
	f.mu.Lock()
	servers := f.servers
	f.servers = nil
	f.mu.Unlock()
	for _, s := range servers {
		s.Kill()
		hosts.free(s.host)
	}
	return errors.Join(f.private.close(), os.RemoveAll(f.dir))
}

// Discard ends a server and deletes all that it had, as the end of an instance and its volume does.
func (f *Farm) Discard(s *Server) error {
	s.Kill()
	hosts.free(s.host)
	f.mu.Lock()
	f.servers = slices.DeleteFunc(f.servers, func(other *Server) bool { return other == s })
	f.mu.Unlock()
	return os.RemoveAll(s.dir)
}

// Dial is net.Dialer's DialContext from where the servers are.
func (f *Farm) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return f.private.dial(ctx, network, address)
}

// inMountNamespace makes cmd a child with its own mounts that dies with the thread that starts it.
func inMountNamespace(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
}
