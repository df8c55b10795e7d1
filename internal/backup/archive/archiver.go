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
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
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
	// errAnother: the stream and the session reached different servers.
	errAnother = errors.New("the connection reached another server")
	// errTaken: another pod archives too, and was faster.
	errTaken = errors.New("another pod archives too")
)

// Options say what is archived to where.
type Options struct {
	Folder     Folder
	ClusterUID string
	Spool      *Spool
	// Connect opens a session on the primary as the backup pods' account, Stream follows the same server.
	Connect func(ctx context.Context) (*podclient.Visit, error)
	Stream  func(ctx context.Context, have gtid.Set) (*podclient.BinlogStream, error)
	// Others gives the cluster's other members, which are asked for what the primary has purged. It may be nil.
	Others func(ctx context.Context) []Source
	// Report is told how the archive is, after each change and every few seconds. It must return soon.
	Report func(Report)
	Clock  clock.PassiveClock
	Log    logr.Logger
	// SegmentBytes, SegmentAge and SpoolBytes default to the constants above.
	SegmentBytes, SpoolBytes int64
	SegmentAge               time.Duration
	// MemberPatience is how long a silent member is waited for before a gap is declared that it may fill, FlushTimeout how
	// long an archiver that is ended may take to store what is committed. They default to ten minutes and 20 seconds.
	MemberPatience, FlushTimeout time.Duration
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
	Start
	// FirstRecoverable is the earliest moment that can be restored.
	FirstRecoverable time.Time `json:"firstRecoverable"`
	// Gap and Lost are those of the newest break in the archive.
	Gap  string `json:"gap,omitempty"`
	Lost string `json:"lost,omitempty"`
	// Missing are transactions that were archived, and whose segments are no longer in the bucket.
	Missing string `json:"missing,omitempty"`
	TimeAhead
	// Kept is why segments are still there that no backup needs.
	Kept string `json:"kept,omitempty"`
	Doubt
	// Error is why archiving stands still; empty while it does not.
	Error string `json:"error,omitempty"`
	// Reason is Error in one word.
	Reason string `json:"reason,omitempty"`
	// Ended is true when the archiver was told to end and has stored everything that was committed by then.
	Ended bool `json:"ended,omitempty"`
}

// Start is what the archive begins with.
type Start struct {
	// Anchor is what had been committed before the first segment that follows without a gap, AnchorAt a moment at which it had.
	Anchor   string    `json:"anchor,omitempty"`
	AnchorAt time.Time `json:"anchorAt"`
	// Required is what a backup must hold to be a base: the anchor, and what precedes a hole.
	Required string `json:"required,omitempty"`
	// BaseNeeded says that there is no such backup.
	BaseNeeded bool `json:"baseNeeded,omitempty"`
	// Unreplayable is what the newest backup lacks: a replay from it ends at the first change of one of these.
	Unreplayable string `json:"unreplayable,omitempty"`
}

// Doubt is why the archive could not be looked through, and since when: segments may be missing. It is empty while it can.
type Doubt struct {
	Unread      string    `json:"unread,omitempty"`
	UnreadSince time.Time `json:"unreadSince"`
}

// TimeAhead is the newest transaction that says that it was committed after it was archived, and when it was archived.
type TimeAhead struct {
	Ahead      string    `json:"ahead,omitempty"`
	AheadSince time.Time `json:"aheadSince"`
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
	// Only Run uses what follows: when the archive was last looked through and the backups last listed, and the hole that was
	// found then.
	tidied, based time.Time
	tidyDue       time.Time
	hole          hole
	// needy is true while no backup is a base.
	needy bool
	// gapSince is since when a gap is known for which a silent member is waited.
	gapSince time.Time
	// unproven is what the report said of breaks before it told one that is in no segment yet.
	unproven *breakage
	// known are the losses that the next segment repeats.
	known Losses
	// executed is what the primary had when it was looked at last, target what of that is stored before an archiver ends.
	executed, target gtid.Set
	// ending is closed when the archiver is told to end.
	ending chan struct{}
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
	if o.MemberPatience == 0 {
		o.MemberPatience = memberPatience
	}
	if o.FlushTimeout == 0 {
		o.FlushTimeout = flushTimeout
	}
	if o.Report == nil {
		o.Report = func(Report) {}
	}
	return &Archiver{o: o, base: &bases{stored: o.Folder.Backups()}, ending: make(chan struct{})}
}

// Run archives until ctx ends, and then stores what is committed by then, within FlushTimeout. It begins again after every
// failure: what it goes by is what the archive and the primary say then, so that it may be cut off anywhere. It is called once.
func (a *Archiver) Run(ctx context.Context) error {
	work, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	stop := context.AfterFunc(ctx, func() {
		close(a.ending)
		time.AfterFunc(a.o.FlushTimeout, func() { end(context.Cause(ctx)) })
	})
	defer stop()
	pause := retryPause
	for failure := error(nil); ; {
		began := a.o.Clock.Now()
		err := a.session(work)
		if errors.Is(err, errFlushed) || work.Err() != nil {
			a.ended(err, failure)
			return context.Cause(ctx)
		}
		if errors.Is(err, errCaughtUp) || errors.Is(err, errRetired) {
			// What was read waits in the spool. Should the archive take it no further, that is tried once a second.
			a.rest(work, retryPause-a.o.Clock.Since(began))
			continue
		}
		if a.o.Clock.Since(began) > maxRetryPause {
			pause = retryPause
		}
		if a.isEnding() {
			failure, pause = err, min(pause, maxFlushPause)
		}
		a.o.Log.Info("the archive begins again", "because", err.Error())
		a.tell(func(r *Report) { r.Error, r.Reason, r.At = err.Error(), reasonOf(err), a.o.Clock.Now().UTC() })
		a.rest(work, pause)
		pause = min(2*pause, maxRetryPause)
	}
}

// rest pauses, but for the moment in which the archiver is told to end: what is left to be stored is tried at once.
func (a *Archiver) rest(work context.Context, pause time.Duration) {
	var ending <-chan struct{}
	if !a.isEnding() {
		ending = a.ending
	}
	select {
	case <-work.Done():
	case <-ending:
	case <-time.After(pause):
	}
}

// reasons are the words for what holds an archive up.
var reasons = []struct {
	err  error
	word string
}{
	{store.ErrDenied, "AccessDenied"}, {store.ErrNoBucket, "NoBucket"}, {store.ErrFull, "StoreFull"}, {store.ErrUnavailable, "StoreUnavailable"},
	{store.ErrOverwrites, "StoreOverwrites"},
	{ErrNotPrimary, "NoPrimary"}, {mysql.ErrUnreachable, "NoPrimary"}, {errAnother, "NoPrimary"}, {errTaken, "SegmentExists"}, {podclient.ErrPurged, "Purged"}, {errWaiting, "Purged"}, {errForeign, "Purged"}, {errSpoolFull, "SpoolFull"},
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
	// Where the archive ends is read first: another pod may take it further meanwhile, and the primary has that then.
	head, newest, err := a.o.Folder.Head(ctx, a.o.Spool.Hint())
	if err != nil {
		return err
	}
	at, err := a.position(ctx, v)
	if err != nil {
		return err
	}
	at.epoch = v.Epoch(ctx)
	next, source, err := a.resume(ctx, v, tail{head, newest}, at)
	if err != nil {
		return err
	}
	stream, err := source.stream(ctx, next.Preceding())
	if err != nil {
		return err
	}
	defer stream.Close()
	if stream.ServerUUID != source.uuid {
		return errAnother
	}
	a.o.Log.Info("archiving", "from", source.uuid, "segment", next.Number, "after", next.Before)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	defer group.Wait()
	defer stream.Close()
	group.Go(func() {
		if err := a.read(ctx, stream, next, source); err != nil {
			cancel(err)
		}
	})
	err = a.publish(ctx, v, at.uuid, source)
	cancel(err)
	return err
}
