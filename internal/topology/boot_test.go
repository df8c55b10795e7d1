package topology

import (
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// TestFirstBootHasTime: while a first boot makes progress, nothing is reported of a member for fifteen minutes; anything else is
// reported after three.
func TestFirstBootHasTime(t *testing.T) {
	type boot struct {
		stage   string
		since   time.Duration // ago
		slow    bool
		failure string
		age     time.Duration // of the instance
		access  Access
		joined  bool
		metal   bool
	}
	for name, row := range map[string]struct {
		boot
		want string
	}{
		"a download that takes long":               {boot{"download", 10 * time.Minute, true, "", 11 * time.Minute, AccessRefused, false, false}, ""},
		"a download that never ends":               {boot{"download", 14 * time.Minute, true, "", 15 * time.Minute, AccessRefused, false, false}, v1alpha1.ReasonBootFailed},
		"a new data directory":                     {boot{"initialise", 5 * time.Minute, true, "", 11 * time.Minute, AccessRefused, false, false}, ""},
		"a stage that has just begun":              {boot{"keys", time.Minute, false, "", 11 * time.Minute, AccessRefused, false, false}, ""},
		"a stage that does not end":                {boot{"keys", 3 * time.Minute, false, "", 11 * time.Minute, AccessRefused, false, false}, v1alpha1.ReasonBootFailed},
		"stages that move on, too late":            {boot{"starting", time.Minute, false, "", 16 * time.Minute, AccessRefused, false, false}, v1alpha1.ReasonBootFailed},
		"a download that failed":                   {boot{"failed: cannot download it", time.Minute, false, "no room", 4 * time.Minute, AccessRefused, false, false}, v1alpha1.ReasonBootFailed},
		"a download after one that failed":         {boot{"download", time.Minute, true, "no room", 4 * time.Minute, AccessRefused, false, false}, v1alpha1.ReasonBootFailed},
		"a console that is empty":                  {boot{"", 0, false, "", 4 * time.Minute, AccessRefused, false, false}, v1alpha1.ReasonBootFailed},
		"a port that is silent":                    {boot{"download", time.Minute, true, "", 4 * time.Minute, AccessSilent, false, false}, v1alpha1.ReasonMemberUnreachable},
		"bare metal that powers up":                {boot{"", 0, false, "", 15 * time.Minute, AccessSilent, false, true}, ""},
		"bare metal that is silent for longer":     {boot{"", 0, false, "", 23 * time.Minute, AccessSilent, false, true}, v1alpha1.ReasonMemberUnreachable},
		"a download on bare metal":                 {boot{"download", 10 * time.Minute, true, "", 34 * time.Minute, AccessRefused, false, true}, ""},
		"a download there that never ends":         {boot{"download", 10 * time.Minute, true, "", 35 * time.Minute, AccessRefused, false, true}, v1alpha1.ReasonBootFailed},
		"another boot of an instance which joined": {boot{"starting", time.Minute, false, "", 4 * time.Minute, AccessRefused, true, false}, v1alpha1.ReasonBootFailed},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			m, now := s.member(2), s.observed.Now
			m.SQL = SQL{Access: row.access, Reason: "no answer"}
			m.Instances[0].LaunchTime, m.Instances[0].BareMetal = now.Add(-row.age), row.metal
			m.SilentSince, m.DownSince = now.Add(-row.age+time.Second), now.Add(-row.age+time.Second)
			if row.stage != "" {
				m.Boot = Boot{Instance: "i-2", Stage: row.stage, Since: now.Add(-row.since), Slow: row.slow, Failure: row.failure}
			}
			if !row.joined {
				record := s.observed.Records.Members["orders-2"]
				record.SignedInstance = "i-of-before"
				s.observed.Records.Members["orders-2"] = record
			}
			plan, _ := s.plan()
			var found string
			for _, f := range plan.Degraded {
				if f.Reason == v1alpha1.ReasonBootFailed || f.Reason == v1alpha1.ReasonMemberUnreachable {
					found = f.Reason
				}
			}
			if found != row.want {
				t.Errorf("reported is %q, want %q: %v", found, row.want, plan.Degraded)
			}
			says := plan.Members[2].Step.Message
			if since := m.Boot.Since.Format(time.TimeOnly); row.stage != "" && row.access == AccessRefused && !strings.Contains(says, "last boot stage since "+since+": "+row.stage) {
				t.Errorf("the member says %q, not that its stage is %s since %s", says, row.stage, since)
			}
		})
	}
}

// TestBootIsFollowed: a stage counts from its first sight on, and why one failed is said while it is tried again.
func TestBootIsFollowed(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	b := Boot{Instance: "i-1"}.At("", "", false, at(0))
	if b != (Boot{Instance: "i-1"}) || b.String() != "last boot stage: none" {
		t.Errorf("an empty console gives %+v", b)
	}
	b = b.At("download", "", true, at(1)).At("download", "", true, at(5))
	if want := (Boot{Instance: "i-1", Stage: "download", Since: at(1), Slow: true}); b != want {
		t.Errorf("a stage seen twice gives %+v, want %+v", b, want)
	}
	for _, row := range []struct{ stage, says string }{
		{"failed: no room", "last boot stage since 00:06:00: failed: no room"},
		{"keys", "last boot stage since 00:07:00: keys, after it failed: no room"},
	} {
		minute := map[string]int{"failed: no room": 6, "keys": 7}[row.stage]
		if b = b.At(row.stage, "no room", false, at(minute)); b.String() != row.says {
			t.Errorf("it says %q, want %q", b, row.says)
		}
	}
	if b = b.At("started", "", false, at(8)); b != (Boot{Instance: "i-1", Stage: "started", Since: at(8)}) {
		t.Errorf("once nothing has failed it is %+v", b)
	}
}
