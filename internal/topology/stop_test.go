package topology

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A fence whose stop does not get on is asked for again, and is not done until EC2 says so.
func TestStuckStopIsAskedForAgain(t *testing.T) {
	for name, row := range map[string]struct {
		state          string
		stuck          bool
		stops, promote bool
	}{
		"running":           {stateRunning, false, true, false},
		"stopping":          {stateStopping, false, false, false},
		"stopping for long": {stateStopping, true, true, false},
		"stopped":           {stateStopped, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.desired.Lossless = false // nobody is promoted before the instance is off
			s.lose(0)
			s.io(ioOff, 1, 2)
			s.member(0).SQL.Access = AccessNone
			s.member(0).Instances[0].State, s.member(0).Instances[0].StopStuck = row.state, row.stuck
			_, actions := s.plan()
			if stops := strings.Contains(actions, "stop instance i-0"); stops != row.stops {
				t.Errorf("planned %q; the instance is to be stopped: %v", actions, row.stops)
			}
			if promotes := strings.Contains(actions, "promote"); promotes != row.promote {
				t.Errorf("planned %q; somebody is to be promoted: %v", actions, row.promote)
			}
		})
	}
}

// TestAStopIsForcedOnlyInTheEnd: first the power is cut, and what stays in stopping after that is stopped by force, which is recorded.
func TestAStopIsForcedOnlyInTheEnd(t *testing.T) {
	for name, row := range map[string]struct {
		in       Instance
		down     time.Duration
		stops    bool
		byForce  bool
		recorded bool
	}{
		"its power is about to be cut":      {Instance{State: stateRunning}, stopGivenUp, true, false, false},
		"it is stopping":                    {Instance{State: stateStopping, PowerCut: true}, time.Minute, false, false, false},
		"it stays in stopping":              {Instance{State: stateStopping, PowerCut: true, StopStuck: true}, time.Minute, true, true, true},
		"it is shut down by somebody":       {Instance{State: stateStopping, StopStuck: true}, time.Minute, false, false, false},
		"somebody may force it":             {Instance{State: stateStopping, StopStuck: true}, transitionPatience, false, false, true},
		"it is shut down and never ends":    {Instance{State: stateStopping, StopStuck: true}, stopGivenUp, true, false, true},
		"it is stopped after it was forced": {Instance{State: stateStopped, PowerCut: true, StopStuck: true}, time.Minute, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.lose(2)
			m := s.member(2)
			m.SQL.Access, m.DownSince = AccessNone, s.observed.Now.Add(-row.down)
			in := &m.Instances[0]
			in.State, in.PowerCut, in.StopStuck, in.Impaired = row.in.State, row.in.PowerCut, row.in.StopStuck, row.in.State == stateRunning
			p, actions := s.plan()
			if stops := strings.Contains(actions, "stop instance i-2 of orders-2"); stops != row.stops || strings.Count(actions, "stop instance") > 1 {
				t.Errorf("planned %q", actions)
			}
			want := []ForcedStop(nil)
			if row.recorded {
				want = []ForcedStop{{Instance: "i-2", Volume: "vol-2", At: s.observed.Now.Unix()}}
			}
			if byForce := strings.Contains(actions, "by force"); byForce != row.byForce || !slices.Equal(p.Records.Forced, want) {
				t.Errorf("planned %q, recorded %+v", actions, p.Records.Forced)
			}
		})
	}
}

// forced has EC2 call the instance of a member stopped that it was asked to stop by force, since so long ago.
func (s *scene) forced(ordinal int, since time.Duration) {
	m := s.member(ordinal)
	s.lose(ordinal)
	m.SQL.Access, m.Instances[0].State = AccessNone, stateStopped
	stopped := s.observed.Now.Add(-since).Unix()
	s.observed.Records.Forced = []ForcedStop{{Instance: m.Instances[0].ID, Volume: m.RecordedVolume, At: stopped - 20, Stopped: stopped}}
}

// TestTheVolumeOfAForcedInstanceIsLeftAlone: it is detached and not used again for five minutes, neither by the same instance nor by
// another one.
func TestTheVolumeOfAForcedInstanceIsLeftAlone(t *testing.T) {
	detached := func(s *scene) {
		s.member(2).Volumes[0].State, s.member(2).Volumes[0].AttachedTo, s.member(2).Volumes[0].AttachState = volumeAvailable, "", ""
	}
	for name, row := range map[string]struct {
		change  func(s *scene)
		settles string // what is planned while it settles
		then    string // and after that
	}{
		"it has its volume":      {func(*scene) {}, "detach volume vol-2 from instance i-2 of orders-2", "start instance i-2 of orders-2"},
		"its volume is detached": {detached, "", "start instance i-2 of orders-2"},
		"it was terminated": {func(s *scene) {
			detached(s)
			s.member(2).Volumes[0].Zone, s.member(2).Instances[0].State = "c", stateTerminated
		}, "", "launch instance 2 of orders-2"},
		"another instance is running": {func(s *scene) { detached(s); s.another() }, "", "attach volume vol-2 to instance i-9 of orders-2"},
	} {
		t.Run(name, func(t *testing.T) {
			for since, want := range map[time.Duration]string{time.Minute: row.settles, forcedSettles - time.Second: row.settles, forcedSettles: row.then} {
				s := newScene()
				s.forced(2, since)
				row.change(s)
				p, actions := s.plan()
				for _, use := range []string{"detach", "start", "launch", "attach"} {
					if planned := strings.Contains(actions, use+" "); planned != strings.HasPrefix(want, use) || planned && !strings.Contains(actions, want) {
						t.Errorf("%s after the stop: planned %q, want %q", since, actions, want)
					}
				}
				if recorded := len(p.Records.Forced) == 1; recorded != (since < forcedSettles) {
					t.Errorf("%s after the stop: recorded %+v", since, p.Records.Forced)
				}
				if told := strings.Contains(p.Waiting.Message, "by force"); told != (since < forcedSettles) {
					t.Errorf("%s after the stop: waiting for %q", since, p.Waiting.Message)
				}
			}
		})
	}
}

// another gives orders-2 a second instance, which runs and has no volume.
func (s *scene) another() {
	m := s.member(2)
	m.Instances = append(m.Instances, Instance{ID: "i-9", Incarnation: 2, State: stateRunning, TemplateHash: "t"})
}

// TestPromotionAfterAForcedStop: where a promotion rests on the stop of the old primary it waits until EC2 has detached the volume, and
// says so; with semi-synchronous replication it does not wait for EC2 at all.
func TestPromotionAfterAForcedStop(t *testing.T) {
	for name, row := range map[string]struct {
		lossless, attached, promotes bool
		since                        time.Duration
	}{
		"asynchronous":             {false, true, false, time.Minute},
		"asynchronous, detached":   {false, false, true, time.Minute},
		"asynchronous, much later": {false, true, true, forcedSettles},
		"with semi-synchronous":    {true, true, true, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.desired.Lossless = row.lossless
			s.forced(0, row.since)
			s.io(ioOff, 1, 2)
			if !row.attached {
				v := &s.member(0).Volumes[0]
				v.State, v.AttachedTo, v.AttachState = volumeAvailable, "", ""
			}
			p, actions := s.plan()
			if promotes := strings.Contains(actions, "promote"); promotes != row.promotes {
				t.Errorf("planned %q", actions)
			}
			if told := strings.Contains(p.Waiting.Message, "once volume vol-0 is detached"); told == row.promotes {
				t.Errorf("waiting for %q", p.Waiting.Message)
			}
			if detaches := strings.Contains(actions, "detach volume vol-0"); detaches != (row.attached && row.since < forcedSettles) {
				t.Errorf("planned %q", actions)
			}
		})
	}
}

// TestAVoterThatWasForcedKeepsItsVoteUntilItsVolumeIsDetached: its host may still acknowledge.
func TestAVoterThatWasForcedKeepsItsVoteUntilItsVolumeIsDetached(t *testing.T) {
	for attached, want := range map[bool]bool{true: false, false: true} {
		s := newScene()
		s.forced(2, time.Minute)
		if !attached {
			v := &s.member(2).Volumes[0]
			v.State, v.AttachedTo, v.AttachState = volumeAvailable, "", ""
		}
		if _, actions := s.plan(); strings.Contains(actions, "remove orders-2 from the voters") != want {
			t.Errorf("attached %t: planned %q", attached, actions)
		}
	}
}

// TestForcedStopsAreFollowed: the time counts from when the instance was seen stopped or gone, by an answer that is newer than the stop; an
// instance that somebody started since is as good as any.
func TestForcedStopsAreFollowed(t *testing.T) {
	const asked = 100 // seconds ago
	for name, row := range map[string]struct {
		change  func(s *scene, in *Instance)
		stopped bool
		left    int
	}{
		"it is stopping":      {func(_ *scene, in *Instance) { in.State = stateStopping }, false, 1},
		"it is stopped":       {func(_ *scene, in *Instance) { in.State = stateStopped }, true, 1},
		"it is terminated":    {func(_ *scene, in *Instance) { in.State = stateTerminated }, true, 1},
		"it is shown no more": {func(s *scene, _ *Instance) { s.member(2).Instances = nil }, true, 1},
		"what EC2 said before": {func(s *scene, in *Instance) {
			in.State = stateStopped
			s.observed.CloudTaken = s.observed.Now.Add(-asked * time.Second)
		}, false, 1},
		"EC2 does not answer":    {func(s *scene, in *Instance) { in.State = stateStopped; s.observed.CloudReachable = false }, false, 1},
		"it was started since":   {func(s *scene, in *Instance) { in.State, in.LaunchTime = stateRunning, s.observed.Now.Add(-time.Second) }, false, 0},
		"it is shown as running": {func(s *scene, in *Instance) { in.State, in.LaunchTime = stateRunning, s.observed.Now.Add(-time.Hour) }, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.forced(2, time.Minute)
			s.observed.Records.Forced[0].At, s.observed.Records.Forced[0].Stopped = s.observed.Now.Unix()-asked, 0
			row.change(s, &s.member(2).Instances[0])
			p, _ := s.plan()
			if len(p.Records.Forced) != row.left || row.left > 0 && (p.Records.Forced[0].Stopped == s.observed.Now.Unix()) != row.stopped {
				t.Errorf("recorded %+v", p.Records.Forced)
			}
		})
	}
}

// TestForcedStopsOfAClockThatIsAhead: times that another operator recorded, and that are later than now, are taken for now. The answer of
// EC2 after that counts, and the volume is used again as long after the stop as any.
func TestForcedStopsOfAClockThatIsAhead(t *testing.T) {
	s := newScene()
	s.forced(2, time.Minute)
	f := &s.observed.Records.Forced[0]
	f.At, f.Stopped = s.observed.Now.Add(time.Hour).Unix(), 0
	s.member(2).Instances[0].State = stateStopped
	after := func(d time.Duration) {
		p, _ := s.plan()
		s.observed.Records = p.Records
		s.observed.Now = s.observed.Now.Add(d)
		s.observed.CloudTaken = s.observed.Now
	}
	after(time.Second)
	after(time.Second)
	if got := s.observed.Records.Forced; len(got) != 1 || got[0].Stopped == 0 {
		t.Fatalf("EC2 calls it stopped: recorded %+v", got)
	}
	s.observed.Records.Forced[0].Stopped = s.observed.Now.Add(time.Hour).Unix()
	after(forcedSettles - time.Second)
	after(time.Second)
	if got := s.observed.Records.Forced; len(got) != 1 {
		t.Errorf("just before it settles: recorded %+v", got)
	}
	after(time.Second)
	if got := s.observed.Records.Forced; len(got) != 0 {
		t.Errorf("once it has settled: recorded %+v", got)
	}
}

// TestAVolumeThatWasDetachedFromARunningInstance: mysqld finds it again only after another start of the instance.
func TestAVolumeThatWasDetachedFromARunningInstance(t *testing.T) {
	for name, row := range map[string]struct {
		change func(s *scene, m *Member)
		want   string
	}{
		"it is stopped":              {func(*scene, *Member) {}, "stop instance i-2 of orders-2"},
		"it was started since":       {func(s *scene, m *Member) { m.Instances[0].LaunchTime = s.observed.Now.Add(-time.Minute) }, "attach volume vol-2 to instance i-2 of orders-2"},
		"it has not had it yet":      {func(s *scene, _ *Member) { unsigned(s, 2, time.Hour) }, "attach volume vol-2 to instance i-2 of orders-2"},
		"EC2 may have shown it late": {func(s *scene, m *Member) { m.DownSince = s.observed.Now.Add(-lateAnswers / 2) }, "attach volume vol-2 to instance i-2 of orders-2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.unanswered(2, AccessRefused, 2*time.Minute)
			m := s.member(2)
			m.Volumes[0].State, m.Volumes[0].AttachedTo, m.Volumes[0].AttachState = volumeAvailable, "", ""
			row.change(s, m)
			if _, actions := s.plan(); actions != row.want {
				t.Errorf("planned %q, want %q", actions, row.want)
			}
		})
	}
}
