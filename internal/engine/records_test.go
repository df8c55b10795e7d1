package engine

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// shelf is a store of records that may show old ones, and lose answers.
type shelf struct {
	stored  []topology.ClusterRecord // by version, which counts from 1
	gone    bool
	shows   int // how many versions the cache lags behind
	reads   int
	answers error // of writes that took effect
	refuses error // of writes that did not
	writes  int
}

func (s *shelf) Version(context.Context) (string, error) {
	n := len(s.stored) - s.shows
	if s.gone || n < 1 {
		return "", nil
	}
	return strconv.Itoa(n), nil
}

func (s *shelf) Read(context.Context) (StoredRecords, error) {
	s.reads++
	n := len(s.stored)
	if s.gone || n < 1 {
		return StoredRecords{}, nil
	}
	return StoredRecords{Found: true, Readable: true, Schema: s.stored[n-1].Schema, Records: s.stored[n-1].Clone(), Version: strconv.Itoa(n)}, nil
}

func (s *shelf) Write(_ context.Context, version string, records topology.ClusterRecord) (string, error) {
	s.writes++
	present := ""
	if len(s.stored) > 0 && !s.gone {
		present = strconv.Itoa(len(s.stored))
	}
	switch {
	case s.refuses != nil:
		return "", s.refuses
	case version != present:
		return "", ErrConflict
	}
	s.stored, s.gone = append(s.stored, records.Clone()), false
	if s.answers != nil {
		return "", s.answers
	}
	return strconv.Itoa(len(s.stored)), nil
}

// free is a lock that nobody else wants.
type free struct{}

func (free) Lock(context.Context) {}
func (free) Unlock()              {}

// begin begins a pass of a process.
func (s *shelf) begin(t *testing.T, memory *RecordMemory, lease error) *Recorder {
	t.Helper()
	r := &Recorder{Store: s, Memory: memory, WriterID: "first", Lease: func(context.Context) error { return lease }}
	if stored, err := r.Open(t.Context(), len(s.stored) > 0 || s.gone); err != nil || !stored {
		t.Fatalf("stored: %t, %v", stored, err)
	}
	return r
}

// promoted saves that a member was promoted.
func promoted(at int64) func(*topology.ClusterRecord) {
	return func(r *topology.ClusterRecord) { r.PromotedAt, r.WriterID = at, "first" }
}

func TestNewRecordsAreNotLostOnes(t *testing.T) {
	s, memory := &shelf{}, NewRecordMemory(free{})
	if r := s.begin(t, memory, nil); r.Lost || r.Now().WriterID != NoWriterID || len(s.stored) != 1 {
		t.Errorf("lost: %t, %+v", r.Lost, r.Now())
	}
	s.stored[0] = topology.ClusterRecord{}
	if r := s.begin(t, NewRecordMemory(free{}), nil); !r.Lost {
		t.Error("records that somebody emptied pass for new ones")
	}
	s.gone = true
	if r := s.begin(t, NewRecordMemory(free{}), nil); !r.Lost {
		t.Error("records that are gone pass for new ones")
	}
}

// TestACacheThatLagsBehindIsNotBelieved: the API server is asked when the cache does not show what this process wrote last, and only
// then.
func TestACacheThatLagsBehindIsNotBelieved(t *testing.T) {
	s, memory := &shelf{}, NewRecordMemory(free{})
	r := s.begin(t, memory, nil)
	for at := range int64(3) {
		if err := r.Save(t.Context(), promoted(at+1)); err != nil {
			t.Fatal(err)
		}
	}
	for lag, reads := range []int{0, 1, 1} {
		s.shows, s.reads = lag, 0
		r := s.begin(t, memory, errors.New("nobody is asked who leads"))
		if r.Now().PromotedAt != 3 || s.reads != reads {
			t.Errorf("%d versions behind: %+v, read %d times", lag, r.Now(), s.reads)
		}
		if err := r.Save(t.Context(), promoted(3)); err != nil || s.writes != 4 {
			t.Errorf("%d versions behind: %v, %d writes", lag, err, s.writes)
		}
	}
}

// TestAWriteWhoseAnswerWasLost: nothing was done that rests on it, so that it does not matter whether it took effect.
func TestAWriteWhoseAnswerWasLost(t *testing.T) {
	for name, tookEffect := range map[string]bool{"stored": true, "not stored": false} {
		t.Run(name, func(t *testing.T) {
			s, memory := &shelf{}, NewRecordMemory(free{})
			if err := s.begin(t, memory, nil).Save(t.Context(), promoted(1)); err != nil {
				t.Fatal(err)
			}
			lost, told := errors.New("no answer"), 0
			r := s.begin(t, memory, nil)
			if s.answers = lost; !tookEffect {
				s.refuses = lost
			}
			if err := r.Save(t.Context(), promoted(2)); !errors.Is(err, lost) || r.Now().PromotedAt != 1 {
				t.Fatalf("%v, %+v", err, r.Now())
			}
			s.answers, s.refuses = nil, nil
			r = s.begin(t, memory, nil)
			r.PutBack = func() { told++ }
			if err := r.Save(t.Context(), promoted(3)); err != nil || r.Now().PromotedAt != 3 || told != 0 {
				t.Errorf("%v, %+v, a person is said %d times to have changed them", err, r.Now(), told)
			}
		})
	}
}

// TestRecordsThatAreTooLargeAreNotWritten: nothing was stored, so the answer of a write is not missing.
func TestRecordsThatAreTooLargeAreNotWritten(t *testing.T) {
	s, memory, told := &shelf{}, NewRecordMemory(free{}), 0
	if err := s.begin(t, memory, nil).Save(t.Context(), promoted(1)); err != nil {
		t.Fatal(err)
	}
	r := s.begin(t, memory, nil)
	s.refuses = &Problem{Reason: v1alpha1.ReasonRecordsTooLarge, Cause: ErrTooLarge}
	if err := r.Save(t.Context(), promoted(2)); !errors.Is(err, ErrTooLarge) || r.Now().PromotedAt != 1 || memory.unanswered {
		t.Fatalf("%v, %+v, a lost answer: %t", err, r.Now(), memory.unanswered)
	}
	s.refuses = nil
	changed := s.stored[len(s.stored)-1].Clone()
	changed.PromotedAt = 9
	s.stored = append(s.stored, changed) // somebody changes them
	r = s.begin(t, memory, nil)
	r.PutBack = func() { told++ }
	if err := r.Save(t.Context(), promoted(3)); err != nil || told != 1 {
		t.Errorf("%v, a person is said %d times to have changed them", err, told)
	}
}

// TestAProcessThatWroteNothingGoesByWhatIsStored: the one before may have written last when this one had the lease already.
func TestAProcessThatWroteNothingGoesByWhatIsStored(t *testing.T) {
	s, memory := &shelf{stored: []topology.ClusterRecord{{Failovers: topology.Failovers{PromotedAt: 1}, WriterID: "second"}}}, NewRecordMemory(free{})
	r := s.begin(t, memory, nil)
	s.stored, s.shows = append(s.stored, topology.ClusterRecord{Failovers: topology.Failovers{PromotedAt: 2}, WriterID: "second"}), 1
	if err := r.Save(t.Context(), promoted(9)); !errors.Is(err, ErrConflict) {
		t.Fatal(err)
	}
	if r := s.begin(t, memory, nil); r.Now().PromotedAt != 2 {
		t.Errorf("it goes by %+v", r.Now())
	}
}

// TestAnEditIsPutBack: while this process leads nobody else decides. Whoever leads no more goes by nothing.
func TestAnEditIsPutBack(t *testing.T) {
	for name, row := range map[string]struct {
		edit  func(*shelf)
		lease error
		back  bool
	}{
		"an edit": {func(s *shelf) {
			s.stored = append(s.stored, topology.ClusterRecord{Failovers: topology.Failovers{PromotedAt: 9}, WriterID: "first"})
		}, nil, true},
		"a deletion": {func(s *shelf) { s.gone = true }, nil, true},
		"another leader's write": {func(s *shelf) {
			s.stored = append(s.stored, topology.ClusterRecord{Failovers: topology.Failovers{PromotedAt: 9}, WriterID: "second"})
		}, errors.New("another leads"), false},
		"gone, as one that is behind": {func(s *shelf) { s.gone = true }, errors.New("another leads"), false},
	} {
		t.Run(name, func(t *testing.T) {
			s, memory := &shelf{}, NewRecordMemory(free{})
			if err := s.begin(t, memory, nil).Save(t.Context(), promoted(1)); err != nil {
				t.Fatal(err)
			}
			row.edit(s)
			told := 0
			r := &Recorder{Store: s, Memory: memory, WriterID: "first", Lease: func(context.Context) error { return row.lease }, PutBack: func() { told++ }}
			if _, err := r.Open(t.Context(), true); (err == nil) != row.back {
				t.Fatal(err)
			}
			if !row.back {
				return
			}
			if err := r.Save(t.Context(), func(*topology.ClusterRecord) {}); err != nil || told != 1 || s.stored[len(s.stored)-1].PromotedAt != 1 {
				t.Errorf("%v, told %d times, stored %+v", err, told, s.stored)
			}
		})
	}
}

// TestRecordsAreTakenOverWithTheLease: never by a process that was replaced.
func TestRecordsAreTakenOverWithTheLease(t *testing.T) {
	s := &shelf{stored: []topology.ClusterRecord{{Failovers: topology.Failovers{PromotedAt: 1}, WriterID: "second"}}}
	replaced := errors.New("another leads")
	r := s.begin(t, NewRecordMemory(free{}), replaced)
	if led, err := r.Remember(t.Context(), topology.ClusterRecord{Failovers: topology.Failovers{PromotedAt: 2}}); led || !errors.Is(err, replaced) || s.writes != 0 {
		t.Errorf("led: %t, %v, %d writes", led, err, s.writes)
	}
	r = s.begin(t, NewRecordMemory(free{}), nil)
	if led, err := r.Remember(t.Context(), topology.ClusterRecord{Failovers: topology.Failovers{PromotedAt: 2}}); !led || err != nil || r.Now().WriterID != "first" {
		t.Errorf("led: %t, %v, %+v", led, err, r.Now())
	}
	if led, err := r.Remember(t.Context(), r.Now()); !led || err != nil || s.writes != 1 {
		t.Errorf("what has not changed is written: %v, %d writes", err, s.writes)
	}
}

// TestWhatIsNotRecordedIsNotDone: the pass ends when its plan cannot be saved, and goes by what is stored.
func TestWhatIsNotRecordedIsNotDone(t *testing.T) {
	for name, refusal := range map[string]error{"somebody else decided": ErrConflict, "no answer": errors.New("the API server does not answer")} {
		t.Run(name, func(t *testing.T) {
			s := &shelf{stored: []topology.ClusterRecord{{Failovers: topology.Failovers{PromotedAt: 1}, WriterID: "first"}}}
			r := s.begin(t, NewRecordMemory(free{}), nil)
			s.refuses = refusal
			if _, err := r.Remember(t.Context(), topology.ClusterRecord{Failovers: topology.Failovers{PromotedAt: 2}}); !errors.Is(err, refusal) {
				t.Errorf("the pass goes on: %v", err)
			}
			if now := r.Now(); now.PromotedAt != 1 {
				t.Errorf("it goes by %+v", now)
			}
		})
	}
}

// TestRecordsOfANewerOperatorAreLeftAlone: also where they cannot be decoded.
func TestRecordsOfANewerOperatorAreLeftAlone(t *testing.T) {
	s := &shelf{stored: []topology.ClusterRecord{{Schema: topology.RecordsSchema + 1}}}
	r := &Recorder{Store: s, Memory: NewRecordMemory(free{})}
	_, err := r.Open(t.Context(), true)
	if p := AsProblem(err); p == nil || p.Reason != v1alpha1.ReasonNewerRecords || s.writes != 0 {
		t.Errorf("%v, %d writes", err, s.writes)
	}
	memory := NewRecordMemory(free{})
	s.stored[0] = topology.ClusterRecord{Failovers: topology.Failovers{PromotedAt: 1}}
	if err := s.begin(t, memory, nil).Save(t.Context(), promoted(2)); err != nil {
		t.Fatal(err)
	}
	s.stored = append(s.stored, topology.ClusterRecord{Schema: topology.RecordsSchema + 1})
	if r := s.begin(t, memory, nil); r.Now().PromotedAt != 2 {
		t.Errorf("this process leads, so that nobody else wrote them: it goes by %+v", r.Now())
	}
	s.stored, s.writes = []topology.ClusterRecord{{}}, 0
	s.stored[0] = topology.ClusterRecord{Failovers: topology.Failovers{PromotedAt: 1}} // of an operator that did not say
	r = s.begin(t, NewRecordMemory(free{}), nil)
	if err := r.Save(t.Context(), promoted(2)); err != nil || s.stored[1].Schema != 1 {
		t.Errorf("%v, stored %+v", err, s.stored)
	}
}

// TestRecordsSayWhatAnOlderOperatorMustKnow: one that would drop a replay leaves a cluster alone that waits for it, and no other.
func TestRecordsSayWhatAnOlderOperatorMustKnow(t *testing.T) {
	s := &shelf{stored: []topology.ClusterRecord{{Failovers: topology.Failovers{PromotedAt: 1}}}}
	r := s.begin(t, NewRecordMemory(free{}), nil)
	for _, row := range []struct {
		change func(*topology.ClusterRecord)
		schema int
	}{
		{func(c *topology.ClusterRecord) { c.Source = "snap-1" }, 1},
		{func(c *topology.ClusterRecord) { c.SourceArchive = &v1alpha1.ArchiveSource{Path: "shop/orders/uid"} }, 2},
		{func(c *topology.ClusterRecord) { c.Replayed = "vol-1" }, 2},
		{func(c *topology.ClusterRecord) { c.Recovered = true }, 1},
	} {
		if err := r.Save(t.Context(), row.change); err != nil || s.stored[len(s.stored)-1].Schema != row.schema {
			t.Errorf("%v, stored %+v, and not schema %d", err, s.stored[len(s.stored)-1], row.schema)
		}
	}
}

// TestRecordsOfANamespaceThatGoes: nothing can be stored, and the next pass does not begin anew.
func TestRecordsOfANamespaceThatGoes(t *testing.T) {
	s, memory := &shelf{gone: true}, NewRecordMemory(free{})
	r := s.begin(t, memory, nil)
	s.refuses = ErrNowhere
	if err := r.Save(t.Context(), promoted(1)); err != nil || r.Lost {
		t.Errorf("%v, lost: %t", err, r.Lost)
	}
	again := &Recorder{Store: s, Memory: memory} // also without a name
	if stored, err := again.Open(t.Context(), true); stored || err != nil || again.Lost || again.Now().PromotedAt != 1 {
		t.Errorf("stored: %t, %v, lost: %t, %+v", stored, err, again.Lost, again.Now())
	}
	unclaimed := &Recorder{Store: s, Memory: NewRecordMemory(free{})}
	if stored, err := unclaimed.Open(t.Context(), false); stored || err != nil {
		t.Errorf("of a new cluster: stored: %t, %v", stored, err)
	}
}
