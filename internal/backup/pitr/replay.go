package pitr

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/binlog"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// ErrReplay: the server refused a transaction that is replayed.
var ErrReplay = errors.New("replaying the binary log failed")

// openAhead is how many segments are opened before they are needed.
const openAhead = 4

// Progress is how far a replay is.
type Progress struct {
	// Segments are done, of Of; GTID is the newest transaction.
	Segments, Of int
	GTID         string
}

// Replay brings a server that holds the plan's backup, as backup.Restore made it ready, to the plan's point. What it has
// executed already is left out, so that it may be cut off anywhere and run again. connect opens another session as the
// account that owns the server.
func (p *Plan) Replay(ctx context.Context, connect func(context.Context) (*podclient.Visit, error), progress func(Progress)) error {
	v, err := connect(ctx)
	if err != nil {
		return err
	}
	defer v.Close()
	position, err := v.Position(ctx)
	if err != nil {
		return err
	}
	executed, err := gtid.Parse(position.Executed)
	if err != nil {
		return err
	}
	if !executed.Contains(p.base) || !p.Result.Contains(executed) {
		return fmt.Errorf("%w: it has the GTIDs %s, which are not on the way from the backup to the point", backup.ErrDiffers, executed)
	}
	to, err := v.OpenReplay(ctx)
	if err != nil {
		return err
	}
	defer to.Close()
	r := &replayer{plan: p, apply: newApplier(to), executed: executed, progress: progress}
	if err := r.run(ctx); err != nil {
		return err
	}
	if err := v.EndReplay(ctx); err != nil {
		return err
	}
	if position, err = v.Position(ctx); err != nil {
		return err
	}
	if executed, err = gtid.Parse(position.Executed); err != nil {
		return err
	}
	if !executed.Equal(p.Result) {
		return fmt.Errorf("%w: it has the GTIDs %s instead of %s", backup.ErrDiffers, executed, p.Result)
	}
	return nil
}

// replayer replays a plan's segments.
type replayer struct {
	plan     *Plan
	apply    *applier
	executed gtid.Set
	progress func(Progress)
}

// opened is a segment that is ready to be read.
type opened struct {
	segment *archive.Segment
	err     error
}

func (r *replayer) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	segments := r.open(ctx)
	defer func() {
		cancel()
		for o := range segments {
			if o.segment != nil {
				o.segment.Close()
			}
		}
	}()
	done := 0
	for o := range segments {
		if o.err != nil {
			return o.err
		}
		err := r.segment(ctx, o.segment, done)
		o.segment.Close()
		if err != nil {
			return fmt.Errorf("segment %d: %w", o.segment.Header.Number, err)
		}
		done++
	}
	return context.Cause(ctx)
}

// open opens the segments in their order, a few before they are needed.
func (r *replayer) open(ctx context.Context) <-chan opened {
	ready := make(chan opened, openAhead)
	go func() {
		defer close(ready)
		for _, number := range r.plan.Segments {
			s, err := r.plan.folder.Open(ctx, number)
			select {
			case ready <- opened{s, err}:
			case <-ctx.Done():
				if s != nil {
					s.Close()
				}
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return ready
}

// segment replays the transactions of a segment that are before the point and not yet executed.
func (r *replayer) segment(ctx context.Context, s *archive.Segment, done int) error {
	log, err := binlog.NewReader(s)
	if err != nil {
		return err
	}
	if err := r.apply.begin(ctx, log.Format); err != nil {
		return err
	}
	var track binlog.Tracker
	wanted := false
	for {
		e, err := log.Next()
		if errors.Is(err, io.EOF) {
			return r.apply.end(ctx)
		}
		if err != nil {
			return err
		}
		step, err := track.Add(log.Format, e)
		if err != nil {
			return err
		}
		if step.Transaction == nil {
			continue
		}
		if step.Begins {
			one := gtid.MustParse(step.Transaction.GTID())
			wanted = r.plan.Result.Contains(one) && !r.executed.Contains(one)
			if wanted {
				err = r.apply.transaction(ctx, *step.Transaction)
			}
		} else if wanted {
			err = r.apply.event(ctx, e, log.Body())
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w%s", ErrReplay, step.Transaction.GTID(), err, r.plan.leftOut.explain(err))
		}
		if step.Ends && wanted && r.progress != nil {
			r.progress(Progress{Segments: done, Of: len(r.plan.Segments), GTID: step.Transaction.GTID()})
		}
	}
}
