package controllers

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

const (
	// bookkeeper is the application's user. It has no privilege that would let it write to a read-only member.
	bookkeeper = "bookkeeper"
	// bookingInterval is the pause between two bookings.
	bookingInterval = 250 * time.Millisecond

	makeBooks = `SET lock_wait_timeout = 1; CREATE DATABASE IF NOT EXISTS books; CREATE TABLE IF NOT EXISTS books.entries (id INT PRIMARY KEY);
		CREATE USER IF NOT EXISTS bookkeeper@localhost; GRANT INSERT ON books.* TO bookkeeper@localhost;`
)

// books is an application that writes numbered rows through the primary, from the first moment that there is one, and
// remembers which of them it was told are committed: none of those may ever be lost.
type books struct {
	world *sqlWorld
	made  bool // the tables are there
	last  int  // the newest number
	stop  context.CancelFunc
	ended sync.WaitGroup

	mu     sync.Mutex
	booked []string
}

// open begins to book, for the first time or again after close.
func (b *books) open() {
	ctx, stop := context.WithCancel(b.world.t.Context())
	b.stop = stop
	b.ended.Go(func() { b.keep(ctx) })
}

// close stops booking. It may be called twice.
func (b *books) close() {
	b.stop()
	b.ended.Wait()
}

// keep makes the tables on the first primary and books until it is stopped.
func (b *books) keep(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(bookingInterval) {
		for _, s := range b.world.running() {
			if !b.made {
				b.made = b.prepare(ctx, s)
			}
			if !b.made {
				continue
			}
			b.last++
			if b.book(ctx, s, b.last) {
				break
			}
		}
	}
}

// prepare makes the tables on a member that the cluster has made its primary.
func (b *books) prepare(ctx context.Context, s *mysqld.Server) bool {
	if l, err := lookAt(ctx, s); err != nil || !l.Writable || l.Membership == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, statementPatience)
	defer cancel()
	_, err := s.SQL(ctx, makeBooks)
	return err == nil
}

// book writes a row and says whether it was committed. A row of which it is not known is of no account.
func (b *books) book(ctx context.Context, s *mysqld.Server, id int) bool {
	ctx, cancel := context.WithTimeout(ctx, statementPatience)
	defer cancel()
	if _, err := s.SQLAs(ctx, bookkeeper, fmt.Sprintf("INSERT INTO books.entries VALUES (%d);", id)); err != nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.booked = append(b.booked, fmt.Sprintf("ROW(%d)", id))
	return true
}

// count is how many rows were committed so far.
func (b *books) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.booked)
}

// missing says how many of the committed rows a member lacks, or "".
func (b *books) missing(ctx context.Context, s *mysqld.Server) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.booked) == 0 {
		return ""
	}
	query := "SELECT COUNT(*) FROM (VALUES " + strings.Join(b.booked, ",") + ") AS booked (id) WHERE id NOT IN (SELECT id FROM books.entries);"
	if n, err := s.SQL(ctx, query); err != nil || n != "0" {
		return fmt.Sprintf("%s of %d committed rows are missing (%v)", n, len(b.booked), err)
	}
	return ""
}
