package awsapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
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
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

const (
	// maxAttempts keeps the SDK's own retries to one: a reconcile's back-off comes on top and would multiply them.
	maxAttempts = 2

	// roleSession is the name under which assumed roles show in CloudTrail.
	roleSession = "nairobi-mysql-operator"
)

// Account identifies an AWS account and region by the credentials that lead there.
type Account struct {
	Region string
	// RoleARN is assumed with ExternalID by the credentials below; empty for none.
	RoleARN, ExternalID string
	// Static are the credentials of a user's Secret; nil for the SDK's default chain (environment, IRSA, Pod Identity,
	// instance role).
	Static *StaticCredentials
}

// StaticCredentials are an access key. They are never logged.
type StaticCredentials struct{ AccessKeyID, SecretAccessKey, SessionToken string }

// Key tells accounts apart without keeping the secret in a map's key.
func (a Account) Key() string {
	parts := []string{a.Region, a.RoleARN, a.ExternalID}
	if a.Static != nil {
		parts = append(parts, "static", a.Static.AccessKeyID, a.Static.SecretAccessKey, a.Static.SessionToken)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

// Config says how AWS is called. The zero value is fit for AWS.
type Config struct {
	// Endpoint serves EC2, SSM and STS instead of AWS; an administrator's choice, never a tenant's. Empty for AWS.
	Endpoint string
	// Region is that of STS, which identifies the account of the operator's own credentials and lets them assume roles; of accounts
	// that name no region it is EC2's as well. Empty takes it from the environment, else from the account.
	Region string
	// UserAgent is appended to the SDK's own: pairs of name/value, with spaces between them.
	UserAgent string
	// CallTimeout bounds one write, retries included. It must stay below the leader lease's duration minus its renew
	// deadline. 0 means 4 s. What may arrive late without harm gets five times that.
	CallTimeout time.Duration
	// Clock is nil for the real one.
	Clock clock.PassiveClock
	// Metrics may be nil.
	Metrics prometheus.Registerer
	// Middleware wraps the HTTP transport; tests cut calls off with it. Nil for none.
	Middleware func(next http.RoundTripper) http.RoundTripper
}

// WithDefaults fills in what is not set.
func (c Config) WithDefaults() Config {
	if c.CallTimeout <= 0 {
		c.CallTimeout = defaultCallTimeout
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return c
}

// Clients are the clients of one account and region, and the credentials that they use.
type Clients struct {
	EC2         API
	SSM         SSMAPI
	STS         STSAPI
	Credentials aws.CredentialsProvider
}

// Connector makes clients.
type Connector struct {
	config    Config
	metrics   *metrics
	deadlines deadlines
}

// NewConnector fills the defaults in.
func NewConnector(c Config) *Connector {
	c = c.WithDefaults()
	return &Connector{config: c, metrics: newMetrics(c.Metrics, c.Clock), deadlines: deadlines{write: c.CallTimeout}}
}

// Connect returns the clients of an account. It makes no call to AWS: wrong credentials show at the first use. The error is that of
// a configuration that the SDK cannot read.
func (c *Connector) Connect(ctx context.Context, account Account) (Clients, error) {
	cfg, err := c.load(ctx, account)
	if err != nil {
		return Clients{}, fmt.Errorf("configure the AWS client for region %s: %w", account.Region, err)
	}
	regional := cfg.Copy()
	regional.Region = account.Region
	return Clients{
		EC2: ec2.NewFromConfig(regional, func(o *ec2.Options) { o.APIOptions = append(o.APIOptions, genuine) }),
		SSM: ssm.NewFromConfig(regional), STS: sts.NewFromConfig(cfg), Credentials: cfg.Credentials,
	}, nil
}

// Config returns the SDK's configuration for the calls to an account that Clients do not have, with the account's region.
func (c *Connector) Config(ctx context.Context, account Account) (aws.Config, error) {
	cfg, err := c.load(ctx, account)
	if err != nil {
		return aws.Config{}, fmt.Errorf("configure the AWS client for region %s: %w", account.Region, err)
	}
	regional := cfg.Copy()
	regional.Region = account.Region
	return regional, nil
}

// load builds the SDK's configuration: credentials, endpoint, retries, and our middleware. Its region is that of STS.
func (c *Connector) load(ctx context.Context, account Account) (aws.Config, error) {
	options := []func(*config.LoadOptions) error{
		config.WithRetryMaxAttempts(maxAttempts),
		config.WithAPIOptions(c.stack()),
	}
	if c.config.Endpoint != "" {
		options = append(options, config.WithBaseEndpoint(c.config.Endpoint))
	}
	switch s := account.Static; {
	case s != nil: // they may be of another partition than the operator
		options = append(options, config.WithRegion(account.Region), config.WithCredentialsProvider(
			credentials.NewStaticCredentialsProvider(s.AccessKeyID, s.SecretAccessKey, s.SessionToken)))
	case c.config.Region != "":
		options = append(options, config.WithRegion(c.config.Region))
	default:
		options = append(options, config.WithDefaultRegion(account.Region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return aws.Config{}, err
	}
	c.wrapTransport(&cfg)
	stack := cfg.APIOptions
	cfg.APIOptions = c.deadlines.withCredentials(stack, cfg.Credentials)
	if account.RoleARN != "" {
		cfg.Credentials = assume(sts.NewFromConfig(cfg), account)
		cfg.APIOptions = c.deadlines.withCredentials(stack, cfg.Credentials)
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
func (c *Connector) wrapTransport(cfg *aws.Config) {
	client, ok := cfg.HTTPClient.(*awshttp.BuildableClient)
	if c.config.Middleware == nil || !ok {
		return
	}
	cfg.HTTPClient = &http.Client{
		Transport:     c.config.Middleware(client.GetTransport()),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (c *Connector) stack() []func(*middleware.Stack) error {
	out := []func(*middleware.Stack) error{c.metrics.count, c.deadlines.bound}
	for pair := range strings.FieldsSeq(c.config.UserAgent) {
		name, value, _ := strings.Cut(pair, "/")
		out = append(out, awsmiddleware.AddUserAgentKeyValue(name, value))
	}
	return out
}
