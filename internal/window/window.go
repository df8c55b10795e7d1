// Package window reads maintenance windows and the schedules of backups: the reconciler goes by them, and admission warns of those
// that it cannot read.
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
var errNever = errors.New("names no day that ever comes; write one that does, for example 0 3 * * 0")

// anyYear is a time from which on every day of the calendar comes within the five years that a schedule is looked through for its
// next time, 29 February among them. Schedules know no years, so that one which does not come then never does.
var anyYear = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// Schedule reads five fields of cron, which are meant in a time zone. The error is meant for people, behind the name of the field; it is
// also of a schedule that never comes.
func Schedule(fields, zone string) (cron.Schedule, error) {
	schedule, err := cron.ParseStandard("CRON_TZ=" + zone + " " + fields)
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot be read: %w; write five fields of cron, for example 0 3 * * 0", err)
	case schedule.Next(anyYear).IsZero():
		return nil, errNever
	}
	return schedule, nil
}

// CheckBackups returns what is wrong with the first schedule of backups, or of their verification, that never comes. The error names
// the field, and is meant for people.
func CheckBackups(b *v1alpha1.BackupSpec) error {
	if b == nil {
		return nil
	}
	for _, s := range b.Schedules {
		if _, err := Schedule(string(s.Cron), string(s.TimeZone)); err != nil {
			return fmt.Errorf("spec.backup.schedules: the cron of %s %w", s.Name, err)
		}
	}
	if v := b.Verification; v != nil {
		if _, err := Schedule(string(v.Cron), string(v.TimeZone)); err != nil {
			return fmt.Errorf("spec.backup.verification.cron %w", err)
		}
	}
	return nil
}

// Window is a maintenance window that was read.
type Window struct {
	schedule cron.Schedule
	length   time.Duration
}

// Read reads a maintenance window. The error names the field, and is meant for people; it is also of a window that never opens.
func Read(w *v1alpha1.MaintenanceWindow) (Window, error) {
	if _, err := time.LoadLocation(w.TimeZone); err != nil || w.TimeZone == "Local" {
		return Window{}, fmt.Errorf("spec.maintenanceWindow.timeZone: %q is no time zone of the IANA database; name one, for example Africa/Nairobi", w.TimeZone)
	}
	schedule, err := Schedule(w.Schedule, w.TimeZone)
	if err != nil {
		return Window{}, fmt.Errorf("spec.maintenanceWindow.schedule %w", err)
	}
	return Window{schedule: schedule, length: w.Duration.Duration}, nil
}

// Open says whether the window is open, and when it opens next; zero when that is more than five years away.
func (w Window) Open(now time.Time) (open bool, next time.Time) {
	opened := w.schedule.Next(now.Add(-w.length))
	if next = w.schedule.Next(now); !next.IsZero() {
		next = next.UTC()
	}
	return !opened.IsZero() && !opened.After(now), next
}
