package pass

import (
	"context"
	"sync"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
)

// Goroutines are the threads of the operator.
type Goroutines struct{}

// All implements engine.Threads.
func (Goroutines) All(ctx context.Context, tasks []func(context.Context)) {
	var wg sync.WaitGroup
	for _, task := range tasks {
		wg.Go(func() { task(ctx) })
	}
	wg.Wait()
}

// Start implements engine.Threads.
func (Goroutines) Start(ctx context.Context, limit time.Duration, task func(context.Context)) engine.Task {
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	over := make(chan struct{})
	go func() {
		defer cancel()
		defer close(over)
		task(detached)
	}()
	return goroutine(over)
}

// goroutine is closed when its task is over.
type goroutine chan struct{}

func (g goroutine) Await(_ context.Context, patience time.Duration) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-g:
		return true
	case <-timer.C:
		return false
	}
}
