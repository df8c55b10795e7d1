package pitr

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// TestADumpOfWhatWasLostIsNoBase although the GTIDs that it holds were given out again: the old primary was rebuilt, kept its UUID, and
// leads once more.
func TestADumpOfWhatWasLostIsNoBase(t *testing.T) {
	c := newCluster(t)
	sql(t, c.primary, "CREATE DATABASE shop; CREATE TABLE shop.diary (n INT PRIMARY KEY)")
	must(t, c.member(c.primary).SetSourceWait(t.Context(), false, 0))
	defer c.archiver(t.TempDir(), nil)()
	kept := c.write(c.primary, 1)
	c.archived()
	must(t, c.member(c.replica).WaitApplied(t.Context(), kept.set.String(), timeout))
	must(t, c.member(c.replica).StopIOThread(t.Context()))
	c.write(c.primary, 2)
	c.dump(c.primary, "lost")
	c.archived()
	lost := executed(t, c.primary).Subtract(kept.set)
	c.failover()
	c.write(c.replica, 3)
	await(t, "the report of the loss", func() bool { r := c.reported(); return r.Lost == lost.String() && r.BaseNeeded })
	// The GTID of what was lost, for another transaction.
	sql(t, c.replica, "SET gtid_next = '"+lost.String()+"'; INSERT INTO shop.diary VALUES (4)")
	after := c.write(c.replica, 5)
	c.write(c.replica, 6)
	c.archived()
	if _, err := NewPlan(t.Context(), c.folder, "", Point{Time: after.at}); !errors.Is(err, ErrGap) || !strings.Contains(err.Error(), lost.String()) {
		t.Errorf("from a dump of %s, which was lost: %v", lost, err)
	}
	base := Base{Set: kept.set.Union(lost), Version: "9.7.4"}
	if _, err := NewPlanFrom(t.Context(), c.folder, base, Point{GTID: newestOf(after.set)}); !errors.Is(err, ErrGap) || !strings.Contains(err.Error(), lost.String()) {
		t.Errorf("from a copy of %s, which was lost: %v", lost, err)
	}
	if r := c.reported(); !r.BaseNeeded {
		t.Errorf("the dump counts as a base again: %+v", r)
	}
	time.Sleep(1100 * time.Millisecond) // another second, another folder
	folder := c.dump(c.replica, "whole")
	last := c.write(c.replica, 7)
	c.write(c.replica, 8)
	c.archived()
	plan, err := NewPlan(t.Context(), c.folder, "", Point{Time: last.at})
	must(t, err)
	if plan.Backup != folder || !plan.Result.Equal(last.set) {
		t.Errorf("it begins with %s and leads to %s", plan.Backup, plan.Result)
	}
}

// loses has the cluster lose transactions at a failover: what the primary takes before it is killed, of which there is a dump. It returns them.
// between is called before the primary is killed.
func (c *cluster) loses(between func()) gtid.Set {
	c.t.Helper()
	must(c.t, c.member(c.replica).WaitApplied(c.t.Context(), executed(c.t, c.primary).String(), timeout))
	kept := executed(c.t, c.primary)
	must(c.t, c.member(c.replica).StopIOThread(c.t.Context()))
	c.write(c.primary, 2)
	c.dump(c.primary, "lost")
	lost := executed(c.t, c.primary).Subtract(kept)
	between()
	c.failover()
	return lost
}

// TestALossIsFoundOnceItsGTIDsAreUsedUp: nobody archived while the cluster lost what is archived, and until its GTIDs were used up.
func TestALossIsFoundOnceItsGTIDsAreUsedUp(t *testing.T) {
	c := newCluster(t)
	sql(t, c.primary, "CREATE DATABASE shop; CREATE TABLE shop.diary (n INT PRIMARY KEY)")
	must(t, c.member(c.primary).SetSourceWait(t.Context(), false, 0))
	spool := t.TempDir()
	stop := c.archiver(spool, nil)
	c.write(c.primary, 1)
	lost := c.loses(func() { c.archived(); stop() })
	must(t, c.member(c.replica).RetireTransactions(t.Context(), lost.First(256)))
	defer c.archiver(spool, nil)()
	after := c.write(c.replica, 3)
	c.write(c.replica, 4)
	c.archived()
	await(t, "the report of the loss", func() bool { r := c.reported(); return r.Lost == lost.String() && r.BaseNeeded })
	if _, err := NewPlan(t.Context(), c.folder, "", Point{Time: after.at}); !errors.Is(err, ErrGap) {
		t.Errorf("from a dump of %s, which was lost: %v", lost, err)
	}
	time.Sleep(1100 * time.Millisecond) // another second, another folder
	folder := c.dump(c.replica, "whole")
	last := c.write(c.replica, 5)
	c.write(c.replica, 6)
	c.archived()
	plan, err := NewPlan(t.Context(), c.folder, "", Point{Time: last.at})
	must(t, err)
	if plan.Backup != folder || !plan.Result.Equal(last.set) {
		t.Errorf("it begins with %s and leads to %s", plan.Backup, plan.Result)
	}
	if r := c.reported(); r.Lost != lost.String() {
		t.Errorf("it is lost once more: %+v", r)
	}
}

// TestADumpOfWhatWasUsedUpIsNoBase: what it holds was never archived, so that the archive has no break, also not for an archiver that begins
// again.
func TestADumpOfWhatWasUsedUpIsNoBase(t *testing.T) {
	c := newCluster(t)
	sql(t, c.primary, "CREATE DATABASE shop; CREATE TABLE shop.diary (n INT PRIMARY KEY)")
	must(t, c.member(c.primary).SetSourceWait(t.Context(), false, 0))
	stop := c.archiver(t.TempDir(), nil)
	c.write(c.primary, 1)
	c.archived()
	stop()
	lost := c.loses(func() {})
	stop = c.archiver(t.TempDir(), nil)
	c.write(c.replica, 3)
	c.archived()
	must(t, c.member(c.replica).RetireTransactions(t.Context(), lost.First(256)))
	knows := func() bool {
		h, _, err := c.folder.Head(t.Context(), 0)
		return err == nil && h != nil && h.EverLost(lost).Equal(lost) && h.All().Contains(lost)
	}
	for n := 4; !knows() && n < 60; n++ {
		c.write(c.replica, n)
		time.Sleep(500 * time.Millisecond)
	}
	stop()
	defer c.archiver(t.TempDir(), nil)()
	after := c.write(c.replica, 100)
	c.write(c.replica, 101)
	c.archived()
	await(t, "it looks", func() bool { return c.reported().Required != "" })
	if r := c.reported(); !knows() || r.Lost != "" || r.Gap != "" || !r.BaseNeeded {
		t.Errorf("the archive knows of it: %v, and says %+v", knows(), r)
	}
	if _, err := NewPlan(t.Context(), c.folder, "", Point{Time: after.at}); !errors.Is(err, ErrGap) || !strings.Contains(err.Error(), lost.String()) {
		t.Errorf("from a dump of %s, which was lost: %v", lost, err)
	}
}

// newestOf is the last transaction of the first server of a set.
func newestOf(set gtid.Set) string {
	first, _, _ := strings.Cut(set.String(), ",")
	uuid, numbers, _ := strings.Cut(first, ":")
	return uuid + ":" + numbers[strings.LastIndexAny(numbers, "-:")+1:]
}
