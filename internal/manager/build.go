package manager

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
)

// Build says what the operator was built from. The linker sets it; see the Makefile.
type Build struct {
	// Version is that of the release, Commit the short hash of its commit, Date that of the commit (RFC 3339).
	Version, Commit, Date string
}

// userAgent is what AWS's logs (CloudTrail) show of each call.
func (b Build) userAgent() string {
	return "nairobi-mysql-operator/" + orUnknown(b.Version) + " commit/" + orUnknown(b.Commit) + " built/" + orUnknown(b.Date)
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}

// info is the metric by which a dashboard tells releases apart: always 1, with the build in its labels.
func (b Build) info() prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "mysqlcluster_build_info", Help: "What the operator was built from, in the labels; always 1.",
		ConstLabels: prometheus.Labels{"version": b.Version, "commit": b.Commit, "date": b.Date, "goversion": runtime.Version()},
	})
	info.Set(1)
	return info
}
