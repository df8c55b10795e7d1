package podclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ErrTooLong: what was asked of the server took longer than it may.
var ErrTooLong = errors.New("it took too long")

const (
	// interruptPause is the pause between two interruptions: one that finds no statement, because the next one is just being sent,
	// is in vain.
	interruptPause = time.Second
	// interruptPatience is how long a server may take to interrupt a statement.
	interruptPatience = 10 * time.Second
)

// Within lets do ask the server on this connection for limit at most. After that the statement that runs is interrupted by another
// connection of the same account, this one keeps its snapshot, and the error wraps ErrTooLong. A server that cannot be made to
// interrupt it within 10 seconds loses the connection, see Usable.
func (v *Visit) Within(ctx context.Context, limit time.Duration, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var late atomic.Bool
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		select {
		case <-done:
			return
		case <-ctx.Done():
			return
		case <-time.After(limit):
		}
		late.Store(true)
		v.interrupt(ctx, done)
		cancel()
	})
	err := do(ctx)
	close(done)
	group.Wait()
	if err != nil && late.Load() {
		return fmt.Errorf("%w: %w", ErrTooLong, err)
	}
	return err
}

// interrupt interrupts what runs on this connection until done is closed, or nothing has helped.
func (v *Visit) interrupt(ctx context.Context, done <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, interruptPatience)
	defer cancel()
	other, err := OpenVisit(ctx, v.o)
	if err != nil {
		return
	}
	defer other.Close()
	for other.exec(ctx, "KILL QUERY ?", v.s.ID()) == nil {
		select {
		case <-done:
			return
		case <-ctx.Done():
			return
		case <-time.After(interruptPause):
		}
	}
}

// Usable says whether the connection can be asked anything more.
func (v *Visit) Usable() bool { return !v.s.Broken() }
