package cloud_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/cloud"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/host"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
)

const (
	// patience bounds every wait for something that has to happen, on a machine that may be busy with other things.
	patience = 4 * time.Minute
	// dialTimeout is how long a silent machine is waited for. One that is there answers in a moment, or on a busy host in some.
	dialTimeout = 5 * time.Second
	// turn is how long a test waits for other labs of this machine to end.
	turn = 10 * time.Minute
)

// The test binary is also what instances boot through.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == cloud.Commands()[0].Use {
		fmt.Fprintln(os.Stderr, cloud.BootInside(context.Background()))
		os.Exit(1)
	}
	if len(os.Args) > 2 && os.Args[1] == victimCommand {
		fmt.Fprintln(os.Stderr, victim(os.Args[2]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// userData prints marks to the console at its one run, and at every boot by an
// enabled unit. Port 3306 answers with the host's name.
const userData = `#!/bin/bash
echo "lab: first boot of $(hostname)" > /dev/console
cat > /usr/local/bin/at-boot <<'S'
#!/bin/bash
echo "lab: boot, data: $(ls /dev/disk/by-id 2>/dev/null | tr '\n' ' ')" > /dev/console
S
chmod +x /usr/local/bin/at-boot
cat > /etc/systemd/system/at-boot.service <<'U'
[Unit]
After=basic.target
[Service]
Type=oneshot
ExecStart=/usr/local/bin/at-boot
[Install]
WantedBy=multi-user.target
U
cat > /etc/systemd/system/answer.service <<'U'
[Service]
ExecStart=/usr/bin/python3 -m http.server 3306 --directory /run
[Install]
WantedBy=multi-user.target
U
systemctl enable --now at-boot.service answer.service
`

type lab struct {
	*cloud.Cloud
	t      *testing.T
	client *ec2.Client
}

func startLab(t *testing.T) *lab {
	t.Helper()
	claim(t)
	before := hostState(t)
	dir := t.TempDir()
	ledger, err := host.OpenLedger(filepath.Join(dir, "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := cloud.Start(t.Context(), cloud.Options{Dir: filepath.Join(dir, "cloud"), Ledger: ledger, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if left := ledger.Entries(); len(left) > 0 {
			t.Errorf("left in the ledger: %v", left)
		}
		if _, err := ledger.Clean(context.Background()); err != nil {
			t.Error(err)
		}
		if err := ledger.Close(); err != nil {
			t.Error(err)
		}
		asBefore(t, before)
	})
	return &lab{Cloud: c, t: t, client: ec2.NewFromConfig(moto.Config(c.Endpoint()))}
}

// with is the same lab for a subtest.
func (l *lab) with(t *testing.T) *lab { return &lab{Cloud: l.Cloud, t: t, client: l.client} }

// claim waits until no other lab runs on this machine and keeps them away.
func claim(t *testing.T) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(time.Second) {
		c, err := host.ClaimMachine(t.Context(), t.TempDir())
		if err == nil && hostState(t) == "" {
			t.Cleanup(func() {
				if err := c.Release(); err != nil {
					t.Error(err)
				}
			})
			return
		}
		if err == nil {
			err = errors.Join(host.ErrClaimed, c.Release()) // another lab still cleans up
		}
		if !errors.Is(err, host.ErrClaimed) || time.Since(begin) > turn {
			t.Fatal(err)
		}
	}
}

// hostState is everything on the host that the cloud may touch and that is
// named as ours: other labs may come and go beside us.
func hostState(t *testing.T) string {
	t.Helper()
	ours := regexp.MustCompile(`nairobi-(fab|lab0|cloud)|/TestCloud|boot-inside`)
	var lines []string
	for _, command := range []string{
		"ip netns", "ip -o link", "losetup -a", "cat /proc/self/mounts",
		"find /sys/fs/cgroup -type d -name nairobi-cloud*", "ps -eo args",
	} {
		words := strings.Fields(command)
		out, err := exec.CommandContext(context.Background(), words[0], words[1:]...).Output()
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		for line := range strings.Lines(string(out)) {
			if ours.MatchString(line) {
				lines = append(lines, command+": "+line)
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// asBefore waits until the host is as it was: what is killed is gone as soon as the kernel gets round to it.
func asBefore(t *testing.T, before string) {
	t.Helper()
	after := hostState(t)
	for begin := time.Now(); after != before && time.Since(begin) < patience/4; after = hostState(t) {
		time.Sleep(200 * time.Millisecond)
	}
	if after != before {
		t.Errorf("the host is not as before:\n--- before\n%s\n--- after\n%s", before, after)
	}
}

func (l *lab) eventually(what string, holds func() bool) {
	l.t.Helper()
	begin := time.Now()
	for time.Since(begin) < patience {
		if holds() {
			l.t.Logf("%s after %s", what, time.Since(begin).Round(time.Millisecond))
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, i := range l.Instances() {
		text, _ := l.Console(i.ID)
		l.t.Logf("%s is %s, power %v; console:\n%s", i.ID, i.State, i.Power, text)
	}
	l.t.Fatalf("not seen in %s: %s", patience, what)
}

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (l *lab) launch() string {
	l.t.Helper()
	out := must[*ec2.RunInstancesOutput](l.t)(l.client.RunInstances(l.t.Context(), &ec2.RunInstancesInput{
		ImageId: aws.String(l.Seeded().Image), InstanceType: "m6i.large",
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: aws.String(l.Seeded().Subnets["us-east-1a"]),
		UserData: aws.String(base64.StdEncoding.EncodeToString([]byte(userData))),
	}))
	return aws.ToString(out.Instances[0].InstanceId)
}

func (l *lab) instance(id string) types.Instance {
	l.t.Helper()
	out := must[*ec2.DescribeInstancesOutput](l.t)(
		l.client.DescribeInstances(l.t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}}))
	return out.Reservations[0].Instances[0]
}

func (l *lab) awaitState(id string, state types.InstanceStateName) {
	l.t.Helper()
	l.eventually(string(state), func() bool { return l.instance(id).State.Name == state })
}

// awaitConsole waits for n occurrences of a mark in GetConsoleOutput.
func (l *lab) awaitConsole(id, mark string) {
	l.t.Helper()
	l.eventually("console: "+mark, func() bool {
		out := must[*ec2.GetConsoleOutputOutput](l.t)(
			l.client.GetConsoleOutput(l.t.Context(), &ec2.GetConsoleOutputInput{InstanceId: aws.String(id)}))
		text := must[[]byte](l.t)(base64.StdEncoding.DecodeString(aws.ToString(out.Output)))
		return strings.Contains(string(text), mark)
	})
}

// in runs a shell script inside an instance.
func (l *lab) in(id, script string) string {
	l.t.Helper()
	out, err := l.try(id, script)
	if err != nil {
		l.t.Fatal(err)
	}
	return out
}

// try is in for a machine that may be going down.
func (l *lab) try(id, script string) (string, error) {
	for _, i := range l.Instances() {
		if i.ID == id && i.Power {
			out, err := exec.CommandContext(l.t.Context(), "nsenter", "-t", fmt.Sprint(i.PID),
				"-m", "-p", "-n", "-u", "--", "/bin/sh", "-ec", script).CombinedOutput()
			if err != nil {
				return "", fmt.Errorf("in %s: %w: %s", id, err, out)
			}
			return strings.TrimSpace(string(out)), nil
		}
	}
	return "", fmt.Errorf("%s has no power", id)
}

// power says whether an instance is on.
func (l *lab) power(id string) bool {
	return slices.ContainsFunc(l.Instances(), func(s cloud.State) bool { return s.ID == id && s.Power })
}

// dial returns nil when port 3306 of an instance accepts a connection.
func (l *lab) dial(id string) error {
	dialer := net.Dialer{Timeout: dialTimeout}
	connection, err := dialer.DialContext(l.t.Context(), "tcp", aws.ToString(l.instance(id).PrivateIpAddress)+":3306")
	if err != nil {
		return err
	}
	return connection.Close()
}

func (l *lab) volume(size int32, snapshot *string) string {
	l.t.Helper()
	out := must[*ec2.CreateVolumeOutput](l.t)(l.client.CreateVolume(l.t.Context(), &ec2.CreateVolumeInput{
		AvailabilityZone: aws.String("us-east-1a"), Size: aws.Int32(size), SnapshotId: snapshot,
	}))
	id := aws.ToString(out.VolumeId)
	l.eventually("volume available", func() bool { return l.describe(id).State == types.VolumeStateAvailable })
	return id
}

func (l *lab) describe(volume string) types.Volume {
	l.t.Helper()
	out := must[*ec2.DescribeVolumesOutput](l.t)(
		l.client.DescribeVolumes(l.t.Context(), &ec2.DescribeVolumesInput{VolumeIds: []string{volume}}))
	return out.Volumes[0]
}

func (l *lab) attach(volume, id, device string) {
	l.t.Helper()
	must[*ec2.AttachVolumeOutput](l.t)(l.client.AttachVolume(l.t.Context(), &ec2.AttachVolumeInput{
		VolumeId: aws.String(volume), InstanceId: aws.String(id), Device: aws.String(device),
	}))
	l.eventually("volume attached", func() bool {
		a := l.describe(volume).Attachments
		return len(a) == 1 && a[0].State == types.VolumeAttachmentStateAttached
	})
}

func (l *lab) stop(id string) {
	l.t.Helper()
	must[*ec2.StopInstancesOutput](l.t)(
		l.client.StopInstances(l.t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id}}))
	l.awaitState(id, "stopped")
}

func (l *lab) start(id string) {
	l.t.Helper()
	must[*ec2.StartInstancesOutput](l.t)(
		l.client.StartInstances(l.t.Context(), &ec2.StartInstancesInput{InstanceIds: []string{id}}))
	l.awaitState(id, "running")
}

func byID(volume string) string {
	return "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_" + strings.Replace(volume, "vol-", "vol", 1)
}
