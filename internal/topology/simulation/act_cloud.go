package simulation

import (
	"errors"
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// takeInCloud gives an action on EC2 its effect, as controllers and internal/ec2 do, and says whether it was one.
func (p *process) takeInCloud(action topology.Action) (bool, error) {
	w, pic := p.w, p.op.picture
	switch a := action.(type) {
	case topology.EnsureSecurityGroup:
		if pic.group {
			return true, nil
		}
		return true, p.call("make the security group", func() error {
			w.cloud.group, pic.group = true, true
			return nil
		})
	case topology.DeleteSecurityGroup:
		return true, p.call(a.String(), func() error {
			w.cloud.group, pic.group = false, false
			return nil
		})
	case topology.CreateVolume:
		return true, p.createVolume(a)
	case topology.LaunchInstance:
		return true, p.launch(a)
	case topology.AttachVolume:
		return true, p.attach(a)
	case topology.DetachVolume:
		return true, p.detachVolume(a)
	case topology.ModifyVolume:
		return true, p.modify(a)
	case topology.StartInstance:
		return true, p.startInstance(a)
	case topology.StopInstance:
		return true, p.powerOff(a)
	case topology.TerminateInstance:
		return true, p.onInstance(a.String(), a.InstanceID, func(in *instance) { w.endMachine(in, "Client.UserInitiatedShutdown") })
	case topology.DeleteVolume:
		return true, p.deleteVolume(a)
	case topology.RetireVolume:
		return true, p.call(a.String(), func() error {
			v := w.volume(a.VolumeID)
			if v == nil || v.State == deleted {
				return errNotFound
			}
			v.retired = true
			if r := pic.volumes[v.ID]; r != nil {
				r.retired = true
			}
			return nil
		})
	case topology.TakeSnapshot:
		return true, p.takeSnapshot(a)
	case topology.DeleteSnapshot:
		return true, p.call(a.String(), func() error {
			for i, s := range w.cloud.snapshots {
				if s.ID == a.SnapshotID {
					w.cloud.snapshots = append(w.cloud.snapshots[:i:i], w.cloud.snapshots[i+1:]...)
					break
				}
			}
			delete(pic.snapshots, a.SnapshotID)
			return nil
		})
	}
	return false, nil
}

// token is the client token of one incarnation, which are counted anew when the records were lost.
func token(kind, member string, incarnation int, rebuilt time.Time) string {
	return fmt.Sprintf("%s %s %d %d", kind, member, incarnation, rebuilt.Unix())
}

func (p *process) createVolume(a topology.CreateVolume) error {
	w, pic := p.w, p.op.picture
	for _, r := range pic.volumes {
		if r.member == a.Member && r.value.Incarnation == a.Incarnation && !r.retired {
			return nil
		}
	}
	return p.call(a.String(), func() error {
		key := token("volume", a.Member, a.Incarnation, p.op.records.RebuiltAt)
		v := w.volume(w.cloud.tokens[key])
		if v == nil {
			v = &volume{member: a.Member, Volume: topology.Volume{
				ID: fmt.Sprintf("vol-%d", len(w.cloud.volumes)+1), Incarnation: a.Incarnation, State: creating, Zone: a.Zone, SizeGiB: w.desired.SizeGiB}}
			if a.SnapshotID != "" {
				w.inherit(v)
			}
			w.cloud.volumes = append(w.cloud.volumes, v)
			w.cloud.tokens[key] = v.ID
			w.noteVolume(v)
			w.after(w.between(100, 8*second), func() {
				if v.State == creating {
					v.State = available
					w.noteVolume(v)
				}
			})
		}
		see(pic.volumes, v.ID, v.member, v.Volume, w.now, true)
		return nil
	})
}

func (p *process) launch(a topology.LaunchInstance) error {
	w, pic := p.w, p.op.picture
	for _, r := range pic.instances {
		if r.member == a.Member && r.value.Incarnation == a.Incarnation {
			return nil
		}
	}
	zone := ""
	for _, s := range w.desired.Subnets {
		if s.ID == a.SubnetID {
			zone = s.Zone
		}
	}
	err := p.call(a.String(), func() error {
		key := token("instance", a.Member, a.Incarnation, p.op.records.RebuiltAt)
		in := w.instance(w.cloud.tokens[key])
		switch {
		case in == nil && w.cloud.noRoom[zone]:
			return errCapacity
		case in == nil:
			if v := w.volume(a.VolumeID); v != nil && v.Zone != zone {
				w.fail(wrongZone, "%s is launched in zone %s, its volume is in %s", a.Member, zone, v.Zone)
			}
			from := topology.Template{Hash: w.desired.TemplateHash, Version: w.desired.Version}
			if a.Before {
				from = p.op.desired.Before
			}
			in = w.makeInstance(a.Member, a.Incarnation, zone, from)
			w.cloud.tokens[key] = in.ID
		case in.State == terminated && w.now-in.past[len(in.past)-1].since > 30*minute:
			return errUsedUp
		}
		see(pic.instances, in.ID, in.member, in.Instance, w.now, true)
		return nil
	})
	refusedIn := ""
	if errors.Is(err, errCapacity) {
		refusedIn = zone
	}
	p.op.noteCapacity(a.Member, refusedIn)
	if errors.Is(err, errUsedUp) {
		return errors.Join(err, p.saveRecords(func(r *topology.Records) {
			rec := r.Members[a.Member]
			rec.Instance = max(rec.Instance, a.Incarnation+1)
			r.Members[a.Member] = rec
		}))
	}
	return err
}

func (p *process) attach(a topology.AttachVolume) error {
	w, pic := p.w, p.op.picture
	return p.call(a.String(), func() error {
		v, in := w.volume(a.VolumeID), w.instance(a.InstanceID)
		switch {
		case v == nil || in == nil:
			return errNotFound
		case v.AttachedTo == in.ID:
			return nil
		case v.State != available || in.State != running && in.State != stopped || v.Zone != in.Zone:
			return errState
		}
		w.attach(v, in)
		see(pic.volumes, v.ID, v.member, v.Volume, w.now, false)
		return nil
	})
}

func (p *process) modify(a topology.ModifyVolume) error {
	w, modified := p.w, false
	err := p.call(a.String(), func() error {
		v := w.volume(a.VolumeID)
		if v == nil || v.State == deleted {
			return errNotFound
		}
		if w.people != nil && v.member == w.people.stubborn {
			return errState
		}
		modified = v.SizeGiB < w.desired.SizeGiB
		v.SizeGiB = max(v.SizeGiB, w.desired.SizeGiB)
		w.noteVolume(v)
		see(p.op.picture.volumes, v.ID, v.member, v.Volume, w.now, false)
		return nil
	})
	delete(p.op.unmodified, a.Member)
	if errors.Is(err, errState) {
		p.op.unmodified[a.Member] = err.Error()
	}
	if err != nil || !modified {
		return err
	}
	return p.saveRecords(func(r *topology.Records) {
		rec := r.Members[a.Member]
		rec.NoteModified(a.VolumeID, w.time())
		r.Members[a.Member] = rec
	})
}

// detachVolume takes a stopped machine's volume. From a running one the guest would have to let go.
func (p *process) detachVolume(a topology.DetachVolume) error {
	w, pic := p.w, p.op.picture
	return p.call(a.String(), func() error {
		v, in := w.volume(a.VolumeID), w.instance(a.InstanceID)
		switch {
		case v == nil || in == nil:
			return errNotFound
		case v.AttachedTo != in.ID:
			return nil
		case in.State != stopped:
			return errState
		}
		in.volume = nil
		v.AttachState = "detaching"
		w.noteVolume(v)
		see(pic.volumes, v.ID, v.member, v.Volume, w.now, false)
		w.after(w.between(200, 5*second), func() {
			if v.AttachedTo == in.ID && v.AttachState == "detaching" {
				w.release(v)
			}
		})
		return nil
	})
}

func (p *process) startInstance(a topology.StartInstance) error {
	w, pic := p.w, p.op.picture
	return p.call(a.String(), func() error {
		in := w.instance(a.InstanceID)
		switch {
		case in == nil:
			return errNotFound
		case in.State == running || in.State == pending:
			return nil
		case in.State != stopped:
			return errState
		case w.cloud.noRoom[in.Zone]:
			return errCapacity
		}
		in.State = pending
		w.noteInstance(in)
		w.powerUp(in)
		see(pic.instances, in.ID, in.member, in.Instance, w.now, false)
		return nil
	})
}

// stopWait is how long a pass waits for EC2 to take a request to power a machine off.
const stopWait = 300

// powerOff powers a machine off. After a moment the request goes on by itself, see controllers/act.go.
func (p *process) powerOff(a topology.StopInstance) error {
	w, op := p.w, p.op
	if op.stopping[a.InstanceID] {
		return nil
	}
	op.stopping[a.InstanceID] = true
	var outcome error
	over := false
	w.spawn(op, nil, func(own *process) {
		stop := w.stopMachine
		if a.Gracefully {
			stop = w.shutDown
		}
		outcome = own.onInstance(a.String(), a.InstanceID, stop)
		over = true
		delete(op.stopping, a.InstanceID)
	})
	for waited := int64(0); waited < stopWait && !over; waited += 50 {
		p.sleep(50)
	}
	return outcome
}

// onInstance does something to a machine and takes over what became of it.
func (p *process) onInstance(what, id string, effect func(*instance)) error {
	w, pic := p.w, p.op.picture
	return p.call(what, func() error {
		in := w.instance(id)
		if in == nil {
			return nil
		}
		effect(in)
		see(pic.instances, in.ID, in.member, in.Instance, w.now, false)
		return nil
	})
}

func (p *process) deleteVolume(a topology.DeleteVolume) error {
	w, pic := p.w, p.op.picture
	return p.call(a.String(), func() error {
		v := w.volume(a.VolumeID)
		switch {
		case v == nil || v.State == deleting || v.State == deleted:
			return nil
		case v.AttachedTo != "":
			return errState
		}
		w.checkDeletion(v, p.op.desired)
		v.State = deleting
		w.noteVolume(v)
		w.after(w.between(100, 8*second), func() {
			v.State, v.st = deleted, nil
			w.noteVolume(v)
		})
		see(pic.volumes, v.ID, v.member, v.Volume, w.now, false)
		return nil
	})
}

func (p *process) takeSnapshot(a topology.TakeSnapshot) error {
	w, pic := p.w, p.op.picture
	return p.call(a.String(), func() error {
		for _, s := range w.cloud.snapshots {
			if s.VolumeID == a.VolumeID && s.Purpose == a.Purpose {
				see(pic.snapshots, s.ID, "", s.Snapshot, w.now, false)
				return nil
			}
		}
		v := w.volume(a.VolumeID)
		if v == nil || v.State == deleted || v.State == deleting {
			return errNotFound
		}
		s := &snapshot{Snapshot: topology.Snapshot{
			ID: fmt.Sprintf("snap-%d", w.serial), Member: a.Member, VolumeID: a.VolumeID, Purpose: a.Purpose, State: pending, StartedAt: w.time()}}
		s.past = append(s.past, sighting[topology.Snapshot]{w.now, s.Snapshot})
		w.cloud.snapshots = append(w.cloud.snapshots, s)
		w.after(w.between(second, 40*second), func() {
			s.State = completed
			s.past = append(s.past, sighting[topology.Snapshot]{w.now, s.Snapshot})
		})
		see(pic.snapshots, s.ID, "", s.Snapshot, w.now, true)
		return nil
	})
}
