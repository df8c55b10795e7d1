package observe

import (
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

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
				(&Database{Ports: &pass.Ports{Clock: clocktesting.NewFakeClock(time.Now())}}).judgeDrift(s, m, mysql.Observation{Settings: tc.running, Persisted: settings})
				if drifted := m.SQL.Drifted[name] == "200"; drifted != tc.drifted {
					t.Errorf("drifted: %v", m.SQL.Drifted)
				}
			}
		})
	}
}

// TestADriftThatReturns is put back a few times, and then once in five minutes. It is reported until it stays away.
func TestADriftThatReturns(t *testing.T) {
	const name, member = "character_set_server", "orders-0"
	clock := clocktesting.NewFakeClock(time.Now())
	r := &Database{Ports: &pass.Ports{Clock: clock}}
	settings := map[string]string{name: "latin1"}
	s := &pass.Pass{Cache: pass.NewCache("")}
	s.Desired.Settings = settings
	putBack, reported := 0, 0
	follow := func(passes int, drifts bool) {
		putBack, reported = 0, 0
		for i := range passes {
			clock.Step(time.Second)
			running := map[string]string{name: "latin1"}
			if drifts && i%2 == 0 { // it stays for a moment
				running[name] = "utf8mb4"
			}
			m := &topology.Member{Name: member, SQL: topology.SQL{Access: topology.AccessVerified}}
			r.judgeSettings(s, m, mysql.Observation{Settings: running, Persisted: settings})
			if m.SQL.Drifted[name] != "" {
				putBack++
				s.Cache.Settings.PutBack(member, map[string]string{name: m.SQL.Drifted[name]}, clock.Now())
			}
			if strings.Contains(m.SQL.Refused[name].Why, "it is utf8mb4 again") {
				reported++
			}
		}
	}
	if follow(290, true); putBack != 5 || reported < 270 {
		t.Errorf("put back %d times, reported in %d passes of 290", putBack, reported)
	}
	if follow(600, true); putBack != 2 || reported != 600 {
		t.Errorf("put back %d times in ten minutes, reported in %d passes of 600", putBack, reported)
	}
	if follow(1200, false); putBack != 0 || reported < 290 || reported > 310 {
		t.Errorf("put back %d times and reported in %d passes after it stays", putBack, reported)
	}
	if follow(6, true); putBack != 3 || reported != 0 {
		t.Errorf("put back %d times and reported in %d passes of a drift long after", putBack, reported)
	}
}

// TestPlugInOfCloneIsPutBack: one that is loaded is no change, nor is one of which nothing is known.
func TestPlugInOfCloneIsPutBack(t *testing.T) {
	for loaded, drifted := range map[string]bool{"OFF": true, "ON": false, "": false} {
		m := &topology.Member{SQL: topology.SQL{Variables: topology.Variables{Drifted: map[string]string{}}}}
		judgeServer(m, mysql.Observation{Settings: map[string]string{mysql.ClonePlugin: loaded}})
		if (m.SQL.Drifted[mysql.ClonePlugin] == "ON") != drifted {
			t.Errorf("%q: drifted %v", loaded, m.SQL.Drifted)
		}
	}
}

// TestHalfOpenServerIsClosed: also one that does not replicate, such as a primary that was demoted. One that takes writes is no half open one.
func TestHalfOpenServerIsClosed(t *testing.T) {
	for _, row := range []struct {
		o      mysql.Observation
		closes bool
	}{
		{mysql.Observation{ReadOnly: true}, true},
		{mysql.Observation{ReadOnly: true, Replication: &mysql.Replication{}}, true},
		{mysql.Observation{ReadOnly: true, SuperReadOnly: true}, false},
		{mysql.Observation{}, false},
	} {
		m := &topology.Member{SQL: topology.SQL{Variables: topology.Variables{Drifted: map[string]string{}, Misconfigured: map[string]string{}}}}
		judgePinned(&pass.Pass{}, m, row.o)
		if (m.SQL.Drifted[mysql.SuperReadOnly] == "ON") != row.closes {
			t.Errorf("%+v: drifted %v", row.o, m.SQL.Drifted)
		}
	}
}
