package cloud_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/cloud"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/host"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
)

const victimCommand = "start-and-wait"

// victim starts a cloud with an instance and a volume in it, says so and waits
// for its end.
func victim(dir string) error {
	ctx := context.Background()
	ledger, err := host.OpenLedger(filepath.Join(dir, "ledger"))
	if err != nil {
		return err
	}
	c, err := cloud.Start(ctx, cloud.Options{Dir: filepath.Join(dir, "cloud"), Ledger: ledger, Log: os.Stderr})
	if err != nil {
		return err
	}
	client := ec2.NewFromConfig(moto.Config(c.Endpoint()))
	run, err := client.RunInstances(ctx, &ec2.RunInstancesInput{
		ImageId: aws.String(c.Seeded().Image), InstanceType: "m6i.large",
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: aws.String(c.Seeded().Subnets["us-east-1a"]),
	})
	if err != nil {
		return err
	}
	volume, err := client.CreateVolume(ctx, &ec2.CreateVolumeInput{AvailabilityZone: aws.String("us-east-1a"), Size: aws.Int32(1)})
	if err != nil {
		return err
	}
	attached := false
	for begin := time.Now(); time.Since(begin) < patience; time.Sleep(100 * time.Millisecond) {
		if !attached {
			_, err := client.AttachVolume(ctx, &ec2.AttachVolumeInput{
				VolumeId: volume.VolumeId, InstanceId: run.Instances[0].InstanceId, Device: aws.String("/dev/sdf"),
			})
			attached = err == nil
			continue
		}
		out, err := client.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{aws.ToString(volume.VolumeId)}})
		if err != nil {
			return err
		}
		if a := out.Volumes[0].Attachments; len(a) == 1 && a[0].State == types.VolumeAttachmentStateAttached {
			fmt.Println("ready")
			select {}
		}
	}
	return errors.New("the volume was not attached")
}

// A cloud that was killed leaves only what its ledger names.
func TestCloudKilled(t *testing.T) {
	claim(t)
	before := hostState(t)
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), exe, victimCommand, dir)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "ready" {
	}
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait() // it was killed
	ledger, err := host.OpenLedger(filepath.Join(dir, "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	removed, err := ledger.Clean(context.Background())
	if err != nil {
		t.Error(err)
	}
	kinds := map[host.Kind]bool{}
	for _, e := range removed {
		kinds[e.Kind] = true
	}
	for _, k := range []host.Kind{host.KindNetNS, host.KindLoop, host.KindCgroup, host.KindDir} {
		if !kinds[k] {
			t.Errorf("nothing of kind %s was cleaned: %v", k, removed)
		}
	}
	asBefore(t, before)
}
