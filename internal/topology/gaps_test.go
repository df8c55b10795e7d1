package topology

import (
	"slices"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// viewOf is what a plan shows of a member.
func viewOf(p Plan, member string) View {
	return p.Members[slices.IndexFunc(p.Members, func(v View) bool { return v.Name == member })]
}

// leaveOut has a member's applier leave out what it receives for a database.
func (s *scene) leaveOut(ordinal int) {
	s.member(ordinal).SQL.Replication.Filters = []string{"Replicate_Ignore_DB is shop"}
}

// TestGapIsFilledByACopy: a replica that left something out follows as before, is read by nobody, loses its vote, is kept as a snapshot and
// cloned; only then it is as good as the others.
func TestGapIsFilledByACopy(t *testing.T) {
	s := newScene()
	s.observed.CloudReachable = true
	s.observed.Snapshots.Known = nil
	s.leaveOut(2)
	m := s.member(2)
	p, actions := s.plan()
	if actions != "switch the acknowledgements of orders-2 off" || !told(p, v1alpha1.ReasonMemberUntrusted) || viewOf(p, "orders-2").InService {
		t.Fatalf("planned %q, reports %v", actions, p.Degraded)
	}
	s.observed.Records = p.Records
	m.SQL.Replication.Filters = nil // somebody takes it back: what was left out stays so
	s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0", "orders-1"}, W: 1})
	m.SQL.SemiSync = SemiSync{}
	s.snapshotTaken()
	p, actions = s.plan()
	if actions != "clone orders-2 from orders-0" && actions != "clone orders-2 from orders-1" || p.Records.Members["orders-2"].Gap.Why == "" {
		t.Fatalf("planned %q, remembers %+v", actions, p.Records.Members["orders-2"].Gap)
	}
	s.observed.Records = p.Records
	m.SQL.Clone = &Clone{State: cloneCompleted, Began: "2"}
	p, actions = s.plan()
	if strings.Contains(actions, "clone") || p.Records.Members["orders-2"].Gap.found() || told(p, v1alpha1.ReasonMemberUntrusted) || !viewOf(p, "orders-2").InService {
		t.Errorf("planned %q, remembers %+v, reports %v", actions, p.Records.Members["orders-2"].Gap, p.Degraded)
	}
}

// TestGapKeepsFromLeading: what the GTIDs of a member say is not what it holds.
func TestGapKeepsFromLeading(t *testing.T) {
	for name, row := range map[string]struct {
		changed func(*scene)
		leads   string
	}{
		"nobody left anything out": {func(*scene) {}, "orders-1"},
		"one does":                 {func(s *scene) { s.leaveOut(1) }, "orders-2"},
		"somebody skipped what one could not apply": {func(s *scene) {
			s.member(1).SQL.Replication.Stops.Skipped = gtid.MustParse("00000000-0000-0000-0000-000000000000:7")
		}, "orders-2"},
		"nobody knows what one skipped": {func(s *scene) {
			s.member(1).SQL.Replication.Stops.Unread = gtid.MustParse("00000000-0000-0000-0000-000000000000:7")
		}, "orders-2"},
		"nobody knows what both skipped": {func(s *scene) {
			for _, m := range []int{1, 2} {
				s.member(m).SQL.Replication.Stops.Unread = gtid.MustParse("00000000-0000-0000-0000-000000000000:7")
			}
		}, "orders-1"},
		"one lacks what came before": {func(s *scene) {
			s.member(1).SQL.Replication.Dropped = gtid.MustParse("00000000-0000-0000-0000-000000000000:7")
		}, "orders-2"},
		"what one skipped is being read": {func(s *scene) { s.member(1).SQL.Replication.Stops.Reading = true }, "orders-2"},
		"one did": {func(s *scene) {
			s.leaveOut(1)
			s.observed.Records = pureNext(s.desired, s.observed).Records
			s.member(1).SQL.Replication.Filters = nil
		}, "orders-2"},
		"one passes over what does not fit": {func(s *scene) { s.member(1).SQL.Drifted = map[string]string{"replica_exec_mode": "STRICT"} }, "orders-2"},
		"both do":                           {func(s *scene) { s.leaveOut(1); s.leaveOut(2) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			row.changed(s)
			s.lose(0)
			s.io(ioOff, 1, 2)
			p := pureNext(s.desired, s.observed)
			promoted := ""
			for _, a := range planned[Promote](p) {
				promoted = a.Member
			}
			if promoted != row.leads {
				t.Errorf("%q is promoted, want %q: %v", promoted, row.leads, p.Degraded)
			}
			if row.leads == "" && !strings.Contains(p.Degraded[0].Message+p.Degraded[len(p.Degraded)-1].Message, "Replicate_Ignore_DB") {
				t.Errorf("it is not said why: %v", p.Degraded)
			}
		})
	}
}

// TestALeaderHasNoGap: a channel by which it receives from a server of somebody else says nothing of the members' data. Whoever follows another
// member since has one, whatever the row says that it got through its filter.
func TestALeaderHasNoGap(t *testing.T) {
	for name, row := range map[string]struct {
		changed func(*scene)
		gap     bool
	}{
		"it leads":                         {func(*scene) {}, false},
		"it was started again":             {func(s *scene) { s.member(0).SQL.Writable = false }, false},
		"another leads since":              {func(s *scene) { s.observed.Records.recordLeader(s.member(1), 6) }, true},
		"nobody knows who led last":        {func(s *scene) { s.observed.Records.LeaderDoubted = true }, true},
		"its row names another":            {func(s *scene) { s.member(0).SQL.Membership.Primary = "orders-1" }, true},
		"it passes over what does not fit": {func(s *scene) { s.member(0).SQL.Drifted = map[string]string{looseApplier: "STRICT"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.member(0).SQL.Replication = &Replication{SourceHost: "192.0.2.1", IOState: ioOff, Tampering: mysql.Tampering{Filters: []string{"Replicate_Ignore_DB is shop"}}}
			row.changed(s)
			p := pureNext(s.desired, s.observed)
			if gap := p.Records.Members["orders-0"].Gap; gap.found() != row.gap {
				t.Errorf("it has the gap %+v", gap)
			}
		})
	}
	alone := newScene()
	alone.desired.Replicas = 1
	alone.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0"}})
	delete(alone.observed.Members, "orders-1")
	delete(alone.observed.Members, "orders-2")
	m := alone.member(0)
	m.SQL.Writable, m.SQL.Replication = false, &Replication{SourceHost: "192.0.2.1", IOState: ioOff, Tampering: mysql.Tampering{Filters: []string{"Replicate_Ignore_DB is shop"}}}
	if p, actions := alone.plan(); !strings.Contains(actions, "promote orders-0") {
		t.Errorf("the only member is not opened again: planned %q, says %v", actions, p.Degraded)
	}
}

// TestChangedReplicationIsRestored: an option that somebody changed of a channel is set again, and another channel is removed.
func TestChangedReplicationIsRestored(t *testing.T) {
	for want, tampering := range map[string]mysql.Tampering{
		"":                                 {},
		"replicate orders-1 from orders-0": {Options: []string{"SOURCE_DELAY is 86400"}},
		"replicate orders-2 from orders-0": {Channels: []string{"migration"}},
	} {
		s := newScene()
		for i, name := range []string{"orders-1", "orders-2"} {
			if strings.Contains(want, name) {
				s.member(i + 1).SQL.Replication.Tampering = tampering
			}
		}
		if _, actions := s.plan(); actions != want {
			t.Errorf("planned %q, want %q", actions, want)
		}
	}
}

// TestRefusedAccountIsRestored: a primary that refuses the account of its replicas takes it again; and status says what MySQL said.
func TestRefusedAccountIsRestored(t *testing.T) {
	s := newScene()
	s.io(ioConnecting, 1, 2)
	for _, i := range []int{1, 2} {
		s.member(i).SQL.Replication.SourceRefusal = mysql.SourceRefusal{AccountRefused: true, ConnectError: "Access denied for user. Account is locked."}
	}
	p, actions := s.plan()
	if actions != "put back the account nairobi_replication on orders-0, which refuses its replicas" {
		t.Errorf("planned %q", actions)
	}
	if step := viewOf(p, "orders-1").Step.Message; step != "connecting to orders-0: Access denied for user. Account is locked." {
		t.Errorf("it says %q", step)
	}
	s.member(1).SQL.Replication.SourceHost, s.member(2).SQL.Replication.SourceHost = "10.0.0.9", "10.0.0.9"
	if _, actions := s.plan(); strings.Contains(actions, "account") {
		t.Errorf("planned %q for what another source refuses", actions)
	}
}

// TestStatementsExpose: what replicas make of a statement need not be what the primary made of it.
func TestStatementsExpose(t *testing.T) {
	var h CommitHistory
	s := newScene()
	s.member(0).SQL.Drifted = map[string]string{mysql.BinlogFormat: "ROW"}
	h.Record(&s.observed)
	if e := s.observed.Exposure; e.Cause.Kind != CauseStatements {
		t.Errorf("exposed because %+v", e.Cause)
	}
}

// TestADoubtOutlivesThePromotion: a member of which nobody knows whether somebody skipped something is promoted when no other can be. Its channel
// goes, and what is not known stays.
func TestADoubtOutlivesThePromotion(t *testing.T) {
	s := newScene()
	s.lose(0)
	s.io(ioOff, 1, 2)
	for _, m := range []int{1, 2} {
		s.member(m).SQL.Replication.Stops.Unread = gtid.MustParse("00000000-0000-0000-0000-000000000000:7")
	}
	p := pureNext(s.desired, s.observed)
	if len(planned[Promote](p)) != 1 || !p.Records.Members["orders-1"].Gap.found() || p.Records.Members["orders-2"].Gap.found() {
		t.Errorf("promoted %v, remembered %+v", planned[Promote](p), p.Records.Members)
	}
	s.observed.Records = p.Records
	if p = pureNext(s.desired, s.observed); len(planned[Promote](p)) != 1 || planned[Promote](p)[0].Member != "orders-1" {
		t.Errorf("a promotion that is to be tried again is one of %v: %v", planned[Promote](p), p.Degraded)
	}
	// It is open, and its row waits for an acknowledgement.
	m := s.member(1)
	m.SQL.Writable, m.SQL.Replication, m.SQL.PendingCommits = true, nil, 1
	m.SQL.SemiSync = s.member(0).SQL.SemiSync
	m.SQL.SemiSync.SourceEnabled, m.SQL.SemiSync.SourceActive, m.SQL.SemiSync.WaitCount = true, true, 1
	p = pureNext(s.desired, s.observed)
	stopsIt := slices.ContainsFunc(planned[StopInstance](p), func(a StopInstance) bool { return a.Member == "orders-1" })
	if p.Primary != "orders-1" || stopsIt || len(planned[Demote](p)) > 0 || !p.Records.Members["orders-1"].Gap.found() {
		t.Errorf("the primary is %q; planned %v, remembered %+v", p.Primary, p.Actions, p.Records.Members)
	}
}
