package ec2

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/iam"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

const (
	memberRole  = "nairobi-mysql-member"
	adminRole   = "admin"
	labKeyPair  = "lab"
	tenantsRole = "arn:aws:iam::" + iam.AccountID + ":role/nairobi-mysql-tenant"

	// tagOfNamespace is the tag by which docs/aws.md tells tenants' roles apart.
	tagOfNamespace = "mysql-namespace"
)

// under is the operator with a policy, in a session with tags such as EKS Pod Identity's.
func under(t *testing.T, d iam.Document) *iam.Principal {
	t.Helper()
	policy, err := d.Policy()
	if err != nil {
		t.Fatal(err)
	}
	return &iam.Principal{ARN: "arn:aws:iam::" + iam.AccountID + ":user/nairobi-mysql-operator", Policy: policy,
		Tags: map[string]string{"kubernetes-namespace": v1alpha1.SystemNamespace, tagOfNamespace: "shop"}}
}

// allowedBesides is the operator with the published policy and one more statement.
func allowedBesides(t *testing.T, more iam.Statement) *iam.Principal {
	t.Helper()
	d := operatorPolicy(t)
	d.Statement = append(d.Statement, more)
	return under(t, d)
}

// changed is the published policy after a change to one statement.
func changed(t *testing.T, sid string, change func(*iam.Statement)) iam.Document {
	t.Helper()
	d := operatorPolicy(t)
	i := slices.IndexFunc(d.Statement, func(s iam.Statement) bool { return s.Sid == sid })
	if i < 0 {
		t.Fatalf("the policy has no statement %s", sid)
	}
	if change(&d.Statement[i]); len(d.Statement[i].Action) == 0 || len(d.Statement[i].Resource) == 0 {
		d.Statement = slices.Delete(d.Statement, i, i+1)
	}
	return d
}

// keysAndProfiles makes what a launch can name, once: a key pair, and instance profiles of the names of their roles.
var keysAndProfiles = sync.OnceValue(func() error {
	key, err := json.Marshal("ssh-ed25519 AAAA")
	if err != nil {
		return err
	}
	for _, call := range []url.Values{
		{"Action": {"CreateRole"}, "RoleName": {memberRole}, "AssumeRolePolicyDocument": {string(key)}},
		{"Action": {"CreateInstanceProfile"}, "InstanceProfileName": {memberRole}},
		{"Action": {"AddRoleToInstanceProfile"}, "InstanceProfileName": {memberRole}, "RoleName": {memberRole}},
		{"Action": {"CreateRole"}, "RoleName": {adminRole}, "AssumeRolePolicyDocument": {string(key)}},
		{"Action": {"CreateInstanceProfile"}, "InstanceProfileName": {adminRole}},
		{"Action": {"AddRoleToInstanceProfile"}, "InstanceProfileName": {adminRole}, "RoleName": {adminRole}},
		{"Action": {"CreateKeyPair"}, "KeyName": {labKeyPair}, "Version": {"2016-11-15"}},
	} {
		service := "ec2"
		if !call.Has("Version") {
			service = "iam"
			call.Set("Version", "2010-05-08")
		}
		request, err := http.NewRequest(http.MethodPost, server.moto.Endpoint(), strings.NewReader(call.Encode()))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+iam.AdministratorKeyID+"/20260101/"+moto.Region+"/"+service+"/aws4_request, SignedHeaders=host, Signature=x")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", call.Get("Action"), response.Status)
		}
	}
	return nil
})

// problem is an error that the operator shows as a problem.
type problem struct{ awsapi.Problem }

func (p problem) Error() string { return p.Message }

// asProblem is what the operator shows for an error.
func asProblem(err error) awsapi.Problem {
	var p problem
	if errors.As(err, &p) {
		return p.Problem
	}
	return awsapi.Explain(err)
}

// first is the first of the problems, if there is one.
func first(problems []awsapi.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	return problem{problems[0]}
}

// noStep are the methods of Cloud that are no step of a life, with where they are called.
var noStep = map[string]string{
	"ResolveImage": "by Preflight", "InstanceType": "by Preflight",
	"Rehearse": "by TestPolicyAllowsAWholeLife", "CanRehearse": "by nothing: it makes no call", "Rehearsed": "by nothing: it makes no call",
}

// The published policy allows all that is done for a cluster, the rehearsal of what may have to be done included.
func TestPolicyAllowsAWholeLife(t *testing.T) {
	l := newLabFor(t, under(t, operatorPolicy(t)))
	coversCloud(t, func(yield func(string) bool) {
		for name := range (&life{lab: l}).steps() {
			if !yield(name) {
				return
			}
		}
	}, noStep)
	if err := l.live(t); err != nil {
		t.Error(err)
	}
	for _, call := range l.proxy.Calls() {
		if call.Status == http.StatusForbidden {
			t.Errorf("%s was denied", call.Action)
		}
	}
	if left := len(l.realVolumes()); left != 0 {
		t.Errorf("%d volumes are left", left)
	}
	l = newLab(t)
	l.ensureGroup()
	i, v := l.running("orders-0"), l.available("orders-0")
	l.attach(v.ID, i.ID)
	l.until("rehearsed", func(inventory.Inventory) bool {
		if problems := l.cloud.Rehearse(t.Context(), l.owner).Problems; len(problems) > 0 {
			t.Fatal(problems)
		}
		return l.proxy.Counts()["DeleteSecurityGroup"] > 0
	})
}

func (l *lab) ensureGroup() {
	l.t.Helper()
	l.until("a group", func(inventory.Inventory) bool {
		_, err := l.cloud.EnsureSecurityGroup(l.t.Context(), SecurityGroupSpec{Owner: l.owner, VPCID: l.seeded.VPC, ClientCIDRs: []string{"10.0.0.0/8"}})
		if err != nil && !awsapi.IsWaiting(err) {
			l.t.Fatal(err)
		}
		return err == nil
	})
}

func (l *lab) attach(volume, instance string) {
	l.t.Helper()
	if err := l.cloud.AttachVolume(l.t.Context(), l.owner.ClusterUID, volume, instance, DataDevice); err != nil {
		l.t.Fatal(err)
	}
	l.until("attached", func(inv inventory.Inventory) bool {
		return find(inv.Volumes, func(v inventory.Volume) bool { return v.AttachState == inventory.AttachAttached }) != nil
	})
}

// Without any one action or resource of any one statement something of a cluster's life is denied, and the operator names the
// permission. KMS denies what EC2 has taken on already, see package iam.
func TestPolicyHasNothingToSpare(t *testing.T) {
	type cut struct {
		what, sid, names string
		change           func(*iam.Statement)
	}
	var cuts []cut
	for _, s := range operatorPolicy(t).Statement {
		if strings.HasPrefix(s.Action[0], "kms:") {
			continue
		}
		for _, action := range s.Action {
			cuts = append(cuts, cut{s.Sid + " without " + action, s.Sid, action, func(s *iam.Statement) {
				s.Action = slices.DeleteFunc(slices.Clone(s.Action), func(a string) bool { return a == action })
			}})
		}
		for _, resource := range s.Resource {
			if len(s.Resource) == 1 {
				break // as good as without the actions
			}
			cuts = append(cuts, cut{s.Sid + " without " + resource, s.Sid, "", func(s *iam.Statement) {
				s.Resource = slices.DeleteFunc(slices.Clone(s.Resource), func(r string) bool { return r == resource })
			}})
		}
	}
	for _, c := range cuts {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			l := newLabFor(t, under(t, changed(t, c.sid, c.change)))
			err := l.live(t)
			if err == nil {
				t.Fatal("everything goes on without it: the policy need not have it")
			}
			if p := asProblem(err); p.Reason != v1alpha1.ReasonNotPermitted || c.names != "" && !regexp.MustCompile(regexp.QuoteMeta(c.names)+`\b`).MatchString(p.Message) {
				t.Errorf("%s: %s, want %s and the action's name", p.Reason, p.Message, v1alpha1.ReasonNotPermitted)
			}
		})
	}
}

// stranger is an instance and a volume of somebody else in the same account, with the tags given.
func (l *lab) stranger(tags map[string]string) (instance, volume string) {
	l.t.Helper()
	ctx := l.t.Context()
	i, err := l.sdk().RunInstances(ctx, &awsec2.RunInstancesInput{ImageId: aws.String(l.seeded.Image), InstanceType: "m6i.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		SubnetId:          aws.String(l.seeded.Subnets[zoneA]),
		MetadataOptions:   &types.InstanceMetadataOptionsRequest{InstanceMetadataTags: types.InstanceMetadataTagsStateDisabled},
		TagSpecifications: []types.TagSpecification{awsapi.TagSpec(types.ResourceTypeInstance, tags)}})
	if err != nil {
		l.t.Fatal(err)
	}
	v, err := l.sdk().CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: aws.String(zoneA), Size: aws.Int32(1),
		TagSpecifications: []types.TagSpecification{awsapi.TagSpec(types.ResourceTypeVolume, tags)}})
	if err != nil {
		l.t.Fatal(err)
	}
	return aws.ToString(i.Instances[0].InstanceId), aws.ToString(v.VolumeId)
}

// hostile are calls with the operator's key that the policy must deny, by the statement and the part of it that does.
func hostile(l *lab) map[string]func() error {
	instance, volume := l.stranger(map[string]string{"Name": "a stranger's"})
	ctx, dry := l.t.Context(), aws.Bool(true)
	config := moto.Config(l.proxy.Endpoint())
	config.Credentials = credentials.NewStaticCredentialsProvider(moto.AccessKeyID, moto.SecretAccessKey, "")
	api := awsec2.NewFromConfig(config)
	ours := awsapi.ToTags(l.owner.TagsOf("orders-0", 1))
	return map[string]func() error{
		"CreateOnlyWhatIsTagged Condition": func() error {
			_, err := api.CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: aws.String(zoneA), Size: aws.Int32(1), DryRun: dry})
			return err
		},
		"CreateOnlyTaggedCopiesAndGroups Condition": func() error {
			_, err := api.CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{GroupName: aws.String("mine"), Description: aws.String("x"), VpcId: aws.String(l.seeded.VPC), DryRun: dry})
			return err
		},
		"CopyOnlyOurData Condition": func() error {
			_, err := api.CreateSnapshot(ctx, &awsec2.CreateSnapshotInput{VolumeId: aws.String(volume), DryRun: dry,
				TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeSnapshot, Tags: ours}}})
			return err
		},
		"TagWhileCreating Condition": func() error {
			_, err := api.CreateTags(ctx, &awsec2.CreateTagsInput{Resources: []string{volume}, Tags: ours, DryRun: dry})
			return err
		},
		"ChangeOnlyWhatIsTagged Condition": func() error {
			_, err := api.StopInstances(ctx, &awsec2.StopInstancesInput{InstanceIds: []string{instance}, DryRun: dry})
			return err
		},
		"GiveInstancesTheirProfile Resource": func() error {
			spec := l.launchSpec("orders-9", 1)
			spec.IAMInstanceProfile = adminRole
			input, err := l.cloud.runInput(ctx, spec)
			if err != nil {
				return err
			}
			input.DryRun, input.ClientToken = dry, nil
			_, err = api.RunInstances(ctx, input)
			return err
		},
		"ResolveImageAliases Resource": func() error {
			_, err := ssm.NewFromConfig(config).GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String("/shop/password"), WithDecryption: aws.Bool(true)})
			return err
		},
		"TakeOnTenantsRoles Resource": func() error {
			_, err := sts.NewFromConfig(config).AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: aws.String("arn:aws:iam::" + iam.AccountID + ":role/" + adminRole), RoleSessionName: aws.String("x")})
			return err
		},
	}
}

// elsewhere are the conditions that package iam tries: no call of EC2 in the lab reaches what they refuse.
var elsewhere = []string{"GiveInstancesTheirProfile Condition", "EncryptWithOwnKeys Condition", "LetEBSUseOwnKeys Condition"}

// Each condition, and each resource that is more than a kind of EC2's, refuses something that would be allowed without it.
func TestPolicyDeniesWhatIsNotOurs(t *testing.T) {
	all := hostile(newLab(t))
	if err := keysAndProfiles(); err != nil {
		t.Fatal(err)
	}
	for _, s := range operatorPolicy(t).Statement {
		if name := s.Sid + " Condition"; len(s.Condition) > 0 && all[name] == nil && !slices.Contains(elsewhere, name) {
			t.Errorf("nothing shows that the condition of %s refuses anything", s.Sid)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			sid, part, _ := strings.Cut(name, " ")
			if err := hostile(newLabFor(t, under(t, operatorPolicy(t))))[name](); !awsapi.LacksPermission(awsapi.Code(err)) {
				t.Errorf("under the policy: %v, want a denial", err)
			}
			wide := changed(t, sid, func(s *iam.Statement) {
				if part == "Condition" {
					s.Condition = nil
				} else {
					s.Resource = iam.OneOrMany{"*"}
				}
			})
			if err := hostile(newLabFor(t, under(t, wide)))[name](); awsapi.LacksPermission(awsapi.Code(err)) {
				t.Errorf("without the %s of %s: %v, which it should have allowed", part, sid, err)
			}
		})
	}
}

// byNamespace is the policy that docs/aws.md describes for tenants: each condition on a tag asks for the namespace as well.
func byNamespace(t *testing.T, namespace string) iam.Document {
	t.Helper()
	d := operatorPolicy(t)
	for i := range d.Statement {
		for key := range d.Statement[i].Condition["Null"] {
			kind, _, _ := strings.Cut(key, "/")
			d.Statement[i].Condition["StringEquals"] = map[string]iam.OneOrMany{kind + "/" + v1alpha1.TagNamespace: {namespace}}
		}
	}
	return d
}

// With a role for each namespace, IAM itself keeps one tenant's operator from what is another's.
func TestPolicyOfATenant(t *testing.T) {
	for name, namespace := range map[string]string{"by name": "shop", "by the role's tag": "${aws:PrincipalTag/" + tagOfNamespace + "}"} {
		l := newLabFor(t, under(t, byNamespace(t, namespace)))
		if err := l.live(t); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		config := moto.Config(l.proxy.Endpoint())
		config.Credentials = credentials.NewStaticCredentialsProvider(moto.AccessKeyID, moto.SecretAccessKey, "")
		for owner, want := range map[string]bool{"shop": true, "depot": false} {
			instance, _ := l.stranger(map[string]string{v1alpha1.TagClusterUID: "another", v1alpha1.TagNamespace: owner})
			_, err := awsec2.NewFromConfig(config).TerminateInstances(t.Context(), &awsec2.TerminateInstancesInput{InstanceIds: []string{instance}, DryRun: aws.Bool(true)})
			if allowed := awsapi.Code(err) == codeDryRun; allowed != want {
				t.Errorf("%s: an instance of %s: %v", name, owner, err)
			}
		}
	}
}

// EC2 denies a call on what is gone, because that has no tags any more. For the operator it is gone, and not forbidden.
func TestGoneIsNotForbidden(t *testing.T) {
	l := newLab(t)
	ctx := t.Context()
	v, i := l.available("orders-0"), l.running("orders-1")
	if _, err := l.sdk().DeleteVolume(ctx, &awsec2.DeleteVolumeInput{VolumeId: aws.String(v.ID)}); err != nil {
		t.Fatal(err)
	}
	if err := l.cloud.DeleteVolume(ctx, l.owner.ClusterUID, v.ID); err != nil {
		t.Errorf("deleting a volume that is gone: %v", err)
	}
	if err := l.cloud.DetachVolume(ctx, l.owner.ClusterUID, v.ID, i.ID); err != nil {
		t.Errorf("detaching it: %v", err)
	}
	if calls := l.proxy.Calls(); !slices.ContainsFunc(calls, func(c proxy.Call) bool { return c.Action == "DeleteVolume" && c.Status == http.StatusForbidden }) {
		t.Errorf("EC2 denied nothing: %+v", calls)
	}
	l.removeTag(i.ID, v1alpha1.TagClusterUID)
	if err := l.cloud.StopInstance(ctx, l.owner.ClusterUID, i.ID, StopPower); !awsapi.IsDenied(err) || awsapi.RefusedAction(err) != "ec2:StopInstances" {
		t.Errorf("stopping what is there without the tag: %v, want a denial", err)
	}
}

// Neither is it a missing permission when a rehearsal meets something that went since the last sweep.
func TestRehearsalOnWhatIsGone(t *testing.T) {
	l := newLab(t)
	ctx := t.Context()
	i, v := l.running("orders-0"), l.available("orders-0")
	l.attach(v.ID, i.ID)
	if _, err := l.sdk().DetachVolume(ctx, &awsec2.DetachVolumeInput{VolumeId: aws.String(v.ID)}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(settleTime); len(l.realVolumes()) > 0; time.Sleep(settleDelay) {
		if _, err := l.sdk().DeleteVolume(ctx, &awsec2.DeleteVolumeInput{VolumeId: aws.String(v.ID)}); err != nil && time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	problems := l.cloud.Rehearse(ctx, l.owner).Problems
	calls := l.proxy.Calls()
	if len(problems) > 0 || !slices.ContainsFunc(calls, func(c proxy.Call) bool { return c.DryRun && c.Status == http.StatusForbidden }) {
		t.Errorf("found %+v, in %+v", problems, calls)
	}
}
