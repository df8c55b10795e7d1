package doctor_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/doctor"
	"github.com/alx-ke/nairobi-mysql-operator/internal/leader"
	"github.com/alx-ke/nairobi-mysql-operator/internal/webhook"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

const (
	// hooksPause is how long the API server may take to go by a webhook configuration that changed.
	hooksPause = 2 * time.Second
	// settleTime bounds the waiting for a change of the API server or of moto.
	settleTime    = 30 * time.Second
	nobodysSubnet = "subnet-0deadbeef00000000"
	backupRole    = "arn:aws:iam::123456789012:role/nairobi-mysql-backup"
)

// planted are misconfigurations, each in an installation that is well otherwise.
var planted = []struct {
	what string
	// spoil is before the cluster is applied, unless late.
	spoil func(*world)
	late  bool
	// check is the one that has to find it, with this verdict (Failed unless set) and these words.
	check   string
	verdict doctor.Verdict
	says    []string
	// also are other checks that it fails or warns of.
	also []string
}{
	{what: "a CRD of an older release", spoil: func(w *world) {
		w.t.Cleanup(func() { w.serves(func(schema string) bool { return strings.Contains(schema, "lastPromotion") }) })
		changes(w, &apiextensionsv1.CustomResourceDefinition{}, "", "mysqlclusters.mysql.alx.ke", func(c *apiextensionsv1.CustomResourceDefinition) {
			status := c.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
			delete(status.Properties, "lastPromotion")
		})
		w.serves(func(schema string) bool { return !strings.Contains(schema, "lastPromotion") })
	}, check: "crds", says: []string{"the CRD of MySQLCluster is older than this build", "status.lastPromotion"}},
	{what: "a rule of the ClusterRole is gone", spoil: func(w *world) {
		w.forbids("statefulsets")
	}, check: "rbac", says: []string{"create statefulsets.apps", "watch statefulsets.apps"}},
	{what: "EndpointSlices cannot be made", spoil: func(w *world) {
		w.forbids("endpointslices")
	}, check: "endpointslices", says: []string{"a dry run of an EndpointSlice is refused"}, also: []string{"rbac"}},
	{what: "a typing mistake in the policy", spoil: func(w *world) { w.policy = strings.Replace(allowing, "subnets", "subnet", 1) },
		check: "policy", says: []string{"nairobi-mysql-policy", `unknown field "subnet"`}, also: []string{"policy-allows"}},
	{what: "the policy does not list a key pair", spoil: func(w *world) {
		w.policy, w.cluster.Spec.AWS.KeyName = strings.Replace(allowing, `keyNames: ["*"]`, `keyNames: ["others"]`, 1), w.keyPair()
	}, check: "policy-allows", says: []string{"spec.aws.keyName", "namespaces.shop.keyNames"}},
	{what: "the release keys have expired", spoil: func(w *world) { w.keys = releaseKey(w.t, time.Now().AddDate(-1, 0, 0), 24*time.Hour) },
		check: "release-keys", says: []string{"MySQL's release keys expired on "}},
	{what: "the release keys are about to expire", spoil: func(w *world) { w.keys = releaseKey(w.t, time.Now(), 60*24*time.Hour) },
		check: "release-keys", verdict: doctor.Warning, says: []string{"MySQL's release keys expire on "}},
	{what: "no operator is at work", spoil: func(w *world) {
		changes(w, &coordinationv1.Lease{}, system, leader.LeaseName, func(l *coordinationv1.Lease) {
			l.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(-time.Hour)}
		})
	}, check: "lease", says: []string{"was last renewed 1h0m", "operator-0"}},
	{what: "an operator of another installation leads", spoil: func(w *world) {
		w.makes(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "second-installation"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "nairobi-mysql-manager-role"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: shop, Name: "olm"}}})
		w.makes(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: leader.LeaseName, Annotations: map[string]string{v1alpha1.AnnotationServiceAccount: "olm"}}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("olm-0"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &metav1.MicroTime{Time: time.Now().Add(time.Minute)}}})
	}, check: "one-installation", says: []string{"olm-0 in namespace shop"}},
	{what: "the webhook is not reached", spoil: func(w *world) {
		w.hooks(func(h *admissionv1.ValidatingWebhook) {
			h.ClientConfig.URL = ptr.To("https://" + closed(w.t) + validatePath)
		})
	}, late: true, check: "webhook", says: []string{"the webhook did not answer a dry run of patch"}, also: []string{"webhook-delete"}},
	{what: "the webhook is not asked about deletions", spoil: func(w *world) {
		w.hooks(func(h *admissionv1.ValidatingWebhook) {
			h.Rules[0].Operations = slices.DeleteFunc(h.Rules[0].Operations, func(o admissionv1.OperationType) bool { return o == admissionv1.Delete })
			h.Rules[0].Operations = append(h.Rules[0].Operations, admissionv1.Connect)
		})
	}, late: true, check: "webhook-delete", says: []string{"is accepted, although it is protected"}, also: []string{"webhook"}},
	{what: "AWS does not know the credentials", spoil: func(w *world) {
		w.fault(proxy.Rule{Kind: proxy.Fail, Service: "sts", Code: "InvalidClientTokenId", Actions: []string{"GetCallerIdentity"}, Status: http.StatusForbidden})
	}, check: "identity", says: []string{"region us-east-1"}},
	{what: "the clock is 6 minutes slow", spoil: func(w *world) { w.cloud.ahead = 6 * time.Minute },
		check: "clock", says: []string{" behind AWS's; AWS refuses calls"}},
	{what: "the clock is a minute fast", spoil: func(w *world) { w.cloud.ahead = -time.Minute },
		check: "clock", verdict: doctor.Warning, says: []string{" ahead of AWS's"}},
	{what: "IAM lacks a reading action", spoil: func(w *world) { w.fault(proxy.Deny("DescribeSnapshots")) },
		check: "iam-read", says: []string{"the AWS identity lacks ec2:DescribeSnapshots"}},
	{what: "the account shows tags in instance metadata", spoil: func(w *world) { w.cloud.metadata = "<instanceMetadataTags>enabled</instanceMetadataTags>" },
		check: "imds-default", verdict: doctor.Warning, says: []string{"shows tags in instance metadata"}},
	{what: "IAM lacks RunInstances", spoil: func(w *world) { w.fault(proxy.Deny("RunInstances")) },
		check: "iam-launch", says: []string{"ec2:RunInstances"}},
	{what: "IAM lacks PassRole", spoil: func(w *world) {
		w.cluster.Spec.AWS.IAMInstanceProfile = "nairobi-mysql-member"
		w.fault(proxy.Rule{Kind: proxy.Fail, Code: "UnauthorizedOperation", Actions: []string{"RunInstances"},
			Message: "You are not authorized to perform this operation. User: arn:aws:iam::1:user/x is not authorized to perform: iam:PassRole on resource: r"})
	}, check: "instance-profile", says: []string{"iam:PassRole"}},
	{what: "IAM lacks the fence", spoil: func(w *world) {
		w.running()
		w.fault(proxy.Deny("StopInstances"))
	}, late: true, check: "iam-change", says: []string{"ec2:StopInstances"}},
	{what: "the quota of vCPUs is too small", spoil: func(w *world) { w.cloud.vcpus = 6 },
		check: "vcpu-quota", says: []string{"Running On-Demand Standard", "is 6 vCPUs", "the cluster needs 8"}},
	{what: "the quota of storage is too small", spoil: func(w *world) { w.cloud.storage = 0 },
		check: "storage-quota", says: []string{"(gp3)", "is 0 GiB"}},
	{what: "the KMS key is disabled", spoil: func(w *world) { w.cluster.Spec.Storage.KMSKeyID = w.disabledKey() },
		check: "kms-key", says: []string{"is in the state Disabled"}},
	{what: "a subnet does not exist", spoil: func(w *world) {
		w.cluster.Spec.AWS.SubnetIDs = []string{seeded.SubnetIDs()[0], seeded.SubnetIDs()[1], nobodysSubnet}
	},
		check: "subnets", says: []string{"spec.aws.subnetIDs[2]", "there is no subnet " + nobodysSubnet}},
	{what: "a subnet has no way out", spoil: func(w *world) {
		subnet, _ := w.vpc()
		w.cluster.Spec.AWS.SubnetIDs = []string{subnet}
	}, check: "subnet-routes", says: []string{"has no default route", "instances cannot download MySQL"}},
	{what: "the way out needs a public address", spoil: func(w *world) { w.internetGateway() },
		check: "subnet-routes", says: []string{"leads to igw-", "members have no public address"}},
	{what: "a security group of another VPC", spoil: func(w *world) {
		_, group := w.vpc()
		w.cluster.Spec.AWS.SecurityGroupIDs, w.cluster.Spec.AWS.ClientCIDRs = []string{group}, nil
	}, check: "security-groups", says: []string{"spec.aws.securityGroupIDs[0]", "choose a group of that VPC"}, also: []string{"group-rules"}},
	{what: "a network ACL drops port 3306", spoil: func(w *world) { w.acl(3306) },
		check: "network-acls", says: []string{"network ACL acl-", "does not let TCP port 3306 in from subnet "}},
	{what: "a network ACL drops answers", spoil: func(w *world) { w.acl(40000) },
		check: "network-acls", says: []string{"does not let TCP ports 32768-60999 in from subnet "}},
	{what: "a network ACL drops some clients", spoil: func(w *world) { w.cluster.Spec.AWS.ClientCIDRs = []string{"10.0.0.0/8"}; w.acl(3306, "10.200.0.0/16") },
		check: "network-acls", verdict: doctor.Warning, says: []string{"does not let TCP port 3306 in from all clients of 10.0.0.0/8"}},
	{what: "members do not let each other in", spoil: func(w *world) { w.ownGroup("10.200.0.0/16") },
		check: "group-rules", says: []string{"does not let TCP port 3306 in from members in subnet "}},
	{what: "nobody but members is let in", spoil: func(w *world) { w.ownGroup("") },
		check: "group-rules", says: []string{"does not let TCP port 3306 in from anybody but members, so not from the operator"}},
	{what: "members are not let out", spoil: func(w *world) { w.shut(w.ownGroup("0.0.0.0/0")) },
		check: "group-rules", says: []string{"does not let TCP port 3306 out to members in subnet ", "does not let TCP port 443 out to the Internet"}},
	{what: "clients are not let out", spoil: func(w *world) {
		group := w.group(seeded.VPC)
		w.shut(group)
		w.cluster.Spec.AWS.ClientSecurityGroupIDs = []string{group}
	}, check: "group-rules", verdict: doctor.Warning, says: []string{"the group of clients sg-", "does not let TCP port 3306 out to subnet "}},
	{what: "an image of another architecture", spoil: func(w *world) { w.cluster.Spec.AWS.ImageID = w.armImage() },
		check: "image", says: []string{"is built for arm64, but m6i.large is x86_64"}},
	{what: "an instance type that does not exist", spoil: func(w *world) { w.cluster.Spec.AWS.InstanceType = "m6i.huge" },
		check: "instance-type", says: []string{"there is no instance type m6i.huge"}},
	{what: "a key pair that does not exist", spoil: func(w *world) { w.cluster.Spec.AWS.KeyName = "nobodys" },
		check: "key-pair", says: []string{"spec.aws.keyName", "nobodys"}},
	// In a manifest, for the CRD refuses it as well.
	{what: "settings that do not fit into user data", spoil: func(w *world) { w.hugeSettings() },
		check: "spec", says: []string{"user data"}},
	{what: "a version that MySQL's site does not have", spoil: func(w *world) { w.cluster.Spec.Version = "8.4.5" },
		check: "download", says: []string{"MySQL's tarball is not there", "mysql-8.4.5-linux-glibc2.28-x86_64-minimal.tar.xz: HTTP 404"}},
	{what: "a Secret lacks a key", spoil: func(w *world) {
		changes(w, &corev1.Secret{}, shop, w.cluster.Name+"-keys", func(s *corev1.Secret) { delete(s.Data, "secretAccessKey") })
	}, check: "secrets", says: []string{"-keys", "spec.backup.destination.s3.credentialsSecretRef", "secretAccessKey"}},
	{what: "the bucket does not exist", spoil: func(w *world) {
		w.cluster.Spec.Backup.Destination.S3.CredentialsSecretRef, w.s3().Bucket = nil, "nobodys-bucket"
	},
		check: "bucket", says: []string{"there is no bucket nobodys-bucket"}},
	{what: "the keys may not list the bucket", spoil: func(w *world) {
		changes(w, &corev1.Secret{}, shop, w.cluster.Name+"-keys", func(s *corev1.Secret) { s.Data["accessKeyID"] = []byte(moto.AccessKeyID) })
	}, check: "bucket", says: []string{"access is denied"}},
	{what: "the store overwrites objects", spoil: func(w *world) {
		w.what.Spend, w.s3().Endpoint = true, forgetful(w.t, w.proxy.Endpoint())
	}, check: "bucket-write", says: []string{"ignores If-None-Match"}},
	{what: "the role of the backup pods is not on their service account", spoil: func(w *world) {
		w.s3().CredentialsSecretRef, w.s3().RoleARN = nil, backupRole
		w.makes(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: w.cluster.Name + "-backup"}})
	}, check: "backup-identity", says: []string{`eks.amazonaws.com/role-arn=""`, backupRole}},
	{what: "EBS may not use the key", spoil: func(w *world) {
		w.what.Spend = true
		w.vanishing()
	}, check: "probe-volume", says: []string{"vanished"}},
}

// TestPlanted: each of them is found by name, and nothing else is blamed.
func TestPlanted(t *testing.T) {
	for _, row := range planted {
		t.Run(row.what, func(t *testing.T) {
			w := newWorld(t)
			if !row.late {
				row.spoil(w)
			}
			w.apply()
			if row.late {
				row.spoil(w)
			}
			if row.verdict == "" {
				row.verdict = doctor.Failed
			}
			report := w.doctor().Run(t.Context())
			found := false
			for _, f := range report.Findings {
				switch {
				case f.Check == row.check:
					found = true
					if f.Verdict != row.verdict {
						t.Errorf("%+v, want the verdict %s", f, row.verdict)
					}
					for _, words := range row.says {
						if !strings.Contains(f.Seen, words) {
							t.Errorf("it says %q, and not %q", f.Seen, words)
						}
					}
				case (f.Verdict == doctor.Failed || f.Verdict == doctor.Warning) && !slices.Contains(row.also, f.Check):
					t.Errorf("blamed as well: %+v", f)
				}
			}
			if !found {
				t.Errorf("no finding of %s", row.check)
			}
			if want := row.verdict == doctor.Failed || len(row.also) > 0; report.Failed > 0 != want {
				t.Errorf("%d failed", report.Failed)
			}
			w.nothingLeft()
		})
	}
	if len(planted) < 20 {
		t.Errorf("%d are planted", len(planted))
	}
}

// releaseKey returns the armored block of a key that was made at a time and lasts for some.
func releaseKey(t *testing.T, made time.Time, lasts time.Duration) string {
	t.Helper()
	entity, err := openpgp.NewEntity("Release Engineering", "", "release@example.com", &packet.Config{
		Time: func() time.Time { return made }, KeyLifetimeSecs: uint32(lasts.Seconds()),
	})
	must(t, err)
	var block bytes.Buffer
	armored, err := armor.Encode(&block, openpgp.PublicKeyType, nil)
	must(t, err)
	must(t, entity.Serialize(armored))
	must(t, armored.Close())
	return block.String()
}

// forbids takes what is said of a resource out of the operator's ClusterRole.
func (w *world) forbids(resource string) {
	w.t.Helper()
	w.t.Cleanup(func() { w.until(func() bool { return w.permits(resource) }) })
	changes(w, &rbacv1.ClusterRole{}, "", "nairobi-mysql-manager-role", func(r *rbacv1.ClusterRole) {
		r.Rules = slices.DeleteFunc(r.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, resource) })
	})
	w.until(func() bool { return !w.permits(resource) })
}

func (w *world) s3() *v1alpha1.S3Destination { return w.cluster.Spec.Backup.Destination.S3 }

// hooks changes both webhooks.
func (w *world) hooks(change func(*admissionv1.ValidatingWebhook)) {
	w.t.Helper()
	w.t.Cleanup(func() { time.Sleep(hooksPause) })
	changes(w, &admissionv1.ValidatingWebhookConfiguration{}, "", webhook.ConfigurationName, func(c *admissionv1.ValidatingWebhookConfiguration) {
		for i := range c.Webhooks {
			change(&c.Webhooks[i])
		}
	})
	time.Sleep(hooksPause)
}

func (w *world) keyPair() string {
	w.t.Helper()
	name := w.cluster.Name
	_, err := sdk().CreateKeyPair(w.t.Context(), &awsec2.CreateKeyPairInput{KeyName: &name})
	must(w.t, err)
	return name
}

func (w *world) armImage() string {
	w.t.Helper()
	out, err := sdk().RegisterImage(w.t.Context(), &awsec2.RegisterImageInput{Name: aws.String(w.cluster.Name), Architecture: types.ArchitectureValuesArm64,
		RootDeviceName: aws.String("/dev/xvda"), VirtualizationType: aws.String("hvm")})
	must(w.t, err)
	return aws.ToString(out.ImageId)
}

func (w *world) disabledKey() string {
	w.t.Helper()
	keys := kms.NewFromConfig(server.Config())
	made, err := keys.CreateKey(w.t.Context(), &kms.CreateKeyInput{})
	must(w.t, err)
	_, err = keys.DisableKey(w.t.Context(), &kms.DisableKeyInput{KeyId: made.KeyMetadata.KeyId})
	must(w.t, err)
	return aws.ToString(made.KeyMetadata.Arn)
}

// internetGateway has the default route of the subnets lead to one, for the time of the test.
func (w *world) internetGateway() {
	w.t.Helper()
	ctx, all := context.WithoutCancel(w.t.Context()), "0.0.0.0/0"
	gateway, err := sdk().CreateInternetGateway(ctx, &awsec2.CreateInternetGatewayInput{})
	must(w.t, err)
	id := gateway.InternetGateway.InternetGatewayId
	_, err = sdk().AttachInternetGateway(ctx, &awsec2.AttachInternetGatewayInput{InternetGatewayId: id, VpcId: &seeded.VPC})
	must(w.t, err)
	_, err = sdk().ReplaceRoute(ctx, &awsec2.ReplaceRouteInput{RouteTableId: &mainTable, DestinationCidrBlock: &all, GatewayId: id})
	must(w.t, err)
	w.t.Cleanup(func() {
		_, err := sdk().DeleteRoute(ctx, &awsec2.DeleteRouteInput{RouteTableId: &mainTable, DestinationCidrBlock: &all})
		must(w.t, err)
		_, err = sdk().CreateRoute(ctx, &awsec2.CreateRouteInput{RouteTableId: &mainTable, DestinationCidrBlock: &all, NatGatewayId: &nat})
		must(w.t, err)
	})
}

// acl has the network ACL of the seeded subnets drop what comes to a port, from everywhere or from a network, for the time of the test.
func (w *world) acl(port int32, from ...string) {
	w.t.Helper()
	ctx, cidr := context.WithoutCancel(w.t.Context()), "0.0.0.0/0"
	if len(from) > 0 {
		cidr = from[0]
	}
	found, err := sdk().DescribeNetworkAcls(ctx, &awsec2.DescribeNetworkAclsInput{Filters: []types.Filter{{Name: aws.String("association.subnet-id"), Values: []string{seeded.SubnetIDs()[0]}}}})
	must(w.t, err)
	id := found.NetworkAcls[0].NetworkAclId
	_, err = sdk().CreateNetworkAclEntry(ctx, &awsec2.CreateNetworkAclEntryInput{NetworkAclId: id, RuleNumber: aws.Int32(50), Egress: aws.Bool(false), Protocol: aws.String("6"),
		RuleAction: types.RuleActionDeny, CidrBlock: &cidr, PortRange: &types.PortRange{From: &port, To: &port}})
	must(w.t, err)
	w.t.Cleanup(func() {
		_, err := sdk().DeleteNetworkAclEntry(ctx, &awsec2.DeleteNetworkAclEntryInput{NetworkAclId: id, RuleNumber: aws.Int32(50), Egress: aws.Bool(false)})
		must(w.t, err)
	})
}

// group makes a security group, which lets everything out and nothing in.
func (w *world) group(vpc string) string {
	w.t.Helper()
	g, err := sdk().CreateSecurityGroup(w.t.Context(), &awsec2.CreateSecurityGroupInput{GroupName: aws.String(w.cluster.Name), Description: aws.String("x"), VpcId: &vpc})
	must(w.t, err)
	return aws.ToString(g.GroupId)
}

// ownGroup has the cluster use a security group that lets a network in, or with none its own instances.
func (w *world) ownGroup(cidr string) string {
	w.t.Helper()
	id := w.group(seeded.VPC)
	rule := types.IpPermission{IpProtocol: aws.String("tcp"), FromPort: aws.Int32(3306), ToPort: aws.Int32(3306)}
	if cidr == "" {
		rule.UserIdGroupPairs = []types.UserIdGroupPair{{GroupId: &id}}
	} else {
		rule.IpRanges = []types.IpRange{{CidrIp: &cidr}}
	}
	_, err := sdk().AuthorizeSecurityGroupIngress(w.t.Context(), &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: &id, IpPermissions: []types.IpPermission{rule}})
	must(w.t, err)
	w.cluster.Spec.AWS.SecurityGroupIDs, w.cluster.Spec.AWS.ClientCIDRs = []string{id}, nil
	return id
}

// shut has a security group let nothing out.
func (w *world) shut(group string) {
	w.t.Helper()
	_, err := sdk().RevokeSecurityGroupEgress(w.t.Context(), &awsec2.RevokeSecurityGroupEgressInput{GroupId: &group, IpPermissions: []types.IpPermission{
		{IpProtocol: aws.String("-1"), IpRanges: []types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}}}}})
	must(w.t, err)
}

// running makes an instance of the cluster with a volume, as the operator tags them.
func (w *world) running() {
	w.t.Helper()
	ctx := context.WithoutCancel(w.t.Context())
	tags := func(kind types.ResourceType) []types.TagSpecification {
		spec := types.TagSpecification{ResourceType: kind}
		for key, value := range map[string]string{v1alpha1.TagClusterUID: string(w.cluster.UID), v1alpha1.TagMember: w.cluster.Name + "-0", v1alpha1.TagIncarnation: "1"} {
			spec.Tags = append(spec.Tags, types.Tag{Key: aws.String(key), Value: aws.String(value)})
		}
		return []types.TagSpecification{spec}
	}
	made, err := sdk().RunInstances(ctx, &awsec2.RunInstancesInput{ImageId: &seeded.Image, InstanceType: "m6i.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		SubnetId: aws.String(seeded.SubnetIDs()[0]), TagSpecifications: tags(types.ResourceTypeInstance),
		MetadataOptions: &types.InstanceMetadataOptionsRequest{InstanceMetadataTags: types.InstanceMetadataTagsStateDisabled}})
	must(w.t, err)
	instance := made.Instances[0].InstanceId
	volume, err := sdk().CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: aws.String("us-east-1a"), Size: aws.Int32(20), VolumeType: "gp3", TagSpecifications: tags(types.ResourceTypeVolume)})
	must(w.t, err)
	w.until(func() bool {
		_, err := sdk().AttachVolume(ctx, &awsec2.AttachVolumeInput{InstanceId: instance, VolumeId: volume.VolumeId, Device: aws.String("/dev/sdf")})
		return err == nil
	})
	w.t.Cleanup(func() {
		_, err := sdk().TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{*instance}})
		must(w.t, err)
		w.until(func() bool {
			_, err := sdk().DeleteVolume(ctx, &awsec2.DeleteVolumeInput{VolumeId: volume.VolumeId})
			return err == nil
		})
	})
}

// vanishing has the volume of a probe go as one does whose key EBS may not use: EC2 accepts it, and some time later it is gone.
func (w *world) vanishing() {
	w.t.Helper()
	ctx := context.WithoutCancel(w.t.Context())
	must(w.t, server.Hold(ctx, true))
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		w.until(func() bool { return len(w.probes()) > 0 })
		time.Sleep(2 * time.Second) // it is seen
		unreadable, err := w.proxy.Add(proxy.Deny("DescribeVolumes"))
		if err != nil {
			w.t.Error(err)
		}
		defer w.proxy.Remove(unreadable) // and never seen as available, however long what follows takes
		time.Sleep(time.Second)
		if err := server.Hold(ctx, false); err != nil {
			w.t.Error(err)
		}
		w.until(func() bool {
			for _, v := range w.probes() {
				_, _ = sdk().DeleteVolume(ctx, &awsec2.DeleteVolumeInput{VolumeId: v.VolumeId})
			}
			return len(w.probes()) == 0
		})
	}()
	w.t.Cleanup(func() { <-gone })
}

// probes are the volumes of probes that there are.
func (w *world) probes() []types.Volume {
	found, err := sdk().DescribeVolumes(context.WithoutCancel(w.t.Context()), &awsec2.DescribeVolumesInput{Filters: []types.Filter{{Name: aws.String("tag:" + v1alpha1.TagClusterUID), Values: []string{"nairobi-doctor"}}}})
	if err != nil {
		w.t.Error(err)
		return nil
	}
	return found.Volumes
}

// hugeSettings are more than user data has room for.
func (w *world) hugeSettings() {
	w.cluster.Spec.MySQLD = map[string]string{"log_error_suppression_list": strings.Join(slices.Collect(numbers(20000)), ",")}
	w.cluster.UID = "0b4d3f3e-0000-4000-8000-000000000001"
	w.what.Manifests, w.what.Namespace, w.what.Clusters = []v1alpha1.MySQLCluster{*w.cluster}, "", nil
}

func numbers(n int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for i := range n {
			if !yield(fmt.Sprint("MY-", 10000+i*7919%89999)) {
				return
			}
		}
	}
}

// nothingLeft: what probes make is gone.
func (w *world) nothingLeft() {
	w.t.Helper()
	w.until(func() bool { return len(w.probes()) == 0 })
}

func (w *world) until(holds func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(settleTime); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatal("it does not come to hold")
		}
	}
}
