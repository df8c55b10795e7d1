package archive

import (
	"errors"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// TestASegmentThatIsThereAlready: it is ours, when the answer to its upload was lost; or another pod's, which is said.
func TestASegmentThatIsThereAlready(t *testing.T) {
	f, s := newFolder(t), newSpool(t)
	h := spoolSegment(t, s, Header{Number: 1, AnchorNumber: 1}, 1, 2, began)
	r, closer, err := s.open(h)
	must(t, err)
	must(t, f.Store.Create(t.Context(), f.key(1), r))
	must(t, closer.Close())
	var told Report
	a := New(Options{Folder: f, Spool: s, Report: func(r Report) { told = r }})
	at := server{executed: gtid.MustParse(uuid + ":1-9")}
	published, err := a.publishCommitted(t.Context(), s.Pending(), at)
	if err != nil || !published || len(s.Pending()) > 0 || told.Segments != 1 || !a.holds(gtid.MustParse(uuid+":1-2")) {
		t.Errorf("ours: %v, %v; told %+v", published, err, told)
	}
	another := newSpool(t)
	spoolSegment(t, another, Header{Number: 2, Before: uuid + ":1-2", AnchorNumber: 1}, 3, 3, began)
	storePending(t, another, f)
	spoolSegment(t, s, Header{Number: 2, Before: uuid + ":1-2", AnchorNumber: 1}, 3, 4, began)
	published, err = a.publishCommitted(t.Context(), s.Pending(), at)
	if !errors.Is(err, errTaken) || published || reasonOf(err) != "SegmentExists" || len(s.Pending()) != 1 {
		t.Errorf("another's: %v, %v, which is %s", published, err, reasonOf(err))
	}
	stored, err := f.Header(t.Context(), 2)
	must(t, err)
	if stored.GTIDSet != uuid+":3" {
		t.Errorf("it was written over: %+v", stored)
	}
}
