package status

import (
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// TestWhatAServerSaysIsShortInStatus: the API server refuses a status with a longer text, and the operator keeps those of all clusters in memory.
func TestWhatAServerSaysIsShortInStatus(t *testing.T) {
	long := strings.Repeat("ü", 1<<20)
	s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}}
	s.Plan.Primary = "orders-0"
	s.Plan.Members = []topology.View{{Name: "orders-0", Version: long, Step: topology.Step{Message: long}}}
	st := &s.Cluster.Status
	projectMembers(s, st)
	for what, row := range map[string]struct {
		text  string
		limit int
	}{
		"the member's message": {st.Members[0].Message, longestMemberMessage}, "its version": {st.Members[0].Version, longestVersion}, "the cluster's version": {st.Version, longestVersion},
	} {
		if len(row.text) > row.limit || !strings.HasSuffix(row.text, "ü…") {
			t.Errorf("%s has %d bytes", what, len(row.text))
		}
	}
}
