package ec2

import (
	"testing"
	"time"

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
	err := l.cloud.StopInstance(t.Context(), l.owner.ClusterUID, i.ID, true)
	if !awsapi.IsWaiting(err) {
		t.Fatalf("stopping a pending instance: %v (%s), want Waiting", err, awsapi.Classify(err))
	}
	if text := awsapi.Message(err); text == "" || awsapi.Explain(err).Retry != true {
		t.Errorf("the user is told %q", text)
	}
	goOn()
	l.until("running", stateOf(i.ID, inventory.StateRunning))
	if err := l.cloud.StopInstance(t.Context(), l.owner.ClusterUID, i.ID, true); err != nil {
		t.Fatal(err)
	}
	l.until("stopped", stateOf(i.ID, inventory.StateStopped))
}

// A stop that does not get on is repeated with force; without force nothing comes of it.
func TestStuckStopIsForcedAgain(t *testing.T) {
	l := newLab(t)
	i := l.running("orders-0")
	l.status(moto.Status{ID: i.ID, Stuck: 1})
	for _, force := range []bool{true, false} {
		if err := l.cloud.StopInstance(t.Context(), l.owner.ClusterUID, i.ID, force); err != nil {
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
	if err := l.cloud.StopInstance(t.Context(), l.owner.ClusterUID, i.ID, true); err != nil {
		t.Fatal(err)
	}
	l.until("stopped", stateOf(i.ID, inventory.StateStopped))
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
			if err := l.cloud.StopInstance(t.Context(), l.owner.ClusterUID, i.ID, true); err != nil {
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
			if err := l.cloud.StopInstance(t.Context(), l.owner.ClusterUID, i.ID, true); err == nil {
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
		if err := l.cloud.StopInstance(t.Context(), l.owner.ClusterUID, i.ID, true); awsapi.Code(err) != code {
			t.Errorf("%s: the fence says %v", code, err)
		}
		remove()
	}
}
