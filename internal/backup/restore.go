package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// Errors of a restore that a person is told by name.
var (
	// ErrVersion: MySQL's version does not take this backup.
	ErrVersion = errors.New("the backup is of a MySQL version that this one cannot take")
	// ErrDiffers: what was restored is not what the manifest says.
	ErrDiffers = errors.New("what was restored is not what was backed up")
	// ErrLoad: the mysql client is missing or ended with an error.
	ErrLoad = errors.New("loading the dump failed")
)

// maxAccounts bounds the statements that make accounts, in bytes.
const maxAccounts = 256 << 20

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
	Then func(ctx context.Context, v *mysql.Visit, m Manifest) error
	// Skipped is told of privileges that were not granted, because what they are on was gone when the backup was taken.
	Skipped func(statements []string)
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
	if err := v.FinishRecovery(ctx, o.Recovery); err != nil {
		return m, err
	}
	return m, ground.End(ctx)
}

// begin opens the server. loaded says that it holds the backup already, done that nothing is left to do.
func (o RestoreOptions) begin(ctx context.Context, v *mysql.Visit) (loaded, done bool, err error) {
	if o.Then != nil {
		if loaded, err = v.ResumeLoaded(ctx, o.Recovery); err != nil || loaded {
			return loaded, false, err
		}
	}
	if done, err = v.BeginRecovery(ctx, o.Recovery); err == nil && done {
		err = v.EndGround(ctx)
	}
	return false, done, err
}

// fill loads the dump and the accounts, and compares what the server then holds with the manifest.
func (o RestoreOptions) fill(ctx context.Context, v *mysql.Visit, m Manifest) error {
	if err := load(ctx, o, m); err != nil {
		return err
	}
	if err := o.accounts(ctx, v, m); err != nil {
		return err
	}
	if _, err := Compare(ctx, v, m); err != nil {
		return err
	}
	if o.Then == nil {
		return nil
	}
	return v.MarkLoaded(ctx, o.Recovery)
}

// load pipes the dump through the mysql client.
func load(ctx context.Context, o RestoreOptions, m Manifest) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stream, err := o.Place.Unpack(ctx, o.Folder, m.Dump)
	if err != nil {
		return err
	}
	defer stream.Close()
	var taken atomic.Int64
	stop := o.watch(ctx, cancel, &taken, m.Dump.Bytes)
	defer stop()
	// The client is fed by us and not by a copying goroutine of its own, so that we know which side failed.
	if err := o.client(ctx, func(stdin io.Writer) error {
		_, err := io.CopyBuffer(struct{ io.Writer }{stdin}, &counting{r: stream, n: &taken}, make([]byte, 256<<10))
		return err
	}); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	return nil
}

// client runs the mysql client on what feed writes. The client stops at the first statement that fails.
func (o RestoreOptions) client(ctx context.Context, feed func(io.Writer) error) error {
	arguments := o.Credentials.arguments(o.User, o.Target.Host)
	if o.Socket != "" {
		arguments = []string{"--no-defaults", "--user=" + o.User, "--socket=" + o.Socket}
	}
	cmd := o.Program(ctx, "mysql", append(arguments, "--batch", "--binary-mode", "--max-allowed-packet=1G", "--default-character-set=utf8mb4",
		"--init-command="+mysql.WholeReads)...)
	complaints := &tail{}
	cmd.Stderr, cmd.WaitDelay = complaints, 5*time.Second
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLoad, err)
	}
	fed := feed(stdin)
	if fed != nil {
		// What the client did not get yet must not be taken for the end of the dump: it would commit what it has.
		_ = cmd.Process.Kill()
	}
	stdin.Close()
	ended := cmd.Wait()
	if text := complaints.text(); ended != nil && text != "" {
		return fmt.Errorf("%w: %s", ErrLoad, text)
	}
	if fed != nil && (ended == nil || !errors.Is(fed, syscall.EPIPE)) {
		return fed
	}
	if ended != nil {
		return fmt.Errorf("%w: %w", ErrLoad, ended)
	}
	return nil
}

// counting counts what is read.
type counting struct {
	r io.Reader
	n *atomic.Int64
}

// Read implements io.Reader.
func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// watch tells of the progress, and ends the load when it stands still.
func (o RestoreOptions) watch(ctx context.Context, cancel context.CancelCauseFunc, taken *atomic.Int64, total int64) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		last, since := int64(-1), o.Clock.Now()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			switch now := taken.Load(); {
			case now != last:
				last, since = now, o.Clock.Now()
				if o.Progress != nil {
					o.Progress(Progress{Bytes: now, Estimate: total})
				}
			case o.StallTimeout > 0 && o.Clock.Since(since) >= o.StallTimeout:
				cancel(fmt.Errorf("%w for %s", ErrStalled, o.StallTimeout))
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

// accounts makes the accounts.
func (o RestoreOptions) accounts(ctx context.Context, v *mysql.Visit, m Manifest) error {
	stream, err := o.Place.Unpack(ctx, o.Folder, m.Accounts)
	if err != nil {
		return err
	}
	defer stream.Close()
	text, err := io.ReadAll(io.LimitReader(stream, maxAccounts))
	if err != nil {
		return fmt.Errorf("read the accounts: %w", err)
	}
	var statements []string
	if err := json.Unmarshal(text, &statements); err != nil {
		return fmt.Errorf("%w: the accounts are not a list: %w", ErrCorrupt, err)
	}
	skipped, err := v.Import(ctx, statements)
	if len(skipped) > 0 && o.Skipped != nil {
		o.Skipped(skipped)
	}
	return err
}

// Compared is what Compare looked at.
type Compared struct{ Tables, Checksums int }

// Compare holds a server against a manifest: the GTIDs, the rows of every table, and the contents of the samples where
// both servers are of one series. Its error wraps ErrDiffers.
func Compare(ctx context.Context, v *mysql.Visit, m Manifest) (Compared, error) {
	var done Compared
	state, err := v.State(ctx)
	if err != nil {
		return done, err
	}
	want, err := gtid.Parse(m.GTIDSet)
	if err != nil {
		return done, fmt.Errorf("%w: its GTID set: %w", ErrCorrupt, err)
	}
	have, err := gtid.Parse(state.Executed)
	if err != nil {
		return done, err
	}
	if !have.Equal(want) {
		return done, fmt.Errorf("%w: it has the GTIDs %s instead of %s", ErrDiffers, have, want)
	}
	for _, t := range m.Tables {
		rows, err := v.Count(ctx, mysql.Table{Database: t.Database, Name: t.Table})
		if err != nil {
			return done, fmt.Errorf("%w: count %s.%s: %w", ErrDiffers, t.Database, t.Table, err)
		}
		if rows != t.Rows {
			return done, fmt.Errorf("%w: %s.%s has %d rows instead of %d", ErrDiffers, t.Database, t.Table, rows, t.Rows)
		}
		done.Tables++
	}
	if !mysql.SameSeries(m.Version, state.Version) {
		return done, nil
	}
	for _, s := range m.Samples {
		if s.Checksum == nil {
			continue
		}
		sum, err := v.Checksum(ctx, mysql.Table{Database: s.Database, Name: s.Table})
		if err != nil {
			return done, fmt.Errorf("%w: read %s.%s: %w", ErrDiffers, s.Database, s.Table, err)
		}
		if sum != *s.Checksum {
			return done, fmt.Errorf("%w: the contents of %s.%s are others", ErrDiffers, s.Database, s.Table)
		}
		done.Checksums++
	}
	return done, nil
}

// CheckVersion refuses to restore into an older MySQL than the backup's, and to skip a long-term series: what MySQL
// supports is the same series and the step from 8.4 to 9.7 (reference manual, "Upgrade Paths").
func CheckVersion(backup, server string) error {
	b, errB := number(backup)
	s, errS := number(server)
	if err := errors.Join(errB, errS); err != nil {
		return fmt.Errorf("%w: %w", ErrVersion, err)
	}
	for i := range b {
		if s[i] != b[i] {
			if s[i] < b[i] {
				return fmt.Errorf("%w: it is of %s and the cluster's version is %s; set spec.version to %s or later", ErrVersion, backup, server, backup)
			}
			break
		}
	}
	if s[0]-b[0] > 1 {
		return fmt.Errorf("%w: it is of %s and the cluster's version is %s, which skips a series; restore into the next one and upgrade from there", ErrVersion, backup, server)
	}
	return nil
}

// number reads x.y.z, with whatever follows a distribution's hyphen left out.
func number(version string) ([3]int, error) {
	var n [3]int
	plain, _, _ := strings.Cut(version, "-")
	parts := strings.Split(plain, ".")
	if len(parts) != 3 {
		return n, fmt.Errorf("%q is no version", version)
	}
	for i, part := range parts {
		value, err := strconv.Atoi(part)
		if err != nil {
			return n, fmt.Errorf("%q is no version", version)
		}
		n[i] = value
	}
	return n, nil
}
