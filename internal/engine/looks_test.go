package engine

import (
	"context"
	"errors"
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

// slowServer is a mysqld that answers when much time has passed.
type slowServer struct {
	answeringServer
	takes func()
}

func (s *slowServer) Observe(ctx context.Context) mysql.Observation {
	s.takes()
	return s.answeringServer.Observe(ctx)
}

// looking is a member whose instance runs, and what its mysqld is looked at through.
func looking(stage *stage, server LookedAt) (m *topology.Member, observe func(k *Looks) *topology.Observed) {
	m = &topology.Member{Name: "orders-1", Instances: []topology.Instance{{ID: "i-1", State: "running", Address: "10.0.0.1"}}}
	return m, func(k *Looks) *topology.Observed {
		now := stage.clock.Now()
		o := &topology.Observed{Now: now, CloudReachable: true, CloudTaken: now, Members: map[string]*topology.Member{m.Name: m}}
		if err := k.Observe(context.Background(), o, LookPorts{
			Threads: threads{stage}, Clock: stage.clock, ParseGTIDs: gtid.Parse, Judge: func(*topology.Member, mysql.Observation) {},
			Server: func(context.Context, *topology.Member) LookedAt { return server },
			Heard:  func(context.Context, *topology.Member) {},
			Wake:   func() { stage.woken++ },
		}); err != nil {
			panic(err)
		}
		return o
	}
}

// TestAProcessThatStoodStillKnowsIt: a process is frozen while it looks at a member. That was not silent for all that time, and what is
// decided then is not done without the lease.
func TestAProcessThatStoodStillKnowsIt(t *testing.T) {
	stage := newStage()
	stage.hangs = true
	freeze := func() { stage.clock.SetTime(stage.clock.Now().Add(time.Minute)) }
	m, observe := looking(stage, &answeringServer{access: mysql.AccessVerified})
	stage.awaits = freeze
	began := stage.clock.Now()
	o := observe(NewLooks())
	if silent := o.Now.Sub(m.SilentSince); m.SilentSince.IsZero() || silent > lookPatience {
		t.Errorf("silent since %s, which is %s ago", m.SilentSince, silent)
	}
	if span := o.Now.Sub(began); span > observationSpan {
		t.Errorf("an observation of a minute counts as made within %s", span)
	}
	x := stage.execution(NewRequests(), topology.StopInstance{Member: m.Name, InstanceID: "i-1"})
	x.Observed = *o
	x.Lease = func(context.Context) error { return errors.New("another leads") }
	stage.hangs, stage.asked = false, nil
	if x.Run(t.Context()); x.Acted != 0 || len(stage.asked) != 0 {
		t.Errorf("asked for %q after a minute", stage.asked)
	}
}

// TestALookThatEndedInAStandstillSaysNothing: its limit passed while the process was frozen, so that the member is asked once more.
func TestALookThatEndedInAStandstillSaysNothing(t *testing.T) {
	for name, row := range map[string]struct {
		stoodStill time.Duration
		asked      int
	}{
		"it was frozen":    {time.Minute, 2},
		"nothing happened": {lookLimit, 1},
	} {
		t.Run(name, func(t *testing.T) {
			stage := newStage()
			stage.hangs = true
			server := &slowServer{takes: func() { stage.clock.SetTime(stage.clock.Now().Add(row.stoodStill)) }}
			server.access = mysql.AccessSilent
			_, observe := looking(stage, server)
			k := NewLooks()
			observe(k)
			stage.hung[0]()
			stage.hangs, server.takes = false, func() {}
			if observe(k); server.asked != row.asked {
				t.Errorf("asked %d times, want %d", server.asked, row.asked)
			}
		})
	}
}

// TestALateAnswerWakesTheCluster: a member that was silent answers after its pass has gone on. The next pass may be five seconds away, for
// which no answer is fresh: one is made at once, and takes it.
func TestALateAnswerWakesTheCluster(t *testing.T) {
	for access, woken := range map[mysql.Access]int{mysql.AccessVerified: 1, mysql.AccessSilent: 0} {
		stage := newStage()
		stage.hangs = true
		server := &answeringServer{access: access}
		m, observe := looking(stage, server)
		k := NewLooks()
		observe(k)
		stage.hung[0]()
		if stage.woken != woken {
			t.Errorf("%s: woken %d times, want %d", access, stage.woken, woken)
		}
		if observe(k); m.SQL.Access != access || server.asked != 1 {
			t.Errorf("the next pass asked %d times, and found %q", server.asked, m.SQL.Access)
		}
	}
}
