package awsapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// slowAWS answers each call after a while, by its name, and keeps which it got and when their time is over.
type slowAWS struct {
	takes map[string]time.Duration

	mu       sync.Mutex
	got      []string
	deadline time.Time
}

// calls are the names of those that it got so far.
func (s *slowAWS) calls() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.got, " ")
}

// RoundTrip implements http.RoundTripper.
func (s *slowAWS) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	action := form.Get("Action")
	s.mu.Lock()
	s.got = append(s.got, action)
	s.deadline, _ = r.Context().Deadline()
	s.mu.Unlock()
	select {
	case <-time.After(s.takes[action]):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	answer := fmt.Sprintf(`<%sResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"/>`, action)
	if action == opAssumeRole {
		answer = `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials><AccessKeyId>ASIAEXAMPLE</AccessKeyId>` +
			`<SecretAccessKey>example</SecretAccessKey><SessionToken>example</SessionToken><Expiration>2100-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
}

// connect returns clients of a role, for which STS is asked first.
func (s *slowAWS) connect(t *testing.T, role string) Clients {
	t.Helper()
	clients, err := NewConnector(Config{Middleware: func(http.RoundTripper) http.RoundTripper { return s }}).Connect(t.Context(),
		Account{Region: "us-east-1", RoleARN: role, Static: &StaticCredentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "example"}})
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

const role = "arn:aws:iam::123456789012:role/tenant"

// A call may be late when nothing comes of it then that the next leader does not find.
func TestTimeOfACall(t *testing.T) {
	const short, long = defaultCallTimeout, patience * defaultCallTimeout
	dry, token := aws.Bool(true), aws.String("token")
	for what, c := range map[string]struct {
		call func(context.Context, Clients) error
		want time.Duration
	}{
		"a list": {func(ctx context.Context, c Clients) error {
			_, err := c.EC2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{})
			return err
		}, long},
		"a list before a write": {func(ctx context.Context, c Clients) error {
			_, err := c.EC2.DescribeInstances(BeforeWrite(ctx), &ec2.DescribeInstancesInput{})
			return err
		}, short},
		"the console": {func(ctx context.Context, c Clients) error {
			_, err := c.EC2.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{InstanceId: aws.String("i-1")})
			return err
		}, long},
		"a parameter": {func(ctx context.Context, c Clients) error {
			_, err := c.SSM.GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String("x")})
			return err
		}, long},
		"the account": {func(ctx context.Context, c Clients) error {
			_, err := c.STS.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
			return err
		}, long},
		"a role": {func(ctx context.Context, c Clients) error {
			_, err := c.STS.AssumeRole(BeforeWrite(ctx), &sts.AssumeRoleInput{RoleArn: aws.String(role), RoleSessionName: aws.String("x")})
			return err
		}, long},
		"a fence": {func(ctx context.Context, c Clients) error {
			_, err := c.EC2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{"i-1"}})
			return err
		}, short},
		"its rehearsal": {func(ctx context.Context, c Clients) error {
			_, err := c.EC2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{"i-1"}, DryRun: dry})
			return err
		}, long},
		"a launch": {func(ctx context.Context, c Clients) error {
			_, err := c.EC2.RunInstances(ctx, &ec2.RunInstancesInput{ClientToken: token, MinCount: aws.Int32(1), MaxCount: aws.Int32(1)})
			return err
		}, long},
		"a launch without a token of ours": {func(ctx context.Context, c Clients) error {
			_, err := c.EC2.RunInstances(ctx, &ec2.RunInstancesInput{MinCount: aws.Int32(1), MaxCount: aws.Int32(1)})
			return err
		}, short},
		"a volume": {func(ctx context.Context, c Clients) error {
			_, err := c.EC2.CreateVolume(ctx, &ec2.CreateVolumeInput{ClientToken: token})
			return err
		}, long},
		"a volume without a token of ours": {func(ctx context.Context, c Clients) error {
			_, err := c.EC2.CreateVolume(ctx, &ec2.CreateVolumeInput{})
			return err
		}, short},
		"a snapshot": {func(ctx context.Context, c Clients) error {
			_, err := c.EC2.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{VolumeId: aws.String("vol-1")})
			return err
		}, short},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // in which time stands still while something runs
				s := &slowAWS{}
				clients := s.connect(t, "")
				began := time.Now()
				err := c.call(t.Context(), clients) // which does not matter: not every answer here is whole
				if got := s.deadline.Sub(began); got != c.want {
					t.Errorf("it may take %s, want %s (%v)", got, c.want, err)
				}
			})
		})
	}
}

// STS may take longer for a role than a write may take: a call that may be late begins after that, a write fails before it is sent.
func TestCredentialsThatTakeLong(t *testing.T) {
	for _, c := range []struct {
		what     string
		takes    map[string]time.Duration
		read, ok bool
	}{
		{what: "a list", takes: map[string]time.Duration{opAssumeRole: 19 * time.Second, "DescribeVolumes": 19 * time.Second}, read: true, ok: true},
		{what: "a list that takes too long", takes: map[string]time.Duration{opAssumeRole: 19 * time.Second, "DescribeVolumes": 21 * time.Second}, read: true},
		{what: "a write", takes: map[string]time.Duration{opAssumeRole: 2 * time.Second, "StopInstances": time.Second}, ok: true},
		{what: "a write that takes too long", takes: map[string]time.Duration{opAssumeRole: 2 * time.Second, "StopInstances": 3 * time.Second}},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slowAWS{takes: c.takes}
				clients := s.connect(t, role)
				var err error
				if c.read {
					_, err = clients.EC2.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{})
				} else {
					_, err = clients.EC2.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{"i-1"}})
				}
				if (err == nil) != c.ok || err != nil && (Classify(err) != Unreachable || !errors.Is(err, context.DeadlineExceeded)) {
					t.Errorf("%v (%s), want success: %t", err, Classify(err), c.ok)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := &slowAWS{takes: map[string]time.Duration{opAssumeRole: 6 * time.Second}}
		clients := s.connect(t, role)
		stop := func() error {
			_, err := clients.EC2.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{"i-1"}})
			return err
		}
		if err := stop(); !IsUnreachable(err) || s.calls() != opAssumeRole {
			t.Errorf("%v after %v: it is late, and was sent", err, s.calls())
		}
		time.Sleep(3 * time.Second)
		if err := stop(); err != nil || s.calls() != opAssumeRole+" StopInstances" {
			t.Errorf("%v after %v: the credentials that came late are lost", err, s.calls())
		}
	})
}
