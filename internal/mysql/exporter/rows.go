package exporter

import (
	"context"
	"database/sql"
	"math"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// samples runs the query on a member and returns its metrics. labels are the member's.
func (q *query) samples(ctx context.Context, s *conn.Session, labels []string) ([]prometheus.Metric, error) {
	r := reading{labels: labels, sums: make([]float64, len(q.Metrics))}
	err := s.Rows(ctx, q.Query, nil, func(rows *sql.Rows) error {
		if err := r.scan(rows); err != nil {
			return err
		}
		for i := range q.Metrics {
			r.take(i, &q.Metrics[i])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range q.Metrics {
		r.finish(i, &q.Metrics[i])
	}
	return r.found, nil
}

// reading is what was read of a query's rows so far.
type reading struct {
	labels  []string
	columns []string
	values  []sql.RawBytes
	into    []any

	found []prometheus.Metric
	// sums are of the metrics that are made of all rows.
	sums []float64
	// buckets, total and sum are the histogram's. last is its highest bound.
	buckets          map[float64]uint64
	last, total, sum float64
}

// scan reads the present row. The bytes are the driver's, until the next row.
func (r *reading) scan(rows *sql.Rows) (err error) {
	if r.columns == nil {
		if r.columns, err = rows.Columns(); err != nil {
			return err
		}
		r.values, r.into = make([]sql.RawBytes, len(r.columns)), make([]any, len(r.columns))
		for i := range r.values {
			r.into[i] = &r.values[i]
		}
	}
	return rows.Scan(r.into...)
}

// text is what the present row has in a column, empty for NULL and for a column that is not there.
func (r *reading) text(column string) string {
	for i, name := range r.columns {
		if name == column {
			return string(r.values[i])
		}
	}
	return ""
}

// take takes of the present row what is the metric's.
func (r *reading) take(i int, m *metric) {
	switch {
	case m.Type == typeHistogram:
		r.bucket()
	case m.Over != "":
		if value, ok := number(r.text(m.Column)); ok && m.Over == "sum" {
			r.sums[i] += value
		} else if ok {
			r.sums[i]++
		}
	case m.row != nil:
		name := m.row.FindStringSubmatch(string(r.values[0]))
		if name == nil {
			return
		}
		if value, ok := number(string(r.values[1])); ok {
			r.add(m, value, lower(name[1:])...)
		}
	default:
		if value, ok := number(r.text(m.Column)); ok {
			texts := make([]string, len(m.Labels))
			for i, column := range m.Labels {
				texts[i] = r.text(column)
			}
			r.add(m, value, texts...)
		}
	}
}

func (r *reading) add(m *metric, value float64, labels ...string) {
	r.found = append(r.found, prometheus.MustNewConstMetric(m.desc, m.kind(), value, append(r.labels[:len(r.labels):len(r.labels)], labels...)...))
}

// bucket takes a bucket of the histogram. The highest has no bound of its own.
func (r *reading) bucket() {
	if r.buckets == nil {
		r.buckets = map[float64]uint64{}
	}
	le, _ := number(r.text("le"))
	count, _ := number(r.text("count"))
	if r.sum, _ = number(r.text("sum")); le > r.last {
		r.last, r.total = le, count
	}
	r.buckets[le] = uint64(count)
}

// finish makes the metrics of which each row has a part.
func (r *reading) finish(i int, m *metric) {
	switch {
	case m.Over != "":
		r.add(m, r.sums[i])
	case m.Type == typeHistogram && r.buckets != nil:
		delete(r.buckets, r.last)
		r.found = append(r.found, prometheus.MustNewConstHistogram(m.desc, uint64(r.total), r.sum, r.buckets, r.labels...))
	}
}

// number reads a value: a number, or one of the words that MySQL has for yes and no.
func number(text string) (float64, bool) {
	switch strings.ToUpper(text) {
	case "":
		return 0, false
	case "ON", "YES":
		return 1, true
	case "OFF", "NO", "CONNECTING":
		return 0, true
	}
	value, err := strconv.ParseFloat(text, 64)
	return value, err == nil && !math.IsNaN(value)
}

func lower(texts []string) []string {
	for i, text := range texts {
		texts[i] = strings.ToLower(text)
	}
	return texts
}
