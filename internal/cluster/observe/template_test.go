package observe

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// The texts of running clusters must stay: another text is another hash, and replaces every instance.
func TestTemplateTextsStay(t *testing.T) {
	sum := strings.Repeat("0a", 32)
	const rest = `{"Version":"9.7.4","InstanceType":"m6i.large","ImageID":"","ImageSSMParameter":"","IAMInstanceProfile":"","KeyName":""`
	for want, download := range map[string]*v1alpha1.DownloadSpec{
		rest + `}`: nil,
		rest + `,"Download":{"url":"https://a.b/c","sha256":"` + sum + `"}}`: {URL: "https://a.b/c", SHA256: sum},
		rest + `,"Download":{"mirror":"https://a.b"}}`:                       {Mirror: "https://a.b"},
	} {
		c := &v1alpha1.MySQLCluster{Spec: v1alpha1.MySQLClusterSpec{Version: "9.7.4", AWS: v1alpha1.AWSSpec{InstanceType: "m6i.large", Download: download}}}
		if got := TemplateOf(c).Text(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestSecurityGroupsReplaceNothing: an instance stays when the spec lists other groups, also one whose tag an earlier release wrote, which
// hashed the groups: sorted, and up to 0.1 in the order of the spec. Such a tag is to be written again.
func TestSecurityGroupsReplaceNothing(t *testing.T) {
	cluster := func(version string, groups ...string) *v1alpha1.MySQLCluster {
		return &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Name: "orders"}, Spec: v1alpha1.MySQLClusterSpec{Version: version, AWS: v1alpha1.AWSSpec{InstanceType: "m6i.large", SecurityGroupIDs: groups}}}
	}
	began := time.Now()
	hashed := func(groups ...string) string {
		return Template{Version: "9.7.4", InstanceType: "m6i.large", SecurityGroupIDs: groups}.Hash()
	}
	for name, row := range map[string]struct {
		tag            string
		carries        []string
		spec, previous *v1alpha1.MySQLCluster
		current, old   bool
	}{
		"other groups":                      {TemplateOf(cluster("9.7.4", "sg-1")).Hash(), []string{"sg-1"}, cluster("9.7.4", "sg-3"), nil, true, false},
		"the operator's own group":          {TemplateOf(cluster("9.7.4", "sg-1")).Hash(), []string{"sg-1"}, cluster("9.7.4"), nil, true, false},
		"another version":                   {TemplateOf(cluster("9.7.4", "sg-1")).Hash(), []string{"sg-1"}, cluster("9.8.0", "sg-1"), nil, false, false},
		"an old tag":                        {hashed("sg-1", "sg-2"), []string{"sg-1", "sg-2"}, cluster("9.7.4", "sg-2", "sg-1"), nil, true, true},
		"an old tag and other groups":       {hashed("sg-1", "sg-2"), []string{"sg-1", "sg-2"}, cluster("9.7.4", "sg-3"), nil, true, true},
		"an old tag and a group by hand":    {hashed("sg-1", "sg-2"), []string{"sg-1", "sg-2", "sg-9"}, cluster("9.7.4", "sg-2", "sg-1"), nil, true, true},
		"an old tag, then the operator's":   {hashed("sg-1", "sg-2"), []string{"sg-1", "sg-2"}, cluster("9.7.4"), nil, true, true},
		"0.1's tag":                         {hashed("sg-2", "sg-1"), []string{"sg-1", "sg-2"}, cluster("9.7.4", "sg-2", "sg-1"), nil, true, true},
		"0.1's tag of another version":      {hashed("sg-2", "sg-1"), []string{"sg-1", "sg-2"}, cluster("9.8.0", "sg-2", "sg-1"), nil, false, false},
		"0.1's tag of the version before":   {hashed("sg-2", "sg-1"), []string{"sg-1", "sg-2"}, cluster("9.8.0", "sg-2", "sg-1"), cluster("9.7.4", "sg-2", "sg-1"), true, true},
		"an old tag, when nothing is shown": {hashed("sg-1", "sg-2"), nil, cluster("9.7.4"), nil, false, false},
	} {
		s := &pass.Pass{Cluster: row.spec, Cache: pass.NewCache("uid"), Desired: desiredOf(row.spec, false, began)}
		s.SetRecords(topology.ClusterRecord{})
		s.Seen.Previous, s.Observed.Members = row.previous, map[string]*topology.Member{}
		s.Seen.Inventory.Instances = []inventory.Instance{{ID: "i-1", Member: "orders-0", Incarnation: 1, TemplateHash: row.tag, Interface: inventory.Interface{SecurityGroupIDs: row.carries}}}
		(&Cloud{Ports: &pass.Ports{Clock: clocktesting.NewFakePassiveClock(began)}}).memberise(s)
		seen := s.Observed.Members["orders-0"].Instances[0].TemplateHash
		want := TemplateOf(row.spec)
		if row.previous != nil {
			want = TemplateOf(row.previous)
		}
		if current := seen == want.Hash(); current != row.current {
			t.Errorf("%s: current %v", name, current)
		}
		if hash, old := s.Seen.OldTags["i-1"]; old != row.old || old && hash != want.Hash() {
			t.Errorf("%s: the tag is to be written again: %v, as %s", name, old, hash)
		}
		if order := row.spec.Spec.AWS.SecurityGroupIDs; name == "0.1's tag" && order[0] != "sg-2" {
			t.Errorf("the spec's own list was sorted: %v", order)
		}
	}
}

// elsewhere are the fields of spec.aws that are no parameter of an instance, and where they are used.
var elsewhere = map[string]string{
	"Region":                 "the region of every call; it cannot be changed",
	"SubnetIDs":              "the placement of new members",
	"SecurityGroupIDs":       "the groups of members, which are changed in place",
	"ClientCIDRs":            "rules of the cluster's security group",
	"ClientSecurityGroupIDs": "rules of the cluster's security group",
	"CredentialsSecretRef":   "the operator's access to the account",
	"RoleARN":                "the operator's access to the account",
}

// TestEveryFieldOfAWSIsUsed: a field of spec.aws is a parameter of a launch, or of the template whose change replaces instances, or is used
// elsewhere. What replaces instances is in the row of docs/operations.md that says so.
func TestEveryFieldOfAWSIsUsed(t *testing.T) {
	text, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^[|] `spec.version`, .*$").FindString(string(text))
	launched := func(aws v1alpha1.AWSSpec) (Template, ec2.LaunchSpec) {
		c := &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Name: "orders"}, Spec: v1alpha1.MySQLClusterSpec{AWS: aws}}
		s := &pass.Pass{Cluster: c, Cache: pass.NewCache("uid")}
		s.SetRecords(topology.ClusterRecord{})
		spec := LaunchSpec(s, topology.LaunchInstance{Member: "orders-0"})
		spec.TemplateHash = ""
		return TemplateOf(c), spec
	}
	template, spec := launched(v1alpha1.AWSSpec{})
	for field := range reflect.TypeFor[v1alpha1.AWSSpec]().Fields() {
		var aws v1alpha1.AWSSpec
		set(reflect.ValueOf(&aws).Elem().FieldByIndex(field.Index))
		changedTemplate, changedSpec := launched(aws)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		replaces := !reflect.DeepEqual(template, changedTemplate)
		used := replaces || !reflect.DeepEqual(spec, changedSpec)
		if reason := elsewhere[field.Name]; used == (reason != "") {
			t.Errorf("spec.aws.%s: used by a launch or the template: %t; elsewhere: %q. Fill it in in LaunchSpec or TemplateOf, or name it in elsewhere", name, used, reason)
		}
		if named := strings.Contains(row, "`aws."+name+"`"); named != replaces {
			t.Errorf("spec.aws.%s: a change of it replaces instances: %t; docs/operations.md says so: %t", name, replaces, named)
		}
	}
}

// set gives a value, and all that is in it, something else than nothing.
func set(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		set(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			set(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		set(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		set(key)
		set(value)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("other")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	default:
		panic("a field of spec.aws has the kind " + v.Kind().String() + ", of which this test has no value")
	}
}
