package topology

import (
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// TestClaimsAreFound: what a replica counts as executed and never got, whoever says so, and what looks like it and is not.
func TestClaimsAreFound(t *testing.T) {
	own := func(text string) gtid.Set {
		if text == "" {
			return gtid.Set{}
		}
		return gtid.MustParse(uuidOf(0) + ":" + text)
	}
	// look is what is seen in a pass.
	type look struct {
		primary, waiting, replica, purged string
		change                            func(*scene)
	}
	away := func(s *scene) { s.lose(1) }
	cloned := func(s *scene) { s.member(1).SQL.Clone = &Clone{State: cloneCompleted, Began: "2"} }
	for name, row := range map[string]struct {
		looks   []look
		claimed string
	}{
		"gtid_purged names what is still to come": {[]look{{"1-10", "", "1-10", "1-4", nil}, {"1-20", "", "1-20", "1-4:11-13", nil}}, "11-13"},
		"it is found after the replica was away":  {[]look{{"1-10", "", "1-10", "1-4", nil}, {primary: "1-15", change: away}, {"1-20", "", "1-20", "1-4:11-13", nil}}, "11-13"},
		"it stays so":                             {[]look{{"1-10", "", "1-10", "1-4", nil}, {"1-20", "", "1-20", "1-4:11-13", nil}, {"1-30", "", "1-30", "1-25", nil}}, "11-13"},
		"binary logs are purged":                  {[]look{{"1-10", "", "1-10", "", nil}, {"1-20", "", "1-20", "1-15", nil}}, ""},
		"it is a copy":                            {[]look{{"1-10", "", "1-10", "1-4", nil}, {"1-20", "", "1-20", "1-4:11-13", cloned}}, ""},
		"a copy ends it":                          {[]look{{"1-10", "", "1-10", "1-4", nil}, {"1-20", "", "1-20", "1-4:11-13", nil}, {"1-20", "", "1-20", "1-20", cloned}}, ""},
		"an empty transaction ahead":              {[]look{{"1-10", "", "1-10:15", "", nil}, {"1-11", "", "1-11:15", "", nil}, {"1-12", "", "1-12:15", "", nil}}, "15"},
		"it is ahead of commits that wait":        {[]look{{"1-10", "11", "1-11", "", nil}, {"1-10", "11", "1-11", "", nil}, {"1-10", "11", "1-11", "", nil}, {"1-11", "", "1-11", "", nil}}, ""},
		"it is ahead of an older look":            {[]look{{"1-10", "", "1-12", "", nil}, {"1-12", "", "1-15", "", nil}, {"1-15", "", "1-18", "", nil}, {"1-18", "", "1-18", "", nil}}, ""},
		"committed while the primary answers":     {[]look{{"1-10", "", "1-11", "", nil}, {"1-10", "", "1-11", "", nil}, {"1-11", "", "1-11", "", nil}}, ""},
		"the primary's answer is an old one": {[]look{{"1-10", "", "1-12", "", nil}, {"1-10", "", "1-14", "", nil}, {"1-10", "", "1-14", "", func(s *scene) {
			s.member(0).Asked = s.observed.Now.Add(-time.Hour)
		}}, {"1-14", "", "1-14", "", nil}}, "11-12"},
		"the primary has forgotten it":                  {[]look{{"1-10", "", "1-9", "", nil}, {"1-2", "", "1-10", "", nil}}, "3-10"},
		"it has forgotten it while the replica is away": {[]look{{"1-10", "", "1-9", "", nil}, {primary: "1-3", change: away}, {primary: "1-30", change: away}, {"1-30", "", "1-30", "", nil}}, "4-9"},
		"it has, and the replica is a copy since":       {[]look{{"1-10", "", "1-9", "", nil}, {primary: "1-3", change: away}, {"1-30", "", "1-30", "1-30", cloned}}, ""},
		"it has, and nobody had seen the replica":       {[]look{{primary: "1-10", change: away}, {primary: "1-3", change: away}, {"1-30", "", "1-8", "", nil}}, "4-8"},
	} {
		t.Run(name, func(t *testing.T) {
			var h CommitHistory
			var s *scene
			for pass, l := range row.looks {
				s = newScene()
				s.observed.Now = s.observed.Now.Add(time.Duration(pass) * time.Second)
				s.member(0).SQL.Executed, s.member(0).SQL.Waiting = own(l.primary), own(l.waiting)
				s.member(1).SQL.Executed, s.member(1).SQL.Purged = own(l.replica), own(l.purged)
				s.member(2).SQL.Executed = own(l.primary)
				if l.change != nil {
					l.change(s)
				}
				h.Record(&s.observed)
			}
			if claimed := s.member(1).Claimed; !claimed.Equal(own(row.claimed)) {
				t.Errorf("claims %q, want %q", claimed, own(row.claimed))
			}
		})
	}
}

// TestClaimsAreAGap: who claims transactions is reported, loses its vote and is never promoted, also when it is away or the claim is found
// without a primary. What it acknowledged is uncovered.
func TestClaimsAreAGap(t *testing.T) {
	claim := func(s *scene) { s.member(1).Claimed = gtid.MustParse(uuidOf(0) + ":11-12") }
	s := newScene()
	claim(s)
	p, actions := s.plan()
	if actions != "switch the acknowledgements of orders-1 off" || !told(p, v1alpha1.ReasonMemberUntrusted) || !strings.Contains(p.Records.Members["orders-1"].Gap.Why, ":11") {
		t.Errorf("planned %q, reports %v", actions, p.Degraded)
	}

	s = newScene()
	s.lose(0)
	s.io(ioOff, 1, 2)
	claim(s)
	p = pureNext(s.desired, s.observed)
	if promoted := planned[Promote](p); len(promoted) != 1 || promoted[0].Member != "orders-2" {
		t.Errorf("promotes %v: %v", promoted, p.Degraded)
	}

	s = newScene()
	s.lose(1)
	claim(s)
	s.member(1).SeenClone = "1"
	p = pureNext(s.desired, s.observed)
	back := newScene() // and another operator
	back.observed.Records = p.Records
	back.member(1).SQL.Clone = &Clone{State: cloneCompleted, Began: "1"}
	if p = pureNext(back.desired, back.observed); !p.Records.Members["orders-1"].Gap.found() {
		t.Error("forgotten of a member that was away")
	}
	back.member(1).SQL.Clone.Began = "2"
	if p = pureNext(back.desired, back.observed); p.Records.Members["orders-1"].Gap.found() {
		t.Error("remembered of a copy")
	}
}

// TestClaimsExpose: who acknowledges what it skips covers nothing, nor does anybody as long as the primary gives GTIDs out again.
func TestClaimsExpose(t *testing.T) {
	all := gtid.MustParse(uuidOf(0) + ":1-10")
	for name, row := range map[string]struct {
		then    func(*scene)
		exposed string
	}{
		"a voter claims what is to come": {func(s *scene) {
			s.member(1).SQL.Executed, s.member(1).SQL.Purged = gtid.MustParse(uuidOf(0)+":1-12"), gtid.MustParse(uuidOf(0)+":11-12")
		}, "orders-1 acknowledges transactions and skips them"},
		"the primary has forgotten": {func(s *scene) { s.member(0).SQL.Executed = gtid.Set{} }, "RESET BINARY LOGS AND GTIDS"},
		"all is well":               {func(*scene) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var h CommitHistory
			s := newScene()
			h.Record(&s.observed)
			s = newScene()
			s.observed.Now = s.observed.Now.Add(time.Second)
			row.then(s)
			h.Record(&s.observed)
			e := s.observed.Exposure
			if e.Cause.found() != (row.exposed != "") || !strings.Contains(e.Cause.Why, row.exposed) || !e.Fenced && row.exposed != "" {
				t.Errorf("exposed by %+v", e)
			}
		})
	}
	s := newScene()
	voter := s.member(1)
	row := *s.member(0).SQL.Membership
	if row.holders(s.member(0), s.observed.Members, all) != 2 {
		t.Fatal("the scene is another")
	}
	voter.Claimed = gtid.MustParse(uuidOf(0) + ":10")
	if row.holders(s.member(0), s.observed.Members, all) != 1 || row.mayHold(s.member(0), s.observed.Members, all, time.Time{}) != 1 {
		t.Error("who claims a transaction counts as holding it")
	}
}
