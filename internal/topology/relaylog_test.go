package topology

import (
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// withoutRelayLog is a replica whose applier did not start because its relay log is missing.
func (s *scene) withoutRelayLog(ordinal int) {
	m := s.member(ordinal)
	m.SQL.Replication = &Replication{SourceHost: "10.0.0.0", IOState: ioOff, ApplierError: "Replica failed to initialize applier metadata structure from the repository", RelayLogMissing: true}
	m.SQL.SemiSync.ReplicaActive = false
	m.BrokenSince = s.observed.Now
}

// TestMissingRelayLogIsReset: a replica whose relay log is missing is neither started again and again nor rebuilt. It loses its vote before
// its relay log is reset when the others acknowledge without it, and keeps it when they do not.
func TestMissingRelayLogIsReset(t *testing.T) {
	const reset, silence = "reset the relay log of orders-1", "switch the acknowledgements of orders-1 off"
	for name, row := range map[string]struct {
		arrange func(s *scene)
		want    string
	}{
		"the other voter acknowledges": {func(*scene) {}, silence},
		"it is silent and still votes": {func(s *scene) {
			s.member(1).SQL.SemiSync = SemiSync{}
			s.observed.Records.Leaving = "orders-1"
		}, "remove orders-1 from the voters"},
		"it has no vote": {func(s *scene) {
			s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0", "orders-2"}, W: 1})
			s.member(1).SQL.SemiSync = SemiSync{}
		}, reset},
		"the other voter acknowledges nothing new yet": {func(s *scene) { s.member(2).SQL.Replication.UpToDate = false }, reset},
		"the other voter lost its relay log as well":   {func(s *scene) { s.withoutRelayLog(2) }, reset},
		"it is the only other voter":                   {two, reset},
		"another may have led since, and no other voter acknowledges": {func(s *scene) {
			s.observed.Records.LeaderDoubted = true
			s.lose(2)
		}, reset},
		"commits wait for nobody": {func(s *scene) { s.desired.Lossless = false }, reset},
		"for longer than an applier is started again": {func(s *scene) {
			s.member(2).SQL.Replication.UpToDate = false
			s.member(1).BrokenSince = s.observed.Now.Add(-2 * brokenPatience)
		}, reset},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.withoutRelayLog(1)
			row.arrange(s)
			p, actions := s.plan()
			if !strings.Contains(actions, row.want) || row.want != reset && strings.Contains(actions, reset) {
				t.Errorf("planned %q, want %q", actions, row.want)
			}
			for _, not := range []string{"replicate orders-1", "snapshot", "clone orders-1"} {
				if strings.Contains(actions, not) {
					t.Errorf("planned %q", actions)
				}
			}
			told := false
			for _, f := range p.Degraded {
				told = told || f.Reason == v1alpha1.ReasonReplicationBroken && strings.HasPrefix(f.Message, "orders-1: the relay log")
			}
			if told != (row.want == reset) {
				t.Errorf("says %v", p.Degraded)
			}
		})
	}
}

// TestMissingRelayLogIsKept: no relay log is reset without a primary, nor under one after which another may have led, as long as others
// acknowledge: what that one had acknowledged may be in it.
func TestMissingRelayLogIsKept(t *testing.T) {
	for name, arrange := range map[string]func(s *scene){
		"there is no primary": func(s *scene) { s.lose(0) },
		"another may have led since": func(s *scene) {
			s.observed.Records.LeaderDoubted = true
			s.member(2).SQL.Executed = trx(0, 10).Union(trx(1, 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.withoutRelayLog(1)
			arrange(s)
			if _, actions := s.plan(); strings.Contains(actions, "reset the relay log") {
				t.Errorf("planned %q", actions)
			}
		})
	}
}
