package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

const (
	// sampleBytes is how much data is read a second time to compare it with, by InnoDB's estimate.
	sampleBytes = 256 << 20
	// sampleTime bounds reading it, and sampleEach reading one table: the estimate may be far from what it takes.
	sampleTime, sampleEach = 10 * time.Minute, time.Minute
	// doubtsTime bounds looking for values that the dump does not bring back.
	doubtsTime = 5 * time.Minute
	// sizeTime bounds reading how large the tables are.
	sizeTime = time.Minute
	// ownDatabase is the operator's.
	ownDatabase = "nairobi_mysql"
)

// ignored are the tables of ownDatabase that no backup holds.
func ignored(table string) bool { return table == "recovery" }

// size reads how large the tables are, and returns how large they are together; 0 where that takes too long. Then there are no
// samples either.
func (d *dump) size(ctx context.Context) (int64, error) {
	err := d.viewer.Within(ctx, sizeTime, func(ctx context.Context) (err error) {
		d.sizes, err = d.viewer.Tables(ctx)
		return err
	})
	switch {
	case errors.Is(err, podclient.ErrTooLong) && d.viewer.Usable():
		d.sizes = nil
	case err != nil:
		return 0, d.blame(fmt.Errorf("read the tables' sizes: %w", err))
	}
	var sum int64
	for _, t := range d.sizes {
		sum += t.Bytes
	}
	return sum, nil
}

// doubts names the columns with values that the dump does not bring back, and what may make a restore fail, the smallest tables first. What is not looked through in time
// is named as well. Their tables have no checksums.
func (d *dump) doubts(ctx context.Context) error {
	found, err := d.viewer.Inventory().Doubts(ctx)
	if err != nil {
		return err
	}
	at := func(d podclient.Doubt) func(podclient.Table) bool {
		return func(t podclient.Table) bool { return t.Database == d.Table.Database && t.Name == d.Table.Name }
	}
	slices.SortStableFunc(found, func(a, b podclient.Doubt) int {
		return cmp.Compare(slices.IndexFunc(d.sizes, at(a)), slices.IndexFunc(d.sizes, at(b)))
	})
	end := d.o.Clock.Now().Add(doubtsTime)
	for _, doubt := range found {
		confirmed, err := d.confirmed(ctx, doubt, end)
		d.moved.looked.Add(1)
		before := ""
		switch {
		case errors.Is(err, podclient.ErrTableGone):
			continue // if mysqldump has it, it has it from before
		case errors.Is(err, podclient.ErrTooLong):
			confirmed, before = true, "it was not looked through in time; where "
		case err != nil:
			return err
		}
		if confirmed {
			if i := slices.IndexFunc(d.sizes, at(doubt)); i >= 0 {
				d.sizes[i].Inexact = true
			}
			d.manifest.LeftOut = append(d.manifest.LeftOut, doubt.LeftOut(before))
		}
	}
	return nil
}

// each bounds looking at one table, below the time after which the dump counts as stalled.
func (d *dump) each() time.Duration {
	if d.o.StallTimeout > 0 {
		return min(d.sampleEach, d.o.StallTimeout/2)
	}
	return d.sampleEach
}

// confirmed says whether a column has such values, or that it was not looked through until a time.
func (d *dump) confirmed(ctx context.Context, doubt podclient.Doubt, end time.Time) (is bool, err error) {
	left := min(end.Sub(d.o.Clock.Now()), d.each())
	switch {
	case doubt.Certain():
		return true, nil
	case left <= 0, !d.viewer.Usable():
		return false, podclient.ErrTooLong
	}
	err = d.viewer.Within(ctx, left, func(ctx context.Context) (err error) {
		is, err = d.viewer.Inventory().Confirmed(ctx, doubt)
		return err
	})
	return is, err
}

// tooLong names the tables with a row that no server takes from the dump.
func (d *dump) tooLong() {
	for _, long := range d.reader.row.length.found {
		what := "rows of table " + long.database + "." + long.table
		if !slices.ContainsFunc(d.manifest.LeftOut, func(l podclient.LeftOut) bool { return l.What == what }) {
			d.manifest.LeftOut = append(d.manifest.LeftOut, podclient.LeftOut{What: what, Why: fmt.Sprintf("one needs a statement of %d bytes in the dump, more than the 1 GiB that MySQL takes, "+
				"and a restore fails (LoadRejected); store it in parts, or take snapshots", long.bytes)})
		}
	}
}

// parsers names the tables whose FULLTEXT keys need a plug-in.
func (d *dump) parsers() {
	for _, t := range d.reader.created {
		if t.parser != "" {
			d.manifest.LeftOut = append(d.manifest.LeftOut, podclient.LeftOut{What: "FULLTEXT key of table " + t.Database + "." + t.Table, Why: "its parser " + t.parser +
				" is a library on the server, and a restore fails on a server without it (LoadRejected); drop the key, and create it again after a restore"})
		}
	}
}

// samples reads tables a second time, on the server itself and in the very moment of the dump, the smallest first.
func (d *dump) samples(ctx context.Context) error {
	budget, end := int64(sampleBytes), d.o.Clock.Now().Add(sampleTime)
	for _, t := range d.sizes {
		left := end.Sub(d.o.Clock.Now())
		if budget -= t.Bytes; budget < 0 || left <= 0 || !d.viewer.Usable() {
			break
		}
		if !d.tables[podclient.Table{Database: t.Database, Name: t.Name}] {
			continue // it was dropped before the server stood still
		}
		sample, err := d.sample(ctx, t, min(left, d.each()))
		d.moved.looked.Add(1)
		if errors.Is(err, podclient.ErrTableGone) || errors.Is(err, podclient.ErrTooLong) {
			continue // if mysqldump has it, it has it from before; if not, compare says so
		}
		if err != nil {
			return err
		}
		d.manifest.Samples = append(d.manifest.Samples, sample)
	}
	return nil
}

// sample reads one table, for limit at most. One that is counted by then and not summed up has no checksum.
func (d *dump) sample(ctx context.Context, t podclient.Table, limit time.Duration) (Sample, error) {
	s := Sample{TableRows: TableRows{Database: t.Database, Table: t.Name}}
	counted := false
	err := d.viewer.Within(ctx, limit, func(ctx context.Context) (err error) {
		if s.Rows, err = d.viewer.Count(ctx, t); err != nil {
			return fmt.Errorf("count %s.%s: %w", t.Database, t.Name, err)
		}
		counted = true
		if t.Inexact {
			return nil
		}
		sum, err := d.viewer.Checksum(ctx, t)
		if err != nil {
			return fmt.Errorf("read %s.%s: %w", t.Database, t.Name, err)
		}
		s.Checksum = &sum
		return nil
	})
	if counted && errors.Is(err, podclient.ErrTooLong) {
		err = nil
	}
	return s, err
}

// compare holds the dump against what the server said of the same moment: the tables that it held and how they were made, and the rows of some.
// A table that was altered before mysqldump read it is dumped with that, also where its rows are those of the moment: the statement
// could not be replayed on it.
func (d *dump) compare() error {
	made := map[podclient.Table]bool{}
	for _, c := range d.reader.created {
		t := podclient.Table{Database: c.Database, Name: c.Table}
		made[t] = true
		if sum := d.beside.tables[t]; sum != "" && sum != c.sum {
			return fmt.Errorf("%w: %s.%s was altered before it was dumped", ErrMoved, t.Database, t.Name)
		}
	}
	for t := range d.tables {
		if !made[t] {
			return fmt.Errorf("%w: it does not make %s.%s", ErrIncomplete, t.Database, t.Name)
		}
	}
	for _, s := range d.manifest.Samples {
		if rows := d.manifest.rows(s.Database, s.Table); rows != s.Rows {
			return fmt.Errorf("%w: it has %d rows of %s.%s, the server has %d", ErrIncomplete, rows, s.Database, s.Table, s.Rows)
		}
	}
	return nil
}

// rows is how many rows of a table the dump holds. A table without rows is not in the list.
func (m *Manifest) rows(database, table string) uint64 {
	for _, t := range m.Tables {
		if t.Database == database && t.Table == table {
			return t.Rows
		}
	}
	return 0
}
