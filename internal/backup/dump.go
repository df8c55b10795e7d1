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

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// Errors of a dump that a person is told by name.
var (
	// ErrStalled: nothing moved for longer than a backup may stand still.
	ErrStalled = errors.New("the backup made no progress")
	// ErrSilent is an ErrStalled for which the member is to blame: what was asked of it did not come.
	ErrSilent = fmt.Errorf("%w: the member gave nothing", ErrStalled)
	// errNoMoment is an ErrStalled and an ErrBlocked: statements that run left no moment for a consistent view.
	errNoMoment = fmt.Errorf("%w: %w", ErrStalled, mysql.ErrBlocked)
	// ErrLost: the connection to the member broke, or a statement had no answer.
	ErrLost = errors.New("the member was lost")
	// ErrProgram: mysqldump is missing, is of another series, or failed.
	ErrProgram = errors.New("mysqldump failed")
)

const (
	// cleanupTimeout bounds taking back what a dump that failed has stored.
	cleanupTimeout = 15 * time.Second
	// awayAfter is how long a member may take to answer before it is taken for away.
	awayAfter = 10 * time.Second
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
	Connect func(ctx context.Context) (*podclient.Visit, error)
}

// DumpOptions say what is dumped to where.
type DumpOptions struct {
	Place  Place
	Folder string
	// Backup, Schedule, Namespace, Cluster and ClusterUID go into the manifest.
	Backup, Schedule, Namespace, Cluster, ClusterUID string
	Base                                             bool

	Member      Member
	Credentials Credentials
	// Program makes the command of one of MySQL's programs; nil means that it is in the path.
	Program func(ctx context.Context, name string, arguments ...string) *exec.Cmd
	// StallTimeout is how long nothing may move: no byte from mysqldump or to the store, and no table looked at beside it.
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
	d := newDump(o)
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

// Sick says whether a dump failed for the member that was dumped, so that another may give what that one cannot. One to which no
// connection could be made, because it has none left or is down, is no such: when it answers again it is as good as before.
func Sick(err error) bool {
	return errors.Is(err, ErrSilent) || errors.Is(err, ErrLost)
}

func newDump(o DumpOptions) *dump {
	return &dump{o: o, reader: newDumpReader(), sampleEach: sampleEach, preparedLimit: preparedLimit}
}

// moved counts what shows that a dump makes progress.
type moved struct {
	// read are bytes of mysqldump, accepted bytes that the store took, and looked tables looked at beside mysqldump.
	read, accepted, looked atomic.Int64
}

func (m *moved) total() int64 { return m.read.Load() + m.accepted.Load() + m.looked.Load() }

// dump is one dump that is under way.
type dump struct {
	o        DumpOptions
	holder   *podclient.Visit // holds the lock, and is asked nothing else meanwhile
	viewer   *podclient.Visit // is asked everything else, and has a snapshot of the moment of the dump
	manifest Manifest
	serving  bool              // clients write to the server
	sizes    []podclient.Table // shortly before it stood still, the smallest first; none where reading them took too long
	beside   beside
	frozen   gtid.Set                 // what the server had executed while it stood still
	tables   map[podclient.Table]bool // what it held then, by name
	// sampleEach is how long reading the samples of one table may take.
	sampleEach time.Duration
	// preparedLimit is how long a moment is looked for in which nothing is prepared.
	preparedLimit time.Duration

	reader *dumpReader
	mu     sync.Mutex // guards reader
	moved  moved
	begun  chan struct{} // closed once mysqldump has its view
	// packing is how many streams are being stored, and waiting is true while the dump's is not because mysqldump says nothing.
	packing atomic.Int32
	waiting atomic.Bool
	// freezing is true until the server stands still: statements that run long are waited for.
	freezing atomic.Bool
}

func (d *dump) run(ctx context.Context) (Manifest, error) {
	d.manifest = Manifest{
		Backup: d.o.Backup, Schedule: d.o.Schedule, Base: d.o.Base, Namespace: d.o.Namespace, Cluster: d.o.Cluster, ClusterUID: d.o.ClusterUID,
		StartedAt: d.o.Clock.Now().UTC(),
	}
	var err error
	if d.holder, err = d.o.Member.Connect(ctx); err != nil {
		return Manifest{}, err
	}
	defer func() { d.holder.Close() }() // another one may have taken its place
	if d.viewer, err = d.o.Member.Connect(ctx); err != nil {
		return Manifest{}, err
	}
	defer d.viewer.Close()
	state, err := d.holder.State(ctx)
	if err != nil {
		return Manifest{}, d.blame(err)
	}
	d.manifest.Source = Source{Member: d.o.Member.Name, ServerUUID: state.ServerUUID, Version: state.Version, LowerCaseTableNames: state.LowerCaseTableNames, PartialRevokes: state.PartialRevokes}
	d.serving = state.Writable
	if err := d.checkProgram(ctx, state.Version); err != nil {
		return Manifest{}, err
	}
	estimate, err := d.size(ctx)
	if err != nil {
		return Manifest{}, err
	}
	ctx, watch := d.watch(ctx, estimate)
	defer watch()
	err = d.stream(ctx)
	if err == nil {
		err = d.packDefinitions(ctx)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return Manifest{}, cause // what was cut off by it says less
		}
		return Manifest{}, d.orAway(ctx, err)
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

// watch ends the dump when it stands still, and reports its progress.
func (d *dump) watch(ctx context.Context, estimate int64) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ctx = store.WithProgress(ctx, &d.moved.accepted)
	stop := follow(ctx, d.moved.total, d.o.Clock, d.o.StallTimeout, func() {
		d.mu.Lock()
		table := d.reader.at()
		d.mu.Unlock()
		if d.o.Progress != nil {
			d.o.Progress(Progress{Bytes: d.moved.read.Load(), Estimate: estimate, Table: table})
		}
	}, func() bool { cancel(d.stalled()); return false })
	return ctx, func() { stop(); cancel(nil) }
}

// follow calls moved whenever a count has changed, once a second at most, and stalled after each time of timeout (0: never) in which it has
// not. It ends with ctx, with stop, or when stalled returns false.
func follow(ctx context.Context, count func() int64, clock clock.PassiveClock, timeout time.Duration, moved func(), stalled func() bool) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		last, since := int64(-1), clock.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			switch now := count(); {
			case now != last:
				last, since = now, clock.Now()
				moved()
			case timeout > 0 && clock.Since(since) >= timeout:
				if !stalled() {
					return
				}
				since = clock.Now()
			}
		}
	})
	return func() { cancel(); group.Wait() }
}

// stalled says who kept the dump from going on: the member, when mysqldump waits for it; whoever holds it up, while it is to stand
// still; the store, when what the member gave waits for that; or a table that is read for its samples.
func (d *dump) stalled() error {
	switch {
	case d.waiting.Load():
		return fmt.Errorf("%w for %s", ErrSilent, d.o.StallTimeout)
	case d.freezing.Load():
		return fmt.Errorf("%w, for %s", errNoMoment, d.o.StallTimeout)
	case d.packing.Load() == 0:
		return fmt.Errorf("%w for %s, between what was dumped and what was looked at beside it", ErrStalled, d.o.StallTimeout)
	}
	return fmt.Errorf("%w: the store took nothing for %s", ErrStalled, d.o.StallTimeout)
}

// blame marks an error of a call to the member that was no answer of the server's. It is asked about the first error only: what
// follows from that breaks connections too.
func (d *dump) blame(err error) error {
	if !errors.Is(err, mysql.ErrBlocked) && (d.holder.Lost() || d.viewer.Lost()) {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return err
}

// orAway marks a failure of mysqldump as the member's when nobody answers there any more. It does not always say what failed.
func (d *dump) orAway(ctx context.Context, err error) error {
	if !errors.Is(err, ErrProgram) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, awayAfter)
	defer cancel()
	visit, away := d.o.Member.Connect(ctx)
	if away != nil {
		return fmt.Errorf("%w: %w, and %w", ErrLost, err, away)
	}
	visit.Close()
	return err
}

// pack stores a stream in the backup's folder.
func (d *dump) pack(ctx context.Context, name string, src io.Reader) (Stream, error) {
	d.packing.Add(1)
	defer d.packing.Add(-1)
	return d.o.Place.Pack(ctx, d.o.Folder, name, src)
}

// stream has mysqldump, our own snapshot and the GTID set show one and the same moment, and stores what mysqldump says.
func (d *dump) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d.freezing.Store(true)
	d.beside = readBeside(ctx, d.viewer, d.sizes)
	frozen, thaw, databases, err := d.freeze(ctx)
	if err != nil {
		return err
	}
	defer thaw()
	d.freezing.Store(false)
	program, err := d.start(ctx, databases)
	if err != nil {
		return err
	}
	d.begun = make(chan struct{})
	packed := make(chan error, 1)
	go func() {
		var err error
		if d.manifest.Dump, err = d.pack(ctx, "dump.sql", program); err != nil {
			cancel(err) // nobody needs samples of it any more
		}
		packed <- err
	}()
	accounts, err := d.await(frozen, packed)
	if err == nil && accounts != nil {
		err = d.holder.Thaw(frozen)
	}
	err = overdue(frozen, err)
	thaw() // whatever has happened, and before anything is waited for

	if err == nil && accounts != nil { // without them the program has failed
		err = d.look(ctx, accounts)
	}
	if err != nil {
		cancel(d.blame(err))
	}
	return d.finish(ctx, program, packed)
}

// look reads, beside mysqldump and in the snapshot of the same moment, what the dump is to be compared with.
func (d *dump) look(ctx context.Context, accounts []byte) error {
	tables, err := d.viewer.TableNames(ctx)
	if err != nil {
		return fmt.Errorf("list the tables: %w", err)
	}
	d.tables = map[podclient.Table]bool{}
	for _, t := range tables {
		if t.Database != ownDatabase || !ignored(t.Name) {
			d.tables[t] = true
		}
	}
	heartbeat, known, err := d.viewer.Heartbeat(ctx)
	if err != nil {
		return fmt.Errorf("read the heartbeat: %w", err)
	}
	if known {
		d.manifest.Heartbeat = &heartbeat
	}
	if d.manifest.Accounts, err = d.pack(ctx, "accounts.json", bytes.NewReader(accounts)); err != nil {
		return err
	}
	if err := d.beside.look(ctx, d.viewer, d.tables, d.o.Member.Connect); err != nil {
		return err
	}
	if d.manifest.LeftOut, err = d.beside.leftOut(ctx, d.viewer); err != nil {
		return err
	}
	if err := d.doubts(ctx); err != nil {
		return err
	}
	if err := d.samples(ctx); err != nil {
		return err
	}
	// What the session has read nobody can alter until it ends, and mysqldump may take hours.
	d.viewer.Close()
	return nil
}

// packDefinitions stores the definitions, with the tables as the dump makes them.
func (d *dump) packDefinitions(ctx context.Context) error {
	all := definitions{Definitions: d.beside.definitions.WithoutBuiltIn()}
	for _, t := range d.reader.created {
		all.Tables = append(all.Tables, tableDefinition{t.Database, t.Table, t.sum})
	}
	text, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("write the definitions: %w", err)
	}
	d.manifest.Definitions, err = d.pack(ctx, "definitions.json", bytes.NewReader(text))
	return err
}

// await takes our own snapshot and waits until mysqldump has its view, and reads the accounts meanwhile where they are others than
// before. It returns them as they are stored, or nothing when the program has ended; finish says why.
func (d *dump) await(frozen context.Context, packed chan error) ([]byte, error) {
	statements, err := d.beside.accountsNow(frozen, d.viewer)
	if err == nil {
		err = d.viewer.TakeSnapshot(frozen)
	}
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(statements)
	if err != nil {
		return nil, fmt.Errorf("write the accounts: %w", err)
	}
	select {
	case <-d.begun:
	case err := <-packed: // it failed at once, or was done at once
		packed <- err
		if err != nil {
			text = nil
		}
	case <-frozen.Done():
		return nil, context.Cause(frozen)
	}
	return text, nil
}

// finish waits for the upload and for mysqldump, so that none is left whatever happened, and checks that the dump is what it
// should be. What went wrong first is its error: the rest follows from that.
func (d *dump) finish(ctx context.Context, program *running, packed chan error) error {
	err := <-packed
	program.kill()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
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
	d.tooLong()
	d.parsers()
	return d.compare()
}
