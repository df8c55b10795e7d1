package ec2

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/smithy-go"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

// gated is an EC2 that answers StopInstances when the gate opens, with an error if there is one.
type gated struct {
	awsapi.API
	gate chan struct{}
	err  error
	// stops counts the calls.
	stops atomic.Int32
}

func (g *gated) StopInstances(ctx context.Context, in *awsec2.StopInstancesInput, how ...func(*awsec2.Options)) (*awsec2.StopInstancesOutput, error) {
	select {
	case <-g.gate:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	g.stops.Add(1)
	if g.err != nil {
		return nil, g.err
	}
	return g.API.StopInstances(ctx, in, how...)
}

// rehearsing returns a lab with an instance and its volume whose calls to StopInstances pass a gate, and what rehearses there.
func rehearsing(t *testing.T) (*lab, *gated, func() Rehearsal) {
	l := newLab(t, func(o *Options) { o.LookPatience = 50 * time.Millisecond })
	r := l.cloud.rehearsal
	g := &gated{API: r.api, gate: make(chan struct{})}
	r.api = g
	return l, g, func() Rehearsal { return l.cloud.Rehearse(t.Context(), l.owner) }
}

// soon waits until a rehearsal has come to an end, and returns what is known then.
func (l *lab) soon(ended func(Rehearsal) bool) Rehearsal {
	l.t.Helper()
	for deadline := time.Now().Add(settleTime); time.Now().Before(deadline); time.Sleep(settleDelay) {
		if known := l.cloud.Rehearsed(); ended(known) {
			return known
		}
	}
	l.t.Fatalf("the rehearsal does not end: %+v", l.cloud.Rehearsed())
	return Rehearsal{}
}

// TestARehearsalThatLastsShowsNothingYet: neither to who began it nor to others of the same identity; what it finds is shown at its end.
func TestARehearsalThatLastsShowsNothingYet(t *testing.T) {
	l, g, rehearse := rehearsing(t)
	if known := rehearse(); known.Completed || known.Unanswered != nothingToTry {
		t.Errorf("without an instance %+v", known)
	}
	i, v := l.running("orders-0"), l.available("orders-0")
	l.attach(v.ID, i.ID)
	for _, caller := range []string{"who begins it", "another"} {
		if known := rehearse(); known.Completed || known.Unanswered != "" || len(known.Problems) > 0 {
			t.Errorf("%s is shown %+v", caller, known)
		}
	}
	close(g.gate)
	if known := l.soon(func(known Rehearsal) bool { return known.Completed }); len(known.Problems) > 0 || known.Unanswered != "" {
		t.Errorf("in the end %+v", known)
	}
	l.pass(rehearsedFor)
	g.err = &smithy.GenericAPIError{Code: "RequestLimitExceeded"}
	rehearse()
	if known := l.soon(func(known Rehearsal) bool { return known.Unanswered != "" }); !known.Completed {
		t.Errorf("what was known is forgotten: %+v", known)
	}
}

// TestAFirstRehearsalWithoutAnAnswerIsMadeAgainSoon: replacements wait for it. What EC2 has answered is not asked again, and the rest less and
// less often.
func TestAFirstRehearsalWithoutAnAnswerIsMadeAgainSoon(t *testing.T) {
	l, g, rehearse := rehearsing(t)
	i, v := l.running("orders-0"), l.available("orders-0")
	l.attach(v.ID, i.ID)
	close(g.gate)
	g.err = &smithy.GenericAPIError{Code: "RequestLimitExceeded"}
	rehearse()
	known := l.soon(func(known Rehearsal) bool { return known.Unanswered != "" })
	if known.Completed || !strings.Contains(known.Unanswered, "RequestLimitExceeded") || slices.Contains(known.Answered, "ec2:StopInstances") || !slices.Contains(known.Answered, "ec2:AttachVolume") {
		t.Errorf("unanswered, it shows %+v", known)
	}
	asked := g.stops.Load()
	for _, pause := range []time.Duration{rehearseSoon, 2 * rehearseSoon} {
		l.pass(pause - time.Second)
		if rehearse(); g.stops.Load() != asked {
			t.Errorf("it is made again within %s", pause)
		}
		l.pass(time.Second)
		rehearse()
		if asked++; g.stops.Load() != asked {
			t.Errorf("it is not made again after %s", pause)
		}
	}
	g.err = nil
	l.pass(rehearseLate)
	rehearse()
	known = l.soon(func(known Rehearsal) bool { return known.Completed && known.Unanswered == "" })
	if n := l.proxy.Counts()["AttachVolume"]; !slices.Contains(known.Answered, "ec2:StopInstances") || n != 2 {
		t.Errorf("%d calls of AttachVolume, with that which is no dry run; answered is %v", n, known.Answered)
	}
}

// TestOneThrottledDryRunKeepsNoOtherFromItsAnswer: members are replaced although EC2 does not answer for the console.
func TestOneThrottledDryRunKeepsNoOtherFromItsAnswer(t *testing.T) {
	l, g, rehearse := rehearsing(t)
	i, v := l.running("orders-0"), l.available("orders-0")
	l.attach(v.ID, i.ID)
	close(g.gate)
	l.fault(proxy.Throttle("GetConsoleOutput"))
	l.fault(proxy.Deny("DetachVolume"))
	rehearse()
	for range 2 {
		known := l.soon(func(known Rehearsal) bool { return known.Unanswered != "" })
		if known.Completed || slices.Contains(known.Answered, "ec2:GetConsoleOutput") || len(known.Problems) != 1 || known.Problems[0].Lacks != "ec2:DetachVolume" {
			t.Errorf("it shows %+v", known)
		}
		for _, permission := range []string{"ec2:StopInstances", "ec2:DetachVolume", "ec2:AttachVolume", "ec2:DeleteVolume"} {
			if !slices.Contains(known.Answered, permission) {
				t.Errorf("%s has no answer", permission)
			}
		}
		l.pass(rehearseLate)
		rehearse()
	}
	// The policy is corrected while EC2 still throttles the other one.
	l.proxy.Clear()
	l.fault(proxy.Throttle("GetConsoleOutput"))
	known := l.soon(func(Rehearsal) bool {
		l.pass(rehearseAgain)
		return len(rehearse().Problems) == 0 // also where the one before it was still under way
	})
	if known.Unanswered == "" {
		t.Errorf("it shows %+v", known)
	}
	l.proxy.Clear()
	l.pass(rehearseLate)
	rehearse()
	l.soon(func(known Rehearsal) bool { return known.Completed && known.Unanswered == "" })
}
