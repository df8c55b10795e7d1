package observe

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
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

// TestSecurityGroupsAreASet: an instance stays when the spec lists the same groups in another order, or when a release wrote its tag that
// hashed them in the order of the spec. It is replaced when a group changes.
func TestSecurityGroupsAreASet(t *testing.T) {
	cluster := func(version string, groups ...string) *v1alpha1.MySQLCluster {
		return &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Name: "orders"}, Spec: v1alpha1.MySQLClusterSpec{Version: version, AWS: v1alpha1.AWSSpec{InstanceType: "m6i.large", SecurityGroupIDs: groups}}}
	}
	began := time.Now()
	// Computed by release 0.1: sg-2 before sg-1.
	released := Template{Version: "9.7.4", InstanceType: "m6i.large", SecurityGroupIDs: []string{"sg-2", "sg-1"}}.Hash()
	for name, row := range map[string]struct {
		tag            string
		spec, previous *v1alpha1.MySQLCluster
		current        bool
	}{
		"the same order":                        {TemplateOf(cluster("9.7.4", "sg-2", "sg-1")).Hash(), cluster("9.7.4", "sg-2", "sg-1"), nil, true},
		"another order":                         {TemplateOf(cluster("9.7.4", "sg-2", "sg-1")).Hash(), cluster("9.7.4", "sg-1", "sg-2"), nil, true},
		"another group":                         {TemplateOf(cluster("9.7.4", "sg-2", "sg-1")).Hash(), cluster("9.7.4", "sg-1", "sg-3"), nil, false},
		"a release's tag":                       {released, cluster("9.7.4", "sg-2", "sg-1"), nil, true},
		"a release's tag of another version":    {released, cluster("9.8.0", "sg-2", "sg-1"), nil, false},
		"a release's tag of the version before": {released, cluster("9.8.0", "sg-2", "sg-1"), cluster("9.7.4", "sg-2", "sg-1"), true},
	} {
		s := &pass.Pass{Cluster: row.spec, Cache: pass.NewCache("uid"), Desired: desiredOf(row.spec, false, began)}
		s.SetRecords(topology.ClusterRecord{})
		s.Seen.Previous, s.Observed.Members = row.previous, map[string]*topology.Member{}
		s.Seen.Inventory.Instances = []inventory.Instance{{ID: "i-1", Member: "orders-0", Incarnation: 1, TemplateHash: row.tag}}
		(&Cloud{Ports: &pass.Ports{Clock: clocktesting.NewFakePassiveClock(began)}}).memberise(s)
		seen := s.Observed.Members["orders-0"].Instances[0].TemplateHash
		want := TemplateOf(row.spec)
		if row.previous != nil {
			want = TemplateOf(row.previous)
		}
		if current := seen == want.Hash(); current != row.current {
			t.Errorf("%s: current %v", name, current)
		}
		if order := row.spec.Spec.AWS.SecurityGroupIDs; name == "the same order" && order[0] != "sg-2" {
			t.Errorf("the spec's own list was sorted: %v", order)
		}
	}
}
