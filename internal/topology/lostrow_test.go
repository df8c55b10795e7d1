package topology

import (
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// TestDroppedRowIsWrittenAgain: a cluster whose row somebody dropped, or overwrote with another cluster's, runs on and gets a new one that
// names every member; and as long as that would prove too much, status says what it waits for.
func TestDroppedRowIsWrittenAgain(t *testing.T) {
	drop := func(s *scene) {
		for _, m := range s.observed.Members {
			m.SQL.Membership = nil
		}
	}
	for name, row := range map[string]struct {
		changed func(*scene)
		writes  bool
		says    string
	}{
		"dropped": {drop, true, "writes the row again"},
		"dropped, acknowledging from memory": {func(s *scene) {
			drop(s)
			for _, i := range []int{1, 2} {
				s.member(i).SQL.RelaySync, s.member(i).SQL.Memory = relayUnsynced, "run-"+s.desired.MemberName(i)
			}
		}, true, "writes the row again"},
		"another cluster's": {func(s *scene) {
			for _, m := range s.observed.Members {
				m.SQL.Membership = &Membership{Epoch: 70, Primary: "shop-0", Voters: []string{"shop-0", "shop-1", "shop-2"}, W: 1}
			}
		}, true, "loaded another cluster's dump"},
		"a member is away":         {func(s *scene) { drop(s); s.lose(2) }, false, "all members are reached and hold what it has: orders-2"},
		"a member is behind":       {func(s *scene) { drop(s); s.member(1).SQL.Replication.UpToDate = false }, false, "hold what it has: orders-1"},
		"a member does not follow": {func(s *scene) { drop(s); s.io(ioOff, 1) }, false, "hold what it has: orders-1"},
		"another is to be seeded, and acknowledges nothing": {func(s *scene) {
			drop(s)
			s.member(2).SQL.Executed, s.member(2).SQL.Replication, s.member(2).SQL.SemiSync = gtid.Set{}, nil, SemiSync{}
		}, true, "writes the row again"},
		"commits wait for nobody": {func(s *scene) {
			drop(s)
			s.member(0).SQL.SemiSync.SourceEnabled, s.member(0).SQL.SemiSync.SourceActive = false, false
		}, false, "commits wait for 1 acknowledgements"},
		"another was to lead": {func(s *scene) { drop(s); s.observed.Records.Leader = "orders-1" }, false, "no member that knows the voters answers"},
		"nobody is writable, and who led last is doubted": {func(s *scene) {
			drop(s)
			s.restart()
			s.observed.Records.LeaderDoubted = true
		}, false, "no member that knows the voters answers"},
		"one still shows it":        {func(s *scene) { s.member(0).SQL.Membership = nil }, false, ""},
		"the cluster never had one": {func(s *scene) { drop(s); s.observed.Records.Established = false }, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.observed.Records.Established, s.observed.Records.Bootstrapped = true, "orders-0"
			row.changed(s)
			p := pureNext(s.desired, s.observed)
			written, voters := planned[RecordPrimary](p), "orders-0 orders-1 orders-2"
			if strings.Contains(name, "seeded") {
				voters = "orders-0 orders-1"
			}
			if (len(written) > 0) != row.writes {
				t.Fatalf("planned %v", p.Actions)
			}
			for _, a := range written {
				if r := a.Next; r.Primary != "orders-0" || strings.Join(r.Voters, " ") != voters || r.W != 1 || len(r.Previous) > 0 || strings.Contains(name, "memory") && (len(r.Memory) != 2 || r.Memory["orders-1"] != "run-orders-1") || name == "another cluster's" && r.Epoch <= 70 {
					t.Errorf("the row is %+v", r)
				}
			}
			said := p.Waiting.Message
			for _, f := range p.Degraded {
				said += "; " + f.Message
			}
			if !strings.Contains(said, row.says) {
				t.Errorf("it says %q, want %q", said, row.says)
			}
			if strings.Contains(said, "writes the row again") && (!told(p, v1alpha1.ReasonMemberUntrusted) || !viewOf(p, "orders-0").InService) {
				t.Errorf("reports %v, shows %+v", p.Degraded, viewOf(p, "orders-0"))
			}
		})
	}
}

// TestDroppedRowAndARestart: who led last is opened again by itself, once it is certain that nobody has more; and who does not follow any
// more is pointed at the primary.
func TestDroppedRowAndARestart(t *testing.T) {
	for name, row := range map[string]struct {
		changed func(*scene)
		actions string
	}{
		"mysqld of the primary was restarted": {func(s *scene) { s.restart() }, "promote orders-0"},
		"and another has more":                {func(s *scene) { s.restart(); s.member(1).SQL.Executed = trx(0, 1000) }, ""},
		"and another is away":                 {func(s *scene) { s.restart(); s.lose(2) }, ""},
		"mysqld of a replica was restarted": {func(s *scene) {
			s.io(ioOff, 1)
			s.member(1).SQL.Replication.SQLRunning = false
		}, "replicate orders-1 from orders-0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.observed.Records.Established, s.observed.Records.Bootstrapped = true, "orders-0"
			row.changed(s)
			for _, m := range s.observed.Members {
				m.SQL.Membership = nil
			}
			if _, actions := s.plan(); actions != row.actions {
				t.Errorf("planned %q, want %q", actions, row.actions)
			}
		})
	}
}
