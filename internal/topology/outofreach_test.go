package topology

import (
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// TestReplicasThatLackWhatIsPurgedAreRebuiltOneAtATime: a person adds another server's GTIDs to gtid_purged of the primary, so that both
// replicas lack them, and receive on. Each keeps its vote until the other has its own again.
func TestReplicasThatLackWhatIsPurgedAreRebuiltOneAtATime(t *testing.T) {
	foreign := gtid.MustParse("99999999-0000-0000-0000-000000000000:1-1000")
	pair := Membership{Epoch: 5, Primary: "orders-0", Voters: []string{"orders-0", "orders-2"}, W: 1}
	silent := func(s *scene, i int) { s.member(i).SQL.SemiSync = SemiSync{} }
	lost := func(s *scene, i int) { // its connection ended, and it gets no other
		s.member(i).SQL.Replication.IOState, s.member(i).SQL.Replication.ReceiverError = ioOff, "error 1236"
		s.member(i).SQL.SemiSync.ReplicaActive = false
	}
	for name, row := range map[string]struct {
		happened      func(*scene)
		actions, says string
	}{
		"both lack them":       {func(*scene) {}, "switch the acknowledgements of orders-1 off", "orders-1 lacks"},
		"one leaves":           {func(s *scene) { silent(s, 1); s.observed.Records.Leaving = "orders-1" }, "remove orders-1 from the voters", "orders-2 lacks"},
		"one has left":         {func(s *scene) { s.voters(pair); silent(s, 1) }, "clone orders-1 from orders-0", "orders-2 lacks"},
		"one is rebuilt":       {func(s *scene) { s.member(1).SQL.Executed = s.member(0).SQL.Executed }, "switch the acknowledgements of orders-2 off", "orders-2 lacks"},
		"nobody else is there": {func(s *scene) { s.voters(pair); s.lose(1) }, "", "orders-2 lacks"},
		"nobody else acknowledges": {func(s *scene) {
			s.member(1).SQL.Executed = s.member(0).SQL.Executed
			s.io(ioConnecting, 1)
		}, "", "orders-2 lacks"},
		"it does not receive": {func(s *scene) { s.voters(pair); silent(s, 1); lost(s, 2) }, "clone orders-1 from orders-0; switch the acknowledgements of orders-2 off", ""},
		"of two": {func(s *scene) {
			s.desired.Replicas = 2
			s.voters(Membership{Epoch: 5, Primary: "orders-0", Voters: []string{"orders-0", "orders-1"}, W: 1})
			delete(s.observed.Members, "orders-2")
			delete(s.observed.Records.Members, "orders-2")
			s.member(0).SQL.SemiSync.Clients = 1
		}, "", "Annotate the cluster with mysql.alx.ke/rebuild=orders-1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.member(0).SQL.Purged, s.member(0).SQL.Executed = foreign, s.member(0).SQL.Executed.Union(foreign)
			row.happened(s)
			p, actions := s.plan()
			var text string
			for _, f := range p.Degraded {
				text += " " + f.Message
			}
			if actions != row.actions || !strings.Contains(text, row.says) {
				t.Errorf("planned %q and says %q, want %q and %q", actions, text, row.actions, row.says)
			}
		})
	}
}

// TestWhoLacksWhatIsPurgedIsNoDonor: it would be lacking in the copy too.
func TestWhoLacksWhatIsPurgedIsNoDonor(t *testing.T) {
	s := newScene()
	s.voters(Membership{Epoch: 5, Primary: "orders-0", Voters: []string{"orders-0", "orders-2"}, W: 1})
	s.member(0).SQL.Purged = gtid.MustParse("99999999-0000-0000-0000-000000000000:1")
	s.member(0).SQL.Executed = s.member(0).SQL.Executed.Union(s.member(0).SQL.Purged)
	s.member(1).SQL.SemiSync = SemiSync{}
	s.member(0).Instances[0].Address = ""
	if _, actions := s.plan(); strings.Contains(actions, "clone") {
		t.Errorf("planned %q", actions)
	}
}
