package engine

import (
	"context"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// answeringServer is a mysqld that is looked at.
type answeringServer struct {
	LookedAt
	access mysql.Access
	asked  int
}

func (s *answeringServer) Observe(context.Context) mysql.Observation {
	s.asked++
	return mysql.Observation{Access: s.access}
}

func (s *answeringServer) Claim(context.Context) error { return nil }

// TestAMemberIsAskedWhateverEC2CalledItsInstance: an EC2 that answers no more has last called a member's instance pending or stopped. Its
// mysqld counts as reached when it answers, and not as silent when it does not.
func TestAMemberIsAskedWhateverEC2CalledItsInstance(t *testing.T) {
	for name, row := range map[string]struct {
		state  string
		access mysql.Access
		age    time.Duration // of EC2's word
		asked  int
		want   topology.Access
		silent bool
		waits  time.Duration
	}{
		"pending, and up":                 {"pending", mysql.AccessVerified, time.Minute, 1, topology.AccessVerified, false, silentPatience},
		"stopped, and up":                 {"stopped", mysql.AccessVerified, time.Minute, 1, topology.AccessVerified, false, silentPatience},
		"stopped, and silent":             {"stopped", mysql.AccessSilent, time.Minute, 1, topology.AccessNone, false, silentPatience},
		"pending, and its port is closed": {"pending", mysql.AccessRefused, time.Minute, 1, topology.AccessNone, false, silentPatience},
		"stopped a moment ago":            {"stopped", mysql.AccessSilent, time.Second, 0, topology.AccessNone, false, 0},
		"running, and silent":             {"running", mysql.AccessSilent, time.Second, 1, topology.AccessSilent, true, lookPatience},
	} {
		t.Run(name, func(t *testing.T) {
			server, stage := &answeringServer{access: row.access}, newStage()
			now := stage.clock.Now()
			m := &topology.Member{Name: "orders-1", Instances: []topology.Instance{{ID: "i-1", State: "stopped", Address: "10.0.0.1"}}}
			o := &topology.Observed{Now: now, CloudReachable: true, CloudTaken: now, Members: map[string]*topology.Member{m.Name: m}}
			heard := 0
			k, ports := NewLooks(), LookPorts{
				Threads: threads{stage}, Clock: stage.clock, ParseGTIDs: gtid.Parse, Judge: func(*topology.Member, mysql.Observation) {},
				Server: func(context.Context, *topology.Member) LookedAt { return server },
				Heard:  func(context.Context, *topology.Member) { heard++ },
			}
			if err := k.Observe(t.Context(), o, ports); err != nil || server.asked != 0 {
				t.Fatalf("EC2 has just called its instance stopped: asked %d times (%v)", server.asked, err)
			}
			if row.state == "running" {
				k = NewLooks()
			}
			m.Instances[0].State, o.CloudTaken = row.state, now.Add(-row.age)
			if err := k.Observe(t.Context(), o, ports); err != nil {
				t.Fatal(err)
			}
			waited := append(stage.waited, 0)[0]
			if server.asked != row.asked || m.SQL.Access != row.want || m.SilentSince.IsZero() == row.silent || waited != row.waits {
				t.Errorf("asked %d times, waited for %s, access %q, silent since %s", server.asked, waited, m.SQL.Access, m.SilentSince)
			}
			if reached := m.DownSince.IsZero(); reached != (row.want == topology.AccessVerified) || (heard > 0) != (row.want != topology.AccessNone) {
				t.Errorf("reached %t, heard %d times", reached, heard)
			}
		})
	}
}
