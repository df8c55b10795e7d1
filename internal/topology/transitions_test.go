package topology

import (
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// TestWhatEC2DoesNotFinishIsReported with its time, once it has taken five minutes; another step begins its own five minutes.
func TestWhatEC2DoesNotFinishIsReported(t *testing.T) {
	for name, row := range map[string]struct {
		change func(in *Instance, vol *Volume)
		words  string
	}{
		"nothing":                         {func(*Instance, *Volume) {}, ""},
		"a launch":                        {func(in *Instance, _ *Volume) { in.State = statePending }, "instance i-2 has been pending since 00:00 UTC on 1 Jan"},
		"an attachment":                   {func(_ *Instance, vol *Volume) { vol.AttachState = "attaching" }, "volume vol-2 has been attaching, with instance i-2 since"},
		"a detachment":                    {func(_ *Instance, vol *Volume) { vol.AttachState = "detaching" }, "volume vol-2 has been detaching, with instance i-2 since"},
		"a new volume":                    {func(_ *Instance, vol *Volume) { vol.State, vol.AttachedTo, vol.AttachState = volumeCreating, "", "" }, "volume vol-2 has been creating since"},
		"the volume of an ended instance": {func(in *Instance, _ *Volume) { in.State = stateTerminated }, "volume vol-2 has been in-use by instance i-2, which is gone since"},
		"a volume that a person took":     {func(_ *Instance, vol *Volume) { vol.AttachedTo = "i-9" }, "volume vol-2 has been in-use by instance i-9, which is no instance of the member: detach it there since"},
	} {
		t.Run(name, func(t *testing.T) {
			s, d := newScene(), FailureDetector{}
			began, m := s.observed.Now, s.member(2)
			plan := func(after time.Duration) Plan {
				s.observed.Now = began.Add(after)
				s.observed.CloudTaken = s.observed.Now
				d.RecordVolumes(m, "", true, s.observed.Now)
				p, _ := s.plan()
				return p
			}
			row.change(&m.Instances[0], &m.Volumes[0])
			if plan(0); reports(plan(transitionPatience-time.Second), v1alpha1.ReasonMemberMissing, "EC2 usually needs seconds") {
				t.Error("it is reported too soon")
			}
			p := plan(transitionPatience)
			if reported := reports(p, v1alpha1.ReasonMemberMissing, "EC2 usually needs seconds"); reported != (row.words != "") || reported && !reports(p, v1alpha1.ReasonMemberMissing, row.words) {
				t.Errorf("reported %v", p.Degraded)
			}
			m.Instances[0].State = stateShuttingDown
			if reports(plan(transitionPatience+time.Second), v1alpha1.ReasonMemberMissing, "shutting-down") {
				t.Error("another step is reported at once")
			}
		})
	}
}
