package archive

import (
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/binlog"
)

// TestATimeAheadEndsWithItsSegment: one commit that claims to be of next year does not make the archive reach until then, and is named.
func TestATimeAheadEndsWithItsSegment(t *testing.T) {
	s := newSpool(t)
	closed := began.Add(10 * time.Second)
	segment := func(next Header, last time.Time, closed time.Time) *Header {
		t.Helper()
		w, err := s.begin(next, format(t), began)
		must(t, err)
		must(t, w.write(event(2, []byte("transaction"))))
		w.committed(&binlog.Transaction{UUID: uuid, Number: 1, Committed: began})
		w.committed(&binlog.Transaction{UUID: uuid, Number: 2, Committed: last})
		h, err := w.finish(closed)
		must(t, err)
		return h
	}
	wrong := began.AddDate(1, 0, 0)
	h := segment(Header{Number: 1}, wrong, closed)
	if !h.Reaches.Equal(closed) || h.Ahead != uuid+":2" || !h.Last.Equal(wrong) {
		t.Errorf("it says %+v", h)
	}
	fine := segment(Header{Number: 2, Times: Times{Reaches: h.Until()}}, closed.Add(ClockTolerance), closed)
	if !fine.Reaches.Equal(closed.Add(ClockTolerance)) || fine.Ahead != "" {
		t.Errorf("a clock that is a little ahead: %+v", fine)
	}
	// A header of an earlier release has inherited such a time.
	old := Header{Times: Times{ClosedAt: closed, Last: closed.Add(-time.Second), Reaches: wrong}}
	if got := old.Until(); !got.Equal(old.Last) {
		t.Errorf("it reaches until %s", got)
	}
	if old.Last = wrong; !old.Until().Equal(closed) {
		t.Errorf("the segment itself reaches until %s", old.Until())
	}
	a := New(Options{})
	a.recordNewest(h, server{})
	if r := a.report; r.TimeAhead != h.ahead() || !r.AheadSince.Equal(closed) || r.CoveredUntil.After(closed) {
		t.Errorf("the report is %+v", r)
	}
}
