// Package survey reads what only manager doctor asks AWS about an account: who the credentials are, routes, network ACLs, rules of
// security groups, quotas, keys, defaults, and the time. The operator itself never calls it, so none of its permissions is in the
// operator's policy; config/aws/doctor.json has them.
package survey

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	cloudplane "github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// EC2API lists the calls of EC2 that the operator's own policy does not allow, and three that it does.
type EC2API interface {
	DescribeInstances(context.Context, *ec2.DescribeInstancesInput, ...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error)
	DescribeVolumes(context.Context, *ec2.DescribeVolumesInput, ...func(*ec2.Options)) (*ec2.DescribeVolumesOutput, error)
	DescribeSecurityGroups(context.Context, *ec2.DescribeSecurityGroupsInput, ...func(*ec2.Options)) (*ec2.DescribeSecurityGroupsOutput, error)
	DescribeNetworkAcls(context.Context, *ec2.DescribeNetworkAclsInput, ...func(*ec2.Options)) (*ec2.DescribeNetworkAclsOutput, error)
	DescribeRouteTables(context.Context, *ec2.DescribeRouteTablesInput, ...func(*ec2.Options)) (*ec2.DescribeRouteTablesOutput, error)
	GetInstanceMetadataDefaults(context.Context, *ec2.GetInstanceMetadataDefaultsInput, ...func(*ec2.Options)) (*ec2.GetInstanceMetadataDefaultsOutput, error)
}

// QuotasAPI lists the calls of Service Quotas.
type QuotasAPI interface {
	ListServiceQuotas(context.Context, *servicequotas.ListServiceQuotasInput, ...func(*servicequotas.Options)) (*servicequotas.ListServiceQuotasOutput, error)
}

// KMSAPI lists the calls of KMS.
type KMSAPI interface {
	DescribeKey(context.Context, *kms.DescribeKeyInput, ...func(*kms.Options)) (*kms.DescribeKeyOutput, error)
}

// Survey reads one account and region.
type Survey struct {
	ec2         EC2API
	quotas      QuotasAPI
	kms         KMSAPI
	sts         awsapi.STSAPI
	credentials aws.CredentialsProvider
}

// New makes the clients of an account. It makes no call to AWS.
func New(ctx context.Context, connector *awsapi.Connector, account awsapi.Account) (*Survey, error) {
	cfg, err := connector.Config(ctx, account)
	if err != nil {
		return nil, err
	}
	clients, err := connector.Connect(ctx, account)
	if err != nil {
		return nil, err
	}
	return &Survey{
		ec2: ec2.NewFromConfig(cfg), quotas: servicequotas.NewFromConfig(cfg), kms: kms.NewFromConfig(cfg),
		sts: clients.STS, credentials: clients.Credentials,
	}, nil
}

// Identity is whom AWS takes the caller for.
type Identity struct {
	Account, ARN string
	// Source says in words where the credentials come from.
	Source string
}

// Identity asks STS. AWS answers that to everybody whose credentials are valid.
func (s *Survey) Identity(ctx context.Context) (Identity, error) {
	found, err := s.credentials.Retrieve(ctx)
	if err != nil {
		return Identity{}, fmt.Errorf("find AWS credentials: %w", err)
	}
	answer, err := s.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return Identity{}, fmt.Errorf("ask AWS whose account it is: %w", err)
	}
	return Identity{Account: aws.ToString(answer.Account), ARN: aws.ToString(answer.Arn), Source: sourceOf(found.Source)}, nil
}

// sources are the SDK's names of the links of its chain of credentials, by their beginnings, in the words of AWS's documents.
var sources = []struct{ name, words string }{
	{"WebIdentity", "IRSA (a token of the service account)"},
	{"CredentialsEndpoint", "EKS Pod Identity or a container's role"},
	{"EC2Role", "the role of the node's EC2 instance"},
	{"AssumeRole", "an assumed role"},
	{"EnvConfig", "access keys in environment variables"},
	{"StaticCredentials", "access keys of a Secret"},
	{"SharedConfig", "a shared configuration file"},
	{"SharedCredentials", "a shared credentials file"},
}

func sourceOf(name string) string {
	for _, s := range sources {
		if strings.HasPrefix(name, s.name) {
			return s.words
		}
	}
	return name
}

// MetadataDefaults are what the account wants of the metadata service of instances whose launch does not say.
type MetadataDefaults struct {
	// ShowsTags: tags are shown there, so that EC2 refuses tags with a slash. Closed: there is no metadata service.
	ShowsTags, Closed bool
	// ByPolicy: an organisation's declarative policy keeps them.
	ByPolicy bool
}

// MetadataDefaults reads the defaults of the region.
func (s *Survey) MetadataDefaults(ctx context.Context) (MetadataDefaults, error) {
	answer, err := s.ec2.GetInstanceMetadataDefaults(ctx, &ec2.GetInstanceMetadataDefaultsInput{})
	if err != nil {
		return MetadataDefaults{}, fmt.Errorf("read the defaults of instance metadata: %w", err)
	}
	a := answer.AccountLevel
	if a == nil {
		return MetadataDefaults{}, nil
	}
	return MetadataDefaults{
		ShowsTags: a.InstanceMetadataTags == types.InstanceMetadataTagsStateEnabled,
		Closed:    a.HttpEndpoint == types.InstanceMetadataEndpointStateDisabled,
		ByPolicy:  a.ManagedBy == types.ManagedByDeclarativePolicy,
	}, nil
}

// Key is a KMS key.
type Key struct {
	// State is Enabled, or why the key cannot be used. Symmetric: it is one that EBS can encrypt with.
	ID, State string
	Symmetric bool
}

// Key describes a key by its id, ARN or alias.
func (s *Survey) Key(ctx context.Context, name string) (Key, error) {
	answer, err := s.kms.DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: aws.String(name)})
	if err != nil {
		return Key{}, fmt.Errorf("describe the KMS key %s: %w", name, err)
	}
	m := answer.KeyMetadata
	if m == nil {
		return Key{}, fmt.Errorf("describe the KMS key %s: KMS answered without a key", name)
	}
	return Key{ID: aws.ToString(m.KeyId), State: string(m.KeyState), Symmetric: m.KeySpec == "SYMMETRIC_DEFAULT" && m.KeyUsage == "ENCRYPT_DECRYPT"}, nil
}

// Quota is a quota of the account, and how much of it is in use.
type Quota struct {
	Name        string
	Limit, Used float64
}

// ErrUnknownQuota: Service Quotas does not list the quota.
var ErrUnknownQuota = errors.New("the quota is not listed by Service Quotas")

// quota reads the quota of a service whose name fits.
func (s *Survey) quota(ctx context.Context, service string, fits func(name string) bool) (Quota, error) {
	pages := servicequotas.NewListServiceQuotasPaginator(s.quotas, &servicequotas.ListServiceQuotasInput{ServiceCode: aws.String(service)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return Quota{}, fmt.Errorf("list the quotas of %s: %w", service, err)
		}
		for _, q := range page.Quotas {
			if fits(aws.ToString(q.QuotaName)) {
				return Quota{Name: aws.ToString(q.QuotaName), Limit: aws.ToFloat64(q.Value)}, nil
			}
		}
	}
	return Quota{}, ErrUnknownQuota
}

// VCPUs is the quota of vCPUs that an instance type counts against, with those of all running instances of the account.
func (s *Survey) VCPUs(ctx context.Context, instanceType string) (Quota, error) {
	name := cloudplane.VCPUQuota(instanceType)
	q, err := s.quota(ctx, "ec2", func(n string) bool { return n == name })
	if err != nil {
		return Quota{}, err
	}
	pages := ec2.NewDescribeInstancesPaginator(s.ec2, &ec2.DescribeInstancesInput{
		MaxResults: aws.Int32(1000), Filters: []types.Filter{awsapi.Filter("instance-state-name", "pending", "running")}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return Quota{}, fmt.Errorf("count the account's vCPUs: %w", err)
		}
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				if i.CpuOptions != nil && i.InstanceLifecycle == "" && cloudplane.VCPUQuota(string(i.InstanceType)) == name {
					q.Used += float64(aws.ToInt32(i.CpuOptions.CoreCount) * aws.ToInt32(i.CpuOptions.ThreadsPerCore))
				}
			}
		}
	}
	return q, nil
}

// gibibytes are those of a TiB, in which EBS's quotas count.
const gibibytes = 1024

// Storage is the quota of the storage of a volume type, in GiB, with all volumes of the account.
func (s *Survey) Storage(ctx context.Context, volumeType string) (Quota, error) {
	q, err := s.quota(ctx, "ebs", func(n string) bool {
		return strings.HasPrefix(n, "Storage for ") && strings.Contains(n, "("+volumeType+")")
	})
	if err != nil {
		return Quota{}, err
	}
	q.Limit *= gibibytes
	pages := ec2.NewDescribeVolumesPaginator(s.ec2, &ec2.DescribeVolumesInput{
		MaxResults: aws.Int32(1000), Filters: []types.Filter{awsapi.Filter("volume-type", volumeType)}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return Quota{}, fmt.Errorf("count the account's storage: %w", err)
		}
		for _, v := range page.Volumes {
			q.Used += float64(aws.ToInt32(v.Size))
		}
	}
	return q, nil
}
