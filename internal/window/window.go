// Package window reads maintenance windows: the reconciler goes by them, and admission warns of those that it cannot read.
package window

import (
	"errors"
	"fmt"
	"time"
	_ "time/tzdata" // the operator's image holds no time zones

	"github.com/robfig/cron/v3"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// errNever is of a schedule for 30 February and its like.
var errNever = errors.New("spec.maintenanceWindow.schedule names no day that ever comes; write one that does, for example 0 3 * * SUN")

// anyYear is a time from which on every day of the calendar comes within the five years that a schedule is looked through for its
// next time, 29 February among them. Schedules know no years, so that one which does not come then never does.
var anyYear = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// Window is a maintenance window that was read.
type Window struct {
	schedule cron.Schedule
	zone     *time.Location
	length   time.Duration
}

// Read reads a maintenance window. The error names the field, and is meant for people; it is also of a window that never opens.
func Read(w *v1alpha1.MaintenanceWindow) (Window, error) {
	zone, err := time.LoadLocation(w.TimeZone)
	if err != nil || w.TimeZone == "Local" {
		return Window{}, fmt.Errorf("spec.maintenanceWindow.timeZone: %q is no time zone of the IANA database; name one, for example Africa/Nairobi", w.TimeZone)
	}
	schedule, err := cron.ParseStandard(w.Schedule)
	if err != nil {
		return Window{}, fmt.Errorf("spec.maintenanceWindow.schedule cannot be read: %w; write five fields of cron, for example 0 3 * * SUN", err)
	}
	if schedule.Next(anyYear.In(zone)).IsZero() {
		return Window{}, errNever
	}
	return Window{schedule: schedule, zone: zone, length: w.Duration.Duration}, nil
}

// Open says whether the window is open, and when it opens next; zero when that is more than five years away.
func (w Window) Open(now time.Time) (open bool, next time.Time) {
	opened := w.schedule.Next(now.In(w.zone).Add(-w.length))
	if next = w.schedule.Next(now.In(w.zone)); !next.IsZero() {
		next = next.UTC()
	}
	return !opened.IsZero() && !opened.After(now), next
}
