package ec2

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

func TestOneCloudPerAccount(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	f := NewFactory(Options{Config: awsapi.Config{Clock: clock, Metrics: prometheus.NewRegistry()}})
	cloud := func(a awsapi.Account) *Cloud {
		t.Helper()
		c, err := f.Cloud(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	static := func(id, secret string) *awsapi.StaticCredentials {
		return &awsapi.StaticCredentials{AccessKeyID: id, SecretAccessKey: secret}
	}
	accounts := []awsapi.Account{
		{Region: "us-east-1"}, {Region: "eu-west-1"}, {Region: "us-east-1", RoleARN: "arn:aws:iam::1:role/a"},
		{Region: "us-east-1", RoleARN: "arn:aws:iam::1:role/a", ExternalID: "shop/orders"},
		{Region: "us-east-1", Static: static("A", "x")}, {Region: "us-east-1", Static: static("A", "y")}, {Region: "us-east-1", Static: static("B", "x")},
	}
	first := map[*Cloud]bool{}
	for _, a := range accounts {
		first[cloud(a)] = true
	}
	if len(first) != len(accounts) {
		t.Errorf("%d clouds for %d accounts", len(first), len(accounts))
	}
	kept := cloud(accounts[0])
	if !first[kept] {
		t.Error("the same account got another cloud")
	}
	clock.SetTime(clock.Now().Add(50 * time.Minute))
	cloud(accounts[0])
	clock.SetTime(clock.Now().Add(20 * time.Minute))
	if cloud(accounts[0]) != kept {
		t.Error("an account in use was forgotten")
	}
	if n := len(f.clouds); n != 1 {
		t.Errorf("%d accounts are kept after an hour without use, want 1", n)
	}
	if _, err := f.Cloud(t.Context(), awsapi.Account{}); awsapi.Classify(err) != awsapi.Invalid {
		t.Errorf("without a region: %v", err)
	}
	registry := prometheus.NewRegistry()
	if one, two := NewFactory(Options{Config: awsapi.Config{Metrics: registry}}), NewFactory(Options{Config: awsapi.Config{Metrics: registry}}); one.reads != two.reads {
		t.Error("two factories on one registry keep separate figures")
	}
}

func TestAssumedRole(t *testing.T) {
	l := newLab(t)
	var bodies bytes.Buffer
	f := NewFactory(Options{Config: awsapi.Config{Endpoint: l.proxy.Endpoint(), Clock: l.clock, UserAgent: "nairobi-mysql-operator/test commit/abc",
		Middleware: func(next http.RoundTripper) http.RoundTripper { return recording{next, &sync.Mutex{}, &bodies} }}})
	account := awsapi.Account{Region: moto.Region, RoleARN: "arn:aws:iam::123456789012:role/nairobi-mysql-tenant", ExternalID: "shop/orders",
		Static: &awsapi.StaticCredentials{AccessKeyID: moto.AccessKeyID, SecretAccessKey: moto.SecretAccessKey}}
	cloud, err := f.Cloud(t.Context(), account)
	if err != nil {
		t.Fatal(err)
	}
	deny := l.fault(proxy.Rule{Kind: proxy.Fail, Service: "sts", Code: "AccessDenied", Message: "not for you"})
	_, err = cloud.Inventory.Observe(t.Context(), "uid", 0)
	if problem := awsapi.Explain(err); problem.Field != awsapi.FieldRole || problem.Reason != v1alpha1.ReasonNotPermitted || !strings.Contains(problem.Message, "sts:AssumeRole") {
		t.Errorf("a refused role is %+v", problem)
	}
	deny()
	l.pass(time.Minute)
	if _, err := cloud.Inventory.Observe(t.Context(), "uid", 0); err != nil {
		t.Errorf("with the role: %v", err)
	}
	for _, want := range []string{"Action=AssumeRole", "ExternalId=shop%2Forders", "role%2Fnairobi-mysql-tenant", "nairobi-mysql-operator/test", "commit/abc"} {
		if !strings.Contains(bodies.String(), want) {
			t.Errorf("no request says %s", want)
		}
	}
}

// recording keeps what is sent.
type recording struct {
	next http.RoundTripper
	mu   *sync.Mutex
	into *bytes.Buffer
}

func (r recording) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	request = request.Clone(request.Context())
	request.Body = io.NopCloser(bytes.NewReader(body))
	r.mu.Lock()
	fmt.Fprintln(r.into, string(body), request.UserAgent())
	r.mu.Unlock()
	return r.next.RoundTrip(request)
}

func TestMissingCredentials(t *testing.T) {
	l := newLab(t)
	f := NewFactory(Options{Config: awsapi.Config{Endpoint: l.proxy.Endpoint(), Clock: l.clock}})
	cloud, err := f.Cloud(t.Context(), awsapi.Account{Region: moto.Region, Static: &awsapi.StaticCredentials{}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = cloud.Inventory.Observe(t.Context(), "uid", 0)
	if problem := awsapi.Explain(err); problem.Reason != v1alpha1.ReasonCredentialsMissing {
		t.Errorf("%v is %+v", err, problem)
	}
}

// Nothing secret is logged, however much is logged.
func TestLogHoldsNoSecrets(t *testing.T) {
	var log strings.Builder
	logger := funcr.New(func(prefix, args string) { log.WriteString(prefix + args + "\n") }, funcr.Options{Verbosity: 100})
	l := newLab(t, func(o *Options) { o.Logger = logger })
	spec := l.launchSpec("orders-0", 1)
	spec.UserData = []byte("#!/bin/bash\n# join-token 0123456789abcdef\n")
	if _, err := l.cloud.LaunchInstance(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	l.fault(proxy.Deny("StopInstances"))
	l.observe()
	if log.Len() == 0 {
		t.Error("nothing was logged at all")
	}
	for _, secret := range []string{moto.SecretAccessKey + "\"", moto.AccessKeyID, "join-token", "0123456789abcdef", "IyEvYmlu"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}
