package controllers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// errLost is what an operator gets in place of the answer to a statement that succeeded.
var errLost = errors.New("the answer was lost")

// knife counts the changing statements of an operator and cuts at one of them. Statements are counted when they begin, and
// apart from that when they succeed: not every one does, and several members are worked on at the same time.
type knife struct {
	operator *operator
	at       int
	how      cut

	mu           sync.Mutex
	began, ended []string
	cut          string // what was cut, empty until then
}

// hook is mysql.Options.Hook.
func (k *knife) hook(op, phase string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.operator.dead.Load() {
		return errDead
	}
	count := &k.began
	if phase == "after" {
		count = &k.ended
	}
	*count = append(*count, op)
	if len(*count) != k.at || (phase == "before") != (k.how == diesBefore) {
		return nil
	}
	k.cut = op
	if k.how == losesReply {
		return errLost
	}
	k.operator.kill()
	return errDead
}

// life runs an operator until the cluster is as it must be or the operator is dead, and returns what it did.
func (w *sqlWorld) life(at int, how cut) *knife {
	k := &knife{operator: &operator{}, at: at, how: how}
	w.newSQLOperator(k.operator, k.hook)
	w.drive(k.operator, sqlPatience, func() bool { return k.operator.dead.Load() || w.unsettled() == "" })
	return k
}

// TestCrashSweepOverSQLCalls kills the operator before and after each statement by which it changes a mysqld on the way
// from nothing to a Ready cluster, and loses the answer of each. What comes after must find its way to the same cluster,
// with everything in it that an application was told is committed.
func TestCrashSweepOverSQLCalls(t *testing.T) {
	share, seed := intFrom(t, sweepShareVariable, 8), intFrom(t, sweepSeedVariable, int(time.Now().Unix()))
	farm, err := mysqld.NewPrivateFarm(t.Context(), t.Output(), moto.VPCCIDR)
	must(t, err)
	t.Cleanup(func() { must(t, farm.Close()) })
	began := time.Now()
	first := newSQLWorld(t, farm)
	whole := first.life(0, diesBefore)
	first.settle(whole.operator)
	random := rand.New(rand.NewPCG(uint64(seed), 1))
	t.Logf("%d changing statements, %d of them succeed, in %s; one in %d of the cuts, seed %d (repeat with %s=%d)\n%v",
		len(whole.began), len(whole.ended), time.Since(began).Round(time.Millisecond), share, seed, sweepSeedVariable, seed, whole.began)
	tried := 0
	for _, how := range []cut{diesBefore, diesAfter, losesReply} {
		sites := whole.ended
		if how == diesBefore {
			sites = whole.began
		}
		for i := range sites {
			if random.IntN(share) != 0 {
				continue
			}
			tried++
			t.Run(fmt.Sprintf("%s statement %d", how, i+1), func(t *testing.T) {
				t.Parallel()
				sweepSQL(t, farm, i+1, how)
			})
		}
	}
	t.Logf("%d cuts tried", tried)
	if tried == 0 && share <= len(whole.ended) {
		t.Error("no cut was tried")
	}
}

// sweepSQL tries one cut.
func sweepSQL(t *testing.T, farm *mysqld.Farm, at int, how cut) {
	w := newSQLWorld(t, farm)
	k := w.life(at, how)
	t.Logf("%s %q, with %d rows committed", how, k.cut, w.books.count())
	o := k.operator
	if o.dead.Load() {
		o = w.newSQLOperator(&operator{}, nil)
	}
	w.settle(o)
}
