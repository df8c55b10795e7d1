package window

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// TestWindowsThatNeverOpenAreNotRead, while those that seldom do are.
func TestWindowsThatNeverOpenAreNotRead(t *testing.T) {
	t.Parallel()
	for schedule, wrong := range map[string]string{
		"0 3 * * SUN":  "",
		"0 3 29 2 *":   "",
		"0 3 31 12 *":  "",
		"@monthly":     "",
		"30 2 * 3 SUN": "", // a time that the summer time of some zones leaves out on one day
		"0 3 30 2 SUN": "", // cron takes either day
		"0 3 30 2 *":   "names no day that ever comes",
		"0 3 31 2,4 *": "names no day that ever comes",
		"0 3 31 4-4 ?": "names no day that ever comes",
		"0 24 * * *":   "cannot be read",
	} {
		for _, zone := range []string{"Etc/UTC", "Africa/Nairobi", "America/New_York"} {
			_, err := Read(&v1alpha1.MaintenanceWindow{Schedule: schedule, Duration: metav1.Duration{Duration: time.Hour}, TimeZone: zone})
			if (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
				t.Errorf("%q in %s: %v, want %q", schedule, zone, err, wrong)
			}
		}
	}
}

// TestSeldomWindow: the next 29 February may be eight years away, further than a schedule is looked through.
func TestSeldomWindow(t *testing.T) {
	t.Parallel()
	w, err := Read(&v1alpha1.MaintenanceWindow{Schedule: "0 3 29 2 *", Duration: metav1.Duration{Duration: time.Hour}, TimeZone: "Etc/UTC"})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		now  time.Time
		open bool
		next time.Time
	}{
		{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), false, time.Date(2028, 2, 29, 3, 0, 0, 0, time.UTC)},
		{time.Date(2028, 2, 29, 3, 30, 0, 0, time.UTC), true, time.Date(2032, 2, 29, 3, 0, 0, 0, time.UTC)},
		{time.Date(2096, 3, 1, 0, 0, 0, 0, time.UTC), false, time.Time{}},
	} {
		if open, next := w.Open(row.now); open != row.open || !next.Equal(row.next) {
			t.Errorf("at %s: %t, %s; want %t, %s", row.now, open, next, row.open, row.next)
		}
	}
}

// TestSchedulesOfBackupsThatNeverCome are named, the first of them.
func TestSchedulesOfBackupsThatNeverCome(t *testing.T) {
	t.Parallel()
	daily := v1alpha1.BackupSchedule{Name: "daily", Cron: "30 3 * * *", TimeZone: "Africa/Nairobi"}
	never := v1alpha1.BackupSchedule{Name: "leap", Cron: "0 3 30 2 *", TimeZone: "Etc/UTC"}
	seldom := &v1alpha1.VerificationSpec{Cron: "0 3 29 2 *"}
	for name, row := range map[string]struct {
		spec *v1alpha1.BackupSpec
		want string
	}{
		"no backups":         {nil, ""},
		"both come":          {&v1alpha1.BackupSpec{Schedules: []v1alpha1.BackupSchedule{daily}, Verification: seldom}, ""},
		"one never comes":    {&v1alpha1.BackupSpec{Schedules: []v1alpha1.BackupSchedule{daily, never}}, "spec.backup.schedules: the cron of leap names no day that ever comes"},
		"verification never": {&v1alpha1.BackupSpec{Verification: &v1alpha1.VerificationSpec{Cron: "0 3 31 4,6 *"}}, "spec.backup.verification.cron names no day that ever comes"},
	} {
		err := CheckBackups(row.spec)
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
	}
}
