package model

import "testing"

func find(t *testing.T, rules Rules, bounds Bounds, limits Limits) Result {
	t.Helper()
	m, err := New(rules, bounds)
	if err != nil {
		t.Fatal(err)
	}
	r := m.Search(t.Context(), limits)
	t.Logf("%s; %s: %d states, %d transitions, depth %d", rules, bounds, r.States, r.Transitions, r.Depth)
	return r
}

func show(t *testing.T, counterexample []string) {
	t.Helper()
	for i, words := range counterexample {
		t.Logf("%2d %s", i+1, words)
	}
}

// TestRulesHold visits every state within bounds that take a few seconds. make model has larger ones.
func TestRulesHold(t *testing.T) {
	for name, c := range map[string]struct {
		rules  Rules
		bounds Bounds
	}{
		"two members, synced relay logs":            {WithSyncedRelayLogs(), Bounds{Members: 2, Reached: 1, Writes: 1, PowerCuts: 1, Kills: 1, Promotions: 1, LostRecords: 1}},
		"two members, certificates":                 {WithCertificates(), Bounds{Members: 2, Reached: 1, Writes: 1, PowerCuts: 1, Kills: 1, Promotions: 1, LostRecords: 1, Certificates: 1}},
		"two members, upgrading":                    {Upgrading(), Bounds{Members: 2, Reached: 1, Writes: 1, PowerCuts: 1, Promotions: 1, Certificates: 1}},
		"three members, synced relay logs":          {WithSyncedRelayLogs(), Bounds{Members: 3, Reached: 1, Writes: 1, PowerCuts: 1, Promotions: 1}},
		"three members, certificates":               {WithCertificates(), Bounds{Members: 3, Reached: 1, Writes: 1, PowerCuts: 1, Promotions: 1}},
		"three members, a voter is certified":       {WithCertificates(), Bounds{Members: 3, Reached: 2, Writes: 1, PowerCuts: 1, Promotions: 1, Certificates: 1}},
		"three members, all reached, voters change": {WithSyncedRelayLogs(), Bounds{Members: 3, Reached: 3, Writes: 1, Kills: 1, Promotions: 1, VoterChanges: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r := find(t, c.rules, c.bounds, Limits{})
			if r.Broken != nil {
				show(t, r.Counterexample)
				t.Fatal(r.Broken)
			}
			if !r.Exhaustive {
				t.Error("not every state within the bounds was visited")
			}
		})
	}
}

// TestVotersChangeSoundly visits the first states of a larger search: all of them take half a minute.
func TestVotersChangeSoundly(t *testing.T) {
	bounds := Bounds{Members: 3, Reached: 2, Writes: 1, Promotions: 1, VoterChanges: 1}
	if r := find(t, WithSyncedRelayLogs(), bounds, Limits{States: 1_000_000}); r.Broken != nil {
		show(t, r.Counterexample)
		t.Error(r.Broken)
	}
}

// TestEveryMutantIsFound shows that each rule is needed, and that the model is not blind. A shortest counterexample of another length says
// that the model allows more, or less, than it did.
func TestEveryMutantIsFound(t *testing.T) {
	for _, mutant := range Mutants() {
		t.Run(mutant.Name, func(t *testing.T) {
			r := find(t, mutant.Rules, mutant.Bounds, Limits{States: 1_000_000})
			if r.Broken == nil {
				t.Fatal("a cluster with this rule broken loses nothing within the bounds")
			}
			if r.Depth != mutant.Steps {
				show(t, r.Counterexample)
				t.Errorf("a shortest counterexample has %d steps, want %d", r.Depth, mutant.Steps)
			}
		})
	}
}

// TestRandomWalks goes far beyond the bounds of TestRulesHold, without any claim to completeness.
func TestRandomWalks(t *testing.T) {
	bounds := Bounds{Reached: 2, Writes: 3, PowerCuts: 3, Kills: 2, Promotions: 3, LostRecords: 1, Certificates: 3, VoterChanges: 2, Transactions: 13}
	for _, c := range []struct{ members, walks int }{{3, 500}, {5, 100}} {
		for _, rules := range []Rules{WithSyncedRelayLogs(), WithCertificates(), Upgrading()} {
			bounds.Members = c.members
			m, err := New(rules, bounds)
			if err != nil {
				t.Fatal(err)
			}
			r := m.Walk(t.Context(), 1, c.walks)
			t.Logf("%s; %s: %d steps, %d acknowledged, %d promotions", rules, bounds, r.Steps, r.Acknowledged, r.Promotions)
			if r.Broken != nil {
				show(t, r.Counterexample)
				t.Errorf("%s; %s: %v", rules, bounds, r.Broken)
			}
			if r.Acknowledged == 0 || r.Promotions == 0 {
				t.Errorf("%s; %s: nothing was acknowledged, or nobody promoted", rules, bounds)
			}
		}
	}
}

// TestWalksFindABrokenRule shows that the walks are not blind.
func TestWalksFindABrokenRule(t *testing.T) {
	mutant := Mutants()[0]
	m, err := New(mutant.Rules, mutant.Bounds)
	if err != nil {
		t.Fatal(err)
	}
	if r := m.Walk(t.Context(), 1, 20000); r.Broken == nil {
		t.Errorf("%d walks did not notice: %s", r.Walks, mutant.Name)
	}
}

// TestBoundsAreChecked keeps a search from running beyond what a state can hold.
func TestBoundsAreChecked(t *testing.T) {
	for _, b := range []Bounds{
		{Members: 1, Reached: 1},
		{Members: maxMembers + 1, Reached: 1},
		{Members: 3},
		{Members: 3, Reached: 4},
		{Members: 3, Reached: 1, Transactions: maxTransactions + 1},
	} {
		if _, err := New(WithCertificates(), b); err == nil {
			t.Errorf("%+v: no error", b)
		}
	}
}
