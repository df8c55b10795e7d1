//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/insights"
)

// unshown are metrics without a value after the scenarios, with the reason.
var unshown = map[string]string{"mysqlcluster_backup_last_failed_timestamp_seconds": "no backup fails"}

// shownBy are the metrics that one scenario gives values, by the beginning of their names. Without the scenario nothing is expected of them.
var shownBy = map[string]string{
	"mysqlcluster_backup_":  "Test15BackupOutlivesItsCluster",
	"mysqlcluster_archive_": "Test16ArchiveReachesTheMomentBeforeTheMistake",
}

// TestEveryPanelShowsSomething: Prometheus has looked on since the first scenario, and answers every question of the dashboards
// that the scenarios of this run give an answer to.
func TestEveryPanelShowsSomething(t *testing.T) {
	queries, err := insights.Queries(lab.Root)
	if err != nil || len(queries) < 50 {
		t.Fatalf("%d queries: %v", len(queries), err)
	}
	for _, q := range queries {
		if scenario := unrun(q.Expr); scenario != "" {
			t.Logf("left out, as %s was: %s", scenario, q)
			continue
		}
		samples, err := watch.Samples(t.Context(), insights.Fill(q.Expr))
		if err != nil {
			t.Error(err)
			continue
		}
		why := ""
		for metric, reason := range unshown {
			if strings.Contains(q.Expr, metric) {
				why = reason
			}
		}
		if (samples == 0) != (why != "") {
			t.Errorf("%s: %d samples; to be without: %q", q, samples, why)
		}
	}
}

// unrun is the scenario that would give the expression its values and was left out of this run, or empty.
func unrun(expr string) string {
	for metric, scenario := range shownBy {
		if strings.Contains(expr, metric) && !slices.Contains(stored.all(), scenario) {
			return scenario
		}
	}
	return ""
}

// TestAlertsOfTheScenarios: what the scenarios do is an ordinary day but for the faults, and nothing fires but what a fault explains.
func TestAlertsOfTheScenarios(t *testing.T) {
	for _, a := range watch.Fired() {
		ended := "and fires still"
		if !a.Ended.IsZero() {
			ended = "for " + a.Ended.Sub(a.Began).Round(time.Second).String()
		}
		t.Logf("%s %s %s/%s %s %s", a.Began.Format(time.TimeOnly), a.Name(), a.Labels["namespace"], a.Labels["cluster"], a.Labels["reason"], ended)
		if strings.HasPrefix(a.Name(), "MySQLOperatorAWS") {
			t.Errorf("%s fires although AWS refuses nothing", a.Name())
		}
	}
}

// TestFluxReadsEveryStatus that the scenarios led to.
func TestFluxReadsEveryStatus(t *testing.T) {
	for _, status := range misread.all() {
		t.Error(status)
	}
}
