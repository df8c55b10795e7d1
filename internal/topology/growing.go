package topology

import (
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// grow makes the members' volumes what the spec asks for, one at a time, while they are in use. A change that EC2 refused is
// asked for again, one for which it has no budget left when it has; nothing else waits for these.
func (p *volumes) grow(refused bool) {
	if !p.CloudReachable {
		return
	}
	for _, m := range p.ordered() {
		vol := m.volume()
		if vol == nil || m.Ordinal >= p.Replicas || p.busy(m.Name) || (p.whyUnmodified(m, vol).Waits()) != refused || vol.State != volumeInUse && vol.State != volumeAvailable || !p.unlike(vol) {
			continue
		}
		if from := p.modifiableFrom(m, vol); !from.IsZero() {
			p.waitAtMost(from.Sub(p.Now))
			continue
		}
		p.retry(waitEC2, ModifyVolume{m.Name, vol.ID})
		if refused {
			continue
		}
		if v := p.views[m.Name]; !v.Step.Waits() {
			v.Step = waits(fmt.Sprintf("volume %s is being modified", vol.ID))
		}
		return
	}
}

// reportUnlike says of the volumes that are not what the spec asks for what their change waits for. It comes last: nothing else
// waits for it.
func (p *volumes) reportUnlike() {
	for _, m := range p.ordered() {
		vol, v := m.volume(), p.views[m.Name]
		if vol == nil || v == nil || m.Ordinal >= p.Replicas || !p.unlike(vol) {
			continue
		}
		why := p.whyUnmodified(m, vol)
		if !p.modifiableFrom(m, vol).IsZero() {
			p.degraded(v1alpha1.ReasonVolumeModificationLimited, fmt.Sprintf("%s: volume %s is not modified yet: %s", m.Name, vol.ID, why.Message))
		}
		switch {
		case v.Step.Waits():
		case why.Waits():
			v.Step = waits(fmt.Sprintf("volume %s is not modified yet: %s", vol.ID, why.Message))
		case !p.CloudReachable:
			v.Step = waits(fmt.Sprintf("volume %s is to be modified once EC2 answers", vol.ID))
		default:
			v.Step = waits(fmt.Sprintf("volume %s is to be modified", vol.ID))
		}
	}
}

// unlike says whether a volume is not what the spec asks for.
func (d Desired) unlike(vol *Volume) bool {
	return vol.SizeGiB != 0 && vol.SizeGiB < d.SizeGiB ||
		vol.Type != "" && d.VolumeType != "" && vol.Type != d.VolumeType ||
		vol.IOPS != 0 && d.IOPS != 0 && vol.IOPS != d.IOPS ||
		vol.Throughput != 0 && d.Throughput != 0 && vol.Throughput != d.Throughput
}
