package records

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// TestRecordsThatNameNoMember: what stands for a name that the cluster cannot have is ignored, and a person is shown it.
func TestRecordsThatNameNoMember(t *testing.T) {
	s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Name: "orders"}}}
	records := topology.ClusterRecord{
		Members:   map[string]topology.MemberRecord{"orders-0": {}, "billing-0": {}},
		Uncovered: topology.UncoveredTimes{{Primary: "orders-x", Since: 1}, {Primary: "orders-1", Since: 2}, {Since: 3}},
	}
	if p := plausible(s, "orders-members", 9, &records); p != nil {
		t.Fatalf("refused: %v", p)
	}
	if len(records.Members) != 1 || len(records.Uncovered) != 1 || records.Uncovered.Of("orders-1") == nil {
		t.Errorf("kept: %+v", records)
	}
	if text := fmt.Sprint(s.Unmet); !strings.Contains(text, "3 members") {
		t.Errorf("a person is shown %s", text)
	}
}
