package observe

import (
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// TestWhatHasDrifted: a setting of the spec that is persisted and differs on the running server is put back, once for each value
// that it then has.
func TestWhatHasDrifted(t *testing.T) {
	const name, member = mysql.MaxConnections, "orders-0"
	for what, tc := range map[string]struct {
		running map[string]string
		record  topology.MemberRecord
		kept    string
		drifted bool
	}{
		"as persisted":                    {running: map[string]string{name: "200"}},
		"changed":                         {running: map[string]string{name: "300"}, drifted: true},
		"put back, and did not stay":      {running: map[string]string{name: "214"}, kept: "200\x00"},
		"did not stay, and changed again": {running: map[string]string{name: "300"}, kept: "200\x00214", drifted: true},
		"raised to let replicas in":       {running: map[string]string{name: "300"}, record: topology.MemberRecord{MaxConnections: 200}},
		"of a component that is gone":     {running: map[string]string{}},
	} {
		t.Run(what, func(t *testing.T) {
			settings := map[string]string{name: "200"}
			s := &pass.Pass{Cache: pass.NewCache("")}
			s.Desired.Settings = settings
			s.SetRecords(topology.ClusterRecord{Members: map[string]topology.MemberRecord{member: tc.record}})
			if tc.kept != "" {
				s.Cache.Settings.Kept[member+" "+name] = tc.kept
			}
			m := &topology.Member{Name: member, SQL: topology.SQL{Variables: topology.Variables{Persisted: settings, Drifted: map[string]string{}}}}
			for range 2 { // a second look says the same
				judgeDrift(s, m, mysql.Observation{Settings: tc.running, Persisted: settings})
				if drifted := m.SQL.Drifted[name] == "200"; drifted != tc.drifted {
					t.Errorf("drifted: %v", m.SQL.Drifted)
				}
			}
		})
	}
}
