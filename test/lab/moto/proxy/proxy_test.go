package proxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

var (
	server *moto.Server
	seeded moto.Seeded
)

func TestMain(m *testing.M) {
	os.Exit(moto.RunTests(m, moto.Options{Delay: 50 * time.Millisecond, Log: os.Stderr}, func(s *moto.Server, network moto.Seeded) { server, seeded = s, network }))
}

func start(t *testing.T) (*proxy.Proxy, *ec2.Client) {
	t.Helper()
	return startAt(t, nil)
}

// startAt is start with a clock for the rules' times; nil means the real one.
func startAt(t *testing.T, clock clock.PassiveClock) (*proxy.Proxy, *ec2.Client) {
	t.Helper()
	p, err := proxy.Start(t.Context(), proxy.Options{Upstream: server.Endpoint(), Seed: 1, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p, ec2.NewFromConfig(moto.Config(p.Endpoint()))
}

func add(t *testing.T, p *proxy.Proxy, r proxy.Rule) string {
	t.Helper()
	id, err := p.Add(r)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func launch(zone, kind, token string) *ec2.RunInstancesInput {
	in := &ec2.RunInstancesInput{
		ImageId: aws.String(seeded.Image), InstanceType: types.InstanceType(kind),
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: aws.String(seeded.Subnets[zone]),
	}
	if token != "" {
		in.ClientToken = aws.String(token)
	}
	return in
}

func code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	if err != nil {
		return "no answer"
	}
	return ""
}

func wantCode(t *testing.T, err error, want string) {
	t.Helper()
	if got := code(err); got != want {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
}

func TestThrottling(t *testing.T) {
	p, c := start(t)
	throttle := proxy.Throttle("Describe*")
	throttle.Count = 2
	add(t, p, throttle)
	for _, want := range []string{"RequestLimitExceeded", "RequestLimitExceeded", ""} {
		_, err := c.DescribeInstances(t.Context(), nil)
		wantCode(t, err, want)
	}
	if n := p.Counts()["DescribeInstances"]; n != 3 {
		t.Errorf("counted %d calls", n)
	}
	if calls := p.Calls(); calls[0].Status != 503 || calls[0].Fault != proxy.Fail || calls[2].Status != 200 {
		t.Errorf("calls %+v", calls)
	}
	some := proxy.Throttle()
	some.Probability = 0.5
	add(t, p, some)
	throttled := 0
	for range 40 {
		if _, err := c.DescribeVpcs(t.Context(), nil); err != nil {
			throttled++
		}
	}
	if throttled < 10 || throttled > 30 {
		t.Errorf("of 40 calls %d were throttled at probability 0.5", throttled)
	}
}

// Each action has a bucket of its own, which dry runs draw on as well.
func TestBuckets(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	p, c := startAt(t, clock)
	for _, r := range proxy.Buckets() {
		add(t, p, r)
	}
	run := func(dry bool, want string) {
		t.Helper()
		in := launch("us-east-1a", "m6i.large", "")
		in.DryRun = aws.Bool(dry)
		_, err := c.RunInstances(t.Context(), in)
		wantCode(t, err, want)
	}
	for range 3 {
		run(true, "DryRunOperation")
	}
	for range 2 {
		run(false, "")
	}
	run(false, "RequestLimitExceeded")
	_, err := c.StartInstances(t.Context(), &ec2.StartInstancesInput{InstanceIds: []string{"i-0deadbeefdeadbeef"}})
	wantCode(t, err, "InvalidInstanceID.NotFound")
	_, err = c.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
	wantCode(t, err, "")
	clock.SetTime(clock.Now().Add(time.Second))
	for range 2 {
		run(false, "")
	}
	run(true, "RequestLimitExceeded")
}

func TestDelaysVary(t *testing.T) {
	p, c := start(t)
	add(t, p, proxy.Rule{Kind: proxy.Delay, Delay: time.Millisecond, Jitter: 200 * time.Millisecond})
	begin := time.Now()
	for range 5 {
		_, err := c.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
		wantCode(t, err, "")
	}
	if took := time.Since(begin); took < 150*time.Millisecond {
		t.Errorf("five calls took %s, with up to 200 ms more than one each", took)
	}
}

// What is always so is no fault: it does not end with the faults, and is not listed or logged as one.
func TestWhatAlwaysHolds(t *testing.T) {
	p, err := proxy.Start(t.Context(), proxy.Options{Upstream: server.Endpoint(), Always: proxy.Latency()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	add(t, p, proxy.Throttle())
	p.Clear()
	if left := p.Rules(); len(left) != 0 {
		t.Errorf("listed after all faults ended: %v", left)
	}
	begin := time.Now()
	_, err = ec2.NewFromConfig(moto.Config(p.Endpoint())).DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
	wantCode(t, err, "")
	if took := time.Since(begin); took < 300*time.Millisecond {
		t.Errorf("a list took %s, in EC2 at least 300 ms", took)
	}
	for _, call := range p.Calls() {
		if call.Fault != "" {
			t.Errorf("%s was logged as a fault of kind %s", call.Action, call.Fault)
		}
	}
	if _, err := proxy.Start(t.Context(), proxy.Options{Upstream: server.Endpoint(), Always: []proxy.Rule{{Kind: "odd"}}}); err == nil {
		t.Error("a proxy started with a rule of unknown kind")
	}
}

func TestDenial(t *testing.T) {
	p, c := start(t)
	add(t, p, proxy.Deny("RunInstances"))
	in := launch("us-east-1a", "m6i.large", "")
	_, err := c.RunInstances(t.Context(), in)
	wantCode(t, err, "UnauthorizedOperation")
	in.DryRun = aws.Bool(true)
	_, err = c.RunInstances(t.Context(), in)
	wantCode(t, err, "UnauthorizedOperation")
	_, err = c.DescribeInstances(t.Context(), nil)
	wantCode(t, err, "")
	p.Clear()
	_, err = c.RunInstances(t.Context(), in)
	wantCode(t, err, "DryRunOperation")
}

func TestNoCapacityInOneZone(t *testing.T) {
	p, c := start(t)
	add(t, p, proxy.Rule{Kind: proxy.NoCapacity, Zone: "us-east-1a", InstanceType: "m6i.large"})
	for _, row := range []struct {
		zone, kind string
		dry        bool
		want       string
	}{
		{"us-east-1a", "m6i.large", false, "InsufficientInstanceCapacity"},
		{"us-east-1a", "m6i.large", true, "DryRunOperation"},
		{"us-east-1a", "m6i.xlarge", false, ""},
		{"us-east-1b", "m6i.large", false, ""},
	} {
		in := launch(row.zone, row.kind, "")
		in.DryRun = aws.Bool(row.dry)
		_, err := c.RunInstances(t.Context(), in)
		wantCode(t, err, row.want)
	}
}

func TestLostAnswer(t *testing.T) {
	p, c := start(t)
	add(t, p, proxy.LoseAnswers(1, "RunInstances"))
	bad := launch("us-east-1a", "m6i.nothing", "")
	_, err := c.RunInstances(t.Context(), bad)
	wantCode(t, err, "InvalidParameterValue") // an error is not lost

	in := launch("us-east-1a", "m6i.large", "lost-1")
	_, err = c.RunInstances(t.Context(), in)
	wantCode(t, err, "no answer")
	again, err := c.RunInstances(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	found, err := c.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{
		Filters: []types.Filter{{Name: aws.String("client-token"), Values: []string{"lost-1"}}},
	})
	if err != nil || len(found.Reservations) != 1 ||
		aws.ToString(found.Reservations[0].Instances[0].InstanceId) != aws.ToString(again.Instances[0].InstanceId) {
		t.Errorf("the lost call and its retry did not make one instance (%v)", err)
	}
}

func TestFreshThingsAreAbsent(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	p, c := startAt(t, clock)
	const hidden = 30 * time.Second
	add(t, p, proxy.Rule{Kind: proxy.Absent, For: hidden})
	count := func() (instances, volumes int) {
		t.Helper()
		i, err := c.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range i.Reservations {
			if len(r.Instances) == 0 {
				t.Error("an empty reservation is left")
			}
			instances += len(r.Instances)
		}
		v, err := c.DescribeVolumes(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return instances, len(v.Volumes)
	}
	i0, v0 := count()
	out, err := c.RunInstances(t.Context(), launch("us-east-1a", "m6i.large", ""))
	if err != nil {
		t.Fatal(err)
	}
	vol, err := c.CreateVolume(t.Context(), &ec2.CreateVolumeInput{AvailabilityZone: aws.String("us-east-1a"), Size: aws.Int32(1)})
	if err != nil {
		t.Fatal(err)
	}
	byID := func() error {
		_, err := c.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{aws.ToString(out.Instances[0].InstanceId)}})
		return err
	}
	clock.SetTime(clock.Now().Add(hidden - time.Second))
	i1, v1 := count()
	wantCode(t, byID(), "InvalidInstanceID.NotFound")
	_, err = c.DeleteVolume(t.Context(), &ec2.DeleteVolumeInput{VolumeId: vol.VolumeId})
	wantCode(t, err, "InvalidVolume.NotFound")
	// The root volume is visible: only what the caller named is hidden.
	if i1 != i0 || v1 != v0+1 {
		t.Errorf("instances %d, volumes %d; before %d and %d", i1, v1, i0, v0)
	}
	clock.SetTime(clock.Now().Add(2 * time.Second))
	wantCode(t, byID(), "")
	if i2, v2 := count(); i2 != i0+1 || v2 != v0+2 {
		t.Errorf("in the end instances %d, volumes %d; before %d and %d", i2, v2, i0, v0)
	}
}

func TestSilence(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	p, c := startAt(t, clock)
	id := add(t, p, proxy.Blackout())
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := c.DescribeInstances(ctx, nil)
	wantCode(t, err, "no answer")

	answered := make(chan error, 1)
	go func() {
		_, err := c.DescribeInstances(context.Background(), nil)
		answered <- err
	}()
	time.Sleep(100 * time.Millisecond)
	p.Remove(id)
	wantCode(t, <-answered, "")

	add(t, p, proxy.Rule{Kind: proxy.Refuse, For: time.Minute})
	_, err = c.DescribeInstances(t.Context(), nil)
	wantCode(t, err, "no answer")
	clock.SetTime(clock.Now().Add(time.Minute + time.Second))
	add(t, p, proxy.Rule{Kind: proxy.Delay, Delay: 200 * time.Millisecond})
	begin := time.Now()
	_, err = c.DescribeInstances(t.Context(), nil)
	wantCode(t, err, "")
	if took := time.Since(begin); took < 200*time.Millisecond {
		t.Errorf("a delayed call took %s", took)
	}
}

func TestOtherServices(t *testing.T) {
	p, _ := start(t)
	parameters := ssm.NewFromConfig(moto.Config(p.Endpoint()))
	identity := sts.NewFromConfig(moto.Config(p.Endpoint()))
	get := func() error {
		_, err := parameters.GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String(seeded.SSMParameter)})
		return err
	}
	whoami := func() error {
		_, err := identity.GetCallerIdentity(t.Context(), nil)
		return err
	}
	add(t, p, proxy.Throttle()) // EC2 only
	wantCode(t, get(), "")
	wantCode(t, whoami(), "")
	add(t, p, proxy.Rule{Kind: proxy.Fail, Service: "ssm", Code: "AccessDeniedException"})
	add(t, p, proxy.Rule{Kind: proxy.Fail, Service: "sts", Code: "AccessDenied", Message: "not <you>"})
	wantCode(t, get(), "AccessDeniedException")
	wantCode(t, whoami(), "AccessDenied")
	if n := p.Counts(); n["GetParameter"] != 2 || n["GetCallerIdentity"] != 2 {
		t.Errorf("counts %v", n)
	}
}

func TestControlAPI(t *testing.T) {
	p, c := start(t)
	call := func(method, path, body string, want int) []byte {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, p.ControlEndpoint()+path, bytes.NewBufferString(body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != want {
			t.Errorf("%s %s: %s %s %v", method, path, response.Status, answer, err)
		}
		return answer
	}
	var added struct{ ID string }
	if err := json.Unmarshal(call("POST", "/rules", `{"kind":"fail","code":"InternalError","for":"1h"}`, 200), &added); err != nil {
		t.Fatal(err)
	}
	_, err := c.DescribeInstances(t.Context(), nil)
	wantCode(t, err, "InternalError")
	var rules map[string]proxy.Rule
	if err := json.Unmarshal(call("GET", "/rules", "", 200), &rules); err != nil || rules[added.ID].For != time.Hour {
		t.Errorf("rules %+v: %v", rules, err)
	}
	call("DELETE", "/rules/"+added.ID, "", 200)
	_, err = c.DescribeInstances(t.Context(), nil)
	wantCode(t, err, "")
	var counts map[string]int
	if err := json.Unmarshal(call("GET", "/counts", "", 200), &counts); err != nil || counts["DescribeInstances"] != 2 {
		t.Errorf("counts %v: %v", counts, err)
	}
	call("DELETE", "/calls", "", 200)
	if calls := call("GET", "/calls", "", 200); string(bytes.TrimSpace(calls)) != "null" {
		t.Errorf("calls %s", calls)
	}
	for _, bad := range []string{
		`{`, `{"kind":"earthquake"}`, `{"kind":"fail"}`, `{"kind":"delay"}`, `{"kind":"absent"}`, `{"kind":"bucket","burst":5}`, `{"kind":"delay","delay":"1s","jitter":"-1s"}`,
		`{"kind":"hang","probability":2}`, `{"kind":"hang","for":"soon"}`, `{"kind":"hang","actions":["["]}`,
	} {
		call("POST", "/rules", bad, 400)
	}
}
