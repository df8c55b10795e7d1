package inventory

import (
	"context"
	"fmt"
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

// TestInstancesAreJudgedWithoutVolumes that EC2 refuses, throttles or does not list, from the first sweep on or later: what it answers of
// instances is used, in sweeps and looks, and no volume counts as absent.
func TestInstancesAreJudgedWithoutVolumes(t *testing.T) {
	for _, code := range []string{"UnauthorizedOperation", "RequestLimitExceeded", silent} {
		for _, known := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, known before: %v", code, known), func(t *testing.T) {
				e := &answering{}
				r, pass, _ := readerOf(t, e)
				volumes := 0
				if known {
					if _, err := r.Observe(t.Context(), uid, 0); err != nil {
						t.Fatal(err)
					}
					volumes = 1
				}
				taken := r.Known(uid).Taken
				e.set("DescribeVolumes", code, "no")
				for range 3 {
					pass(SweepInterval)
					inv, err := r.Observe(t.Context(), uid, 0)
					if err == nil || !strings.Contains(awsapi.Message(err), "list volumes") && !strings.Contains(awsapi.Message(err), "ec2:DescribeVolumes") {
						t.Errorf("the sweep: %v, want it to name the list", err)
					}
					if len(inv.Instances) != 1 || !inv.InstancesTaken.Equal(r.clock.Now()) || !inv.Answered["i-1"].Equal(r.clock.Now()) {
						t.Errorf("the sweep shows %v, listed at %s, answered at %v", inv.Instances, inv.InstancesTaken, inv.Answered)
					}
					if len(inv.Volumes) != volumes || !inv.VolumesTaken.Equal(taken) || !inv.Taken.Equal(taken) {
						t.Errorf("the sweep shows %v, listed at %s, as of %s", inv.Volumes, inv.VolumesTaken, inv.Taken)
					}
					pass(UrgentFloor)
					e.lists()
					if inv, err = r.RefreshNow(t.Context(), uid); known && err == nil && code != "RequestLimitExceeded" {
						t.Error("the look says nothing of the volumes")
					}
					if asked := e.lists(); !slices.Contains(asked, "DescribeInstances") || !inv.Answered["i-1"].Equal(r.clock.Now()) || len(inv.Volumes) != volumes {
						t.Errorf("the look asked for %v; answered at %v, with %v", asked, inv.Answered, inv.Volumes)
					}
				}
				e.set("DescribeVolumes", "", "")
				pass(SweepInterval)
				if inv, err := r.Observe(t.Context(), uid, 0); err != nil || !inv.Taken.Equal(r.clock.Now()) || len(inv.Volumes) != 1 {
					t.Errorf("once EC2 answers: of %s with %v (%v)", inv.Taken, inv.Volumes, err)
				}
			})
		}
	}
}

// TestNoLookEndsAnother: that EC2 refuses volumes at once does not cut a slower answer about instances short.
func TestNoLookEndsAnother(t *testing.T) {
	e := &answering{}
	r, pass, _ := readerOf(t, e)
	if _, err := r.Observe(t.Context(), uid, 0); err != nil {
		t.Fatal(err)
	}
	pass(time.Second)
	e.set("DescribeVolumes", "UnauthorizedOperation", "no")
	e.delay("DescribeInstances", 50*time.Millisecond)
	if err := r.LookAgain(t.Context(), IDs{Instances: []string{"i-1"}, Volumes: []string{"vol-1"}}); !awsapi.IsDenied(err) {
		t.Errorf("the look says %v", err)
	}
	if answered := r.Known(uid).Answered["i-1"]; !answered.Equal(r.clock.Now()) {
		t.Errorf("the instance is of %s", answered)
	}
}

// TestWhoWaitsNoLongerForASweep says what the sweep says when it ends, so that a condition does not change.
func TestWhoWaitsNoLongerForASweep(t *testing.T) {
	for _, c := range []struct {
		silent []string
		want   string
	}{
		{[]string{"DescribeInstances", "DescribeVolumes", "DescribeSecurityGroups"}, "list instances: no answer from AWS to ec2:DescribeInstances"},
		{[]string{"DescribeVolumes"}, "list volumes: no answer from AWS to ec2:DescribeVolumes"},
		{[]string{"DescribeSecurityGroups"}, "list security groups: no answer from AWS to ec2:DescribeSecurityGroups"},
	} {
		e := &answering{callTimeout: 2 * time.Second}
		r, pass, _ := readerOf(t, e)
		if _, err := r.Observe(t.Context(), uid, 0); err != nil {
			t.Fatal(err)
		}
		for _, list := range c.silent {
			e.set(list, silent, "")
		}
		pass(SweepInterval)
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		_, gaveUp := r.Observe(brief, uid, 0)
		cancel()
		pass(SweepInterval)
		_, ended := r.Observe(t.Context(), uid, 0)
		want := "read the state of EC2 in us-east-1: " + c.want
		if awsapi.Message(gaveUp) != want || awsapi.Message(ended) != want {
			t.Errorf("%v do not answer: at first %q, then %q, want %q", c.silent, awsapi.Message(gaveUp), awsapi.Message(ended), want)
		}
	}
}
