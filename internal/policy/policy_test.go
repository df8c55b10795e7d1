package policy_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
)

const (
	subnet = "subnet-0a1b2c3d4e5f60718"
	role   = "arn:aws:iam::111122223333:role/shop-mysql"
)

func parse(t *testing.T, text string) policy.Policy {
	t.Helper()
	p, err := policy.Parse(map[string]string{policy.Key: text})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// spec is what needs nothing but an account and a subnet.
func spec(change func(*v1alpha1.MySQLClusterSpec)) v1alpha1.MySQLClusterSpec {
	s := v1alpha1.MySQLClusterSpec{Version: "9.7.1", AWS: v1alpha1.AWSSpec{
		Region: "eu-central-1", InstanceType: "r7g.large", SubnetIDs: []string{subnet},
		ClientCIDRs: []string{"0.0.0.0/0"}, ClientSecurityGroupIDs: []string{"sg-01234567"}, Tags: map[string]string{"a": "b"},
	}}
	if change != nil {
		change(&s)
	}
	return s
}

func TestCheck(t *testing.T) {
	const account = `namespaces: {shop: {operatorCredentials: true, subnets: [subnet-0a1b2c3d4e5f60718]`
	const open = account + `}}`
	type violations map[string]string // field -> part of the message
	for _, r := range []struct {
		name, policy, namespace string
		change                  func(*v1alpha1.MySQLClusterSpec)
		want                    violations
	}{
		{name: "an empty policy allows nothing", policy: ``, want: violations{
			"spec.aws": "namespace shop may not use the operator's own AWS credentials", "spec.aws.subnetIDs": "may not use " + subnet}},
		{name: "what is listed is allowed", policy: open},
		{name: "another namespace is not", policy: open, namespace: "other", want: violations{
			"spec.aws": "namespaces.other.operatorCredentials: true", "spec.aws.subnetIDs": `namespaces.other.subnets: ["` + subnet + `"]`}},
		{name: "a namespace whose name goes on is another", policy: open, namespace: "shop-dev", want: violations{"spec.aws": "", "spec.aws.subnetIDs": ""}},
		{name: "every namespace", policy: `namespaces: {"*": {operatorCredentials: true, subnets: ["subnet-0a*"]}}`, namespace: "other"},
		{name: "namespaces by pattern", policy: `namespaces: {"team-*": {operatorCredentials: true, subnets: ["*"]}}`, namespace: "team-a"},
		{name: "entries add up", policy: `namespaces: {"*": {subnets: ["*"]}, shop: {operatorCredentials: true}}`},
		{name: "false takes nothing away", policy: `namespaces: {"*": {operatorCredentials: true, subnets: ["*"]}, shop: {operatorCredentials: false}}`},
		{name: "a part of a pattern is not enough", policy: `namespaces: {shop: {operatorCredentials: true, subnets: [subnet-0a1b]}}`,
			want: violations{"spec.aws.subnetIDs": "may not use " + subnet}},
		{name: "a dot is a dot", policy: account + `, keyNames: ["a.b"]}}`, change: func(s *v1alpha1.MySQLClusterSpec) { s.AWS.KeyName = "axb" },
			want: violations{"spec.aws.keyName": "may not use axb"}},
		{name: "a role must be listed, even with the operator's own credentials", policy: open,
			change: func(s *v1alpha1.MySQLClusterSpec) { s.AWS.RoleARN = role },
			want:   violations{"spec.aws.roleARN": "may not have the operator assume " + role}},
		{name: "a listed role needs no leave for the operator's own credentials", policy: `namespaces: {shop: {roleARNs: ["arn:aws:iam::111122223333:role/shop-*"], subnets: ["*"]}}`,
			change: func(s *v1alpha1.MySQLClusterSpec) { s.AWS.RoleARN = role }},
		{name: "what a role may reach is lent as well", policy: `namespaces: {shop: {roleARNs: ["*"]}}`,
			change: func(s *v1alpha1.MySQLClusterSpec) { s.AWS.RoleARN = role },
			want:   violations{"spec.aws.subnetIDs": "may not use " + subnet}},
		{name: "everything that lends power needs leave", policy: open, change: everything, want: violations{
			"spec.aws.roleARN": "", "spec.aws.securityGroupIDs": "", "spec.aws.imageID": "", "spec.aws.imageSSMParameter": "",
			"spec.aws.iamInstanceProfile": "", "spec.aws.keyName": "", "spec.storage.kmsKeyID": "", "spec.aws.download.url": ""}},
		{name: "with leave for everything", change: everything, policy: account + `, roleARNs: ["*"], instanceProfiles: [members], images: ["ami-*", "/shop/*"],
  keyNames: ["ops"], securityGroups: ["sg-*"], kmsKeys: [alias/shop], downloads: ["https://mirror/*"]}}`},
		{name: "own credentials need no leave", policy: ``, change: func(s *v1alpha1.MySQLClusterSpec) {
			everything(s)
			s.AWS.CredentialsSecretRef = &v1alpha1.LocalSecretReference{Name: "aws"}
		}},
	} {
		t.Run(r.name, func(t *testing.T) {
			namespace := r.namespace
			if namespace == "" {
				namespace = "shop"
			}
			found := parse(t, r.policy).Check(namespace, spec(r.change))
			for i, v := range found {
				part, expected := r.want[v.Field]
				if !expected || !strings.Contains(v.Message, part) {
					t.Errorf("%s: %s", v.Field, v.Message)
				}
				if account := v.Field == "spec.aws" || v.Field == "spec.aws.roleARN"; account != v.Account || account && i > 0 {
					t.Errorf("%s is violation %d and Account is %v", v.Field, i, v.Account)
				}
				if !strings.Contains(v.Message, "Set aws.credentialsSecretRef") || !strings.Contains(v.Message, "allow it in ConfigMap nairobi-mysql-policy") {
					t.Errorf("does not say how to go on: %s", v.Message)
				}
			}
			if len(found) != len(r.want) {
				t.Errorf("%d violations, not %d: %v", len(found), len(r.want), found)
			}
		})
	}
}

func everything(s *v1alpha1.MySQLClusterSpec) {
	s.AWS.RoleARN, s.AWS.ImageID, s.AWS.ImageSSMParameter = role, "ami-0123456789abcdef0", "/shop/image"
	s.AWS.IAMInstanceProfile, s.AWS.KeyName, s.AWS.SecurityGroupIDs = "members", "ops", []string{"sg-01234567"}
	s.AWS.Download = &v1alpha1.DownloadSpec{URL: "https://mirror/mysql.tar.xz"}
	s.Storage.KMSKeyID = "alias/shop"
}

func TestWithoutConfigMapNothingIsLent(t *testing.T) {
	for name, data := range map[string]map[string]string{"no ConfigMap": nil, "an empty one": {}} {
		p, err := policy.Parse(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		found := p.Check("shop", spec(nil))
		if len(found) != 2 || !found[0].Account {
			t.Fatalf("%s: %v", name, found)
		}
		const want = "have the administrator create ConfigMap nairobi-mysql-policy in the operator's namespace, key policy.yaml: namespaces.shop.operatorCredentials: true"
		if !strings.Contains(found[0].Message, want) {
			t.Errorf("%s: says %s", name, found[0].Message)
		}
	}
}

func TestWhatIsNotUnderstoodAllowsNothing(t *testing.T) {
	for name, r := range map[string]struct {
		data map[string]string
		says string
	}{
		"another key":         {map[string]string{"policy.yml": ""}, "the ConfigMap has no key policy.yaml"},
		"not YAML":            {map[string]string{policy.Key: "{"}, "policy.yaml"},
		"a list":              {map[string]string{policy.Key: "[]"}, "policy.yaml"},
		"a typing mistake":    {map[string]string{policy.Key: `namespaces: {"*": {roleARN: ["*"]}}`}, `unknown field "roleARN"`},
		"a value for a list":  {map[string]string{policy.Key: `namespaces: {"*": {subnets: "*"}}`}, "policy.yaml"},
		"a namespace twice":   {map[string]string{policy.Key: "namespaces:\n  a: {}\n  a: {operatorCredentials: true}"}, "already set in map"},
		"an empty pattern":    {map[string]string{policy.Key: `namespaces: {"*": {operatorCredentials: true, subnets: [""]}}`}, `subnets: the pattern "" is empty`},
		"an empty namespace":  {map[string]string{policy.Key: `namespaces: {"": {operatorCredentials: true}}`}, "is empty or has spaces"},
		"words for a boolean": {map[string]string{policy.Key: `namespaces: {"*": {operatorCredentials: "yes"}}`}, "policy.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := policy.Parse(r.data)
			if !errors.Is(err, policy.ErrInvalid) || !strings.Contains(err.Error(), r.says) {
				t.Fatalf("error %v", err)
			}
			if len(p.Check("a", spec(nil))) == 0 {
				t.Error("an erroneous policy allows something")
			}
		})
	}
}

// TestSources: a cluster is restored from what its own namespace left behind, from what the administrator lists, and with
// credentials of its own from whatever those reach.
func TestSources(t *testing.T) {
	p := parse(t, `namespaces: {shop: {snapshots: ["snap-0a*"], volumes: ["vol-0c*"]}}`)
	of := func(namespace string) map[string]string { return map[string]string{v1alpha1.TagNamespace: namespace} }
	own := spec(func(s *v1alpha1.MySQLClusterSpec) {
		s.AWS.CredentialsSecretRef = &v1alpha1.LocalSecretReference{Name: "aws"}
	})
	for name, r := range map[string]struct {
		namespace, id string
		tags          map[string]string
		spec          v1alpha1.MySQLClusterSpec
		fine          bool
	}{
		"its own snapshot":            {"other", "snap-0b1b2c3d", of("other"), spec(nil), true},
		"its own volume":              {"other", "vol-0b1b2c3d", of("other"), spec(nil), true},
		"a listed snapshot":           {"shop", "snap-0a1b2c3d", of("other"), spec(nil), true},
		"a listed volume":             {"shop", "vol-0c1b2c3d", nil, spec(nil), true},
		"another's snapshot":          {"shop", "snap-0b1b2c3d", of("other"), spec(nil), false},
		"another's volume":            {"shop", "vol-0b1b2c3d", of("other"), spec(nil), false},
		"nobody's snapshot":           {"shop", "snap-0b1b2c3d", nil, spec(nil), false},
		"listed for somebody else":    {"other", "snap-0a1b2c3d", nil, spec(nil), false},
		"a volume listed elsewhere":   {"shop", "vol-0a1b2c3d", nil, spec(nil), false},
		"with credentials of its own": {"other", "snap-0b1b2c3d", nil, own, true},
	} {
		t.Run(name, func(t *testing.T) {
			v := p.CheckSource(r.namespace, r.spec, r.id, r.tags)
			if (v == nil) != r.fine {
				t.Fatalf("violation %+v", v)
			}
			if v != nil && (v.Account || !strings.Contains(v.Message, r.id) || !strings.HasPrefix(v.Field, "spec.bootstrap.recovery.")) {
				t.Errorf("violation %+v", v)
			}
		})
	}
}

// TestSamplePolicy parses the administrator's example and checks the sample clusters against it.
func TestSamplePolicy(t *testing.T) {
	folder := filepath.Join("..", "..", "config", "samples")
	var cm corev1.ConfigMap
	read(t, filepath.Join(folder, "policy.yaml"), &cm)
	if cm.Name != v1alpha1.PolicyConfigMap || cm.Namespace != v1alpha1.SystemNamespace {
		t.Errorf("the sample is %s/%s", cm.Namespace, cm.Name)
	}
	p, err := policy.Parse(cm.Data)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"smallest.yaml", "mysql_v1alpha1_mysqlcluster.yaml", "aws-mysql-prod.yaml", "restore-from-snapshot.yaml"} {
		var cluster v1alpha1.MySQLCluster
		read(t, filepath.Join(folder, file), &cluster)
		namespace := cluster.Namespace
		if namespace == "" {
			namespace = "default"
		}
		if found := p.Check(namespace, cluster.Spec); len(found) > 0 {
			t.Errorf("%s: %v", file, found)
		}
	}
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatal(err)
	}
}

// TestSamplePrices: the list of prices that the sample shows in a comment is one.
func TestSamplePrices(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "samples", "policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, comment, found := strings.Cut(string(text), "# "+policy.PricesKey+": |\n")
	if !found {
		t.Fatal("the sample shows no prices")
	}
	list := strings.ReplaceAll(comment, "  #   ", "")
	p, err := policy.Parse(map[string]string{policy.Key: "namespaces: {}", policy.PricesKey: list})
	if err != nil {
		t.Fatal(err)
	}
	prices, err := p.Prices()
	if err != nil || prices.Regions["eu-central-1"].Instances["m7g.large"] == 0 {
		t.Errorf("%+v, %v", prices, err)
	}
}
