package ec2

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
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

type policy struct {
	Version   string
	Statement []statement
}

type statement struct {
	Sid, Effect string
	Principal   map[string]oneOrMany
	Action      oneOrMany
	Resource    oneOrMany
	Condition   map[string]map[string]oneOrMany
}

// oneOrMany is IAM's habit of writing a list of one without brackets.
type oneOrMany []string

func (o *oneOrMany) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*o = oneOrMany{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(o))
}

// documentedPolicy is the first JSON block under the document's section on the policy.
func documentedPolicy(t *testing.T) policy {
	t.Helper()
	text, err := os.ReadFile(policyDocument)
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## The IAM policy\n")
	if !ok {
		t.Fatal("the document has no section on the IAM policy")
	}
	_, block, ok := strings.Cut(section, "```json\n")
	if !ok {
		t.Fatal("the section has no JSON block")
	}
	block, _, _ = strings.Cut(block, "```")
	decoder := json.NewDecoder(strings.NewReader(block))
	decoder.DisallowUnknownFields()
	var p policy
	if err := decoder.Decode(&p); err != nil {
		t.Fatal(err)
	}
	// IAM counts without white space; more does not fit into a managed policy.
	if size := len(strings.Join(strings.Fields(block), "")); size > 6144 {
		t.Errorf("the policy has %d characters, IAM takes 6144", size)
	}
	return p
}

// trustPolicies are the JSON blocks of the document's section on credentials.
func trustPolicies(t *testing.T) []policy {
	t.Helper()
	text, err := os.ReadFile(policyDocument)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## How the operator gets its credentials\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var out []policy
	for _, block := range strings.Split(section, "```json\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		var p policy
		if err := json.Unmarshal([]byte(block), &p); err != nil {
			t.Fatalf("%v in %s", err, block)
		}
		out = append(out, p)
	}
	return out
}

// A session with tags takes on a role only where the role's trust policy lets it set tags. The external id is a key of AssumeRole
// alone: a condition on it would refuse every TagSession.
func TestWhoMayTakeOnATenantsRoleMayPassTags(t *testing.T) {
	tenants := 0
	for _, p := range trustPolicies(t) {
		conditions := map[string]map[string]map[string]oneOrMany{}
		for _, s := range p.Statement {
			for _, action := range s.Action {
				if len(s.Principal["AWS"]) > 0 {
					conditions[action] = s.Condition
				}
			}
		}
		if _, tenant := conditions[assumeRole]; !tenant {
			continue
		}
		tenants++
		if condition, ok := conditions[tagSession]; !ok || len(condition) > 0 {
			t.Errorf("the trust policy allows %s, and %s under the conditions %v (%t)", assumeRole, tagSession, condition, ok)
		}
	}
	if tenants == 0 {
		t.Errorf("%s has no trust policy of a tenant's role", policyDocument)
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
	for _, s := range documentedPolicy(t).Statement {
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
	// Parts of a creating call that are not created by it.
	references := map[string]bool{"LaunchWith": true, "CreateGroupIn": true, "TagWhileCreating": true}
	for _, s := range documentedPolicy(t).Statement {
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
