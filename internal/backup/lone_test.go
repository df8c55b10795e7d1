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
)

// bearable is what the operator's probe takes for an outage.
const bearable = 5 * time.Second

// longestWrite is how long a write on the primary takes at most while something is done. It wants the table lone.t.
func (w *world) longestWrite(t *testing.T, do func()) (most time.Duration) {
	t.Helper()
	writes, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		for writes.Err() == nil {
			began := time.Now()
			if _, err := w.primary.SQL(t.Context(), "INSERT INTO lone.t VALUES ()"); err != nil {
				t.Error(err)
			}
			most = max(most, time.Since(began))
		}
	})
	do()
	stop()
	group.Wait()
	return most
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
	for name, query := range map[string]string{
		"that is idle":                              "DO 0",
		"with a query that lasts":                   "SELECT SLEEP(20) FROM lone.busy",
		"with a statement that locks what it reads": "BEGIN; SELECT SLEEP(20) FROM lone.busy FOR UPDATE; ROLLBACK",
	} {
		t.Run(name, func(t *testing.T) {
			var group sync.WaitGroup
			group.Go(func() {
				if _, err := w.primary.SQL(t.Context(), query); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(time.Second)
			o := w.options(t, w.primary)
			var m Manifest
			var err error
			most := w.longestWrite(t, func() { m, err = Dump(t.Context(), o) })
			group.Wait()
			must(t, err)
			t.Logf("the longest write took %s", most)
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
	locked, unlock := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { _, _ = w.primary.SQL(locked, "LOCK TABLES lone.busy WRITE; DO SLEEP(1000)") })
	time.Sleep(time.Second)
	var err error
	o := w.options(t, w.primary)
	o.StallTimeout = 10 * time.Minute // as in a cluster
	most := w.longestWrite(t, func() { _, err = Dump(t.Context(), o) })
	unlock()
	group.Wait()
	if !errors.Is(err, mysql.ErrBlocked) || most > bearable {
		t.Errorf("it ended with %v, and a write waited for %s", err, most)
	}
}
