package pitr

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/binlog"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// Errors that a person is told by name.
var (
	// ErrGap: transactions that are needed are not there.
	ErrGap = errors.New("transactions that are needed are missing")
	// ErrBeyond: the archive does not reach that point.
	ErrBeyond = errors.New("the archive does not reach that point")
	// ErrBefore: the point lies before what the backup holds.
	ErrBefore = errors.New("the point lies before the backup")
	// ErrClock: the times of the transactions do not say which of them were committed before the point.
	ErrClock = errors.New("the archive does not say what was committed before that time")
)

// pointFormat is how exactly a point in time is given.
const pointFormat = "2006-01-02T15:04:05.000000Z"

// verifyAtOnce is how many segments are looked through at once.
const verifyAtOnce = 8

// Point is how far to go: one of the two is set.
type Point struct {
	// Time: all that was committed until then, in the order of the binary log, up to the first commit that came later.
	Time time.Time
	// GTID: all up to and including this transaction.
	GTID string
}

func (p Point) String() string {
	if p.GTID != "" {
		return p.GTID
	}
	return p.Time.UTC().Format(pointFormat)
}

// after says whether a transaction comes after the point, when those before it did not; and whether it is the last that
// does not.
func (p Point) after(t binlog.Transaction) (after, last bool) {
	if p.GTID != "" {
		return false, strings.EqualFold(t.GTID(), p.GTID)
	}
	return t.Committed.After(p.Time), false
}

// Base is what the archive leads on from.
type Base struct {
	// Set is all that it holds.
	Set gtid.Set
	// TakenAt is when it was taken: nothing in it was committed later. Zero when that is not known.
	TakenAt time.Time
	// Version is that of the MySQL that it is of.
	Version string
}

// Plan is how a point is reached.
type Plan struct {
	// Backup is the folder of the backup to begin with; empty when that is no dump.
	Backup string
	// Segments follow it, the last of which is cut at the point.
	Segments []uint64
	// Result is what the server has executed in the end.
	Result gtid.Set
	// Last is the last transaction that is replayed; its GTID is empty when nothing follows the base.
	Last Replayed
	// Version is the newest MySQL that wrote any of it.
	Version string

	folder archive.Folder
	point  Point
	base   gtid.Set
	// leftOut is what the dump that it begins with does not carry.
	leftOut notCarried
	// seen says that the archive shows all that was committed before the segment in which the point lies to be of before the
	// point: something in that segment is, or the one before it can be read and ends before the point.
	seen bool
	// anchor is the first segment of those without a gap; nil where it was deleted because all backups hold it.
	anchor *archive.Header
}

// Replayed is a transaction, and when it was committed by what its server says.
type Replayed struct {
	GTID      string
	Committed time.Time
}

func (r Replayed) String() string {
	if r.GTID == "" {
		return "no transaction of the archive follows what it begins with"
	}
	return fmt.Sprintf("the last transaction is %s, committed at %s", r.GTID, r.Committed.UTC().Format(pointFormat))
}

// header reads the header of numbers[i], or of the next one after it that can be read.
func (p *Plan) header(ctx context.Context, numbers []uint64, i int) (*archive.Header, error) {
	for ; i < len(numbers); i++ {
		h, err := p.folder.Header(ctx, numbers[i])
		if err == nil || !errors.Is(err, backup.ErrCorrupt) && !errors.Is(err, store.ErrNotFound) {
			return h, err
		}
	}
	return nil, nil //nolint:nilnil // none of the rest can be read
}

// found is what was seen of a segment.
type found struct {
	header *archive.Header
	err    error
}

// look reads something of segments, of several at once.
func (p *Plan) look(numbers []uint64, read func(number uint64) (*archive.Header, error)) []found {
	all := make([]found, len(numbers))
	slots := make(chan struct{}, verifyAtOnce)
	var group sync.WaitGroup
	for i, number := range numbers {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			all[i].header, all[i].err = read(number)
		})
	}
	group.Wait()
	return all
}
