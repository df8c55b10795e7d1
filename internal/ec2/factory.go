package ec2

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
)

// forgetAfter is how long an account may go unused before its client and inventory are dropped.
const forgetAfter = time.Hour

// Options configure a Factory. The zero value is fit for AWS.
type Options struct {
	awsapi.Config
	// SweepInterval is the age at which Observe with a negative maxAge sweeps again. 0 means 30 s.
	SweepInterval time.Duration
	// LookPatience is how long a reconcile waits for a look by ids. 0 means 500 ms.
	LookPatience time.Duration
	Logger       logr.Logger
}

// Factory makes one Cloud per account and region and keeps it while it is used.
type Factory struct {
	options   Options
	connector *awsapi.Connector
	reads     *prometheus.CounterVec

	mu     sync.Mutex
	clouds map[string]*kept
}

type kept struct {
	cloud *Cloud
	used  time.Time
}

// NewFactory fills the defaults in.
func NewFactory(o Options) *Factory {
	o.Config = o.WithDefaults()
	if o.SweepInterval <= 0 {
		o.SweepInterval = inventory.SweepInterval
	}
	if o.LookPatience <= 0 {
		o.LookPatience = inventory.LookPatience
	}
	if o.Logger.GetSink() == nil {
		o.Logger = logr.Discard()
	}
	return &Factory{options: o, connector: awsapi.NewConnector(o.Config), reads: inventory.NewReadCounter(o.Metrics), clouds: map[string]*kept{}}
}

// Cloud is the shared Cloud of an account and region. It makes no call to AWS: wrong credentials show at the first use.
// The error is that of a configuration that the SDK cannot read.
func (f *Factory) Cloud(ctx context.Context, account awsapi.Account) (*Cloud, error) {
	if account.Region == "" {
		account.Region = f.options.Region
	}
	if account.Region == "" {
		return nil, &awsapi.Error{Class: awsapi.Invalid, Text: "no region given: set spec.aws.region"}
	}
	key, now := account.Key(), f.options.Clock.Now()

	f.mu.Lock()
	defer f.mu.Unlock()
	for k, other := range f.clouds {
		if k != key && now.Sub(other.used) > forgetAfter {
			delete(f.clouds, k)
		}
	}
	if found, ok := f.clouds[key]; ok {
		found.used = now
		return found.cloud, nil
	}
	clients, err := f.connector.Connect(ctx, account)
	if err != nil {
		return nil, err
	}
	reader := inventory.NewReader(clients, inventory.Options{
		Region: account.Region, Clock: f.options.Clock, Logger: f.options.Logger, Interval: f.options.SweepInterval,
		Patience: f.options.LookPatience, CallTimeout: f.options.CallTimeout, Reads: f.reads,
	})
	cloud := newCloud(reader, clients, account.Region, f.options)
	f.clouds[key] = &kept{cloud: cloud, used: now}
	return cloud, nil
}

func newCloud(reader *inventory.Reader, of awsapi.Clients, region string, o Options) *Cloud {
	return &Cloud{
		Inventory: reader, api: of.EC2, clock: o.Clock,
		images:     newImages(of, region, o.Clock),
		groups:     &securityGroups{api: of.EC2, inventory: reader},
		attempts:   newAttempts(),
		rehearsal:  &rehearsal{api: of.EC2, inventory: reader, clock: o.Clock, patience: o.LookPatience},
		launches:   flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(callRate, callBurst, o.Clock),
		starts:     flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(callRate, callBurst, o.Clock),
		full:       newCache[error](fullPause),
		launchable: newCache[struct{}](launchableFor),
	}
}
