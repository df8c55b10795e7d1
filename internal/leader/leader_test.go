package leader

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// lease tells of each look that begins and answers when it is told to, if it is to be told.
type lease struct {
	resourcelock.Interface
	holder string
	renew  time.Time
	looks  int
	begun  chan struct{}
	took   chan struct{}
}

func (l *lease) Identity() string { return "us" }

func (l *lease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.looks++
	record := &resourcelock.LeaderElectionRecord{HolderIdentity: l.holder, LeaseDurationSeconds: 15, RenewTime: metav1.NewTime(l.renew)}
	if l.took != nil {
		l.begun <- struct{}{}
		<-l.took
	}
	return record, nil, nil
}

// TestLooksAreShared among those who asked before they began, and with nobody else.
func TestLooksAreShared(t *testing.T) {
	const many = 100
	api := &lease{holder: "us", renew: time.Now(), begun: make(chan struct{}, 1+many), took: make(chan struct{})}
	lock := &Lock{lock: api, clock: clock.RealClock{}}
	var all sync.WaitGroup
	ask := func(n int) {
		for range n {
			all.Go(func() {
				if err := lock.Check(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
	ask(1)
	<-api.begun
	ask(many)
	// Who comes later looks himself.
	for deadline := time.Now().Add(time.Minute); waiting() < many; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d wait for the look that has begun", waiting(), many)
		}
	}
	close(api.took)
	all.Wait()
	if api.looks != 2 {
		t.Errorf("a hundred who asked during a look had %d in all", api.looks)
	}
	api.holder = "another"
	if err := lock.Check(t.Context()); !errors.Is(err, ErrNotLeader) {
		t.Errorf("right after a look that agreed, and the lease went: %v", err)
	}
}

// waiting is how many wait for their turn in Check, having asked.
func waiting() (n int) {
	stacks := make([]byte, 4<<20)
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(stack, "[sync.Mutex.Lock") && strings.Contains(stack, "(*Lock).Check(") {
			n++
		}
	}
	return n
}

// TestLeaseRunsOut: nobody took it, and it is ours no more.
func TestLeaseRunsOut(t *testing.T) {
	lock := &Lock{lock: &lease{holder: "us", renew: time.Now().Add(-16 * time.Second)}, clock: clock.RealClock{}}
	if err := lock.Check(t.Context()); !errors.Is(err, ErrNotLeader) {
		t.Errorf("a lease of 16 s ago: %v", err)
	}
}

// TestWithoutElection there is no lease to lose.
func TestWithoutElection(t *testing.T) {
	lock, err := New(nil, "", false, clock.RealClock{})
	if err != nil || lock.Check(t.Context()) != nil || lock.Interface() != nil {
		t.Errorf("%v, %+v", err, lock)
	}
}
