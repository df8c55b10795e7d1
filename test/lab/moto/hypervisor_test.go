package moto_test

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
)

// With a hypervisor, nothing changes until it says so.
func TestHypervisorReports(t *testing.T) {
	held, err := moto.Start(t.Context(), moto.Options{Hypervisor: true, Delay: time.Millisecond, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := held.Stop(); err != nil {
			t.Error(err)
		}
	}()
	network, err := held.Seed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := ec2.NewFromConfig(held.Config())
	in := launch("")
	in.ImageId, in.SubnetId = aws.String(network.Image), aws.String(network.Subnets["us-east-1a"])
	out, err := c.RunInstances(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	id := aws.ToString(out.Instances[0].InstanceId)
	created, err := c.CreateVolume(t.Context(), &ec2.CreateVolumeInput{AvailabilityZone: aws.String("us-east-1a"), Size: aws.Int32(3)})
	if err != nil {
		t.Fatal(err)
	}
	world := func() (moto.Instance, moto.Volume) {
		w, err := held.World(t.Context())
		if err != nil || len(w.Instances) != 1 || len(w.Volumes) != 1 {
			t.Fatalf("world %+v: %v", w, err)
		}
		return w.Instances[0], w.Volumes[0]
	}
	report := func(r moto.Report) {
		t.Helper()
		if err := held.Report(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	i, v := world()
	if i.State != "pending" || string(i.UserData) != "#!/bin/sh\n" || i.Zone != "us-east-1a" || i.Address == "" || i.MAC == "" {
		t.Errorf("instance %+v", i)
	}
	if v.State != "creating" || v.SizeGiB != 3 {
		t.Errorf("volume %+v", v)
	}
	text := "nairobi-mysql: start\n"
	report(moto.Report{
		Instances: []moto.InstanceReport{{ID: id, State: "running", Console: &text}, {ID: "i-gone", State: "running"}},
		Volumes:   []moto.VolumeReport{{ID: v.ID, Event: moto.VolumeCreated}, {ID: "vol-gone", Event: moto.VolumeCreated}},
	})
	console, err := c.GetConsoleOutput(t.Context(), &ec2.GetConsoleOutputInput{InstanceId: aws.String(id)})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := base64.StdEncoding.DecodeString(aws.ToString(console.Output)); err != nil || string(got) != text {
		t.Errorf("console %q: %v", got, err)
	}
	if _, err := c.AttachVolume(t.Context(), &ec2.AttachVolumeInput{VolumeId: created.VolumeId, InstanceId: aws.String(id), Device: aws.String("/dev/sdf")}); err != nil {
		t.Fatal(err)
	}
	if _, v = world(); v.Attachment != "attaching" || v.Instance != id || v.Device != "/dev/sdf" {
		t.Errorf("volume %+v", v)
	}
	report(moto.Report{Volumes: []moto.VolumeReport{{ID: v.ID, Event: moto.VolumeAttached, Instance: id}}})
	if _, err := c.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id}, Force: aws.Bool(true), SkipOsShutdown: aws.Bool(true)}); err != nil {
		t.Fatal(err)
	}
	if i, v = world(); i.State != "stopping" || !i.Force || !i.SkipShutdown || v.Attachment != "attached" {
		t.Errorf("instance %+v, volume %+v", i, v)
	}
	report(moto.Report{Instances: []moto.InstanceReport{{ID: id, State: "running"}}}) // overtaken
	if i, _ = world(); i.State != "stopping" {
		t.Errorf("a late report changed the state to %s", i.State)
	}
	report(moto.Report{Instances: []moto.InstanceReport{{ID: id, State: "stopped"}}})
	if i, _ = world(); i.State != "stopped" {
		t.Errorf("state %s", i.State)
	}
}
