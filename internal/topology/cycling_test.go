package topology

import (
	"strings"
	"testing"
	"time"
)

// unanswered makes a voter one that has not answered for a while, on an instance that EC2 calls well.
func (s *scene) unanswered(i int, access Access, down time.Duration) {
	s.lose(i)
	s.member(i).SQL.Access, s.member(i).DownSince = access, s.observed.Now.Add(-down)
}

// TestCycling: whose instance is stopped and started because it hangs. One at a time, unless writes stand still without it.
func TestCycling(t *testing.T) {
	waiting := func(s *scene) {
		s.member(0).SQL.PendingCommits, s.member(0).StalledSince = 1, s.observed.Now.Add(-time.Minute)
	}
	lastOne := func(s *scene, access Access, down time.Duration) {
		s.down(2*time.Minute, 1)
		s.member(1).CapacityRefused, s.member(1).CapacityRefusedAt = s.member(1).Volumes[0].Zone, s.observed.Now
		s.unanswered(2, access, down)
	}
	for name, row := range map[string]struct {
		happened func(*scene)
		cycled   string
	}{
		"nothing else is off":                    {func(s *scene) { s.unanswered(2, AccessSilent, 2*time.Minute) }, "i-2"},
		"another cannot start, and writes go on": {func(s *scene) { lastOne(s, AccessSilent, 2*time.Minute) }, ""},
		"another cannot start, and writes wait":  {func(s *scene) { lastOne(s, AccessSilent, 2*time.Minute); waiting(s) }, "i-2"},
		"another is on its way": {func(s *scene) {
			lastOne(s, AccessSilent, 2*time.Minute)
			waiting(s)
			s.member(1).Instances[0].State = statePending
		}, ""},
		"another has been stopping for long": {func(s *scene) {
			lastOne(s, AccessSilent, 2*time.Minute)
			waiting(s)
			s.member(1).Instances[0].State, s.member(1).DownSince = stateStopping, s.observed.Now.Add(-transitionPatience)
		}, "i-2"},
		"mysqld is down, and writes go on":       {func(s *scene) { s.unanswered(2, AccessRefused, 4*time.Minute) }, ""},
		"mysqld is down for long, and is missed": {func(s *scene) { lastOne(s, AccessRefused, 4*time.Minute); waiting(s) }, "i-2"},
		"mysqld is down since a moment":          {func(s *scene) { lastOne(s, AccessRefused, 2*time.Minute); waiting(s) }, ""},
		"it has never been up, and still boots": {func(s *scene) {
			lastOne(s, AccessRefused, 4*time.Minute)
			waiting(s)
			unsigned(s, 2, bootAllowed-time.Second)
		}, ""},
		"it has never been up, and should be": {func(s *scene) { lastOne(s, AccessRefused, 4*time.Minute); waiting(s); unsigned(s, 2, bootAllowed) }, "i-2"},
		"it was started a moment ago":         {func(s *scene) { s.unanswered(2, AccessSilent, time.Hour); launched(s, 2, cyclePause-time.Second) }, ""},
		"it should be up again":               {func(s *scene) { s.unanswered(2, AccessSilent, time.Hour); launched(s, 2, cyclePause) }, "i-2"},
		"it is bare metal, and powers up": {func(s *scene) {
			s.unanswered(2, AccessSilent, time.Hour)
			launched(s, 2, metalPowerUp+cyclePause-time.Second)
			s.member(2).Instances[0].BareMetal = true
		}, ""},
		"it is bare metal, and should be up again": {func(s *scene) {
			s.unanswered(2, AccessSilent, time.Hour)
			launched(s, 2, metalPowerUp+cyclePause)
			s.member(2).Instances[0].BareMetal = true
		}, "i-2"},
		"EC2 calls it impaired while it powers up": {func(s *scene) {
			s.unanswered(2, AccessSilent, time.Hour)
			launched(s, 2, metalPowerUp)
			s.member(2).Instances[0].BareMetal, s.member(2).Instances[0].Impaired = true, true
		}, ""},
		"nobody takes writes, and the leader hangs beside one that is off": {func(s *scene) {
			s.unanswered(0, AccessSilent, 2*time.Minute)
			s.down(2*time.Minute, 2)
			s.io(ioOff, 1)
		}, "i-0"},
		"the first voter is off, and the second hangs": {func(s *scene) {
			s.down(2*time.Minute, 0)
			s.unanswered(1, AccessSilent, 2*time.Minute)
			s.io(ioOff, 2)
		}, "i-1"},
		"nobody takes writes, and mysqld of the leader may recover": {func(s *scene) {
			s.unanswered(0, AccessRefused, time.Hour)
			s.down(2*time.Minute, 2)
			s.io(ioOff, 1)
		}, ""},
		"the row names it, and the records another who led since": {func(s *scene) {
			s.unanswered(0, AccessSilent, 2*time.Minute)
			s.down(2*time.Minute, 2)
			s.io(ioOff, 1)
			row := *s.member(1).SQL.Membership
			row.Memory = map[string]string{"orders-0": "1", "orders-1": "2"}
			s.voters(row)
			s.observed.Records.Leader = "orders-2"
		}, ""},
		"it may hold in memory what the leader, which is off, has lost": {func(s *scene) {
			s.down(2*time.Minute, 0)
			s.unanswered(1, AccessSilent, 2*time.Minute)
			s.io(ioOff, 2)
			row := *s.member(2).SQL.Membership
			row.Memory = map[string]string{"orders-1": "1", "orders-2": "2"}
			s.voters(row)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			row.happened(s)
			_, actions := s.plan()
			var cycled string
			for _, action := range strings.Split(actions, "; ") {
				if rest, found := strings.CutPrefix(action, "stop instance "); found {
					cycled, _, _ = strings.Cut(rest, " ")
				}
			}
			if cycled != row.cycled {
				t.Errorf("planned %q, want %q to be stopped", actions, row.cycled)
			}
		})
	}
}

// unsigned makes a member one that never joined on its instance, which was launched a while ago.
func unsigned(s *scene, i int, ago time.Duration) {
	rec := s.observed.Records.Members[s.member(i).Name]
	rec.SignedInstance = ""
	s.observed.Records.Members[s.member(i).Name] = rec
	launched(s, i, ago)
}

// launched makes a member one whose instance was launched, or started, a while ago.
func launched(s *scene, i int, ago time.Duration) {
	s.member(i).Instances[0].LaunchTime = s.observed.Now.Add(-ago)
}
