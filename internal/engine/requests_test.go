package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/smithy-go"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// answer is EC2's answer to an operation that it does not carry out.
func answer(op, code string) error {
	return &smithy.OperationError{ServiceID: "EC2", OperationName: op, Err: &smithy.GenericAPIError{Code: code}}
}

// An order that EC2 refused made nothing: when its token is then known from a request that differed, nobody waits for what
// that made. One whose answer was lost may have made something.
func TestTokenOfARefusedOrder(t *testing.T) {
	t.Parallel()
	mismatch, refused := answer("RunInstances", awsapi.CodeTokenMismatch), answer("RunInstances", "VcpuLimitExceeded")
	for _, c := range []struct {
		what string
		errs []error
		want bool
	}{
		{"refused", []error{refused}, true},
		{"refused for capacity", []error{answer("CreateVolume", codeNoVolumeCapacity)}, true},
		{"refused, then throttled", []error{refused, answer("RunInstances", "RequestLimitExceeded")}, true},
		{"never refused", nil, false},
		{"refused, then the answer lost", []error{refused, context.DeadlineExceeded}, false},
		{"refused, then an internal error", []error{refused, answer("RunInstances", "InternalError")}, false},
		{"not EC2's refusal of the order", []error{answer("DescribeInstances", "InvalidParameterValue")}, false},
		{"refused, then made", []error{refused, nil}, false},
	} {
		q, now := NewRequests(), time.Now()
		o := order{member: "orders-1", incarnation: 1}
		for _, err := range c.errs {
			if q.tokenSpent(o, err, now) {
				t.Errorf("%s: spent at %v", c.what, err)
			}
		}
		if got := q.tokenSpent(o, mismatch, now); got != c.want {
			t.Errorf("%s: spent at once is %t, want %t", c.what, got, c.want)
		}
		if c.want && len(q.tokens) > 0 {
			t.Errorf("%s: remembered for nothing: %v", c.what, q.tokens)
		}
	}
}

// TestALostAnswerPutsALackOfCapacityInDoubt, until EC2 answers the same order: what it made in the zone must not be left behind there.
func TestALostAnswerPutsALackOfCapacityInDoubt(t *testing.T) {
	t.Parallel()
	for name, volume := range map[string]bool{"a volume": true, "an instance": false} {
		w, q := newStage(), NewRequests()
		action, ask, code, op := topology.Action(topology.LaunchInstance{Member: "orders-1", SubnetID: "subnet-b"}), "launch", codeNoCapacity, "RunInstances"
		if volume {
			action, ask, code, op = topology.CreateVolume{Member: "orders-1", Zone: "b"}, "create", codeNoVolumeCapacity, "CreateVolume"
		}
		began := w.clock.Now()
		for n, step := range []struct {
			err    error
			hangs  bool
			doubts bool
		}{
			{answer(op, code), false, false},
			{context.DeadlineExceeded, false, true},
			{answer(op, "RequestLimitExceeded"), false, true},
			{answer(op, code), false, false},
			{answer(op, code), true, true},
		} {
			w.clock.SetTime(began.Add(time.Duration(n) * time.Minute))
			w.answers[ask], w.hangs = step.err, step.hangs
			x := w.execution(q, action)
			x.Desired.Subnets = []topology.Subnet{{ID: "subnet-b", Zone: "b"}}
			x.Run(t.Context())
			zone, since := q.CapacityRefused("orders-1", w.clock.Now())
			if doubts := zone == ""; doubts != step.doubts || !doubts && !since.Equal(began) {
				t.Errorf("%s, step %d: refused in %q since %s", name, n, zone, since.Sub(began))
			}
		}
		w.hangs = false
		w.hung[0]()
		w.execution(q).TakeAnswers(t.Context())
		if zone, since := q.CapacityRefused("orders-1", w.clock.Now()); zone != "b" || !since.Equal(began) {
			t.Errorf("%s: once that is answered it is refused in %q since %s", name, zone, since.Sub(began))
		}
	}
}

// Since when a zone has no capacity is known until it has: not until something else goes wrong.
func TestOnlyALaunchEndsALackOfCapacity(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	q := NewRequests()
	began := clock.Now()
	refused := &smithy.GenericAPIError{Code: codeNoCapacity}
	note := func(zone string, err error) {
		q.recordCapacity("orders-1", zone, false, err, clock.Now())
	}
	note("us-east-1b", refused)
	for i, err := range []error{&smithy.GenericAPIError{Code: "RequestLimitExceeded"}, refused, &smithy.GenericAPIError{Code: "UnauthorizedOperation"}} {
		clock.SetTime(began.Add(time.Duration(i+1) * time.Minute))
		note("us-east-1b", err)
		if zone, since := q.CapacityRefused("orders-1", clock.Now()); zone != "us-east-1b" || !since.Equal(began) {
			t.Errorf("after %v capacity lacks in %q since %s", err, zone, since.Sub(began))
		}
	}
	note("us-east-1c", refused)
	if zone, since := q.CapacityRefused("orders-1", clock.Now()); zone != "us-east-1c" || !since.Equal(clock.Now()) {
		t.Errorf("in another zone: %q, %s", zone, since)
	}
	q.recordCapacity("orders-1", "us-east-1c", true, nil, clock.Now())
	if zone, _ := q.CapacityRefused("orders-1", clock.Now()); zone != "us-east-1c" {
		t.Errorf("after a volume was made capacity for an instance lacks in %q", zone)
	}
	note("us-east-1c", nil)
	if zone, _ := q.CapacityRefused("orders-1", clock.Now()); zone != "" {
		t.Errorf("after a launch capacity lacks in %q", zone)
	}
	q.recordCapacity("orders-1", "us-east-1c", true, &smithy.GenericAPIError{Code: codeNoVolumeCapacity}, clock.Now())
	if zone, since := q.CapacityRefused("orders-1", clock.Now()); zone != "us-east-1c" || !since.Equal(clock.Now()) {
		t.Errorf("for a volume: %q, %s", zone, since)
	}
	q.recordCapacity("orders-1", "us-east-1c", true, nil, clock.Now())
	if zone, _ := q.CapacityRefused("orders-1", clock.Now()); zone != "" {
		t.Errorf("after the volume was made capacity lacks in %q", zone)
	}
	note("us-east-1c", refused)
	clock.SetTime(clock.Now().Add(refusalKept + time.Second))
	if zone, _ := q.CapacityRefused("orders-1", clock.Now()); zone != "" {
		t.Errorf("what was refused on another day is believed of %q", zone)
	}
	note("us-east-1c", refused)
	if zone, since := q.CapacityRefused("orders-1", clock.Now()); zone != "us-east-1c" || !since.Equal(clock.Now()) {
		t.Errorf("refused anew: %q, %s", zone, since)
	}
}

func TestPausesGrow(t *testing.T) {
	t.Parallel()
	q, now := NewRequests(), time.Now()
	refuse := func() *Problem {
		return &Problem{Message: "no", PauseFrom: 30 * time.Second, Pause: 5 * time.Minute}
	}
	for i, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute} {
		q.Fail("apply", refuse(), now)
		if q.Refusal("apply", now.Add(want-time.Millisecond)) == nil || q.Refusal("apply", now.Add(want)) != nil {
			t.Errorf("after failure %d it is not paused for %s", i+1, want)
		}
		now = now.Add(want)
	}
	q.Fail("modify", &Problem{Pause: AfterModification}, now)
	if q.Refusal("modify", now.Add(AfterModification-time.Second)) == nil {
		t.Error("a long pause counts in full from the first time on")
	}
	a, b := topology.ApplySettings{Member: "orders-0", Want: map[string]string{"back_log": "1"}}, topology.ApplySettings{Member: "orders-0", Want: map[string]string{"back_log": "2"}}
	if topology.Identity(a) == topology.Identity(b) {
		t.Error("another value waits for the pause of the refused one")
	}
}

// TestEC2ThatDoesNotAnswerIsNotAskedInEachPass: passes follow each other four times a second while a cluster has no primary.
func TestEC2ThatDoesNotAnswerIsNotAskedInEachPass(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		attempt func(*Requests, Attempt, *clocktesting.FakePassiveClock, func() error) error
		most    int // within a minute
		doubted bool
	}{
		"a look": {func(q *Requests, key Attempt, c *clocktesting.FakePassiveClock, ask func() error) error {
			return q.Look(key, c, ask)
		}, 16, false},
		"upkeep": {func(q *Requests, key Attempt, c *clocktesting.FakePassiveClock, ask func() error) error {
			return q.Upkeep(key, c, ask)
		}, 7, true},
	} {
		clock, q, asked := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)), NewRequests(), 0
		key, refusal := Errand{What: FindErrand, Object: "volumes"}, answer("DescribeVolumes", "InternalError")
		try := func() error {
			return row.attempt(q, key, clock, func() error { asked++; return refusal })
		}
		for range 4 * 60 {
			if err := try(); !errors.Is(err, refusal) {
				t.Fatalf("%s: %v", name, err)
			}
			clock.SetTime(clock.Now().Add(250 * time.Millisecond))
		}
		if asked < 2 || asked > row.most {
			t.Errorf("%s: EC2 was asked %d times within a minute", name, asked)
		}
		if got := !q.Doubted().IsZero(); got != row.doubted {
			t.Errorf("%s: doubted %t", name, got)
		}
		refusal = nil
		clock.SetTime(clock.Now().Add(upkeepPause))
		if err := try(); err != nil {
			t.Errorf("%s: an answer is not taken: %v", name, err)
		}
		if before := asked; try() != nil || asked != before+1 {
			t.Errorf("%s: after an answer EC2 is not asked at once", name)
		}
	}
}
