package topology

// moveZone gives up a zone without capacity, or without a free address: soon for a member whose volume never carried data. A volume with data is
// retired, which keeps it, only after a long time, for a member that is no voter any more while others are; the member is
// seeded anew.
func (p *pass) moveZone(m *Member, vol *Volume, rec *MemberRecord) bool {
	if m.CapacityRefused != vol.Zone {
		return false
	}
	// What was given up and is not retired yet may hold data. The records are saved before an instance gets a volume: that instances
	// ended says nothing, unless records were lost.
	withData := rec.VolumeID != "" || vol.Incarnation < rec.Volume || len(m.Instances) > 0 && !p.Records.RebuiltAt.IsZero()
	patience := capacityPatience
	if withData {
		patience = zoneLossTimeout
	}
	if row := p.newestMembership(); withData && (row == nil || row.Has(m.Name) || len(p.primaries()) != 1) {
		return false
	}
	if p.Now.Sub(m.CapacityRefusedAt) < patience {
		return false
	}
	if rec.VolumeID == "" && vol.Incarnation < rec.Volume {
		p.retry(waitEC2, RetireVolume{m.Name, vol.ID}) // the move is recorded, and EC2 has not retired the volume yet
		return true
	}
	shift, other := p.otherZone(m.Ordinal, rec.ZoneShift, vol.Zone)
	if !other {
		return false
	}
	rec.ZoneShift = shift
	rec.Volume++
	rec.Instance++
	rec.PendingVolume, rec.Rebuilding = "", false
	if withData {
		rec.VolumeID = "" // which version opened it is kept until there is another: it may not come to be retired
		p.do(RetireVolume{m.Name, vol.ID})
	} else {
		rec.AbandonedVolume, rec.VolumeFailedAt = vol.ID, 0
		p.do(DeleteVolume{m.Name, vol.ID})
	}
	return true
}
