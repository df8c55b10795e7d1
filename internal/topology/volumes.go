package topology

import (
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// volumes keeps the books of the members' volumes, and finds the data that the cluster is to begin with.
type volumes struct {
	*pass

	// unsourced is what the cluster waits for before anything is made, because what it is to begin with is not there; see findSource.
	unsourced Step
}

// EC2 answers CreateVolume at once and makes the volume later, when it may find that it cannot: with a KMS key that it may not
// use, the order is accepted and the volume is then gone, or in the state error (EBS User Guide, "Create an Amazon EBS volume").
// The client token of such an order is used up: asked again, EC2 answers with the volume that never came to be. So a person is
// told, and the next try is another incarnation, with a token of its own, after a pause.

// recordPendingVolume remembers what EC2 makes for a member until an instance has it. A volume of an older incarnation was given up, and one
// whose story is not known, because the records were lost, is recorded as one that carries data.
func (p *volumes) recordPendingVolume(m *Member, vol *Volume) {
	rec := p.plan.Records.Members[m.Name]
	switch {
	case rec.VolumeID != "":
		rec.PendingVolume, rec.VolumeFailedAt = "", 0
	case vol.Incarnation < rec.Volume:
		return
	default:
		rec.PendingVolume = vol.ID
		if vol.State == volumeAvailable {
			rec.VolumeFailedAt = 0
		}
	}
	p.plan.Records.Members[m.Name] = rec
}

// clearPendingVolume is said before a member's volume is deleted on purpose: that it is gone then is no failure of EC2's.
func (p *volumes) clearPendingVolume(member string) {
	rec := p.plan.Records.Members[member]
	if rec.PendingVolume != "" {
		rec.PendingVolume = ""
		p.plan.Records.Members[member] = rec
	}
}

// recordFailedVolume remembers that EC2 could not make a member's volume. The next has another token.
func (p *volumes) recordFailedVolume(m *Member, volumeID string, incarnation int) {
	rec := p.plan.Records.Members[m.Name]
	rec.PendingVolume = ""
	if rec.AbandonedVolume != volumeID {
		rec.AbandonedVolume, rec.VolumeFailedAt = volumeID, p.Now.Unix()
		rec.Volume = max(rec.Volume, incarnation) + 1
	}
	p.plan.Records.Members[m.Name] = rec
}

// retryFailedVolume returns what a member without a volume waits for because EC2 could not make it one, or "". EC2's lists are late, so
// that it has to deny the volume for long before it is believed.
func (p *volumes) retryFailedVolume(m *Member) Step {
	rec := p.plan.Records.Members[m.Name]
	if rec.VolumeID == "" && rec.PendingVolume != "" {
		if m.PendingVolumeMissingSince.IsZero() || p.Now.Sub(m.PendingVolumeMissingSince) < volumePatience {
			p.waitAtMost(waitEC2)
			if rec.VolumeFailedAt != 0 {
				p.reportFailedVolume(m)
			}
			return waits("volume " + rec.PendingVolume + ", which EC2 was making, is not shown any more; waiting until that is certain")
		}
		p.recordFailedVolume(m, rec.PendingVolume, rec.Volume)
		rec = p.plan.Records.Members[m.Name]
	}
	if rec.VolumeFailedAt == 0 {
		return Step{}
	}
	p.reportFailedVolume(m)
	p.waitAtMost(waitEC2)
	if in := m.CurrentInstance(); in != nil {
		// It was told to look for that volume, and would never find another.
		if p.CloudReachable {
			p.retry(waitEC2, TerminateInstance{m.Name, in.ID})
		}
		return waits("ending instance " + in.ID + ", whose volume EC2 could not make")
	}
	if p.Now.Sub(time.Unix(rec.VolumeFailedAt, 0)) >= volumeRetryPause {
		return Step{}
	}
	return waits("EC2 could not make volume " + rec.AbandonedVolume)
}

// failedVolume plans the end of a volume that EC2 calls failed, if it is certain that nothing was ever on it.
func (p *volumes) failedVolume(m *Member, vol *Volume) Step {
	p.waitAtMost(waitEC2)
	if rec := p.plan.Records.Members[m.Name]; rec.VolumeID != "" || rec.PendingVolume != vol.ID && rec.AbandonedVolume != vol.ID {
		p.degraded(v1alpha1.ReasonMemberMissing, fmt.Sprintf("%s: %s; its content cannot be read. Delete it, and the member gets another one when it is no longer a voter", m.Name, p.ec2Calls("volume "+vol.ID, "failed (state error)")))
		return waits("volume " + vol.ID + " has failed")
	}
	p.recordFailedVolume(m, vol.ID, vol.Incarnation)
	p.reportFailedVolume(m)
	if p.CloudReachable {
		p.retry(waitEC2, DeleteVolume{m.Name, vol.ID})
	}
	return waits("EC2 could not make volume " + vol.ID)
}

// removeLateVolume tells of a volume that is being made once more, and deletes one that came to be after all when the member has
// another already. It was never attached to anything.
func (p *volumes) removeLateVolume(m *Member) {
	rec, vol := p.plan.Records.Members[m.Name], m.volume()
	if vol == nil {
		return
	}
	if rec.VolumeFailedAt != 0 && vol.State == volumeCreating {
		p.reportFailedVolume(m)
	}
	for _, late := range m.Volumes {
		if late.ID == rec.AbandonedVolume && late.ID != vol.ID && vol.ID == rec.VolumeID && late.AttachedTo == "" && !late.gone() && p.CloudReachable {
			p.retry(waitEC2, DeleteVolume{m.Name, late.ID})
		}
	}
}

// reportFailedVolume says what a person can do.
func (p *volumes) reportFailedVolume(m *Member) {
	rec, keys := p.plan.Records.Members[m.Name], "the KMS key of spec.storage.kmsKeyID, or the account's default for EBS,"
	if source := p.snapshotToBeginWith(m); source != "" {
		keys += " and that of " + source
	}
	p.degraded(v1alpha1.ReasonVolumeNotMade, fmt.Sprintf("%s: EC2 accepted the order for volume %s and then did not make it. Most often a key may not be used: %s must be enabled, and the key's policy must allow the operator's role kms:CreateGrant, kms:Decrypt, kms:DescribeKey, kms:GenerateDataKeyWithoutPlaintext and kms:ReEncrypt*. It is tried again every 5 minutes",
		m.Name, rec.AbandonedVolume, keys))
}

// recordVolumes records which volume carries a member's data, which distinguishes a lost one from one that never was.
func (p *volumes) recordVolumes() {
	for _, m := range p.Members {
		vol := m.volume()
		if vol == nil {
			continue
		}
		if vol.AttachedTo != "" {
			p.recordVolume(m, vol)
		}
		p.recordPendingVolume(m, vol)
	}
}

func (p *volumes) recordVolume(m *Member, vol *Volume) {
	rec := p.plan.Records.Members[m.Name]
	rec.VolumeID, rec.Volume = vol.ID, max(rec.Volume, vol.Incarnation)
	if rec.AbandonedVolume == vol.ID {
		rec.AbandonedVolume, rec.VolumeFailedAt = "", 0 // it came to be after all
	}
	p.plan.Records.Members[m.Name] = rec
}

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
