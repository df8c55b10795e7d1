package cloud_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// life is one instance with one data volume, mounted on /data.
type life struct {
	lab        *lab
	id, volume string
}

// One instance's life: launch, disk, stop and start, reboots, power cut,
// snapshot, growth, terminate. Nothing is left on the host.
func TestCloudLife(t *testing.T) {
	l := startLab(t)
	id := l.launch()
	l.awaitState(id, "running")
	l.awaitConsole(id, "lab: first boot of ip-10-77-1-")
	l.eventually("port 3306", func() bool { return l.dial(id) == nil })

	volume := l.volume(2, nil)
	l.attach(volume, id, "/dev/sdf")
	if got, want := l.in(id, "cat /sys/block/*/device/serial; readlink -f "+byID(volume)+" "+byID(volume)+"_1"), strings.Replace(volume, "-", "", 1)+"\n/dev/nvme1n1\n/dev/nvme1n1"; got != want {
		t.Errorf("the instance sees of the volume %q, want %q", got, want)
	}
	s := &life{lab: l, id: id, volume: volume}
	l.in(id, "mkfs.xfs -q "+byID(volume)+"; mkdir -p /data; mount "+byID(volume)+" /data; echo kept > /data/synced; sync -f /data")

	t.Run("a mounted volume stays until it is unmounted", s.detachMounted)
	t.Run("stop and start", s.stopAndStart)
	t.Run("power cut loses what is not synced and nothing else", s.cutPower)
	t.Run("snapshot of a mounted volume, growth", s.snapshotAndGrow)
	t.Run("reboots by API and by the guest", s.rebootTwice)
	t.Run("the guest powers off", s.powerOffInside)
	t.Run("terminate", s.terminate)
}

// detachMounted: a mounted volume stays until it is unmounted.
func (s *life) detachMounted(t *testing.T) {
	l, id, volume := s.lab.with(t), s.id, s.volume
	must[*ec2.DetachVolumeOutput](t)(l.client.DetachVolume(t.Context(), &ec2.DetachVolumeInput{VolumeId: aws.String(volume)}))
	time.Sleep(500 * time.Millisecond)
	if got := l.describe(volume).Attachments; len(got) != 1 || got[0].State != types.VolumeAttachmentStateDetaching {
		t.Errorf("attachments %+v", got)
	}
	l.in(id, "umount /data")
	l.eventually("volume available", func() bool { return l.describe(volume).State == types.VolumeStateAvailable })
	if out := l.in(id, "ls /dev /dev/disk/by-id /sys/block | grep nvme || true"); out != "" {
		t.Errorf("devices left: %s", out)
	}
	l.attach(volume, id, "/dev/sdf")
}

// stopAndStart: address and data survive stop and start.
func (s *life) stopAndStart(t *testing.T) {
	l, id, disk := s.lab.with(t), s.id, byID(s.volume)
	address := aws.ToString(l.instance(id).PrivateIpAddress)
	l.stop(id)
	if err := l.dial(id); err == nil || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("a stopped instance is not silent: %v", err)
	}
	l.start(id)
	l.awaitConsole(id, "lab: boot, data: nvme-Amazon_Elastic_Block_Store_vol")
	l.eventually("port 3306", func() bool { return l.dial(id) == nil })
	if got := aws.ToString(l.instance(id).PrivateIpAddress); got != address {
		t.Errorf("address %s, was %s", got, address)
	}
	if got := l.in(id, "mkdir -p /data; mount "+disk+" /data; cat /data/synced"); got != "kept" {
		t.Errorf("on the volume: %q", got)
	}
}

// cutPower: a power cut loses what is not synced and nothing else.
func (s *life) cutPower(t *testing.T) {
	l, id, disk := s.lab.with(t), s.id, byID(s.volume)
	l.in(id, "echo synced > /data/a; sync -f /data; echo not > /data/b")
	if err := l.PowerCut(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := l.dial(id); err == nil || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("a machine without power is not silent: %v", err)
	}
	l.eventually("checks impaired", func() bool {
		out := must[*ec2.DescribeInstanceStatusOutput](t)(l.client.DescribeInstanceStatus(t.Context(), nil))
		return len(out.InstanceStatuses) == 1 && out.InstanceStatuses[0].SystemStatus.Status == types.SummaryStatusImpaired
	})
	if got := l.instance(id).State.Name; got != "running" {
		t.Errorf("EC2 calls it %s", got)
	}
	if err := l.PowerOn(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	l.eventually("port 3306", func() bool { return l.dial(id) == nil })
	got := l.in(id, "mkdir -p /data; mount "+disk+" /data; cat /data/a; cat /data/b 2>/dev/null || true")
	if got != "synced" {
		t.Errorf("after the power cut: %q", got)
	}
}

// snapshotAndGrow: a snapshot of a mounted volume is one of its moment; a volume grows in place.
func (s *life) snapshotAndGrow(t *testing.T) {
	l, id, volume := s.lab.with(t), s.id, s.volume
	l.in(id, "echo then > /data/c; sync -f /data")
	out := must[*ec2.CreateSnapshotOutput](t)(l.client.CreateSnapshot(t.Context(), &ec2.CreateSnapshotInput{VolumeId: aws.String(volume)}))
	l.eventually("snapshot completed", func() bool {
		d := must[*ec2.DescribeSnapshotsOutput](t)(l.client.DescribeSnapshots(t.Context(), &ec2.DescribeSnapshotsInput{SnapshotIds: []string{aws.ToString(out.SnapshotId)}}))
		return d.Snapshots[0].State == types.SnapshotStateCompleted
	})
	l.in(id, "echo now > /data/c; sync -f /data")
	copied := l.volume(3, out.SnapshotId)
	l.attach(copied, id, "/dev/sdg")
	got := l.in(id, "mkdir -p /copy; mount -o nouuid "+byID(copied)+" /copy; cat /copy/c; umount /copy; cat /data/c")
	if got != "then\nnow" {
		t.Errorf("snapshot and volume hold %q", got)
	}
	must[*ec2.ModifyVolumeOutput](t)(l.client.ModifyVolume(t.Context(), &ec2.ModifyVolumeInput{VolumeId: aws.String(volume), Size: aws.Int32(4)}))
	l.eventually("grown", func() bool {
		d := must[*ec2.DescribeVolumesModificationsOutput](t)(l.client.DescribeVolumesModifications(t.Context(), &ec2.DescribeVolumesModificationsInput{VolumeIds: []string{volume}}))
		return d.VolumesModifications[0].ModificationState == types.VolumeModificationStateCompleted
	})
	if got := l.in(id, "xfs_growfs /data >/dev/null; df --output=size -BG /data | tail -1"); strings.TrimSpace(got) != "4G" {
		t.Errorf("after growth: %s", got)
	}
}

// rebootTwice: reboots by the API and by the guest.
func (s *life) rebootTwice(t *testing.T) {
	l, id := s.lab.with(t), s.id
	const since = "cut -d ' ' -f 22 /proc/1/stat" // when its first process began, in ticks
	booted := l.in(id, since)
	must[*ec2.RebootInstancesOutput](t)(l.client.RebootInstances(t.Context(), &ec2.RebootInstancesInput{InstanceIds: []string{id}}))
	rebooted := func(was string) string {
		now := was
		l.eventually("rebooted", func() bool {
			if l.power(id) && l.dial(id) == nil {
				if said, err := l.try(id, since); err == nil { // it may just be going down
					now = said
				}
			}
			return now != was
		})
		return now
	}
	booted = rebooted(booted)
	l.in(id, "systemctl reboot --no-block")
	rebooted(booted)
	if got := l.instance(id).State.Name; got != "running" {
		t.Errorf("after a reboot EC2 calls it %s", got)
	}
}

// powerOffInside: a guest that powers off is stopped.
func (s *life) powerOffInside(t *testing.T) {
	l, id := s.lab.with(t), s.id
	l.in(id, "systemctl poweroff --no-block")
	l.awaitState(id, "stopped")
	l.start(id)
}

// terminate: the data volume survives its instance.
func (s *life) terminate(t *testing.T) {
	l, id, volume := s.lab.with(t), s.id, s.volume
	must[*ec2.TerminateInstancesOutput](t)(l.client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}))
	l.awaitState(id, "terminated")
	if got := l.describe(volume).State; got != types.VolumeStateAvailable {
		t.Errorf("its volume is %s", got)
	}
}
