package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// ErrVersion: MySQL's version does not take this backup.
var ErrVersion = errors.New("the backup is of a MySQL version that this one cannot take")

const (
	// maxDefinitions bounds what is read as definitions, and maxAccounts the statements that make accounts, in bytes.
	maxDefinitions = 1 << 30
	maxAccounts    = 256 << 20
)

// RestoreOptions say what is restored into what.
type RestoreOptions struct {
	Place  Place
	Folder string
	// Recovery names this recovery: one that was cut off is begun again only under the same name.
	Recovery string
	// Target is the server. Its Connect logs in as User, which owns the server.
	Target      Member
	User        string
	Credentials Credentials
	// Socket, where set, is the way of the mysql client instead of Target.Host and Credentials.
	Socket string
	// Program makes the command of one of MySQL's programs; nil means that it is in the path.
	Program func(ctx context.Context, name string, arguments ...string) *exec.Cmd
	// StallTimeout is how long no byte may be taken.
	StallTimeout time.Duration
	// Progress is told how far the restore is, about once a second.
	Progress func(Progress)
	Clock    clock.PassiveClock
	// NewestVersion is the newest MySQL that anything restored is of, where Then brings more than the backup.
	NewestVersion string
	// Then goes on with the server that the backup was loaded into, for a point in time. A recovery that is cut off in it
	// is taken up again with it.
	Then func(ctx context.Context, v *podclient.Visit, m Manifest) error
	// Skipped receives what the server rejected and the restore left out.
	Skipped func([]podclient.LeftOut)
	// Compared receives what was compared.
	Compared func(Compared)
}

// Restore loads a dump into an empty server and compares what it then holds with what was backed up. A server that holds
// anything is refused (mysql.ErrNotEmpty). It may be cut off anywhere and run again.
func Restore(ctx context.Context, o RestoreOptions) (_ Manifest, err error) {
	if o.Program == nil {
		o.Program = exec.CommandContext
	}
	if _, err := o.Place.ReadManifest(ctx, o.Folder); err != nil {
		return Manifest{}, err
	}
	end := o.Place.use(ctx, o.Folder, o.Recovery)
	defer func() { end(err) }()
	m, err := o.Place.ReadManifest(ctx, o.Folder) // it may have been removed before the mark was there
	if err != nil {
		return Manifest{}, err
	}
	v, err := o.Target.Connect(ctx)
	if err != nil {
		return Manifest{}, err
	}
	defer v.Close()
	state, err := v.State(ctx)
	if err != nil {
		return Manifest{}, err
	}
	for _, version := range []string{m.Version, o.NewestVersion} {
		if version == "" {
			continue
		}
		if err := CheckVersion(version, state.Version); err != nil {
			return Manifest{}, err
		}
	}
	loaded, done, err := o.begin(ctx, v)
	if err != nil || done {
		return m, err
	}
	// One that fails leaves the server as it is made ready here: no event is to run on half of the data.
	ground, err := v.PrepareGround(ctx)
	if err != nil {
		return m, err
	}
	if !loaded {
		if err := o.fill(ctx, v, m); err != nil {
			return Manifest{}, err
		}
	}
	if o.Then != nil {
		if err := o.Then(ctx, v, m); err != nil {
			return m, err
		}
	}
	if err := v.Recovery(o.Recovery).Finish(ctx); err != nil {
		return m, err
	}
	return m, ground.End(ctx)
}

// LoadedFrom returns the folder of the backup that a recovery has loaded into a server before it was cut off; empty when it has loaded none,
// or nobody knows which. Whoever goes on has to go on from the same one.
func LoadedFrom(ctx context.Context, target Member, recovery string) (folder string, err error) {
	v, err := target.Connect(ctx)
	if err != nil {
		return "", err
	}
	defer v.Close()
	folder, _, err = v.Recovery(recovery).Loaded(ctx)
	return folder, err
}

// Continue has then go on with a server that holds a copy of another cluster's data and serves nobody, and closes it again. It may be
// cut off anywhere and run again under the same name; what was completed is not done again.
func Continue(ctx context.Context, target Member, recovery string, then func(ctx context.Context) error) error {
	v, err := target.Connect(ctx)
	if err != nil {
		return err
	}
	defer v.Close()
	r := v.Recovery(recovery)
	done, err := r.BeginReplay(ctx)
	if err != nil {
		return err
	}
	if done {
		return v.EndGround(ctx)
	}
	ground, err := v.PrepareGround(ctx)
	if err != nil {
		return err
	}
	if err := then(ctx); err != nil {
		return err
	}
	if err := r.Finish(ctx); err != nil {
		return err
	}
	return ground.End(ctx)
}

// begin opens the server. loaded says that it holds the backup already, done that nothing is left to do.
func (o RestoreOptions) begin(ctx context.Context, v *podclient.Visit) (loaded, done bool, err error) {
	r := v.Recovery(o.Recovery)
	if o.Then != nil {
		if loaded, err = r.ResumeLoaded(ctx); err != nil || loaded {
			return loaded, false, err
		}
	}
	if done, err = r.Begin(ctx); err == nil && done {
		err = v.EndGround(ctx)
	}
	return false, done, err
}

// filler fills a server with a backup.
type filler struct {
	RestoreOptions
	manifest    Manifest
	accounts    []string
	definitions definitions
	loader      *podclient.Loader
	// comparable: the server prints definitions and accounts as the one did that was dumped, because it is of the same series; and
	// the backup has definitions.
	comparable bool
}

// fill loads the accounts, the dump and the definitions, and compares what the server then holds with the backup.
func (o RestoreOptions) fill(ctx context.Context, v *podclient.Visit, m Manifest) error {
	f := filler{RestoreOptions: o, manifest: m}
	if err := f.read(ctx); err != nil {
		return err
	}
	state, err := v.State(ctx)
	if err != nil {
		return err
	}
	if err := f.definitions.checkNames(m.LowerCaseTableNames, state.LowerCaseTableNames); err != nil {
		return err
	}
	if err := checkGrants(f.accounts, m.PartialRevokes, state.PartialRevokes); err != nil {
		return err
	}
	sameSeries := mysql.SameSeries(m.Version, state.Version)
	f.comparable = sameSeries && m.FormatVersion > formatInDump
	another, err := o.Target.Connect(ctx)
	if err != nil {
		return err
	}
	defer another.Close()
	if f.loader, err = another.Loader(ctx); err != nil {
		return err
	}
	if err := f.load(ctx, v, sameSeries); err != nil {
		return rejection(err)
	}
	left := f.loader.LeftOut()
	if len(left) > 0 && o.Skipped != nil {
		o.Skipped(left)
	}
	compared, err := f.compare(ctx, v, left)
	if err != nil {
		return err
	}
	if o.Compared != nil {
		o.Compared(compared)
	}
	if o.Then == nil {
		return nil
	}
	return v.Recovery(o.Recovery).MarkLoaded(ctx, o.Folder)
}

// read reads what is not the dump.
func (f *filler) read(ctx context.Context) error {
	if err := f.unpackJSON(ctx, "accounts", f.manifest.Accounts, maxAccounts, &f.accounts); err != nil {
		return err
	}
	if f.manifest.FormatVersion == formatInDump {
		return nil
	}
	return f.unpackJSON(ctx, "definitions", f.manifest.Definitions, maxDefinitions, &f.definitions)
}

// load fills the server in the order in which things need each other: accounts, by whose privileges views and programs are made; what
// tables refer to; tables and rows; views and programs, and the privileges on them.
func (f *filler) load(ctx context.Context, v *podclient.Visit, sameSeries bool) error {
	if err := f.loader.Accounts(ctx, f.accounts); err != nil {
		return err
	}
	if err := f.loader.Prepare(ctx, f.definitions.Definitions, sameSeries); err != nil {
		return err
	}
	if err := f.loading().run(ctx, v); err != nil {
		return err
	}
	return f.loader.Programs(ctx, f.definitions.Definitions)
}

// compare holds the server against the backup. In between it takes away what was there for the load only.
func (f *filler) compare(ctx context.Context, v *podclient.Visit, left []podclient.LeftOut) (Compared, error) {
	compared, err := Compare(ctx, v, f.manifest)
	if err != nil {
		return compared, err
	}
	if f.comparable {
		if compared.Definitions, err = compareDefinitions(ctx, v, f.definitions, f.manifest.LeftOut, left); err != nil {
			return compared, err
		}
	}
	if err := f.loader.End(ctx, f.definitions.Definitions); err != nil {
		return compared, err
	}
	if f.comparable {
		compared.Accounts, err = compareAccounts(ctx, v, f.accounts, left)
	}
	return compared, err
}

// misplaced says what to do about a row that its table keeps in a partition which does not take it. REBUILD PARTITION would lose it (tried on 9.7.4).
const misplaced = "the dumped table keeps a row in a partition that does not take it, as after EXCHANGE PARTITION … WITHOUT VALIDATION: " +
	"give the value a partition there (ALTER TABLE … ADD PARTITION), then move the row (ALTER TABLE … REPAIR PARTITION ALL), and take another backup"

// rejection marks what the server answered while it was filled: as a failure to load, and as an ErrRejected where it answers the same again.
func rejection(err error) error {
	if !conn.IsRefusal(err) {
		return err
	}
	if !errors.Is(err, ErrLoad) {
		err = fmt.Errorf("%w: %w", ErrLoad, err)
	}
	if conn.IsServerError(err, mysql.ErNoPartitionForGivenValue) {
		err = fmt.Errorf("%w; %s", err, misplaced)
	}
	if conn.RefusesForGood(err) {
		return rejected{err}
	}
	return err
}

// rejected is an ErrRejected with the text of the error that it wraps.
type rejected struct{ error }

func (r rejected) Unwrap() error        { return r.error }
func (r rejected) Is(target error) bool { return target == ErrRejected }

// unpackJSON reads a stream of a backup that holds a JSON document.
func (o RestoreOptions) unpackJSON(ctx context.Context, what string, s Stream, limit int64, into any) error {
	stream, err := o.Place.Unpack(ctx, o.Folder, s)
	if err != nil {
		return err
	}
	defer stream.Close()
	text, err := io.ReadAll(io.LimitReader(stream, limit))
	if err != nil {
		return fmt.Errorf("read the %s: %w", what, err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%w: the %s are not what they should be: %w", ErrCorrupt, what, err)
	}
	return nil
}

// loading is how the dump is loaded.
func (f *filler) loading() loading {
	arguments := f.Credentials.arguments(f.User, f.Target.Host)
	if f.Socket != "" {
		arguments = []string{"--no-defaults", "--user=" + f.User, "--socket=" + f.Socket}
	}
	return loading{
		place: f.Place, folder: f.Folder, manifest: f.manifest, connect: f.Target.Connect, stallTimeout: f.StallTimeout, progress: f.Progress, clock: f.Clock,
		client: func(ctx context.Context, more ...string) *exec.Cmd {
			return f.Program(ctx, "mysql", append(arguments, more...)...)
		},
	}
}

// CheckVersion refuses to restore into an older MySQL than the backup's, and to skip a long-term series: what MySQL
// supports is the same series and the step from 8.4 to 9.7 (reference manual, "Upgrade Paths").
func CheckVersion(backup, server string) error {
	b, errB := mysql.ParseVersion(backup)
	s, errS := mysql.ParseVersion(server)
	if err := errors.Join(errB, errS); err != nil {
		return fmt.Errorf("%w: %w", ErrVersion, err)
	}
	if mysql.OlderVersion(server, backup) {
		return fmt.Errorf("%w: it is of %s and the cluster's version is %s; set spec.version to %s or later", ErrVersion, backup, server, backup)
	}
	if s[0]-b[0] > 1 {
		return fmt.Errorf("%w: it is of %s and the cluster's version is %s, which skips a series; restore into the next one and upgrade from there", ErrVersion, backup, server)
	}
	return nil
}
