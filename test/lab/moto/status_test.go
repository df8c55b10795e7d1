package moto_test

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
)

// statuses lists the instances whose status fits a filter.
func statuses(t *testing.T, name string, values ...string) map[string]types.InstanceStatus {
	t.Helper()
	out, err := client().DescribeInstanceStatus(t.Context(), &ec2.DescribeInstanceStatusInput{
		Filters: []types.Filter{{Name: aws.String(name), Values: values}},
	})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]types.InstanceStatus{}
	for _, s := range out.InstanceStatuses {
		found[aws.ToString(s.InstanceId)] = s
	}
	return found
}

func TestStatusFilters(t *testing.T) {
	at := time.Date(2026, 3, 1, 4, 0, 0, 0, time.UTC)
	kinds := map[string]moto.Status{
		"instance-status.status":     {Instance: "impaired"},
		"system-status.status":       {System: "impaired"},
		"attached-ebs-status.status": {Volumes: "impaired"},
		"event.code":                 {Events: []moto.Event{{Code: "system-reboot", Description: "scheduled reboot", NotBefore: at}}},
	}
	ids := map[string]string{}
	for name, status := range kinds {
		status.ID = mustLaunch(t)
		awaitState(t, status.ID, "running")
		if err := server.SetStatus(t.Context(), status); err != nil {
			t.Fatal(err)
		}
		ids[name] = status.ID
	}
	for name, id := range ids {
		value := "impaired"
		if name == "event.code" {
			value = "system-reboot"
		}
		found := statuses(t, name, value, "no-such-value")
		for other, otherID := range ids {
			if _, shown := found[otherID]; shown != (otherID == id) {
				t.Errorf("%s: the instance made for %s is shown: %v", name, other, shown)
			}
		}
		if got := found[id]; name == "event.code" && (len(got.Events) != 1 || !aws.ToTime(got.Events[0].NotBefore).Equal(at)) {
			t.Errorf("the events are %+v", got.Events)
		}
	}
	_, err := client().DescribeInstanceStatus(t.Context(), &ec2.DescribeInstanceStatusInput{
		Filters: []types.Filter{{Name: aws.String("tag:Name"), Values: []string{"x"}}},
	})
	wantCode(t, err, "InvalidParameterValue")
}

// A stop that does not get on helps itself by no time and by no call but another with force.
func TestStuckStop(t *testing.T) {
	goOn := hold(t)
	id := mustLaunch(t)
	stop := func(force bool) error {
		_, err := client().StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id}, Force: aws.Bool(force)})
		return err
	}
	wantCode(t, stop(true), "IncorrectInstanceState")
	goOn()
	awaitState(t, id, "running")
	if err := server.SetStatus(t.Context(), moto.Status{ID: id, Stuck: 2}); err != nil {
		t.Fatal(err)
	}
	for _, force := range []bool{true, false, true, false} {
		if err := stop(force); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * testDelay)
		if state := instance(t, id).State.Name; state != types.InstanceStateNameStopping {
			t.Fatalf("after a stop (force %v) it is %s, want stopping", force, state)
		}
	}
	if err := stop(true); err != nil {
		t.Fatal(err)
	}
	awaitState(t, id, "stopped")
	world, err := server.World(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(world.Instances, func(i moto.Instance) bool { return i.ID == id }); i < 0 || !world.Instances[i].Force {
		t.Error("the world does not show that it was forced")
	}
}
