// Package mysqld runs real mysqld servers on this machine for tests: the server of the lab's instance root file system,
// with an instance's paths and settings, each in a mount namespace of its own, on a loopback address of its own.
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
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/rootfs"
)

// Port is what every server listens on, each on its own address.
const Port = 3306

// dirPrefix begins the name of a farm's directory; the process id follows.
const dirPrefix = "nairobi-mysqld-"

// initialiseTimeout bounds mysqld --initialize, which takes three to six seconds on an idle machine.
const initialiseTimeout = 2 * time.Minute

// Farm holds what the servers of one cluster share: root file system, authority and an initialised data directory.
type Farm struct {
	// Authority is the cluster's CA.
	Authority *pki.Authority

	root     string // instance root file system, read-only
	dir      string // everything that the farm writes
	network  string // first three bytes of its loopback addresses
	operator struct{ cert, key []byte }
	log      io.Writer

	mu      sync.Mutex
	servers []*Server
	next    int
}

// NewFarm prepares a farm in a new directory under the system's temporary one. What mysqld and the builders say goes to log.
// Close it.
func NewFarm(ctx context.Context, log io.Writer) (*Farm, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("real servers need root: namespaces and mounts")
	}
	root, err := rootfs.Ensure(ctx, "", log, rootfs.Instance)
	if err != nil {
		return nil, err
	}
	removeLeftovers()
	// Short: a socket's path has at most 107 bytes.
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", dirPrefix, os.Getpid()))
	if err != nil {
		return nil, err
	}
	f := &Farm{root: root, dir: dir, log: log}
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

// removeLeftovers deletes the directories of farms whose process was killed. Their servers died with it.
func removeLeftovers() {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	if err != nil {
		return
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
	s := &Server{farm: f, Name: "template", ip: "127.0.0.1", dir: filepath.Join(f.dir, "template"), options: Options{ServerID: 1}}
	if err := s.prepare(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, initialiseTimeout)
	defer cancel()
	cmd := s.command(ctx, "--initialize-insecure")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("initialise a data directory: %w\n%s", err, s.ErrorLog())
	}
	return os.Remove(filepath.Join(s.dir, "volume", "data", "auto.cnf"))
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
	s := &Server{
		farm: f, Name: o.Name, options: o, ip: fmt.Sprintf("%s.%d", f.network, n),
		dir: filepath.Join(f.dir, fmt.Sprint(n)), instanceID: fmt.Sprintf("i-%017x", n),
	}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	volume := filepath.Join(s.dir, "volume")
	if err := os.RemoveAll(volume); err != nil {
		return nil, err
	}
	copying := exec.CommandContext(ctx, "cp", "-a", "--reflink=auto", filepath.Join(f.dir, "template", "volume"), volume)
	if out, err := copying.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copy the data directory: %w: %s", err, out)
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
	}
	return os.RemoveAll(f.dir)
}

// inMountNamespace makes cmd a child with its own mounts that dies with the thread that starts it.
func inMountNamespace(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
}
