package manager

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestBuildIsToldInTheMetricAndInTheUserAgent(t *testing.T) {
	build := Build{Version: "0.1.0", Commit: "abc", Date: "2026-11-21T00:00:00Z"}
	registry := prometheus.NewRegistry()
	registry.MustRegister(build.info())
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "mysqlcluster_build_info" {
		t.Fatalf("%v, %v", families, err)
	}
	labels := map[string]string{}
	for _, label := range families[0].GetMetric()[0].GetLabel() {
		labels[label.GetName()] = label.GetValue()
	}
	if labels["version"] != "0.1.0" || labels["commit"] != "abc" || labels["date"] != build.Date || !strings.HasPrefix(labels["goversion"], "go1.") {
		t.Errorf("labels %v", labels)
	}
	if got := build.userAgent(); got != "nairobi-mysql-operator/0.1.0 commit/abc built/2026-11-21T00:00:00Z" {
		t.Errorf("user agent %q", got)
	}
	if got := (Build{}).userAgent(); got != "nairobi-mysql-operator/unknown commit/unknown built/unknown" {
		t.Errorf("user agent of an unknown build %q", got)
	}
}
