package ec2

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

// An instance that has just been launched cannot be stopped; the fence has to come back a moment later.
func TestStopOfAPendingInstanceWaits(t *testing.T) {
	l := newLab(t)
	goOn := l.hold()
	i := l.launch("orders-0")
	err := l.cloud.StopInstance(t.Context(), l.owner.ClusterUID, i.ID, StopPower)
	if !awsapi.IsWaiting(err) {
		t.Fatalf("stopping a pending instance: %v (%s), want Waiting", err, awsapi.Classify(err))
	}
	if text := awsapi.Message(err); text == "" || awsapi.Explain(err).Retry != true {
		t.Errorf("the user is told %q", text)
	}
	goOn()
	l.until("running", stateOf(i.ID, inventory.StateRunning))
	if err := l.cloud.StopInstance(t.Context(), l.owner.ClusterUID, i.ID, StopPower); err != nil {
		t.Fatal(err)
	}
	l.until("stopped", stateOf(i.ID, inventory.StateStopped))
}

// An instance that stays in stopping after a power cut is stopped by force; nothing less helps.
func TestStuckStopIsForced(t *testing.T) {
	l := newLab(t)
	i := l.running("orders-0")
	l.status(moto.Status{ID: i.ID, Stuck: 1})
	for _, how := range []Stop{StopPower, StopGracefully, StopPower} {
		if err := l.cloud.StopInstance(t.Context(), l.owner.ClusterUID, i.ID, how); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(6 * settleDelay); time.Now().Before(deadline); time.Sleep(settleDelay) {
		l.pass(inventory.RefreshFloor)
		inv, err := l.cloud.Inventory.Refresh(t.Context(), l.owner.ClusterUID)
		if err != nil || !stateOf(i.ID, inventory.StateStopping)(inv) {
			t.Fatalf("the stuck instance is %+v (%v), want stopping", inv.Instances, err)
		}
	}
	if err := l.cloud.StopInstance(t.Context(), l.owner.ClusterUID, i.ID, StopByForce); err != nil {
		t.Fatal(err)
	}
	l.until("stopped", stateOf(i.ID, inventory.StateStopped))
}

// stops is an EC2 that knows StopInstances alone, and rejects what knows too much.
type stops struct {
	awsapi.API
	refusal error
	asked   []string
}

func (s *stops) StopInstances(_ context.Context, in *awsec2.StopInstancesInput, _ ...func(*awsec2.Options)) (*awsec2.StopInstancesOutput, error) {
	force, skip, dry := aws.ToBool(in.Force), aws.ToBool(in.SkipOsShutdown), aws.ToBool(in.DryRun)
	s.asked = append(s.asked, fmt.Sprintf("force %t, skip %t, dry %t", force, skip, dry))
	switch {
	case skip && s.refusal != nil:
		return nil, s.refusal
	case dry:
		return nil, &smithy.GenericAPIError{Code: codeDryRun}
	}
	return &awsec2.StopInstancesOutput{}, nil
}

// The fence cuts the power first, and forces only what stays in stopping; the rehearsal sends the same.
func TestFenceHasTwoSteps(t *testing.T) {
	ec2 := &stops{}
	r := &rehearsal{api: ec2}
	for _, dry := range []*bool{nil, aws.Bool(true)} {
		for _, how := range []Stop{StopGracefully, StopPower, StopByForce} {
			if _, err := r.fence.stop(t.Context(), ec2, "i-1", how, dry); !passed(err) {
				t.Error(err)
			}
		}
	}
	for _, try := range r.tryReplacement(inventory.Instance{ID: "i-1"}, inventory.Volume{})[:1] {
		if err := try.call(t.Context()); !passed(err) {
			t.Error(err)
		}
	}
	want := []string{
		"force false, skip false, dry false", "force false, skip true, dry false", "force true, skip true, dry false",
		"force false, skip false, dry true", "force false, skip true, dry true", "force true, skip true, dry true",
		"force false, skip true, dry true", "force true, skip true, dry true",
	}
	if !slices.Equal(ec2.asked, want) {
		t.Errorf("asked %q", ec2.asked)
	}
}

// An endpoint that does not know SkipOsShutdown is asked without it, from then on at once, and Force stays for the second step. Any other
// refusal stands.
func TestFenceWithoutSkip(t *testing.T) {
	refuse := func(code, message string) error { return &smithy.GenericAPIError{Code: code, Message: message} }
	for name, row := range map[string]struct {
		refusal error
		slow    bool
	}{
		"unknown":              {refuse("UnknownParameter", "The parameter SkipOsShutdown is not recognized"), true},
		"unsupported":          {refuse("UnsupportedOperation", "SkipOsShutdown is not supported for this instance type"), true},
		"a combination":        {refuse("InvalidParameterCombination", "SkipOsShutdown cannot be used here"), true},
		"a value":              {refuse("InvalidParameterValue", "Value (true) for parameter SkipOsShutdown is invalid"), true},
		"another operation":    {refuse("UnsupportedOperation", "The instance does not have an 'ebs' root device type"), false},
		"another value":        {refuse("InvalidParameterValue", "Value (i-1) for parameter InstanceId is invalid"), false},
		"no permission for it": {refuse("UnauthorizedOperation", "SkipOsShutdown"), false},
	} {
		t.Run(name, func(t *testing.T) {
			ec2, said := &stops{refusal: row.refusal}, 0
			var f fence
			ctx := logr.NewContext(t.Context(), funcr.New(func(_, _ string) { said++ }, funcr.Options{}))
			for _, how := range []Stop{StopPower, StopPower, StopByForce} {
				if _, err := f.stop(ctx, ec2, "i-1", how, nil); (err == nil) != row.slow {
					t.Errorf("the fence says %v", err)
				}
			}
			skip, plain := "force false, skip true, dry false", "force false, skip false, dry false"
			want := []string{skip, plain, plain, "force true, skip false, dry false"}
			if !row.slow {
				want = []string{skip, skip, "force true, skip true, dry false"}
			}
			if !slices.Equal(ec2.asked, want) || (said == 1) != row.slow {
				t.Errorf("asked %q, and said so %d times", ec2.asked, said)
			}
		})
	}
}

// Whatever somebody else did to the instance meanwhile: a fence that finds nothing left to stop is done, and the store
// knows why.
func TestStopOfWhatIsNotRunning(t *testing.T) {
	for want, do := range map[string]func(*lab, string) error{
		inventory.StateStopped: func(l *lab, id string) error {
			_, err := l.sdk().StopInstances(l.t.Context(), &awsec2.StopInstancesInput{InstanceIds: []string{id}})
			return err
		},
		inventory.StateTerminated: func(l *lab, id string) error {
			return l.newCloud().TerminateInstance(l.t.Context(), l.owner.ClusterUID, id)
		},
	} {
		t.Run(want, func(t *testing.T) {
			l := newLab(t)
			i := l.running("orders-0")
			if err := do(l, i.ID); err != nil {
				t.Fatal(err)
			}
			l.really(i.ID, want)
			if inv := l.cloud.Inventory.Known(l.owner.ClusterUID); !stateOf(i.ID, inventory.StateRunning)(inv) {
				t.Fatalf("the store should not know yet: %+v", inv.Instances)
			}
			if err := l.cloud.StopInstance(t.Context(), l.owner.ClusterUID, i.ID, StopPower); err != nil {
				t.Errorf("stopping what is %s: %v", want, err)
			}
			if inv := l.cloud.Inventory.Known(l.owner.ClusterUID); !stateOf(i.ID, want)(inv) {
				t.Errorf("afterwards the store shows %+v, want %s", inv.Instances, want)
			}
		})
	}
}

// A refusal is no proof that the instance is stopped: EC2 is looked at, and when it cannot be, the fence is not done.
func TestRefusedStopIsNoFence(t *testing.T) {
	for name, look := range map[string]*proxy.Rule{
		"it runs":             nil,
		"nobody can look":     {Kind: proxy.Fail, Code: "RequestLimitExceeded", Actions: []string{"DescribeInstances"}},
		"nobody may look":     {Kind: proxy.Fail, Code: "UnauthorizedOperation", Actions: []string{"DescribeInstances"}},
		"nobody answers":      {Kind: proxy.Refuse, Actions: []string{"DescribeInstances"}},
		"the look is garbled": {Kind: proxy.Fail, Code: "InternalError", Actions: []string{"DescribeInstances"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			i := l.running("orders-0")
			l.fault(proxy.Rule{Kind: proxy.Fail, Code: codeIncorrectInstanceState, Actions: []string{"StopInstances"}})
			if look != nil {
				l.fault(*look)
			}
			if err := l.cloud.StopInstance(t.Context(), l.owner.ClusterUID, i.ID, StopPower); err == nil {
				t.Error("the fence counts as done")
			}
			if inv := l.cloud.Inventory.Known(l.owner.ClusterUID); !stateOf(i.ID, inventory.StateRunning)(inv) {
				t.Errorf("the store shows %+v", inv.Instances)
			}
		})
	}
	l := newLab(t)
	i := l.running("orders-0")
	for _, code := range []string{"UnauthorizedOperation", "RequestLimitExceeded", "InternalError", "OperationNotPermitted"} {
		remove := l.fault(proxy.Rule{Kind: proxy.Fail, Code: code, Actions: []string{"StopInstances"}})
		if err := l.cloud.StopInstance(t.Context(), l.owner.ClusterUID, i.ID, StopPower); awsapi.Code(err) != code {
			t.Errorf("%s: the fence says %v", code, err)
		}
		remove()
	}
}
