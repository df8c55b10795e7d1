package topology

import (
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// provisioning gives each member a volume and an instance.
type provisioning struct {
	*pass
	turns    *turns
	volumes  *volumes
	votes    *votes
	failover *failover
	scaling  *scaling
	upgrades *upgrades
}

// provision gives every wanted member its volume and its instance, side by side.
func (p *provisioning) provision() {
	for ordinal := range p.Replicas {
		name := p.MemberName(ordinal)
		if p.Members[name] == nil {
			p.Members[name] = &Member{Name: name, Ordinal: ordinal}
		}
	}
	p.volumes.recordVolumes()
	p.turns.recordVersions()
	p.upgrades.forgetRebuilds()
	p.scaling.dropAbsent()
	p.upgrades.forgetDowngraded()
	p.failover.finishDeposed()
	p.volumes.findSource()
	if p.Launchable && !p.mayCreate().Waits() {
		// Idempotent and free of calls while all is as it should be, so that drift is put back too.
		p.plan.Actions = append(p.plan.Actions, EnsureSecurityGroup{})
	}
	for _, m := range p.ordered() {
		v := &View{Name: m.Name, Phase: v1alpha1.PhaseProvisioning, Role: v1alpha1.RoleNone, Version: m.SQL.Version}
		p.views[m.Name] = v
		describe(m, v)
		p.reportTransition(m)
		p.reportEnds(m)
		if v.Step = p.fromEC2(p.provisionMember(m)); !v.Step.Waits() || m.verified() {
			v.Phase = v1alpha1.PhaseEC2Ready
		}
	}
}

func describe(m *Member, v *View) {
	if vol := m.volume(); vol != nil {
		v.VolumeID, v.Zone = vol.ID, vol.Zone
	}
	if in := m.CurrentInstance(); in != nil {
		v.InstanceID, v.Address = in.ID, in.Address
	}
	v.Disk = m.SQL.Disk
}

// mayCreate returns why nothing may be created at the moment, or "".
func (p *provisioning) mayCreate() Step {
	switch rebuilt := p.Records.RebuiltAt; {
	case !p.CloudReachable:
		return waits("waiting for EC2's API")
	case len(p.Subnets) == 0:
		return waitsFor("the subnets of spec.aws.subnetIDs", p.SubnetsProblem)
	case p.volumes.unsourced.Waits() && !p.holdsVolumes():
		return p.volumes.unsourced
	case !rebuilt.IsZero() && p.Now.Sub(rebuilt) < settling:
		return waits("waiting two minutes before anything is created: the members' records were lost and rebuilt from EC2's tags")
	}
	return Step{}
}

// provisionMember plans a member's next step in EC2 and returns what it waits for, or "" when its instance is up.
func (p *provisioning) provisionMember(m *Member) Step {
	vol, in := m.volume(), p.instanceFor(m)
	p.volumes.removeLateVolume(m)
	switch {
	case m.Ordinal >= p.Replicas && (vol == nil || !p.turns.mayBeNeeded(m)):
		return p.scaling.endWithoutVolume(m, in) // it is about to be taken away
	case p.turns.downgrading(m) && (vol == nil || !p.turns.mayBeNeeded(m)):
		return waits("being taken back to MySQL " + p.turns.downgradeVersion(m))
	case vol == nil:
		return p.needVolume(m)
	case vol.State == volumeError && vol.AttachedTo == "":
		return p.volumes.failedVolume(m, vol)
	case in == nil && vol.State == volumeCreating && p.plan.Records.Members[m.Name].VolumeFailedAt != 0:
		p.waitAtMost(waitEC2)
		return waits("creating the data volume once more") // what EC2 could not make before is no reason for an instance yet
	case in == nil:
		return p.needInstance(m, vol)
	}
	p.endSurplus(m, in)
	if why := p.endElsewhere(m, vol, in); why.Waits() {
		return why
	}
	return p.instanceComes(m, vol, in)
}

// instanceComes plans the next step towards a member's instance that runs with its volume, and returns what it waits for.
func (p *provisioning) instanceComes(m *Member, vol *Volume, in *Instance) Step {
	switch in.State {
	case statePending:
		p.waitForEC2(in)
		return waits("instance " + in.ID + " is pending")
	case stateStopping:
		// A stop takes seconds, and the member is away meanwhile; one that takes longer is stuck.
		if m.DownSince.IsZero() || p.Now.Sub(m.DownSince) < eagerStop {
			p.waitAtMost(waitMySQL)
		}
		p.waitAtMost(waitEC2)
		return waits("instance " + in.ID + " is stopping")
	case stateStopped:
		if why := p.settles(m, vol); why.Waits() {
			return why
		}
		if next := p.successorOf(m, in); next != nil && p.turns.rolling(m) && !p.turns.tooNew(m) {
			return waits(fmt.Sprintf("instance %s is stopped; its volume moves to %s", in.ID, next.ID))
		}
		if primaries := p.primaries(); len(primaries) == 1 && p.turns.tooNew(m) && p.votes.onlyFailed(primaries[0]) {
			p.waitAtMost(waitMySQL)
			return waits("instance " + in.ID + " is stopped until it has lost its vote")
		}
		return p.needStart(m, vol, in)
	case stateRunning:
		return p.needAttachment(m, vol, in)
	}
	p.waitAtMost(waitEC2)
	return waits(fmt.Sprintf("instance %s is %s", in.ID, in.State))
}

// needStart plans to start a stopped instance. One that a zone without capacity cannot start is ended after a while, which
// frees its volume.
//
// While EC2's lists are silent, what they showed as stopped is started all the same: EC2 counts its starts apart from its lists, and to
// start an instance that runs changes nothing.
func (p *provisioning) needStart(m *Member, vol *Volume, in *Instance) Step {
	switch {
	case m.verified(), p.busy(m.Name), !p.CloudReachable && p.Records.forced(in.ID):
		p.waitAtMost(waitEC2)
		return waits("instance " + in.ID + " is stopped")
	case !p.CloudReachable:
		p.retry(waitEC2, StartInstance{m.Name, in.ID})
		return waits("instance " + in.ID + " was stopped; starting it")
	}
	if m.CapacityRefused == vol.Zone {
		p.degraded(v1alpha1.ReasonInsufficientCapacity, fmt.Sprintf("%s: EC2 has no capacity to start instance %s in %s at the moment", m.Name, in.ID, vol.Zone))
		row := p.newestMembership()
		if p.Now.Sub(m.CapacityRefusedAt) >= zoneLossTimeout && row != nil && !row.Has(m.Name) && len(p.primaries()) == 1 {
			p.retry(waitEC2, TerminateInstance{m.Name, in.ID})
			return waits("ending instance " + in.ID + ", which its zone has no capacity to start")
		}
		p.retry(waitEC2, StartInstance{m.Name, in.ID})
		return waits("EC2 has no capacity in " + vol.Zone + " at the moment")
	}
	p.do(StartInstance{m.Name, in.ID})
	return waits("instance " + in.ID + " is stopped; starting it")
}

// needVolume plans a new volume.
func (p *provisioning) needVolume(m *Member) Step {
	if why := p.mayCreate(); why.Waits() {
		p.waitAtMost(waitEC2)
		return why
	}
	if m == p.firstMember() && p.volumes.unsourced.Waits() {
		return p.volumes.unsourced // findSource says when to look again
	}
	if why := p.volumes.retryFailedVolume(m); why.Waits() {
		return why
	}
	rec := p.plan.Records.Members[m.Name]
	if rec.VolumeID != "" {
		if !p.volumeLost(m) {
			p.waitAtMost(waitEC2)
			return waits("volume " + rec.VolumeID + " is not shown by EC2; waiting until that is certain")
		}
		if why := p.failover.recoveredInVain(rec.VolumeID); why.Waits() {
			return why
		}
		if why := p.mustKeepVote(m, rec.VolumeID); why.Waits() {
			return why
		}
		if in := m.CurrentInstance(); in != nil {
			// It was told to look for the lost volume, and would never find another.
			p.retry(waitEC2, TerminateInstance{m.Name, in.ID})
			return waits("ending instance " + in.ID + ", whose volume is gone")
		}
		rec.Volume++
		rec.VolumeID, rec.Opened, rec.Rebuilding = "", "", false
	}
	if !p.Launchable {
		p.waitAtMost(waitEC2)
		return waitsFor("the preflight checks", p.LaunchProblem)
	}
	rec.Volume, rec.Opened = max(rec.Volume, 1, p.deadVolumeIncarnation(m)+1), ""
	zone := p.subnetFor(m.Ordinal, rec.ZoneShift).Zone
	if shift, other := p.otherZone(m.Ordinal, rec.ZoneShift, zone); other && m.CapacityRefused == zone && p.Now.Sub(m.CapacityRefusedAt) >= capacityPatience {
		// EC2 has no room for a volume there. An order that it took after all would have been answered again.
		rec.ZoneShift, zone = shift, p.subnetFor(m.Ordinal, shift).Zone
		rec.Volume++
	}
	p.plan.Records.Members[m.Name] = rec
	create := CreateVolume{Member: m.Name, Incarnation: rec.Volume, Zone: zone, SnapshotID: p.volumes.snapshotToBeginWith(m)}
	p.do(create)
	if create.SnapshotID != "" {
		return waits("creating the data volume from " + create.SnapshotID)
	}
	return waits("creating the data volume")
}

// deadVolumeIncarnation returns the newest incarnation among the volumes that EC2 still shows on their way out:
// their tokens are used up.
func (st *state) deadVolumeIncarnation(m *Member) int {
	newest := 0
	for _, v := range m.Volumes {
		if v.gone() {
			newest = max(newest, v.Incarnation)
		}
	}
	return newest
}

// mustKeepVote returns why a volume that carried data and is gone must not be replaced by an empty one yet: as long as
// the member may be a voter, an empty server in its place would pass for a holder of acknowledged commits. Its vote must
// be taken first, see quorum.go; and without any membership row in sight nobody knows who votes.
func (p *provisioning) mustKeepVote(m *Member, volumeID string) Step {
	row := p.newestMembership()
	if row != nil && !row.Has(m.Name) || row == nil && p.Records.Bootstrapped == "" && !p.Records.Established {
		return Step{}
	}
	p.waitAtMost(waitEC2)
	message := fmt.Sprintf("%s: volume %s with its data is gone; it is replaced when the member is no longer a voter", m.Name, volumeID)
	if row == nil {
		message = fmt.Sprintf("%s: volume %s with its data is gone and no member that knows the voters answers; it is not replaced by an empty one. Bring another member back, or restore from a backup", m.Name, volumeID)
	}
	p.degraded(v1alpha1.ReasonMemberMissing, message)
	return waits("volume " + volumeID + " is gone")
}

// mayLaunch returns why no instance may be launched at the moment, or "".
func (p *provisioning) mayLaunch() Step {
	if why := p.mayCreate(); why.Waits() {
		p.waitAtMost(waitEC2)
		return why
	}
	if !p.Launchable {
		p.waitAtMost(waitEC2)
		return waitsFor("the preflight checks", p.LaunchProblem)
	}
	if p.ManagedSecurityGroup && p.SecurityGroup == "" {
		p.waitAtMost(waitNext)
		return waits("waiting for the security group")
	}
	return Step{}
}

// untried returns why nothing is made of a template yet, or "".
func (p *pass) untried(hash string) Step {
	if p.Untried == "" || hash != p.TemplateHash {
		return Step{}
	}
	p.waitAtMost(waitEC2)
	return waits(p.Untried)
}

// launchOf returns the launch of a member's next instance in the zone of its volume, made from the present spec or as before, or
// why there can be none. Its incarnation is remembered first, and used until EC2 shows an instance of it.
func (p *provisioning) launchOf(m *Member, vol *Volume, before bool) (LaunchInstance, Step) {
	rec := p.plan.Records.Members[m.Name]
	subnet, ok := p.subnetInZone(vol.Zone, m.Ordinal, rec.ZoneShift)
	if !ok {
		p.waitAtMost(waitReady)
		p.degraded(v1alpha1.ReasonInvalidSpec, fmt.Sprintf("%s: no subnet of spec.aws.subnetIDs is in %s, where its volume %s is; append one", m.Name, vol.Zone, vol.ID))
		return LaunchInstance{}, waits("no subnet in the zone of its volume")
	}
	from := Template{p.TemplateHash, p.Version}
	if before {
		from = p.PreviousTemplate
	}
	if why := p.untried(from.Hash); why.Waits() {
		return LaunchInstance{}, why
	}
	used := 0
	for _, in := range m.Instances {
		used = max(used, in.Incarnation) // their tokens are used up
	}
	rec.recordLaunch(max(rec.Instance, used+1), from.Version)
	switch {
	case before && p.upgrades.toSeed(m):
		rec.ToSeed = rec.Instance
	case rec.ToSeed == rec.Instance:
		rec.ToSeed = 0 // ordered once more, from the present spec
	}
	p.plan.Records.Members[m.Name] = rec
	return LaunchInstance{Member: m.Name, Ordinal: m.Ordinal, Incarnation: rec.Instance, SubnetID: subnet.ID, VolumeID: vol.ID, VolumeIncarnation: max(vol.Incarnation, 1), Previous: before}, Step{}
}

// needInstance plans a new instance in the zone of the member's volume.
func (p *provisioning) needInstance(m *Member, vol *Volume) Step {
	if why := p.mayLaunch(); why.Waits() {
		return why
	}
	if why := p.volumeWaits(m, vol); why.Waits() {
		return why
	}
	if why := p.relaunchWaits(m, vol); why.Waits() {
		return why
	}
	if why := p.upgrades.unknownDonors(m); why.Waits() {
		return why
	}
	before := p.upgrades.launchesPrevious(m)
	if opened := p.plan.Records.Members[m.Name].Opened; !before && opened != "" && mysql.OlderVersion(opened, p.Version) {
		// Without an instance it is known to acknowledge nothing, so that the others can go on without it.
		if why := p.upgrades.waitForTrial(m, p.Version); why.Waits() {
			return why
		}
	}
	launch, why := p.launchOf(m, vol, before)
	if why.Waits() {
		return why
	}
	if before && p.plan.Records.Rolling == m.Name {
		p.turns.endRolling(false) // it gets what it was to have in a later one
	}
	if m.CapacityRefused == vol.Zone {
		p.retry(waitEC2, launch) // no hot loop against a zone that has nothing to give
		p.degraded(v1alpha1.ReasonInsufficientCapacity, fmt.Sprintf("%s: EC2 has %s for its instance at the moment", m.Name, p.lacksRoom(vol.Zone)))
		return waits("EC2 has " + p.lacksRoom(vol.Zone) + " at the moment")
	}
	p.do(launch)
	if before {
		return waits(fmt.Sprintf("launching an instance with MySQL %s; %s comes in its turn", p.PreviousTemplate.Version, p.Version))
	}
	return waits("launching an instance")
}

// volumeWaits returns what the volume of a member waits for that has no instance.
func (p *provisioning) volumeWaits(m *Member, vol *Volume) Step {
	if why := p.settles(m, vol); why.Waits() {
		return why
	}
	rec := p.plan.Records.Members[m.Name]
	switch {
	case vol.State != volumeAvailable && vol.State != volumeCreating:
		p.waitAtMost(waitEC2)
		if vol.AttachedTo == "" {
			return waits(fmt.Sprintf("volume %s is still %s", vol.ID, vol.State))
		}
		return waits(fmt.Sprintf("volume %s is still %s by instance %s, %s", vol.ID, vol.State, vol.AttachedTo, m.holder(vol)))
	case vol.ID == rec.AbandonedVolume && rec.VolumeFailedAt == 0:
		p.retry(waitEC2, DeleteVolume{m.Name, vol.ID}) // EC2's lists are late, or it refused
		return waits(p.lacksRoom(vol.Zone) + "; waiting for the end of volume " + vol.ID)
	case p.moveZone(m, vol, &rec):
		p.plan.Records.Members[m.Name] = rec
		return waits(p.lacksRoom(vol.Zone) + "; moving to another zone")
	}
	return Step{}
}

// needAttachment plans the attachment of the volume to the running instance.
func (p *provisioning) needAttachment(m *Member, vol *Volume, in *Instance) Step {
	switch {
	case vol.AttachedTo == in.ID && vol.AttachState == attachAttached:
		if in.Impaired && !m.verified() {
			p.waitAtMost(waitEC2)
			what, advice := "instance "+in.ID, ""
			if in.VolumesImpaired {
				what = "a volume of instance " + in.ID
				advice = ". EBS does not complete its reads and writes, and another start of the instance may not help: see the AWS Health Dashboard"
			}
			p.degraded(v1alpha1.ReasonMemberUnreachable, m.Name+": "+p.ec2Calls(what, "impaired")+advice)
			return waits(what + " is impaired")
		}
		return Step{}
	case vol.AttachedTo == in.ID, vol.State == volumeCreating:
		p.waitForEC2(in)
		return waits(fmt.Sprintf("volume %s is being attached", vol.ID))
	case vol.State == volumeAvailable:
		if p.CloudReachable {
			if p.lostItsVolume(m, in) {
				p.stop(m, in)
				return waits(fmt.Sprintf("volume %s was detached while instance %s ran, which mounts it only as it starts; stopping and starting it", vol.ID, in.ID))
			}
			if why := p.settles(m, vol); why.Waits() {
				return why
			}
			if why := p.upgrades.mayOpen(m, vol, in); why.Waits() {
				return why
			}
			p.volumes.recordVolume(m, vol) // whatever EC2 shows of it later
			p.do(AttachVolume{m.Name, vol.ID, in.ID})
		}
		return waits("attaching volume " + vol.ID)
	}
	p.waitAtMost(waitEC2)
	return waits(fmt.Sprintf("volume %s is %s", vol.ID, vol.State))
}

// instanceFor returns the instance that a member is to have its volume on: the one that has it, else the newest that was made
// from the present spec, else the newest.
func (d Desired) instanceFor(m *Member) *Instance {
	current, vol := m.CurrentInstance(), m.volume()
	if current == nil || vol == nil || vol.AttachedTo != "" || current.TemplateHash == d.TemplateHash {
		return current
	}
	if next := d.successorOf(m, current); next != nil {
		return next
	}
	return current
}

// endSurplus ends the instances of a member that are not the one its volume is attached to.
func (p *provisioning) endSurplus(m *Member, in *Instance) {
	vol := m.volume()
	if vol == nil || vol.AttachedTo != in.ID || p.Records.Rolling == m.Name && m.Ordinal < p.Replicas && !p.turns.tooNew(m) {
		return // which one is the member's is not settled yet, or is about to change; one that is taken back gets none of them
	}
	for _, other := range m.Instances {
		switch {
		case other.ID == in.ID || other.gone():
		case p.CloudReachable:
			p.retry(waitEC2, TerminateInstance{m.Name, other.ID})
		default:
			p.waitAtMost(waitEC2) // an instance that nobody needs costs money until EC2 answers again
		}
	}
}

// endElsewhere ends an instance that can never have the member's volume, because it is in another zone, and says so: it was
// launched for a volume that is gone, and EC2 showed it, or the end of that volume, late.
func (p *provisioning) endElsewhere(m *Member, vol *Volume, in *Instance) Step {
	if in.gone() || m.verified() || !apart(in, vol) {
		return Step{}
	}
	for _, v := range m.Volumes {
		if v.AttachedTo == in.ID {
			return Step{} // not without what it holds
		}
	}
	p.waitAtMost(waitEC2)
	if p.CloudReachable {
		p.retry(waitEC2, TerminateInstance{m.Name, in.ID})
	}
	return waits(fmt.Sprintf("ending instance %s, which is in %s, for its volume %s is in %s", in.ID, in.Zone, vol.ID, vol.Zone))
}

// apart says whether an instance and a volume are in different zones.
func apart(in *Instance, vol *Volume) bool {
	return in.Zone != "" && vol.Zone != "" && in.Zone != vol.Zone
}

// waitForEC2 asks every second just after a launch, and every five later.
func (p *provisioning) waitForEC2(in *Instance) {
	if p.Now.Sub(in.LaunchTime) < eagerEC2 {
		p.waitAtMost(waitMySQL)
		return
	}
	p.waitAtMost(waitEC2)
}
