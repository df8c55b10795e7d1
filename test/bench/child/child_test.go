package child

import (
	"context"
	"testing"
	"time"
)

func TestLapperTakesOnlyReconciles(t *testing.T) {
	l := &lapper{}
	l.Since(time.Now())
	(&lappedReconciler{l}).Reconcile(t.Context())
	if n := len(l.take()); n != 1 {
		t.Errorf("%d laps of one reconcile and a look at the clock", n)
	}
	if n := len(l.take()); n != 0 {
		t.Errorf("%d laps were taken twice", n)
	}
}

type lappedReconciler struct{ clock *lapper }

func (r *lappedReconciler) Reconcile(context.Context) { r.clock.Since(r.clock.Now()) }
