package ec2

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/aws/smithy-go"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// gated is an EC2 that answers StopInstances when the gate opens, with an error if there is one.
type gated struct {
	awsapi.API
	gate chan struct{}
	err  error
}

func (g *gated) StopInstances(ctx context.Context, in *awsec2.StopInstancesInput, how ...func(*awsec2.Options)) (*awsec2.StopInstancesOutput, error) {
	select {
	case <-g.gate:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
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

// TestAFirstRehearsalWithoutAnAnswerIsMadeAgainSoon: replacements wait for it.
func TestAFirstRehearsalWithoutAnAnswerIsMadeAgainSoon(t *testing.T) {
	l, g, rehearse := rehearsing(t)
	i, v := l.running("orders-0"), l.available("orders-0")
	l.attach(v.ID, i.ID)
	close(g.gate)
	g.err = &smithy.GenericAPIError{Code: "RequestLimitExceeded"}
	rehearse()
	if known := l.soon(func(known Rehearsal) bool { return known.Unanswered != "" }); known.Completed || !strings.Contains(known.Unanswered, "RequestLimitExceeded") {
		t.Errorf("unanswered, it shows %+v", known)
	}
	g.err = nil
	if rehearse(); l.cloud.Rehearsed().Completed {
		t.Error("it is made again at once")
	}
	l.pass(rehearseSoon)
	rehearse()
	l.soon(func(known Rehearsal) bool { return known.Completed && known.Unanswered == "" })
}
