package topology

import (
	"strings"
	"testing"
	"time"
)

func TestMembersThatMayForget(t *testing.T) {
	forgetful := map[string]string{"relay_log_recovery": "ON"}
	for name, row := range map[string]struct {
		happened func(*scene)
		actions  string
		says     string
	}{
		"a voter loses its vote: first it is silent": {
			func(s *scene) { s.member(2).SQL.Misconfigured = forgetful },
			"switch the acknowledgements of orders-2 off", "orders-2: relay_log_recovery is ON"},
		"then the row is written": {
			func(s *scene) {
				s.member(2).SQL.Misconfigured, s.member(2).SQL.SemiSync = forgetful, SemiSync{}
				s.observed.Records.Leaving = "orders-2"
			}, "remove orders-2 from the voters", ""},
		"then its instance is replaced": {
			func(s *scene) {
				two(s)
				s.member(2).SQL.Misconfigured = forgetful
				s.member(2).Instances[0].LaunchTime = s.observed.Now.Add(-2 * time.Hour)
			}, "terminate instance i-2 of orders-2", ""},
		"but not again and again": {
			func(s *scene) {
				two(s)
				s.member(2).SQL.Misconfigured = forgetful
				s.member(2).Instances[0].LaunchTime = s.observed.Now.Add(-2 * time.Minute)
			}, "", "orders-2: relay_log_recovery is ON"},
		"one that forgets nothing is no voter either": {
			func(s *scene) {
				two(s)
				s.member(2).SQL.Misconfigured = map[string]string{"skip_replica_start": "OFF"}
			}, "", "orders-2: skip_replica_start is OFF"},
		"its word proves nothing": {
			func(s *scene) {
				s.lose(0)
				s.io(ioOff, 1, 2)
				s.member(2).SQL.Misconfigured = forgetful
			}, "", "2 of the 3 voters must be reached"},
		"one that forgets nothing still proves": {
			func(s *scene) {
				s.lose(0)
				s.io(ioOff, 1, 2)
				s.member(2).SQL.Misconfigured = map[string]string{"skip_replica_start": "OFF"}
			}, "stop instance i-0 of orders-0; promote orders-1", ""},
		"nobody hands over to it": {
			func(s *scene) {
				s.desired.SwitchoverTo = "orders-2"
				s.member(2).SQL.Misconfigured = forgetful
			}, "switch the acknowledgements of orders-2 off", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			for i := range s.observed.Members {
				s.observed.Members[i].Instances[0].LaunchTime = s.observed.Now.Add(-time.Hour / 2)
			}
			row.happened(s)
			p, actions := s.plan()
			if actions != row.actions {
				t.Errorf("planned %q, want %q", actions, row.actions)
			}
			var said []string
			for _, f := range p.Degraded {
				said = append(said, f.Message)
			}
			if !strings.Contains(strings.Join(said, "\n"), row.says) {
				t.Errorf("says %q, want %q", said, row.says)
			}
		})
	}
}
