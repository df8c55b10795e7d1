package topology

import (
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// flushes has a member hold transactions of its own that its binary log shows to change no data.
func (s *scene) flushes(ordinal, n int) {
	m := s.member(ordinal)
	m.SQL.Executed = m.SQL.Executed.Union(trx(ordinal, n))
	for i := range n {
		one := trx(ordinal, i+1).Subtract(trx(ordinal, i)).String()
		m.SQL.Replication.Own.Harmless = append(m.SQL.Replication.Own.Harmless, HarmlessTransaction{GTID: one, What: "FLUSH STATUS"})
	}
}

// TestHarmlessTransactionsAreAdopted: what a replica committed itself and what changes no data is adopted by the primary, once it is
// certain that nobody has something else under its GTIDs. Until then nothing is done to the replica. Whatever is in doubt is diverged.
func TestHarmlessTransactionsAreAdopted(t *testing.T) {
	const adopted = "commit on orders-0 as empty what replica orders-1 logged and what changes no data: FLUSH STATUS. Ask who runs it there, such as a monitoring agent, to use NO_WRITE_TO_BINLOG"
	const rebuilt = "switch the acknowledgements of orders-1 off"
	for name, row := range map[string]struct {
		happened func(*scene)
		actions  string
	}{
		"all are well": {func(s *scene) { s.flushes(1, 1) }, adopted},
		"several": {func(s *scene) { s.flushes(1, 3) },
			strings.Replace(adopted, "FLUSH STATUS.", "FLUSH STATUS and 2 more.", 1)},
		"on two replicas, one after the other": {func(s *scene) { s.flushes(2, 1); s.flushes(1, 1) }, adopted},
		"others were adopted before": {func(s *scene) {
			s.flushes(1, 2)
			s.member(0).SQL.Executed = trx(0, 10).Union(trx(1, 1))
		}, adopted},
		"it waits for its acknowledgement": {func(s *scene) {
			s.flushes(1, 1)
			s.member(0).SQL.Waiting = trx(1, 1)
		}, ""},
		"the binary log is being read": {func(s *scene) {
			s.member(1).SQL.Executed = trx(0, 10).Union(trx(1, 1))
			s.member(1).SQL.Replication.Own.Reading = true
		}, ""},
		"it shows nothing of it":           {func(s *scene) { s.member(1).SQL.Executed = trx(0, 10).Union(trx(1, 1)) }, rebuilt},
		"another of them changes data":     {func(s *scene) { s.flushes(1, 1); s.member(1).SQL.Executed = trx(0, 10).Union(trx(1, 2)) }, rebuilt},
		"another replica holds it as well": {func(s *scene) { s.flushes(1, 1); s.member(2).SQL.Replication.Retrieved = trx(1, 1) }, ""},
		"another member is away":           {func(s *scene) { s.flushes(1, 1); s.lose(2) }, ""},
		"another member is being cloned": {func(s *scene) {
			s.flushes(1, 1)
			s.member(2).SQL.Clone = &Clone{State: cloneInProgress}
		}, ""},
		"another member has the same UUID": {func(s *scene) { s.flushes(1, 1); s.member(2).SQL.ServerUUID = uuidOf(1) }, ""},
		"a newer row waits to be acknowledged": {func(s *scene) {
			s.flushes(1, 1)
			s.member(2).SQL.Membership = &Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0", "orders-1", "orders-2"}, W: 1}
		}, ""},
		"the row is not confirmed": {func(s *scene) {
			s.flushes(1, 1)
			s.voters(Membership{Epoch: 5, Primary: "orders-0", Voters: []string{"orders-0", "orders-1", "orders-2"}, Previous: []string{"orders-0", "orders-1"}, W: 1})
		}, "switch the acknowledgements of orders-2 off; confirm the voters orders-0, orders-1, orders-2"},
		"nobody acknowledges": {func(s *scene) {
			s.flushes(1, 1)
			for _, i := range []int{1, 2} {
				s.member(i).SQL.Replication.UpToDate = false
			}
		}, ""},
		"who led last is in doubt": {func(s *scene) {
			s.flushes(1, 1)
			s.observed.Records.Leader, s.observed.Records.LeaderDoubted = "orders-0", true
		}, rebuilt},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			row.happened(s)
			p, actions := s.plan()
			if actions != row.actions {
				t.Errorf("planned %q, want %q", actions, row.actions)
			}
			for _, f := range p.Degraded {
				if f.Reason == v1alpha1.ReasonMemberUntrusted && row.actions != rebuilt {
					t.Errorf("reported: %s", f.Message)
				}
			}
		})
	}
}

// TestHarmlessTransactionsHoldNothingUp: a replica that holds some becomes a voter as any other does, but not before its binary log was
// read; and is handed over to.
func TestHarmlessTransactionsHoldNothingUp(t *testing.T) {
	s := newScene()
	two(s)
	s.flushes(2, 1)
	if _, actions := s.plan(); !strings.Contains(actions, "admit orders-2 as a voter") || strings.Contains(actions, "as empty") {
		t.Errorf("planned %q", actions)
	}
	s.member(2).SQL.Replication.Own = OwnTransactions{Reading: true}
	if p, actions := s.plan(); actions != "" || !strings.Contains(p.Waiting.Message, "reading in its binary log") {
		t.Errorf("planned %q, waiting for %q", actions, p.Waiting.Message)
	}
	s = newScene()
	s.flushes(1, 1)
	s.lose(2)
	s.member(2).Instances[0].State = statePending
	s.desired.SwitchoverTo = "orders-1"
	if _, actions := s.plan(); !strings.Contains(actions, "switch over from orders-0 to orders-1") {
		t.Errorf("planned %q", actions)
	}
}

// TestReplicaWithHarmlessTransactionsIsPromoted: it takes them along when the primary is gone.
func TestReplicaWithHarmlessTransactionsIsPromoted(t *testing.T) {
	s := newScene()
	s.flushes(1, 1)
	s.lose(0)
	s.io(ioOff, 1, 2)
	if _, actions := s.plan(); !strings.Contains(actions, "promote orders-1") {
		t.Errorf("planned %q", actions)
	}
}

// TestHarmlessTransactionsHoldUpNoPromotion: without records nobody knows who led last, and each of two members holds what the other
// lacks. What changes no data need not be kept.
func TestHarmlessTransactionsHoldUpNoPromotion(t *testing.T) {
	for name, row := range map[string]struct {
		flushes func(*scene)
		want    string
	}{
		"harmless":     {func(s *scene) { s.flushes(1, 1) }, "promote orders-0"},
		"not yet read": {func(s *scene) { s.flushes(1, 1); s.member(1).SQL.Replication.Own = OwnTransactions{Reading: true} }, ""},
		"data":         {func(s *scene) { s.flushes(1, 1); s.member(1).SQL.Replication.Own.Harmless = nil }, ""},
	} {
		s := newScene()
		s.observed.Records = ClusterRecord{RebuiltAt: s.observed.Now, AloneUnknown: true, Members: s.observed.Records.Members, Established: true}
		s.member(0).SQL.Membership.Memory = map[string]string{"orders-2": "a run before"} // what it acknowledged may be nowhere else
		s.member(0).SQL.Writable, s.member(0).SQL.Executed = false, trx(0, 12)
		s.io(ioOff, 1, 2)
		row.flushes(s)
		p, actions := s.plan()
		if row.want == "" && (strings.Contains(actions, "promote") || len(p.Degraded) == 0) || !strings.Contains(actions, row.want) {
			t.Errorf("%s: planned %q, degraded %v", name, actions, p.Degraded)
		}
		if row.want == "" && !strings.Contains(p.Degraded[0].Message, "orders-1 lacks") {
			t.Errorf("%s: %v", name, p.Degraded)
		}
	}
}

// TestOwnErrant: only what a replica committed itself is looked up in its binary log, and only little of it.
func TestOwnErrant(t *testing.T) {
	for name, row := range map[string]struct {
		happened func(*scene)
		want     gtid.Set
	}{
		"nothing":             {func(*scene) {}, gtid.Set{}},
		"its own":             {func(s *scene) { s.flushes(1, 2) }, trx(1, 2)},
		"as many as are read": {func(s *scene) { s.flushes(1, mostOwn) }, trx(1, mostOwn)},
		"more":                {func(s *scene) { s.flushes(1, mostOwn+1) }, gtid.Set{}},
		"another server's": {func(s *scene) {
			s.flushes(1, 1)
			s.member(1).SQL.Executed = trx(0, 10).Union(trx(1, 1)).Union(trx(2, 1))
		}, gtid.Set{}},
		"the primary's own, ahead of it": {func(s *scene) { s.member(1).SQL.Executed = trx(0, 12) }, gtid.Set{}},
		"while there is no primary":      {func(s *scene) { s.flushes(1, 1); s.member(0).SQL.Writable = false }, trx(1, 1)},
		"then what another holds as well": {func(s *scene) {
			s.flushes(1, 1)
			s.member(0).SQL.Writable = false
			s.member(2).SQL.Executed = trx(0, 10).Union(trx(1, 1))
		}, gtid.Set{}},
		"then what others lack of the primary's": {func(s *scene) {
			s.member(0).SQL.Writable = false
			s.member(1).SQL.Executed = trx(0, 12)
		}, gtid.Set{}},
		"while two members take writes":    {func(s *scene) { s.flushes(1, 1); s.member(2).SQL.Writable = true }, gtid.Set{}},
		"of a member that does not answer": {func(s *scene) { s.flushes(1, 1); s.lose(1) }, gtid.Set{}},
	} {
		s := newScene()
		row.happened(s)
		if got := OwnErrant(&s.observed)["orders-1"]; !got.Equal(row.want) {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
}

// TestTailIsNotForgottenForWhatReplacesIt: a rebuilt member that logs something under a GTID that it lost is no voter while another may
// hold what it lost.
func TestTailIsNotForgottenForWhatReplacesIt(t *testing.T) {
	s := newScene()
	two(s)
	s.flushes(2, 1)
	s.observed.Records.Members["orders-2"] = MemberRecord{Instance: 1, Volume: 1, VolumeID: "vol-2", SignedInstance: "i-2", Shortfall: Shortfall{Tail: trx(2, 1).String()}}
	s.lose(1)
	s.member(1).Instances[0].State = statePending
	if p, actions := s.plan(); strings.Contains(actions, "admit") || p.Records.Members["orders-2"].Tail == "" {
		t.Errorf("planned %q, remembers %q", actions, p.Records.Members["orders-2"].Tail)
	}
}
