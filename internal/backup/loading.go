package backup

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/load"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// ErrLoad: the server rejects a statement, or lacks room for it; or the mysql client is missing or ended with an error.
var ErrLoad = errors.New("loading the dump failed")

// loading loads the dump of a backup into a server that is ready for it.
type loading struct {
	place    Place
	folder   string
	manifest Manifest
	connect  func(context.Context) (*podclient.Visit, error)
	// client makes the command of the mysql client.
	client       func(ctx context.Context, more ...string) *exec.Cmd
	stallTimeout time.Duration
	progress     func(Progress)
	clock        clock.PassiveClock
}

// run has the server run the dump.
func (l loading) run(ctx context.Context, v *podclient.Visit) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stream, err := l.place.Unpack(ctx, l.folder, l.manifest.Dump)
	if err != nil {
		return err
	}
	defer stream.Close()
	sessions, err := l.sessions(ctx, v)
	if err != nil {
		return err
	}
	var taken atomic.Int64
	var building atomic.Int32
	stop := l.watch(ctx, cancel, &taken, func() bool { return building.Load() > 0 && answers(ctx, v) })
	defer stop()
	dump, err := lenient(&counting{r: stream, n: &taken})
	if err != nil {
		return err
	}
	err = l.feed(ctx, func(c *mysqlClient) error {
		if l.manifest.FormatVersion == formatInDump { // with triggers and programs among the tables, in an order that matters
			_, err := io.CopyBuffer(struct{ io.Writer }{c}, dump, make([]byte, 256<<10))
			return err
		}
		fail := func(err error) { cancel(fmt.Errorf("%w: %w", ErrLoad, err)) }
		return load.Run(ctx, fail, dump, load.Options{Console: c, Sessions: sessions, Open: l.open, Large: l.large(), Building: &building})
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// headerLength is in which part of a dump mysqldump sets the SQL mode, in bytes: after two lines with names of servers.
const headerLength = 8 << 10

// lenient makes podclient.RowMode the SQL mode that a dump sets: the one of mysqldump refuses dates, or changes them, that servers
// take with ALLOW_INVALID_DATES.
func lenient(dump io.Reader) (io.Reader, error) {
	head := make([]byte, headerLength)
	n, err := io.ReadFull(dump, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	before, after, _ := bytes.Cut(head[:n], []byte("SQL_MODE='NO_AUTO_VALUE_ON_ZERO'"))
	if len(after) > 0 {
		before = slices.Concat(before, []byte("SQL_MODE='"+podclient.RowMode+"'"))
	}
	return io.MultiReader(bytes.NewReader(slices.Concat(before, after)), dump), nil
}

const (
	// fewestSessions and mostSessions bound how many sessions load rows: one more than the server has processors, because each waits for
	// the disk now and then. More than a few dozen MiB of statements are never under way.
	fewestSessions, mostSessions = 2, 8
	// largeRows is how many rows a table has whose keys are built after them. For fewer it takes longer than it saves.
	largeRows = 50_000
)

// sessions is how many sessions load rows.
func (l loading) sessions(ctx context.Context, v *podclient.Visit) (int, error) {
	processors, err := podclient.CPUs(ctx, v)
	return min(max(processors+1, fewestSessions), mostSessions), err
}

func (l loading) open(ctx context.Context) (load.Session, error) {
	v, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := podclient.NewRowLoader(ctx, v)
	if err != nil {
		v.Close()
		return nil, err
	}
	return rows, nil
}

// answers says whether the server answers.
func answers(ctx context.Context, v *podclient.Visit) bool {
	_, err := v.State(ctx)
	return err == nil
}

// mysqlClient is the mysql client, which stops at the first statement that fails.
type mysqlClient struct {
	io.Writer
	said  *bufio.Scanner
	syncs int
}

// errConsole: the client ended, and says why elsewhere.
var errConsole = errors.New("the mysql client ended")

func (c *mysqlClient) Sync() error {
	c.syncs++
	word := fmt.Sprintf("done %d", c.syncs)
	if _, err := fmt.Fprintf(c, "SELECT '%s';\n", word); err != nil {
		return err
	}
	for c.said.Scan() {
		if c.said.Text() == word {
			return nil
		}
	}
	return errConsole
}

// feed runs the mysql client on what feed writes.
func (l loading) feed(ctx context.Context, feed func(*mysqlClient) error) error {
	cmd := l.client(ctx, "--batch", "--binary-mode", "--unbuffered", "--skip-column-names", "--max-allowed-packet=1G", "--default-character-set=utf8mb4",
		"--init-command="+podclient.LoadSettings)
	complaints := &tail{}
	cmd.Stderr, cmd.WaitDelay = complaints, 5*time.Second
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLoad, err)
	}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLoad, err)
	}
	fed := feed(&mysqlClient{Writer: stdin, said: bufio.NewScanner(stdout)})
	if fed != nil {
		// What the client did not get yet must not be taken for the end of the dump: it would commit what it has.
		_ = cmd.Process.Kill()
	}
	stdin.Close()
	return loadFailure(fed, cmd.Wait(), complaints.text())
}

// loadFailure is why feeding the client or the client itself failed. What the client printed says more than how it ended.
func loadFailure(fed, ended error, printed string) error {
	where := ""
	if at := (*load.ConsoleError)(nil); errors.As(fed, &at) {
		if at.Table != "" {
			where = "table " + at.Table + ": "
		}
		fed = at.Err
	}
	clients := fed == nil || errors.Is(fed, syscall.EPIPE) || errors.Is(fed, errConsole)
	switch {
	case !clients:
		return fed
	case ended != nil && printed != "":
		return fmt.Errorf("%w: %s%w", ErrLoad, where, conn.ClientError(printed))
	case ended != nil || fed != nil:
		return fmt.Errorf("%w: %s%w", ErrLoad, where, cmp.Or(ended, fed))
	}
	return nil
}

// counting counts what is read.
type counting struct {
	r io.Reader
	n *atomic.Int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// watch reports the progress, and ends the load when it stands still, unless the server is known to work.
func (l loading) watch(ctx context.Context, cancel context.CancelCauseFunc, taken *atomic.Int64, works func() bool) (stop func()) {
	return follow(ctx, taken.Load, l.clock, l.stallTimeout, func() {
		if l.progress != nil {
			l.progress(Progress{Bytes: taken.Load(), Estimate: l.manifest.Dump.Bytes})
		}
	}, func() bool {
		if works() {
			return true
		}
		cancel(fmt.Errorf("%w for %s", ErrStalled, l.stallTimeout))
		return false
	})
}

// large returns which tables have so many rows that their keys are built after them.
func (l loading) large() func(database, table string) bool {
	found := map[podclient.Table]bool{}
	for _, t := range l.manifest.Tables {
		if t.Rows >= largeRows {
			found[podclient.Table{Database: t.Database, Name: t.Table}] = true
		}
	}
	return func(database, table string) bool { return found[podclient.Table{Database: database, Name: table}] }
}
