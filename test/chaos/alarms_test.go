package chaos

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/insights"
)

// TestEveryAlertHasAFault: each alert is made to fire by an alarm, or it is said why not.
func TestEveryAlertHasAFault(t *testing.T) {
	waits, unraised := Waits(), Unraised()
	raised := map[string]int{}
	for _, a := range Alarms() {
		for _, name := range a.Alerts {
			raised[name]++
		}
	}
	for name := range waits {
		if _, left := unraised[name]; left == (raised[name] > 0) {
			t.Errorf("%s is in %d rows of Alarms; in Unraised: %t. Add a fault that makes it fire to Alarms, or the reason why none can to Unraised", name, raised[name], left)
		}
	}
	for name, count := range raised {
		if _, known := waits[name]; !known || count > 1 {
			t.Errorf("Alarms names %s in %d rows; it is an alert: %t", name, count, known)
		}
	}
	for name := range unraised {
		if _, known := waits[name]; !known {
			t.Errorf("Unraised names %s, which is no alert", name)
		}
	}
}

// TestHastyRules have all times shortened, and nothing else.
func TestHastyRules(t *testing.T) {
	found := map[string]map[string]any{}
	for _, g := range HastyRules()["groups"].([]any) {
		for _, r := range g.(map[string]any)["rules"].([]any) {
			rule := r.(map[string]any)
			found[rule["alert"].(string)] = rule
		}
	}
	if got := found["MySQLClusterQuorumAtRisk"]["for"]; got != "30s" {
		t.Errorf("15m became %v", got)
	}
	expr := found["MySQLClusterDiskFullSoon"]["expr"].(string)
	if !strings.Contains(expr, "[2m:2s], 4 * 3600)") {
		t.Errorf("the window of an hour: %s", expr)
	}
	for name, wait := range Waits() {
		if wait > 0 && wait/Haste < AlarmInterval {
			t.Errorf("%s waits for %s, which is less than a scrape when it is shortened", name, wait)
		}
	}
}

// TestEndOfAnAlert: what came again after the fault is not its end, and what fires has none.
func TestEndOfAnAlert(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(1000+seconds), 0) }
	sent := func(name string, began, ended int) insights.Alert {
		a := insights.Alert{Labels: map[string]string{"alertname": name}, Began: at(began)}
		if ended > 0 {
			a.Ended = at(ended)
		}
		return a
	}
	r := Raised{Alert: "A", began: at(10), healed: at(30)}
	for name, test := range map[string]struct {
		sent []insights.Alert
		want time.Time
	}{
		"fires":              {[]insights.Alert{sent("A", 10, 0)}, time.Time{}},
		"ended":              {[]insights.Alert{sent("A", 10, 40)}, at(40)},
		"twice in the fault": {[]insights.Alert{sent("A", 10, 20), sent("A", 25, 40)}, at(40)},
		"again after it":     {[]insights.Alert{sent("A", 10, 40), sent("A", 50, 60)}, at(40)},
		"an earlier one":     {[]insights.Alert{sent("A", 1, 5), sent("A", 10, 40)}, at(40)},
		"another":            {[]insights.Alert{sent("B", 10, 0), sent("A", 10, 40)}, at(40)},
	} {
		if got := endOf(r, slices.Clone(test.sent)); !got.Equal(test.want) {
			t.Errorf("%s: %v, expected %v", name, got, test.want)
		}
	}
}
