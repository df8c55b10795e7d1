package decide

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// preflightsAtOnce is how many preflights run at a time, of all clusters. After the loss of a zone each cluster needs one, and their dry runs
// count against the same limits of EC2 as the calls that launch instances.
const preflightsAtOnce = 16

// preflightTimeout bounds a whole preflight, of some ten calls, from when its turn has come.
const preflightTimeout = time.Minute

// preflightPatience is how long the pass that begins a preflight waits for its answer: most come within it. A later pass takes a later one.
const preflightPatience = time.Second

// preflights runs the preflights of all clusters beside their passes.
type preflights struct{ turns *semaphore.Weighted }

func newPreflights() preflights { return preflights{semaphore.NewWeighted(preflightsAtOnce)} }

// begin has ask run, at once or when its turn comes, and calls ended after that. At once says whether it did not have to wait.
func (p preflights) begin(ctx context.Context, key string, ask func(context.Context) ([]awsapi.Problem, error), ended func()) (run *pass.PreflightRun, atOnce bool) {
	over := make(chan struct{})
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	run, atOnce = &pass.PreflightRun{Key: key, Over: over, Cancel: cancel}, p.turns.TryAcquire(1)
	go func() {
		defer ended()
		defer close(over)
		defer cancel()
		if !atOnce {
			if run.Err = p.turns.Acquire(own, 1); run.Err != nil {
				return
			}
		}
		defer p.turns.Release(1)
		limited, end := context.WithTimeout(own, preflightTimeout)
		defer end()
		run.Problems, run.Err = ask(limited)
	}()
	return run, atOnce
}
