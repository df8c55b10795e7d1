package ec2

import (
	"fmt"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

// now reads as a reconcile does whose members do not answer.
func (l *lab) now() (inventory.Inventory, error) {
	return l.cloud.Inventory.RefreshNow(l.t.Context(), l.owner.ClusterUID)
}

// Somebody else stops one instance and terminates another, between two sweeps.
func TestRefreshNowSeesWhatOthersDid(t *testing.T) {
	l := newLab(t)
	stopped, ended, v := l.running("orders-0"), l.running("orders-1"), l.available("orders-1")
	if err := l.cloud.AttachVolume(t.Context(), l.owner.ClusterUID, v.ID, ended.ID, device); err != nil {
		t.Fatal(err)
	}
	l.until("attached", attached(v.ID))
	l.pass(time.Minute)
	l.observe()
	if _, err := l.sdk().StopInstances(t.Context(), &awsec2.StopInstancesInput{InstanceIds: []string{stopped.ID}}); err != nil {
		t.Fatal(err)
	}
	if err := l.newCloud().TerminateInstance(t.Context(), l.owner.ClusterUID, ended.ID); err != nil {
		t.Fatal(err)
	}
	l.really(stopped.ID, inventory.StateStopped)
	l.really(ended.ID, inventory.StateTerminated)
	if inv, err := l.cloud.Inventory.Refresh(t.Context(), l.owner.ClusterUID); err != nil || !stateOf(stopped.ID, inventory.StateRunning)(inv) {
		t.Fatalf("by itself nothing seems to move: %+v (%v)", inv.Instances, err)
	}
	inv, err := l.now()
	if err != nil || !stateOf(stopped.ID, inventory.StateStopped)(inv) || !stateOf(ended.ID, inventory.StateTerminated)(inv) {
		t.Errorf("a look shows %+v (%v)", inv.Instances, err)
	}
	if got := inv.Volumes[0]; got.AttachedTo != "" || got.State != inventory.VolumeAvailable {
		t.Errorf("the volume of the instance that ended is %+v", got)
	}
}

func TestRefreshNowIsBounded(t *testing.T) {
	l := newLab(t)
	l.running("orders-0")
	l.available("orders-0")
	l.pass(time.Minute)
	l.observe()
	l.proxy.ResetCalls()
	looks := func(what string, want int) {
		t.Helper()
		for range 50 {
			if _, err := l.now(); err != nil {
				t.Fatal(err)
			}
		}
		if counts := l.proxy.Counts(); counts["DescribeInstances"] != want || counts["DescribeVolumes"] != want || len(counts) > 2 {
			t.Errorf("%s fifty passes made %v, want %d looks", what, counts, want)
		}
	}
	looks("in the same moment", 1)
	l.pass(inventory.UrgentFloor - time.Millisecond)
	looks("a moment too early", 1)
	l.pass(time.Millisecond)
	looks("two seconds later", 2)
	if inv, err := l.cloud.Inventory.RefreshNow(t.Context(), "a cluster without anything"); err != nil || len(inv.Instances) != 0 || l.proxy.Counts()["DescribeInstances"] != 2 {
		t.Errorf("a cluster that has nothing costs %v (%v)", l.proxy.Counts(), err)
	}
}

// A zone or the operator's own network fails, and hundreds of clusters fall silent at once.
func TestRefreshNowIsBoundedOverAllClusters(t *testing.T) {
	l := newLab(t)
	const clusters, seconds = 300, 20
	for n := range clusters {
		id, owner := fmt.Sprintf("i-%017d", n), awsapi.Ownership{ClusterUID: fmt.Sprintf("silent-%d", n), Namespace: "shop", Cluster: "orders"}
		// fresh: they stay although the server does not know them
		l.cloud.Inventory.Instances.Created(id, inventory.Instance{ID: id, State: inventory.StateRunning, Tags: owner.TagsOf("orders-0", 1)})
	}
	stopped := l.running("orders-0")
	l.observe()
	l.proxy.ResetCalls()
	if _, err := l.sdk().StopInstances(t.Context(), &awsec2.StopInstancesInput{InstanceIds: []string{stopped.ID}}); err != nil {
		t.Fatal(err)
	}
	l.really(stopped.ID, inventory.StateStopped)
	for second := range seconds {
		for n := range clusters {
			if _, err := l.cloud.Inventory.RefreshNow(t.Context(), fmt.Sprintf("silent-%d", n)); err != nil {
				t.Fatal(err)
			}
		}
		sweeps := l.proxy.Counts()["DescribeSecurityGroups"] // only sweeps list these
		if most := 1 + second/int(inventory.UrgentSweep.Seconds()); sweeps > most {
			t.Fatalf("after %d s there were %d sweeps, at most %d may be", second, sweeps, most)
		}
		if looks, most := l.proxy.Counts()["DescribeInstances"]-2*sweeps, inventory.UrgentBurst+inventory.UrgentRate*second; looks > most {
			t.Fatalf("after %d s %d looks were made, at most %d may be", second, looks, most)
		}
		l.pass(time.Second)
	}
	if n := l.proxy.Counts()["DescribeInstances"]; n < inventory.UrgentBurst+inventory.UrgentRate*seconds/2 {
		t.Errorf("only %d looks were made in %d s", n, seconds)
	}
	// One that got no look of its own is served by the sweeps.
	deadline := time.Now().Add(settleTime)
	for !stateOf(stopped.ID, inventory.StateStopped)(l.cloud.Inventory.Known(l.owner.ClusterUID)) {
		if time.Now().After(deadline) {
			t.Fatal("the sweeps did not see the stopped instance")
		}
		time.Sleep(settleDelay)
	}
}

// A failover must not stand still because EC2 does.
func TestLooksDoNotWaitForASlowEC2(t *testing.T) {
	l := newLab(t, func(o *Options) { o.LookPatience = inventory.LookPatience })
	i := l.running("orders-0")
	l.pass(time.Minute)
	l.observe()
	if _, err := l.sdk().StopInstances(t.Context(), &awsec2.StopInstancesInput{InstanceIds: []string{i.ID}}); err != nil {
		t.Fatal(err)
	}
	l.really(i.ID, inventory.StateStopped)
	answer := l.fault(proxy.Rule{Kind: proxy.Hang, Actions: []string{"DescribeInstances"}})
	if inv, err := l.now(); err != nil || !stateOf(i.ID, inventory.StateRunning)(inv) {
		t.Errorf("while EC2 does not answer: %+v (%v), want what was known before", inv.Instances, err)
	}
	answer()
	deadline := time.Now().Add(settleTime)
	for !stateOf(i.ID, inventory.StateStopped)(l.cloud.Inventory.Known(l.owner.ClusterUID)) {
		if time.Now().After(deadline) {
			t.Fatal("the late answer was thrown away")
		}
		time.Sleep(settleDelay)
	}
}

// Once EC2 could not be read, nobody waits for as long as a list may take to find out that it still cannot.
func TestNobodyWaitsForASweepOfASilentEC2(t *testing.T) {
	l := newLab(t, func(o *Options) { o.LookPatience = inventory.LookPatience })
	i := l.running("orders-0")
	l.observe()
	l.pass(time.Minute)
	failing := l.fault(proxy.Rule{Kind: proxy.Fail, Code: "InternalError", Actions: []string{"DescribeVolumes"}})
	observe := func() (inventory.Inventory, error) {
		l.pass(inventory.SweepInterval / inventory.RetryPart)
		return l.cloud.Inventory.Observe(t.Context(), l.owner.ClusterUID, time.Second)
	}
	if _, err := observe(); awsapi.Classify(err) != awsapi.Transient || err == nil {
		t.Fatalf("%v, want EC2's internal error", err)
	}
	silent := l.fault(proxy.Rule{Kind: proxy.Hang, Actions: []string{"DescribeVolumes"}})
	failing()
	for range 2 {
		if inv, err := observe(); awsapi.Classify(err) != awsapi.Transient || err == nil || !stateOf(i.ID, inventory.StateRunning)(inv) {
			t.Errorf("%v with %+v, want the trouble that is known, without waiting for the sweep", err, inv.Instances)
		}
	}
	silent()
	for deadline := time.Now().Add(settleTime); ; time.Sleep(settleDelay) {
		if _, err := observe(); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the sweep that nobody waited for did not end the trouble")
		}
	}
}

// No answer, a wrong one and a refused one are not "it does not exist".
func TestNothingIsTakenForAbsence(t *testing.T) {
	for name, rule := range map[string]proxy.Rule{
		"throttled":   proxy.Throttle("Describe*"),
		"denied":      proxy.Deny("Describe*"),
		"unavailable": {Kind: proxy.Fail, Code: "Unavailable"},
		"refused":     {Kind: proxy.Refuse},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			i, v := l.running("orders-0"), l.available("orders-0")
			moving := l.volume("orders-1")
			l.observe()
			l.pass(inventory.FreshFor + time.Minute) // nothing is fresh any more: only an answer keeps it
			l.fault(rule)
			for step, read := range map[string]func() (inventory.Inventory, error){
				"sweep": func() (inventory.Inventory, error) {
					return l.cloud.Inventory.Observe(t.Context(), l.owner.ClusterUID, time.Second)
				},
				"refresh": func() (inventory.Inventory, error) { return l.cloud.Inventory.Refresh(t.Context(), l.owner.ClusterUID) },
				"look":    l.now,
			} {
				for range 3 {
					inv, err := read()
					if len(inv.Instances) != 1 || inv.Instances[0].ID != i.ID || inv.Instances[0].State != inventory.StateRunning || len(inv.Volumes) != 2 {
						t.Errorf("%s (%v) shows %+v, want %s, %s and %s", step, err, inv, i.ID, v.ID, moving.ID)
					}
					if awsapi.IsNotFound(err) || step == "sweep" && err == nil {
						t.Errorf("%s: the error is %v", step, err)
					}
					l.pass(inventory.UrgentFloor)
				}
			}
			if _, ok, err := l.cloud.Inventory.VolumeByID(t.Context(), v.ID); err == nil || ok || awsapi.IsNotFound(err) {
				t.Errorf("looking for a volume: %v, %v", ok, err)
			}
		})
	}
}

// TestWhatTakesLongIsAskedForLessAndLess hides a launched instance for a minute: EC2 is asked often at first, every five
// seconds in the end, and never later than that once it shows the instance.
func TestWhatTakesLongIsAskedForLessAndLess(t *testing.T) {
	l := newLab(t)
	l.fault(proxy.Rule{Kind: proxy.Absent, For: time.Minute})
	in := l.launch("orders-0")
	l.proxy.ResetCalls()
	look := func(seconds int) int {
		for range 2 * seconds {
			l.pass(inventory.RefreshFloor)
			if _, err := l.cloud.Inventory.Refresh(t.Context(), l.owner.ClusterUID); err != nil {
				t.Fatal(err)
			}
		}
		n := l.proxy.Counts()["DescribeInstances"]
		l.proxy.ResetCalls()
		return n
	}
	if n := look(4); n < 7 || n > 8 {
		t.Errorf("%d looks in the first 4 s, each half second one is due", n)
	}
	if n := look(36); n < 15 || n > 22 {
		t.Errorf("%d looks in the next 36 s, about 20 are due", n)
	}
	if n := look(15); n < 3 || n > 4 {
		t.Errorf("%d looks in the next 15 s, 3 are due", n)
	}
	l.really(in.ID, inventory.StateRunning) // by the server's own clock
	look(5 + 5)
	if inv, err := l.cloud.Inventory.Refresh(t.Context(), l.owner.ClusterUID); err != nil || !stateOf(in.ID, inventory.StateRunning)(inv) {
		t.Errorf("5 s after EC2 shows it as running it is %+v (%v)", inv.Instances, err)
	}
}
