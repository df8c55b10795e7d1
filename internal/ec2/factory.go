package ec2

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/middleware"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

const (
	// defaultCallTimeout bounds one call with its retries. It is below the leader lease's duration minus its renew
	// deadline (15 s − 10 s), so that no write of a leader that lost its lease is still on its way when the next one acts.
	defaultCallTimeout = 4 * time.Second

	// defaultSweepInterval is how old the store may get when nothing is in transition.
	defaultSweepInterval = 30 * time.Second

	// maxAttempts keeps the SDK's own retries to one: a reconcile's back-off comes on top and would multiply them.
	maxAttempts = 2

	// forgetAfter is how long an account may go unused before its client and store are dropped.
	forgetAfter = time.Hour

	// roleSession is the name under which assumed roles show in CloudTrail.
	roleSession = "nairobi-mysql-operator"
)

// Account identifies whose EC2 it is.
type Account struct {
	Region string
	// RoleARN is taken on with ExternalID by the credentials below; empty for none.
	RoleARN, ExternalID string
	// Static are the credentials of a user's Secret; nil for the SDK's default chain (environment, IRSA, Pod Identity,
	// instance role).
	Static *StaticCredentials
}

// StaticCredentials are an access key. They are never logged.
type StaticCredentials struct{ AccessKeyID, SecretAccessKey, SessionToken string }

// key tells accounts apart without keeping the secret in a map's key.
func (a Account) key() string {
	parts := []string{a.Region, a.RoleARN, a.ExternalID}
	if a.Static != nil {
		parts = append(parts, "static", a.Static.AccessKeyID, a.Static.SecretAccessKey, a.Static.SessionToken)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

// Options configure a Factory. The zero value is fit for AWS.
type Options struct {
	// Endpoint serves EC2, SSM and STS instead of AWS; an administrator's choice, never a tenant's. Empty for AWS.
	Endpoint string
	// Region is that of STS, which says whose the operator's own credentials are and lends it roles; of accounts that name no
	// region it is EC2's as well. Empty takes it from the environment, else from the account.
	Region string
	// UserAgent is appended to the SDK's own: pairs of name/value, with spaces between them.
	UserAgent string
	// CallTimeout bounds one call, retries included. It must stay below the leader lease's duration minus its renew
	// deadline. 0 means 4 s.
	CallTimeout time.Duration
	// SweepInterval is the age at which Observe with a negative maxAge sweeps again. 0 means 30 s.
	SweepInterval time.Duration
	// Clock is nil for the real one.
	Clock  clock.PassiveClock
	Logger logr.Logger
	// Metrics may be nil.
	Metrics prometheus.Registerer
	// Middleware wraps the HTTP transport; tests cut calls off with it. Nil for none.
	Middleware func(next http.RoundTripper) http.RoundTripper
}

// Factory makes one Cloud per account and region and keeps it while it is used.
type Factory struct {
	options Options
	metrics *metrics

	mu     sync.Mutex
	clouds map[string]*kept
}

type kept struct {
	cloud *Cloud
	used  time.Time
}

// NewFactory fills the defaults in.
func NewFactory(o Options) *Factory {
	if o.CallTimeout <= 0 {
		o.CallTimeout = defaultCallTimeout
	}
	if o.SweepInterval <= 0 {
		o.SweepInterval = defaultSweepInterval
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Logger.GetSink() == nil {
		o.Logger = logr.Discard()
	}
	return &Factory{options: o, metrics: newMetrics(o.Metrics, o.Clock), clouds: map[string]*kept{}}
}

// Cloud is the shared Cloud of an account and region. It makes no call to AWS: wrong credentials show at the first use.
// The error is that of a configuration that the SDK cannot read.
func (f *Factory) Cloud(ctx context.Context, account Account) (*Cloud, error) {
	if account.Region == "" {
		account.Region = f.options.Region
	}
	if account.Region == "" {
		return nil, &Error{Class: Invalid, Text: "no region given: set spec.aws.region"}
	}
	key, now := account.key(), f.options.Clock.Now()

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
	cfg, err := f.load(ctx, account)
	if err != nil {
		return nil, fmt.Errorf("configure the AWS client for region %s: %w", account.Region, err)
	}
	regional := cfg.Copy()
	regional.Region = account.Region
	cloud := newCloud(services{
		ec2: ec2.NewFromConfig(regional, func(o *ec2.Options) { o.APIOptions = append(o.APIOptions, genuine) }),
		ssm: ssm.NewFromConfig(regional), sts: sts.NewFromConfig(cfg), credentials: cfg.Credentials,
	}, account.Region, f.options, f.metrics)
	f.clouds[key] = &kept{cloud: cloud, used: now}
	return cloud, nil
}

// load builds the SDK's configuration: credentials, endpoint, retries, and our middleware. Its region is that of STS.
func (f *Factory) load(ctx context.Context, account Account) (aws.Config, error) {
	options := []func(*config.LoadOptions) error{
		config.WithRetryMaxAttempts(maxAttempts),
		config.WithAPIOptions(f.stack()),
	}
	if f.options.Endpoint != "" {
		options = append(options, config.WithBaseEndpoint(f.options.Endpoint))
	}
	switch s := account.Static; {
	case s != nil: // they may be of another partition than the operator
		options = append(options, config.WithRegion(account.Region), config.WithCredentialsProvider(
			credentials.NewStaticCredentialsProvider(s.AccessKeyID, s.SecretAccessKey, s.SessionToken)))
	case f.options.Region != "":
		options = append(options, config.WithRegion(f.options.Region))
	default:
		options = append(options, config.WithDefaultRegion(account.Region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return aws.Config{}, err
	}
	f.wrapTransport(&cfg)
	if account.RoleARN != "" {
		cfg.Credentials = assume(sts.NewFromConfig(cfg), account)
	}
	return cfg, nil
}

func assume(client STSAPI, account Account) aws.CredentialsProvider {
	provider := stscreds.NewAssumeRoleProvider(client, account.RoleARN, func(o *stscreds.AssumeRoleOptions) {
		o.RoleSessionName = roleSession
		if account.ExternalID != "" {
			o.ExternalID = aws.String(account.ExternalID)
		}
	})
	return aws.NewCredentialsCache(provider, func(o *aws.CredentialsCacheOptions) {
		// Renewed well before they expire, so that a call that starts with old credentials also ends with valid ones.
		o.ExpiryWindow = 5 * time.Minute
		o.ExpiryWindowJitterFrac = 0.5
	})
}

// wrapTransport puts the Middleware around the transport that the SDK has built (with its proxy and CA bundle settings).
func (f *Factory) wrapTransport(cfg *aws.Config) {
	client, ok := cfg.HTTPClient.(*awshttp.BuildableClient)
	if f.options.Middleware == nil || !ok {
		return
	}
	cfg.HTTPClient = &http.Client{
		Transport:     f.options.Middleware(client.GetTransport()),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (f *Factory) stack() []func(*middleware.Stack) error {
	out := []func(*middleware.Stack) error{f.metrics.count, f.deadline}
	for pair := range strings.FieldsSeq(f.options.UserAgent) {
		name, value, _ := strings.Cut(pair, "/")
		out = append(out, awsmiddleware.AddUserAgentKeyValue(name, value))
	}
	return out
}

// deadline bounds every call in one place. No call in use streams its answer, so the answer is complete when it returns.
func (f *Factory) deadline(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("NairobiDeadline",
		func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			ctx, cancel := context.WithTimeout(ctx, f.options.CallTimeout)
			defer cancel()
			return next.HandleInitialize(ctx, in)
		}), middleware.Before)
}
