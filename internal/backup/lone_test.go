package backup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// bearable is what the operator's probe takes for an outage.
const bearable = 5 * time.Second

// twin is a server on the same instance that nobody does anything to but write.
func (w *world) twin(t *testing.T) *mysqld.Server {
	t.Helper()
	s := w.fresh(t)
	sql(t, s, "SET GLOBAL super_read_only = OFF; CREATE DATABASE lone; CREATE TABLE lone.t (id INT PRIMARY KEY AUTO_INCREMENT)")
	return s
}

// longestWrite is by how much the longest write on the primary, while something is done there, is longer than the longest one on
// its twin meanwhile: what the instance itself holds up counts in neither. Both need the table lone.t.
func (w *world) longestWrite(t *testing.T, twin *mysqld.Server, do func()) time.Duration {
	t.Helper()
	writes, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	write := func(c *console, most *time.Duration) {
		for writes.Err() == nil {
			began := time.Now()
			if _, err := c.do("INSERT INTO lone.t VALUES ()"); err != nil {
				t.Error(err)
				return
			}
			*most = max(*most, time.Since(began))
			time.Sleep(20 * time.Millisecond)
		}
	}
	onPrimary, onTwin := open(t, w.primary), open(t, twin)
	var most, least time.Duration
	group.Go(func() { write(onPrimary, &most) })
	group.Go(func() { write(onTwin, &least) })
	do()
	stop()
	group.Wait()
	t.Logf("the longest write took %s, and %s on a server that is not dumped", most, least)
	return most - least
}

// TestWritesOnALonePrimary wait for a moment only while it is dumped: not for a query that runs long, and not for the accounts,
// however many there are.
func TestWritesOnALonePrimary(t *testing.T) {
	w := theWorld(t)
	var many strings.Builder
	for i := range 300 {
		fmt.Fprintf(&many, "CREATE USER lone%d; GRANT SELECT ON shop.* TO lone%d; ", i, i)
	}
	sql(t, w.primary, "CREATE DATABASE lone; CREATE TABLE lone.t (id INT PRIMARY KEY AUTO_INCREMENT); CREATE TABLE lone.busy (id INT PRIMARY KEY); INSERT INTO lone.busy VALUES (1); "+many.String())
	defer func() {
		var drop strings.Builder
		for i := range 300 {
			fmt.Fprintf(&drop, "DROP USER lone%d; ", i)
		}
		sql(t, w.primary, "DROP DATABASE lone; "+drop.String())
		w.caughtUp(t)
	}()
	twin := w.twin(t)
	for name, query := range map[string]string{
		"that is idle":                              "DO 0",
		"with a query that lasts":                   "SELECT SLEEP(20) FROM lone.busy",
		"with a statement that locks what it reads": "BEGIN; SELECT SLEEP(20) FROM lone.busy FOR UPDATE; ROLLBACK",
	} {
		t.Run(name, func(t *testing.T) {
			var group sync.WaitGroup
			defer group.Wait()
			group.Go(func() {
				if _, err := w.primary.SQL(t.Context(), query); err != nil {
					t.Error(err)
				}
			})
			if strings.Contains(query, "SLEEP") {
				must(t, open(t, w.primary).await("SELECT COUNT(*) FROM information_schema.processlist WHERE STATE = 'User sleep'", "1"))
			}
			o := w.options(t, w.primary)
			var m Manifest
			var err error
			most := w.longestWrite(t, twin, func() { m, err = patiently(t, o) })
			group.Wait()
			must(t, err)
			if most > bearable {
				t.Errorf("a write waited for %s", most)
			}
			if got := w.unpacked(t, o, m.Accounts); strings.Count(got, "GRANT SELECT ON `shop`.* TO `lone") != 300 {
				t.Error("accounts are missing")
			}
		})
	}
}

// TestADumpGivesUp behind a lock that stays, and what is written elsewhere does not wait for that.
func TestADumpGivesUp(t *testing.T) {
	w := theWorld(t)
	sql(t, w.primary, "CREATE DATABASE lone; CREATE TABLE lone.t (id INT PRIMARY KEY AUTO_INCREMENT); CREATE TABLE lone.busy (id INT PRIMARY KEY)")
	defer func() { sql(t, w.primary, "DROP DATABASE lone"); w.caughtUp(t) }()
	locks := open(t, w.primary)
	_, err := locks.do("LOCK TABLES lone.busy WRITE")
	must(t, err)
	o := w.options(t, w.primary)
	o.StallTimeout = 10 * time.Minute // as in a cluster
	most := w.longestWrite(t, w.twin(t), func() { _, err = Dump(t.Context(), o) })
	locks.close()
	if !errors.Is(err, mysql.ErrBlocked) || most > bearable {
		t.Errorf("it ended with %v, and a write waited for %s", err, most)
	}
}
