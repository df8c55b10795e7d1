// Package load fills a server with a dump of tables, in several sessions at the same time.
//
// A dump is one stream, in which each table comes after the one before it. What makes tables goes to a console in the stream's order.
// The statements that insert rows go to sessions beside it, each to one that is free: so they work on one large table as well as on
// several small ones, and nothing has to be kept until its turn. That needs no order among the rows of a table with a primary key: each statement
// is a transaction of its own, foreign keys are not checked, and triggers are made later. A table without one keeps its rows in the order in
// which they were inserted, and gets one statement at a time.
package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// Console takes statements as a stream and runs them one after the other.
type Console interface {
	io.Writer
	// Sync returns once what was written is done.
	Sync() error
}

// Session runs statements in a database, however long they take.
type Session interface {
	Run(ctx context.Context, database, statement string) error
	Close()
}

// Options say by what a dump is loaded.
type Options struct {
	Console Console
	// Sessions is how many sessions load rows, each opened by Open.
	Sessions int
	Open     func(context.Context) (Session, error)
	// Large says that a table has so many rows that keys are built after them.
	Large func(database, table string) bool
	// Building counts the sessions that build keys: meanwhile the stream may stand still.
	Building *atomic.Int32
}

// ConsoleError is a failure of the console, which is at a table or, without a name, at none.
type ConsoleError struct {
	Table string
	Err   error
}

func (e *ConsoleError) Error() string { return e.Err.Error() }

// Unwrap returns why.
func (e *ConsoleError) Unwrap() error { return e.Err }

// Run loads what mysqldump wrote of tables, without views and stored programs. A statement of a session that fails ends ctx, by fail,
// with an error that names the table. A failure of the console is a ConsoleError. An error of the stream is returned as it is.
func Run(ctx context.Context, fail context.CancelCauseFunc, dump io.Reader, o Options) error {
	group, ctx := errgroup.WithContext(ctx)
	l := &loader{Options: o, jobs: make(chan job), referenced: map[string]bool{}}
	for range o.Sessions {
		group.Go(func() error {
			err := l.serve(ctx)
			if err != nil {
				fail(err)
			}
			return err
		})
	}
	group.Go(func() error {
		defer close(l.jobs)
		return l.read(ctx, NewSplitter(dump))
	})
	return group.Wait()
}

// loader loads one dump. Its fields belong to the goroutine that reads.
type loader struct {
	Options
	jobs chan job
	// busy are the jobs that are not done.
	busy sync.WaitGroup

	database string
	table    *table
	// referenced are the tables that foreign keys of others refer to, by their names alone.
	referenced map[string]bool
	// behind: the console may not have done yet what it was given.
	behind bool
	// long reads an INSERT that comes in pieces; nil of other statements.
	long *zeros
}

// table is a table that the dump is about.
type table struct {
	database, name string
	// ordered: the table has no primary key, so that its rows are inserted in the order of the dump.
	ordered bool
	// keys are to be added once the rows are there.
	keys []string
	// loading are the statements with rows of it that are not done.
	loading sync.WaitGroup
}

// job is a statement for a session.
type job struct {
	table     *table
	statement string
	// builds: it builds the table's keys, after all rows.
	builds bool
}

// read hands each statement to whom it belongs.
func (l *loader) read(ctx context.Context, dump *Splitter) error {
	for {
		statement, err := dump.Next()
		if errors.Is(err, io.EOF) {
			if err := l.settle(ctx); err != nil {
				return err
			}
			return l.sync()
		}
		if err != nil {
			return err
		}
		if err := l.take(ctx, statement); err != nil {
			return err
		}
	}
}

var (
	insert     = []byte("INSERT INTO `")
	create     = []byte("CREATE TABLE `")
	foreignKey = []byte("FOREIGN KEY")
	primaryKey = []byte("\n  PRIMARY KEY (")
	use        = []byte("USE `")
	needless   = [][]byte{
		[]byte("LOCK TABLES `"), []byte("UNLOCK TABLES;"), // a lock would keep the other sessions out
		[]byte("/*!40000 ALTER TABLE `"), // DISABLE KEYS and ENABLE KEYS, which InnoDB passes over
	}
	// around are statements that set the session up for CREATE TABLE, between it and the rows as well.
	around = [][]byte{[]byte("/*!40101 SET "), []byte("/*!50503 SET ")}
	// alongside are statements that touch nothing which other sessions are working on.
	alongside = [][]byte{[]byte("SET "), []byte("/*!40"), []byte("/*!50"), []byte("CREATE DATABASE "), use, []byte("DROP TABLE IF EXISTS `"), create}
)

// take hands one statement, or a piece of one, to whom it belongs.
func (l *loader) take(ctx context.Context, s Statement) error {
	text := s.Text
	if !s.First || !s.Last && bytes.HasPrefix(text, insert) {
		return l.piece(s)
	}
	switch {
	case bytes.HasPrefix(text, insert):
		return l.rows(ctx, text)
	case hasPrefix(text, needless):
		return nil
	case hasPrefix(text, around):
		return l.write(append(text[:len(text):len(text)], '\n'))
	}
	if err := l.finishTable(ctx); err != nil {
		return err
	}
	// Foreign keys make the server lock the tables that they refer to.
	if !s.Last || !hasPrefix(text, alongside) || bytes.Contains(text, foreignKey) {
		if err := l.settle(ctx); err != nil {
			return err
		}
	}
	switch {
	case !s.Last:
		return l.write(text)
	case bytes.HasPrefix(text, use):
		l.database, _, _ = Identifier(text[len(use)-1:])
	case bytes.HasPrefix(text, create):
		text = l.begin(text)
	}
	return l.write(append(text[:len(text):len(text)], '\n'))
}

// piece runs a piece of a statement: so long a row is one at a time.
func (l *loader) piece(s Statement) error {
	if s.First {
		l.long = new(zeros)
		if l.table != nil && l.table.ordered {
			l.table.loading.Wait()
		}
	}
	text := s.Text
	if l.long != nil {
		text = l.long.exact(text)
	}
	if s.Last {
		l.long = nil
	}
	return l.write(text)
}

// begin begins with a table, and returns how it is made for now.
func (l *loader) begin(text []byte) []byte {
	name, _, _ := Identifier(text[len(create)-1:])
	l.table = &table{database: l.database, name: name, ordered: !bytes.Contains(text, primaryKey)}
	if bytes.Contains(text, foreignKey) {
		for _, found := range referenced.FindAllSubmatch(text, -1) {
			to, _, _ := Identifier(append(found[1], ' '))
			l.referenced[strings.ToLower(to)] = true
		}
	}
	if l.Large(l.database, name) && !l.referenced[strings.ToLower(name)] {
		var without string
		without, l.table.keys = splitKeys(string(text))
		return []byte(without)
	}
	return text
}

// rows gives a session rows of a table.
func (l *loader) rows(ctx context.Context, text []byte) error {
	name, _, _ := Identifier(text[len(insert)-1:])
	if l.table == nil || l.table.name != name || l.table.database != l.database {
		l.table = &table{database: l.database, name: name}
	}
	if err := l.sync(); err != nil {
		return err
	}
	if l.table.ordered {
		l.table.loading.Wait()
	}
	return l.send(ctx, job{table: l.table, statement: exactZeros(text)})
}

// finishTable has the keys of the table built whose rows have all been given.
func (l *loader) finishTable(ctx context.Context) error {
	t := l.table
	l.table = nil
	if t == nil || len(t.keys) == 0 {
		return nil
	}
	if err := l.sync(); err != nil {
		return err
	}
	statement := "ALTER TABLE " + conn.QuoteName(t.name) + " ADD " + strings.Join(t.keys, ", ADD ")
	return l.send(ctx, job{table: t, statement: statement, builds: true})
}

func (l *loader) send(ctx context.Context, j job) error {
	l.busy.Add(1)
	if !j.builds {
		j.table.loading.Add(1)
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case l.jobs <- j:
		return nil
	}
}

// settle waits until the sessions have done what they were given.
func (l *loader) settle(ctx context.Context) error {
	if err := l.finishTable(ctx); err != nil {
		return err
	}
	l.busy.Wait()
	return context.Cause(ctx)
}

func (l *loader) write(text []byte) error {
	l.behind = true
	if _, err := l.Console.Write(text); err != nil {
		return l.consoleFailed(err)
	}
	return nil
}

// sync waits until the console has done what it was given.
func (l *loader) sync() error {
	if !l.behind {
		return nil
	}
	l.behind = false
	if err := l.Console.Sync(); err != nil {
		return l.consoleFailed(err)
	}
	return nil
}

func (l *loader) consoleFailed(err error) error {
	failed := &ConsoleError{Err: err}
	if l.table != nil {
		failed.Table = l.table.String()
	}
	return failed
}

func (t *table) String() string { return t.database + "." + t.name }

// serve runs jobs in a session of its own.
func (l *loader) serve(ctx context.Context) error {
	w := worker{loader: l}
	defer w.close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case j, more := <-l.jobs:
			if !more {
				return nil
			}
			if err := w.do(ctx, j); err != nil && ctx.Err() == nil { // else somebody else says why
				return err
			}
		}
	}
}

// worker is one session, which is opened for the first job.
type worker struct {
	*loader
	session Session
}

func (w *worker) close() {
	if w.session != nil {
		w.session.Close()
	}
}

// statementShown is how much of a statement an error shows, in bytes.
const statementShown = 60

func (w *worker) do(ctx context.Context, j job) (err error) {
	defer w.busy.Done()
	if j.builds {
		j.table.loading.Wait() // for what other sessions were given
		w.Building.Add(1)
		defer w.Building.Add(-1)
	} else {
		defer j.table.loading.Done()
	}
	if w.session == nil {
		if w.session, err = w.Open(ctx); err != nil {
			return err
		}
	}
	if err := w.session.Run(ctx, j.table.database, j.statement); err != nil {
		return fmt.Errorf("table %s (%s …): %w", j.table, strings.ToValidUTF8(j.statement[:min(len(j.statement), statementShown)], ""), err)
	}
	return nil
}

func hasPrefix(text []byte, prefixes [][]byte) bool {
	return slices.ContainsFunc(prefixes, func(p []byte) bool { return bytes.HasPrefix(text, p) })
}
