// Package exporter reads the metrics of the members of one cluster and serves them to Prometheus. It only reads: it logs in as an account
// that may read status and nothing else, with one connection for each member.
//
// What is read is a table, metrics.yaml. Prometheus' own mysqld_exporter (0.16) does not fit as a library: its collectors take a
// connection that only its package can make, another one for each scrape, from a DSN whose TLS settings are global to the process; and it
// has no histogram of how long statements take.
package exporter

import (
	_ "embed"
	"fmt"
	"regexp"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/yaml"
)

//go:embed metrics.yaml
var table []byte

// query is one statement and the metrics that are made of its rows. metrics.yaml says what each field means.
type query struct {
	Name      string   `json:"name"`
	Collector string   `json:"collector"`
	Query     string   `json:"query"`
	Metrics   []metric `json:"metrics"`
}

// metric is one metric of a query.
type metric struct {
	Name   string   `json:"name"`
	Type   string   `json:"type"`
	Help   string   `json:"help"`
	Row    string   `json:"row"`
	Label  string   `json:"label"`
	Column string   `json:"column"`
	Over   string   `json:"over"`
	Labels []string `json:"labels"`

	row  *regexp.Regexp
	desc *prometheus.Desc
}

// Types of metrics.
const (
	typeGauge     = "gauge"
	typeCounter   = "counter"
	typeHistogram = "histogram"
)

// Labels that every sample has.
var memberLabels = []string{"namespace", "cluster", "member"}

// own are the metrics that do not come from a query.
var own = []metric{
	{Name: "mysql_up", Type: typeGauge, Help: "1 when the member answered the exporter's queries, 0 otherwise."},
	{Name: "mysql_exporter_scrape_duration_seconds", Type: typeGauge, Help: "How long reading the member took."},
	{Name: "mysql_exporter_collector_success", Type: typeGauge, Help: "1 when a query of the exporter succeeded, 0 when it failed.", Label: "collector"},
	{Name: "mysql_exporter_login_failed", Type: typeGauge, Help: "1 when the member's mysqld answered and the exporter could not log in, 0 otherwise."},
}

var upDesc, tookDesc, successDesc, loginDesc = own[0].describe(), own[1].describe(), own[2].describe(), own[3].describe()

// queries returns the queries of the collectors that are wanted, and those that every member is asked.
func queries(collectors []string) ([]query, error) {
	var all, wanted []query
	if err := yaml.UnmarshalStrict(table, &all); err != nil {
		return nil, fmt.Errorf("read the table of metrics: %w", err)
	}
	known := map[string]bool{"": true}
	asked := map[string]bool{"": true}
	for _, name := range collectors {
		asked[name] = true
	}
	for _, q := range all {
		known[q.Collector] = true
		if !asked[q.Collector] {
			continue
		}
		for i := range q.Metrics {
			if err := q.Metrics[i].prepare(); err != nil {
				return nil, err
			}
		}
		wanted = append(wanted, q)
	}
	for name := range asked {
		if !known[name] {
			return nil, fmt.Errorf("there is no collector %q", name)
		}
	}
	return wanted, nil
}

// prepare compiles what the metric is found and described by.
func (m *metric) prepare() (err error) {
	if m.Row != "" {
		if m.row, err = regexp.Compile("^(?i:" + m.Row + ")$"); err != nil {
			return fmt.Errorf("metric %s: %w", m.Name, err)
		}
	}
	m.desc = m.describe()
	return nil
}

func (m *metric) describe() *prometheus.Desc {
	return prometheus.NewDesc(m.Name, m.Help, append(memberLabels[:len(memberLabels):len(memberLabels)], m.extra()...), nil)
}

// extra are the labels that the metric has beside the member's.
func (m *metric) extra() []string {
	if m.Label != "" {
		return []string{m.Label}
	}
	return m.Labels
}

// kind is the type of the metric as the library has it.
func (m *metric) kind() prometheus.ValueType {
	if m.Type == typeCounter {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}

// Metric is what the documentation says of a metric.
type Metric struct {
	Name, Type, Help string
	// Labels are those that it has beside namespace, cluster and member.
	Labels []string
	// Collector is the one that reads it, empty for what is always read.
	Collector string
}

// Documented returns every metric that an exporter may export.
func Documented() ([]Metric, error) {
	var all []query
	if err := yaml.UnmarshalStrict(table, &all); err != nil {
		return nil, fmt.Errorf("read the table of metrics: %w", err)
	}
	var found []Metric
	for _, q := range append([]query{{Metrics: own}}, all...) {
		for _, m := range q.Metrics {
			found = append(found, Metric{Name: m.Name, Type: m.Type, Help: m.Help, Labels: m.extra(), Collector: q.Collector})
		}
	}
	return found, nil
}
