package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/bootstrap"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// ErrServer: the throw-away mysqld did not start, or ended by itself.
var ErrServer = errors.New("the throw-away mysqld failed")

const (
	// scratchUser owns a server that was initialised without a password. Nobody else reaches its socket.
	scratchUser = "root"
	// scratchPatience bounds how long a new mysqld takes to answer; seconds on any instance.
	scratchPatience = 5 * time.Minute
	// scratchPoll is how often it is asked.
	scratchPoll = 200 * time.Millisecond
)

// scratchSettings make a server that holds data for a while only: it need not survive a crash, and has a few hundred MiB
// of memory and of redo log at most. It is closed to writes and has a binary log as a new cluster's member, so that the same code restores into it and
// the server refuses the same. They come after the cluster's settings, which are for larger instances.
var scratchSettings = []string{
	"--skip-networking", "--mysqlx=OFF", "--read-only=ON", "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--log-bin=binlog",
	"--event-scheduler=OFF", "--innodb-doublewrite=OFF", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=256M",
	"--innodb-dedicated-server=OFF", "--innodb-redo-log-capacity=256M", "--innodb-log-buffer-size=16M", "--key-buffer-size=8M", "--large-pages=OFF", "--max-user-connections=0",
	"--performance-schema=OFF", "--max-connections=20", "--max-allowed-packet=1G", "--secure-file-priv=NULL",
}

// scratchOptions are the cluster's settings for a throw-away mysqld.
type scratchOptions struct {
	// creation decide what a data directory is like, and count when it is initialised and later. launch count when the server starts.
	creation, launch map[string]string
}

// scratch is a mysqld of its own in a folder of its own, both of which end with it.
type scratch struct {
	dir, socket string
	cmd         *exec.Cmd
	ended       chan struct{}
	said        *tail
}

// startScratch initialises and starts a server in a new folder below dir.
func startScratch(ctx context.Context, dir string, program func(context.Context, string, ...string) *exec.Cmd, o scratchOptions) (*scratch, error) {
	own, err := os.MkdirTemp(dir, "mysqld-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the throw-away mysqld: %w", err)
	}
	s := &scratch{dir: own, socket: filepath.Join(own, "s"), ended: make(chan struct{}), said: &tail{}}
	if err := s.start(ctx, program, o); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *scratch) start(ctx context.Context, program func(context.Context, string, ...string) *exec.Cmd, o scratchOptions) error {
	if err := os.Mkdir(filepath.Join(s.dir, "tmp"), 0o700); err != nil {
		return fmt.Errorf("make a folder for the throw-away mysqld: %w", err)
	}
	initialise, err := s.command(ctx, program, o.creation, "--initialize-insecure")
	if err != nil {
		return err
	}
	if err := initialise.Run(); err != nil {
		return s.failed("initialise it", err)
	}
	all := maps.Clone(o.launch)
	maps.Copy(all, o.creation)
	server, err := s.command(ctx, program, all)
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return s.failed("start it", err)
	}
	s.cmd = server
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait()
	}()
	return s.await(ctx)
}

// command returns a run of mysqld in the server's folder, with settings of the cluster and, after them, scratchSettings.
func (s *scratch) command(ctx context.Context, program func(context.Context, string, ...string) *exec.Cmd, settings map[string]string, more ...string) (*exec.Cmd, error) {
	options := filepath.Join(s.dir, "settings.cnf")
	if err := os.WriteFile(options, []byte(bootstrap.RenderOptions(settings)), 0o600); err != nil {
		return nil, fmt.Errorf("write the settings of the throw-away mysqld: %w", err)
	}
	arguments := []string{
		"--defaults-file=" + options, "--datadir=" + filepath.Join(s.dir, "data"), "--tmpdir=" + filepath.Join(s.dir, "tmp"),
		"--socket=" + s.socket, "--pid-file=" + filepath.Join(s.dir, "pid"),
	}
	if os.Geteuid() == 0 {
		arguments = append(arguments, "--user=root") // which mysqld does not do unasked
	}
	cmd := program(ctx, "mysqld", slices.Concat(arguments, scratchSettings, more)...)
	cmd.Stderr, cmd.WaitDelay = s.said, time.Second
	return cmd, nil
}

// await waits until the server answers.
func (s *scratch) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, scratchPatience)
	defer cancel()
	for {
		v, err := s.visit(ctx)
		if err == nil {
			v.Close()
			return nil
		}
		select {
		case <-s.ended:
			return s.failed("start it", errors.New("it ended"))
		case <-ctx.Done():
			return s.failed("wait for its answer", err)
		case <-time.After(scratchPoll):
		}
	}
}

// failed says what went wrong, with the last words of the server.
func (s *scratch) failed(what string, err error) error {
	if text := s.said.text(); text != "" {
		return fmt.Errorf("%w: %s: %w: %s", ErrServer, what, err, text)
	}
	return fmt.Errorf("%w: %s: %w", ErrServer, what, err)
}

// visit connects to the server as its owner.
func (s *scratch) visit(ctx context.Context) (*podclient.Visit, error) {
	return podclient.OpenVisit(ctx, podclient.VisitOptions{
		Socket: s.socket, User: scratchUser,
		Options: conn.Options{DialTimeout: scratchPatience, StatementTimeout: scratchPatience},
	})
}

// stop kills the server and throws its folder away.
func (s *scratch) stop() error {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("throw the mysqld away: %w", err)
	}
	return nil
}
