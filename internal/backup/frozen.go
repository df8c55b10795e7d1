package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

const (
	// frozenAtMost is how long a server's commits are held up, from when the lock is asked for until mysqldump has its view,
	// milliseconds as a rule, and frozenServing that of a server that clients write to.
	frozenAtMost, frozenServing = 20 * time.Second, 5 * time.Second
	// preparedLimit is how long a moment is looked for in which nothing is prepared: every preparedPoll, which holds nobody up, and
	// where that moment had passed when the server stood still, after preparedPause.
	preparedLimit = 45 * time.Second
	preparedPoll  = 100 * time.Millisecond
	preparedPause = 2 * time.Second
)

// errPrepared is an ErrBlocked: a transaction is prepared. Its GTID would be in the dump and its rows would not, so that its commit
// could never be replayed on it.
var errPrepared = fmt.Errorf("%w: a distributed transaction is prepared (XA RECOVER lists it), and neither committed nor rolled back", mysql.ErrBlocked)

// freeze has the server stand still in a moment in which no transaction is prepared, and reads what is to be dumped.
func (d *dump) freeze(ctx context.Context) (frozen context.Context, thaw func(), databases []string, err error) {
	for deadline := d.o.Clock.Now().Add(d.preparedLimit); ; {
		if err := d.awaitUnprepared(ctx, deadline); err != nil {
			return nil, nil, nil, err
		}
		var since time.Time
		if err := d.holder.Freeze(ctx, d.serving, func() { since = d.o.Clock.Now() }); err != nil {
			return nil, nil, nil, d.blame(err)
		}
		frozen, thaw = d.hold(ctx, since)
		if databases, err = d.still(frozen); err == nil {
			return frozen, thaw, databases, nil
		}
		err = d.blame(overdue(frozen, err))
		thaw()
		if !errors.Is(err, errPrepared) || !d.o.Clock.Now().Before(deadline) {
			return nil, nil, nil, err
		}
		if err := pause(ctx, preparedPause); err != nil {
			return nil, nil, nil, err
		}
		holder, err := d.o.Member.Connect(ctx)
		if err != nil {
			return nil, nil, nil, err
		}
		d.holder = holder
	}
}

// awaitUnprepared waits until no transaction is prepared: while the server stands still, none can be committed.
func (d *dump) awaitUnprepared(ctx context.Context, deadline time.Time) error {
	for {
		prepared, err := d.viewer.Prepared(ctx)
		switch {
		case err != nil:
			return d.blame(err)
		case prepared == 0:
			return nil
		case !d.o.Clock.Now().Before(deadline):
			return errPrepared
		}
		if err := pause(ctx, preparedPoll); err != nil {
			return err
		}
	}
}

// Pause waits, or says why there is nothing to wait for any more.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// hold bounds what is done while the server stands still since a time. When that ends, by thaw or because it takes too long, the
// holder's connection is closed, and so the lock is given back: whatever is being waited for then, on the server or here.
func (d *dump) hold(ctx context.Context, since time.Time) (frozen context.Context, thaw func()) {
	limit := frozenAtMost
	if d.serving {
		limit = frozenServing
	}
	frozen, cancel := context.WithTimeoutCause(ctx, limit-d.o.Clock.Since(since), fmt.Errorf("%w: mysqldump had no view of it, or the accounts were not read, after %s", mysql.ErrBlocked, limit))
	closed, holder := make(chan struct{}), d.holder
	context.AfterFunc(frozen, func() {
		holder.Close()
		close(closed)
	})
	return frozen, func() { cancel(); <-closed }
}

// overdue is why what is done while the server stands still was cut off, or else err.
func overdue(frozen context.Context, err error) error {
	if cause := context.Cause(frozen); err != nil && cause != nil {
		return cause
	}
	return err
}

// still reads where the server stands, and which databases mysqldump is to dump.
func (d *dump) still(ctx context.Context) ([]string, error) {
	position, err := d.viewer.Position(ctx)
	if err == nil {
		d.frozen, err = gtid.Parse(position.Executed)
	}
	if err != nil {
		return nil, err
	}
	if prepared, err := d.viewer.Prepared(ctx); err != nil || prepared > 0 {
		return nil, cmp.Or(err, errPrepared)
	}
	d.manifest.TakenAt = d.o.Clock.Now().UTC()
	databases, err := d.viewer.Databases(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("list the databases: %w", err)
	case len(databases) == 0:
		return nil, errors.New("the server has no database")
	}
	return databases, nil
}
