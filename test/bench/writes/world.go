package writes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/alx-ke/nairobi-mysql-operator/internal/bootstrap"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/probe"
	"github.com/alx-ke/nairobi-mysql-operator/test/bench/disk"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

const (
	// members is how many the cluster has.
	members = 3
	// patience bounds every wait for servers that do something by themselves.
	patience = 2 * time.Minute
	// library is the name of the disk's library in a server's configuration folder.
	library = "disk.so"
	// cluster is the prober's name for the cluster.
	cluster = "orders"
)

// asOnAnInstance gives a server of the farm, which is made for small tests, what an instance would have.
var asOnAnInstance = []string{
	"--innodb-buffer-pool-size=128M", "--innodb-redo-log-capacity=512M", "--innodb-log-buffer-size=16M", "--innodb-page-cleaners=4",
	"--table-open-cache=4000", "--table-definition-cache=2000", "--max-connections=1000", "--max-prepared-stmt-count=100000",
}

// node is a server with the operator's way to it and with root's.
type node struct {
	server *mysqld.Server
	member *admin.Member
	root   *sql.DB
}

// world is a cluster and a server without replicas.
type world struct {
	farm    *mysqld.Farm
	pool    *conn.Pool
	prober  *probe.Prober
	alone   *node
	cluster []*node // the first is the primary
}

// newWorld starts the servers, whose files must be in memory, and fills them. Close it, also after an error.
func newWorld(ctx context.Context, folder string, d disk.Disk) (*world, error) {
	slow := conn.Options{DialTimeout: time.Minute, StatementTimeout: time.Minute, ChangeTimeout: time.Minute}
	w := &world{pool: conn.NewPool(slow), prober: probe.NewProber(probe.ProberOptions{Pool: slow})}
	path, err := disk.Library(ctx, folder)
	if err != nil {
		return w, err
	}
	code, err := os.ReadFile(path)
	if err != nil {
		return w, err
	}
	if w.farm, err = mysqld.NewFarm(ctx, os.Stderr); err != nil {
		return w, err
	}
	options := mysqld.Options{
		Arguments: asOnAnInstance, Files: map[string][]byte{library: code},
		Environment: d.Environment(filepath.Join(bootstrap.ConfigDir, library)),
	}
	nodes := make([]*node, members+1)
	group, starting := errgroup.WithContext(ctx)
	for i := range nodes {
		group.Go(func() (err error) {
			nodes[i], err = w.start(starting, options)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return w, err
	}
	w.cluster, w.alone = nodes[:members], nodes[members]
	return w, w.assemble(ctx)
}

func (w *world) start(ctx context.Context, o mysqld.Options) (*node, error) {
	s, err := w.farm.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(checkInMemory(s.Data()), checkPreloaded(s.PID())); err != nil {
		return nil, err
	}
	c := driver.NewConfig()
	c.User, c.Net, c.Addr, c.DBName = "root", "unix", s.Socket(), "mysql"
	connector, err := driver.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("reach %s: %w", s.Name, err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(2)
	return &node{server: s, member: admin.Open(w.pool, w.endpoint(s), w.identity()), root: db}, nil
}

// checkInMemory fails for files on a disk, whose own latency would be measured as well.
func checkInMemory(path string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return fmt.Errorf("find out where %s is: %w", path, err)
	}
	if fs.Type != unix.TMPFS_MAGIC {
		return fmt.Errorf("%s is on a disk; run the benchmark through hack/in-memory.sh, as the Makefile does", path)
	}
	return nil
}

// checkPreloaded fails for a process without the disk's library: the dynamic linker only warns of one that it cannot load.
func checkPreloaded(pid int) error {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err == nil && !strings.Contains(string(maps), "/"+library+"\n") {
		err = fmt.Errorf("process %d has not loaded %s, so its disk would be as fast as memory", pid, library)
	}
	return err
}

func (w *world) endpoint(s *mysqld.Server) mysql.Endpoint {
	return mysql.Endpoint{Key: "uid/" + s.Name + "/" + s.InstanceID(), Address: s.Address(), ServerName: s.DNSName()}
}

func (w *world) identity() mysql.Identity {
	ca, cert, key := w.farm.OperatorIdentity()
	return mysql.Identity{CAPEM: ca, CertPEM: cert, KeyPEM: key}
}

// assemble opens the primary and the server without replicas, fills both, and makes the others replicas of the first.
func (w *world) assemble(ctx context.Context) error {
	primary := w.cluster[0]
	for _, n := range []*node{primary, w.alone} {
		if err := n.member.Promote(ctx, mysql.PromoteSpec{}); err != nil {
			return err
		}
		row := mysql.Membership{Epoch: 1, Primary: n.server.Name, Voters: []string{n.server.Name}, W: 1}
		if err := n.member.WriteMembership(ctx, 0, row); err != nil {
			return err
		}
		if err := fill(ctx, n.root); err != nil {
			return err
		}
	}
	for _, n := range w.replicas() {
		if err := n.member.ReplicateFrom(ctx, primary.server.IP(), mysqld.Port); err != nil {
			return err
		}
	}
	return w.caughtUp(ctx, w.replicas())
}

func (w *world) replicas() []*node { return w.cluster[1:] }

func (w *world) close() error {
	w.prober.Close()
	w.pool.Close()
	for _, n := range append([]*node{w.alone}, w.cluster...) {
		if n != nil {
			n.root.Close()
		}
	}
	if w.farm == nil {
		return nil
	}
	return w.farm.Close()
}

// caughtUp waits until replicas have executed what the primary has by now.
func (w *world) caughtUp(ctx context.Context, replicas []*node) error {
	done, err := w.reached(ctx, replicas)
	if err != nil {
		return err
	}
	return waitFor(ctx, patience, "replicas to apply what they received", done)
}

// reached returns a function that says whether replicas have executed what the primary has by now.
func (w *world) reached(ctx context.Context, replicas []*node) (func() (bool, error), error) {
	want, err := w.cluster[0].executed(ctx)
	return func() (bool, error) {
		for _, n := range replicas {
			if has, err := n.executed(ctx); err != nil || has < want {
				return false, err
			}
		}
		return true, nil
	}, err
}

var errInVain = errors.New("waited in vain")

// waitFor waits until something is done. The error is errInVain when that takes longer than the limit.
func waitFor(ctx context.Context, limit time.Duration, what string, done func() (bool, error)) error {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); sleep(ctx, 10*time.Millisecond) {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("%w for %s", errInVain, what)
}

// executed is how many transactions a server has executed. All of a cluster's come from its first primary.
func (n *node) executed(ctx context.Context) (uint64, error) {
	var text string
	if err := n.root.QueryRowContext(ctx, "SELECT @@GLOBAL.gtid_executed").Scan(&text); err != nil {
		return 0, fmt.Errorf("read what %s has executed: %w", n.server.Name, err)
	}
	set, err := gtid.Parse(text)
	if err != nil {
		return 0, fmt.Errorf("read what %s has executed: %w", n.server.Name, err)
	}
	return set.Count(), nil
}

// status reads a status variable that is a number.
func (n *node) status(ctx context.Context, name string) (value int, err error) {
	err = n.root.QueryRowContext(ctx, "SELECT VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME = ?", name).Scan(&value)
	if err != nil {
		err = fmt.Errorf("read %s of %s: %w", name, n.server.Name, err)
	}
	return value, err
}

// exec runs statements one after the other.
func (n *node) exec(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if _, err := n.root.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %.60s: %w", n.server.Name, s, err)
		}
	}
	return nil
}

// purge deletes the binary logs that nobody needs any more, because memory is short.
func (w *world) purge(ctx context.Context) error {
	for _, n := range append([]*node{w.alone}, w.cluster...) {
		if err := n.exec(ctx, "FLUSH LOCAL BINARY LOGS"); err != nil {
			return err
		}
		var name string
		if err := n.root.QueryRowContext(ctx, "SELECT LOCAL->>'$.binary_log_file' FROM performance_schema.log_status").Scan(&name); err != nil {
			return fmt.Errorf("find the binary log of %s: %w", n.server.Name, err)
		}
		if err := n.exec(ctx, "PURGE BINARY LOGS TO '"+name+"'"); err != nil {
			return err
		}
	}
	return nil
}
