package cloud_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/cloud"
)

// Two instances: the faults between machines.
func TestCloudFaults(t *testing.T) {
	l := startLab(t)
	a, b := l.launch(), l.launch()
	for _, id := range []string{a, b} {
		l.eventually("port 3306", func() bool { return l.dial(id) == nil })
	}
	address := aws.ToString(l.instance(b).PrivateIpAddress)
	reaches := func() bool {
		return l.in(a, "curl -s -m 1 -o /dev/null http://"+address+":3306/ && echo yes || echo no") == "yes"
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	l.eventually("instances reach each other", reaches)
	node := exec.CommandContext(t.Context(), "unshare", "--net", "sleep", "600")
	do(node.Start())
	defer func() {
		do(node.Process.Kill())
		_ = node.Wait() // it was killed
	}()
	l.eventually("the node has a network of its own", func() bool {
		its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", node.Process.Pid))
		ours, failed := os.Readlink("/proc/self/ns/net")
		return err == nil && failed == nil && its != ours
	})
	do(l.ConnectNode(node.Process.Pid))
	for _, to := range []string{"http://" + address + ":3306/", l.Endpoint()} {
		out, err := exec.CommandContext(t.Context(), "nsenter", "-n", "-t", fmt.Sprint(node.Process.Pid), "--",
			"curl", "-s", "-m", "30", "-o", "/dev/null", to).CombinedOutput()
		if err != nil {
			t.Errorf("the node does not reach %s: %v: %s", to, err, out)
		}
	}
	do(l.Part(t.Context(), a, b))
	if reaches() || l.dial(a) != nil || l.dial(b) != nil {
		t.Error("a cut pair: wrong ways are open")
	}
	do(l.Join(t.Context(), a, b))
	l.eventually("joined", reaches)

	oneWay(t, l, a, b, reaches)
	full(t, l, b)

	do(l.Isolate(t.Context(), b))
	if err := l.dial(b); err == nil || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("an isolated machine: %v", err)
	}
	do(l.Rejoin(t.Context(), b))
	l.eventually("rejoined", func() bool { return l.dial(b) == nil })

	do(l.Freeze(t.Context(), b))
	if err := l.dial(b); err != nil {
		t.Errorf("a frozen machine does not accept: %v", err)
	}
	if reaches() {
		t.Error("a frozen machine answers")
	}
	do(l.Thaw(t.Context(), b))
	l.eventually("thawed", reaches)

	do(l.KillUnit(t.Context(), b, "answer.service"))
	l.eventually("refused", func() bool { err := l.dial(b); return err != nil && strings.Contains(err.Error(), "refused") })
	if err := l.KillUnit(t.Context(), b, "nothing.service"); err == nil {
		t.Error("a unit that does not run was killed")
	}
	do(l.Spoil(t.Context(), b, "/usr/bin/true"))
	if out := l.in(b, "/usr/bin/true 2>&1 || echo $?"); !strings.Contains(out, "damaged") || !strings.HasSuffix(out, "1") {
		t.Errorf("a spoilt program says %q", out)
	}
	if err := l.Spoil(t.Context(), b, "/usr/bin/nothing"); err == nil {
		t.Error("a program that is not there was spoilt")
	}

	// A frozen guest cannot shut down; without its consent it goes at once.
	do(l.Freeze(t.Context(), b))
	must[*ec2.StopInstancesOutput](t)(l.client.StopInstances(t.Context(), &ec2.StopInstancesInput{
		InstanceIds: []string{b}, Force: aws.Bool(true), SkipOsShutdown: aws.Bool(true),
	}))
	l.awaitState(b, "stopped")
	if err := l.Freeze(t.Context(), b); err == nil {
		t.Error("a machine without power was frozen")
	}
	powerOff(t, l, a)
	do(l.Crash(t.Context(), a))
	l.eventually("off", func() bool { return !l.power(a) })
	t.Run("control API", func(t *testing.T) { controlAPI(t, l, a) })
}

// controlAPI gives a crashed instance its power back over HTTP.
func controlAPI(t *testing.T, l *lab, id string) {
	call := func(method, path string, want int) string {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+cloud.ControlAddress+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != want {
			t.Errorf("%s %s: %s %s %v", method, path, response.Status, body, err)
		}
		return string(body)
	}
	call("POST", "/faults/freeze?instance="+id, http.StatusConflict) // it has no power
	call("POST", "/faults/poweron?instance="+id, http.StatusNoContent)
	l.with(t).eventually("on", func() bool { return l.power(id) })
	l.with(t).eventually("a console", func() bool {
		return strings.Contains(call("GET", "/instances/"+id+"/console", http.StatusOK), "systemd")
	})
	call("GET", "/instances/i-nothing/console", http.StatusNotFound)
	call("POST", "/faults/earthquake?instance="+id, http.StatusNotFound)
	if text := call("GET", "/faults", http.StatusOK); !strings.Contains(text, "powercut") {
		t.Errorf("faults: %s", text)
	}
	var states []cloud.State
	if err := json.Unmarshal([]byte(call("GET", "/instances", http.StatusOK)), &states); err != nil || len(states) != 2 {
		t.Errorf("instances %v: %v", states, err)
	}
}

// oneWay: what one party sends is dropped, and nothing else. A ping is answered only when both ways are open, so the way
// is told by what arrives: a connection's first packet is counted where it should get to.
func oneWay(t *testing.T, l *lab, a, b string, reaches func() bool) {
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	address := aws.ToString(l.instance(b).PrivateIpAddress)
	arrives := func() bool {
		l.in(b, "nft add table ip seen; nft delete table ip seen; nft add table ip seen; "+
			"nft 'add chain ip seen input { type filter hook input priority 0; }'; "+
			"nft 'add rule ip seen input ip saddr "+aws.ToString(l.instance(a).PrivateIpAddress)+" tcp dport 3306 counter'")
		l.in(a, "curl -s -m 1 -o /dev/null http://"+address+":3306/ || true")
		return !strings.Contains(l.in(b, "nft list table ip seen"), "counter packets 0 ")
	}
	for _, c := range []struct {
		from, to string
		arrives  bool
	}{
		{a, b, false}, {a, cloud.PartyMembers, false}, {b, a, true}, {cloud.PartyMembers, a, true},
	} {
		do(l.Cut(t.Context(), c.from, c.to))
		if reaches() {
			t.Errorf("%s is cut from %s and answers come back", c.from, c.to)
		}
		if c.arrives {
			l.eventually("what a sends to b arrives although "+c.from+" is cut from "+c.to, arrives)
		} else if arrives() {
			t.Errorf("cut from %s to %s: what a sends to b arrives", c.from, c.to)
		}
		if l.dial(a) != nil || l.dial(b) != nil {
			t.Errorf("cut from %s to %s: the host is cut off too", c.from, c.to)
		}
		do(l.Mend(t.Context(), c.from, c.to))
		l.eventually("mended", reaches)
	}
	do(l.Cut(t.Context(), a, b))
	do(l.MendAll(t.Context()))
	l.eventually("all mended", reaches)
	for _, wrong := range [][2]string{{a, "nobody"}, {a, "pod:here"}, {"pod:10.244.0.2", cloud.PartyNode}} {
		if err := l.Cut(t.Context(), wrong[0], wrong[1]); err == nil {
			t.Errorf("cut from %s to %s was taken", wrong[0], wrong[1])
		}
	}
}

// full: nothing more can be written to a volume, until there is room again.
func full(t *testing.T, l *lab, id string) {
	if err := l.Fill(t.Context(), id, ""); err == nil {
		t.Error("a machine without a volume was filled")
	}
	volume := l.volume(1, nil)
	l.attach(volume, id, "/dev/sdf")
	disk := byID(volume)
	l.in(id, "mkfs.xfs -q "+disk+" && mkdir -p /data && mount "+disk+" /data")
	write := func() string {
		return l.in(id, "dd if=/dev/zero of=/data/more bs=64k count=16 status=none 2>&1 || true; sync; rm -f /data/more")
	}
	if err := l.Fill(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	if said := write(); !strings.Contains(said, "No space left") {
		t.Errorf("the volume is not full: %q", said)
	}
	for range 2 { // also when there is nothing left to drain
		if err := l.Drain(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if said := write(); said != "" {
		t.Errorf("the volume is still full: %q", said)
	}
	if err := l.Fill(t.Context(), id, "25"); err != nil {
		t.Fatal(err)
	}
	if used := strings.TrimSpace(l.in(id, "df --output=pcent /data | tail -n 1")); used != "75%" && used != "76%" {
		t.Errorf("a quarter was to be left, and %s is used", used)
	}
	if err := l.Fill(t.Context(), id, "much"); err == nil {
		t.Error("a volume was filled up to a word")
	}
	l.in(id, "umount /data")
}

// powerOff: a guest that shuts itself down is stopped in EC2's eyes, and can be started again.
func powerOff(t *testing.T, l *lab, id string) {
	if err := l.PowerOff(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	l.awaitState(id, "stopped")
	if err := l.PowerOff(t.Context(), id); err == nil {
		t.Error("a machine without power was shut down")
	}
	l.start(id)
	l.eventually("on again", func() bool { return l.dial(id) == nil })
}
