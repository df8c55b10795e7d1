package topology

import (
	"strings"
	"testing"
)

// TestProofIsRemembered: what an earlier proof found, and the member that it named, say what may be acknowledged until that has written a
// row, as long as nobody else was opened since.
func TestProofIsRemembered(t *testing.T) {
	const proven = "promote orders-0"
	for name, row := range map[string]struct {
		happened func(s *scene)
		want     string
	}{
		"a person wrote on a replica that was away then": {func(*scene) {}, proven},
		"of the proof nothing is recorded":               {func(s *scene) { s.observed.Records.LeaderAcknowledged = "" }, ""},
		"what is recorded cannot be read":                {func(s *scene) { s.observed.Records.LeaderAcknowledged = "?" }, ""},
		"another was led on since":                       {func(s *scene) { s.observed.Records.LeaderDoubted = true }, ""},
		"the records are lost":                           {func(s *scene) { s.observed.Records.Term, s.observed.Records.RebuiltAt = Term{}, s.observed.Now }, ""},
		"the records are an old copy": {func(s *scene) {
			row := *s.member(2).SQL.Membership
			row.Epoch, row.Primary = 7, "orders-2"
			s.member(2).SQL.Membership = &row
		}, ""},
		"a former primary has a last row that nobody acknowledged": {func(s *scene) {
			row := *s.member(2).SQL.Membership
			row.Epoch, row.Primary = 6, "orders-2"
			s.member(2).SQL.Membership, s.member(2).SQL.Replication = &row, nil
			s.observed.Records.LeaderEpoch = 7
		}, proven},
		"its data were lost":                            {func(s *scene) { s.member(0).SQL.ServerUUID = uuidOf(7) }, ""},
		"it is the only one that is reached":            {func(s *scene) { s.lose(1, 2) }, proven},
		"it alone, and it does not hold it":             {func(s *scene) { s.lose(1, 2); s.observed.Records.LeaderAcknowledged = trx(0, 11).String() }, ""},
		"a voter is there that holds it, and it is not": {func(s *scene) { s.lose(0) }, ""},
		"it was opened, and answered before its row was written": {func(s *scene) {
			s.member(0).SQL.Executed = trx(0, 12)
			s.member(1).SQL.Executed = trx(0, 12)
		}, proven},
		"it was not opened, and lost what it had received": {func(s *scene) {
			s.lose(2)
			s.observed.Records.Leader, s.observed.Records.LeaderServer = "orders-1", uuidOf(1)
			s.member(1).SQL.Executed = trx(0, 8).Union(trx(1, 1))
		}, proven},
		"it was opened, and what it holds counts": {func(s *scene) {
			s.observed.Records.Leader, s.observed.Records.LeaderServer = "orders-1", uuidOf(1)
			s.member(1).SQL.Executed, s.member(1).SQL.Replication = trx(0, 10).Union(trx(1, 1)), nil
		}, "promote orders-1"},
		"it was opened, and lost what it had": {func(s *scene) {
			s.lose(2)
			s.observed.Records.Leader, s.observed.Records.LeaderServer = "orders-1", uuidOf(1)
			s.member(1).SQL.Executed, s.member(1).SQL.Replication = trx(0, 8).Union(trx(1, 1)), nil
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.remember(0, 1, 2)
			s.restart()
			s.restarted(1)
			s.io(ioOff, 1, 2)
			s.member(2).SQL.Executed = trx(0, 9).Union(trx(2, 1))
			s.observed.Records.Term = Term{Leader: "orders-0", LeaderServer: uuidOf(0), LeaderEpoch: 6, LeaderAcknowledged: trx(0, 10).String()}
			row.happened(s)
			_, actions := s.plan()
			if row.want != "" && !strings.Contains(actions, row.want) || row.want == "" && strings.Contains(actions, "promote") {
				t.Errorf("planned %q", actions)
			}
		})
	}
}

// TestGivenUpIsNotProven: what a person gave up is no proof that later ones could stand on.
func TestGivenUpIsNotProven(t *testing.T) {
	s := newScene()
	s.restart()
	s.io(ioOff, 1, 2)
	s.member(0).SQL.Executed = trx(0, 12).Union(trx(2, 1)) // each lacks what both others hold
	s.member(1).SQL.Executed = trx(0, 12).Union(trx(1, 1))
	s.member(2).SQL.Executed = trx(0, 10).Union(trx(1, 1)).Union(trx(2, 1))
	s.observed.Records.LeaderDoubted, s.observed.Records.LossAccepted = true, 5
	if p, actions := s.plan(); !strings.Contains(actions, "promote") || p.Records.LeaderAcknowledged != "" {
		t.Errorf("planned %q, recorded %q", actions, p.Records.LeaderAcknowledged)
	}
}

// TestFailoverIsTakenBack: the term of the one that led last goes on when it is back, and the member that was to be promoted shows that it
// was not opened.
func TestFailoverIsTakenBack(t *testing.T) {
	for name, row := range map[string]struct {
		before, after func(s *scene)
		leader        string
	}{
		"it still replicates":                     {nil, func(*scene) {}, "orders-0"},
		"it is not reached":                       {nil, func(s *scene) { s.lose(1) }, "orders-1"},
		"the one that led last is not reached":    {nil, func(s *scene) { s.lose(0) }, "orders-1"},
		"it replicates from nobody":               {nil, func(s *scene) { s.member(1).SQL.Replication = nil }, "orders-1"},
		"it is writable":                          {nil, func(s *scene) { s.member(1).SQL.Writable = true }, "orders-1"},
		"it shows a row of its term":              {nil, func(s *scene) { s.member(1).SQL.Membership = &Membership{Epoch: 7, Primary: "orders-1"} }, "orders-1"},
		"it was in doubt who led last":            {func(s *scene) { s.observed.Records.LeaderDoubted = true }, func(*scene) {}, "orders-1"},
		"it was forgotten who led last":           {func(s *scene) { s.observed.Records.RebuiltAt = s.observed.Now }, func(*scene) {}, "orders-1"},
		"the one that led last was promoted, too": {func(s *scene) { s.observed.Records.recordLeader(s.member(2), 6) }, func(*scene) {}, "orders-2"},
		"the failover was planned a second time": {nil, func(s *scene) {
			s.observed.Records.recordPromotion(s.member(1), 8, Proof{MayBeAcknowledged: trx(0, 10)})
		}, "orders-0"},
		"another was to be promoted after it": {nil, func(s *scene) {
			s.observed.Records.recordPromotion(s.member(2), 8, Proof{MayBeAcknowledged: trx(0, 10)})
		}, "orders-1"},
		"another was proven, which is open":        {nil, func(s *scene) { s.observed.Records.recordProven(s.member(2), 8, Proof{MayBeAcknowledged: trx(0, 10)}) }, "orders-2"},
		"it was led on, and handed over":           {func(s *scene) { s.observed.Records.recordHandOver(s.member(2), 6) }, func(*scene) {}, "orders-2"},
		"another was led on, and doubt casts that": {nil, func(s *scene) { s.observed.Records.LeaderDoubted = true }, "orders-0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.restart()
			if row.before != nil {
				row.before(s)
			}
			r := &s.observed.Records
			r.recordPromotion(s.member(1), 7, Proof{MayBeAcknowledged: trx(0, 10)})
			r.LossAccepted = 5
			row.after(s)
			doubted := r.LeaderDoubted
			r.takeBack(s.observed.Members)
			if r.Leader != row.leader && (r.Leader != "" || row.leader != r.Bootstrapped) || r.LeaderDoubted != doubted || r.LossAccepted != 5 {
				t.Errorf("%+v, want %s", r.Term, row.leader)
			}
			if r.Leader == "orders-1" && r.LeaderAcknowledged != trx(0, 10).String() {
				t.Errorf("what the proof found is forgotten: %+v", r.Term)
			}
		})
	}
}

// TestPromotedLeaderIsPassedOver: the member that was to be promoted holds what a person wrote on it, and has lost what it had received. Once
// the one that led last is back, that says what may be acknowledged.
func TestPromotedLeaderIsPassedOver(t *testing.T) {
	s := newScene()
	s.remember(0, 1, 2)
	s.restart()
	s.restarted(1, 2)
	s.io(ioOff, 1, 2)
	s.observed.Records.recordPromotion(s.member(1), 6, Proof{MayBeAcknowledged: trx(0, 10).Union(trx(1, 1))})
	s.member(1).SQL.Executed = trx(0, 8).Union(trx(1, 1))
	p, actions := s.plan()
	if strings.Contains(actions, "promote") {
		t.Fatalf("planned %q", actions)
	}
	s.observed.Records = p.Records
	if _, actions := s.plan(); !strings.Contains(actions, "promote orders-0") {
		t.Errorf("planned %q", actions)
	}
}

// TestVoidUntilTheRowIsWritten: a leader that was found writable is led on while its commits wait, and its row is written later.
func TestVoidUntilTheRowIsWritten(t *testing.T) {
	s := newScene()
	s.member(0).SQL.PendingCommits = 1
	s.observed.Records.Term = Term{Leader: "orders-0", LeaderServer: uuidOf(0), LeaderEpoch: 6, LeaderVoid: trx(2, 1).String()}
	if p, _ := s.plan(); p.Primary != "orders-0" || p.Records.LeaderVoid == "" {
		t.Errorf("primary %q: %+v", p.Primary, p.Records.Term)
	}
	for _, m := range s.observed.Members {
		row := *m.SQL.Membership
		row.Epoch = 6
		m.SQL.Membership = &row
	}
	if p, _ := s.plan(); p.Primary != "orders-0" || p.Records.LeaderVoid != "" {
		t.Errorf("primary %q: %+v", p.Primary, p.Records.Term)
	}
}
