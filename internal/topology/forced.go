package topology

import (
	"fmt"
	"slices"
	"time"
)

const (
	// forcedSettles is how long after the end of an instance that was stopped by force its volume is left alone. The EC2 user guide says
	// that writes may reach a volume after such a stop, and no limit; a host gives a write up that its volume does not answer after
	// 30 seconds, the time-out of Linux's NVMe driver, and this is ten times as long.
	forcedSettles = 5 * time.Minute
	// stopGivenUp is how long a member may be away on an instance that is stopping before the power is cut, whoever stopped it: EC2
	// itself ends a shutdown of the operating system sooner.
	stopGivenUp = 10 * time.Minute
)

// PowerOffs are the instances that were powered off because their members did not answer, or took writes.
type PowerOffs struct {
	// FencedPrimary is the instance of a primary that was replaced without being reached. It is powered off, whatever it does.
	FencedPrimary string `json:"deposed,omitempty"`
	// PoweredOff are the instances of unreached members that were seen stopped while a primary was looked for: started again
	// they can do no harm.
	PoweredOff []string `json:"poweredOff,omitempty"`
	// Forced are the instances that EC2 was asked to stop by force, until their volumes can be relied on. An older operator drops them,
	// and relies on EC2's word at once, as it always did.
	Forced []ForcedStop `json:"forced,omitempty"`
}

// ForcedStop is an instance that stayed in stopping after its power was to be cut, so that EC2 was asked to stop it by force, or that was
// stopping for so long that a person may have asked for that. EC2 calls it stopped in the end, and its host may go on writing to the volume
// for a while.
type ForcedStop struct {
	Instance string `json:"instance"`
	// Volume is the data volume that it had, empty for none.
	Volume string `json:"volume,omitempty"`
	// At is when EC2 was asked last, or the stop was found to last; Stopped when the instance was first seen stopped or gone after that, in Unix seconds; 0 until then.
	At      int64 `json:"at"`
	Stopped int64 `json:"stopped,omitempty"`
}

// settled says whether the volume of an instance that was stopped by force can be relied on.
func (f ForcedStop) settled(now time.Time) bool {
	return f.Stopped != 0 && now.Sub(time.Unix(f.Stopped, 0)) >= forcedSettles
}

// notAfter sets times back to now that are later: the clock of the operator that recorded them was ahead. Nothing newer than such a time
// would be seen until this clock has passed it.
func (f *ForcedStop) notAfter(now time.Time) {
	f.At, f.Stopped = min(f.At, now.Unix()), min(f.Stopped, now.Unix())
}

// recordForced remembers that an instance is stopped by force, or may be.
func (p *pass) recordForced(m *Member, in *Instance) {
	f, rec := ForcedStop{Instance: in.ID, At: p.Now.Unix()}, &p.plan.Records
	for _, v := range m.Volumes {
		if v.AttachedTo == in.ID {
			f.Volume = v.ID
		}
	}
	rec.Forced = append(slices.DeleteFunc(rec.Forced, func(other ForcedStop) bool { return other.Instance == f.Instance }), f)
}

// forced says whether an instance was stopped by force, and nobody knows of a start since.
func (p PowerOffs) forced(id string) bool {
	return slices.ContainsFunc(p.Forced, func(f ForcedStop) bool { return f.Instance == id })
}

// stop powers an instance off, unless that is under way and gets on: first its power is cut, and one that stays in stopping after that
// is stopped by force.
func (p *pass) stop(m *Member, in *Instance) {
	a := StopInstance{Member: m.Name, InstanceID: in.ID}
	switch {
	case in.State == stateRunning, in.State == statePending:
	case in.State != stateStopping || !in.StopStuck:
		return
	case in.PowerCut:
		a.Force = true
		p.recordForced(m, in)
	}
	if !slices.Contains(p.plan.Actions, Action(a)) {
		p.retry(waitMySQL, a)
	}
}

// finishStops repeats the stops that got stuck, whoever asked for them, and follows the instances that were stopped by force.
func (p *pass) finishStops() {
	if !p.CloudReachable {
		return
	}
	for _, m := range p.ordered() {
		for i := range m.Instances {
			in := &m.Instances[i]
			if in.State == stateStopping && in.StopStuck && m.downFor(p.Now) >= transitionPatience && !p.plan.Records.forced(in.ID) {
				p.recordForced(m, in) // who asks next may be a person, in EC2's console
			}
			if in.PowerCut || m.downFor(p.Now) >= stopGivenUp {
				p.finishStop(m, in)
			}
		}
	}
	p.followForced()
}

// followForced keeps the records of instances that were stopped by force up to date.
func (p *pass) followForced() {
	rec := &p.plan.Records
	for i := range rec.Forced {
		rec.Forced[i].notAfter(p.Now)
	}
	rec.Forced = slices.DeleteFunc(rec.Forced, func(f ForcedStop) bool { return f.settled(p.Now) || p.startedSince(f) })
	for i := range rec.Forced {
		if f := &rec.Forced[i]; f.Stopped == 0 && p.CloudTaken.Unix() > f.At && p.ended(f.Instance) {
			f.Stopped = p.Now.Unix()
		}
	}
}

// finishStop asks again for a stop that got stuck.
func (p *pass) finishStop(m *Member, in *Instance) {
	if in.State == stateStopping {
		p.stop(m, in)
	}
}

// startedSince says whether somebody started an instance after it was stopped by force.
func (o Observed) startedSince(f ForcedStop) bool {
	in := o.instance(f.Instance)
	return in != nil && in.State == stateRunning && in.LaunchTime.Unix() > f.At
}

// ended says whether EC2 calls an instance stopped, or does not show it any more.
func (o Observed) ended(id string) bool {
	in := o.instance(id)
	return in == nil || in.State == stateStopped || in.State == stateTerminated
}

// instance returns a member's instance by its ID, nil if EC2 shows none.
func (o Observed) instance(id string) *Instance {
	for _, m := range o.Members {
		for i := range m.Instances {
			if m.Instances[i].ID == id {
				return &m.Instances[i]
			}
		}
	}
	return nil
}

// mayStillWrite returns an instance of a member that was stopped by force and still has a volume: its host may go on, and even answer
// commits, until EC2 has detached the volume. Nil for none.
func (o Observed) mayStillWrite(m *Member) *ForcedStop {
	for i := range o.Records.Forced {
		f := &o.Records.Forced[i]
		has := func(v Volume) bool { return v.ID == f.Volume && v.AttachedTo == f.Instance }
		if !f.settled(o.Now) && slices.ContainsFunc(m.Volumes, has) {
			return f
		}
	}
	return nil
}

// settles returns what a volume waits for whose last instance was stopped by force: late writes would damage what another host does
// with it. Meanwhile it is detached, so that the host that may still run can use it no more.
func (p *pass) settles(m *Member, vol *Volume) Step {
	i := slices.IndexFunc(p.Records.Forced, func(f ForcedStop) bool { return f.Volume == vol.ID && !f.settled(p.Now) })
	if i < 0 {
		return Step{}
	}
	f := p.Records.Forced[i]
	p.waitAtMost(waitEC2)
	if p.CloudReachable && f.Stopped != 0 && vol.AttachedTo == f.Instance && vol.AttachState == attachAttached && !p.busy(m.Name) {
		p.retry(waitMySQL, DetachVolume{m.Name, vol.ID, f.Instance})
	}
	return waits(fmt.Sprintf("instance %s was stopped by force, or took minutes to stop, and its host may still write to volume %s; the volume is used again %d minutes after the stop", f.Instance, vol.ID, int(forcedSettles.Minutes())))
}
