package archive

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

const (
	// DefaultSegmentBytes is when a segment is closed, in bytes of binary log. One transaction is never split.
	DefaultSegmentBytes = 16 << 20
	// DefaultSegmentAge is when it is closed although it is small.
	DefaultSegmentAge = 10 * time.Second
	// DefaultSpoolBytes is how much may wait for the bucket before reading stops.
	DefaultSpoolBytes = 512 << 20
	// acknowledgementPoll is how often the primary is asked whether it has committed what it sent.
	acknowledgementPoll = 200 * time.Millisecond
	// lookEvery is how often the primary is looked at and the report renewed, basesEvery how often the backups are listed.
	lookEvery  = 5 * time.Second
	basesEvery = time.Minute
	// tidyEvery is how often all segments are listed: to see that none is missing, and to delete those that no backup needs.
	tidyEvery = time.Hour
	// retryPause is the first pause after a failure; it doubles up to maxRetryPause.
	retryPause    = time.Second
	maxRetryPause = 30 * time.Second
)

// Errors of the archive that a person is told by name.
var (
	// ErrNotPrimary: who answers as the primary does not take writes at the moment.
	ErrNotPrimary = errors.New("the primary does not take writes")
	// errAnother: the stream and the session reached different servers, or another pod archives too.
	errAnother = errors.New("the connection reached another server")
)

// Options say what is archived to where.
type Options struct {
	Folder     Folder
	ClusterUID string
	Spool      *Spool
	// Connect opens a session on the primary as the backup pods' account, Stream follows the same server.
	Connect func(ctx context.Context) (*mysql.Visit, error)
	Stream  func(ctx context.Context, have gtid.Set) (*mysql.BinlogStream, error)
	// Report is told how the archive is, after each change and every few seconds. It must return soon.
	Report func(Report)
	Clock  clock.PassiveClock
	Log    logr.Logger
	// SegmentBytes, SegmentAge and SpoolBytes default to the constants above.
	SegmentBytes, SpoolBytes int64
	SegmentAge               time.Duration
}

// Report is how an archive is.
type Report struct {
	// At is when this was found, by the primary's clock where it answered.
	At time.Time `json:"at"`
	// Segments is the number of the newest segment.
	Segments uint64 `json:"segments"`
	// CoveredUntil: everything that was committed until then is in the archive.
	CoveredUntil time.Time `json:"coveredUntil"`
	// Archived is what the archive holds or presupposes.
	Archived string `json:"archived,omitempty"`
	// Anchor is what a backup must hold to be a base, and BaseNeeded says that there is none.
	Anchor     string `json:"anchor,omitempty"`
	BaseNeeded bool   `json:"baseNeeded,omitempty"`
	// FirstRecoverable is the earliest moment that can be restored.
	FirstRecoverable time.Time `json:"firstRecoverable"`
	// Gap and Lost are those of the newest break in the archive.
	Gap  string `json:"gap,omitempty"`
	Lost string `json:"lost,omitempty"`
	// Missing are transactions that were archived, and whose segments are no longer in the bucket.
	Missing string `json:"missing,omitempty"`
	// Error is why archiving stands still; empty while it does not.
	Error string `json:"error,omitempty"`
	// Reason is Error in one word.
	Reason string `json:"reason,omitempty"`
}

// News is the report without what changes all the time.
func (r Report) News() Report {
	r.At, r.CoveredUntil, r.Segments, r.Archived = time.Time{}, time.Time{}, 0, ""
	return r
}

// Archiver archives the binary log of one cluster.
type Archiver struct {
	o    Options
	base *bases

	mu     sync.Mutex
	report Report
	// Only Run uses what follows: when the archive was last tidied up and the backups last listed, and the hole that was
	// found then.
	tidied, based time.Time
	hole          hole
	// needy is true while no backup is a base.
	needy bool
}

// New returns an archiver that has done nothing yet.
func New(o Options) *Archiver {
	if o.SegmentBytes == 0 {
		o.SegmentBytes = DefaultSegmentBytes
	}
	if o.SegmentAge == 0 {
		o.SegmentAge = DefaultSegmentAge
	}
	if o.SpoolBytes == 0 {
		o.SpoolBytes = DefaultSpoolBytes
	}
	if o.Report == nil {
		o.Report = func(Report) {}
	}
	return &Archiver{o: o, base: &bases{place: o.Folder.Place}}
}

// Run archives until ctx ends. It begins again after every failure: what it goes by is what the archive and the primary
// say then, so that it may be cut off anywhere.
func (a *Archiver) Run(ctx context.Context) error {
	pause := retryPause
	for {
		began := a.o.Clock.Now()
		err := a.session(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if a.o.Clock.Since(began) > maxRetryPause {
			pause = retryPause
		}
		a.o.Log.Info("the archive begins again", "because", err.Error())
		a.tell(func(r *Report) { r.Error, r.Reason, r.At = err.Error(), reasonOf(err), a.o.Clock.Now().UTC() })
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
		pause = min(2*pause, maxRetryPause)
	}
}

// reasons are the words for what holds an archive up.
var reasons = []struct {
	err  error
	word string
}{
	{store.ErrDenied, "AccessDenied"}, {store.ErrNoBucket, "NoBucket"}, {store.ErrFull, "StoreFull"}, {store.ErrUnavailable, "StoreUnavailable"},
	{ErrNotPrimary, "NoPrimary"}, {mysql.ErrUnreachable, "NoPrimary"}, {errAnother, "NoPrimary"}, {mysql.ErrPurged, "Purged"}, {errSpoolFull, "SpoolFull"},
}

func reasonOf(err error) string {
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.word
		}
	}
	return "Error"
}

func (a *Archiver) tell(change func(*Report)) {
	a.mu.Lock()
	change(&a.report)
	report := a.report
	a.mu.Unlock()
	a.o.Report(report)
}

// session archives from one primary until something ends that.
func (a *Archiver) session(ctx context.Context) error {
	v, err := a.o.Connect(ctx)
	if err != nil {
		return err
	}
	defer v.Close()
	at, err := a.position(ctx, v)
	if err != nil {
		return err
	}
	next, err := a.resume(ctx, at)
	if err != nil {
		return err
	}
	stream, err := a.o.Stream(ctx, next.Preceding())
	if err != nil {
		return err
	}
	defer stream.Close()
	if stream.ServerUUID != at.uuid {
		return errAnother
	}
	a.o.Log.Info("archiving", "from", at.uuid, "segment", next.Number, "after", next.Before)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	defer group.Wait()
	defer stream.Close()
	group.Go(func() {
		if err := a.read(ctx, stream, next); err != nil {
			cancel(err)
		}
	})
	err = a.publish(ctx, v, at.uuid)
	cancel(err)
	return err
}

// server is what was seen of the primary.
type server struct {
	uuid             string
	version          string
	executed, purged gtid.Set
	at               time.Time
}

// position looks at the primary.
func (a *Archiver) position(ctx context.Context, v *mysql.Visit) (server, error) {
	p, err := v.Position(ctx)
	if err != nil {
		return server{}, err
	}
	if !p.Writable {
		return server{}, ErrNotPrimary
	}
	s := server{uuid: p.ServerUUID, version: p.Version, at: p.At}
	var errExecuted, errPurged error
	s.executed, errExecuted = gtid.Parse(p.Executed)
	s.purged, errPurged = gtid.Parse(p.Purged)
	return s, errors.Join(errExecuted, errPurged)
}

// resume finds out where the archive ends and how the next segment begins. What waits in the spool is kept as far as it
// follows that, and as far as the primary has committed it; the rest is read again.
func (a *Archiver) resume(ctx context.Context, at server) (Header, error) {
	head, newest, err := a.o.Folder.Head(ctx, a.o.Spool.Hint())
	if err != nil {
		return Header{}, err
	}
	next := Header{Number: newest + 1, ClusterUID: a.o.ClusterUID, ServerUUID: at.uuid, Version: at.version}
	if head == nil {
		if err := a.o.Spool.Keep(0); err != nil {
			return Header{}, err
		}
		return next, a.start(ctx, &next, at)
	}
	have := head.All()
	next.Anchor, next.AnchorNumber, next.AnchorTime, next.Reaches = head.Anchor, head.AnchorNumber, head.AnchorTime, head.Reaches
	a.note(head, at)
	if have, next, err = a.resumeSpool(head, have, next, at); err != nil {
		return Header{}, err
	}
	lost, gap := have.Subtract(at.executed), at.purged.Subtract(have)
	have = have.Subtract(lost).Union(gap)
	next.Before = have.String()
	if !lost.IsEmpty() || !gap.IsEmpty() {
		// What was archived before is of no use for what follows, unless a backup bridges it.
		next.Gap, next.Lost = gap.String(), lost.String()
		next.Anchor, next.AnchorNumber, next.AnchorTime = next.Before, next.Number, at.at
		a.o.Log.Error(nil, "THE ARCHIVE HAS A BREAK: what precedes it can be restored up to it, and a new backup is needed for what follows",
			"purged before they were archived", next.Gap, "archived but not in the cluster", next.Lost)
		a.tell(func(r *Report) { r.Gap, r.Lost, r.Anchor = next.Gap, next.Lost, next.Anchor })
	}
	return next, nil
}

// note takes into the report what the archive's newest segment says.
func (a *Archiver) note(head *Header, at server) {
	a.tell(func(r *Report) {
		r.Segments, r.Archived, r.Anchor, r.At = head.Number, head.Cumulative, head.Anchor, at.at
		if reaches := earlier(head.Reaches, head.ClosedAt); reaches.After(r.CoveredUntil) {
			r.CoveredUntil = reaches
		}
		if head.Gap != "" || head.Lost != "" {
			r.Gap, r.Lost = head.Gap, head.Lost
		}
	})
}

// earlier keeps a server whose clock is ahead from making the archive look better than it is, for long after its end.
func earlier(server, own time.Time) time.Time {
	if own.Before(server) {
		return own
	}
	return server
}

// resumeSpool keeps what waits in the spool as far as it follows the archive's end.
func (a *Archiver) resumeSpool(head *Header, have gtid.Set, next Header, at server) (gtid.Set, Header, error) {
	kept := 0
	for _, h := range a.o.Spool.Pending() {
		own, before, cumulative, err := h.sets()
		if err != nil || h.Number != next.Number || h.ClusterUID != a.o.ClusterUID || !before.Equal(have) || h.Anchor != next.Anchor && h.AnchorNumber != h.Number ||
			!at.executed.Contains(own) {
			break
		}
		kept++
		have, next.Number, next.Reaches = cumulative, h.Number+1, h.Reaches
		next.Anchor, next.AnchorNumber, next.AnchorTime = h.Anchor, h.AnchorNumber, h.AnchorTime
	}
	if dropped := len(a.o.Spool.Pending()) - kept; dropped > 0 {
		a.o.Log.Info("reading again what waited to be archived: the archive or the primary went another way", "segments", dropped, "after", head.Number)
	}
	return have, next, a.o.Spool.Keep(kept)
}

// start begins an archive: after the newest backup if all that follows it is still there, else now.
func (a *Archiver) start(ctx context.Context, next *Header, at server) error {
	have, since := at.executed, at.at
	if err := a.lookAtBases(ctx, 0); err != nil {
		return err
	}
	for _, b := range a.base.newestFirst() {
		if b.set.Contains(at.purged) && at.executed.Contains(b.set) {
			have, since = b.set, b.taken
			break
		}
	}
	next.Before = have.String()
	next.Anchor, next.AnchorNumber, next.AnchorTime = next.Before, next.Number, since.UTC()
	a.tell(func(r *Report) { r.Anchor, r.Archived, r.At = next.Anchor, next.Before, at.at })
	return nil
}

// lookAtBases lists the backups unless that was done a short time ago.
func (a *Archiver) lookAtBases(ctx context.Context, every time.Duration) error {
	now := a.o.Clock.Now()
	if now.Sub(a.based) < every {
		return nil
	}
	if err := a.base.look(ctx); err != nil {
		return err
	}
	a.based = now
	return nil
}
