package topology

import (
	"strings"
	"testing"
	"time"
)

// asked has a person ask for the rebuild of a member whose last CLONE was "1", a minute ago.
func (s *scene) asked(ordinal int) {
	name := s.desired.MemberName(ordinal)
	s.desired.RebuildMember = name
	s.member(ordinal).SQL.Clone = &Clone{State: cloneCompleted, Began: "1"}
	rec := s.observed.Records.Members[name]
	rec.Rebuild = RebuildRequest{At: s.observed.Now.Add(-time.Minute).Unix(), After: "1"}
	s.observed.Records.Members[name] = rec
}

func TestRebuildOnRequest(t *testing.T) {
	for name, row := range map[string]struct {
		happened func(*scene)
		actions  string
		says     string // of the member
		refused  string
		done     bool
	}{
		"it is silenced first": {
			func(s *scene) { s.asked(2) }, "switch the acknowledgements of orders-2 off", "losing its vote before it is rebuilt", "", false},
		"then it loses its vote": {
			func(s *scene) { s.asked(2); s.silenced(2); s.observed.Records.Leaving = "orders-2" }, "remove orders-2 from the voters", "losing its vote before it is rebuilt", "", false},
		"then a snapshot is taken": {
			func(s *scene) { two(s); s.asked(2) }, "take snapshot quarantine-", "taking a snapshot before it is rebuilt", "", false},
		"not without EC2": {
			func(s *scene) { two(s); s.asked(2); s.observed.CloudReachable = false }, "", "waiting for EC2's API", "", false},
		"it is cloned after that": {
			func(s *scene) { two(s); s.asked(2); s.snapshotTaken() }, "clone orders-2 from orders-0", "seeding by CLONE from orders-0", "", false},
		"it goes on": {
			func(s *scene) {
				two(s)
				s.asked(2)
				s.member(2).SQL.Clone = &Clone{State: cloneInProgress, Began: "2", Message: "file copy"}
			}, "", "being cloned: file copy", "", false},
		"it failed": {
			func(s *scene) {
				two(s)
				s.asked(2)
				s.snapshotTaken()
				s.member(2).SQL.Clone = &Clone{State: cloneFailed, Began: "2", Message: "the donor went away"}
			}, "clone orders-2 from orders-0", "seeding by CLONE from orders-0", "", false},
		"it is done": {
			func(s *scene) { two(s); s.asked(2); s.member(2).SQL.Clone.Began = "2" }, "admit orders-2 as a voter", "", "", true},
		"it is done also when nobody had ever cloned it": {
			func(s *scene) {
				two(s)
				s.asked(2)
				rec := s.observed.Records.Members["orders-2"]
				rec.Rebuild.After = ""
				s.observed.Records.Members["orders-2"] = rec
			}, "admit orders-2 as a voter", "", "", true},
		"another member has no vote": {
			func(s *scene) { two(s); s.asked(1) }, "admit orders-2 as a voter", "to be rebuilt; waiting until all other members are voters", "", false},
		"the other one does not answer": {
			func(s *scene) { s.asked(2); s.lose(1) }, "", "to be rebuilt; waiting until enough other voters acknowledge", "", false},
		"the other one receives late": {
			func(s *scene) { s.asked(2); s.member(1).SQL.Replication.UpToDate = false }, "", "to be rebuilt; waiting until enough other voters acknowledge", "", false},
		"it does not answer": {
			func(s *scene) { s.asked(2); s.lose(2) }, "", "", "", false},
		"it does not answer since long before": {
			func(s *scene) {
				s.desired.RebuildMember = "orders-2"
				s.lose(2)
				s.member(2).DownSince = s.observed.Now.Add(-cyclePatience)
			}, "stop instance i-2 of orders-2", "", "end its instance and delete volume vol-2 in EC2", false},
		"it has just begun to be silent": {
			func(s *scene) {
				s.desired.RebuildMember = "orders-2"
				s.lose(2)
				s.member(2).DownSince = s.observed.Now.Add(-cyclePatience / 2)
			}, "", "", "", false},
		"it names the primary": {
			func(s *scene) { s.desired.RebuildMember = "orders-0" }, "", "", "orders-0 is the primary; switch over to another member first", false},
		"it names the primary, which was promoted meanwhile": {
			func(s *scene) { s.asked(0); s.member(0).SQL.Clone.Began = "1" }, "", "", "orders-0 is the primary", false},
		"it names a stranger": {
			func(s *scene) { s.desired.RebuildMember = "payments-1" }, "", "", `"payments-1" is no member of this cluster; name one of orders-0 to orders-2`, false},
		"it names one too many": {
			func(s *scene) { s.desired.RebuildMember = "orders-3" }, "", "", `"orders-3" is no member`, false},
		"nobody runs a version that it can be cloned from": {
			func(s *scene) { s.asked(2); s.versions("8.4.6", "8.4.6", "9.7.4"); s.desired.Version = "9.7.4" }, "", "", "orders-2 runs MySQL 9.7.4, and no voter of that series can be cloned from. To have it made anew, set spec.version back to 8.4.6", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			row.happened(s)
			p, actions := s.plan()
			if row.actions == "" && actions != "" || !strings.Contains(actions, row.actions) {
				t.Errorf("planned %q, want %q", actions, row.actions)
			}
			if row.refused == "" && p.Answers.Rebuild.Refused != "" || !strings.Contains(p.Answers.Rebuild.Refused, row.refused) {
				t.Errorf("refused %q, want %q", p.Answers.Rebuild.Refused, row.refused)
			}
			if (p.Answers.Rebuild.Done != "") != row.done {
				t.Errorf("done: %q", p.Answers.Rebuild.Done)
			}
			for _, v := range p.Members {
				if row.says != "" && v.Name == s.desired.RebuildMember && !strings.Contains(v.Step.Message, row.says) {
					t.Errorf("it says %q, want %q", v.Step.Message, row.says)
				}
			}
		})
	}
}

// snapshotTaken has EC2 show the snapshot that the next plan asks for.
func (s *scene) snapshotTaken() {
	p := pureNext(s.desired, s.observed)
	for _, snap := range planned[TakeSnapshot](p) {
		s.observed.Snapshots.Known = append(s.observed.Snapshots.Known, Snapshot{ID: "snap-1", Member: snap.Member, VolumeID: snap.VolumeID, Purpose: snap.Purpose, State: snapshotCompleted})
	}
}

// TestRebuildRequestIsRemembered from when it is first seen until the person, or the operator, takes it back.
func TestRebuildRequestIsRemembered(t *testing.T) {
	s := newScene()
	s.desired.RebuildMember = "orders-2"
	s.member(2).SQL.Clone = &Clone{State: cloneCompleted, Began: "1"}
	remembered := func() RebuildRequest {
		p := pureNext(s.desired, s.observed)
		if p.Records.Equal(s.observed.Records) && p.Records.Members["orders-2"] != s.observed.Records.Members["orders-2"] {
			t.Error("it is not among what makes two records differ")
		}
		s.observed.Records = p.Records
		return p.Records.Members["orders-2"].Rebuild
	}
	first := remembered()
	if first != (RebuildRequest{At: s.observed.Now.Unix(), After: "1"}) {
		t.Fatalf("remembered is %+v", first)
	}
	s.observed.Now = s.observed.Now.Add(time.Minute)
	if again := remembered(); again != first {
		t.Errorf("a minute later remembered is %+v", again)
	}
	s.lose(2)
	if again := remembered(); again != first {
		t.Errorf("while it does not answer remembered is %+v", again)
	}
	s.desired.RebuildMember = ""
	if again := remembered(); again != (RebuildRequest{}) {
		t.Errorf("of a request that was taken back remembered is %+v", again)
	}
	// What is not known of a member is not remembered as if it were.
	s = newScene()
	s.desired.RebuildMember = "orders-2"
	s.member(2).SQL.Misconfigured = map[string]string{"performance_schema": "OFF"}
	if blind := remembered(); blind != (RebuildRequest{}) {
		t.Errorf("of a member that does not show its last CLONE remembered is %+v", blind)
	}
}
