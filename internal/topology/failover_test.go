package topology

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// uuidOf is the server UUID of the member with an ordinal.
func uuidOf(ordinal int) string { return fmt.Sprintf("%08d-0000-0000-0000-000000000000", ordinal) }

// trx is the set of the first n transactions of a member's own.
func trx(ordinal, n int) gtid.Set {
	if n == 0 {
		return gtid.Set{}
	}
	return gtid.MustParse(fmt.Sprintf("%s:1-%d", uuidOf(ordinal), n))
}

// scene is a cluster of three voters, orders-0 the primary of epoch 5 with ten transactions, all well.
type scene struct {
	desired  Desired
	observed Observed
}

func newScene() *scene {
	s := &scene{
		desired: Desired{
			Cluster: "orders", Replicas: 3, Durability: Durability{Lossless: true}, MaxLag: 30 * time.Second, TemplateHash: "t",
			Subnets: []Subnet{{ID: "subnet-a", Zone: "a"}, {ID: "subnet-b", Zone: "b"}, {ID: "subnet-c", Zone: "c"}},
		},
		observed: Observed{
			Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), CloudReachable: true, CloudTaken: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Permitted: Permitted{Launchable: true, Rehearsal: Rehearsal{Completed: true}}, Members: map[string]*Member{}, InService: map[string]bool{},
			Records:  ClusterRecord{Established: true, Epoch: 5, Bootstrapped: "orders-0", BootstrappedVolume: "vol-0", Members: map[string]MemberRecord{}},
			Exposure: Exposure{Binlog: new(gtid.Set)},
		},
	}
	row := Membership{Epoch: 5, Primary: "orders-0", Voters: []string{"orders-0", "orders-1", "orders-2"}, W: 1}
	for i := range 3 {
		name := s.desired.MemberName(i)
		m := &Member{
			Name: name, Ordinal: i, RecordedVolume: fmt.Sprintf("vol-%d", i),
			Instances: []Instance{{ID: fmt.Sprintf("i-%d", i), Incarnation: 1, State: stateRunning, Address: fmt.Sprintf("10.0.0.%d", i)}},
			Volumes:   []Volume{{ID: fmt.Sprintf("vol-%d", i), Incarnation: 1, State: volumeInUse, AttachedTo: fmt.Sprintf("i-%d", i), AttachState: attachAttached}},
			SQL:       SQL{Access: AccessVerified, ServerUUID: uuidOf(i), Executed: trx(0, 10), Membership: &row, MembershipKnown: true, Start: Start{Memory: "run-" + name}, Variables: Variables{RelaySync: relaySynced}},
		}
		if i == 0 {
			m.SQL.Writable = true
			m.SQL.SemiSync = SemiSync{SourceEnabled: true, SourceActive: true, WaitCount: 1, Clients: 2}
		} else {
			m.SQL.Replication = &Replication{SourceHost: "10.0.0.0", IOState: ioOn, SQLRunning: true, Backlog: Backlog{LagKnown: true}, UpToDate: true}
			m.SQL.SemiSync = SemiSync{ReplicaEnabled: true, ReplicaActive: true}
		}
		s.observed.Members[name] = m
		s.observed.Records.Members[name] = MemberRecord{Instance: 1, Volume: 1, VolumeID: m.RecordedVolume, SignedInstance: m.Instances[0].ID}
	}
	return s
}

func (s *scene) member(i int) *Member { return s.observed.Members[s.desired.MemberName(i)] }

// lose makes a member unreachable, for longer than anybody is waited for.
func (s *scene) lose(ordinals ...int) {
	for _, i := range ordinals {
		s.member(i).SQL = SQL{Access: AccessSilent, Reason: "no answer"}
		s.member(i).SilentSince = s.observed.Now.Add(-time.Minute)
		s.member(i).DownSince = s.observed.Now.Add(-40 * time.Second)
	}
}

// TestRecordsAreTakenOver: a new leader writes the records whatever else it has to do, so that nothing is saved any more by the one
// before it. What nothing is remembered of stays so.
func TestRecordsAreTakenOver(t *testing.T) {
	s := newScene()
	s.observed.WriterID = "first"
	plan := pureNext(s.desired, s.observed)
	if plan.Records.WriterID != "first" || plan.Records.Equal(s.observed.Records) {
		t.Errorf("the records are of %q", plan.Records.WriterID)
	}
	s.observed.Records = plan.Records
	if again := pureNext(s.desired, s.observed); !again.Records.Equal(plan.Records) {
		t.Error("they are written again by the same")
	}
	s.observed.WriterID = "second"
	if taken := pureNext(s.desired, s.observed); taken.Records.WriterID != "second" || taken.Records.Equal(plan.Records) {
		t.Errorf("the records are of %q", taken.Records.WriterID)
	}
	none := Observed{Now: s.observed.Now, WriterID: "first", Members: map[string]*Member{}, InService: map[string]bool{}}
	if plan := pureNext(s.desired, none); !plan.Records.Equal(ClusterRecord{}) {
		t.Errorf("something is remembered of nothing: %+v", plan.Records)
	}
}

// turnedAway has mysqld of a member turn the operator away for a time: it answers, and is full.
func (s *scene) turnedAway(ordinal int, d time.Duration) {
	s.member(ordinal).SQL = SQL{Access: AccessDenied, Reason: "too many connections"}
	s.member(ordinal).SilentSince, s.member(ordinal).DownSince = time.Time{}, s.observed.Now.Add(-d)
}

// restart has mysqld of the primary start: it takes no writes, and waits for nobody.
func (s *scene) restart() {
	s.member(0).SQL.Writable, s.member(0).SQL.SemiSync = false, SemiSync{}
}

// restartApart has the primary come back read-only, with a commit that nobody else has; the one replica left holds one as well.
func (s *scene) restartApart() {
	s.restart()
	s.member(0).SQL.Executed = trx(0, 11)
	s.io(ioOff, 1)
	s.lose(2)
	s.member(1).SQL.Executed = trx(0, 10).Union(trx(1, 1))
}

// loseSuccessor: orders-2 was promoted after orders-0, whose last commit nobody has, and is gone. orders-1 has followed it.
func (s *scene) loseSuccessor() {
	newest := Membership{Epoch: 6, Primary: "orders-2", Voters: []string{"orders-0", "orders-1", "orders-2"}, W: 1}
	s.restart()
	s.member(0).SQL.Executed = trx(0, 11)
	s.member(1).SQL.Executed = trx(0, 10).Union(trx(2, 3))
	s.member(1).SQL.Membership = &newest
	s.io(ioOff, 1)
	s.lose(2)
	s.observed.Records.Leader, s.observed.Records.LeaderServer, s.observed.Records.LeaderEpoch = "orders-2", uuidOf(2), 6
}

// TestAFormerPrimaryAnswersNothingOnceAnotherIsPromoted: a transaction that was prepared on it may be committed although it is read-only,
// and the replica that the operator does not reach may acknowledge it.
func TestAFormerPrimaryAnswersNothingOnceAnotherIsPromoted(t *testing.T) {
	for name, begin := range map[string]func(s *scene){
		"another holds more": func(s *scene) {
			s.member(0).SQL.Writable = false
			s.member(1).SQL.Replication.Retrieved = trx(0, 11)
		},
		"another is writable already": func(s *scene) {
			s.member(0).SQL.Writable = false
			s.member(1).SQL.Writable, s.member(1).SQL.Replication = true, nil
			s.member(1).SQL.SemiSync = SemiSync{SourceEnabled: true, SourceActive: true, WaitCount: 1}
			s.member(1).SQL.Executed = trx(0, 11)
			s.observed.Records.Leader, s.observed.Records.LeaderServer, s.observed.Records.LeaderEpoch = "orders-1", uuidOf(1), 6
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.lose(2)
			begin(s)
			if s.member(1).SQL.Replication != nil {
				s.io(ioOff, 1)
			}
			plan, words := s.plan()
			if want := "let orders-0 wait for 1000 acknowledgements"; !strings.Contains(words, want) || strings.Contains(words, "promote") || strings.Contains(words, "record orders-1") || plan.Primary != "" {
				t.Errorf("primary %q: %s", plan.Primary, words)
			}
			s.member(0).SQL.SemiSync.WaitCount = NobodyAnswers
			if _, words := s.plan(); strings.Contains(words, "acknowledgements") || !strings.Contains(words, "promote orders-1") && !strings.Contains(words, "record orders-1") {
				t.Errorf("then: %s", words)
			}
		})
	}
}

// TestAPrimaryThatWaitsInVainIsStartedAgain: commits that it has written, and orders-2 has received, wait on the former primary and do not
// show as executed. Where orders-2 cannot apply them, only the recovery of the former primary makes one that holds everything.
func TestAPrimaryThatWaitsInVainIsStartedAgain(t *testing.T) {
	stopped := func(s *scene) {
		r := s.member(2).SQL.Replication
		s.member(2).SQL.Executed, r.SQLRunning, r.ApplierError = trx(0, 8), false, "row not found"
	}
	for name, row := range map[string]struct {
		happened func(*scene)
		actions  string
	}{
		"the applier of the only other stopped": {stopped, "start the applier of orders-2; stop instance i-0 of orders-0"},
		"a moment ago": {
			func(s *scene) { stopped(s); s.member(0).StalledSince = s.observed.Now.Add(-brokenPatience / 2) }, "start the applier of orders-2"},
		"what waits is known to nobody else": {
			func(s *scene) { stopped(s); s.member(2).SQL.Replication.Retrieved = trx(0, 10) }, "promote orders-0"},
		"each holds what the other does not show": {
			func(s *scene) { s.member(0).SQL.Executed = trx(0, 10).Union(trx(1, 1)) }, "stop instance i-0 of orders-0"},
		"the other applies": {func(*scene) {}, "promote orders-2"},
		"EC2 does not answer": {
			func(s *scene) { stopped(s); s.observed.CloudReachable = false }, "start the applier of orders-2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.restart()
			s.lose(1)
			s.io(ioOff, 2)
			m := s.member(0)
			m.SQL.SemiSync, m.SQL.PendingCommits = SemiSync{SourceEnabled: true, SourceActive: true, WaitCount: NobodyAnswers}, 2
			m.StalledSince = s.observed.Now.Add(-brokenPatience)
			s.member(2).SQL.Replication.Retrieved = trx(0, 12)
			row.happened(s)
			if _, actions := s.plan(); actions != row.actions {
				t.Errorf("planned %q, want %q", actions, row.actions)
			}
		})
	}
}

// io sets the state of a replica's IO thread.
func (s *scene) io(state string, ordinals ...int) {
	for _, i := range ordinals {
		s.member(i).SQL.Replication.IOState = state
	}
}

func (s *scene) plan() (Plan, string) {
	for _, m := range s.observed.Members {
		if row := m.SQL.Membership; row != nil && s.desired.names(*row) {
			s.observed.Records.Epoch = max(s.observed.Records.Epoch, row.Epoch) // a row's epoch is recorded before it is written
		}
	}
	p := pureNext(s.desired, s.observed)
	p.Actions = significant(p.Actions)
	var words []string
	for _, a := range p.Actions {
		words = append(words, a.String())
	}
	return p, strings.Join(words, "; ")
}

// TestSecurityGroupsAreKept: the cluster's own, and which ones the members have, once the preflight found the spec's.
func TestSecurityGroupsAreKept(t *testing.T) {
	for _, managed := range []bool{true, false} {
		for _, launchable := range []bool{true, false} {
			s := newScene()
			s.desired.ManagedSecurityGroup, s.observed.Launchable = managed, launchable
			p := pureNext(s.desired, s.observed)
			if kept := len(p.Actions) > len(significant(p.Actions)); kept != launchable {
				t.Errorf("the operator's own: %t, launchable: %t, kept: %t", managed, launchable, kept)
			}
		}
	}
}

func TestNothingIsDoneToAClusterThatIsWell(t *testing.T) {
	p, actions := newScene().plan()
	if actions != "" || p.Phase != v1alpha1.PhaseReady || p.RequeueAfter != waitReady {
		t.Errorf("phase %s, actions %q, again after %s", p.Phase, actions, p.RequeueAfter)
	}
}

func TestWhoIsPromoted(t *testing.T) {
	for name, row := range map[string]struct {
		happened func(*scene)
		actions  string // what is planned
		says     string // part of a finding, or of what is waited for
	}{
		"the primary is silent, a replica still receives from it": {
			func(s *scene) {
				s.lose(0)
				s.io(ioConnecting, 2)
				s.member(0).SilentSince = s.observed.Now.Add(-10 * time.Second)
			}, "", "orders-1 still receives from it"},
		"but not for ever": {
			func(s *scene) { s.lose(0); s.io(ioConnecting, 2) }, "stop acknowledgements of orders-1; stop acknowledgements of orders-2", ""},
		"the primary has no place for the operator, and others receive from it": {
			func(s *scene) { s.turnedAway(0, time.Hour) }, "", "orders-1 still receives from it"},
		"the primary has had no place for the operator for a moment": {
			func(s *scene) { s.io(ioConnecting, 1, 2); s.turnedAway(0, time.Second) }, "", "waiting a moment for it"},
		"the primary has had no place for the operator for long, and none for its replicas": {
			func(s *scene) { s.io(ioConnecting, 1, 2); s.turnedAway(0, time.Minute) }, "stop acknowledgements of orders-1; stop acknowledgements of orders-2", ""},
		"the primary has been silent for a moment only": {
			func(s *scene) {
				s.lose(0)
				s.io(ioConnecting, 1, 2)
				s.member(0).SilentSince = s.observed.Now.Add(-time.Second)
			}, "", "waiting a moment for it"},
		"the primary is gone: first nobody acknowledges any more": {
			func(s *scene) { s.lose(0); s.io(ioConnecting, 1, 2) }, "stop acknowledgements of orders-1; stop acknowledgements of orders-2", ""},
		"then the one that holds most is promoted": {
			func(s *scene) { s.lose(0); s.io(ioOff, 1, 2); s.member(2).SQL.Executed = trx(0, 11) }, "stop instance i-0 of orders-0; promote orders-2", ""},
		"what is received counts, not what is executed": {
			func(s *scene) {
				s.lose(0)
				s.io(ioOff, 1, 2)
				s.member(1).SQL.Executed = trx(0, 8)
				s.member(1).SQL.Replication.Retrieved = trx(0, 12)
			}, "stop instance i-0 of orders-0; promote orders-1", ""},
		"of two that hold the same, the one that has applied it": {
			func(s *scene) {
				s.lose(0)
				s.io(ioOff, 1, 2)
				s.member(1).SQL.Executed, s.member(1).SQL.Replication.Retrieved = trx(0, 2), trx(0, 12)
				s.member(2).SQL.Executed = trx(0, 12)
			}, "stop instance i-0 of orders-0; promote orders-2", ""},
		"or the one that has applied more": {
			func(s *scene) {
				s.lose(0)
				s.io(ioOff, 1, 2)
				s.member(1).SQL.Executed, s.member(1).SQL.Replication.Retrieved = trx(0, 2), trx(0, 12)
				s.member(2).SQL.Executed, s.member(2).SQL.Replication.Retrieved = trx(0, 9), trx(0, 12)
			}, "stop instance i-0 of orders-0; promote orders-2", ""},
		"another that has applied all, after one was chosen that has not": {
			func(s *scene) {
				s.lose(0)
				s.io(ioOff, 1, 2)
				s.observed.Records.Leader, s.observed.Records.LeaderServer, s.observed.Records.LeaderEpoch = "orders-1", uuidOf(1), 6
				s.member(1).SQL.Executed, s.member(1).SQL.Replication.Retrieved = trx(0, 2), trx(0, 12)
				s.member(2).SQL.Executed = trx(0, 12)
			}, "stop instance i-0 of orders-0; promote orders-2", ""},
		"two of three voters are gone: nobody can be sure": {
			func(s *scene) { s.lose(0, 1); s.io(ioOff, 2) }, "", "not reached: orders-0, orders-1"},
		"each replica holds what the other lacks: none is safe": {
			func(s *scene) {
				s.lose(0)
				s.io(ioOff, 1, 2)
				s.member(1).SQL.Executed = gtid.MustParse(uuidOf(0) + ":1-9:11")
				s.member(2).SQL.Executed = trx(0, 10)
			}, "", "no voter that was reached holds every transaction"},
		"its applier stopped, and nobody else can take over: it is started again": {
			func(s *scene) {
				s.lose(0)
				s.io(ioOff, 1, 2)
				s.member(1).SQL.Executed = trx(0, 8)
				s.member(1).SQL.Replication.Retrieved = trx(0, 12)
				s.member(1).SQL.Replication.SQLRunning, s.member(1).SQL.Replication.ApplierError = false, "error 1205"
			}, "start the applier of orders-1", "once it has applied what it received"},
		"its applier stopped, and somebody else holds all that may be acknowledged": {
			func(s *scene) {
				s.restart()
				s.io(ioOff, 1, 2)
				s.member(0).SQL.Executed = trx(0, 9)
				s.member(1).SQL.Executed, s.member(2).SQL.Executed = trx(0, 11), trx(0, 10)
				s.member(1).SQL.Replication.SQLRunning, s.member(1).SQL.Replication.ApplierError = false, "relay log read failure"
			}, "promote orders-2", ""},
		"a replica that is being cloned proves nothing": {
			func(s *scene) { s.lose(0); s.io(ioOff, 1, 2); s.member(2).SQL.Clone = &Clone{State: cloneInProgress} }, "", "not reached: orders-0, orders-2"},
		"asynchronous: the instance is stopped first": {
			func(s *scene) { s.desired.Lossless = false; s.lose(0); s.io(ioOff, 1, 2) }, "stop instance i-0 of orders-0", "powered off before"},
		"without semi-sync a primary that was started again is given a moment to return with all that it had committed": {
			func(s *scene) {
				s.desired.Lossless = false
				s.lose(0)
				s.io(ioOff, 1, 2)
				s.member(0).Instances[0].LaunchTime = s.observed.Now.Add(-lateAnswers / 2)
			}, "", "powered off before"},
		"all restarted: the former primary is primary again": {
			func(s *scene) { s.restart(); s.io(ioOff, 1, 2) }, "promote orders-0", ""},
		"who takes writes has to be proven while another is away that may have led": {
			func(s *scene) {
				s.observed.Records.Leader = "orders-2"
				s.lose(2)
				s.member(1).SQL.Executed = trx(0, 10).Union(trx(2, 1))
			}, "demote orders-0", "must not be"},
		"what its primary never committed was acknowledged to nobody": {
			(*scene).restartApart, "promote orders-0", ""},
		"but somebody else may have been opened for writes since": {
			func(s *scene) { s.restartApart(); s.observed.Records.Leader = "orders-2" }, "", "no voter that was reached holds every transaction"},
		"or led on": {
			func(s *scene) { s.restartApart(); s.observed.Records.LeaderDoubted = true }, "", "no voter that was reached holds every transaction"},
		"and with the records that is forgotten": {
			func(s *scene) { s.restartApart(); s.observed.Records.RebuiltAt = s.observed.Now }, "", "no voter that was reached holds every transaction"},
		"but when it lacks its own commits, it has lost them": {
			func(s *scene) {
				s.restartApart()
				s.member(0).SQL.Executed, s.member(1).SQL.Executed = trx(0, 10).Union(trx(9, 1)), trx(0, 11)
			}, "", "no voter that was reached holds every transaction"},
		"the primary is lost for good, and one that was primary before has commits that nobody acknowledged": {
			(*scene).loseSuccessor, "stop instance i-2 of orders-2; promote orders-1", ""},
		"but whoever does not show its row does not know what was acknowledged before it": {
			func(s *scene) {
				s.loseSuccessor()
				s.member(1).SQL.Membership = s.member(0).SQL.Membership
			}, "", "no voter that was reached holds every transaction"},
		"nor does a row of a term before its last one, between which others may have led": {
			func(s *scene) { s.loseSuccessor(); s.observed.Records.LeaderEpoch = 8 }, "", "no voter that was reached holds every transaction"},
		"or of nobody knows which term": {
			func(s *scene) { s.loseSuccessor(); s.observed.Records.LeaderEpoch = 0 }, "", "no voter that was reached holds every transaction"},
		"or another may have been opened for writes since then": {
			func(s *scene) { s.loseSuccessor(); s.observed.Records.LeaderDoubted = true }, "", "no voter that was reached holds every transaction"},
		"and the lost one's own commits may have been acknowledged by either": {
			func(s *scene) {
				s.loseSuccessor()
				s.member(0).SQL.Executed = s.member(0).SQL.Executed.Union(trx(2, 4))
				s.member(1).SQL.Executed = trx(0, 10).Union(gtid.MustParse(uuidOf(2) + ":1-3:5"))
			}, "", "no voter that was reached holds every transaction"},
		"and so may what a person had it commit under another UUID, when two hold what the other lacks": {
			func(s *scene) {
				s.loseSuccessor()
				s.member(0).SQL.Membership = s.member(1).SQL.Membership
				s.member(0).SQL.Executed = trx(0, 11).Union(trx(2, 3))
				s.member(1).SQL.Executed = trx(0, 10).Union(trx(2, 3)).Union(trx(9, 5))
			}, "", "no voter that was reached holds every transaction"},
		"or had received and not executed": {
			func(s *scene) {
				s.loseSuccessor()
				s.member(0).SQL.Executed = trx(0, 10)
				s.member(0).SQL.Replication = &Replication{IOState: ioOff, SQLRunning: true, SourceHost: "10.0.0.2", Retrieved: trx(9, 5)}
			}, "", "no voter that was reached holds every transaction"},
		"and whoever would use a GTID of its own once more is not promoted": {
			func(s *scene) { s.loseSuccessor(); s.member(0).SQL.Executed = trx(0, 10).Union(trx(1, 1)) }, "", "no voter that was reached holds every transaction"},
		"so they may when it had the other's UUID": {
			func(s *scene) { s.loseSuccessor(); s.observed.Records.LeaderServer = uuidOf(0) }, "", "no voter that was reached holds every transaction"},
		"two hold the same acknowledged commits, and each a last one that nobody has: the one with the newer row": {
			func(s *scene) {
				newest := Membership{Epoch: 6, Primary: "orders-2", Voters: []string{"orders-0", "orders-1", "orders-2"}, W: 1}
				s.restart()
				s.member(0).SQL.Executed = trx(0, 12)
				s.member(2).SQL.Executed, s.member(2).SQL.Membership = trx(0, 10).Union(trx(2, 1)), &newest
				s.io(ioOff, 1, 2)
				s.observed.Records.Leader = "orders-2"
			}, "promote orders-2", ""},
		"a voter on an empty volume does not count as reached": {
			func(s *scene) {
				s.lose(0)
				s.io(ioOff, 1)
				s.member(2).SQL.Membership, s.member(2).SQL.Executed, s.member(2).SQL.Replication = nil, gtid.Set{}, nil
			}, "", "not reached: orders-0, orders-2 (reached, but it shows no membership row)"},
		"one whose own row is older shows nothing": {
			func(s *scene) {
				s.restartApart()
				older := *s.member(0).SQL.Membership
				older.Epoch--
				s.member(0).SQL.Membership = &older
			}, "", "no voter that was reached holds every transaction"},
		"an old primary is back and writable": {
			func(s *scene) {
				newer := Membership{Epoch: 6, Primary: "orders-1", Voters: []string{"orders-0", "orders-1", "orders-2"}, W: 1}
				for i := 1; i < 3; i++ {
					s.member(i).SQL.Membership = &newer
				}
				s.member(1).SQL.Writable, s.member(1).SQL.Replication = true, nil
				s.member(1).SQL.SemiSync = SemiSync{SourceEnabled: true, SourceActive: true, WaitCount: 1, Clients: 1}
				s.member(2).SQL.Replication.SourceHost = "10.0.0.1"
			}, "demote orders-0", "must not be"},
		"an old primary is back and its clients still wait: it cannot be demoted": {
			func(s *scene) {
				newer := Membership{Epoch: 6, Primary: "orders-1", Voters: []string{"orders-0", "orders-1", "orders-2"}, W: 1}
				for i := 1; i < 3; i++ {
					s.member(i).SQL.Membership = &newer
				}
				s.member(0).SQL.PendingCommits = 3
				s.member(1).SQL.Writable, s.member(1).SQL.Replication = true, nil
				s.member(1).SQL.SemiSync = SemiSync{SourceEnabled: true, SourceActive: true, WaitCount: 1, Clients: 1}
				s.member(2).SQL.Replication.SourceHost = "10.0.0.1"
			}, "stop instance i-0 of orders-0", "must not be"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			row.happened(s)
			p, actions := s.plan()
			if actions != row.actions {
				t.Errorf("planned %q, want %q", actions, row.actions)
			}
			if text := fmt.Sprint(p.Degraded, p.Waiting); !strings.Contains(text, row.says) {
				t.Errorf("says %s, want %q in it", text, row.says)
			}
		})
	}
}

// TestLeaderIsDoubted: who was to be promoted last is believed as long as nobody else is led on, and again when every voter shows
// that it may be.
func TestLeaderIsDoubted(t *testing.T) {
	for name, row := range map[string]struct {
		happened func(*scene)
		leader   string
		doubted  bool
	}{
		"the cluster began on it": {func(*scene) {}, "", false},
		"another was to be promoted and is away, and the proof is for it": {func(s *scene) { s.observed.Records.Leader = "orders-1"; s.lose(1) }, "orders-0", false},
		"but all voters show that nothing is lost":                        {func(s *scene) { s.observed.Records.Leader = "orders-1" }, "orders-0", false},
		"and one holds what the primary lacks": {func(s *scene) {
			s.observed.Records.Leader = "orders-1"
			s.member(2).SQL.Executed = trx(0, 10).Union(trx(1, 1))
		}, "orders-1", true},
		"after its records were lost": {func(s *scene) {
			s.observed.Records.RebuiltAt = s.observed.Now
			s.lose(2)
		}, "", true},
		"asynchronous": {func(s *scene) {
			s.desired.Lossless, s.observed.Records.Leader = false, "orders-1"
		}, "orders-1", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			row.happened(s)
			p, _ := s.plan()
			if r := p.Records; r.Leader != row.leader || r.LeaderDoubted != row.doubted {
				t.Errorf("leader %q, doubted %t", r.Leader, r.LeaderDoubted)
			}
		})
	}
}

// TestPromotionThatRestsOnAWitnessGoesOn: what a proof found to be acknowledged to nobody stays so while it is carried out, although
// from the moment on that it is noted another is the last leader than the row says.
func TestPromotionThatRestsOnAWitnessGoesOn(t *testing.T) {
	s := newScene()
	s.loseSuccessor()
	p, actions := s.plan()
	if want := uuidOf(0) + ":11"; p.Records.Leader != "orders-1" || p.Records.LeaderVoid != want {
		t.Fatalf("planned %q, noted %s without %q, want %q", actions, p.Records.Leader, p.Records.LeaderVoid, want)
	}
	noted := p.Records
	again := func(change func(*scene)) string {
		s := newScene()
		s.loseSuccessor()
		s.observed.Records = noted
		change(s)
		_, actions := s.plan()
		return actions
	}
	opened := func(s *scene) {
		s.member(1).SQL.Writable, s.member(1).SQL.Replication = true, nil
		s.member(1).SQL.SemiSync = SemiSync{SourceEnabled: true, SourceActive: true, WaitCount: 1}
	}
	if actions := again(func(*scene) {}); !strings.Contains(actions, "promote orders-1") {
		t.Errorf("it was cut off before it began: planned %q", actions)
	}
	if actions := again(opened); strings.Contains(actions, "demote orders-1") || !strings.Contains(actions, "record orders-1 as the primary") {
		t.Errorf("it was cut off before the row was written: planned %q", actions)
	}
	if actions := again(func(s *scene) { opened(s); s.member(1).SQL.PendingCommits = 1 }); strings.Contains(actions, "instance i-1") || strings.Contains(actions, "demote orders-1") {
		t.Errorf("its row waits to be acknowledged: planned %q", actions)
	}
	if actions := again(func(s *scene) { s.observed.Records.LeaderDoubted = true }); strings.Contains(actions, "promote") {
		t.Errorf("another was led on since: planned %q", actions)
	}
	if actions := again(func(s *scene) {
		row := Membership{Epoch: noted.LeaderEpoch, Primary: "orders-1", Voters: []string{"orders-0", "orders-1", "orders-2"}, W: 1}
		all := trx(0, 10).Union(trx(1, 3)).Union(trx(2, 3))
		s.member(2).SQL = SQL{Access: AccessVerified, ServerUUID: uuidOf(2), Executed: all.Union(trx(0, 11)), Membership: &row, MembershipKnown: true, Start: Start{StartedAt: s.observed.Now}}
		s.member(0).SQL.Executed, s.member(0).SQL.Membership = all.Union(trx(9, 1)), &row
		s.lose(1)
	}); strings.Contains(actions, "promote") {
		t.Errorf("it wrote its row, and had a person's commits of before acknowledged: planned %q", actions)
	}
	if actions := again(func(s *scene) {
		s.member(0).SQL.Executed = trx(0, 10)
		s.member(0).SQL.Replication = &Replication{IOState: ioOff, SQLRunning: true, Retrieved: trx(0, 11)}
		s.observed.Records.LeaderAcknowledged = ""
	}); strings.Contains(actions, "promote orders-1") {
		t.Errorf("somebody may have received it from the leader, of which no proof is recorded: planned %q", actions)
	}
	s = newScene()
	s.loseSuccessor()
	s.lose(0)
	s.member(2).SQL = SQL{Access: AccessVerified, ServerUUID: uuidOf(2), Executed: trx(0, 10).Union(trx(2, 3)), Membership: s.member(1).SQL.Membership, MembershipKnown: true, Start: Start{StartedAt: s.observed.Now}}
	s.observed.Records = noted
	if p, actions := s.plan(); p.Records.LeaderVoid != "" && p.Records.Leader != "orders-1" {
		t.Errorf("planned %q; what counts no more for one counts no more for %s", actions, p.Records.Leader)
	}
}

// TestTerm: a leader's term begins with the first row that it can write once it is noted. Noted again with nobody in between it goes on;
// after another, after a doubt, or as another server a new one begins.
func TestTerm(t *testing.T) {
	first, other, anew := &Member{Name: "orders-0", SQL: SQL{ServerUUID: uuidOf(0)}}, &Member{Name: "orders-1", SQL: SQL{ServerUUID: uuidOf(1)}}, &Member{Name: "orders-0", SQL: SQL{ServerUUID: uuidOf(7)}}
	for name, row := range map[string]struct {
		then  func(*ClusterRecord)
		epoch uint64
	}{
		"noted again":                               {func(r *ClusterRecord) { r.recordLeader(first, 9) }, 5},
		"opened again":                              {func(r *ClusterRecord) { r.recordOpened(first, 9) }, 5},
		"after another was opened":                  {func(r *ClusterRecord) { r.recordOpened(other, 7); r.recordLeader(first, 9) }, 9},
		"after a doubt":                             {func(r *ClusterRecord) { r.LeaderDoubted = true; r.recordLeader(first, 9) }, 9},
		"opened in doubt":                           {func(r *ClusterRecord) { r.LeaderDoubted = true; r.recordOpened(first, 9) }, 9},
		"its data were lost":                        {func(r *ClusterRecord) { r.recordLeader(anew, 9) }, 9},
		"noted by a release before terms":           {func(r *ClusterRecord) { r.LeaderEpoch = 0; r.recordLeader(first, 9) }, 9},
		"a doubt about it, and then a proof, twice": {func(r *ClusterRecord) { r.LeaderDoubted = true; r.recordLeader(first, 9); r.recordLeader(first, 11) }, 9},
	} {
		t.Run(name, func(t *testing.T) {
			var r ClusterRecord
			r.recordLeader(first, 5)
			row.then(&r)
			if r.Leader != "orders-0" || r.LeaderEpoch != row.epoch {
				t.Errorf("the term of %s begins with %d, want %d", r.Leader, r.LeaderEpoch, row.epoch)
			}
		})
	}
}

func TestVotes(t *testing.T) {
	for name, row := range map[string]struct {
		happened func(*scene)
		actions  string
	}{
		"an operator died after it had let go of the others": {
			func(s *scene) {
				s.observed.Records.Alone, s.observed.Records.AloneSince = "orders-0", 6
				s.member(0).SQL.SemiSync.SourceEnabled, s.member(0).SQL.SemiSync.SourceActive = false, false
				s.lose(1, 2)
			}, "let orders-0 go on alone"},
		"somebody switched it off, and the others are there": {
			func(s *scene) {
				s.member(0).SQL.SemiSync.SourceEnabled, s.member(0).SQL.SemiSync.SourceActive = false, false
			}, "let orders-0 wait for 1 acknowledgements"},
		"it is switched on before the certificate, which may fail in every pass": {
			func(s *scene) {
				s.member(0).SQL.SemiSync.SourceEnabled, s.member(0).SQL.SemiSync.SourceActive = false, false
				s.member(0).SQL.CertificateRenewalDue = true
			}, "let orders-0 wait for 1 acknowledgements; sign the certificate of orders-0"},
		"a wait for too few is raised before it": {
			func(s *scene) {
				s.member(0).SQL.SemiSync.WaitCount = 0
				s.member(0).SQL.CertificateRenewalDue = true
			}, "let orders-0 wait for 1 acknowledgements; sign the certificate of orders-0"},
		"a wait for too many is lowered beside it": {
			func(s *scene) {
				s.member(0).SQL.SemiSync.WaitCount = 2
				s.member(0).SQL.CertificateRenewalDue = true
			}, "sign the certificate of orders-0; let orders-0 wait for no more than 1 acknowledgements"},
		"an errant voter first stops acknowledging": {
			func(s *scene) { s.member(2).SQL.Executed = trx(0, 10).Union(trx(2, 1)) }, "switch the acknowledgements of orders-2 off"},
		"then loses its vote": {
			func(s *scene) {
				s.member(2).SQL.Executed = trx(0, 10).Union(trx(2, 1))
				s.member(2).SQL.SemiSync = SemiSync{}
			}, "remove orders-2 from the voters"},
		"what a replica has of the primary's own is not errant": {
			func(s *scene) { s.member(2).SQL.Executed = trx(0, 12) }, ""},
		"a voter whose setting has not taken effect": {
			func(s *scene) { s.member(1).SQL.SemiSync.ReplicaActive = false }, "switch the acknowledgements of orders-1 on"},
		"a newcomer waits while a stranger acknowledges": {
			func(s *scene) { two(s); s.member(0).SQL.SemiSync.Clients = 2 }, ""},
		"a newcomer that acknowledges too early is stopped": {
			func(s *scene) { two(s); s.member(2).SQL.SemiSync = SemiSync{ReplicaEnabled: true, ReplicaActive: true} }, "switch the acknowledgements of orders-2 off"},
		"a newcomer that has caught up becomes a voter": {
			func(s *scene) { two(s) }, "admit orders-2 as a voter"},
		"a member without a vote is not started as long as it would acknowledge": {
			func(s *scene) {
				two(s)
				s.io(ioOff, 2)
				s.member(2).SQL.Replication.SQLRunning = false
				s.member(2).SQL.Replication.ApplierError = "row not found"
				s.member(2).SQL.SemiSync.ReplicaEnabled = true
			}, "switch the acknowledgements of orders-2 off"},
		"nor is that of a primary which is alone": {
			func(s *scene) {
				one(s)
				s.io(ioOff, 1)
				s.member(1).SQL.SemiSync.ReplicaEnabled = true
			}, "switch the acknowledgements of orders-1 off"},
		"a stranger that would acknowledge once it is connected keeps others from their vote": {
			func(s *scene) {
				one(s)
				s.desired.Replicas = 2 // it is not to be a voter itself
				s.member(2).SQL.SemiSync.ReplicaEnabled = true
			}, "switch the acknowledgements of orders-2 off"},
		"one that was about to be the second voter, and is not reached, as well": {
			func(s *scene) { one(s); s.lose(1); s.observed.Records.MayAckNonVoters = []string{"orders-1"} }, "stop instance i-1 of orders-1"},
		"until its instance was off": {
			func(s *scene) {
				one(s)
				s.down(lateAnswers, 1)
				s.member(1).Volumes[0].Zone = "a"
				s.observed.Records.MayAckNonVoters = []string{"orders-1"}
			},
			"start instance i-1 of orders-1; admit orders-2 as a voter"},
		"a row that is not confirmed may need a voter that a person has written on": {
			func(s *scene) {
				row := Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0", "orders-1"}, Previous: []string{"orders-0", "orders-1", "orders-2"}, W: 1}
				s.voters(row)
				s.down(lateAnswers, 2)
				s.member(2).Volumes[0].Zone = "a"
				s.io(ioOff, 1)
				s.member(1).SQL.SemiSync.ReplicaActive = false
				s.member(0).SQL.SemiSync.Clients = 0
				s.member(1).SQL.Executed = trx(0, 10).Union(trx(1, 1))
			}, "start instance i-2 of orders-2; replicate orders-1 from orders-0; confirm the voters orders-0, orders-1"},
		"a voter whose volume is gone loses its vote once its instance is stopped": {
			func(s *scene) {
				s.lose(2)
				s.member(2).Volumes = nil
				s.member(2).VolumeMissingSince = s.observed.Now.Add(-time.Hour)
				s.member(2).Instances[0].State = stateStopped
			}, "remove orders-2 from the voters"},
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

// two makes orders-2 a replica that is no voter yet.
func two(s *scene) {
	row := Membership{Epoch: 5, Primary: "orders-0", Voters: []string{"orders-0", "orders-1"}, W: 1}
	for i := range 3 {
		s.member(i).SQL.Membership = &row
	}
	s.member(0).SQL.SemiSync.Clients = 1
	s.member(2).SQL.SemiSync = SemiSync{}
}

// one makes the primary the only voter; the others have caught up with it and acknowledge nothing.
func one(s *scene) {
	row := Membership{Epoch: 5, Primary: "orders-0", Voters: []string{"orders-0"}}
	for i := range 3 {
		s.member(i).SQL.Membership, s.member(i).SQL.SemiSync = &row, SemiSync{}
	}
}

// A primary that was alone has written the row which makes orders-1 the second voter, and that row waits for orders-1, which shows it:
// its acknowledgement was lost on the way.
func TestTheOneThatARowWaitsForAcknowledges(t *testing.T) {
	for name, row := range map[string]struct {
		happened func(*Member)
		actions  string
	}{
		"it reconnects": {func(m *Member) { m.SQL.SemiSync.ReplicaEnabled = true; m.SQL.Replication.IOState = ioConnecting }, ""},
		"it was fenced": {func(m *Member) {
			m.SQL.SemiSync.ReplicaEnabled = true
			m.SQL.Replication.IOState, m.SQL.Replication.SQLRunning = ioOff, false
		}, "replicate orders-1 from orders-0"},
		"its mysqld started anew": {func(*Member) {}, "switch the acknowledgements of orders-1 on"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			one(s)
			s.desired.Replicas = 2
			delete(s.observed.Members, "orders-2")
			s.member(0).SQL.SemiSync = SemiSync{SourceEnabled: true, SourceActive: true, WaitCount: 1}
			s.member(0).SQL.PendingCommits = 1
			s.member(1).SQL.Membership = &Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0", "orders-1"}, Previous: []string{"orders-0"}, W: 1}
			s.observed.Records.MayAckNonVoters = []string{"orders-1"}
			row.happened(s.member(1))
			if p, actions := s.plan(); actions != row.actions || !slices.Equal(p.Records.MayAckNonVoters, []string{"orders-1"}) {
				t.Errorf("planned %q, want %q; remembered %v", actions, row.actions, p.Records.MayAckNonVoters)
			}
		})
	}
}

// A primary goes on alone after an operator that got no further: who is out of sight may acknowledge, and is remembered.
func TestNonVotersThatMayAcknowledgeAreRecorded(t *testing.T) {
	for name, row := range map[string]struct {
		happened func(*Member)
		actions  string
		beside   []string
	}{
		"one that would acknowledge when it is connected": {
			func(m *Member) { m.SQL.SemiSync.ReplicaActive = false }, "let orders-0 go on alone", []string{"orders-1", "orders-2"}},
		"one that was about to be told to": {
			func(m *Member) {
				m.SQL.SemiSync, m.SQL.Replication.IOState, m.SQL.Replication.SQLRunning = SemiSync{}, ioOff, false
			}, "replicate orders-2 from orders-0; let orders-0 go on alone", []string{"orders-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.observed.Records.Alone, s.observed.Records.AloneSince = "orders-0", 6
			s.member(0).SQL.SemiSync.SourceEnabled, s.member(0).SQL.SemiSync.SourceActive = false, false
			s.lose(1)
			s.io(ioConnecting, 2)
			row.happened(s.member(2))
			p, actions := s.plan()
			if actions != row.actions || !slices.Equal(p.Records.MayAckNonVoters, row.beside) {
				t.Errorf("planned %q, want %q; remembered %v", actions, row.actions, p.Records.MayAckNonVoters)
			}
			for _, a := range p.Actions {
				if r, ok := a.(ReplicateFrom); ok && r.Acknowledging {
					t.Errorf("%s acknowledges from its start on", r.Member)
				}
			}
		})
	}
}

// In the pass in which a primary is left alone nobody starts to acknowledge: a later one would count it for a voter's.
func TestNobodyBeginsToAcknowledgeToAPrimaryThatIsLeftAlone(t *testing.T) {
	for name, heard := range map[string]bool{"one that is silent": false, "one that would acknowledge when it is connected": true} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			two(s)
			s.down(2*time.Minute, 2)
			m := s.member(1)
			m.SQL.Replication = &Replication{SourceHost: "10.0.0.0", IOState: ioConnecting, ApplierError: "row not found"}
			m.BrokenSince = s.observed.Now.Add(-brokenPatience)
			m.SQL.SemiSync = SemiSync{ReplicaEnabled: heard}
			s.member(0).SQL.SemiSync.Clients, s.member(0).SQL.PendingCommits = 0, 1
			newer := Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0", "orders-1"}, W: 1}
			m.SQL.Membership = &newer // the primary's own waits
			want := "let orders-0 go on alone"
			if heard {
				want = "switch the acknowledgements of orders-1 off"
			}
			p, actions := s.plan()
			if !strings.Contains(actions, want) || heard && strings.Contains(actions, "go on alone") {
				t.Errorf("planned %q, want %q", actions, want)
			}
			for _, a := range p.Actions {
				if r, ok := a.(ReplicateFrom); ok && r.Acknowledging {
					t.Errorf("%s acknowledges from its start on", r.Member)
				}
			}
		})
	}
}

func TestLostVolumeOfAVoterIsNeverReplacedByAnEmptyOne(t *testing.T) {
	s := newScene()
	s.lose(0, 1, 2)
	s.member(0).Volumes, s.member(0).Instances = nil, nil
	s.member(0).VolumeMissingSince = s.observed.Now.Add(-time.Hour)
	p, actions := s.plan()
	if strings.Contains(actions, "create volume") || len(p.Degraded) == 0 {
		t.Errorf("planned %q, says %v", actions, p.Degraded)
	}
}

func TestEmptyServerIsNoPlaceToBeginAgain(t *testing.T) {
	s := newScene()
	s.lose(1, 2)
	m := s.member(0)
	m.SQL = SQL{Access: AccessVerified, ServerUUID: uuidOf(7), MembershipKnown: true}
	m.Volumes[0].ID, m.RecordedVolume = "vol-9", "vol-9"
	if _, actions := s.plan(); strings.Contains(actions, "bootstrap") {
		t.Errorf("planned %q", actions)
	}
}
