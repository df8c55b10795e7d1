package topology

import (
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// down makes a member's instance stopped, for a time.
func (s *scene) down(since time.Duration, ordinals ...int) {
	for _, i := range ordinals {
		m := s.member(i)
		m.SQL = SQL{}
		m.Instances[0].State = stateStopped
		m.DownSince = s.observed.Now.Add(-since)
	}
}

// voters sets the membership that every member knows, and the records.
func (s *scene) voters(row Membership) {
	s.observed.Records.Epoch = max(s.observed.Records.Epoch, row.Epoch)
	for _, m := range s.observed.Members {
		if m.verified() {
			m.SQL.Membership = &row
		}
	}
}

func TestLostVotersAndHealing(t *testing.T) {
	for name, row := range map[string]struct {
		happened func(*scene)
		actions  string
		says     string
	}{
		"a stopped replica loses its vote and is started": {
			func(s *scene) { s.down(lateAnswers, 2) }, "start instance i-2 of orders-2; remove orders-2 from the voters", ""},
		"one that answered a moment ago may only be called stopped by an old answer": {
			func(s *scene) { s.down(lateAnswers-time.Second, 2) }, "start instance i-2 of orders-2", ""},
		"nor does time prove it without a new answer": {
			func(s *scene) {
				s.down(time.Minute, 2)
				s.observed.CloudTaken = s.observed.Now.Add(-50 * time.Second)
			}, "start instance i-2 of orders-2", ""},
		"the last replica keeps its vote for a minute": {
			func(s *scene) {
				s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0", "orders-1"}, W: 1})
				s.member(2).SQL.SemiSync = SemiSync{}
				s.member(2).SQL.Replication.LagKnown = false
				s.member(0).SQL.SemiSync.Clients = 1
				s.down(30*time.Second, 1)
			}, "start instance i-1 of orders-1", ""},
		"then the primary goes on alone, and that is remembered": {
			func(s *scene) {
				s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0", "orders-1"}, W: 1})
				s.member(2).SQL.SemiSync = SemiSync{}
				s.member(2).SQL.Replication.LagKnown = false
				s.member(0).SQL.SemiSync.Clients = 1
				s.down(2*time.Minute, 1)
			}, "start instance i-1 of orders-1; let orders-0 go on alone", ""},
		"a replica on an instance that runs keeps its vote: it may still acknowledge": {
			func(s *scene) { s.lose(2) }, "", "orders-2"},
		"an instance that has been silent for a minute is stopped": {
			func(s *scene) { s.lose(2); s.member(2).DownSince = s.observed.Now.Add(-2 * time.Minute) }, "stop instance i-2 of orders-2", "stopping and starting it"},
		"but not one whose mysqld has no place for the operator: it may serve its clients": {
			func(s *scene) { s.lose(2); s.turnedAway(2, time.Hour) }, "", "too many connections"},
		"but not soon after its start": {
			func(s *scene) {
				s.lose(2)
				s.member(2).DownSince = s.observed.Now.Add(-2 * time.Minute)
				s.member(2).Instances[0].LaunchTime = s.observed.Now.Add(-3 * time.Minute)
			}, "", ""},
		"one that stays away is reported while it has the time to boot": {
			func(s *scene) {
				s.lose(2)
				s.member(2).DownSince, s.member(2).SilentSince = s.observed.Now.Add(-7*time.Minute), s.observed.Now.Add(-10*time.Second)
				s.member(2).Instances[0].LaunchTime = s.observed.Now.Add(-time.Minute)
			}, "", "orders-2: mysqld has not answered since"},
		"and while it is stopped and started": {
			func(s *scene) {
				s.lose(2)
				s.member(2).DownSince = s.observed.Now.Add(-7 * time.Minute)
				s.member(2).Instances[0].State = statePending
			}, "", "which EC2 calls pending"},
		"and not while nobody is primary and a voter still receives": {
			func(s *scene) {
				s.lose(0, 1)
				s.member(0).DownSince, s.member(1).DownSince = s.observed.Now.Add(-time.Hour), s.observed.Now.Add(-time.Hour)
				s.member(0).SilentSince = s.observed.Now.Add(-10 * time.Second)
			}, "", "orders-2 still receives from it"},
		"an operator that reaches nobody powers nothing off": {
			func(s *scene) {
				s.lose(0, 1, 2)
				for i := range 3 {
					s.member(i).DownSince = s.observed.Now.Add(-time.Hour)
				}
			}, "", "no member that knows the voters answers"},
		"an instance that EC2 calls impaired is stopped": {
			func(s *scene) {
				s.lose(2)
				s.member(2).SQL.Access = AccessRefused
				s.member(2).Instances[0].Impaired = true
				s.member(2).DownSince = s.observed.Now.Add(-4 * time.Minute)
			}, "stop instance i-2 of orders-2", "impaired"},
		"replication that an error stopped is started again": {
			func(s *scene) {
				s.member(2).SQL.Replication.SQLRunning, s.member(2).SQL.Replication.ApplierError = false, "1062 duplicate key"
				s.member(2).BrokenSince = s.observed.Now
			}, "replicate orders-2 from orders-0", "1062"},
		"after a minute the member stops acknowledging": {
			func(s *scene) {
				s.member(2).SQL.Replication.SQLRunning, s.member(2).SQL.Replication.ApplierError = false, "1062 duplicate key"
				s.member(2).BrokenSince = s.observed.Now.Add(-2 * time.Minute)
			}, "switch the acknowledgements of orders-2 off", "1062"},
		"so does one that cannot apply what the primary before sent": {
			func(s *scene) {
				s.member(2).SQL.Replication.SourceHost = "10.0.0.1"
				s.member(2).SQL.Replication.SQLRunning, s.member(2).SQL.Replication.ApplierError = false, "1062 duplicate key"
				s.member(2).BrokenSince = s.observed.Now.Add(-2 * time.Minute)
			}, "switch the acknowledgements of orders-2 off", "1062"},
		"without a vote its volume is kept as a snapshot": {
			func(s *scene) {
				two(s)
				s.member(2).SQL.Replication.SQLRunning, s.member(2).SQL.Replication.ApplierError = false, "1062 duplicate key"
				s.member(2).BrokenSince = s.observed.Now.Add(-2 * time.Minute)
			}, "take snapshot quarantine-", "1062"},
		"a member behind what the binary logs hold is seeded anew": {
			func(s *scene) { two(s); s.member(0).SQL.Purged = trx(0, 5); s.member(2).SQL.Executed = trx(0, 3) }, "clone orders-2 from orders-0", ""},
		"a deposed primary's instance is stopped until it is": {
			func(s *scene) {
				s.lose(0)
				s.observed.Records.FencedPrimary = "i-0"
				s.voters(Membership{Epoch: 6, Primary: "orders-1", Voters: []string{"orders-0", "orders-1", "orders-2"}, W: 1})
				s.member(1).SQL.Writable, s.member(1).SQL.Replication = true, nil
				s.member(1).SQL.SemiSync = SemiSync{SourceEnabled: true, SourceActive: true, WaitCount: 1, Clients: 1}
				s.member(2).SQL.Replication.SourceHost = "10.0.0.1"
			}, "stop instance i-0 of orders-0", ""},
		"a full disk": {
			func(s *scene) { s.member(0).SQL.Disk = &Disk{SizeBytes: 100 << 30, FreeBytes: 5 << 30} }, "purge the oldest binary logs of orders-0", "less than 10% of its data volume"},
		"a full disk, and larger volumes that were asked for": {
			func(s *scene) {
				s.member(0).SQL.Disk = &Disk{SizeBytes: 100 << 30, FreeBytes: 5 << 30}
				s.desired.SizeGiB, s.member(0).Volumes[0].SizeGiB = 200, 100
			}, "purge the oldest binary logs of orders-0; modify volume vol-0 of orders-0", "less than 10% of its data volume"},
		"a fuller one, in the same words for a while": {
			func(s *scene) { s.member(1).SQL.Disk = &Disk{SizeBytes: 100 << 30, FreeBytes: 9<<30 + 12345} }, "", "less than 10% of its data volume"},
		"one that is full": {
			func(s *scene) { s.member(1).SQL.Disk = &Disk{SizeBytes: 100 << 30, FreeBytes: 12345} }, "", "less than 5% of its data volume"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			row.happened(s)
			p, actions := s.plan()
			if actions != row.actions && (row.actions == "" || !strings.HasSuffix(row.actions, "-") || !strings.HasPrefix(actions, row.actions)) {
				t.Errorf("planned %q, want %q", actions, row.actions)
			}
			text := p.Waiting.Message
			for _, f := range p.Degraded {
				text += " " + f.Message
			}
			for _, v := range p.Members {
				text += " " + v.Name + " " + v.Step.Message
			}
			if !strings.Contains(text, row.says) {
				t.Errorf("says %q, want %q in it", text, row.says)
			}
			alone := strings.Contains(name, "remembered")
			if (p.Records.Alone == "orders-0" && p.Records.AloneSince == 7) != alone {
				t.Errorf("records say that %q is alone since %d", p.Records.Alone, p.Records.AloneSince)
			}
		})
	}
}

func TestTheOneWhoLeftIsNeverPromotedAlone(t *testing.T) {
	s := newScene()
	s.desired.Replicas = 2
	delete(s.observed.Members, "orders-2")
	s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0", "orders-1"}, W: 1})
	s.lose(0)
	s.io(ioOff, 1)
	if _, actions := s.plan(); actions != "stop instance i-0 of orders-0; promote orders-1" {
		t.Errorf("with both as voters: planned %q", actions)
	}
	s.observed.Records.Alone, s.observed.Records.AloneSince = "orders-0", 7
	p, actions := s.plan()
	if actions != "" || !strings.Contains(p.Degraded[0].Message, "orders-0 may have acknowledged commits by itself") {
		t.Errorf("after orders-0 was alone: planned %q, says %v", actions, p.Degraded)
	}
	s.observed.Records.Alone, s.observed.Records.AloneSince = "", 0
	s.observed.Records.RebuiltAt = s.observed.Now.Add(-time.Hour)
	s.observed.Records.AloneUnknown = true
	if _, actions := s.plan(); actions != "" {
		t.Errorf("with lost records: planned %q", actions)
	}
}

func TestLostRecordsAreLearntFromAConfirmedPrimary(t *testing.T) {
	s := newScene()
	s.observed.Records.AloneUnknown = true
	if p, _ := s.plan(); p.Records.AloneUnknown || p.Records.Alone != "" {
		t.Errorf("with three voters: %+v", p.Records)
	}
	s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0"}})
	if p, _ := s.plan(); p.Records.AloneUnknown || p.Records.Alone != "orders-0" || p.Records.AloneSince != 6 {
		t.Errorf("alone: %+v", p.Records)
	}
}

func TestAdmissionThatWasCutOffOnALonePrimary(t *testing.T) {
	s := newScene()
	s.desired.Replicas = 2
	delete(s.observed.Members, "orders-2")
	s.lose(1)
	s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0"}})
	s.member(0).SQL.SemiSync = SemiSync{SourceEnabled: true, SourceActive: true, WaitCount: 1}
	s.member(0).SQL.PendingCommits = 2
	p, actions := s.plan()
	if actions != "let orders-0 go on alone" || p.Records.Alone != "orders-0" || p.Records.AloneSince != 7 {
		t.Errorf("planned %q, remembered %q since %d", actions, p.Records.Alone, p.Records.AloneSince)
	}
}

// With asynchronous replication the member that was promoted last may be the only one that knows.
func TestAsynchronousLeaderThatNobodyElseKnowsOf(t *testing.T) {
	s := newScene()
	s.desired.Lossless = false
	s.member(0).SQL.Writable = false
	s.lose(1)
	s.io(ioOff, 2)
	s.observed.Records.Leader = "orders-1"
	if _, actions := s.plan(); actions != "stop instance i-1 of orders-1" {
		t.Errorf("planned %q", actions)
	}
}

func TestANewcomerIsNotPromotedBeforeItsAdmissionIsConfirmed(t *testing.T) {
	s := newScene()
	s.lose(0)
	s.io(ioOff, 1, 2)
	s.member(2).SQL.Executed = trx(0, 12)
	s.member(1).SQL.Executed = trx(0, 12)
	s.member(2).SQL.Executed = trx(0, 12).Union(trx(2, 1))
	s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0", "orders-1", "orders-2"}, Previous: []string{"orders-0", "orders-1"}, W: 1})
	if _, actions := s.plan(); strings.Contains(actions, "promote orders-2") {
		t.Errorf("planned %q", actions)
	}
}

func TestPromotionWithoutItsRow(t *testing.T) {
	for name, row := range map[string]struct {
		happened func(*scene)
		actions  string
	}{
		"is recorded":       {func(*scene) {}, "record orders-1 as the primary; replicate orders-2 from orders-1"},
		"waits for its row": {func(s *scene) { s.member(1).SQL.PendingCommits = 1 }, "replicate orders-2 from orders-1"},
		"is fenced off from those who receive from another": {
			func(s *scene) { s.io(ioConnecting, 2) }, "stop acknowledgements of orders-2"},
		"is none when somebody opened a replica": {
			func(s *scene) { s.member(1).SQL.Replication = &Replication{SourceHost: "10.0.0.0", IOState: ioOff} }, "demote orders-1"},
		"is none when it lacks what may be acknowledged": {
			func(s *scene) { s.member(1).SQL.Executed = trx(0, 9) }, "demote orders-1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.lose(0)
			s.member(1).SQL.Writable, s.member(1).SQL.Replication = true, nil
			s.member(1).SQL.SemiSync = SemiSync{SourceEnabled: true, SourceActive: true, WaitCount: 1}
			s.io(ioOff, 2)
			row.happened(s)
			if _, actions := s.plan(); actions != row.actions {
				t.Errorf("planned %q, want %q", actions, row.actions)
			}
		})
	}
}

func TestSwitchover(t *testing.T) {
	for name, row := range map[string]struct {
		happened func(*scene)
		actions  string
		refused  string
	}{
		"as asked for":            {func(s *scene) { s.desired.SwitchoverTo = "orders-2" }, "switch over from orders-0 to orders-2: asked for by annotation", ""},
		"to the primary itself":   {func(s *scene) { s.desired.SwitchoverTo = "orders-0" }, "", ""},
		"to a stranger":           {func(s *scene) { s.desired.SwitchoverTo = "payments-1" }, "", "is no member of this cluster"},
		"to one that is behind":   {func(s *scene) { s.desired.SwitchoverTo = "orders-2"; s.member(2).SQL.Replication.Lag = time.Minute }, "", ""},
		"to one that is no voter": {func(s *scene) { s.desired.SwitchoverTo = "orders-2"; two(s) }, "admit orders-2 as a voter", ""},
		"to one that it failed with": {
			func(s *scene) { s.desired.SwitchoverTo, s.observed.Records.HandOverFailed = "orders-2", "orders-2" }, "", "the switchover to orders-2 failed, and orders-0 was promoted"},
		"to another than that": {
			func(s *scene) { s.desired.SwitchoverTo, s.observed.Records.HandOverFailed = "orders-2", "orders-1" }, "switch over from orders-0 to orders-2: asked for by annotation", ""},
		"before a retirement": {
			func(s *scene) {
				s.member(0).Instances[0].Event, s.member(0).Instances[0].EventAt = "instance-retirement", s.observed.Now.Add(time.Hour)
			}, "switch over from orders-0 to orders-1: EC2 announced instance-retirement", ""},
		"not before one that is far off": {
			func(s *scene) {
				s.member(0).Instances[0].Event, s.member(0).Instances[0].EventAt = "instance-retirement", s.observed.Now.Add(48*time.Hour)
			}, "", ""},
		"not to an instance that is to be disturbed too": {
			func(s *scene) {
				for i := range 2 {
					s.member(i).Instances[0].Event, s.member(i).Instances[0].EventAt = "system-reboot", s.observed.Now.Add(time.Hour)
				}
			}, "switch over from orders-0 to orders-2: EC2 announced system-reboot", ""},
		"before the primary is restarted": {
			func(s *scene) { s.member(0).SQL.RestartPending = true }, "switch over from orders-0 to orders-1: its mysqld is to be restarted", ""},
		"before the primary is restarted because a person asked for it": {
			func(s *scene) { s.desired.RestartedAt = s.startedBut(0) }, "switch over from orders-0 to orders-1: its mysqld is to be restarted", ""},
		"a primary is not restarted while nobody can take over": {
			func(s *scene) {
				s.member(0).SQL.RestartPending = true
				for i := range 2 {
					s.member(i + 1).SQL.Replication.Lag = 5 * time.Second
				}
			}, "", ""},
		"not to a newer version than another member has": {
			func(s *scene) { s.desired.SwitchoverTo = "orders-2"; s.versions("8.4.6", "8.4.6", "9.7.4") }, "", "orders-2 runs MySQL 9.7.4, and orders-1, which runs 8.4.6, would have to replicate from it"},
		"not to a newer version than the primary, which stays a replica": {
			func(s *scene) { s.desired.SwitchoverTo = "orders-2"; s.versions("9.7.4", "9.7.5", "9.7.5") }, "", "and orders-0, which runs 9.7.4"},
		"to an older version": {
			func(s *scene) { s.desired.SwitchoverTo = "orders-2"; s.versions("9.7.5", "9.7.4", "9.7.4") }, "switch over from orders-0 to orders-2: asked for by annotation", ""},
		"replicas are restarted before, when a person asked for it": {
			func(s *scene) { s.desired.RestartedAt = s.startedBut(0, 1, 2) }, "restart mysqld of orders-1", ""},
		"not before the time that a person named": {
			func(s *scene) { s.startedBut(0, 1, 2); s.desired.RestartedAt = s.observed.Now.Add(time.Minute) }, "", ""},
		"nobody is restarted while another is replaced": {
			func(s *scene) {
				s.member(2).SQL.RestartPending = true
				s.observed.Records.Rolling, s.observed.Records.RollingAt = "orders-1", s.observed.Now.Unix()
				s.desired.TemplateHash, s.member(1).Instances[0].TemplateHash = "new", "old"
				s.observed.Launchable = false
			}, "", ""},
		"certificates are renewed where a person asked for it": {
			func(s *scene) {
				s.desired.CertificatesRenewedAt = s.observed.Now.Add(-time.Minute)
				s.member(1).SQL.CertificateIssuedAt = s.observed.Now.Add(-time.Hour)
				s.member(2).SQL.CertificateIssuedAt = s.observed.Now
			}, "sign the certificate of orders-1", ""},
		"replicas are restarted as they are": {
			func(s *scene) { s.member(0).SQL.RestartPending = true; s.member(2).SQL.RestartPending = true }, "restart mysqld of orders-2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			for i := range 3 {
				s.observed.InService[s.desired.MemberName(i)] = true
			}
			row.happened(s)
			p, actions := s.plan()
			if actions != row.actions || !strings.Contains(p.Answers.Switchover.Refused, row.refused) || row.refused == "" && p.Answers.Switchover.Refused != "" {
				t.Errorf("planned %q, want %q; refused %q", actions, row.actions, p.Answers.Switchover.Refused)
			}
		})
	}
}

// versions sets what the members run.
func (s *scene) versions(versions ...string) {
	for i, version := range versions {
		s.member(i).SQL.Version = version
	}
}

// startedBut lets all mysqlds have started just now, but those of some members an hour before. It returns a time in between.
func (s *scene) startedBut(ordinals ...int) time.Time {
	for i := range s.desired.Replicas {
		s.member(i).SQL.StartedAt = s.observed.Now
	}
	for _, i := range ordinals {
		s.member(i).SQL.StartedAt = s.observed.Now.Add(-time.Hour)
	}
	return s.observed.Now.Add(-time.Minute)
}

func TestHibernationAndWaking(t *testing.T) {
	w := newWorld(t, 3)
	w.settle(300)
	w.desired.Hibernate = true
	var plan Plan
	for range 60 {
		if plan = w.pass(-1); plan.Phase == v1alpha1.PhaseHibernated {
			break
		}
	}
	if plan.Phase != v1alpha1.PhaseHibernated || len(w.volumes) != 3 {
		t.Fatalf("phase %s, %d volumes\n%s", plan.Phase, len(w.volumes), strings.Join(w.trace, "\n"))
	}
	for _, m := range w.machines {
		if m.State != stateTerminated {
			t.Errorf("%s is %s", m.ID, m.State)
		}
	}
	launched := w.launches
	w.desired.Hibernate = false
	plan = w.settle(300)
	if w.launches != launched+3 || len(w.volumes) != 3 || len(plan.Membership.Voters) != 3 {
		t.Errorf("%d launches, %d volumes, voters %v", w.launches-launched, len(w.volumes), plan.Membership.Voters)
	}
}

// A copy leaves a member its UUID, but not what it had committed under it. Whoever still holds that would skip what the
// member commits under the same GTIDs as a primary.
func TestRebuiltMemberIsNoVoterWhileOthersHoldWhatItLost(t *testing.T) {
	s := newScene()
	two(s)
	s.observed.CloudReachable = true
	m := s.member(2)
	m.SQL.Executed = trx(0, 10).Union(trx(2, 5))
	s.observed.Snapshots.Known = nil
	p, actions := s.plan()
	if !strings.Contains(actions, "take snapshot") {
		t.Fatalf("planned %q", actions)
	}
	for _, a := range p.Actions {
		if snap, ok := a.(TakeSnapshot); ok {
			s.observed.Snapshots.Known = []Snapshot{{ID: "snap-1", Member: m.Name, VolumeID: snap.VolumeID, Purpose: snap.Purpose, State: snapshotCompleted}}
		}
	}
	if p, actions = s.plan(); actions != "clone orders-2 from orders-0" || p.Records.Members[m.Name].Tail != trx(2, 5).String() {
		t.Fatalf("planned %q, remembers %q", actions, p.Records.Members[m.Name].Tail)
	}
	s.observed.Records = p.Records
	m.SQL.Executed = trx(0, 10)
	s.member(1).SQL.Replication.Retrieved = trx(2, 3)
	if p, actions = s.plan(); actions != "" || p.Records.Members[m.Name].Tail == "" {
		t.Errorf("while another holds it: planned %q, remembers %q", actions, p.Records.Members[m.Name].Tail)
	}
	s.member(1).SQL.Replication.Retrieved = gtid.Set{}
	p, actions = s.plan()
	retire, ok := p.Actions[0].(RetireGTIDs)
	if !ok || p.Records.Members[m.Name].Tail == "" || strings.Join(retire.GTIDs, ",") != strings.Join(trx(2, 5).First(9), ",") || retire.Member != "orders-0" {
		t.Fatalf("once nobody holds it: planned %q, remembers %q", actions, p.Records.Members[m.Name].Tail)
	}
	// Another transaction under one of them is not taken for what was lost.
	m.SQL.Executed = m.SQL.Executed.Union(trx(2, 1))
	m.SQL.Replication.Own.Reading = true
	if p, actions = s.plan(); actions != "" || p.Records.Members[m.Name].Tail == "" {
		t.Fatalf("with another transaction of its own: planned %q", actions)
	}
	m.SQL.Replication.Own.Reading = false
	s.member(0).SQL.Executed = s.member(0).SQL.Executed.Union(trx(2, 5))
	m.SQL.Executed = m.SQL.Executed.Union(trx(2, 5))
	if p, actions = s.plan(); actions != "admit orders-2 as a voter" || p.Records.Members[m.Name].Tail != "" {
		t.Errorf("planned %q, remembers %q", actions, p.Records.Members[m.Name].Tail)
	}
}

// Commits that wait on a member which takes no writes any more are prepared transactions that clients committed after it had
// handed over. Made a replica it would answer them.
func TestCommitsThatWaitOnAFormerPrimaryAreCutOff(t *testing.T) {
	s := newScene()
	m := s.member(2)
	m.SQL.Replication, m.SQL.SemiSync, m.SQL.PendingCommits = nil, SemiSync{SourceEnabled: true, SourceActive: true, WaitCount: 1000}, 1
	if _, actions := s.plan(); actions != "stop instance i-2 of orders-2" {
		t.Errorf("planned %q", actions)
	}
}

func TestCommitsThatWaitAlthoughEnoughAcknowledge(t *testing.T) {
	for name, row := range map[string]struct {
		happened func(*scene)
		nudged   bool
	}{
		"are followed by another": {func(*scene) {}, true},
		"not at once":             {func(s *scene) { s.member(0).StalledSince = s.observed.Now.Add(-stallPatience / 2) }, false},
		"not while too few do":    {func(s *scene) { s.io(ioConnecting, 1, 2) }, false},
		"not while they are answered": {
			func(s *scene) { s.member(0).StalledSince = time.Time{} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.member(0).SQL.PendingCommits, s.member(0).StalledSince = 1, s.observed.Now.Add(-2*time.Second)
			row.happened(s)
			if _, actions := s.plan(); strings.Contains(actions, "empty transaction") != row.nudged {
				t.Errorf("planned %q", actions)
			}
		})
	}
}

// TestWhatASingleMemberShowsIsReported: what is not broken yet, with the member's name and what to do.
func TestWhatASingleMemberShowsIsReported(t *testing.T) {
	for name, row := range map[string]struct {
		happened        func(*Member)
		reason, reports string
	}{
		"little room": {func(m *Member) { m.SQL.Disk = &Disk{SizeBytes: 100 << 30, FreeBytes: 14 << 30} },
			v1alpha1.ReasonDiskNearlyFull, "orders-1: less than 15% of its data volume is left"},
		"room enough": {func(m *Member) { m.SQL.Disk = &Disk{SizeBytes: 100 << 30, FreeBytes: 15 << 30} }, v1alpha1.ReasonDiskNearlyFull, ""},
		"a clock that is behind": {func(m *Member) { m.SQL.ClockSkew = -6 * time.Second },
			v1alpha1.ReasonClockSkew, "orders-1: its clock differs from the operator's by more than 5 seconds"},
		"a clock that is a little ahead": {func(m *Member) { m.SQL.ClockSkew = 5 * time.Second }, v1alpha1.ReasonClockSkew, ""},
		"an event of EC2": {func(m *Member) { m.Instances[0].Event = "instance-retirement" },
			v1alpha1.ReasonMaintenance, "orders-1: EC2 announced instance-retirement of instance i-1"},
	} {
		s := newScene()
		row.happened(s.member(1))
		plan, _ := s.plan()
		got := ""
		for _, f := range plan.Degraded {
			if f.Reason == row.reason {
				got = f.Message
			}
		}
		if (got == "") != (row.reports == "") || !strings.HasPrefix(got, row.reports) {
			t.Errorf("%s: reported %q instead of %q", name, got, row.reports)
		}
	}
}
