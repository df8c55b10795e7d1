package topology

import (
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// refused1146 is what a member shows of its last CLONE without the plug-in.
func refused1146() *Clone {
	return &Clone{State: cloneUnread, Message: "Table 'performance_schema.clone_status' doesn't exist"}
}

// TestUnreadCloneKeepsGapAndRequest: a gap that was found, and a rebuild that was asked for, while the last CLONE was not shown are not done with
// when it is shown again.
func TestUnreadCloneKeepsGapAndRequest(t *testing.T) {
	s := newScene()
	s.observed.CloudReachable = true
	s.leaveOut(2)
	s.desired.RebuildMember = "orders-2"
	m := s.member(2)
	m.SQL.Clone = refused1146()
	p, _ := s.plan()
	if rec := p.Records.Members["orders-2"]; !rec.Gap.found() || rec.Rebuild.At != 0 || !told(p, v1alpha1.ReasonMemberUntrusted) {
		t.Fatalf("remembers %+v, reports %v", rec, p.Degraded)
	}
	s.observed.Records = p.Records
	m.SQL.Replication.Filters = nil
	m.SQL.Clone = &Clone{State: cloneCompleted, Began: "1"}
	p, _ = s.plan()
	rec := p.Records.Members["orders-2"]
	if !rec.Gap.found() || rec.Gap.After != "1" || rec.Rebuild.At == 0 || rec.Rebuild.After != "1" || p.Answers.Rebuild.Done != "" {
		t.Fatalf("once it is shown: remembers %+v, answers %+v", rec, p.Answers.Rebuild)
	}
	s.observed.Records = p.Records
	m.SQL.Clone.Began = "2"
	if p, _ = s.plan(); p.Records.Members["orders-2"].Gap.found() || p.Answers.Rebuild.Done == "" {
		t.Errorf("once it was cloned: remembers %+v, answers %+v", p.Records.Members["orders-2"], p.Answers.Rebuild)
	}
}

// TestUnreadCloneKeepsFromVotingAlone: a replica without a vote may be what a CLONE that was cut off left behind. A voter goes on.
func TestUnreadCloneKeepsFromVotingAlone(t *testing.T) {
	s := newScene()
	s.member(2).SQL.Clone = refused1146()
	if _, actions := s.plan(); actions != "" {
		t.Errorf("a voter: planned %q", actions)
	}
	two(s)
	s.member(2).SQL.Replication = nil
	p, actions := s.plan()
	if step := viewOf(p, "orders-2").Step.Message; actions != "" || !strings.Contains(step, "clone_status' doesn't exist") {
		t.Errorf("without a vote: planned %q, waits for %q", actions, step)
	}
	s.member(2).SQL.Clone = nil
	if _, actions = s.plan(); actions == "" {
		t.Error("with the plug-in nothing is planned")
	}
}

// TestUnreadCloneIsSaidBeforeTheBeginning: a cluster whose servers lack the plug-in begins on none, is restored into none, and says why.
func TestUnreadCloneIsSaidBeforeTheBeginning(t *testing.T) {
	for _, recover := range []bool{false, true} {
		d, o := fresh()
		d.Recover = recover
		for _, m := range o.Members {
			m.SQL.Clone = refused1146()
		}
		p := pureNext(d, o)
		if len(planned[Bootstrap](p))+len(planned[Recover](p)) > 0 || !strings.Contains(p.Waiting.Message, "clone_status' doesn't exist") {
			t.Errorf("recover %t: planned %v, waits for %+v", recover, p.Actions, p.Waiting)
		}
	}
}

// TestClaimsOutliveAnUnreadClone: what a replica claims stays known, and is found, while its last CLONE is not shown.
func TestClaimsOutliveAnUnreadClone(t *testing.T) {
	var h claimHistory
	set := func(text string) gtid.Set { return gtid.MustParse(uuidOf(0) + ":" + text) }
	look := func(executed, purged string, clone *Clone) string {
		s := newScene()
		s.member(0).SQL.Executed = set("1-40")
		s.member(1).SQL.Executed, s.member(1).SQL.Purged, s.member(1).SQL.Clone = set(executed), set(purged), clone
		h.record(&s.observed, s.member(0))
		return s.member(1).Claimed.String()
	}
	seeded := &Clone{State: cloneCompleted, Began: "1"}
	look("1-10", "1-4", seeded)
	if got := look("1-20", "1-4:11-13", seeded); got != set("11-13").String() {
		t.Fatalf("claims %q", got)
	}
	if got := look("1-20", "1-4:11-13", refused1146()); got != set("11-13").String() {
		t.Errorf("unread, it claims %q", got)
	}
	if got := look("1-30", "1-4:11-13:21-23", refused1146()); got != set("11-13:21-23").String() {
		t.Errorf("unread again, it claims %q", got)
	}
	if got := look("1-30", "1-4:11-13:21-23", seeded); got != set("11-13:21-23").String() {
		t.Errorf("shown again, it claims %q", got)
	}
	if got := look("1-30", "1-30", &Clone{State: cloneCompleted, Began: "2"}); got != "" {
		t.Errorf("cloned, it claims %q", got)
	}
}

// TestClaimsOfWhatIsUnreadFirst: an operator that starts while the last CLONE is not shown keeps what it finds until then.
func TestClaimsOfWhatIsUnreadFirst(t *testing.T) {
	var h claimHistory
	claimed := gtid.MustParse(uuidOf(0) + ":11-13")
	for i, clone := range []*Clone{refused1146(), refused1146(), {State: cloneCompleted, Began: "1"}} {
		s := newScene()
		m := s.member(1)
		m.SQL.Executed, m.SQL.Purged, m.SQL.Clone = gtid.MustParse(uuidOf(0)+":1-10"), gtid.MustParse(uuidOf(0)+":1-4"), clone
		if i > 0 {
			m.SQL.Executed, m.SQL.Purged = m.SQL.Executed.Union(claimed), m.SQL.Purged.Union(claimed)
		}
		h.record(&s.observed, s.member(0))
		if i > 0 && !m.Claimed.Equal(claimed) {
			t.Errorf("look %d: claims %q", i, m.Claimed)
		}
	}
}

// TestPrimaryForgetsWhileItsCloneIsUnread: what a primary has forgotten is found in the pass in which its last CLONE is not shown any more, and in
// the one in which it is shown again.
func TestPrimaryForgetsWhileItsCloneIsUnread(t *testing.T) {
	seeded := &Clone{State: cloneCompleted, Began: "1"}
	for name, clones := range map[string][2]*Clone{
		"hidden":      {seeded, refused1146()},
		"shown again": {refused1146(), seeded},
	} {
		var h claimHistory
		for i, clone := range clones {
			s := newScene()
			s.member(0).SQL.Clone, s.member(0).SQL.Executed = clone, gtid.MustParse(uuidOf(0)+":1-10")
			s.member(1).SQL.Executed = s.member(0).SQL.Executed
			if i == 1 {
				s.member(0).SQL.Executed = gtid.Set{}
			}
			h.record(&s.observed, s.member(0))
			if i == 1 && s.member(1).Claimed.IsEmpty() {
				t.Errorf("%s: nobody claims what the primary has forgotten", name)
			}
		}
	}
}

// TestUnreadCloneIsReportedWithoutItsPlugIn: what the operator loads again, and what a person is to look for, is a plug-in that is missing.
func TestUnreadCloneIsReportedWithoutItsPlugIn(t *testing.T) {
	for _, missing := range []bool{false, true} {
		s := newScene()
		s.member(2).SQL.Clone = refused1146()
		if missing {
			s.member(2).SQL.Drifted = map[string]string{mysql.ClonePlugin: "ON"}
		}
		if p, _ := s.plan(); told(p, v1alpha1.ReasonMemberUntrusted) != missing {
			t.Errorf("missing %t: reports %v", missing, p.Degraded)
		}
	}
}

// TestMemberThatIsRestoredGetsThePlugInOfClone: nothing else is set on its server, and without the plug-in its restore would wait for ever.
func TestMemberThatIsRestoredGetsThePlugInOfClone(t *testing.T) {
	d, o := fresh()
	o.Records.Recovering = "vol-orders-0"
	for _, name := range []string{"orders-0", "orders-1"} {
		m := o.Members[name]
		m.SQL.Clone, m.SQL.Drifted = refused1146(), map[string]string{mysql.ClonePlugin: "ON", "sync_binlog": "1"}
	}
	set := map[string]int{}
	for _, a := range planned[PinSettings](pureNext(d, o)) {
		set[a.Member] = len(a.Settings)
		if a.Settings[mysql.ClonePlugin] != "ON" {
			t.Errorf("on %s: sets %v", a.Member, a.Settings)
		}
	}
	if set["orders-0"] != 1 || set["orders-1"] != 2 {
		t.Errorf("sets %v", set)
	}
}
