package topology

import (
	"fmt"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// relaunchWaits returns what the launch of a member's next instance waits for because earlier ones ended.
func (p *provisioning) relaunchWaits(m *Member, vol *Volume) Step {
	if why := p.endedSoon(m, vol); why.Waits() {
		return why
	}
	ended, last := m.endedUnasked()
	if ended < endsAllowed {
		return Step{}
	}
	since := last.LaunchTime
	if m.DownSince.After(since) {
		since = m.DownSince
	}
	if pause := endsPause(ended); p.Now.Sub(since) < pause {
		p.waitAtMost(waitEC2)
		return waits(fmt.Sprintf("instance %s ended, as %d before it; the next is launched after a pause of %s", last.ID, ended-1, pause))
	}
	return Step{}
}

// endedSoon returns what a member waits for of whose instances one ended soon after its launch, or "". In another zone than that
// of its volume it was no failure, see endElsewhere.
func (p *provisioning) endedSoon(m *Member, vol *Volume) Step {
	for _, in := range m.Instances {
		if in.gone() && !apart(&in, vol) && p.Now.Sub(in.LaunchTime) < relaunchPause {
			p.waitAtMost(waitEC2)
			p.degraded(v1alpha1.ReasonBootFailed, fmt.Sprintf("%s: instance %s ended soon after its launch: %s; the next is launched a minute after it", m.Name, in.ID, orNone(in.StateReason)))
			return waits("instance " + in.ID + " ended soon after its launch")
		}
	}
	return Step{}
}

// endsPause is how long after the last of so many ends the next instance is launched: each pause is twice the one before.
func endsPause(ended int) time.Duration {
	return min(relaunchPause<<min(ended-endsAllowed, 8), endsPauseMax)
}

// endedUnasked returns how many of a member's instances ended without anybody having asked EC2 for that, of those that EC2 still shows,
// which it does for about an hour; and the last of them to be launched, nil for none.
func (m *Member) endedUnasked() (ended int, last *Instance) {
	for i := range m.Instances {
		in := &m.Instances[i]
		if !in.gone() || in.StateReason == "" || strings.Contains(in.StateReason, userShutdown) {
			continue
		}
		ended++
		if last == nil || in.LaunchTime.After(last.LaunchTime) {
			last = in
		}
	}
	return ended, last
}

// userShutdown is in EC2's StateReason for an instance that was terminated by a call.
const userShutdown = "UserInitiatedShutdown"

// reportEnds reports a member whose instances end again and again.
func (p *provisioning) reportEnds(m *Member) {
	if ended, last := m.endedUnasked(); ended >= endsAllowed {
		p.degraded(v1alpha1.ReasonBootFailed, fmt.Sprintf("%s: %d of its instances ended within about an hour without being terminated by a call, the last one, %s: %s; the next is launched after a pause of up to %s",
			m.Name, ended, last.ID, last.StateReason, endsPauseMax))
	}
}
