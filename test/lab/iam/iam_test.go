package iam_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/config/aws"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/iam"
)

const (
	ownTag = "aws:ResourceTag/mysql.alx.ke/cluster-uid"
	volume = "arn:aws:ec2:us-east-1:123456789012:volume/vol-1"
)

// policy is a document of the statements given, without the braces around each.
func policy(statements ...string) string {
	return `{"Version": "2012-10-17", "Statement": [{` + strings.Join(statements, "}, {") + `}]}`
}

func allow(action, resource, more string) string {
	return fmt.Sprintf(`"Effect": "Allow", "Action": %q, "Resource": %q%s`, action, resource, more)
}

func deny(action, resource, more string) string {
	return strings.Replace(allow(action, resource, more), "Allow", "Deny", 1)
}

func when(condition string) string { return `, "Condition": {` + condition + `}` }

func TestEvaluate(t *testing.T) {
	stop := allow("ec2:StopInstances", "*", "")
	for _, row := range []struct {
		what     string
		policy   string
		action   string
		resource string
		keys     iam.Keys
		want     bool
	}{
		{"what is allowed", policy(stop), "ec2:StopInstances", volume, nil, true},
		{"an action that no statement has", policy(stop), "ec2:StartInstances", volume, nil, false},
		{"the letters' case of an action", policy(stop), "ec2:stopinstances", volume, nil, true},
		{"a wildcard in the action", policy(allow("ec2:*Instances", "*", "")), "ec2:StopInstances", volume, nil, true},
		{"a wildcard that does not fit", policy(allow("ec2:*Instances", "*", "")), "ec2:StopInstance", volume, nil, false},
		{"one character", policy(allow("ec2:S?opInstances", "*", "")), "ec2:StopInstances", volume, nil, true},
		{"an explicit deny", policy(stop, deny("ec2:Stop*", "*", "")), "ec2:StopInstances", volume, nil, false},
		{"an explicit deny under another condition", policy(stop, deny("ec2:Stop*", "*", when(`"StringEquals": {"aws:RequestedRegion": "eu-west-1"}`))),
			"ec2:StopInstances", volume, iam.Keys{"aws:RequestedRegion": {"us-east-1"}}, true},
		{"a resource", policy(allow("ec2:*", "arn:aws:ec2:*:*:volume/*", "")), "ec2:DeleteVolume", volume, nil, true},
		{"another kind of resource", policy(allow("ec2:*", "arn:aws:ec2:*:*:instance/*", "")), "ec2:DeleteVolume", volume, nil, false},
		{"an empty account", policy(allow("ec2:*", "arn:aws:ec2:*:*:snapshot/*", "")), "ec2:DeleteSnapshot", "arn:aws:ec2:us-east-1::snapshot/snap-1", nil, true},
		{"a wildcard does not reach over a colon", policy(allow("ec2:*", "arn:aws:ec2:*:volume/*", "")), "ec2:DeleteVolume", volume, nil, false},
		{"but for the one at the end", policy(allow("ec2:*", "arn:aws:ec2:*", "")), "ec2:DeleteVolume", volume, nil, true},
		{"lists need all resources", policy(allow("ec2:Describe*", "arn:aws:ec2:*:*:*/*", "")), "ec2:DescribeVolumes", "*", nil, false},

		{"StringEquals", policy(allow("ec2:*", "*", when(`"StringEquals": {"ec2:CreateAction": ["a", "b"]}`))), "ec2:CreateTags", volume, iam.Keys{"ec2:CreateAction": {"b"}}, true},
		{"StringEquals of another value", policy(allow("ec2:*", "*", when(`"StringEquals": {"ec2:CreateAction": "a"}`))), "ec2:CreateTags", volume, iam.Keys{"ec2:CreateAction": {"A"}}, false},
		{"StringEquals of a missing key", policy(allow("ec2:*", "*", when(`"StringEquals": {"ec2:CreateAction": "a"}`))), "ec2:CreateTags", volume, nil, false},
		{"StringEqualsIfExists of a missing key", policy(allow("ec2:*", "*", when(`"StringEqualsIfExists": {"ec2:CreateAction": "a"}`))), "ec2:CreateTags", volume, nil, true},
		{"StringNotEquals of a missing key", policy(allow("ec2:*", "*", when(`"StringNotEquals": {"ec2:CreateAction": "a"}`))), "ec2:CreateTags", volume, nil, true},
		{"StringNotEquals of one of many", policy(allow("ec2:*", "*", when(`"StringNotEquals": {"ec2:CreateAction": ["a", "b"]}`))), "ec2:CreateTags", volume, iam.Keys{"ec2:CreateAction": {"b"}}, false},
		{"StringLike", policy(allow("kms:*", "*", when(`"StringLike": {"kms:ViaService": "ec2.*.amazonaws.com"}`))), "kms:Decrypt", "*", iam.Keys{"kms:ViaService": {"ec2.us-east-1.amazonaws.com"}}, true},
		{"StringEquals knows no wildcards", policy(allow("kms:*", "*", when(`"StringEquals": {"kms:ViaService": "ec2.*.amazonaws.com"}`))), "kms:Decrypt", "*", iam.Keys{"kms:ViaService": {"ec2.us-east-1.amazonaws.com"}}, false},
		{"Bool", policy(allow("kms:*", "*", when(`"Bool": {"kms:GrantIsForAWSResource": "true"}`))), "kms:CreateGrant", "*", iam.Keys{"kms:GrantIsForAWSResource": {"true"}}, true},
		{"Bool of a missing key", policy(allow("kms:*", "*", when(`"Bool": {"kms:GrantIsForAWSResource": "true"}`))), "kms:CreateGrant", "*", nil, false},
		{"Null false: the key is there", policy(allow("ec2:*", "*", when(`"Null": {"`+ownTag+`": "false"}`))), "ec2:DeleteVolume", volume, iam.Keys{ownTag: {"uid"}}, true},
		{"Null false: it is not", policy(allow("ec2:*", "*", when(`"Null": {"`+ownTag+`": "false"}`))), "ec2:DeleteVolume", volume, iam.Keys{"aws:ResourceTag/Name": {"x"}}, false},
		{"Null true", policy(allow("ec2:*", "*", when(`"Null": {"`+ownTag+`": "true"}`))), "ec2:DeleteVolume", volume, nil, true},
		{"the letters' case of a key", policy(allow("ec2:*", "*", when(`"Null": {"AWS:resourcetag/MYSQL.alx.ke/cluster-uid": "false"}`))), "ec2:DeleteVolume", volume, iam.Keys{ownTag: {"uid"}}, true},
		{"ArnLike", policy(allow("ec2:*", "*", when(`"ArnLike": {"aws:ResourceTag/of": "arn:aws:ec2:*:*:volume/*"}`))), "ec2:DeleteVolume", volume, iam.Keys{"aws:ResourceTag/of": {volume}}, true},
		{"two conditions, of which one holds", policy(allow("ec2:*", "*", when(`"StringEquals": {"ec2:Region": "us-east-1"}, "Null": {"`+ownTag+`": "false"}`))), "ec2:DeleteVolume", volume, iam.Keys{"ec2:Region": {"us-east-1"}}, false},

		{"ForAllValues: all", policy(allow("ec2:*", "*", when(`"ForAllValues:StringEquals": {"aws:TagKeys": ["a", "b"]}`))), "ec2:CreateTags", volume, iam.Keys{"aws:TagKeys": {"a", "b"}}, true},
		{"ForAllValues: all but one", policy(allow("ec2:*", "*", when(`"ForAllValues:StringEquals": {"aws:TagKeys": ["a", "b"]}`))), "ec2:CreateTags", volume, iam.Keys{"aws:TagKeys": {"a", "c"}}, false},
		{"ForAllValues of a missing key", policy(allow("ec2:*", "*", when(`"ForAllValues:StringEquals": {"aws:TagKeys": "a"}`))), "ec2:CreateTags", volume, nil, true},
		{"ForAnyValue: one", policy(allow("ec2:*", "*", when(`"ForAnyValue:StringLike": {"aws:TagKeys": "a*"}`))), "ec2:CreateTags", volume, iam.Keys{"aws:TagKeys": {"ab", "c"}}, true},
		{"ForAnyValue: none", policy(allow("ec2:*", "*", when(`"ForAnyValue:StringLike": {"aws:TagKeys": "a*"}`))), "ec2:CreateTags", volume, iam.Keys{"aws:TagKeys": {"c"}}, false},
		{"ForAnyValue of a missing key", policy(allow("ec2:*", "*", when(`"ForAnyValue:StringLike": {"aws:TagKeys": "*"}`))), "ec2:CreateTags", volume, nil, false},

		{"a variable", policy(allow("ec2:*", "*", when(`"StringEquals": {"aws:ResourceTag/ns": "${aws:PrincipalTag/ns}"}`))), "ec2:DeleteVolume", volume,
			iam.Keys{"aws:ResourceTag/ns": {"shop"}, "aws:PrincipalTag/ns": {"shop"}}, true},
		{"a variable of another value", policy(allow("ec2:*", "*", when(`"StringEquals": {"aws:ResourceTag/ns": "${aws:PrincipalTag/ns}"}`))), "ec2:DeleteVolume", volume,
			iam.Keys{"aws:ResourceTag/ns": {"shop"}, "aws:PrincipalTag/ns": {"depot"}}, false},
		{"a variable without a value", policy(allow("ec2:*", "*", when(`"StringEquals": {"aws:ResourceTag/ns": "${aws:PrincipalTag/ns}"}`))), "ec2:DeleteVolume", volume,
			iam.Keys{"aws:ResourceTag/ns": {""}}, false},
	} {
		t.Run(row.what, func(t *testing.T) {
			p, err := iam.Parse([]byte(row.policy))
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Evaluate(iam.Request{Action: row.action, Resource: row.resource, Keys: row.keys}); got.Allowed != row.want {
				t.Errorf("%s on %s is allowed: %t, want %t", row.action, row.resource, got.Allowed, row.want)
			}
		})
	}
}

// A call is allowed when each of its requests is, and the refusal names the first that is not.
func TestEveryResourceOfACallMustBeAllowed(t *testing.T) {
	p, err := iam.Parse([]byte(policy(allow("ec2:AttachVolume", "arn:aws:ec2:*:*:*/*", when(`"Null": {"`+ownTag+`": "false"}`)))))
	if err != nil {
		t.Fatal(err)
	}
	by := iam.Principal{ARN: "arn:aws:iam::123456789012:user/o", Policy: p}
	for what, row := range map[string]struct {
		tagged []string
		want   string
	}{
		"both":        {[]string{"vol-1", "i-1"}, ""},
		"no volume":   {[]string{"i-1"}, "volume/vol-1"},
		"no instance": {[]string{"vol-1"}, "instance/i-1"},
	} {
		tags := account{}
		for _, id := range row.tagged {
			tags[id] = map[string]string{"mysql.alx.ke/cluster-uid": "uid"}
		}
		requests, err := ec2Call("AttachVolume", "VolumeId", "vol-1", "InstanceId", "i-1").Requests(tags, by)
		if err != nil {
			t.Fatal(err)
		}
		switch refusal := by.Judge(requests); {
		case refusal == nil && row.want != "":
			t.Errorf("%s: allowed", what)
		case refusal != nil && (row.want == "" || refusal.Reason() != "User: arn:aws:iam::123456789012:user/o is not authorized to perform: ec2:AttachVolume on resource: "+
			"arn:aws:ec2:us-east-1:123456789012:"+row.want+" because no identity-based policy allows the ec2:AttachVolume action"):
			t.Errorf("%s: %s", what, refusal.Reason())
		}
	}
}

func TestWhatIsNotKnownIsRefused(t *testing.T) {
	for what, text := range map[string]string{
		"an operator":                     policy(allow("ec2:*", "*", when(`"NumericEquals": {"aws:RequestTag/n": "1"}`))),
		"a misspelt operator":             policy(allow("ec2:*", "*", when(`"StringEqual": {"aws:RequestTag/n": "1"}`))),
		"NullIfExists":                    policy(allow("ec2:*", "*", when(`"NullIfExists": {"aws:RequestTag/n": "true"}`))),
		"a key":                           policy(allow("ec2:*", "*", when(`"StringEquals": {"ec2:Encrypted": "true"}`))),
		"a misspelt key":                  policy(allow("ec2:*", "*", when(`"StringEquals": {"aws:ResourceTags/n": "true"}`))),
		"a key of a tag without its name": policy(allow("ec2:*", "*", when(`"StringEquals": {"aws:ResourceTag/": "true"}`))),
		"an action":                       policy(allow("ec2:CopySnapshot", "*", "")),
		"a service":                       policy(allow("rds:*", "*", "")),
		"a variable":                      policy(allow("ec2:*", "*", when(`"StringEquals": {"ec2:Region": "${aws:username}"}`))),
		"a set of one value":              policy(allow("ec2:*", "*", when(`"ForAllValues:StringEquals": {"ec2:Region": "x"}`))),
		"one value of a set":              policy(allow("ec2:*", "*", when(`"StringEquals": {"aws:TagKeys": "x"}`))),
		"another value of Null":           policy(allow("ec2:*", "*", when(`"Null": {"aws:TagKeys": "no"}`))),
		"NotAction":                       policy(`"Effect": "Allow", "NotAction": "ec2:*", "Resource": "*"`),
		"NotResource":                     policy(`"Effect": "Allow", "Action": "ec2:*", "NotResource": "*"`),
		"no resource":                     policy(`"Effect": "Allow", "Action": "ec2:*"`),
		"no ARN":                          policy(allow("ec2:*", "volume/*", "")),
		"an effect":                       policy(`"Effect": "allow", "Action": "ec2:*", "Resource": "*"`),
		"a principal":                     policy(`"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "ec2:*", "Resource": "*"`),
		"a version":                       `{"Version": "2008-10-17", "Statement": [{` + allow("ec2:*", "*", "") + `}]}`,
		"one name for two statements":     policy(`"Sid": "a", `+allow("ec2:*", "*", ""), `"Sid": "a", `+allow("ssm:*", "*", "")),
	} {
		if _, err := iam.Parse([]byte(text)); err == nil {
			t.Errorf("%s is not refused: %s", what, text)
		}
	}
}

// account holds tags by id, and one profile.
type account map[string]map[string]string

func (a account) Tags([]string) (map[string]map[string]string, error) { return a, nil }

func (a account) Role(string) (string, error) {
	return "arn:aws:iam::123456789012:role/nairobi-mysql-member", nil
}

func ec2Call(action string, parameters ...string) iam.Call {
	form := url.Values{}
	for pair := range slices.Chunk(parameters, 2) {
		form.Set(pair[0], pair[1])
	}
	return iam.Call{Service: "ec2", Action: action, Region: "us-east-1", Form: form}
}

// What the Service Authorization Reference lists for each action, in calls like those that the operator makes.
func TestWhatACallTouches(t *testing.T) {
	const here, none = "arn:aws:ec2:us-east-1:123456789012:", "arn:aws:ec2:us-east-1::"
	tagSpec := func(n int, kind string) []string {
		at := fmt.Sprintf("TagSpecification.%d.", n)
		return []string{at + "ResourceType", kind, at + "Tag.1.Key", "uid", at + "Tag.1.Value", "u"}
	}
	for what, row := range map[string]struct {
		call iam.Call
		want []string
	}{
		"a list":  {ec2Call("DescribeVolumes", "VolumeId.1", "vol-1"), []string{"ec2:DescribeVolumes *"}},
		"a fence": {ec2Call("StopInstances", "InstanceId.1", "i-1", "InstanceId.2", "i-2"), []string{"ec2:StopInstances " + here + "instance/i-1 tag=t", "ec2:StopInstances " + here + "instance/i-2"}},
		"a launch": {ec2Call("RunInstances", slices.Concat([]string{"ImageId", "ami-1", "KeyName", "k", "IamInstanceProfile.Name", "p",
			"NetworkInterface.1.DeviceIndex", "0", "NetworkInterface.1.SubnetId", "subnet-1", "NetworkInterface.1.SecurityGroupId.1", "sg-1",
			"BlockDeviceMapping.1.DeviceName", "/dev/xvda", "BlockDeviceMapping.2.DeviceName", "/dev/sdb", "BlockDeviceMapping.2.Ebs.SnapshotId", "snap-1"},
			tagSpec(1, "instance"), tagSpec(2, "volume"))...), []string{
			"ec2:CreateTags " + here + "instance/* uid=u RunInstances", "ec2:CreateTags " + here + "volume/* uid=u RunInstances",
			"ec2:RunInstances " + here + "instance/* uid=u", "ec2:RunInstances " + here + "key-pair/k", "ec2:RunInstances " + here + "network-interface/*",
			"ec2:RunInstances " + here + "security-group/sg-1", "ec2:RunInstances " + here + "subnet/subnet-1", "ec2:RunInstances " + here + "volume/* uid=u",
			"ec2:RunInstances " + none + "image/ami-1", "ec2:RunInstances " + none + "snapshot/snap-1",
			"iam:PassRole arn:aws:iam::123456789012:role/nairobi-mysql-member ec2.amazonaws.com"}},
		"a launch with the network's default group": {ec2Call("RunInstances", "ImageId", "ami-1", "SubnetId", "subnet-1"), []string{
			"ec2:RunInstances " + here + "instance/*", "ec2:RunInstances " + here + "network-interface/*", "ec2:RunInstances " + here + "security-group/*",
			"ec2:RunInstances " + here + "subnet/subnet-1", "ec2:RunInstances " + here + "volume/*", "ec2:RunInstances " + none + "image/ami-1"}},
		"a volume from a snapshot": {ec2Call("CreateVolume", append([]string{"SnapshotId", "snap-1"}, tagSpec(1, "volume")...)...), []string{
			"ec2:CreateTags " + here + "volume/* uid=u CreateVolume", "ec2:CreateVolume " + here + "volume/* uid=u", "ec2:CreateVolume " + none + "snapshot/snap-1"}},
		"a snapshot": {ec2Call("CreateSnapshot", append([]string{"VolumeId", "vol-1"}, tagSpec(1, "snapshot")...)...), []string{
			"ec2:CreateSnapshot " + here + "volume/vol-1", "ec2:CreateSnapshot " + none + "snapshot/* uid=u", "ec2:CreateTags " + none + "snapshot/* uid=u CreateSnapshot"}},
		"a group":              {ec2Call("CreateSecurityGroup", "VpcId", "vpc-1"), []string{"ec2:CreateSecurityGroup " + here + "security-group/*", "ec2:CreateSecurityGroup " + here + "vpc/vpc-1"}},
		"tags":                 {ec2Call("CreateTags", "ResourceId.1", "i-1", "Tag.1.Key", "uid", "Tag.1.Value", "u"), []string{"ec2:CreateTags " + here + "instance/i-1 tag=t uid=u"}},
		"attach":               {ec2Call("AttachVolume", "VolumeId", "vol-1", "InstanceId", "i-1"), []string{"ec2:AttachVolume " + here + "instance/i-1 tag=t", "ec2:AttachVolume " + here + "volume/vol-1"}},
		"a role":               {iam.Call{Service: "sts", Action: "AssumeRole", Form: url.Values{"RoleArn": {"r"}}}, []string{"sts:AssumeRole r"}},
		"with tags":            {iam.Call{Service: "sts", Action: "AssumeRole", Form: url.Values{"RoleArn": {"r"}, "Tags.member.1.Key": {"k"}}}, []string{"sts:AssumeRole r", "sts:TagSession r"}},
		"who am I":             {iam.Call{Service: "sts", Action: "GetCallerIdentity"}, nil},
		"a public parameter":   {iam.Call{Service: "ssm", Action: "GetParameter", Region: "us-east-1", Body: []byte(`{"Name": "/aws/service/x"}`)}, []string{"ssm:GetParameter arn:aws:ssm:us-east-1::parameter/aws/service/x"}},
		"a parameter":          {iam.Call{Service: "ssm", Action: "GetParameter", Region: "us-east-1", Body: []byte(`{"Name": "/own/x"}`)}, []string{"ssm:GetParameter arn:aws:ssm:us-east-1:123456789012:parameter/own/x"}},
		"an object":            {iam.Call{Service: "s3", Method: "PUT", Path: "/b/p/o"}, []string{"s3:PutObject arn:aws:s3:::b/p/o"}},
		"a part of it":         {iam.Call{Service: "s3", Method: "PUT", Path: "/b/p/o", Query: url.Values{"uploadId": {"1"}}}, []string{"s3:PutObject arn:aws:s3:::b/p/o"}},
		"the end of an upload": {iam.Call{Service: "s3", Method: "DELETE", Path: "/b/p/o", Query: url.Values{"uploadId": {"1"}}}, []string{"s3:AbortMultipartUpload arn:aws:s3:::b/p/o"}},
		"a bucket":             {iam.Call{Service: "s3", Method: "GET", Path: "/b", Query: url.Values{"prefix": {"p/"}}}, []string{"s3:ListBucket arn:aws:s3:::b p/"}},
		"its uploads":          {iam.Call{Service: "s3", Method: "GET", Path: "/b", Query: url.Values{"uploads": {""}, "prefix": {"p/"}}}, []string{"s3:ListBucketMultipartUploads arn:aws:s3:::b"}},
		"many objects": {iam.Call{Service: "s3", Method: "POST", Path: "/b", Query: url.Values{"delete": {""}}, Body: []byte(`<Delete><Object><Key>x</Key></Object><Object><Key>y</Key></Object></Delete>`)},
			[]string{"s3:DeleteObject arn:aws:s3:::b/x", "s3:DeleteObject arn:aws:s3:::b/y"}},
	} {
		requests, err := row.call.Requests(account{"i-1": {"tag": "t"}}, iam.Principal{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range requests {
			text := r.Action + " " + r.Resource
			for _, key := range []string{"aws:ResourceTag/tag", "aws:RequestTag/uid", "ec2:CreateAction", "iam:PassedToService", "s3:prefix"} {
				for _, value := range r.Keys[key] {
					if name, tag := strings.CutPrefix(key, "aws:ResourceTag/"); tag {
						value = name + "=" + value
					} else if name, tag := strings.CutPrefix(key, "aws:RequestTag/"); tag {
						value = name + "=" + value
					}
					text += " " + value
				}
			}
			got = append(got, text)
		}
		if slices.Sort(got); !slices.Equal(got, row.want) {
			t.Errorf("%s:\n  touches %q\n  want    %q", what, got, row.want)
		}
	}
}

// published reads one of the published policies.
func published(t *testing.T, name string) iam.Document {
	t.Helper()
	text, err := aws.Policies.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	d, err := iam.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// copyOf is a document that may be changed.
func copyOf(t *testing.T, d iam.Document) iam.Document {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	out, err := iam.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func allows(t *testing.T, d iam.Document, r iam.Request) bool {
	t.Helper()
	p, err := d.Policy()
	if err != nil {
		t.Fatal(err)
	}
	return p.Evaluate(r).Allowed
}

// key is a customer's key, and viaEC2 what KMS fills in when EBS uses it on the caller's behalf.
const key = "arn:aws:kms:us-east-1:123456789012:key/k"

func viaEC2() iam.Keys { return iam.Keys{"kms:ViaService": {"ec2.us-east-1.amazonaws.com"}} }

// What EBS asks KMS for, for the caller, when a volume with a customer's key is made, started and copied: each is allowed by the
// policy, and by no other part of it.
func TestPolicyLetsEBSUseAKey(t *testing.T) {
	whole := published(t, "operator.json")
	for _, action := range []string{"kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext", "kms:Decrypt", "kms:ReEncryptFrom", "kms:ReEncryptTo", "kms:CreateGrant"} {
		request := iam.Request{Action: action, Resource: key, Keys: viaEC2()}
		if action == "kms:CreateGrant" {
			request.Keys["kms:GrantIsForAWSResource"] = []string{"true"}
		}
		if !allows(t, whole, request) {
			t.Errorf("%s is not allowed", action)
		}
		without := copyOf(t, whole)
		for i := range without.Statement {
			s := &without.Statement[i]
			if s.Action = slices.DeleteFunc(s.Action, func(a string) bool { return a == action }); len(s.Action) == 0 {
				s.Action = iam.OneOrMany{"kms:DescribeKey"}
			}
		}
		if allows(t, without, request) {
			t.Errorf("%s is allowed when the policy does not have it", action)
		}
	}
}

// widened is a policy without one condition of a statement.
func widened(t *testing.T, d iam.Document, sid, operator string) iam.Document {
	t.Helper()
	out := copyOf(t, d)
	i := slices.IndexFunc(out.Statement, func(s iam.Statement) bool { return s.Sid == sid })
	if i < 0 || out.Statement[i].Condition[operator] == nil {
		t.Fatalf("no condition %s of %s", operator, sid)
	}
	delete(out.Statement[i].Condition, operator)
	return out
}

// The conditions on what no call of EC2 reaches in the lab: each refuses something that would be allowed without it.
func TestConditionsOnKeysAndRoles(t *testing.T) {
	whole := published(t, "operator.json")
	viaOther := iam.Keys{"kms:ViaService": {"rds.us-east-1.amazonaws.com"}, "kms:GrantIsForAWSResource": {"true"}}
	for _, row := range []struct {
		sid, operator string
		hostile       iam.Request
	}{
		{"GiveInstancesTheirProfile", "StringEquals", iam.Request{Action: "iam:PassRole", Resource: "arn:aws:iam::123456789012:role/nairobi-mysql-member",
			Keys: iam.Keys{"iam:PassedToService": {"lambda.amazonaws.com"}}}},
		{"EncryptWithOwnKeys", "StringLike", iam.Request{Action: "kms:Decrypt", Resource: key}},
		{"LetEBSUseOwnKeys", "StringLike", iam.Request{Action: "kms:CreateGrant", Resource: key, Keys: viaOther}},
		{"LetEBSUseOwnKeys", "Bool", iam.Request{Action: "kms:CreateGrant", Resource: key, Keys: viaEC2()}},
	} {
		if allows(t, whole, row.hostile) {
			t.Errorf("%s of %s: %s is allowed", row.operator, row.sid, row.hostile.Action)
		}
		if !allows(t, widened(t, whole, row.sid, row.operator), row.hostile) {
			t.Errorf("%s of %s: without it %s is not allowed either", row.operator, row.sid, row.hostile.Action)
		}
	}
}

// What a copy is made of is judged by its own tag alone, whatever tags the copy gets: AWS fills in the tags of the request for the
// copy, and the policy does not rely on that.
func TestTagsOfACopySayNothingOfItsSource(t *testing.T) {
	whole := published(t, "operator.json")
	for action, source := range map[string]string{"ec2:CreateSnapshot": volume, "ec2:CreateVolume": "arn:aws:ec2:us-east-1::snapshot/snap-1"} {
		r := iam.Request{Action: action, Resource: source, Keys: iam.Keys{"aws:RequestTag/mysql.alx.ke/cluster-uid": {"uid"}}}
		if allows(t, whole, r) {
			t.Errorf("%s of %s without a tag is allowed", action, source)
		}
		r.Keys[ownTag] = []string{"uid"}
		if !allows(t, whole, r) {
			t.Errorf("%s of %s with the tag is not allowed", action, source)
		}
	}
}

// The published policies are of parts that are all known.
func TestPublishedPoliciesAreKnown(t *testing.T) {
	for _, name := range []string{"operator.json", "backup.json", "doctor.json"} {
		if _, err := published(t, name).Policy(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
