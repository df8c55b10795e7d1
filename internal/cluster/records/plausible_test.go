package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
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

// TestWhatIsRefusedIsNotSaved: records that are read again by the next operator process must be within the same bounds.
func TestWhatIsRefusedIsNotSaved(t *testing.T) {
	s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}}}
	k := &Keeper{Ports: &pass.Ports{}} // without a client: nothing is sent
	members := func(tail string) map[string]topology.MemberRecord {
		return map[string]topology.MemberRecord{"orders-1": {Shortfall: topology.Shortfall{Tail: tail}}}
	}
	for what, records := range map[string]topology.ClusterRecord{
		"a long GTID set": {Members: members(strings.Repeat("1-2:", MaxRecords/4))},
		"a long list":     {Held: make([]string, MaxListed+1)},
	} {
		for _, version := range []string{"", "7"} {
			_, err := membersConfigMap{k, s, "orders-members"}.Write(t.Context(), version, records)
			var p *engine.Problem
			if !errors.As(err, &p) || p.Reason != v1alpha1.ReasonRecordsTooLarge || !errors.Is(err, engine.ErrTooLarge) {
				t.Errorf("%s, version %q: %v", what, version, err)
			}
			if named := strings.Contains(fmt.Sprint(err), "orders-1"); named != (records.Members != nil) {
				t.Errorf("%s: it says %v", what, err)
			}
		}
		text, err := json.Marshal(records)
		if err != nil {
			t.Fatal(err)
		}
		if plausible(s, "orders-members", len(text), &records) == nil {
			t.Errorf("%s would be read", what)
		}
	}
	if p := tooLarge("orders-members", MaxRecords, &topology.ClusterRecord{Members: members("x")}); p != nil {
		t.Errorf("what may be read is not saved: %v", p)
	}
}
