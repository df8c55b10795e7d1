package controllers

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// Environment of the crash sweep: the share of the call sites that is tried (1 for all, 8 for an eighth, the default)
// and the seed that chooses them.
const (
	sweepShareVariable = "NAIROBI_SWEEP_SHARE"
	sweepSeedVariable  = "NAIROBI_SEED"
)

// cut says what happens to the operator at one call to AWS.
type cut string

const (
	diesBefore cut = "dies before"
	diesAfter  cut = "dies after"
	losesReply cut = "loses the answer of"
)

// scissors count the calls to AWS and cut at one of them.
type scissors struct {
	next     http.RoundTripper
	operator *operator
	at       int64
	how      cut
	calls    atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (s *scissors) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.operator.dead.Load() {
		return nil, errDead
	}
	if s.calls.Add(1) != s.at {
		return s.next.RoundTrip(r)
	}
	if s.how == diesBefore {
		s.operator.dead.Store(true)
		return nil, errDead
	}
	response, err := s.next.RoundTrip(r)
	if err == nil {
		_ = response.Body.Close()
	}
	if s.how == diesAfter {
		s.operator.dead.Store(true)
	}
	return nil, errDead
}

// life runs an operator until its machines are up or it is dead, and returns how many calls it made.
func (w *world) life(at int64, how cut) int64 {
	s := &scissors{at: at, how: how}
	o := w.newOperator(func(next http.RoundTripper) http.RoundTripper { s.next = next; return s })
	s.operator = o
	w.drive(o, patience, func() bool { return o.dead.Load() || w.phaseIs(v1alpha1.PhaseEC2Ready)() })
	return s.calls.Load()
}

func TestCrashSweepOverAWSCalls(t *testing.T) {
	share, seed := intFrom(t, sweepShareVariable, 8), intFrom(t, sweepSeedVariable, int(time.Now().Unix()))
	first := newWorld(t, nil)
	calls := first.life(0, diesBefore)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	t.Logf("%d calls to AWS, one in %d of the cuts, seed %d (repeat with %s=%d)", calls, share, seed, sweepSeedVariable, seed)
	tried := 0
	for at := int64(1); at <= calls; at++ {
		for _, how := range []cut{diesBefore, diesAfter, losesReply} {
			if random.IntN(share) != 0 {
				continue
			}
			tried++
			t.Run(fmt.Sprintf("%s call %d", how, at), func(t *testing.T) {
				w := newWorld(t, nil)
				w.life(at, how)
				w.life(0, diesBefore)
				w.oneOfEach(3)
			})
		}
	}
	t.Logf("%d cuts tried", tried)
	if tried == 0 && share <= int(calls) {
		t.Error("no cut was tried")
	}
}

func intFrom(t *testing.T, variable string, fallback int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return fallback
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is not a positive number", variable, text)
	}
	return n
}
