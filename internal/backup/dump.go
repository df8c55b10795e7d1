package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// Errors of a dump that a person is told by name.
var (
	// ErrStalled: no byte was read for longer than a backup may stand still.
	ErrStalled = errors.New("the backup made no progress")
	// ErrProgram: mysqldump is missing, is of another series, or failed.
	ErrProgram = errors.New("mysqldump failed")
	// ErrMoved: the server went on although it was locked, so that what was read does not belong together.
	ErrMoved = errors.New("the server did not stand still while the dump began")
)

const (
	// frozenAtMost is how long a server's commits are held up until mysqldump has its view: milliseconds as a rule.
	frozenAtMost = 20 * time.Second
	// sampleBytes is how much data is read a second time to compare it with, by InnoDB's estimate.
	sampleBytes = 256 << 20
	// sampleTime bounds reading it.
	sampleTime = 10 * time.Minute
	// cleanupTimeout bounds taking back what a dump that failed has stored.
	cleanupTimeout = 15 * time.Second
	// stderrKept is how much of mysqldump's complaints is told.
	stderrKept = 1 << 10
)

// Credentials are the files with which programs of MySQL prove who they are and whom they talk to.
type Credentials struct {
	CAFile, CertFile, KeyFile string
}

// arguments are a client program's.
func (c Credentials) arguments(user, host string) []string {
	return []string{
		"--no-defaults", "--user=" + user, "--host=" + host, fmt.Sprintf("--port=%d", 3306), "--protocol=TCP",
		"--ssl-mode=VERIFY_IDENTITY", "--ssl-ca=" + c.CAFile, "--ssl-cert=" + c.CertFile, "--ssl-key=" + c.KeyFile,
	}
}

// Member is a member of the cluster as a pod reaches it.
type Member struct {
	// Name, for example orders-1; Host is its DNS name.
	Name, Host string
	// Connect opens another connection as the backup pods' account.
	Connect func(ctx context.Context) (*mysql.Visit, error)
}

// DumpOptions say what is dumped to where.
type DumpOptions struct {
	Place  Place
	Folder string
	// Backup, Schedule, Namespace, Cluster and ClusterUID go into the manifest.
	Backup, Schedule, Namespace, Cluster, ClusterUID string

	Member      Member
	Credentials Credentials
	// Program makes the command of one of MySQL's programs; nil means that it is in the path.
	Program func(ctx context.Context, name string, arguments ...string) *exec.Cmd
	// StallTimeout is how long no byte may be read.
	StallTimeout time.Duration
	// Progress is told how far the dump is, about once a second. It must return soon.
	Progress func(Progress)
	// Confirm is asked when everything but the manifest is stored: with an error there is no backup. nil agrees.
	Confirm func(ctx context.Context) error
	Clock   clock.PassiveClock
}

// Progress is how far a dump is.
type Progress struct {
	// Bytes were read so far, of about Estimate.
	Bytes, Estimate int64
	// Table is the one being read.
	Table string
}

// Dump dumps a member and makes a backup of it. What it returns an error for leaves no backup and, unless the store fails
// at that too, nothing in its folder.
func Dump(ctx context.Context, o DumpOptions) (Manifest, error) {
	if o.Program == nil {
		o.Program = exec.CommandContext
	}
	d := &dump{o: o, reader: newDumpReader()}
	m, err := d.run(ctx)
	if err == nil && o.Confirm != nil {
		err = o.Confirm(ctx)
	}
	if err == nil {
		err = o.Place.WriteManifest(ctx, o.Folder, m)
	}
	if err != nil {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		// A store that fails here has failed before, most likely, and whoever asked for the dump tries again.
		_ = o.Place.Remove(cleanup, o.Folder)
		return Manifest{}, fmt.Errorf("dump %s: %w", o.Member.Name, err)
	}
	return m, nil
}

// dump is one dump that is under way.
type dump struct {
	o        DumpOptions
	holder   *mysql.Visit // holds the lock
	viewer   *mysql.Visit // has a snapshot of the moment of the dump
	manifest Manifest
	frozen   gtid.Set // what the server had executed while it stood still

	reader *dumpReader
	mu     sync.Mutex // guards reader
	read   atomic.Int64
	begun  chan struct{} // closed once mysqldump has its view
}

func (d *dump) run(ctx context.Context) (Manifest, error) {
	d.manifest = Manifest{
		Backup: d.o.Backup, Schedule: d.o.Schedule, Namespace: d.o.Namespace, Cluster: d.o.Cluster, ClusterUID: d.o.ClusterUID,
		Member: d.o.Member.Name, StartedAt: d.o.Clock.Now().UTC(),
	}
	var err error
	if d.holder, err = d.o.Member.Connect(ctx); err != nil {
		return Manifest{}, err
	}
	defer d.holder.Close()
	if d.viewer, err = d.o.Member.Connect(ctx); err != nil {
		return Manifest{}, err
	}
	defer d.viewer.Close()
	state, err := d.holder.State(ctx)
	if err != nil {
		return Manifest{}, err
	}
	d.manifest.ServerUUID, d.manifest.Version = state.ServerUUID, state.Version
	if err := d.checkProgram(ctx, state.Version); err != nil {
		return Manifest{}, err
	}
	databases, err := d.holder.Databases(ctx)
	if err != nil {
		return Manifest{}, err
	}
	if len(databases) == 0 {
		return Manifest{}, errors.New("the server has no database")
	}
	ctx, watch := d.watch(ctx, state.DataBytes)
	defer watch()
	if err := d.stream(ctx, databases); err != nil {
		return Manifest{}, err
	}
	d.manifest.CompletedAt = d.o.Clock.Now().UTC()
	return d.manifest, nil
}

var programVersion = regexp.MustCompile(`Ver ([0-9]+\.[0-9]+\.[0-9]+)`)

// checkProgram makes sure that mysqldump is of the server's series: an older one may leave out what it does not know.
func (d *dump) checkProgram(ctx context.Context, server string) error {
	out, err := d.o.Program(ctx, "mysqldump", "--version").Output()
	if err != nil {
		return fmt.Errorf("%w: ask for its version: %w", ErrProgram, err)
	}
	version := programVersion.FindSubmatch(out)
	if version == nil || !mysql.SameSeries(string(version[1]), server) {
		return fmt.Errorf("%w: the image's is %q and the server is %s; set backup.image to one of the server's series", ErrProgram, strings.TrimSpace(string(out)), server)
	}
	return nil
}

// watch ends the dump when it stands still, and tells of its progress.
func (d *dump) watch(ctx context.Context, estimate int64) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		last, since := int64(-1), d.o.Clock.Now()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			switch now := d.read.Load(); {
			case now != last:
				last, since = now, d.o.Clock.Now()
				d.mu.Lock()
				table := d.reader.at()
				d.mu.Unlock()
				if d.o.Progress != nil {
					d.o.Progress(Progress{Bytes: now, Estimate: estimate, Table: table})
				}
			case d.o.StallTimeout > 0 && d.o.Clock.Since(since) >= d.o.StallTimeout:
				cancel(fmt.Errorf("%w for %s", ErrStalled, d.o.StallTimeout))
				return
			}
		}
	})
	return ctx, func() { close(done); group.Wait(); cancel(nil) }
}

// stream has mysqldump, our own snapshot and the GTID set show one and the same moment, and stores what mysqldump says.
func (d *dump) stream(ctx context.Context, databases []string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var err error
	if err := d.holder.Freeze(ctx); err != nil {
		return err
	}
	state, err := d.holder.State(ctx)
	if err == nil {
		d.frozen, err = gtid.Parse(state.Executed)
	}
	if err == nil {
		err = d.viewer.TakeSnapshot(ctx)
	}
	if err != nil {
		return err // closing the connection lets the server go on
	}
	d.manifest.TakenAt = d.o.Clock.Now().UTC()
	program, err := d.start(ctx, databases)
	if err != nil {
		return err
	}
	d.begun = make(chan struct{})
	packed := make(chan error, 1)
	go func() {
		var err error
		d.manifest.Dump, err = d.o.Place.Pack(ctx, d.o.Folder, "dump.sql", program)
		packed <- err
	}()
	err = d.look(ctx, packed)
	if err != nil {
		cancel(err)
	}
	// The program is waited for whatever happened, so that none is left.
	return errors.Join(err, d.finish(ctx, program, packed, err))
}

// look thaws the server once mysqldump has its view, and reads beside it what the dump is to be compared with.
func (d *dump) look(ctx context.Context, packed chan error) error {
	select {
	case <-d.begun:
	case err := <-packed: // it failed at once
		packed <- err
		if err != nil {
			return nil //nolint:nilerr // finish takes it from the channel and says it
		}
	case <-time.After(frozenAtMost):
		return fmt.Errorf("%w: mysqldump had no view of it after %s", mysql.ErrBlocked, frozenAtMost)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := d.holder.Thaw(ctx); err != nil {
		return err
	}
	heartbeat, known, err := d.viewer.Heartbeat(ctx)
	if err != nil {
		return fmt.Errorf("read the heartbeat: %w", err)
	}
	if known {
		d.manifest.Heartbeat = &heartbeat
	}
	if err := d.accounts(ctx); err != nil {
		return err
	}
	return d.samples(ctx)
}

// accounts stores the statements that make the accounts.
func (d *dump) accounts(ctx context.Context) error {
	statements, err := d.holder.Accounts(ctx)
	if err != nil {
		return err
	}
	text, err := json.Marshal(statements)
	if err != nil {
		return fmt.Errorf("write the accounts: %w", err)
	}
	d.manifest.Accounts, err = d.o.Place.Pack(ctx, d.o.Folder, "accounts.json", bytes.NewReader(text))
	return err
}

// samples reads tables a second time, on the server itself and in the very moment of the dump, the smallest first.
func (d *dump) samples(ctx context.Context) error {
	tables, err := d.viewer.Tables(ctx)
	if err != nil {
		return fmt.Errorf("list the tables: %w", err)
	}
	budget, end := int64(sampleBytes), d.o.Clock.Now().Add(sampleTime)
	for _, t := range tables {
		if budget -= t.Bytes; budget < 0 || d.o.Clock.Now().After(end) {
			break
		}
		if t.Database == ownDatabase && ignored(t.Name) {
			continue
		}
		rows, err := d.viewer.Count(ctx, t)
		if err != nil {
			return fmt.Errorf("count %s.%s: %w", t.Database, t.Name, err)
		}
		sum, err := d.viewer.Checksum(ctx, t)
		if err != nil {
			return fmt.Errorf("read %s.%s: %w", t.Database, t.Name, err)
		}
		d.manifest.Samples = append(d.manifest.Samples, Sample{TableRows: TableRows{Database: t.Database, Table: t.Name, Rows: rows}, Checksum: sum})
	}
	return nil
}

// finish waits for the upload and for mysqldump, and checks that the dump is what it should be.
func (d *dump) finish(ctx context.Context, program *running, packed chan error, before error) error {
	err := <-packed
	program.kill()
	if before != nil {
		return nil // what follows from it says nothing
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.manifest.Tables = d.reader.tables
	d.manifest.GTIDSet, d.manifest.BinlogFile, d.manifest.BinlogPosition = d.reader.gtidSet, d.reader.file, d.reader.position
	seen, err := gtid.Parse(d.reader.gtidSet)
	if err != nil {
		return err
	}
	if !seen.Equal(d.frozen) {
		return fmt.Errorf("%w: the dump has %s, the server had %s", ErrMoved, seen, d.frozen)
	}
	return d.compare()
}

// compare holds the rows that were counted in the dump against those that the server counted. Both saw the same moment.
func (d *dump) compare() error {
	for _, s := range d.manifest.Samples {
		if rows := d.manifest.rows(s.Database, s.Table); rows != s.Rows {
			return fmt.Errorf("%w: it has %d rows of %s.%s, the server has %d", ErrIncomplete, rows, s.Database, s.Table, s.Rows)
		}
	}
	return nil
}

// rows is how many rows of a table the dump holds. A table without rows is not in the list.
func (m *Manifest) rows(database, table string) uint64 {
	for _, t := range m.Tables {
		if t.Database == database && t.Table == table {
			return t.Rows
		}
	}
	return 0
}

// ownDatabase is the operator's, and ignored its tables that no backup holds.
const ownDatabase = "nairobi_mysql"

func ignored(table string) bool { return table == "recovery" }

// start begins mysqldump.
func (d *dump) start(ctx context.Context, databases []string) (*running, error) {
	arguments := append(d.o.Credentials.arguments(mysql.BackupUser, d.o.Member.Host),
		"--single-transaction", "--quick", "--source-data=2", "--set-gtid-purged=ON",
		"--routines", "--events", "--triggers", "--hex-blob", "--no-tablespaces", "--default-character-set=utf8mb4",
		"--max-allowed-packet=1G", "--net-buffer-length=1M",
		// Its own look for a moment in which nothing commits must not hold the others up for long.
		"--init-command=SET SESSION lock_wait_timeout = 10", "--ignore-table="+ownDatabase+".recovery",
		"--databases", "--")
	cmd := d.o.Program(ctx, "mysqldump", append(arguments, databases...)...)
	r := &running{dump: d, cmd: cmd}
	cmd.Stderr = &r.complaints
	cmd.WaitDelay = 5 * time.Second
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		r.stdout, err = stdout, cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProgram, err)
	}
	return r, nil
}

// running is mysqldump as a reader: it ends with io.EOF only when the program said that all is well and the dump is whole.
type running struct {
	dump       *dump
	cmd        *exec.Cmd
	stdout     io.Reader
	complaints tail
	waited     bool
}

// Read implements io.Reader.
func (r *running) Read(p []byte) (int, error) {
	n, err := r.stdout.Read(p)
	if n > 0 {
		r.dump.read.Add(int64(n))
		r.dump.mu.Lock()
		_, parse := r.dump.reader.Write(p[:n])
		found := r.dump.reader.found
		r.dump.mu.Unlock()
		if found {
			r.dump.once()
		}
		if parse != nil {
			return n, parse
		}
	}
	if err == nil {
		return n, nil
	}
	r.waited = true
	if failed := r.cmd.Wait(); failed != nil {
		return n, fmt.Errorf("%w: %w: %s", ErrProgram, failed, r.complaints.text())
	}
	if !errors.Is(err, io.EOF) {
		return n, fmt.Errorf("%w: %w", ErrProgram, err)
	}
	r.dump.mu.Lock()
	defer r.dump.mu.Unlock()
	if err := r.dump.reader.end(); err != nil {
		return n, err
	}
	return n, io.EOF
}

// once tells that mysqldump has its view.
func (d *dump) once() {
	select {
	case <-d.begun:
	default:
		close(d.begun)
	}
}

// kill ends the program if it still runs.
func (r *running) kill() {
	if r.waited {
		return
	}
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	if len(t.kept) > stderrKept {
		t.kept = t.kept[len(t.kept)-stderrKept:]
	}
	return len(b), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(strings.Fields(string(t.kept)), " ")
}
