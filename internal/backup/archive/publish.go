package archive

import (
	"context"
	"errors"
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// publish puts what waits into the archive, in order, each segment once the primary has committed all of it: what a server
// sends before it is acknowledged may never come to be. It ends with an error.
func (a *Archiver) publish(ctx context.Context, v *mysql.Visit, uuid string) error {
	looked := a.o.Clock.Now().Add(-lookEvery)
	for {
		changed := a.o.Spool.Changed()
		pending := a.o.Spool.Pending()
		if len(pending) > 0 || a.o.Clock.Since(looked) >= lookEvery {
			at, err := a.position(ctx, v)
			if err != nil {
				return a.because(ctx, err)
			}
			if at.uuid != uuid {
				return errAnother
			}
			published, err := a.publishCommitted(ctx, pending, at)
			if err != nil {
				return a.because(ctx, err)
			}
			if published || a.o.Clock.Since(looked) >= lookEvery {
				looked = a.o.Clock.Now()
				if err := a.look(ctx, at); err != nil {
					return a.because(ctx, err)
				}
			}
			if published {
				continue
			}
		}
		every := lookEvery
		if len(pending) > 0 {
			every, changed = acknowledgementPoll, nil
		}
		if err := pace(ctx, every, changed); err != nil {
			return err
		}
	}
}

// because prefers the reason for which the session ends to what followed from it.
func (a *Archiver) because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// publishCommitted stores the segments that the primary has committed.
func (a *Archiver) publishCommitted(ctx context.Context, pending []*Header, at server) (bool, error) {
	for i, h := range pending {
		if !at.executed.Contains(h.Own()) {
			return i > 0, nil
		}
		r, closer, err := a.o.Spool.open(h)
		if err != nil {
			return i > 0, err
		}
		err = a.o.Folder.Store.Create(ctx, a.o.Folder.key(h.Number), r)
		closer.Close()
		switch {
		case errors.Is(err, errSpool):
			return i > 0, errors.Join(err, a.o.Spool.Keep(0))
		case errors.Is(err, store.ErrExists):
			// It is ours, stored before the answer was lost, or another pod's: the archive itself says how to go on.
			return i > 0, fmt.Errorf("%w: segment %d is there already", errAnother, h.Number)
		case err != nil:
			return i > 0, err
		}
		if err := a.o.Spool.done(); err != nil {
			return true, err
		}
		a.note(h, at)
	}
	return len(pending) > 0, nil
}

// look brings the report up to date, and now and then deletes what nobody needs.
func (a *Archiver) look(ctx context.Context, at server) error {
	every := basesEvery
	if a.needy {
		every = lookEvery // one is being taken
	}
	if err := a.lookAtBases(ctx, every); err != nil {
		return err
	}
	now := a.o.Clock.Now().UTC()
	if now.Sub(a.tidied) >= tidyEvery {
		if err := a.tidy(ctx); err != nil {
			return err
		}
		a.tidied = now
	}
	a.mu.Lock()
	report := a.report
	a.mu.Unlock()
	archived, anchor, err := report.sets()
	if err != nil {
		return err
	}
	first, found := a.base.firstRecoverable(anchor.Union(a.hole.after))
	a.needy = !found
	a.tell(func(r *Report) {
		r.At, r.Error, r.Reason = at.at, "", ""
		if r.Archived != "" && archived.Contains(at.executed) {
			r.CoveredUntil = earlier(at.at, now)
		}
		r.BaseNeeded, r.FirstRecoverable = !found, first
	})
	return nil
}
