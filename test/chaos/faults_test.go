package chaos

import (
	"context"
	"io"
	"slices"
	"testing"
	"time"
)

func TestFaultsHaveNamesOfTheirOwn(t *testing.T) {
	names := map[string]bool{}
	for _, f := range Faults() {
		if names[f.Name] || f.Do == nil || f.Least <= 0 || f.Most <= f.Least {
			t.Errorf("the fault %q is there twice, or does nothing, or has no time", f.Name)
		}
		names[f.Name] = true
	}
}

func TestAFaultTidiesUpAfterItWasHealed(t *testing.T) {
	s := &Scene{World: &World{out: io.Discard}}
	var order []string
	step := func(name string) func(context.Context) error {
		return func(context.Context) error { order = append(order, name); return nil }
	}
	s.tidy(step("account"))
	s.later(step("network"))
	s.later(step("power"))
	for range 2 { // the second time there is nothing left to do
		if err := s.heal(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"network", "power", "account"}; !slices.Equal(order, want) {
		t.Errorf("the order is %v, want %v", order, want)
	}
}

func TestAReportOfASettingIsFound(t *testing.T) {
	began := time.Now()
	for name, row := range map[string]struct {
		sight Sight
		found bool
	}{
		"a Warning":            {Sight{Kind: kindEvent, Warning: true, Text: "SettingReverted: rpl_semi_sync_source_enabled of a-0 was OFF"}, true},
		"a condition":          {Sight{Kind: kindCondition, Text: "Degraded=True Uncovered: Semi-sync is off on a-0"}, true},
		"a normal event":       {Sight{Kind: kindEvent, Text: "Act: rpl_semi_sync_source_enabled of a-0 set to ON"}, false},
		"of something else":    {Sight{Kind: kindEvent, Warning: true, Text: "a-1 is behind"}, false},
		"from before":          {Sight{Kind: kindCondition, Text: "semi-sync is off", At: began.Add(-time.Minute)}, false},
		"a member's message":   {Sight{Kind: kindStatus, Text: "Ready, primary a-0; 0 Degraded (semi-sync is off)"}, true},
		"another setting's":    {Sight{Kind: kindCondition, Text: "Available=False WriteFailed: offline_mode is ON"}, false},
		"an empty observation": {Sight{Kind: kindEndpoints}, false},
	} {
		if row.sight.At.IsZero() {
			row.sight.At = began.Add(3 * time.Second)
		}
		s := &Scene{World: &World{watch: &watcher{sights: []Sight{row.sight}}}}
		want := time.Duration(0)
		if row.found {
			want = 3 * time.Second
		}
		if got := s.reported(began, semiSyncOff.named); got != want {
			t.Errorf("%s: reported after %s, want %s", name, got, want)
		}
	}
}

func TestTheAnswersOfOneServerInATimeAreCounted(t *testing.T) {
	entries := []Entry{
		entry(1, 17, 0, 1000, Acknowledged), entry(2, 17, 0, 1500, Acknowledged), entry(3, 17, 0, 2000, Uncovered),
		entry(4, 17, 0, 1600, Unknown), entry(5, 33, 0, 1600, Acknowledged), entry(6, 17, 0, 2001, Acknowledged),
	}
	if got := answeredBy(entries, 17, time.Second, 2*time.Second); got != 2 {
		t.Errorf("%d answers", got)
	}
}

func TestAReplicaIsCutOffAsLongAsTheRunAllows(t *testing.T) {
	for _, row := range []struct{ behind, most, want time.Duration }{
		{want: DefaultBehind},
		{behind: time.Minute, want: time.Minute},
		{behind: time.Minute, most: time.Second, want: time.Second},
		{most: time.Hour, want: DefaultBehind},
	} {
		s := &Scene{World: &World{behind: row.behind, holdAtMost: row.most}}
		if got := s.behindFor(); got != row.want {
			t.Errorf("with %s and at most %s it is %s", row.behind, row.most, got)
		}
	}
}
