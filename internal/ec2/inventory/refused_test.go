package inventory

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// TestLooksGoOnWithoutOneListOfTheSweep that EC2 throttles or refuses: what they show of an instance has its own time, and of the
// list it is said which it is.
func TestLooksGoOnWithoutOneListOfTheSweep(t *testing.T) {
	for _, code := range []string{"RequestLimitExceeded", "UnauthorizedOperation"} {
		t.Run(code, func(t *testing.T) {
			e := &answering{callTimeout: 10 * time.Second} // in which the SDK tries a call that is throttled several times
			r, pass, _ := readerOf(t, e)
			first, err := r.Observe(t.Context(), uid, 0)
			if err != nil || !first.Answered["i-1"].Equal(first.Taken) {
				t.Fatalf("of %s, instances of %v (%v)", first.Taken, first.Answered, err)
			}
			e.set("DescribeSecurityGroups", code, "no")
			for range 2 {
				pass(SweepInterval)
				if _, err := r.Observe(t.Context(), uid, 0); awsapi.IsThrottled(err) == awsapi.IsDenied(err) || !strings.Contains(awsapi.Message(err), "list security groups") {
					t.Errorf("the sweep: %v, want it to name the list", err)
				}
				e.lists()
				inv, err := r.RefreshNow(t.Context(), uid)
				if asked := e.lists(); !slices.Contains(asked, "DescribeInstances") || !slices.Contains(asked, "DescribeVolumes") {
					t.Errorf("a look asked for %v", asked)
				}
				if !inv.Taken.Equal(first.Taken) || !inv.Answered["i-1"].Equal(r.clock.Now()) {
					t.Errorf("the sweep is of %s, the instance of %s; it is %s", inv.Taken, inv.Answered["i-1"], r.clock.Now())
				}
				if awsapi.IsDenied(err) != (code == "UnauthorizedOperation") {
					t.Errorf("the look says %v", err)
				}
			}
			e.set("DescribeSecurityGroups", "", "")
			pass(SweepInterval)
			if inv, err := r.Observe(t.Context(), uid, 0); err != nil || inv.Taken.Equal(first.Taken) {
				t.Errorf("once EC2 answers: of %s (%v)", inv.Taken, err)
			}
			if _, err := r.RefreshNow(t.Context(), uid); err != nil {
				t.Errorf("once EC2 answers, a look says %v", err)
			}
		})
	}
}

// TestAWriteIsNoReading: what EC2 answered to a write is believed, and says nothing of when EC2 was asked.
func TestAWriteIsNoReading(t *testing.T) {
	e := &answering{}
	r, pass, _ := readerOf(t, e)
	first, err := r.Observe(t.Context(), uid, 0)
	if err != nil {
		t.Fatal(err)
	}
	pass(time.Second)
	r.Instances.Changed("i-1", func(i *Instance) { i.State = StateStopped })
	if inv := r.Known(uid); inv.Instances[0].State != StateStopped || !inv.Answered["i-1"].Equal(first.Taken) {
		t.Errorf("it is %s of %s, want that of %s", inv.Instances[0].State, inv.Answered["i-1"], first.Taken)
	}
}
