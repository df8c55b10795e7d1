package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

const (
	// sampleBytes is how much data is read a second time to compare it with, by InnoDB's estimate.
	sampleBytes = 256 << 20
	// sampleTime bounds reading it.
	sampleTime = 10 * time.Minute
	// ownDatabase is the operator's.
	ownDatabase = "nairobi_mysql"
)

// ignored are the tables of ownDatabase that no backup holds.
func ignored(table string) bool { return table == "recovery" }

// samples reads tables a second time, on the server itself and in the very moment of the dump, the smallest first.
func (d *dump) samples(ctx context.Context) error {
	tables, err := d.viewer.Tables(ctx)
	if err != nil {
		return fmt.Errorf("list the tables: %w", err)
	}
	budget, end := int64(sampleBytes), d.o.Clock.Now().Add(sampleTime)
	for _, t := range tables {
		if budget -= t.Bytes; budget < 0 || d.o.Clock.Now().After(end) {
			break
		}
		if !d.tables[mysql.Table{Database: t.Database, Name: t.Name}] {
			continue // it is of later
		}
		sample, err := d.sample(ctx, t)
		if errors.Is(err, mysql.ErrTableGone) {
			continue // if mysqldump has it, it has it from before; if not, compare says so
		}
		if err != nil {
			return err
		}
		d.manifest.Samples = append(d.manifest.Samples, sample)
	}
	return nil
}

// sample reads one table.
func (d *dump) sample(ctx context.Context, t mysql.Table) (Sample, error) {
	s := Sample{TableRows: TableRows{Database: t.Database, Table: t.Name}}
	var err error
	if s.Rows, err = d.viewer.Count(ctx, t); err != nil {
		return s, fmt.Errorf("count %s.%s: %w", t.Database, t.Name, err)
	}
	if t.Inexact {
		return s, nil
	}
	sum, err := d.viewer.Checksum(ctx, t)
	if err != nil {
		return s, fmt.Errorf("read %s.%s: %w", t.Database, t.Name, err)
	}
	s.Checksum = &sum
	return s, nil
}

// compare holds the dump against what the server said of the same moment: the tables that it held, and the rows of some.
func (d *dump) compare() error {
	made := map[mysql.Table]bool{}
	for _, t := range d.reader.created {
		made[mysql.Table{Database: t.Database, Name: t.Table}] = true
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
