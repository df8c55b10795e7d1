package leader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
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

// lockOn is a lock that reads its lease from api, where there is no other installation.
func lockOn(api *lease) *Lock {
	leases := fake.NewClientset().CoordinationV1()
	return &Lock{looked: api, clock: clock.RealClock{}, others: &installations{leases: leases, own: "system", clock: clock.RealClock{}, reviews: allowing(clock.RealClock{})}}
}

// TestLooksAreShared among those who asked before they began, and with nobody else.
func TestLooksAreShared(t *testing.T) {
	const many = 100
	api := &lease{holder: "us", renew: time.Now(), begun: make(chan struct{}, 1+many), took: make(chan struct{})}
	lock := lockOn(api)
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
	lock := lockOn(&lease{holder: "us", renew: time.Now().Add(-16 * time.Second)})
	if err := lock.Check(t.Context()); !errors.Is(err, ErrNotLeader) {
		t.Errorf("a lease of 16 s ago: %v", err)
	}
}

// TestWithoutElection there is no lease to lose.
func TestWithoutElection(t *testing.T) {
	lock, err := New(nil, "", "", false, clock.RealClock{})
	if err != nil || lock.Check(t.Context()) != nil || lock.Interface() != nil {
		t.Errorf("%v, %+v", err, lock)
	}
}

// leaseServer keeps one lease as an API server does: who updates it must have seen its present version.
type leaseServer struct {
	mu      sync.Mutex
	version int
	lease   *coordinationv1.Lease
}

func (s *leaseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	refuse := func(err *apierrors.StatusError) {
		w.WriteHeader(int(err.ErrStatus.Code))
		_ = json.NewEncoder(w).Encode(err.ErrStatus)
	}
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/apis/coordination.k8s.io/v1/leases" {
		list := coordinationv1.LeaseList{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "LeaseList"}}
		if s.lease != nil {
			list.Items = append(list.Items, *s.lease)
		}
		_ = json.NewEncoder(w).Encode(list)
		return
	}
	if r.Method == http.MethodGet && s.lease == nil {
		refuse(apierrors.NewNotFound(resource, LeaseName))
		return
	}
	if r.Method != http.MethodGet {
		var sent coordinationv1.Lease
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			refuse(apierrors.NewBadRequest(err.Error()))
			return
		}
		if s.lease != nil && sent.ResourceVersion != s.lease.ResourceVersion {
			refuse(apierrors.NewConflict(resource, LeaseName, errors.New("it was changed")))
			return
		}
		s.version++
		sent.ResourceVersion = fmt.Sprint(s.version)
		s.lease = &sent
	}
	answer := s.lease.DeepCopy()
	answer.APIVersion, answer.Kind = "coordination.k8s.io/v1", "Lease"
	_ = json.NewEncoder(w).Encode(answer)
}

// TestLookDoesNotHelpToTakeTheLeaseBack: a leader that was paused in the middle of its renewal, after it saw that the lease was its
// own, is replaced; then it looks before it writes to a database, as it must, and after that the renewal goes on.
func TestLookDoesNotHelpToTakeTheLeaseBack(t *testing.T) {
	server := httptest.NewServer(&leaseServer{})
	t.Cleanup(server.Close)
	ctx := t.Context()
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	process := func() *Lock {
		t.Helper()
		lock, err := New(config, "system", "operator", true, clock.RealClock{})
		if err != nil {
			t.Fatal(err)
		}
		return lock
	}
	record := func(l *Lock) resourcelock.LeaderElectionRecord {
		return resourcelock.LeaderElectionRecord{HolderIdentity: l.Interface().Identity(), LeaseDurationSeconds: 15, RenewTime: metav1.Now()}
	}
	old, next := process(), process()
	if err := old.Interface().Create(ctx, record(old)); err != nil {
		t.Fatal(err)
	}
	if err := old.Check(ctx); err != nil {
		t.Fatalf("the leader is told that it does not lead: %v", err)
	}
	if err := old.Interface().Update(ctx, record(old)); err != nil {
		t.Fatalf("a leader that looked cannot renew: %v", err)
	}
	if _, _, err := next.Interface().Get(ctx); err != nil {
		t.Fatal(err)
	}
	if err := next.Interface().Update(ctx, record(next)); err != nil {
		t.Fatal(err)
	}
	if err := old.Check(ctx); !errors.Is(err, ErrNotLeader) {
		t.Fatalf("who was replaced is told %v", err)
	}
	if err := old.Interface().Update(ctx, record(old)); !apierrors.IsConflict(err) {
		t.Errorf("who was replaced takes the lease back: %v", err)
	}
	if err := next.Check(ctx); err != nil {
		t.Errorf("the leader is told %v", err)
	}
}
