package decide

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// TestPreflightsAreBounded: of many clusters that lose members at once, few ask EC2 at a time. The others' time begins with their turn, and
// one that is abandoned asks nothing.
func TestPreflightsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPreflights()
		var mu sync.Mutex
		running, most, asked, ended := 0, 0, 0, 0
		count := func(n *int, by int) {
			mu.Lock()
			defer mu.Unlock()
			*n += by
			most = max(most, running)
		}
		ask := func(ctx context.Context) ([]awsapi.Problem, error) {
			count(&running, 1)
			defer count(&running, -1)
			count(&asked, 1)
			select {
			case <-time.After(preflightTimeout - time.Second):
			case <-ctx.Done():
			}
			return nil, ctx.Err()
		}
		var runs []*pass.PreflightRun
		for n := range 3 * preflightsAtOnce {
			run, atOnce := p.begin(t.Context(), "key", ask, func() { count(&ended, 1) })
			if atOnce != (n < preflightsAtOnce) {
				t.Errorf("preflight %d begins at once: %t", n, atOnce)
			}
			runs = append(runs, run)
		}
		abandoned := runs[len(runs)-1]
		abandoned.Cancel()
		for _, run := range runs {
			<-run.Over
			if run != abandoned && run.Err != nil {
				t.Errorf("one failed: %v", run.Err)
			}
		}
		synctest.Wait()
		if !errors.Is(abandoned.Err, context.Canceled) || most != preflightsAtOnce || asked != len(runs)-1 || ended != len(runs) {
			t.Errorf("%d at a time, %d asked, %d ended; the abandoned one: %v", most, asked, ended, abandoned.Err)
		}
		run, atOnce := p.begin(t.Context(), "key", ask, func() {})
		if !atOnce {
			t.Error("their turns are not free afterwards")
		}
		<-run.Over
	})
}

// TestAPreflightForNothingIsForgotten: what it found holds no later launch back.
func TestAPreflightForNothingIsForgotten(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &pass.Pass{Cache: &pass.Cache{}} // of no member that is wanted
	s.Cache.Preflight.Run = &pass.PreflightRun{Cancel: cancel}
	(&Decider{}).tryLaunch(t.Context(), s)
	if s.Cache.Preflight.Run != nil || ctx.Err() == nil || !s.Observed.Launchable {
		t.Errorf("it is kept: %v; EC2 is asked on: %t; launchable: %t", s.Cache.Preflight.Run, ctx.Err() == nil, s.Observed.Launchable)
	}
}
