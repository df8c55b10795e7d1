package topology

import (
	"testing"
	"time"
)

func TestFailureDetector(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	var d FailureDetector
	answer := func(second int, sql SQL) Member {
		m := Member{Name: "orders-0", SQL: sql}
		d.RecordAnswer(&m, at(second-1), at(second))
		return m
	}
	well, silent := SQL{Access: AccessVerified}, SQL{Access: AccessSilent}
	if m := answer(1, well); m.SilentSince != (time.Time{}) || m.DownSince != (time.Time{}) || m.StalledSince != (time.Time{}) || m.BrokenSince != (time.Time{}) || d.SomeSilent() {
		t.Errorf("nothing is wrong with a member that is well, and found is %+v", m)
	}
	answer(2, silent)
	if m := answer(4, silent); m.SilentSince != at(1) || m.DownSince != at(2) || d.SilentSince("orders-0") != at(1) || !d.SomeSilent() {
		t.Errorf("silent since it was asked, down since that was known: %s, %s", m.SilentSince, m.DownSince)
	}
	if d.SomeDownFor(3*time.Second, at(5)) || !d.SomeDownFor(4*time.Second, at(5)) {
		t.Error("it has been down for three seconds")
	}
	if m := answer(6, SQL{Access: AccessNone}); m.SilentSince != (time.Time{}) || m.DownSince != at(2) || d.SomeSilent() {
		t.Errorf("an instance that is off is down, and not silent: %s, %s", m.SilentSince, m.DownSince)
	}
	if m := answer(7, well); m.DownSince != (time.Time{}) {
		t.Errorf("one answer ends it: down since %s", m.DownSince)
	}
	if m := answer(8, silent); m.DownSince != at(8) {
		t.Errorf("it begins again: down since %s", m.DownSince)
	}
}

func TestCommitsThatWaitAreStalledUntilOneIsAnswered(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var d FailureDetector
	stalled := func(second, pending, answered int) time.Time {
		now := begin.Add(time.Duration(second) * time.Second)
		m := Member{Name: "orders-0", SQL: SQL{Access: AccessVerified, PendingCommits: pending, Answered: answered}}
		d.RecordAnswer(&m, now, now)
		return m.StalledSince
	}
	for _, row := range []struct{ second, pending, answered, since int }{
		{1, 0, 7, 0}, {2, 1, 7, 2}, {3, 2, 7, 2}, {4, 2, 8, 4}, {5, 1, 8, 4}, {6, 0, 9, 0}, {7, 1, 9, 7},
	} {
		want := time.Time{}
		if row.since > 0 {
			want = begin.Add(time.Duration(row.since) * time.Second)
		}
		if got := stalled(row.second, row.pending, row.answered); got != want {
			t.Errorf("second %d: stalled since %s", row.second, got)
		}
	}
}

func TestVolumesThatEC2DoesNotKnow(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, row := range map[string]struct {
		volumes               []Volume
		recorded, made        string
		silent                bool
		wantMissing, wantMade bool
	}{
		"it is there":                {volumes: []Volume{{ID: "vol-1", State: volumeInUse}}, recorded: "vol-1", made: "vol-1"},
		"it is not there":            {recorded: "vol-1", wantMissing: true},
		"it is being deleted":        {volumes: []Volume{{ID: "vol-1", State: volumeDeleting}}, recorded: "vol-1", wantMissing: true},
		"it was deleted":             {volumes: []Volume{{ID: "vol-1", State: volumeDeleted}}, recorded: "vol-1", wantMissing: true},
		"another is there":           {volumes: []Volume{{ID: "vol-2", State: volumeInUse}}, recorded: "vol-1", wantMissing: true},
		"none was ever there":        {},
		"EC2 does not answer":        {recorded: "vol-1", made: "vol-2", silent: true},
		"what was made is not there": {volumes: []Volume{{ID: "vol-1", State: volumeInUse}}, recorded: "vol-1", made: "vol-2", wantMade: true},
	} {
		var d FailureDetector
		m := Member{Name: "orders-0", Volumes: row.volumes, RecordedVolume: row.recorded}
		for second := range 3 {
			d.RecordVolumes(&m, row.made, !row.silent, begin.Add(time.Duration(second)*time.Second))
		}
		if m.VolumeMissingSince.Equal(begin) != row.wantMissing || m.PendingVolumeMissingSince.Equal(begin) != row.wantMade {
			t.Errorf("%s: missing since %s, the pending one since %s", name, m.VolumeMissingSince, m.PendingVolumeMissingSince)
		}
	}
}

// TestBreakageCountsWhileThereIsAPrimary: before, nobody starts replication again, and nothing shows whether that helps.
func TestBreakageCountsWhileThereIsAPrimary(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var d FailureDetector
	for second, row := range []struct {
		primary string
		since   int
	}{{"", 0}, {"", 1}, {"orders-0", 2}, {"orders-0", 2}, {"", 2}, {"orders-0", 5}, {"orders-0", 5}} {
		now := begin.Add(time.Duration(second) * time.Second)
		m := Member{Name: "orders-1", SQL: SQL{Access: AccessVerified, Replication: &Replication{ApplierError: "error 1205"}}}
		d.RecordAnswer(&m, now, now)
		if want := begin.Add(time.Duration(row.since) * time.Second); m.BrokenSince != want {
			t.Errorf("second %d: broken since %s", second, m.BrokenSince)
		}
		d.Expect(Plan{Primary: row.primary})
	}
}
