package topology

import (
	"slices"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// TestFullServerLetsItsReplicasIn: what a full primary does about replicas that it refuses, and afterwards.
func TestFullServerLetsItsReplicasIn(t *testing.T) {
	full := func(s *scene, connections, limit, own int, refused ...int) {
		s.member(0).SQL.Connections, s.member(0).SQL.MaxConnections = connections, limit
		rec := s.observed.Records.Members["orders-0"]
		rec.MaxConnections = own
		s.observed.Records.Members["orders-0"] = rec
		for _, i := range refused {
			r := s.member(i).SQL.Replication
			r.IOState, r.SourceIsFull = ioConnecting, true
		}
	}
	for name, row := range map[string]struct {
		happened func(*scene)
		action   string
		own      int
	}{
		"all is well":                          {func(s *scene) { full(s, 20, 151, 0) }, "", 0},
		"full, but the replicas are there":     {func(s *scene) { full(s, 151, 151, 0) }, "", 0},
		"a replica is refused":                 {func(s *scene) { full(s, 152, 151, 0, 2) }, "let orders-0 take 251 connections", 151},
		"and again":                            {func(s *scene) { full(s, 251, 251, 151, 1, 2) }, "let orders-0 take 351 connections", 151},
		"and for ever":                         {func(s *scene) { full(s, 704, 704, 151, 1, 2) }, "", 151},
		"whatever else is to be done":          {func(s *scene) { full(s, 152, 151, 0, 2); s.observed.DatabaseReady = false }, "let orders-0 take 251 connections", 151},
		"a small one that is not full":         {func(s *scene) { full(s, 6, 12, 0, 2) }, "", 0},
		"a large server":                       {func(s *scene) { full(s, 4000, 4000, 0, 1) }, "let orders-0 take 6000 connections", 4000},
		"not more than MySQL takes":            {func(s *scene) { full(s, 99_999, 99_999, 0, 1) }, "let orders-0 take 100000 connections", 99_999},
		"refused a moment ago, and room now":   {func(s *scene) { full(s, 30, 151, 0, 1) }, "", 0},
		"let in, and the others are there":     {func(s *scene) { full(s, 200, 251, 151) }, "", 151},
		"let in, and the others have gone":     {func(s *scene) { full(s, 100, 251, 151) }, "let orders-0 take 151 connections", 151},
		"put back":                             {func(s *scene) { full(s, 100, 151, 151) }, "", 0},
		"the user wants another number now":    {func(s *scene) { full(s, 100, 400, 151); s.wants("max_connections", "300") }, "let orders-0 take 300 connections", 151},
		"the user wants more than was given":   {func(s *scene) { full(s, 100, 251, 151); s.wants("max_connections", "300") }, "", 0},
		"a server of before that says nothing": {func(s *scene) { full(s, 0, 0, 0, 1) }, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			row.happened(s)
			plan := pureNext(s.desired, s.observed)
			var planned []string
			for i, a := range plan.Actions {
				if limit, ok := a.(SetMaxConnections); ok {
					if i > 0 && limit.Limit > s.member(0).SQL.MaxConnections {
						t.Errorf("%s comes before it", plan.Actions[0])
					}
					planned = append(planned, limit.String())
				}
			}
			if got := strings.Join(planned, ", "); got != row.action || plan.Records.Members["orders-0"].MaxConnections != row.own {
				t.Errorf("planned %q, want %q; remembers %d, want %d", got, row.action, plan.Records.Members["orders-0"].MaxConnections, row.own)
			}
			// While the limit is not its own, or cannot be raised, clients are refused: a person has to know.
			told := slices.ContainsFunc(plan.Degraded, func(f Finding) bool { return f.Reason == v1alpha1.ReasonTooManyConnections })
			if crowded := row.own != 0 && !strings.Contains(name, "gone") && !strings.Contains(name, "another number"); told != crowded {
				t.Errorf("it is told: %t; %v", told, plan.Degraded)
			}
		})
	}
}

// wants sets a setting of the spec, which the members have taken.
func (s *scene) wants(name, value string) {
	s.desired.Settings = map[string]string{name: value}
	for i := range s.desired.Replicas {
		s.member(i).SQL.Persisted = map[string]string{name: value}
	}
}

// TestLimitThatIsTakenOutWhileItIsRaised: its default would shut the replicas out again, so that it waits until they are in.
func TestLimitThatIsTakenOutWhileItIsRaised(t *testing.T) {
	s := settingsScene(map[string]string{"max_connections": "300"})
	s.desired.Settings = nil
	s.member(0).SQL.Connections, s.member(0).SQL.MaxConnections = 299, 450
	rec := s.observed.Records.Members["orders-0"]
	rec.MaxConnections = 300
	s.observed.Records.Members["orders-0"] = rec
	if _, actions := s.next(); actions != "apply max_connections to orders-1; apply max_connections to orders-2" {
		t.Errorf("planned %q while it is raised", actions)
	}
	s.member(0).SQL.MaxConnections = 300
	s.next()
	if _, actions := s.next(); !strings.Contains(actions, "apply max_connections to orders-0") {
		t.Errorf("planned %q once it is put back", actions)
	}
}
