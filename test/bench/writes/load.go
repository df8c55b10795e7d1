package writes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	driver "github.com/go-sql-driver/mysql"
)

// The data set and the transaction of sysbench's oltp_write_only, without its skewed choice of rows.
const (
	tables    = 4
	rows      = 10000
	batch     = 1000
	createOne = "CREATE TABLE bench.sbtest%d (id INT NOT NULL PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL DEFAULT 0, c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '', KEY k_1 (k))"
)

// The statements of a transaction, for each table.
const (
	updateIndexed = iota
	updateOther
	remove
	insert
	statements
)

var texts = [statements]string{
	updateIndexed: "UPDATE bench.sbtest%d SET k = k + 1 WHERE id = ?",
	updateOther:   "UPDATE bench.sbtest%d SET c = ? WHERE id = ?",
	remove:        "DELETE FROM bench.sbtest%d WHERE id = ?",
	insert:        "INSERT INTO bench.sbtest%d (id, k, c, pad) VALUES (?, ?, ?, ?)",
}

// fill makes the tables and their rows.
func fill(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, "CREATE DATABASE bench"); err != nil {
		return fmt.Errorf("make the tables: %w", err)
	}
	for t := range tables {
		if _, err := db.ExecContext(ctx, fmt.Sprintf(createOne, t)); err != nil {
			return fmt.Errorf("make the tables: %w", err)
		}
		for first := 1; first <= rows; first += batch {
			var values []string
			for id := first; id < first+batch; id++ {
				values = append(values, fmt.Sprintf("(%d, %d, '%s', '%s')", id, 1+rand.IntN(rows), digits(11), digits(5)))
			}
			if _, err := db.ExecContext(ctx, fmt.Sprintf("INSERT INTO bench.sbtest%d (id, k, c, pad) VALUES %s", t, strings.Join(values, ","))); err != nil {
				return fmt.Errorf("fill the tables: %w", err)
			}
		}
	}
	return nil
}

// digits are groups of ten random digits with dashes between them, as sysbench writes them.
func digits(groups int) string {
	const length = 10
	b := make([]byte, 0, groups*(length+1))
	for g := range groups {
		if g > 0 {
			b = append(b, '-')
		}
		for range length {
			b = append(b, byte('0'+rand.IntN(10)))
		}
	}
	return string(b)
}

// client is a session that writes.
type client struct {
	session  *sql.Conn
	prepared [tables][statements]*sql.Stmt
	commits  []time.Duration // of those that ended while it was measured
}

// crowd are clients of one server.
type crowd struct {
	db      *sql.DB
	clients []*client
	refused atomic.Int64 // transactions that were rolled back because of a deadlock or a lock's time-out
}

// newCrowd connects clients and prepares their statements. Close it, also after an error.
func newCrowd(ctx context.Context, n *node, size int) (*crowd, error) {
	c := driver.NewConfig()
	c.User, c.Net, c.Addr, c.DBName = "root", "unix", n.server.Socket(), "bench"
	connector, err := driver.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("connect clients: %w", err)
	}
	all := &crowd{db: sql.OpenDB(connector)}
	for range size {
		session, err := all.db.Conn(ctx)
		if err != nil {
			return all, fmt.Errorf("connect a client: %w", err)
		}
		one := &client{session: session}
		all.clients = append(all.clients, one)
		for t := range tables {
			for s, text := range texts {
				if one.prepared[t][s], err = session.PrepareContext(ctx, fmt.Sprintf(text, t)); err != nil {
					return all, fmt.Errorf("prepare a statement: %w", err)
				}
			}
		}
	}
	return all, nil
}

func (c *crowd) close() {
	if c != nil {
		for _, one := range c.clients {
			one.session.Close()
		}
		c.db.Close()
	}
}

// write has all clients write until the end. What commits after the beginning and not after the end is measured.
func (c *crowd) write(ctx context.Context, begin, end time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, end.Add(patience)) // a commit that is never acknowledged
	defer cancel()
	failures := make([]error, len(c.clients))
	var group sync.WaitGroup
	for i, one := range c.clients {
		group.Go(func() {
			for failures[i] == nil && time.Now().Before(end) {
				failures[i] = c.transaction(ctx, one, begin, end)
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

// latencies are those of all clients' commits, sorted.
func (c *crowd) latencies() []time.Duration {
	var all []time.Duration
	for _, one := range c.clients {
		all = append(all, one.commits...)
	}
	slices.Sort(all)
	return all
}

func (c *crowd) transaction(ctx context.Context, one *client, begin, end time.Time) error {
	err := one.change(ctx)
	if err != nil {
		if !retryable(err) {
			return err
		}
		c.refused.Add(1)
		if _, err := one.session.ExecContext(ctx, "ROLLBACK"); err != nil {
			return fmt.Errorf("roll back: %w", err)
		}
		return nil
	}
	began := time.Now()
	if _, err := one.session.ExecContext(ctx, "COMMIT"); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if ended := time.Now(); !ended.Before(begin) && !ended.After(end) {
		one.commits = append(one.commits, ended.Sub(began))
	}
	return nil
}

// change does all of a transaction but its end.
func (c *client) change(ctx context.Context) error {
	if _, err := c.session.ExecContext(ctx, "BEGIN"); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	steps := []struct {
		statement int
		arguments []any
	}{
		{updateIndexed, []any{1 + rand.IntN(rows)}},
		{updateOther, []any{digits(11), 1 + rand.IntN(rows)}},
	}
	for _, s := range steps {
		if _, err := c.prepared[rand.IntN(tables)][s.statement].ExecContext(ctx, s.arguments...); err != nil {
			return fmt.Errorf("update: %w", err)
		}
	}
	table, id := rand.IntN(tables), 1+rand.IntN(rows)
	if _, err := c.prepared[table][remove].ExecContext(ctx, id); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	if _, err := c.prepared[table][insert].ExecContext(ctx, id, 1+rand.IntN(rows), digits(11), digits(5)); err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	return nil
}

// MySQL's answers to a transaction that stood in another's way.
const (
	erLockWaitTimeout = 1205
	erLockDeadlock    = 1213
)

func retryable(err error) bool {
	var answer *driver.MySQLError
	return errors.As(err, &answer) && (answer.Number == erLockWaitTimeout || answer.Number == erLockDeadlock)
}
