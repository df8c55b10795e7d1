package controllers

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/observe"
)

func TestMaintenanceWindow(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		when, err := time.Parse(time.RFC3339, text)
		must(t, err)
		return when
	}
	nights := &v1alpha1.MaintenanceWindow{Schedule: "0 3 * * SUN", Duration: metav1.Duration{Duration: 2 * time.Hour}, TimeZone: "Africa/Nairobi"}
	for _, row := range []struct {
		name   string
		now    string
		window *v1alpha1.MaintenanceWindow
		pause  bool
		want   string
	}{
		{"there is none", "2026-11-21T12:00:00Z", nil, false, ""},
		{"paused", "2026-11-21T12:00:00Z", nil, true, "spec.upgrade.paused holds it back"},
		{"before", "2026-11-21T23:59:59Z", nights, false, "the next maintenance window opens at 2026-11-22T00:00:00Z"},
		{"it opens", "2026-11-22T00:00:00Z", nights, false, ""},
		{"just before its end", "2026-11-22T01:59:59Z", nights, false, ""},
		{"it is over", "2026-11-22T02:00:00Z", nights, false, "the next maintenance window opens at 2026-11-29T00:00:00Z"},
		{"paused in it", "2026-11-22T00:30:00Z", nights, true, "spec.upgrade.paused holds it back"},
		{"always open", "2026-11-22T00:30:00Z", &v1alpha1.MaintenanceWindow{Schedule: "@hourly", Duration: metav1.Duration{Duration: time.Hour}, TimeZone: "Etc/UTC"}, false, ""},
		{"no such zone", "2026-11-22T00:30:00Z", &v1alpha1.MaintenanceWindow{Schedule: "@daily", TimeZone: "Mars/Olympus"}, false,
			`spec.maintenanceWindow.timeZone: "Mars/Olympus" is no time zone of the IANA database; name one, for example Africa/Nairobi`},
		{"no such minute", "2026-11-22T00:30:00Z", &v1alpha1.MaintenanceWindow{Schedule: "61 3 * * *", TimeZone: "Etc/UTC"}, false,
			"spec.maintenanceWindow.schedule cannot be read: end of range (61) above maximum (59): 61; write five fields of cron, for example 0 3 * * 0"},
		{"no such day", "2026-11-22T00:30:00Z", &v1alpha1.MaintenanceWindow{Schedule: "0 3 30 2 *", Duration: metav1.Duration{Duration: time.Hour}, TimeZone: "Etc/UTC"}, false,
			"spec.maintenanceWindow.schedule names no day that ever comes; write one that does, for example 0 3 * * 0"},
		{"a day in eight years", "2096-03-01T00:00:00Z", &v1alpha1.MaintenanceWindow{Schedule: "0 3 29 2 *", Duration: metav1.Duration{Duration: time.Hour}, TimeZone: "Etc/UTC"}, false,
			"the next maintenance window opens in more than five years"},
	} {
		c := &v1alpha1.MySQLCluster{Spec: v1alpha1.MySQLClusterSpec{MaintenanceWindow: row.window, Upgrade: &v1alpha1.UpgradeSpec{Paused: row.pause}}}
		if got := observe.HoldsBack(c, at(row.now)); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}

// TestWindowThatNeverOpensIsToldAtOnce, although nothing waits for it yet.
func TestWindowThatNeverOpensIsToldAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *v1alpha1.MySQLCluster) {
		c.Spec.MaintenanceWindow = &v1alpha1.MaintenanceWindow{Schedule: "0 3 30 2 *", Duration: metav1.Duration{Duration: time.Hour}}
	})
	o := w.newOperator(nil)
	_, _ = w.pass(o)
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, v1alpha1.ReasonInvalidSpec, "spec.maintenanceWindow.schedule names no day that ever comes"))
	w.change(func(c *v1alpha1.MySQLCluster) { c.Spec.MaintenanceWindow.Schedule = "0 3 28 2 *" })
	w.drive(o, patience, func() bool { return !w.conditionHas(v1alpha1.ConditionDegraded, "maintenanceWindow")() })
}
