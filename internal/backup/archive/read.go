package archive

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/binlog"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// errSpoolFull: the spool's volume has no room for a segment.
var errSpoolFull = errors.New("the spool's volume is full")

// reading is a stream on its way into segments.
type reading struct {
	a      *Archiver
	next   Header // how the next segment begins
	format *binlog.Format
	track  binlog.Tracker
	w      *writer
	// until ends the reading, when it is not empty.
	until gtid.Set
}

// read writes what a server sends into segments, until something ends it.
func (a *Archiver) read(ctx context.Context, stream *podclient.BinlogStream, next Header, source from) error {
	r := &reading{a: a, next: next, until: source.until}
	defer r.abandon()
	in := &incoming{r: r}
	for {
		in.begin()
		err := stream.Next(ctx, in)
		if err == nil {
			err = in.end(ctx)
		}
		if err != nil {
			if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
				err = fmt.Errorf("%w: %w; a transaction must fit on it: raise spec.backup.binlogArchive.storage", errSpoolFull, err)
			}
			return err
		}
	}
}

func (r *reading) abandon() {
	if r.w != nil {
		r.w.abandon()
		r.w = nil
	}
}

// take takes the next event.
func (r *reading) take(ctx context.Context, event binlog.Event) error {
	if err := event.Check(); err != nil {
		return err
	}
	if event.Type() == replication.FORMAT_DESCRIPTION_EVENT {
		return r.takeFormat(ctx, event)
	}
	if event.Recorded() {
		if err := r.record(event); err != nil {
			return err
		}
	}
	return r.closeInTime(ctx)
}

// closeInTime completes the segment when it is large or old enough. A heartbeat comes every second, so that this is asked often
// enough.
func (r *reading) closeInTime(ctx context.Context) error {
	if r.w == nil || r.track.Open() || r.w.header.Transactions == 0 {
		return nil
	}
	age := r.a.o.SegmentAge
	if r.a.isEnding() {
		age = min(age, flushAge)
	}
	if r.w.header.Bytes < r.a.o.SegmentBytes && r.a.o.Clock.Since(r.w.began) < age {
		return nil
	}
	return r.close(ctx)
}

// takeFormat begins with another file of the server, or with its first. A segment holds events of one format.
func (r *reading) takeFormat(ctx context.Context, event binlog.Event) error {
	format, err := binlog.ParseFormat(event)
	if err != nil {
		return err
	}
	if r.track.Open() {
		return fmt.Errorf("%w: a file ends in the middle of a transaction", binlog.ErrDamaged)
	}
	same := r.format != nil && format.Version == r.format.Version && format.Checksums == r.format.Checksums
	if !same && r.w != nil {
		if err := r.close(ctx); err != nil {
			return err
		}
	}
	r.format = format
	return nil
}

// record writes an event that belongs to a transaction.
func (r *reading) record(event binlog.Event) error {
	if r.format == nil {
		return fmt.Errorf("%w: the stream does not begin with its format", binlog.ErrDamaged)
	}
	if err := r.format.Verify(event); err != nil {
		return err
	}
	step, err := r.step(event)
	if err != nil || step.Transaction == nil {
		return err
	}
	if err := r.w.write(event); err != nil {
		return err
	}
	if step.Ends {
		r.w.committed(step.Transaction)
	}
	return nil
}

// step says what an event is to its transaction, and opens a segment for it.
func (r *reading) step(event binlog.Event) (binlog.Step, error) {
	step, err := r.track.Add(r.format, event)
	if err != nil || step.Transaction == nil || r.w != nil {
		return step, err
	}
	r.w, err = r.a.o.Spool.begin(r.next, r.format, r.a.o.Clock.Now())
	return step, err
}

// close completes the segment, and waits where too much waits for the bucket already.
func (r *reading) close(ctx context.Context) error {
	h, err := r.w.finish(r.a.o.Clock.Now())
	r.w = nil
	if err != nil {
		return err
	}
	r.next.Number, r.next.Before, r.next.Reaches = h.Number+1, h.Cumulative, h.Until()
	r.next.Gap, r.next.Lost = "", ""
	if !r.until.IsEmpty() && h.All().Contains(r.until) {
		return errCaughtUp
	}
	for {
		changed := r.a.o.Spool.Changed()
		if r.a.o.Spool.Bytes() < r.a.o.SpoolBytes {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}
