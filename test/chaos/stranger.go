package chaos

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/rootfs"
)

const (
	// strangerAccount is what the stranger replicates with.
	strangerAccount = "chaos_stranger"
	// strangerServerID is a server_id that no member has: theirs are small.
	strangerServerID = 4077
	// strangerDir begins the name of a stranger's directory; the process id follows.
	strangerDir = "nairobi-stranger-"
	// strangerBoot bounds the initialisation and the start of mysqld on a busy machine.
	strangerBoot = 2 * time.Minute
	// strangerConnect bounds the wait for the source to accept the stranger as a semi-synchronous replica.
	strangerConnect = 15 * time.Second
)

// strangerSettings keep mysqld small, and it reaches others without being reached itself. What it acknowledges need not be on
// disk: such a replica is the more dangerous.
var strangerSettings = []string{
	"--user=root", "--skip-networking", "--secure-file-priv=NULL", "--mysqlx=OFF", "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--skip-replica-start",
	"--innodb-buffer-pool-size=32M", "--innodb-redo-log-capacity=16M", "--innodb-use-native-aio=0", "--innodb-flush-log-at-trx-commit=0",
	"--performance-schema=ON", "--plugin-load-add=semisync_replica.so", "--loose-rpl-semi-sync-replica-enabled=ON",
}

// stranger is a mysqld that is no member of the cluster and replicates from its primary, as a replica for analytics does. It
// is a process of this instance, which has an address in the lab's network beside those of the members and of the node, so
// that cuts between these leave it connected. It dies with this process.
type stranger struct {
	dir string
	db  *sql.DB
	// ended is closed when mysqld has ended.
	ended chan struct{}
	stop  context.CancelFunc
}

// startStranger initialises and starts a stranger, and returns when it answers. Remove it.
func startStranger(ctx context.Context) (*stranger, error) {
	ctx, cancel := context.WithTimeout(ctx, strangerBoot)
	defer cancel()
	program, err := mysqld.HostPrograms(ctx)
	if err != nil {
		return nil, err
	}
	plugins, err := pluginDir(ctx)
	if err != nil {
		return nil, err
	}
	removeLeftStrangers()
	// Short: the path of a socket has at most 107 bytes.
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", strangerDir, os.Getpid()))
	if err != nil {
		return nil, err
	}
	s := &stranger{dir: dir, ended: make(chan struct{})}
	common := []string{"--no-defaults", "--datadir=" + filepath.Join(dir, "data"), "--log-error=" + s.errorLog(), "--plugin-dir=" + plugins}
	if out, err := program(ctx, "mysqld", append(common, "--user=root", "--initialize-insecure")...).CombinedOutput(); err != nil {
		close(s.ended)
		return nil, errors.Join(fmt.Errorf("initialise the stranger: %w: %s%s", err, out, s.said()), s.remove())
	}
	running, stop := context.WithCancel(context.Background())
	s.stop = stop
	common = append(common, "--socket="+s.socket(), "--pid-file="+filepath.Join(dir, "pid"), fmt.Sprintf("--server-id=%d", strangerServerID))
	if err := s.run(program(running, "mysqld", append(common, strangerSettings...)...)); err != nil {
		return nil, errors.Join(err, s.remove())
	}
	if err := s.connect(ctx); err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return s, nil
}

// pluginDir is where the plug-ins of the lab's mysqld are.
func pluginDir(ctx context.Context) (string, error) {
	root, err := rootfs.Ensure(ctx, "", os.Stderr, rootfs.Instance)
	if err != nil {
		return "", err
	}
	var found []string
	for _, pattern := range []string{"/usr/lib*/mysql/plugin", "/usr/lib/*/mysql/plugin"} {
		dirs, _ := filepath.Glob(root + pattern) // the pattern is correct
		found = append(found, dirs...)
	}
	if len(found) == 0 {
		return "", fmt.Errorf("no plug-ins of mysqld in %s", root)
	}
	return found[0], nil
}

// removeLeftStrangers deletes the directories of strangers whose process was killed. Their servers died with it.
func removeLeftStrangers() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), strangerDir+"*")) // the pattern is correct
	for _, dir := range dirs {
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(dir), strangerDir+"%d-", &pid); err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir) // the next stranger tries again
		}
	}
}

func (s *stranger) socket() string   { return filepath.Join(s.dir, "mysqld.sock") }
func (s *stranger) errorLog() string { return filepath.Join(s.dir, "error.log") }

// said is the end of the stranger's error log.
func (s *stranger) said() string {
	const most = 2000
	text, err := os.ReadFile(s.errorLog())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// run starts mysqld. A child with a death signal dies with the thread that started it, so that thread waits for its end.
func (s *stranger) run(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(s.ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // it is killed
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start the stranger: %w", err)
	}
	return nil
}

// connect waits until the stranger answers on its socket.
func (s *stranger) connect(ctx context.Context) error {
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr = "root", "unix", s.socket()
	config.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return err
	}
	s.db = sql.OpenDB(connector)
	for err = s.db.PingContext(ctx); err != nil; err = s.db.PingContext(ctx) {
		select {
		case <-s.ended:
			return fmt.Errorf("the stranger ended: %s", s.said())
		case <-ctx.Done():
			return fmt.Errorf("the stranger does not answer: %w: %s", err, s.said())
		case <-time.After(redialPace):
		}
	}
	return nil
}

// replicate receives what the source commits from now on, without applying it, and waits until the source accepts the
// stranger as a semi-synchronous replica. executed is what the source has executed: its older binary logs may be purged.
func (s *stranger) replicate(ctx context.Context, address, password, executed string) error {
	ctx, cancel := context.WithTimeout(ctx, strangerConnect)
	defer cancel()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
	for _, statement := range []string{
		"SET GLOBAL gtid_purged = " + quote(executed),
		"CHANGE REPLICATION SOURCE TO SOURCE_HOST=" + quote(host) + ", SOURCE_PORT=" + port + ", SOURCE_USER=" + quote(strangerAccount) +
			", SOURCE_PASSWORD=" + quote(password) + ", SOURCE_SSL=1, SOURCE_AUTO_POSITION=1, SOURCE_CONNECT_RETRY=1",
		"START REPLICA IO_THREAD",
	} {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			verb, _, _ := strings.Cut(statement, " =") // without the password
			return fmt.Errorf("stranger: %.40s: %w", verb, err)
		}
	}
	for {
		acknowledges, trouble, err := s.state(ctx)
		if err == nil && acknowledges {
			return nil
		}
		if pause(ctx, redialPace) != nil {
			return errors.Join(fmt.Errorf("the source does not accept the stranger's acknowledgements within %s: %s", strangerConnect, trouble), err)
		}
	}
}

// state says whether the stranger acknowledges what it receives, and otherwise what the receiver's last error is.
func (s *stranger) state(ctx context.Context) (acknowledges bool, trouble string, err error) {
	var status, receiver string
	err = s.db.QueryRowContext(ctx, `SELECT COALESCE((SELECT VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Rpl_semi_sync_replica_status'), ''),
		SERVICE_STATE, LAST_ERROR_MESSAGE FROM performance_schema.replication_connection_status`).Scan(&status, &receiver, &trouble)
	return status == "ON" && receiver == "ON", trouble, err
}

// remove ends the stranger and deletes what it had.
func (s *stranger) remove() error {
	var err error
	if s.db != nil {
		err = s.db.Close()
	}
	if s.stop != nil {
		s.stop()
	}
	<-s.ended
	return errors.Join(err, os.RemoveAll(s.dir))
}
