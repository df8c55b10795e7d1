package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
	"github.com/alx-ke/nairobi-mysql-operator/internal/text"
)

const (
	// flushTimeout bounds what an archiver does that is told to end. A pod has 30 seconds.
	flushTimeout = 20 * time.Second
	// maxFlushPause is the longest pause after a failure meanwhile.
	maxFlushPause = 2 * time.Second
	// flushAge is when a segment is closed meanwhile although it is small: soon, and not after each transaction, of which there
	// may be thousands to catch up with.
	flushAge = 500 * time.Millisecond
	// unreplayableShown bounds the list of what cannot be replayed, in bytes.
	unreplayableShown = 500
)

// errFlushed: everything is archived that was committed when the archiver was told to end.
var errFlushed = errors.New("everything is archived")

// errRetired: the primary has used up GTIDs of a segment that does not name them as lost. The next session reads it again and names them.
var errRetired = errors.New("the cluster has used up the GTIDs of what it had lost")

// errNoTime: an archiver that was told to end had no time to store everything.
var errNoTime = errors.New("there was not enough time")

// isEnding says whether the archiver was told to end.
func (a *Archiver) isEnding() bool {
	select {
	case <-a.ending:
		return true
	default:
		return false
	}
}

// publish puts what waits into the archive, in order, each segment once the primary has committed all of it: what a server
// sends before it is acknowledged may never come to be. It ends with an error.
func (a *Archiver) publish(ctx context.Context, v *podclient.Visit, uuid string, source from) error {
	ctx, cancel := context.WithCancel(ctx)
	tidying := newTidier()
	defer tidying.group.Wait()
	defer cancel()
	looked, stored := a.o.Clock.Now().Add(-lookEvery), a.o.Clock.Now()
	for {
		changed, ending := a.o.Spool.Changed(), a.isEnding()
		pending := a.o.Spool.Pending()
		if len(pending) > 0 || ending || a.o.Clock.Since(looked) >= lookEvery {
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
			if ending && a.flushed(at) {
				return errFlushed
			}
			if !ending && (published || a.o.Clock.Since(looked) >= lookEvery) {
				looked = a.o.Clock.Now()
				if err := a.look(ctx, at, tidying); err != nil {
					return a.because(ctx, err)
				}
			}
			if published {
				stored = a.o.Clock.Now()
				continue
			}
		}
		if len(pending) == 0 {
			stored = a.o.Clock.Now()
		} else if !source.until.IsEmpty() && a.o.Clock.Since(stored) > uncommittedPatience {
			return fmt.Errorf("%w: %s, after %s", errForeign, source.name, pending[0].Before)
		}
		every := lookEvery
		if len(pending) > 0 || ending {
			every, changed = acknowledgementPoll, nil
		}
		if err := a.pace(ctx, every, changed, ending); err != nil {
			return err
		}
	}
}

// flushed says whether the archive holds what was committed when the archiver was told to end. What a failover has lost since is
// not waited for.
func (a *Archiver) flushed(at server) bool {
	if a.target.IsEmpty() {
		a.target = at.executed
	}
	a.target = a.target.Intersect(at.executed)
	return a.holds(a.target)
}

// ended tells how an archiver ended: with everything stored, or without what. failure is what went wrong last, nil for nothing.
func (a *Archiver) ended(err, failure error) {
	if errors.Is(err, errFlushed) {
		a.o.Log.Info("the archive ends", "because", err.Error())
		a.tell(func(r *Report) { r.Error, r.Reason, r.Ended = "", "", true })
		return
	}
	if failure == nil {
		failure = errNoTime
	}
	a.mu.Lock()
	report := a.report
	a.mu.Unlock()
	known := a.target
	if known.IsEmpty() {
		known = a.executed
	}
	what := "what the primary committed last"
	if archived, _, err := report.sets(); err == nil {
		if left := known.Subtract(archived); !left.IsEmpty() {
			what = left.String()
		}
	}
	a.o.Log.Error(failure, "the archive ends before everything is stored", "left", what)
	a.tell(func(r *Report) {
		r.Error, r.Reason = fmt.Sprintf("the archive's pod ended before it had stored %s: %s", what, failure), reasonOf(failure)
	})
}

// holds says whether the archive holds, or presupposes, a set.
func (a *Archiver) holds(set gtid.Set) bool {
	a.mu.Lock()
	report := a.report
	a.mu.Unlock()
	archived, _, err := report.sets()
	return err == nil && archived.Contains(set)
}

// pace waits until there may be something to do.
func (a *Archiver) pace(ctx context.Context, every time.Duration, changed <-chan struct{}, ending bool) error {
	var end <-chan struct{}
	if !ending {
		end = a.ending
	}
	timer := time.NewTimer(every)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
	case <-changed:
	case <-end:
	}
	return nil
}

// because prefers the reason for which the session ends to what followed from it.
func (a *Archiver) because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// publishCommitted stores the segments that the primary has committed. One with a GTID that the primary has used up must say so: else
// nobody could see later that it holds the empty transaction and not the one that was lost.
func (a *Archiver) publishCommitted(ctx context.Context, pending []*Header, at server) (bool, error) {
	for i, h := range pending {
		if !at.executed.Contains(h.Own()) {
			return i > 0, nil
		}
		if !at.usedUp(h.Losses).Intersect(h.Own()).IsEmpty() {
			return i > 0, errRetired
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
			if err := a.ours(ctx, h); err != nil {
				return i > 0, err
			}
		case err != nil:
			return i > 0, err
		}
		if err := a.o.Spool.done(); err != nil {
			return true, err
		}
		a.recordNewest(h, at)
	}
	return len(pending) > 0, nil
}

// ours says whether the segment that is in the archive already is the one that was to be stored: the answer to an upload was
// lost. It may be another pod's: then the archive itself says how to go on.
func (a *Archiver) ours(ctx context.Context, h *Header) error {
	there, err := a.o.Folder.Header(ctx, h.Number)
	if err != nil {
		return err
	}
	one, err := encodeHeader(h)
	if err != nil {
		return err
	}
	other, err := encodeHeader(there)
	if err != nil {
		return err
	}
	if !bytes.Equal(one, other) {
		return fmt.Errorf("%w: segment %d is there already", errTaken, h.Number)
	}
	return nil
}

// look brings the report up to date, and now and then has the archive looked through.
func (a *Archiver) look(ctx context.Context, at server, tidying *tidier) error {
	every := basesEvery
	if a.needy {
		every = lookEvery // one is being taken
	}
	if err := a.lookAtBases(ctx, every); err != nil {
		return err
	}
	now := a.o.Clock.Now().UTC()
	a.tidy(ctx, tidying)
	a.mu.Lock()
	report := a.report
	a.mu.Unlock()
	archived, anchor, err := report.sets()
	if err != nil {
		return err
	}
	required := anchor.Union(a.hole.after)
	first, found := a.base.firstRecoverable(required, at.executed, at.at, a.known)
	a.needy = !found
	a.tell(func(r *Report) {
		r.At, r.Error, r.Reason = at.at, "", ""
		if r.Archived != "" && archived.Contains(at.executed) {
			r.CoveredUntil = earlier(at.at, now)
		}
		// Before the archive was looked through it is not known whether a hole is in it.
		if !a.tidied.IsZero() {
			r.BaseNeeded, r.Required, r.FirstRecoverable = !found, required.String(), first
			r.Unreplayable = text.Shorten(strings.Join(a.base.unreplayable(), ", "), unreplayableShown)
		}
	})
	return nil
}
