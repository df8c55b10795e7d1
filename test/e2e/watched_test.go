//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/insights"
)

// unshown are the panels without data after the scenarios, with the reason.
var unshown = map[string]string{}

// TestEveryPanelShowsSomething: Prometheus has looked on since the first scenario, and answers every question of the dashboards.
func TestEveryPanelShowsSomething(t *testing.T) {
	queries, err := insights.Queries(lab.Root)
	if err != nil || len(queries) < 50 {
		t.Fatalf("%d queries: %v", len(queries), err)
	}
	for _, q := range queries {
		samples, err := watch.Samples(t.Context(), insights.Fill(q.Expr))
		if err != nil {
			t.Error(err)
			continue
		}
		if why := unshown[q.Dashboard+", "+q.Panel]; (samples == 0) != (why != "") {
			t.Errorf("%s: %d samples, although %q", q, samples, why)
		}
	}
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
