// Package policy holds the administrator's tenancy policy: what a namespace may have the operator do with AWS power that
// is not the namespace's own.
//
// Whoever may create a MySQLCluster speaks to EC2 with the operator's voice. Without a policy that would lend him
// everything that the operator's IAM identity can do: assume a role, hand an instance profile to an instance whose code he
// chose, put that instance into any subnet and any security group, decrypt with any key, read any SSM parameter. So
// nothing of that is allowed until an administrator writes it down, by namespace, in the key policy.yaml of the ConfigMap
// nairobi-mysql-policy in the operator's namespace (config/samples/policy.yaml):
//
//	namespaces:
//	  shop:                            # a namespace, or a pattern such as "team-*" or "*"
//	    operatorCredentials: true      # may use the operator's own AWS identity
//	    roleARNs: ["arn:aws:iam::111122223333:role/shop-*"]
//	    subnets: ["subnet-0a1b2c3d4e5f60718"]
//	    securityGroups: []             # spec.aws.securityGroupIDs
//	    images: ["ami-0123456789abcdef0", "/shop/images/*"]
//	    instanceProfiles: []
//	    keyNames: []
//	    kmsKeys: ["alias/shop-*"]
//	    downloads: ["https://mirror.example.com/mysql/*"]
//	    snapshots: []                  # to restore from, that do not carry the namespace's tag
//	    volumes: []                    # the same of volumes
//
// In a pattern * stands for any run of characters, slashes and colons included; everything else stands for itself.
// A value is compared as the spec spells it, a mirror of MySQL's site with a slash behind it; a download's address with . or .. in its
// path is refused whatever the patterns are.
// What several entries allow adds up; nothing is ever taken away.
//
// Which voice speaks decides what is looked at:
//   - credentialsSecretRef: the namespace's own credentials (a role assumed from them included). They can reach only what
//     their owner could reach without the operator, so nothing is checked.
//   - roleARN without it: the operator's identity opens the role, so the role must be listed, and every list applies,
//     because what the role may reach is still lent.
//   - neither: operatorCredentials must be true, and every list applies.
//
// Never checked, because it opens nothing but the cluster itself: clientCIDRs, clientSecurityGroupIDs, tags, the region,
// sizes and the instance type (AWS quotas and budgets bound those). An image that is not named is Amazon Linux 2023, and a download
// that is not named is MySQL's own site with MySQL's signature: both need no leave. Without kmsKeyID the account's default key is used.
//
// A second key of the ConfigMap, mysql-release-keys.asc, replaces the OpenPGP keys by which instances verify MySQL's tarballs. It is
// the administrator's because whoever holds such a key decides what runs on every instance.
package policy

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/prices"
	"github.com/alx-ke/nairobi-mysql-operator/internal/releasekeys"
)

// Key is the key of the ConfigMap that holds the policy.
const Key = "policy.yaml"

// ReleaseKeysKey is the key of the ConfigMap that may hold armored public key blocks, in place of the keys that this build knows.
const ReleaseKeysKey = "mysql-release-keys.asc"

// PricesKey is the key of the ConfigMap that may hold a list of prices, in place of the one that this build brings.
const PricesKey = "prices.yaml"

// ErrInvalid is wrapped by every error of Parse.
var ErrInvalid = errors.New("invalid policy")

// Policy is what an administrator allows. Its zero value allows nothing.
type Policy struct {
	grants []grant
	exists bool
	keys   *releasekeys.Keyring // nil: those that this build knows
	prices func() (prices.List, error)
}

// Violation is a part of a spec that the policy does not allow.
type Violation struct {
	// Field is the path in the spec.
	Field string
	// Message says what is not allowed, and what the user and the administrator can do.
	Message string
	// Account is true when the AWS account itself may not be used: nothing may be asked of AWS for this cluster.
	Account bool
}

// grant is what the namespaces that match a pattern are allowed.
type grant struct {
	namespaces          *regexp.Regexp
	operatorCredentials bool
	lists               map[string][]*regexp.Regexp
}

// The lists of a grant, by their names in the YAML.
const (
	listRoles          = "roleARNs"
	listProfiles       = "instanceProfiles"
	listImages         = "images"
	listKeys           = "keyNames"
	listSubnets        = "subnets"
	listSecurityGroups = "securityGroups"
	listKMSKeys        = "kmsKeys"
	listDownloads      = "downloads"
	listSnapshots      = "snapshots"
	listVolumes        = "volumes"
)

// The paths of the fields that say where MySQL is downloaded from.
const (
	fieldDownload = "spec.aws.download.url"
	fieldMirror   = "spec.aws.download.mirror"
)

type document struct {
	Namespaces map[string]rules `json:"namespaces"`
}

type rules struct {
	OperatorCredentials bool     `json:"operatorCredentials,omitempty"`
	RoleARNs            []string `json:"roleARNs,omitempty"`
	InstanceProfiles    []string `json:"instanceProfiles,omitempty"`
	Images              []string `json:"images,omitempty"`
	KeyNames            []string `json:"keyNames,omitempty"`
	Subnets             []string `json:"subnets,omitempty"`
	SecurityGroups      []string `json:"securityGroups,omitempty"`
	KMSKeys             []string `json:"kmsKeys,omitempty"`
	Downloads           []string `json:"downloads,omitempty"`
	Snapshots           []string `json:"snapshots,omitempty"`
	Volumes             []string `json:"volumes,omitempty"`
}

// Parse reads the data of the policy's ConfigMap. No data, which is what a missing ConfigMap has, is the policy that
// allows nothing. What is not understood, an unknown field included, is an error: a typing mistake must not look like a
// decision. The Policy returned with an error allows nothing.
func Parse(data map[string]string) (Policy, error) {
	if len(data) == 0 {
		return Policy{}, nil
	}
	text, ok := data[Key]
	if !ok {
		return Policy{}, fmt.Errorf("%w: the ConfigMap has no key %s", ErrInvalid, Key)
	}
	var doc document
	if err := yaml.UnmarshalStrict([]byte(text), &doc); err != nil {
		return Policy{}, fmt.Errorf("%w: %s: %w", ErrInvalid, Key, err)
	}
	p := Policy{exists: true}
	if list, ok := data[PricesKey]; ok {
		p.prices = sync.OnceValues(func() (prices.List, error) { return prices.Parse([]byte(list)) })
	}
	if blocks, ok := data[ReleaseKeysKey]; ok {
		ring, err := releasekeys.Parse(blocks)
		if err != nil {
			return Policy{}, fmt.Errorf("%w: %s: %w", ErrInvalid, ReleaseKeysKey, err)
		}
		p.keys = &ring
	}
	for namespaces, r := range doc.Namespaces {
		g, err := newGrant(namespaces, r)
		if err != nil {
			return Policy{}, fmt.Errorf("%w: namespaces.%q: %w", ErrInvalid, namespaces, err)
		}
		p.grants = append(p.grants, g)
	}
	return p, nil
}

func newGrant(namespaces string, r rules) (grant, error) {
	who, err := compile(namespaces)
	if err != nil {
		return grant{}, err
	}
	g := grant{namespaces: who, operatorCredentials: r.OperatorCredentials, lists: map[string][]*regexp.Regexp{}}
	for name, patterns := range map[string][]string{
		listRoles: r.RoleARNs, listProfiles: r.InstanceProfiles, listImages: r.Images, listKeys: r.KeyNames,
		listSubnets: r.Subnets, listSecurityGroups: r.SecurityGroups, listKMSKeys: r.KMSKeys,
		listDownloads: r.Downloads, listSnapshots: r.Snapshots, listVolumes: r.Volumes,
	} {
		for _, pattern := range patterns {
			compiled, err := compile(pattern)
			if err != nil {
				return grant{}, fmt.Errorf("%s: %w", name, err)
			}
			g.lists[name] = append(g.lists[name], compiled)
		}
	}
	return g, nil
}

// compile makes a pattern with * for any run of characters into an anchored expression.
func compile(pattern string) (*regexp.Regexp, error) {
	if strings.TrimSpace(pattern) != pattern || pattern == "" {
		return nil, fmt.Errorf("the pattern %q is empty or has spaces around it", pattern)
	}
	return regexp.Compile(`\A` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `(?s:.*)`) + `\z`)
}

// Check tells what of a spec the policy does not allow for a namespace, the account first; nothing means allowed.
func (p Policy) Check(namespace string, spec v1alpha1.MySQLClusterSpec) []Violation {
	aws := spec.AWS
	if aws.CredentialsSecretRef != nil {
		return nil
	}
	c := checker{policy: p, namespace: namespace}
	c.account(aws.RoleARN)
	c.each("spec.aws.subnetIDs", listSubnets, aws.SubnetIDs...)
	c.each("spec.aws.securityGroupIDs", listSecurityGroups, aws.SecurityGroupIDs...)
	c.each("spec.aws.imageID", listImages, aws.ImageID)
	c.each("spec.aws.imageSSMParameter", listImages, aws.ImageSSMParameter)
	c.each("spec.aws.iamInstanceProfile", listProfiles, aws.IAMInstanceProfile)
	c.each("spec.aws.keyName", listKeys, aws.KeyName)
	c.each("spec.storage.kmsKeyID", listKMSKeys, spec.Storage.KMSKeyID)
	c.download(aws.Download)
	return c.found
}

// ListsDownload says whether the policy has the place that a spec names for MySQL's tarball. MySQL's own site, which a spec without one
// means, needs no entry.
func (p Policy) ListsDownload(namespace string, d *v1alpha1.DownloadSpec) bool {
	c := checker{policy: p, namespace: namespace}
	c.download(d)
	return len(c.found) == 0
}

// ReleaseKeys are the keys by which instances verify MySQL's tarballs.
func (p Policy) ReleaseKeys() releasekeys.Keyring {
	if p.keys != nil {
		return *p.keys
	}
	return releasekeys.MySQL()
}

// Prices is the list of prices. The error is that of the administrator's list, which decides nothing and makes no policy invalid.
func (p Policy) Prices() (prices.List, error) {
	if p.prices == nil {
		return prices.Shipped(), nil
	}
	list, err := p.prices()
	if err != nil {
		return prices.List{}, fmt.Errorf("%s: %w", PricesKey, err)
	}
	return list, nil
}

// CheckSource tells whether a namespace may restore from a snapshot or a volume, which EC2 shows with these tags: one of its
// own, one that the policy lists, or whatever credentials of its own reach. Nil means that it may.
func (p Policy) CheckSource(namespace string, spec v1alpha1.MySQLClusterSpec, id string, tags map[string]string) *Violation {
	list, field := listSnapshots, "spec.bootstrap.recovery.snapshotID"
	if strings.HasPrefix(id, "vol-") {
		list, field = listVolumes, "spec.bootstrap.recovery.volumeID"
	}
	if spec.AWS.CredentialsSecretRef != nil || tags[v1alpha1.TagNamespace] == namespace || p.allows(namespace, list, id) {
		return nil
	}
	c := checker{policy: p, namespace: namespace}
	c.add(field, false, fmt.Sprintf("%s does not carry the tag %s=%s, and namespace %s may not use it", id, v1alpha1.TagNamespace, namespace, namespace), list, id)
	return &c.found[0]
}

func (p Policy) allows(namespace, list, value string) bool {
	return slices.ContainsFunc(p.grants, func(g grant) bool {
		return g.namespaces.MatchString(namespace) && slices.ContainsFunc(g.lists[list], func(pattern *regexp.Regexp) bool {
			return pattern.MatchString(value)
		})
	})
}

func (p Policy) lendsOperator(namespace string) bool {
	return slices.ContainsFunc(p.grants, func(g grant) bool {
		return g.operatorCredentials && g.namespaces.MatchString(namespace)
	})
}

// checker collects the violations of one spec.
type checker struct {
	policy    Policy
	namespace string
	found     []Violation
}

func (c *checker) account(role string) {
	switch {
	case role != "" && c.policy.allows(c.namespace, listRoles, role):
	case role != "":
		c.add("spec.aws.roleARN", true, fmt.Sprintf("namespace %s may not have the operator assume %s", c.namespace, role), listRoles, role)
	case c.policy.lendsOperator(c.namespace):
	default:
		c.add("spec.aws", true, fmt.Sprintf("namespace %s may not use the operator's own AWS credentials", c.namespace), "operatorCredentials", "true")
	}
}

func (c *checker) download(d *v1alpha1.DownloadSpec) {
	if d == nil {
		return
	}
	c.address(fieldDownload, d.URL)
	if d.Mirror != "" {
		c.address(fieldMirror, strings.TrimSuffix(d.Mirror, "/")+"/")
	}
}

// address checks where MySQL is downloaded from.
func (c *checker) address(field, address string) {
	if v1alpha1.ClimbingURL(address) { // before the CRD refused it, or past it
		c.found = append(c.found, Violation{Field: field,
			Message: address + " has . or .. or %2e in its path, and leads elsewhere than a pattern can tell. Write the path that is meant"})
		return
	}
	c.each(field, listDownloads, address)
}

func (c *checker) each(field, list string, values ...string) {
	for _, value := range values {
		if value != "" && !c.policy.allows(c.namespace, list, value) {
			c.add(field, false, fmt.Sprintf("namespace %s may not use %s", c.namespace, value), list, value)
		}
	}
}

func (c *checker) add(field string, account bool, what, list, value string) {
	entry := fmt.Sprintf("namespaces.%s.%s: [%q]", c.namespace, list, value)
	if list == "operatorCredentials" {
		entry = fmt.Sprintf("namespaces.%s.%s: %s", c.namespace, list, value)
	}
	verb := "allow it in"
	if !c.policy.exists {
		verb = "create"
	}
	c.found = append(c.found, Violation{Field: field, Account: account, Message: fmt.Sprintf(
		"%s. Set aws.credentialsSecretRef to use credentials of your own, or have the administrator %s ConfigMap %s in the operator's namespace, key %s: %s",
		what, verb, v1alpha1.PolicyConfigMap, Key, entry)})
}
