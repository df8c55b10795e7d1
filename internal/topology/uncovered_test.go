package topology

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// told says whether a plan reports a reason.
func told(p Plan, reason string) bool {
	for _, f := range p.Degraded {
		if f.Reason == reason {
			return true
		}
	}
	return false
}

// TestExposure: what lets commits be answered without voters is found, also when it is over.
func TestExposure(t *testing.T) {
	for name, row := range map[string]struct {
		before, now func(*SemiSync)
		why         string
	}{
		"nothing":                               {nil, nil, ""},
		"semi-sync is off":                      {nil, func(s *SemiSync) { s.SourceEnabled, s.SourceActive = false, false }, "rpl_semi_sync_source_enabled"},
		"a commit has timed out":                {nil, func(s *SemiSync) { s.SourceActive, s.OffTimes = false, 1 }, "rpl_semi_sync_source_timeout"},
		"one had before anybody saw":            {func(s *SemiSync) { s.SourceActive = false }, func(s *SemiSync) { s.SourceActive = false }, "rpl_semi_sync_source_timeout"},
		"it was off for a moment":               {nil, func(s *SemiSync) { s.OffTimes = 1 }, "off for a moment"},
		"it had been off before anybody saw":    {func(s *SemiSync) { s.OffTimes = 3 }, func(s *SemiSync) { s.OffTimes = 3 }, ""},
		"mysqld was restarted since":            {func(s *SemiSync) { s.OffTimes = 3 }, nil, ""},
		"it waits for too few":                  {nil, func(s *SemiSync) { s.WaitCount = 0 }, "rpl_semi_sync_source_wait_for_replica_count"},
		"a stranger acknowledges":               {nil, func(s *SemiSync) { s.Strangers = []Stranger{{Session: 7, Account: "etl@10.0.9.1"}} }, "etl@10.0.9.1"},
		"a stranger, and it waits for one more": {nil, func(s *SemiSync) { s.Strangers, s.WaitCount = []Stranger{{Session: 7, Account: "etl@10.0.9.1"}}, 2 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var h CommitHistory
			var s *scene
			for i, change := range []func(*SemiSync){row.before, row.now} {
				s = newScene()
				s.observed.Now = s.observed.Now.Add(time.Duration(i) * time.Second)
				if change != nil {
					change(&s.member(0).SQL.SemiSync)
				}
				h.Record(&s.observed)
			}
			if why := s.observed.Exposure.Cause.Why; why != row.why && (row.why == "" || !strings.Contains(why, row.why)) {
				t.Errorf("exposed because %q, want %q", why, row.why)
			}
			if exposed := s.observed.Exposure.MustHold == nil; exposed != (row.why != "") {
				t.Errorf("what must be held is unknown: %t", exposed)
			}
		})
	}
}

// TestVotersThatKeepNothingAreFound: commits are answered, and a later look shows too few voters that hold them.
func TestVotersThatKeepNothingAreFound(t *testing.T) {
	for name, row := range map[string]struct {
		change func(s *scene, pass int)
		found  bool
	}{
		"nobody keeps anything": {func(*scene, int) {}, true},
		"one does":              {func(s *scene, pass int) { s.member(1).SQL.Executed = trx(0, 10+pass) }, false},
		"one has received it":   {func(s *scene, pass int) { s.member(1).SQL.Replication.Retrieved = trx(0, 10+pass) }, false},
		"one is not reached":    {func(s *scene, _ int) { s.lose(1) }, false},
		"they were asked before": {func(s *scene, _ int) {
			s.member(1).Asked, s.member(2).Asked = s.observed.Now.Add(-3*time.Second), s.observed.Now.Add(-3*time.Second)
		}, false},
		"one has its source's server_id": {func(s *scene, pass int) {
			s.member(1).SQL.Executed, s.member(2).SQL.Executed = trx(0, 10+pass), trx(0, 10+pass)
			s.member(2).SQL.Drifted, s.member(2).SQL.SemiSync.ReplicaActive = map[string]string{"server_id": "19"}, true
		}, true},
		"gtid_purged was added to": {func(s *scene, pass int) {
			s.member(1).SQL.Executed, s.member(2).SQL.Executed = trx(0, 10+pass), trx(0, 10+pass)
			s.member(0).SQL.Purged = trx(7, 1000)
			s.member(0).SQL.Executed = s.member(0).SQL.Executed.Union(trx(7, 1000))
		}, true},
		"binary logs are purged soon": {func(s *scene, pass int) {
			s.member(1).SQL.Executed, s.member(2).SQL.Executed = trx(0, 10+pass), trx(0, 10+pass)
			if pass == 3 {
				s.member(0).SQL.Purged = trx(0, 10+pass)
			}
		}, false},
		"gtid_purged was added to while one is away": {func(s *scene, pass int) {
			s.member(1).SQL.Executed = trx(0, 10+pass)
			s.lose(2)
			if pass == 3 {
				s.member(0).SQL.Purged = trx(7, 1000)
				s.member(0).SQL.Executed = s.member(0).SQL.Executed.Union(trx(7, 1000))
			}
		}, true},
		"both are lost":                   {func(s *scene, _ int) { s.lose(1); s.lose(2) }, false},
		"nothing is answered":             {func(s *scene, _ int) { s.member(0).SQL.Executed = trx(0, 10) }, false},
		"the row has changed":             {func(s *scene, pass int) { s.member(0).SQL.Membership.Epoch += uint64(pass) }, false},
		"a change of voters is under way": {func(s *scene, _ int) { s.member(0).SQL.Membership.Previous = []string{"orders-0", "orders-1"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			var h CommitHistory
			var e Exposure
			for pass := range 4 {
				s := newScene()
				s.observed.Now = s.observed.Now.Add(time.Duration(pass) * time.Second)
				s.member(0).SQL.Executed = trx(0, 10+pass)
				row.change(s, pass)
				h.Record(&s.observed)
				e = s.observed.Exposure
			}
			if found := e.Cause.Kind == CauseNotKept; found != row.found || found && !e.Fenced {
				t.Errorf("found %+v, fenced %t", e.Cause, e.Fenced)
			}
		})
	}
}

// TestWhatAReplicaDroppedIsFound: it holds later transactions of its source than some that it lacks.
func TestWhatAReplicaDroppedIsFound(t *testing.T) {
	own := func(text string) gtid.Set { return gtid.MustParse(uuidOf(0) + ":" + text) }
	ext := func(text string) gtid.Set { return gtid.MustParse(uuidOf(8) + ":" + text) }
	for name, row := range map[string]struct {
		primary [4]gtid.Set
		replica gtid.Set
		dropped gtid.Set
	}{
		"it holds all":                    {[4]gtid.Set{own("1-10"), own("1-12"), own("1-16"), own("1-20")}, own("1-20"), gtid.Set{}},
		"it is behind":                    {[4]gtid.Set{own("1-10"), own("1-12"), own("1-16"), own("1-20")}, own("1-11"), gtid.Set{}},
		"it dropped some":                 {[4]gtid.Set{own("1-10"), own("1-12"), own("1-16"), own("1-20")}, own("1-11:14-20"), own("12")},
		"it dropped them before":          {[4]gtid.Set{own("1-10"), own("1-12"), own("1-16"), own("1-20")}, own("1-6:9-16"), own("7-8")},
		"what another server committed":   {[4]gtid.Set{own("1-10"), own("1-10").Union(ext("1-3")), own("1-14").Union(ext("1-3")), own("1-20").Union(ext("1-3"))}, own("1-14"), ext("1-3")},
		"a number was left out, and came": {[4]gtid.Set{own("1-4:6-10"), own("1-4:6-12"), own("1-16"), own("1-20")}, own("1-4:6-12"), gtid.Set{}},
		"its own, which are adopted":      {[4]gtid.Set{own("1-10"), own("1-12"), own("1-16").Union(trx(1, 2)), own("1-20").Union(trx(1, 2))}, own("1-11").Union(trx(1, 2)), gtid.Set{}},
	} {
		t.Run(name, func(t *testing.T) {
			var h CommitHistory
			var s *scene
			for pass, executed := range row.primary {
				s = newScene()
				s.observed.Now = s.observed.Now.Add(time.Duration(pass) * time.Second)
				s.member(0).SQL.Executed, s.member(1).SQL.Executed = executed, row.replica
				h.Record(&s.observed)
			}
			if dropped := s.member(1).SQL.Replication.Dropped; !dropped.Equal(row.dropped) {
				t.Errorf("dropped %q, want %q", dropped, row.dropped)
			}
		})
	}
}

// TestWhatIsOverIsKnownUntilItIsCovered: what allowed it is remembered until enough voters hold what was committed meanwhile.
func TestWhatIsOverIsKnownUntilItIsCovered(t *testing.T) {
	var h CommitHistory
	pass, held := 0, trx(0, 9)
	note := func(off bool) Exposure {
		s := newScene()
		pass++
		s.observed.Now = s.observed.Now.Add(time.Duration(pass) * time.Second)
		s.member(0).SQL.SemiSync.SourceEnabled, s.member(0).SQL.SemiSync.SourceActive = !off, !off
		s.member(1).SQL.Executed, s.member(2).SQL.Executed = held, held
		h.Record(&s.observed)
		return s.observed.Exposure
	}
	note(true)
	for range 5 {
		if e := note(false); !e.Past.found() || e.Fenced {
			t.Fatalf("forgotten, though nobody holds it: %+v", e)
		}
	}
	held = trx(0, 10)
	if e := note(false); e.Past.found() {
		t.Errorf("remembered, though voters hold it: %+v", e)
	}
}

// TestForgetfulVotersExpose: an acknowledgement counts for nothing that a power cut takes away.
func TestForgetfulVotersExpose(t *testing.T) {
	drifted := func(i int, variable string) func(*scene) {
		return func(s *scene) { s.member(i).SQL.Drifted = map[string]string{variable: "1"} }
	}
	for name, row := range map[string]struct {
		changed func(*scene)
		exposed bool
	}{
		"the relay log is not synced":                {func(s *scene) { s.member(1).SQL.RelaySync = "0" }, true},
		"and the rows say so":                        {func(s *scene) { s.member(1).SQL.RelaySync = "0"; s.remember(1) }, false},
		"the binary log is not":                      {drifted(2, "sync_binlog"), true},
		"InnoDB's log is not":                        {drifted(2, "innodb_flush_log_at_trx_commit"), true},
		"InnoDB has no redo log":                     {drifted(2, mysql.RedoLog), true},
		"nor on the primary":                         {drifted(0, mysql.RedoLog), true},
		"something else is changed":                  {drifted(1, "replica_net_timeout"), false},
		"on the primary":                             {drifted(0, "sync_binlog"), true},
		"the primary's relay log, which is not used": {func(s *scene) { s.member(0).SQL.RelaySync = "0" }, false},
		"it does not acknowledge": {func(s *scene) {
			s.member(1).SQL.RelaySync = "0"
			s.member(1).SQL.SemiSync.ReplicaActive = false
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var h CommitHistory
			s := newScene()
			row.changed(s)
			h.Record(&s.observed)
			if e := s.observed.Exposure; e.Cause.found() != row.exposed || e.Volatile != strings.HasSuffix(name, "on the primary") {
				t.Errorf("exposed because %q, the primary itself: %t", e.Cause.Why, e.Volatile)
			}
		})
	}
}

// TestAMemberWithoutAVoteExposes: MySQL counts the acknowledgement of each replica. So a commit that a primary of three voters has had
// acknowledged may be on no voter when a fourth member, or one that lost its vote, acknowledges too.
func TestAMemberWithoutAVoteExposes(t *testing.T) {
	pair := []string{"orders-0", "orders-1"}
	for name, row := range map[string]struct {
		changed func(*scene)
		exposed bool
	}{
		"it acknowledges": {func(s *scene) { s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: pair, W: 1}) }, true},
		"it would when it is connected": {func(s *scene) {
			s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: pair, W: 1})
			s.io(ioConnecting, 2)
		}, false},
		"it is connected to another": {func(s *scene) {
			s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: pair, W: 1})
			s.member(2).SQL.Replication.SourceHost = "10.0.0.1"
		}, false},
		"the primary waits for one more": {func(s *scene) {
			s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: pair, W: 1})
			s.member(0).SQL.SemiSync.WaitCount = 2
		}, false},
		"a row that the primary has not executed yet admits it": {func(s *scene) {
			all := s.member(0).SQL.Membership.Voters
			s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: pair, W: 1})
			s.member(1).SQL.Membership = &Membership{Epoch: 7, Primary: "orders-0", Voters: all, W: 1}
		}, false},
		"the primary is the only voter": {func(s *scene) {
			s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0"}})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var h CommitHistory
			s := newScene()
			row.changed(s)
			h.Record(&s.observed)
			if why := s.observed.Exposure.Cause.Why; strings.Contains(why, "no vote: orders-2") != row.exposed || why != "" != row.exposed {
				t.Errorf("exposed because %q", why)
			}
		})
	}
}

var semiSyncOff = Cause{CauseSemiSyncOff, "semi-sync was off"}

// TestUncoveredTimeIsRemembered until enough voters hold what was answered in it, by whoever leads.
func TestUncoveredTimeIsRemembered(t *testing.T) {
	open, other := Uncovered{Primary: "orders-0", Since: 1, Cause: semiSyncOff}, Uncovered{Primary: "orders-1", Since: 1, Cause: semiSyncOff}
	lacking := func(s *scene) { s.member(1).SQL.Executed = s.member(1).SQL.Executed.Union(trx(1, 3)) }
	for name, row := range map[string]struct {
		before  Uncovered
		changed func(*scene)
		open    bool
	}{
		"it begins": {Uncovered{}, func(s *scene) { s.observed.Exposure.Cause = semiSyncOff }, true},
		"the records that knew are lost": {Uncovered{}, func(s *scene) {
			s.observed.Exposure.Past = semiSyncOff
			s.member(1).SQL.Executed, s.member(2).SQL.Executed = trx(0, 9), trx(0, 9)
		}, true},
		"the records were lost, and the primary shows who votes": {Uncovered{}, func(s *scene) {
			s.observed.Exposure.Cause, s.observed.Records.AloneUnknown = semiSyncOff, true
		}, true},
		"it goes on":                   {open, func(s *scene) { s.observed.Exposure.Cause = semiSyncOff }, true},
		"what must be held is unknown": {open, func(s *scene) { s.observed.Exposure.MustHold = nil }, true},
		"a voter holds everything":     {open, func(s *scene) { s.member(2).SQL.Executed = trx(0, 9) }, false},
		"none does":                    {open, func(s *scene) { s.member(1).SQL.Executed, s.member(2).SQL.Executed = trx(0, 9), trx(0, 9) }, true},
		"one does that has no vote": {open, func(s *scene) {
			s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0", "orders-1"}, W: 1})
			s.member(1).SQL.Executed = trx(0, 9)
		}, true},
		"another leads that holds all of it": {other, func(*scene) {}, false},
		"another leads, and lacks some":      {other, lacking, true},
		"status tells of it": {other, func(s *scene) {
			lacking(s)
			s.observed.UncoveredReported = map[string]int64{other.Primary: other.Since}
		}, false},
		"with Async nobody tells of it":  {other, func(s *scene) { lacking(s); s.desired.Lossless = false }, true},
		"with Async it begins by itself": {Uncovered{}, func(s *scene) { s.desired.Lossless = false }, true},
		"it was Async":                   {Uncovered{Primary: "orders-0", Since: 1, Cause: asyncOnly}, func(s *scene) { s.member(1).SQL.Executed, s.member(2).SQL.Executed = trx(0, 9), trx(0, 9) }, true},
		"what was not observed is found": {Uncovered{Primary: "orders-0", Since: 1, Cause: unwatched, Fenced: true}, func(s *scene) {
			s.observed.Exposure.Cause = semiSyncOff
		}, true},
		"there is no primary": {open, func(s *scene) { s.lose(0) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			must := trx(0, 10)
			s.observed.Exposure.MustHold = &must
			if row.before.Primary != "" {
				s.observed.Records.Uncovered = UncoveredTimes{row.before}
			}
			row.changed(s)
			p, _ := s.plan()
			if left := len(p.Records.Uncovered) > 0; left != row.open {
				t.Errorf("remembered: %+v", p.Records.Uncovered)
			}
			if told(p, v1alpha1.ReasonCommitsUncovered) != (row.open && s.desired.Lossless) {
				t.Errorf("told: %v", p.Degraded)
			}
		})
	}
}

// TestTheBeginningOfAnUncoveredTime is known only where somebody observed the primary before, and nothing else had allowed it.
func TestTheBeginningOfAnUncoveredTime(t *testing.T) {
	never := time.Duration(-1)
	for name, row := range map[string]struct {
		known     UncoveredTimes
		cause     Cause
		unwatched time.Duration // ago
		earlier   bool
	}{
		"it was observed before":     {cause: semiSyncOff, unwatched: never},
		"it is found at first sight": {cause: semiSyncOff, earlier: true},
		"it is found a look later":   {cause: semiSyncOff, unwatched: time.Second},
		"it was never observed":      {cause: unwatched, unwatched: time.Minute, earlier: true},
		"something else allowed it":  {known: UncoveredTimes{{Primary: "orders-0", Since: 1, Cause: unwatched, Fenced: true}}, cause: semiSyncOff, unwatched: never, earlier: true},
	} {
		s := newScene()
		if row.unwatched != never {
			s.observed.Exposure.Unwatched = s.observed.Now.Add(-row.unwatched)
		}
		s.observed.Records.Uncovered = row.known
		p := newPlanner(s.desired, s.observed).acks
		p.beginUncovered(Uncovered{Primary: "orders-0", Cause: row.cause})
		want := "since 2026-01-01T00:00:00Z orders-0 may have answered commits"
		if row.earlier {
			want = "since 2026-01-01T00:00:00Z or earlier orders-0 may have answered commits"
		}
		if got := p.plan.Records.Uncovered.String(); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestRivalsAreNoted: of two writable members either may be the one that does not lead on.
func TestRivalsAreNoted(t *testing.T) {
	s := newScene()
	s.member(1).SQL.Writable = true
	s.member(1).SQL.SemiSync = s.member(0).SQL.SemiSync
	if p, _ := s.plan(); len(p.Records.Uncovered) > 0 {
		t.Errorf("remembered: %+v", p.Records.Uncovered)
	}
	s.member(0).SQL.SemiSync.Strangers = []Stranger{{Session: 7, Account: "etl@10.0.9.1"}}
	if p, _ := s.plan(); p.Records.Uncovered.Of("orders-0") == nil {
		t.Errorf("remembered: %+v", p.Records.Uncovered)
	}
}

// TestAnUncoveredPrimaryIsPoweredOffFirst: its voters' silence does not keep it from answering commits.
func TestAnUncoveredPrimaryIsPoweredOffFirst(t *testing.T) {
	s := newScene()
	s.lose(0)
	s.io(ioOff, 1, 2)
	if _, actions := s.plan(); !strings.Contains(actions, "promote") {
		t.Fatalf("planned %q", actions)
	}
	s.observed.Records.Uncovered = UncoveredTimes{{Primary: "orders-0", Since: 1, Cause: semiSyncOff}}
	if p, actions := s.plan(); strings.Contains(actions, "promote") || !strings.Contains(actions, "stop instance i-0") {
		t.Errorf("planned %q, waiting for %q", actions, p.Waiting.Message)
	}
	s.member(0).Instances[0].State = stateStopped
	if _, actions := s.plan(); !strings.Contains(actions, "promote") {
		t.Errorf("planned %q once it is off", actions)
	}
	s.member(0).Instances[0].State = stateRunning
	s.observed.Records.Uncovered[0].Fenced = true
	if _, actions := s.plan(); !strings.Contains(actions, "promote") {
		t.Errorf("planned %q although its voters' silence is enough", actions)
	}
}

// TestWhatNobodyObservedIsNotProven: of a primary that a new operator finds it is not known whether it has waited for voters, until
// those hold what it had committed. One that the operator saw closed before, and opened, is known.
func TestWhatNobodyObservedIsNotProven(t *testing.T) {
	look := func(h *CommitHistory, second int, changed func(*scene)) *scene {
		s := newScene()
		s.observed.Now = s.observed.Now.Add(time.Duration(second) * time.Second)
		s.member(0).SQL.ServerUUID, s.member(1).SQL.ServerUUID, s.member(2).SQL.ServerUUID = "server-0", "server-1", "server-2"
		if changed != nil {
			changed(s)
		}
		h.Record(&s.observed)
		return s
	}
	lacking := func(s *scene) { s.member(1).SQL.Executed, s.member(2).SQL.Executed = trx(0, 9), trx(0, 9) }
	closed := func(s *scene) { s.member(0).SQL.Writable = false }
	for name, row := range map[string]struct {
		looks     []func(*scene)
		unwatched bool
	}{
		"at first":                      {[]func(*scene){nil}, true},
		"once voters hold everything":   {[]func(*scene){nil, nil}, false},
		"voters lack something":         {[]func(*scene){lacking, lacking, lacking}, true},
		"it was seen closed before":     {[]func(*scene){nil, nil, closed, nil}, false},
		"nobody saw what it did before": {[]func(*scene){closed, lacking, lacking}, true},
		"it was opened in another's place": {[]func(*scene){func(s *scene) {
			closed(s)
			s.voters(Membership{Epoch: 5, Primary: "orders-1", Voters: []string{"orders-0", "orders-1"}, W: 1})
		}, lacking, lacking}, false},
		"it was away for a moment": {[]func(*scene){nil, nil, func(s *scene) { s.lose(0) }, lacking}, false},
		"it was away for long": {[]func(*scene){nil, nil, func(s *scene) { s.lose(0); s.observed.Now = s.observed.Now.Add(waitReady) }, func(s *scene) {
			lacking(s)
			s.observed.Now = s.observed.Now.Add(waitReady)
		}}, true},
		"it was away, and voters have it":   {[]func(*scene){nil, nil, func(s *scene) { s.lose(0) }, nil, nil}, false},
		"it waits for nobody: it is alone":  {[]func(*scene){func(s *scene) { s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0"}}) }}, false},
		"seen closed, and voters lack much": {[]func(*scene){nil, nil, closed, lacking, lacking}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var h CommitHistory
			var s *scene
			for i, changed := range row.looks {
				s = look(&h, i, changed)
			}
			if unwatched := !s.observed.Exposure.Unwatched.IsZero(); unwatched != row.unwatched {
				t.Errorf("unwatched: %t", unwatched)
			}
		})
	}

	s := newScene()
	s.observed.Exposure.Unwatched = s.observed.Now.Add(-waitingPatience)
	if p, _ := s.plan(); p.Records.Uncovered.Of("orders-0") == nil || !told(p, v1alpha1.ReasonCommitsUncovered) {
		t.Errorf("remembered %+v, told %v", p.Records.Uncovered, p.Degraded)
	}
	s.observed.Exposure.Unwatched = s.observed.Now.Add(-time.Second)
	if p, _ := s.plan(); len(p.Records.Uncovered) > 0 {
		t.Errorf("remembered at once: %+v", p.Records.Uncovered)
	}
}

// TestTheDepartedAreRemembered until enough voters hold all that they can have received.
func TestTheDepartedAreRemembered(t *testing.T) {
	first, second := Stranger{Session: 7, Account: "etl@10.0.9.1"}, Stranger{Session: 8, Account: "etl@10.0.9.1"}
	for name, row := range map[string]struct {
		wait      int // of the primary at first
		strangers [][]Stranger
		held      bool // by a voter, in the end
		departed  int
	}{
		"nobody was there":                        {1, [][]Stranger{nil, nil}, false, 0},
		"one is there":                            {2, [][]Stranger{{first}, {first}}, false, 0},
		"one left":                                {2, [][]Stranger{{first}, nil}, false, 1},
		"one left, and a voter has everything":    {2, [][]Stranger{{first}, nil}, true, 0},
		"one connected again":                     {2, [][]Stranger{{first}, {second}}, false, 1},
		"two left, one after the other":           {3, [][]Stranger{{first, second}, {second}, nil}, false, 2},
		"one left before anybody looked":          {2, [][]Stranger{nil}, false, 1},
		"it left, and another is there":           {3, [][]Stranger{{second}}, false, 1},
		"it left, and a voter has everything":     {2, [][]Stranger{nil}, true, 0},
		"one left, and semi-sync was off since":   {0, [][]Stranger{{first}, nil}, false, 0},
		"one left, and came and left once more":   {2, [][]Stranger{{first}, nil, {second}, nil}, false, 2},
		"one left, it goes on without, one comes": {2, [][]Stranger{{first}, nil, {second}}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var h CommitHistory
			var s *scene
			for i, strangers := range row.strangers {
				s = newScene()
				s.observed.Now = s.observed.Now.Add(time.Duration(i) * time.Second)
				primary := s.member(0)
				primary.SQL.SemiSync.Strangers, primary.SQL.SemiSync.WaitCount = strangers, row.wait
				primary.SQL.SemiSync.SourceEnabled, primary.SQL.SemiSync.SourceActive = row.wait > 0, row.wait > 0
				primary.SQL.Waiting = trx(0, 99)
				if row.held && i == len(row.strangers)-1 {
					s.member(1).SQL.Replication.Retrieved = trx(0, 99)
				}
				h.Record(&s.observed)
			}
			if n := s.observed.Exposure.Departed; n != row.departed {
				t.Errorf("%d have left, want %d", n, row.departed)
			}
		})
	}
}

// TestADiskCountsOnce: MySQL counts acknowledgements by server_id, so that those of a voter that had two count twice until enough others hold
// what it acknowledged. Where commits wait for a single one, its disk is enough.
func TestADiskCountsOnce(t *testing.T) {
	for name, row := range map[string]struct {
		w        int
		changed  []bool // whether its server_id is another, pass by pass
		held     bool   // by as many voters as commits wait for, in the end
		departed int
	}{
		"it stays":                        {2, []bool{false, false}, false, 0},
		"it was another at first":         {2, []bool{true, true}, false, 1},
		"it is another":                   {2, []bool{false, true}, false, 1},
		"it was another, and is put back": {2, []bool{false, true, false}, false, 2},
		"others hold all since":           {2, []bool{false, true, false}, true, 0},
		"one acknowledgement is enough":   {1, []bool{false, true, false}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var h CommitHistory
			var s *scene
			for i, changed := range row.changed {
				s = newScene()
				s.observed.Now = s.observed.Now.Add(time.Duration(i) * time.Second)
				s.member(0).SQL.Membership.W, s.member(0).SQL.SemiSync.WaitCount, s.member(0).SQL.Waiting = row.w, row.w, trx(0, 99)
				if changed {
					s.member(2).SQL.Drifted = map[string]string{mysql.ServerID: "19"}
				}
				if row.held && i == len(row.changed)-1 {
					s.member(1).SQL.Replication.Retrieved, s.member(2).SQL.Replication.Retrieved = trx(0, 99), trx(0, 99)
				}
				h.Record(&s.observed)
			}
			if n := s.observed.Exposure.Departed; n != row.departed {
				t.Errorf("%d are waited for besides, want %d", n, row.departed)
			}
		})
	}
}

// TestStrangersAreOutwaited: a replica that is no member never stands in for a voter.
func TestStrangersAreOutwaited(t *testing.T) {
	const raise, lower = "let orders-0 wait for 1 acknowledgements", "let orders-0 wait for no more than 1 acknowledgements"
	stalled := func(s *scene) {
		s.member(0).SQL.PendingCommits, s.member(0).StalledSince = 1, s.observed.Now.Add(-time.Minute)
	}
	for name, row := range map[string]struct {
		strangers, wait int
		changed         func(*scene)
		actions         string
	}{
		"nobody":           {0, 1, func(*scene) {}, ""},
		"one comes":        {1, 1, func(*scene) {}, raise},
		"it is waited for": {1, 2, func(*scene) {}, ""},
		"another comes":    {2, 2, func(*scene) {}, raise},
		"it leaves":        {0, 2, func(*scene) {}, lower},
		"it leaves, what it acknowledged is on no voter": {0, 2, func(s *scene) {
			all := trx(0, 11)
			s.observed.Exposure.Binlog = &all
		}, ""},
		"it leaves, and one voter has it": {0, 2, func(s *scene) {
			all := trx(0, 11)
			s.observed.Exposure.Binlog = &all
			s.member(2).SQL.Replication.Retrieved = trx(0, 12)
		}, lower},
		"it leaves, what it acknowledged is on no voter, and another comes": {1, 2, func(s *scene) {
			s.observed.Exposure.Departed = 1
		}, "let orders-0 wait for 2 acknowledgements"},
		"it leaves, the voters are cut off": {0, 2, func(s *scene) { s.io(ioConnecting, 1, 2) }, ""},
		"commits wait for it":               {1, 2, stalled, "disconnect replicas from orders-0 that acknowledge and are no members"},
		"commits wait for one that left":    {0, 2, stalled, lower},
		"commits wait for voters": {1, 2, func(s *scene) {
			stalled(s)
			s.io(ioConnecting, 1, 2)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			semi := &s.member(0).SQL.SemiSync
			semi.WaitCount = row.wait
			for id := range row.strangers {
				semi.Strangers = append(semi.Strangers, Stranger{Session: uint64(id), Account: "etl@10.0.9.1"}) //nolint:gosec // an index
			}
			row.changed(s)
			p, actions := s.plan()
			if (row.actions == "") != !strings.Contains(actions, "wait for") && row.actions == "" || !strings.Contains(actions, row.actions) {
				t.Errorf("planned %q, want %q", actions, row.actions)
			}
			if told(p, v1alpha1.ReasonForeignReplica) != (row.strangers > 0) {
				t.Errorf("told: %v", p.Degraded)
			}
		})
	}
}

// TestWritesThatWait are told with what keeps each voter, and are helped where somebody can acknowledge.
func TestWritesThatWait(t *testing.T) {
	late := func(s *scene, i int, since time.Duration) {
		r := s.member(i).SQL.Replication
		r.UpToDate, r.LateSince, r.Missing, r.CatchUp = false, s.observed.Now.Add(-since), 3400, 85*time.Second
	}
	for name, row := range map[string]struct {
		waits   time.Duration
		changed func(*scene)
		actions string
		says    string
	}{
		"for a moment": {5 * time.Second, func(s *scene) { s.io(ioConnecting, 1, 2) }, "", ""},
		"nobody is connected": {waitingPatience, func(s *scene) { s.io(ioConnecting, 1, 2) }, "",
			"orders-1 is not connected to orders-0, orders-2 is not connected to orders-0"},
		"one is far behind, the other is away": {waitingPatience, func(s *scene) {
			late(s, 1, time.Minute)
			s.lose(2)
		}, "switch the acknowledgements of orders-1 off", "orders-1 is behind in receiving and catches up in about 2 min (4000 transactions), orders-2 does not answer"},
		"then the primary goes on alone": {waitingPatience, func(s *scene) {
			late(s, 1, time.Minute)
			s.member(1).SQL.SemiSync = SemiSync{}
			s.lose(2)
		}, "let orders-0 go on alone", ""},
		"one lost its vote because it is behind, the other voter is away": {waitingPatience, func(s *scene) {
			s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0", "orders-2"}, W: 1})
			late(s, 1, time.Minute)
			s.member(1).SQL.SemiSync = SemiSync{}
			s.lose(2)
		}, "let orders-0 go on alone", ""},
		"of two members one is away": {waitingPatience, func(s *scene) {
			s.desired.Replicas = 2
			two(s)
			s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0", "orders-1"}, W: 1})
			s.lose(1)
			delete(s.observed.Members, "orders-2")
		}, "", "orders-1 does not answer"},
		"another primary may have been": {waitingPatience, func(s *scene) {
			late(s, 1, time.Minute)
			s.member(1).SQL.SemiSync = SemiSync{}
			s.lose(2)
			s.observed.Records.LeaderDoubted = true
		}, "", "orders-2 does not answer"},
		"who is to leave is back, and the other is far behind": {waitingPatience, func(s *scene) {
			late(s, 1, time.Minute)
			s.member(2).SQL.SemiSync = SemiSync{}
			s.observed.Records.Leaving, s.observed.Records.Removing = "orders-2", "orders-2"
		}, "switch the acknowledgements of orders-2 on", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.member(0).SQL.PendingCommits, s.member(0).StalledSince = 1, s.observed.Now.Add(-row.waits)
			row.changed(s)
			p, actions := s.plan()
			if alone := strings.Contains(actions, "alone"); !strings.Contains(actions, row.actions) || alone != strings.Contains(row.actions, "alone") {
				t.Errorf("planned %q, want %q", actions, row.actions)
			}
			var said string
			for _, f := range p.Degraded {
				if f.Reason == v1alpha1.ReasonAcknowledgementsMissing {
					said = f.Message
				}
			}
			if !strings.Contains(said, row.says) || row.waits < waitingPatience && said != "" {
				t.Errorf("said %q, want %q", said, row.says)
			}
		})
	}
}

// TestChangeIsConfirmedByVoters: the primary's own word for the row that changes the voters is that of crash recovery, perhaps.
func TestChangeIsConfirmedByVoters(t *testing.T) {
	for name, row := range map[string]struct {
		seen    []int
		confirm bool
	}{"by nobody": {nil, false}, "by the one who stays": {[]int{1}, true}, "by the one who leaves": {[]int{2}, false}, "by one that received it": {[]int{-1}, true}} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			before := *s.member(0).SQL.Membership
			s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0", "orders-1"}, Previous: []string{"orders-0", "orders-1", "orders-2"}, W: 1})
			changed := s.member(0).SQL.Membership
			s.member(0).SQL.Executed = trx(0, 11)
			for i := 1; i < 3; i++ {
				s.member(i).SQL.Membership = &before
			}
			for _, i := range row.seen {
				if i < 0 {
					s.member(-i).SQL.Replication.Retrieved = trx(0, 11)
					continue
				}
				s.member(i).SQL.Membership = changed
			}
			s.member(2).SQL.SemiSync = SemiSync{}
			s.observed.Records.Leaving = "orders-2"
			if _, actions := s.plan(); strings.Contains(actions, "confirm the voters") != row.confirm {
				t.Errorf("planned %q", actions)
			}
		})
	}
}

// TestALonePrimaryReportsTheUncoveredTimesOfOthers: it waits for nobody itself.
func TestALonePrimaryReportsTheUncoveredTimesOfOthers(t *testing.T) {
	s := newScene()
	s.observed.Records.Alone, s.observed.Records.AloneSince = "orders-0", 6
	s.member(1).SQL.Executed = s.member(1).SQL.Executed.Union(trx(1, 3)) // orders-0 lacks it
	s.observed.Records.Uncovered = UncoveredTimes{{Primary: "orders-1", Since: 1, Cause: semiSyncOff}}
	if p, _ := s.plan(); p.Records.Uncovered.Of("orders-1") == nil || !told(p, v1alpha1.ReasonCommitsUncovered) {
		t.Errorf("remembered %+v, reported %v", p.Records.Uncovered, p.Degraded)
	}
	s.observed.UncoveredReported = map[string]int64{"orders-1": 2} // of another time
	if p, _ := s.plan(); p.Records.Uncovered.Of("orders-1") == nil {
		t.Error("forgotten although status reports another time")
	}
	s.observed.UncoveredReported["orders-1"] = 1
	if p, _ := s.plan(); len(p.Records.Uncovered) > 0 {
		t.Errorf("remembered although status reports it: %+v", p.Records.Uncovered)
	}
}

// TestTheWorstUncoveredTimeIsTheNewest: one that fencing does not end takes the place of one that it ends, at the end of the list.
func TestTheWorstUncoveredTimeIsTheNewest(t *testing.T) {
	s := newScene()
	s.member(1).SQL.Executed = s.member(1).SQL.Executed.Union(trx(1, 3)) // orders-0 lacks it
	s.observed.Records.Uncovered = UncoveredTimes{{Primary: "orders-0", Since: 1, Cause: unwatched, Volatile: true, Fenced: true}, {Primary: "orders-1", Since: 2, Cause: semiSyncOff}}
	s.observed.Exposure.Cause = semiSyncOff
	p, _ := s.plan()
	own := p.Records.Uncovered.Of("orders-0")
	if own == nil || own.Since != s.observed.Now.Unix() || own.Fenced || !own.Volatile || p.Records.Uncovered[0].Primary != "orders-1" {
		t.Errorf("remembered: %+v", p.Records.Uncovered)
	}
}

// TestUncoveredTimesOfSeveralMembers: a second member's time is remembered beside the first's, which status has not reported yet.
func TestUncoveredTimesOfSeveralMembers(t *testing.T) {
	other := Uncovered{Primary: "orders-1", Since: 1, Cause: semiSyncOff}
	s := newScene()
	s.member(1).SQL.Executed = s.member(1).SQL.Executed.Union(trx(1, 3)) // orders-0 lacks it
	s.observed.Records.Uncovered = UncoveredTimes{other}
	s.observed.Exposure.Cause = semiSyncOff
	p, _ := s.plan()
	if p.Records.Uncovered.Of("orders-0") == nil || p.Records.Uncovered.Of("orders-1") == nil {
		t.Fatalf("remembered: %+v", p.Records.Uncovered)
	}
	if lost := p.Records.Uncovered.LostWith("orders-2").String(); !strings.Contains(lost, "orders-0 may") || !strings.Contains(lost, "orders-1 may") {
		t.Errorf("told when orders-2 is promoted: %s", lost)
	}
	if lost := p.Records.Uncovered.LostWith("orders-0"); len(lost) != 1 || lost[0].Primary != "orders-1" {
		t.Errorf("told while orders-0 leads: %s", lost)
	}
	s.observed.Records.Uncovered, s.observed.UncoveredReported = p.Records.Uncovered, map[string]int64{other.Primary: other.Since}
	if p, _ := s.plan(); p.Records.Uncovered.Of("orders-0") == nil || p.Records.Uncovered.Of("orders-1") != nil {
		t.Errorf("after status reported orders-1, remembered: %+v", p.Records.Uncovered)
	}
}

func TestUncoveredTimesOfOlderOperatorsAreRead(t *testing.T) {
	for text, want := range map[string]int{
		`{"uncovered": {"primary": "orders-0", "since": 7, "why": "semi-sync was off"}}`: 1,
		`{"uncovered": {}}`: 0,
		`{}`:                0,
		`{"uncovered": [{"primary": "orders-0", "since": 7}, {"primary": "orders-1", "since": 8}]}`: 2,
	} {
		var r ClusterRecord
		if err := json.Unmarshal([]byte(text), &r); err != nil || len(r.Uncovered) != want {
			t.Errorf("%s is read as %+v (%v)", text, r.Uncovered, err)
		}
		var again ClusterRecord
		if written, err := json.Marshal(r); err != nil || json.Unmarshal(written, &again) != nil || !again.Equal(r) {
			t.Errorf("%s is written as %s (%v)", text, written, err)
		}
		if want > 0 && (r.Uncovered[0].Primary != "orders-0" || r.Uncovered[0].Since != 7) {
			t.Errorf("%s is read as %+v", text, r.Uncovered)
		}
	}
}
