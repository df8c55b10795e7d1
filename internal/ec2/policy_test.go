package ec2

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/config/aws"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/iam"
)

const policyDocument = "../../docs/aws.md"

// needless are actions that no method of ours calls, and why the policy lists them all the same.
var needless = map[string]string{
	"iam:PassRole":                        "EC2 asks for it when an instance is launched with a profile",
	"kms:CreateGrant":                     "EBS asks for it, on the caller's behalf, to use a customer's key",
	"kms:DescribeKey":                     "EBS asks for it on the caller's behalf",
	"kms:Decrypt":                         "EBS asks for it on the caller's behalf",
	"kms:GenerateDataKeyWithoutPlaintext": "EBS asks for it on the caller's behalf",
	"kms:ReEncryptFrom":                   "EBS asks for it on the caller's behalf, for volumes from snapshots under another key",
	"kms:ReEncryptTo":                     "EBS asks for it on the caller's behalf, for volumes from snapshots under another key",
	tagSession:                            "STS asks for it when a session that carries tags, as Pod Identity's do, takes on a role",
}

// tagSession is asked for together with assumeRole, of the policies of both sides.
const assumeRole, tagSession = "sts:AssumeRole", "sts:TagSession"

// free are actions that AWS allows everybody, whatever the policy says.
var free = map[string]bool{"sts:GetCallerIdentity": true}

// operatorPolicy is the policy that the documents publish.
func operatorPolicy(t *testing.T) iam.Document {
	t.Helper()
	text, err := aws.Policies.ReadFile("operator.json")
	if err != nil {
		t.Fatal(err)
	}
	// IAM counts without white space; more does not fit into a managed policy.
	if size := len(strings.Join(strings.Fields(string(text)), "")); size > 6144 {
		t.Errorf("the policy has %d characters, IAM takes 6144", size)
	}
	return readPolicy(t, "operator.json")
}

func readPolicy(t *testing.T, name string) iam.Document {
	t.Helper()
	text, err := aws.Policies.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	d, err := iam.Read(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return d
}

// A session with tags takes on a role only where the role's trust policy lets it set tags. The external id is a key of AssumeRole
// alone: a condition on it would refuse every TagSession.
func TestWhoMayTakeOnATenantsRoleMayPassTags(t *testing.T) {
	conditions := map[string]iam.Condition{}
	for _, s := range readPolicy(t, "tenant-trust.json").Statement {
		for _, action := range s.Action {
			if len(s.Principal["AWS"]) > 0 {
				conditions[action] = s.Condition
			}
		}
	}
	if condition, ok := conditions[tagSession]; !ok || len(condition) > 0 {
		t.Errorf("the trust policy allows %s under the conditions %v (%t)", tagSession, condition, ok)
	}
	if len(conditions[assumeRole]) == 0 {
		t.Errorf("the trust policy allows %s without a condition", assumeRole)
	}
}

// calls are the IAM actions of everything that the code can call.
func calls() map[string]bool {
	out := map[string]bool{}
	for service, api := range map[string]reflect.Type{
		"EC2": reflect.TypeFor[awsapi.API](), "SSM": reflect.TypeFor[awsapi.SSMAPI](), "STS": reflect.TypeFor[awsapi.STSAPI](),
	} {
		for i := range api.NumMethod() {
			out[awsapi.Action(service, api.Method(i).Name)] = true
		}
	}
	return out
}

func TestPolicyAllowsWhatTheCodeCalls(t *testing.T) {
	allowed := map[string]bool{}
	for _, s := range operatorPolicy(t).Statement {
		if s.Effect != "Allow" {
			t.Errorf("%s has the effect %s", s.Sid, s.Effect)
		}
		for _, action := range s.Action {
			if strings.Contains(action, "*") {
				t.Errorf("%s allows %s: name the actions", s.Sid, action)
			}
			allowed[action] = true
		}
	}
	called := calls()
	for action := range called {
		if !allowed[action] && !free[action] {
			t.Errorf("the code calls %s, which the policy in %s does not allow", action, policyDocument)
		}
	}
	for action := range allowed {
		if !called[action] && needless[action] == "" {
			t.Errorf("the policy in %s allows %s, which the code does not call", policyDocument, action)
		}
	}
	text, err := os.ReadFile(policyDocument)
	if err != nil {
		t.Fatal(err)
	}
	for action := range free {
		if !called[action] || allowed[action] || !strings.Contains(string(text), "`"+action+"`") {
			t.Errorf("%s needs no permission: the code should call it, the policy not list it, and %s say why", action, policyDocument)
		}
	}
	for action := range needless {
		if !allowed[action] {
			t.Errorf("the list of exceptions explains %s, which the policy does not have", action)
		}
	}
}

// What changes or deletes is allowed on tagged resources only, and what is created must be tagged.
func TestPolicyGoesByTags(t *testing.T) {
	const owner = "/mysql.alx.ke/cluster-uid"
	// Parts of a call that it neither creates nor changes.
	references := map[string]bool{"LaunchWith": true, "CreateGroupIn": true, "TagWhileCreating": true, "ChangeGroupsTo": true}
	for _, s := range operatorPolicy(t).Statement {
		for _, action := range s.Action {
			name, ec2 := strings.CutPrefix(action, "ec2:")
			if !ec2 || strings.HasPrefix(name, "Describe") || references[s.Sid] {
				continue
			}
			null := s.Condition["Null"]
			byResource, byRequest := null["aws:ResourceTag"+owner], null["aws:RequestTag"+owner]
			creates := strings.HasPrefix(name, "Create") || name == "RunInstances"
			switch {
			case len(byResource) == 1 && byResource[0] == "false":
			case creates && len(byRequest) == 1 && byRequest[0] == "false":
			default:
				t.Errorf("%s allows %s whatever its tags", s.Sid, action)
			}
		}
	}
}
