package controllers

import (
	"context"
	"errors"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// TestRecordsAreTakenOver: a new leader makes the records its own in its first pass, and writes nothing after that for its own sake. One
// that was replaced, and does not know yet, neither saves anything nor does anything.
func TestRecordsAreTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	lead := func(name string) (*operator, *int) {
		asked, o := new(int), w.newOperator(nil)
		o.Config.WriterID, o.Config.Lease = name, func(context.Context) error { *asked++; return nil }
		return o, asked
	}
	hand := func() string { _, records := w.records(); return records.WriterID }
	first, asked := lead("first")
	w.remembered(first)
	if hand() != "first" || *asked != 1 {
		t.Errorf("the records are of %q, the lease was asked for %d times", hand(), *asked)
	}
	w.drive(first, patience, w.machinesUp)
	if *asked != 1 {
		t.Errorf("the lease was asked for %d times", *asked)
	}

	second, _ := lead("second")
	w.passes(second, 2)
	if hand() != "second" {
		t.Errorf("the records are of %q", hand())
	}
	version := w.recordsVersion()
	w.passes(second, 2)
	if w.recordsVersion() != version {
		t.Error("the records are written again")
	}

	replaced := errors.New("another leads")
	first.Config.Lease = func(context.Context) error { return replaced }
	w.change(func(c *v1alpha1.MySQLCluster) { c.Spec.Replicas = ptr.To(int32(5)) })
	calls := len(w.changes())
	for range 3 {
		if _, err := w.pass(first); !errors.Is(err, replaced) {
			t.Errorf("a pass of the one that was replaced: %v", err)
		}
	}
	if hand() != "second" || w.recordsVersion() != version || len(w.changes()) != calls {
		t.Errorf("the records are of %q, and these calls were made: %v", hand(), w.changes()[calls:])
	}
	w.drive(second, patience, func() bool { return len(w.changes()) > calls })
}
