package topology

import (
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// waitOn has a person switch semi-sync on for what replicas commit: what they are to commit waits, and is shown as owned.
func (s *scene) waitOn(pending int, waiting string, ordinals ...int) {
	for _, i := range ordinals {
		sql := &s.member(i).SQL
		sql.SemiSync.SourceEnabled, sql.SemiSync.SourceActive, sql.SemiSync.WaitCount = true, true, 1
		sql.PendingCommits, sql.Waiting = pending, gtid.MustParse(waiting)
	}
}

// TestAReplicaWaitsForNobody: an applier that waits for acknowledgements is released and keeps its instance, because both replicas may hang in
// this way, and acknowledge. A client's commit is cut off, of one member at a time.
func TestAReplicaWaitsForNobody(t *testing.T) {
	ofPrimary, own := uuidOf(0)+":11", uuidOf(1)+":1"
	for name, row := range map[string]struct {
		happened func(*scene)
		actions  string
	}{
		"both appliers wait":                           {func(s *scene) { s.waitOn(1, ofPrimary, 1, 2) }, "let orders-1 wait for 0 acknowledgements; let orders-2 wait for 0 acknowledgements"},
		"nothing waits yet":                            {func(s *scene) { s.waitOn(0, "", 1) }, "let orders-1 wait for 0 acknowledgements"},
		"a client waits":                               {func(s *scene) { s.waitOn(1, own, 1) }, "stop instance i-1 of orders-1"},
		"clients wait on both":                         {func(s *scene) { s.waitOn(1, own, 1); s.waitOn(1, uuidOf(2)+":1", 2) }, "stop instance i-1 of orders-1"},
		"a client waits beside the applier":            {func(s *scene) { s.waitOn(2, ofPrimary+","+own, 1) }, "stop instance i-1 of orders-1"},
		"what waits is not known":                      {func(s *scene) { s.waitOn(1, "", 1) }, "stop instance i-1 of orders-1"},
		"a client waits, and nobody else acknowledges": {func(s *scene) { s.waitOn(1, own, 1); s.io(ioConnecting, 2) }, ""},
		"the applier stands still":                     {func(s *scene) { s.waitOn(1, ofPrimary, 1); s.member(1).SQL.Replication.SQLRunning = false }, "stop instance i-1 of orders-1"},
		"the primary is lost as well": {func(s *scene) {
			s.lose(0)
			s.io(ioOff, 1, 2)
			s.waitOn(1, ofPrimary, 1, 2)
			s.member(1).SQL.Replication.Retrieved, s.member(2).SQL.Replication.Retrieved = trx(0, 11), trx(0, 11)
			s.member(2).SQL.SemiSync.WaitCount = NobodyAnswers
		}, "let orders-1 wait for 0 acknowledgements"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			row.happened(s)
			if _, actions := s.plan(); actions != row.actions {
				t.Errorf("planned %q, want %q", actions, row.actions)
			}
		})
	}
}

// TestAReplicasSourceSideDoesNotDelayThePrimarys: a person switched both; the primary's own comes first.
func TestAReplicasSourceSideDoesNotDelayThePrimarys(t *testing.T) {
	s := newScene()
	s.waitOn(1, uuidOf(0)+":11", 1)
	s.member(0).SQL.SemiSync.SourceEnabled = false
	if plan, actions := s.plan(); len(plan.Actions) != 2 || plan.Actions[0] != (SetSourceWait{Member: "orders-0", Enabled: true, W: 1}) || plan.Actions[1] != (SetSourceWait{Member: "orders-1", Alone: true}) {
		t.Errorf("planned %q", actions)
	}
}
