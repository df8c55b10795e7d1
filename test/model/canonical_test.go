package model

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"unsafe"
)

// full is a state in which every field decides something.
func full() *state {
	var s state
	s.count = maxTransactions
	for id := range s.transaction {
		s.transaction[id] = transaction{isRow: true, server: 1, row: row{epoch: 3, primary: 2, voters: 7, previous: 3, memory: [maxMembers]uint8{1, 1, 1, 1, 1}}}
	}
	for m := range s.member {
		s.member[m] = member{held: maxTransactions, executed: 2, memory: 1, source: 1, waitFor: 1}
	}
	s.records.leader, s.records.leaving = 1, 1
	s.records.ended = term{known: true, leader: 1}
	s.promotion.candidate, s.certifying.voter = 1, 1
	return &s
}

// leaves calls a function for every number and every flag of a value.
func leaves(path string, v reflect.Value, each func(path string, v reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			leaves(path+"."+v.Type().Field(i).Name, v.Field(i), each)
		}
	case reflect.Array:
		for i := range v.Len() {
			leaves(fmt.Sprintf("%s[%d]", path, i), v.Index(i), each)
		}
	default:
		each(path, reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem())
	}
}

// TestStatesDifferInEveryField fails when a field of a state is not part of what states are compared by: then a search would leave out what
// only that field leads to.
func TestStatesDifferInEveryField(t *testing.T) {
	m, err := New(WithCertificates(), Bounds{Members: maxMembers, Reached: 1})
	if err != nil {
		t.Fatal(err)
	}
	as := renamings(maxMembers)[0]
	before := m.encode(nil, full(), &as)
	s := full()
	leaves("state", reflect.ValueOf(s).Elem(), func(path string, v reflect.Value) {
		was := reflect.ValueOf(v.Interface())
		switch {
		case v.Kind() == reflect.Bool:
			v.SetBool(!v.Bool())
		case v.Uint() > 0:
			v.SetUint(v.Uint() - 1)
		default:
			v.SetUint(1)
		}
		if bytes.Equal(before, m.encode(nil, s, &as)) {
			t.Errorf("states that differ in %s are taken for one", path)
		}
		v.Set(was)
	})
}

// renamed is a state with the members renamed.
func renamed(s *state, r *renaming) *state {
	n := *s
	for id := range int(s.count) {
		from, to := &s.transaction[id], &n.transaction[id]
		to.server = r.one(from.server)
		to.row.primary, to.row.voters, to.row.previous = r.one(from.row.primary), r.sets[from.row.voters], r.sets[from.row.previous]
		for m := range from.row.memory {
			to.row.memory[r.to[m]] = from.row.memory[m]
		}
	}
	for m := range s.member {
		mem := s.member[m]
		mem.source = r.one(mem.source)
		for other := range s.member {
			mem.sent[r.to[other]], mem.answered[r.to[other]] = s.member[m].sent[other], s.member[m].answered[other]
		}
		n.member[r.to[m]] = mem
		n.records.certified[r.to[m]] = s.records.certified[m]
	}
	n.records.leader, n.records.leaving, n.records.ended.leader = r.one(s.records.leader), r.one(s.records.leaving), r.one(s.records.ended.leader)
	n.promotion.candidate, n.leads = r.one(s.promotion.candidate), r.one(s.leads)
	n.certifying.voter, n.certifying.primary = r.one(s.certifying.voter), r.one(s.certifying.primary)
	return &n
}

// TestMembersAreAlike fails when two states that differ in the numbers of members alone are not one, or two others are.
func TestMembersAreAlike(t *testing.T) {
	bounds := Bounds{Members: maxMembers, Reached: 4, Writes: 2, PowerCuts: 1, Kills: 1, Promotions: 1, LostRecords: 1, Certificates: 1, VoterChanges: 1}
	m, err := New(WithCertificates(), bounds)
	if err != nil {
		t.Fatal(err)
	}
	s, checked, ending := m.initial(), 0, 0
	rng := rand.New(rand.NewPCG(1, 1))
	for depth := range 24 {
		of, steps := map[uint64]bool{m.canonical(&s): true}, 0
		var followed state
		all := transitions{Model: m}
		all.visit = func(next *state, _ func() string, _ error) {
			m.tidy(next)
			for i := range m.renamers {
				if got, want := m.canonical(renamed(next, &m.renamers[i])), m.canonical(next); got != want {
					t.Errorf("after %d steps: renaming %v changes the fingerprint", depth, m.renamers[i].to[:])
				}
			}
			if steps++; rng.IntN(steps) == 0 {
				followed = *next
			}
			if next.records.ended.known {
				ending++
			}
			if !of[m.canonical(next)] {
				of[m.canonical(next)] = true
				checked++
			}
		}
		all.from(&s)
		s = followed
	}
	if checked < 24 || ending == 0 {
		t.Errorf("%d different states, %d with a term that is to end; want at least one for each step", checked, ending)
	}
}
