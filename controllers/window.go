package controllers

import (
	"fmt"
	"time"
	_ "time/tzdata" // the operator's image holds no time zones

	"github.com/robfig/cron/v3"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// holdsBack says why no member may be replaced or restarted at the moment because the spec was changed, empty when one may
// be. A window that cannot be read never opens, and says so.
func holdsBack(c *v1alpha1.MySQLCluster, now time.Time) string {
	if c.Spec.Upgrade != nil && c.Spec.Upgrade.Paused {
		return "spec.upgrade.paused holds it back"
	}
	w := c.Spec.MaintenanceWindow
	if w == nil {
		return ""
	}
	schedule, zone, err := window(w)
	if err != nil {
		return err.Error()
	}
	opened, next := schedule.Next(now.In(zone).Add(-w.Duration.Duration)), schedule.Next(now.In(zone))
	switch {
	case next.IsZero():
		return "spec.maintenanceWindow.schedule names no day that ever comes"
	case !opened.After(now):
		return ""
	}
	return "the next maintenance window opens at " + next.UTC().Format(time.RFC3339)
}

// window reads a maintenance window.
func window(w *v1alpha1.MaintenanceWindow) (cron.Schedule, *time.Location, error) {
	zone, err := time.LoadLocation(w.TimeZone)
	if err != nil || w.TimeZone == "Local" {
		return nil, nil, fmt.Errorf("spec.maintenanceWindow.timeZone: %q is no time zone of the IANA database; name one, for example Africa/Nairobi", w.TimeZone)
	}
	schedule, err := cron.ParseStandard(w.Schedule)
	if err != nil {
		return nil, nil, fmt.Errorf("spec.maintenanceWindow.schedule cannot be read: %w; write five fields of cron, for example 0 3 * * SUN", err)
	}
	return schedule, zone, nil
}
