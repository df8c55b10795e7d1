package topology

import (
	"strings"
	"testing"
	"time"
)

// TestWhatEC2SaidBeforeItsSilence is not told as present.
func TestWhatEC2SaidBeforeItsSilence(t *testing.T) {
	const now = "EC2 calls"
	silent := func(s *scene) {
		s.observed.CloudReachable = false
		s.observed.CloudTaken = time.Date(2026, 11, 26, 14, 2, 33, 0, time.UTC)
	}
	recalled := func(s *scene) { s.observed.CloudReachable, s.observed.CloudTaken = false, time.Time{} }
	answers := func(*scene) {}
	for name, row := range map[string]struct {
		ec2, member func(*scene)
		says        string
	}{
		"a silent port": {answers, silentPort, "orders-2: 10.0.0.2:3306 is silent; EC2 calls its instance healthy."},
		"a silent port, and a silent EC2": {silent, silentPort,
			"orders-2: 10.0.0.2:3306 is silent; EC2 called its instance healthy at 14:02 UTC on 26 Nov and has not answered since."},
		"a silent port, and an EC2 that this operator never heard": {recalled, silentPort,
			"orders-2: 10.0.0.2:3306 is silent; EC2 has not answered since the operator started."},
		"an impaired instance":                   {answers, impaired, "orders-2: EC2 calls instance i-2 impaired"},
		"an impaired instance, and a silent EC2": {silent, impaired, "orders-2: EC2 called instance i-2 impaired at 14:02 UTC on 26 Nov and has not answered since"},
		"an impaired volume":                     {answers, impairedVolume, "orders-2: EC2 calls a volume of instance i-2 impaired. EBS does not complete its reads and writes"},
		"an impaired volume, and a silent EC2": {silent, impairedVolume,
			"orders-2: EC2 called a volume of instance i-2 impaired at 14:02 UTC on 26 Nov and has not answered since. EBS does not"},
		"a stopped instance": {silent, func(s *scene) { s.lose(2); s.member(2).Instances[0].State = stateStopped },
			"instance i-2 was stopped; starting it (EC2 has not answered since 14:02 UTC on 26 Nov)"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			row.member(s)
			row.ec2(s)
			p, _ := s.plan()
			text := p.Waiting.Message
			for _, f := range p.Degraded {
				text += "\n" + f.Message
			}
			for _, v := range p.Members {
				text += "\n" + v.Step.Message
			}
			if !strings.Contains(text, row.says) || !s.observed.CloudReachable && strings.Contains(text, now) {
				t.Errorf("says %q, want %q in it", text, row.says)
			}
		})
	}
}

func silentPort(s *scene) {
	s.lose(2)
	s.member(2).SilentSince = s.observed.Now.Add(-2 * silenceAllowed)
}

func impaired(s *scene) {
	s.lose(2)
	s.member(2).Instances[0].Impaired = true
}

func impairedVolume(s *scene) {
	impaired(s)
	s.member(2).Instances[0].VolumesImpaired = true
}

// TestStartsWhileEC2IsSilent: an instance that was last shown as stopped is started, but for one that was stopped by force, and one whose
// mysqld answers all the same.
func TestStartsWhileEC2IsSilent(t *testing.T) {
	for name, row := range map[string]struct {
		change func(s *scene)
		starts bool
	}{
		"stopped":              {func(*scene) {}, true},
		"stopped by force":     {func(s *scene) { s.observed.Records.Forced = []ForcedStop{{Instance: "i-2", At: 1}} }, false},
		"another is, by force": {func(s *scene) { s.observed.Records.Forced = []ForcedStop{{Instance: "i-1", At: 1}} }, true},
		"stopping":             {func(s *scene) { s.member(2).Instances[0].State = stateStopping }, false},
		"it answers":           {func(s *scene) { *s.member(2) = *newScene().member(2); s.member(2).Instances[0].State = stateStopped }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.lose(2)
			s.member(2).Instances[0].State, s.member(2).Volumes[0].Zone = stateStopped, "c"
			s.observed.CloudReachable = false
			row.change(s)
			plan, actions := s.plan()
			if strings.Contains(actions, "start instance i-2") != row.starts {
				t.Errorf("planned %q", actions)
			}
			if row.starts && plan.RequeueAfter < waitEC2 {
				t.Errorf("looks again after %s", plan.RequeueAfter)
			}
		})
	}
}

// TestWhoIsAsked: each member with an address, but for one that EC2 has just called off, and one that was stopped by force.
func TestWhoIsAsked(t *testing.T) {
	for name, row := range map[string]struct {
		change func(o *Observed, in *Instance)
		asked  bool
	}{
		"running":                     {func(_ *Observed, in *Instance) { in.State = stateRunning }, true},
		"running, without an address": {func(_ *Observed, in *Instance) { in.State, in.Address = stateRunning, "" }, false},
		"just called stopped":         {func(*Observed, *Instance) {}, false},
		"called stopped a while ago":  {func(o *Observed, _ *Instance) { o.CloudTaken = o.Now.Add(-answerHolds) }, true},
		"called stopped by a late look": {func(o *Observed, in *Instance) {
			o.CloudTaken, in.AnsweredAt = o.Now.Add(-time.Hour), o.Now.Add(-time.Second)
		}, false},
		"pending, and EC2 is silent": {func(o *Observed, in *Instance) { o.CloudReachable, in.State = false, statePending }, true},
		"just called pending":        {func(_ *Observed, in *Instance) { in.State = statePending }, false},
		"called pending a while ago": {func(o *Observed, in *Instance) { o.CloudTaken, in.State = o.Now.Add(-answerHolds), statePending }, true},
		"stopped by force, a while ago": {func(o *Observed, in *Instance) {
			o.CloudTaken, o.Records.Forced = o.Now.Add(-answerHolds), []ForcedStop{{Instance: in.ID}}
		}, false},
		"running, after a stop by force": {func(o *Observed, in *Instance) {
			in.State, o.Records.Forced = stateRunning, []ForcedStop{{Instance: in.ID}}
		}, true},
	} {
		o := newScene().observed
		in := &Instance{ID: "i-1", State: stateStopped, Address: "10.0.0.1"}
		row.change(&o, in)
		if asked := in.MayAnswer(&o); asked != row.asked {
			t.Errorf("%s: asked %t", name, asked)
		}
	}
}

// TestARolloutIsNotOverBeforeEC2Answers: a new process knows members by their records, which do not say what they are built from.
func TestARolloutIsNotOverBeforeEC2Answers(t *testing.T) {
	for name, row := range map[string]struct {
		rolling string
		answers bool
		under   bool
	}{
		"a turn is under way, and EC2 is silent": {"orders-2", false, true},
		"between two turns, and EC2 is silent":   {"", false, true},
		"a turn is under way, and it is over":    {"orders-2", true, false},
		"between two turns, and nothing is left": {"", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.observed.Records.Rolling, s.observed.Records.RollingSince, s.observed.Records.RollingDone = row.rolling, 1, []string{"orders-1"}
			if !row.answers {
				s.observed.CloudReachable, s.observed.CloudTaken = false, time.Time{}
				for i := range 3 {
					s.member(i).Instances[0].TemplateHash = ""
				}
			}
			p := pureNext(s.desired, s.observed)
			if under := len(p.Rollouts) > 0; under != row.under || p.Records.RollingSince != 0 != row.under {
				t.Errorf("rollouts %v, since %d", p.Rollouts, p.Records.RollingSince)
			}
		})
	}
}
