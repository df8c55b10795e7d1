package manager

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// catalogue keeps what is registered.
type catalogue struct {
	prometheus.Registerer
	collectors []prometheus.Collector
}

// Register implements prometheus.Registerer.
func (c *catalogue) Register(collector prometheus.Collector) error {
	c.collectors = append(c.collectors, collector)
	return nil
}

// MustRegister implements prometheus.Registerer.
func (c *catalogue) MustRegister(collectors ...prometheus.Collector) {
	c.collectors = append(c.collectors, collectors...)
}

// described is a metric as prometheus.Desc prints it.
var described = regexp.MustCompile(`fqName: "([^"]+)", help: .*, constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// kindOf is the type of a collector's metric. Of those that are made for each scrape, counters are named as such.
func kindOf(collector prometheus.Collector, name string) string {
	switch collector.(type) {
	case *prometheus.CounterVec:
		return "counter"
	case *prometheus.HistogramVec, prometheus.Histogram:
		return "histogram"
	}
	if strings.HasSuffix(name, "_total") {
		return "counter"
	}
	return "gauge"
}

// TestMetricsAreDocumented: metrics.md has a row for every metric that the operator registers, with its type and labels, and none for
// another.
func TestMetricsAreDocumented(t *testing.T) {
	c := &catalogue{}
	operatorWith(t, c)
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Metrics of the operator\n")
	if !found {
		t.Fatal("metrics.md has no section Metrics of the operator")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| ([a-z]+) \\| ?([`a-z_, ]*) \\| .+ \\|$").FindAllStringSubmatch(section, -1) {
		documented[row[1]] = row[2] + " | " + strings.ReplaceAll(row[3], "`", "")
	}
	if len(documented) < 10 {
		t.Fatalf("documented are %v", documented)
	}
	for _, collector := range c.collectors {
		descs := make(chan *prometheus.Desc, 100)
		collector.Describe(descs)
		close(descs)
		for desc := range descs {
			parts := described.FindStringSubmatch(desc.String())
			if parts == nil {
				t.Fatalf("not understood: %s", desc)
			}
			labels := strings.ReplaceAll(parts[3], ",", ", ")
			if parts[2] != "" {
				labels = "version, commit, date, goversion" // the build's, whose values the linker sets
			}
			if want := kindOf(collector, parts[1]) + " | " + labels; documented[parts[1]] != want {
				t.Errorf("metrics.md says of %s: %q, want %q", parts[1], documented[parts[1]], want)
			}
			delete(documented, parts[1])
		}
	}
	for name := range documented {
		t.Errorf("metrics.md has %s, which the operator does not register", name)
	}
}
