package pitr

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// source is a server that the archiver may read from.
func (c *cluster) source(s *mysqld.Server) archive.Source {
	return archive.Source{
		Name: s.Name,
		Connect: func(ctx context.Context) (*podclient.Visit, error) {
			return podclient.OpenVisit(ctx, c.visit(s, mysql.BackupUser))
		},
		Stream: func(ctx context.Context, have gtid.Set) (*podclient.BinlogStream, error) {
			return podclient.OpenBinlogStream(ctx, c.visit(s, mysql.BackupUser), podclient.Follower{ServerID: 4294967294, UUID: "11111111-2222-3333-4444-555555555555"}, have)
		},
	}
}

// TestAnotherMemberFillsAGap: what the primary purged before it was archived is read from a replica that still has it. A gap
// is declared only when nobody has it, and not before a silent member had its time.
func TestAnotherMemberFillsAGap(t *testing.T) {
	c := newCluster(t)
	sql(t, c.primary, "CREATE DATABASE shop; CREATE TABLE shop.diary (n INT PRIMARY KEY)")
	c.dump(c.replica, "before")
	spool := t.TempDir()
	stop := c.archiver(spool, nil)
	c.write(c.primary, 1)
	c.archived()
	stop()
	missed := func(n int) {
		c.write(c.primary, n)
		must(t, c.member(c.replica).WaitApplied(t.Context(), executed(t, c.primary).String(), timeout))
		sql(t, c.primary, "FLUSH BINARY LOGS")
		c.purge()
	}
	missed(2)
	silent := archive.Source{Name: "silent", Connect: func(context.Context) (*podclient.Visit, error) { return nil, mysql.ErrUnreachable }}
	asked := 0
	others := func(list ...archive.Source) func(*archive.Options) {
		return func(o *archive.Options) {
			o.Others = func(context.Context) []archive.Source { asked++; return list }
		}
	}
	stop = c.archiver(spool, others(silent, c.source(c.primary), c.source(c.replica)))
	after := c.write(c.primary, 3)
	c.write(c.primary, 4)
	c.archived()
	stop()
	head, _, err := c.folder.Head(t.Context(), 0)
	must(t, err)
	if head.AnchorNumber != 1 || head.Gap != "" || c.reported().Gap != "" || asked == 0 {
		t.Fatalf("it was filled, and a break is there: %+v, told %+v, asked %d times", head, c.reported(), asked)
	}
	c.checkPoint(after, Point{Time: after.at})

	// A member that has what the primary has not is not believed; nor is one that does not answer waited for in vain.
	missed(5)
	sql(t, c.replica, "SET GLOBAL super_read_only = OFF; CREATE DATABASE errant; SET GLOBAL super_read_only = ON")
	lost := executed(t, c.primary).Subtract(head.All())
	var silence atomic.Bool // was told of, before a gap was
	impatient := func(o *archive.Options) {
		others(silent, c.source(c.replica))(o)
		o.MemberPatience = 3 * time.Second
		report := o.Report
		o.Report = func(r archive.Report) {
			if r.Reason == "Purged" && strings.Contains(r.Error, "silent") && r.Gap == "" {
				silence.Store(true)
			}
			report(r)
		}
	}
	defer c.archiver(spool, impatient)()
	await(t, "the gap is told", func() bool { return c.reported().Gap == lost.String() })
	if !silence.Load() {
		t.Error("the silent member was not told of before the gap")
	}
}

// TestWhatIsCommittedIsArchivedAtTheEnd: an archiver that is ended stores what is committed by then, though its segment is
// small and young; and ends in time when it cannot.
func TestWhatIsCommittedIsArchivedAtTheEnd(t *testing.T) {
	c := newCluster(t)
	sql(t, c.primary, "CREATE DATABASE shop; CREATE TABLE shop.diary (n INT PRIMARY KEY)")
	c.dump(c.replica, "before")
	spool := t.TempDir()
	patient := func(o *archive.Options) { o.SegmentAge, o.FlushTimeout = time.Hour, time.Minute }
	stop := c.archiver(spool, patient)
	await(t, "it follows", func() bool { return !c.reported().At.IsZero() })
	c.write(c.primary, 1)
	c.write(c.primary, 2)
	want := executed(t, c.primary)
	stop()
	head, _, err := c.folder.Head(t.Context(), 0)
	must(t, err)
	if head == nil || !head.All().Equal(want) {
		t.Errorf("the archive ends with %+v, and the cluster with %s", head, want)
	}
	// The primary is gone.
	stop = c.archiver(spool, func(o *archive.Options) { o.SegmentAge, o.FlushTimeout = time.Hour, 3*time.Second })
	await(t, "it follows again", func() bool { return c.reported().At.After(head.ClosedAt) })
	c.primary.Kill()
	began := time.Now()
	stop()
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s to end", took)
	}
	if now, _, err := c.folder.Head(t.Context(), 0); err != nil || now.Number != head.Number {
		t.Error(errors.Join(err, errors.New("there is a segment more")))
	}
}
