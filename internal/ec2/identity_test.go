package ec2

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

const (
	labAccount   = "123456789012"
	otherAccount = "210987654321"
	otherRole    = "arn:aws:iam::" + otherAccount + ":role/nairobi-mysql-tenant"
	identityCall = "GetCallerIdentity"
)

func TestAccountIsAskedForOnce(t *testing.T) {
	l := newLab(t)
	var readers sync.WaitGroup
	for range 20 {
		readers.Go(func() {
			if id, err := l.cloud.Inventory.AccountID(t.Context()); id != labAccount || err != nil {
				t.Errorf("the account is %q (%v)", id, err)
			}
		})
	}
	readers.Wait()
	for range 200 {
		l.pass(inventory.SweepInterval + time.Second)
		if id, err := l.cloud.Inventory.AccountID(t.Context()); id != labAccount || err != nil {
			t.Fatalf("the account is %q (%v)", id, err)
		}
	}
	if n := l.proxy.Counts()[identityCall]; n != 1 {
		t.Errorf("AWS was asked %d times, want once", n)
	}
}

func TestAccountOfARole(t *testing.T) {
	l := newLab(t)
	f := NewFactory(Options{Config: awsapi.Config{Endpoint: l.proxy.Endpoint(), Clock: l.clock}})
	cloud, err := f.Cloud(t.Context(), awsapi.Account{Region: moto.Region, RoleARN: otherRole, ExternalID: "shop/orders",
		Static: &awsapi.StaticCredentials{AccessKeyID: moto.AccessKeyID, SecretAccessKey: moto.SecretAccessKey}})
	if err != nil {
		t.Fatal(err)
	}
	if id, err := cloud.Inventory.AccountID(t.Context()); id != otherAccount || err != nil {
		t.Errorf("the role's account is %q (%v), want %s", id, err, otherAccount)
	}
}

// Where STS cannot be reached, passes must not pay for it again and again, and nothing is guessed.
func TestUnknownAccount(t *testing.T) {
	for name, rule := range map[string]proxy.Rule{
		"unavailable": {Kind: proxy.Fail, Service: "sts", Code: "ServiceUnavailable", Status: http.StatusServiceUnavailable},
		"refused":     {Kind: proxy.Refuse, Service: "sts"},
		"wrong key":   {Kind: proxy.Fail, Service: "sts", Code: "InvalidClientTokenId", Status: http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.fault(rule)
			const minutes = 10
			for range minutes * 60 {
				if id, err := l.cloud.Inventory.AccountID(t.Context()); err == nil || id != "" {
					t.Fatalf("the account is %q (%v)", id, err)
				}
				l.pass(time.Second)
			}
			// 5, 10, 20, 40 s, then every minute; the SDK tries most failures twice.
			if n := l.proxy.Counts()[identityCall]; n > 2*(minutes+4) {
				t.Errorf("AWS was asked %d times in %d minutes", n, minutes)
			}
			l.proxy.Clear()
			l.pass(inventory.LongestFailure * inventory.SweepInterval)
			if id, err := l.cloud.Inventory.AccountID(t.Context()); id != labAccount || err != nil {
				t.Errorf("once STS answers: %q (%v)", id, err)
			}
		})
	}
}

// turncoat are credentials that come to lead elsewhere, as those of Pod Identity do when its association is changed.
type turncoat struct {
	home, away aws.CredentialsProvider
	gone       atomic.Bool
}

// Retrieve implements aws.CredentialsProvider.
func (c *turncoat) Retrieve(ctx context.Context) (aws.Credentials, error) {
	if c.gone.Load() {
		return c.away.Retrieve(ctx)
	}
	return c.home.Retrieve(ctx)
}

// turning is a lab whose credentials can be made to lead to another account.
func turning(t *testing.T) (*lab, *turncoat) {
	t.Helper()
	l := newLab(t)
	cfg := moto.Config(l.proxy.Endpoint())
	credentials := &turncoat{home: cfg.Credentials,
		away: aws.NewCredentialsCache(stscreds.NewAssumeRoleProvider(sts.NewFromConfig(cfg), otherRole))}
	cfg.Credentials = credentials
	o := NewFactory(Options{Config: awsapi.Config{Clock: l.clock}}).options
	clients := awsapi.Clients{EC2: awsec2.NewFromConfig(cfg), SSM: ssm.NewFromConfig(cfg), STS: sts.NewFromConfig(cfg), Credentials: credentials}
	l.cloud = newCloud(inventory.NewReader(clients, inventory.Options{Region: moto.Region, Clock: l.clock, Logger: o.Logger, Interval: o.SweepInterval,
		Patience: settleTime, CallTimeout: o.CallTimeout, Reads: inventory.NewReadCounter(nil)}), clients, moto.Region, o)
	return l, credentials
}

func TestAccountThatChangesUnderTheSameClient(t *testing.T) {
	l, credentials := turning(t)
	i, v := l.running("orders-0"), l.available("orders-0")
	if id, err := l.cloud.Inventory.AccountID(t.Context()); id != labAccount || err != nil {
		t.Fatalf("the account is %q (%v)", id, err)
	}
	l.observe()
	credentials.gone.Store(true)
	l.pass(inventory.FreshFor + time.Minute)
	// By id: what the other account does not know is not gone.
	if inv, err := l.now(); err == nil || len(inv.Instances) != 1 || len(inv.Volumes) != 1 {
		t.Errorf("a look shows %+v (%v), want an error and what was known", inv, err)
	}
	if id, err := l.cloud.Inventory.AccountID(t.Context()); id != otherAccount || err != nil {
		t.Errorf("the account is %q (%v), want %s", id, err, otherAccount)
	}
	if inv, err := l.cloud.Inventory.Observe(t.Context(), l.owner.ClusterUID, time.Second); err != nil || len(inv.Instances)+len(inv.Volumes) != 0 {
		t.Errorf("a sweep of the other account shows %+v (%v)", inv, err)
	}
	credentials.gone.Store(false)
	l.pass(time.Minute)
	if id, err := l.cloud.Inventory.AccountID(t.Context()); id != labAccount || err != nil {
		t.Errorf("back home the account is %q (%v)", id, err)
	}
	inv := l.observe()
	if len(inv.Instances) != 1 || inv.Instances[0].ID != i.ID || len(inv.Volumes) != 1 || inv.Volumes[0].ID != v.ID {
		t.Errorf("back home: %+v", inv)
	}
}

// The credentials turn while a list is not answered yet. The sweep fails; a list beside it is as it was.
func TestSweepAcrossAChangeOfAccountIsThrownAway(t *testing.T) {
	for hangs, others := range map[string]string{"DescribeVolumes": "DescribeSecurityGroups", "DescribeSnapshots": "DescribeInstanceStatus"} {
		t.Run(hangs, func(t *testing.T) {
			l, credentials := turning(t)
			l.running("orders-0")
			if _, err := l.cloud.Inventory.AccountID(t.Context()); err != nil {
				t.Fatal(err)
			}
			listed := l.observe().SnapshotsTaken
			l.pass(inventory.FreshFor + time.Minute)
			answer := l.fault(proxy.Rule{Kind: proxy.Hang, Actions: []string{hangs}})
			l.proxy.ResetCalls()
			turned := make(chan struct{})
			go func() {
				defer close(turned)
				// Another list was answered: the sweep knows by now whose account it reads.
				for deadline := time.Now().Add(settleTime); l.proxy.Counts()[others] == 0 && time.Now().Before(deadline); {
					time.Sleep(settleDelay / 10)
				}
				credentials.gone.Store(true)
				answer()
			}()
			inv, err := l.cloud.Inventory.Observe(t.Context(), l.owner.ClusterUID, time.Second)
			<-turned
			if fails := hangs == "DescribeVolumes"; (err != nil) != fails || fails && awsapi.Classify(err) != awsapi.Transient || len(inv.Instances) != 1 || !inv.SnapshotsTaken.Equal(listed) {
				t.Errorf("%+v (%v), want what was known", inv, err)
			}
		})
	}
}
