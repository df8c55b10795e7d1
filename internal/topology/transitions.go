package topology

import (
	"fmt"
	"slices"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// transition says what EC2 is doing with a member's instances and volume that usually takes seconds; empty for nothing.
func (m *Member) transition() string {
	for _, in := range m.Instances {
		switch in.State {
		case statePending, stateShuttingDown:
			return fmt.Sprintf("instance %s has been %s", in.ID, in.State)
		}
	}
	vol := m.volume()
	switch {
	case vol == nil:
		return ""
	case vol.State == volumeCreating:
		return fmt.Sprintf("volume %s has been %s", vol.ID, vol.State)
	case vol.AttachedTo != "" && !slices.ContainsFunc(m.Instances, func(in Instance) bool { return in.ID == vol.AttachedTo && !in.gone() }):
		return fmt.Sprintf("volume %s has been %s by instance %s, %s", vol.ID, vol.State, vol.AttachedTo, m.holder(vol))
	case vol.AttachedTo != "" && vol.AttachState != attachAttached:
		return fmt.Sprintf("volume %s has been %s, with instance %s", vol.ID, vol.AttachState, vol.AttachedTo)
	}
	return ""
}

// holder says what the instance is that has a member's volume, and cannot run its mysqld.
func (m *Member) holder(vol *Volume) string {
	if slices.ContainsFunc(m.Instances, func(in Instance) bool { return in.ID == vol.AttachedTo }) {
		return "which is gone"
	}
	return "which is no instance of the member: detach it there"
}

// reportTransition reports what EC2 does not bring to an end.
func (p *pass) reportTransition(m *Member) {
	if p.CloudReachable && m.Transition != "" && p.Now.Sub(m.TransitionSince) >= transitionPatience {
		p.degraded(v1alpha1.ReasonMemberMissing, fmt.Sprintf("%s: %s since %s. EC2 usually needs seconds for that: see the EC2 console, and the AWS Health Dashboard",
			m.Name, m.Transition, m.TransitionSince.UTC().Format("15:04 UTC on 2 Jan")))
	}
}

// lostItsVolume says whether somebody detached the volume of an instance that has run mysqld on it since its start.
func (p *provisioning) lostItsVolume(m *Member, in *Instance) bool {
	return p.Records.Members[m.Name].SignedInstance == in.ID && m.downFor(p.Now) >= lateAnswers && in.LaunchTime.Before(m.DownSince)
}
