package model

import "testing"

// TestEachCandidateIsProvenInTheSameState keeps the copies of a state from being reused while they are needed: every member may be a candidate,
// and each is proven in the state in which all are fenced.
func TestEachCandidateIsProvenInTheSameState(t *testing.T) {
	m, err := New(WithCertificates(), Bounds{Members: maxMembers, Reached: maxMembers, Promotions: 1})
	if err != nil {
		t.Fatal(err)
	}
	s := m.initial()
	s.stopServer(0)
	s.records.leader = nobody
	candidates := members(0)
	steps := transitions{Model: m, visit: func(next *state, _ func() string, _ error) {
		if next.promotion.stage != proven {
			return
		}
		candidates |= 1 << next.promotion.candidate
		next.promotion = s.promotion
		next.records = s.records
		for i := range next.member {
			if next.member[i].receiving {
				t.Errorf("%s is not fenced", name(i))
			}
			next.member[i].receiving = s.member[i].receiving
		}
		if *next != s {
			t.Error("a proof changed more than the records, the promotion and who receives")
		}
	}}
	steps.operator(&s)
	if candidates != m.all() {
		t.Errorf("candidates are %s, want all members", candidates)
	}
}
