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
			"instance i-2 is stopped (EC2 has not answered since 14:02 UTC on 26 Nov)"},
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
