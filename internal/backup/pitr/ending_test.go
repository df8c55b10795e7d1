package pitr

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// refusing is a store that refuses to store for so many times.
type refusing struct {
	store.Store
	times atomic.Int64
}

func (r *refusing) Create(ctx context.Context, key string, body io.Reader) error {
	if r.times.Add(-1) >= 0 {
		return store.ErrUnavailable
	}
	return r.Store.Create(ctx, key, body)
}

// ending is an archiver that is about to end: its segments wait for nothing but that.
func ending(o *archive.Options) { o.SegmentAge, o.FlushTimeout = time.Hour, time.Minute }

// endsWhole makes sure that the archive holds all that the primary has, and that nothing was said to be left. It returns the
// archive's end.
func (c *cluster) endsWhole() *archive.Header {
	c.t.Helper()
	head, _, err := c.folder.Head(c.t.Context(), 0)
	must(c.t, err)
	if want := executed(c.t, c.primary); head == nil || !head.All().Equal(want) {
		c.t.Fatalf("the archive ends with %+v, and the cluster with %s", head, want)
	}
	if r := c.reported(); r.Error != "" {
		c.t.Errorf("it is told that something is left: %s", r.Error)
	}
	return head
}

// TestTroubleInTheEndIsPassed: an archiver that is ended goes on after a bucket and a primary that fail for a moment, and stores
// many transactions in few segments. What it could not store it names.
func TestTroubleInTheEndIsPassed(t *testing.T) {
	c := newCluster(t)
	sql(t, c.primary, "CREATE DATABASE shop; CREATE TABLE shop.diary (n INT PRIMARY KEY)")
	c.dump(c.replica, "before")
	bucket := &refusing{Store: c.folder.Store}
	var unreachable atomic.Int64
	spool, row := t.TempDir(), 0
	write := func(rows int) {
		for range rows {
			row++
			c.write(c.primary, row)
		}
	}
	run := func(patience time.Duration) (stop func()) {
		return c.archiver(spool, func(o *archive.Options) {
			ending(o)
			o.FlushTimeout, o.Folder.Store = patience, bucket
			connect := o.Connect
			o.Connect = func(ctx context.Context) (*podclient.Visit, error) {
				if unreachable.Add(-1) >= 0 {
					return nil, mysql.ErrUnreachable
				}
				return connect(ctx)
			}
		})
	}
	stop := run(time.Minute)
	await(t, "it follows", func() bool { return !c.reported().At.IsZero() })
	write(3)
	bucket.times.Store(2)
	unreachable.Store(1)
	stop()
	first := c.endsWhole()

	const many = 100
	var statements strings.Builder
	for range many {
		row++
		fmt.Fprintf(&statements, "INSERT INTO shop.diary VALUES (%d); ", row)
	}
	sql(t, c.primary, statements.String())
	began := time.Now()
	run(time.Minute)()
	// One for each half a second, and not one for each transaction.
	if last, most := c.endsWhole(), 3+uint64(time.Since(began)/(500*time.Millisecond)); last.Number > first.Number+most {
		t.Errorf("it stored %d transactions in %d segments", many, last.Number-first.Number)
	}

	write(2)
	bucket.times.Store(1 << 40)
	head, _, err := c.folder.Head(t.Context(), 0)
	must(t, err)
	left := executed(t, c.primary).Subtract(head.All())
	run(15 * time.Second)()
	if r := c.reported(); left.IsEmpty() || !strings.Contains(r.Error, left.String()) || r.Reason != "StoreUnavailable" {
		t.Errorf("left is %s, and told %s: %s", left, r.Reason, r.Error)
	}
}

// TestWhatAnotherMemberGaveIsStoredInTheEnd: an archiver that is ended while it reads from another member what the primary has
// purged stores that, and what follows it on the primary.
func TestWhatAnotherMemberGaveIsStoredInTheEnd(t *testing.T) {
	c := newCluster(t)
	sql(t, c.primary, "CREATE DATABASE shop; CREATE TABLE shop.diary (n INT PRIMARY KEY)")
	c.dump(c.replica, "before")
	spool := t.TempDir()
	stop := c.archiver(spool, nil)
	c.write(c.primary, 1)
	c.archived()
	stop()
	c.write(c.primary, 2)
	must(t, c.member(c.replica).WaitApplied(t.Context(), executed(t, c.primary).String(), timeout))
	sql(t, c.primary, "FLUSH BINARY LOGS")
	c.purge()
	var streams atomic.Int64
	stop = c.archiver(spool, func(o *archive.Options) {
		ending(o)
		other := c.source(c.replica)
		stream := other.Stream
		other.Stream = func(ctx context.Context, have gtid.Set) (*podclient.BinlogStream, error) {
			streams.Add(1)
			return stream(ctx, have)
		}
		o.Others = func(context.Context) []archive.Source { return []archive.Source{other} }
	})
	await(t, "it reads from the other member", func() bool { return streams.Load() > 0 })
	c.write(c.primary, 3)
	time.Sleep(time.Second) // what the other member has is in the segment that is being written
	stop()
	if c.endsWhole().AnchorNumber != 1 {
		t.Error("there is a break")
	}
}
