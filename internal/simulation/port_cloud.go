package simulation

import (
	"context"
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

var _ engine.Cloud = cloudPort{}

// cloudPort is EC2 as internal/ec2 shows it.
type cloudPort struct{ op *operator }

// EnsureSecurityGroup makes the group where the operator knows of none.
func (c cloudPort) EnsureSecurityGroup(ctx context.Context) error {
	w, pic := c.op.w, c.op.picture
	if pic.group {
		return nil
	}
	return processOf(ctx).call("make the security group", func() error {
		w.cloud.group, pic.group = true, true
		return nil
	})
}

// DeleteSecurityGroup deletes it.
func (c cloudPort) DeleteSecurityGroup(ctx context.Context, a topology.DeleteSecurityGroup) error {
	return processOf(ctx).call(a.String(), func() error {
		c.op.w.cloud.group, c.op.picture.group = false, false
		return nil
	})
}

// RetireVolume takes a volume off its member.
func (c cloudPort) RetireVolume(ctx context.Context, a topology.RetireVolume) error {
	return processOf(ctx).call(a.String(), func() error {
		v := c.op.w.volume(a.VolumeID)
		if v == nil || v.State == deleted {
			return errNotFound
		}
		v.retired = true
		if r := c.op.picture.volumes[v.ID]; r != nil {
			r.retired = true
		}
		return nil
	})
}

// DeleteSnapshot deletes a snapshot.
func (c cloudPort) DeleteSnapshot(ctx context.Context, a topology.DeleteSnapshot) error {
	w, pic := c.op.w, c.op.picture
	return processOf(ctx).call(a.String(), func() error {
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

// CopyVolume is asked for by no plan here: no cluster of the simulation begins with another's volume that lives.
func (c cloudPort) CopyVolume(_ context.Context, a topology.CopyVolume) error {
	return fmt.Errorf("nobody knows how to %s", a)
}

// RestoreTags is asked for by no plan here: nobody takes tags away.
func (c cloudPort) RestoreTags(context.Context, string, map[string]string) error { return nil }

// TagVersion tags a volume with the newest version that opened it.
func (c cloudPort) TagVersion(ctx context.Context, volumeID, version string) error {
	w := c.op.w
	return processOf(ctx).call("note the version of "+volumeID, func() error {
		v := w.volume(volumeID)
		if v == nil || v.State == deleted {
			return errNotFound
		}
		if versionBelow(v.Opened, version) {
			v.Opened = version
			w.recordVolume(v)
		}
		see(c.op.picture.volumes, v.ID, v.member, v.Volume, w.now, false)
		return nil
	})
}

// TerminateInstance ends an instance.
func (c cloudPort) TerminateInstance(ctx context.Context, a topology.TerminateInstance) error {
	return processOf(ctx).onInstance(a.String(), a.InstanceID, func(in *instance) { c.op.w.endInstance(in, "Client.UserInitiatedShutdown") })
}

// StopInstance powers an instance off, or shuts it down.
func (c cloudPort) StopInstance(ctx context.Context, a topology.StopInstance) error {
	stop := c.op.w.cloud.stops.cutPower
	switch {
	case a.Gracefully:
		stop = c.op.w.shutDown
	case a.Force:
		stop = c.op.w.cloud.stops.byForce
	}
	return processOf(ctx).onInstance(a.String(), a.InstanceID, stop)
}

// token is the client token of one incarnation, which are counted anew when the records were lost.
func token(kind, member string, incarnation int, rebuilt time.Time) string {
	return fmt.Sprintf("%s %s %d %d", kind, member, incarnation, rebuilt.Unix())
}

func (c cloudPort) PrepareVolume(a topology.CreateVolume) (func(context.Context) error, error) {
	key := token("volume", a.Member, a.Incarnation, c.op.records().RebuiltAt)
	return func(ctx context.Context) error { return c.createVolume(processOf(ctx), a, key) }, nil
}

func (c cloudPort) createVolume(p *process, a topology.CreateVolume, key string) error {
	w, pic := p.w, p.op.picture
	for _, r := range pic.volumes {
		if r.member == a.Member && r.value.Incarnation == a.Incarnation && !r.retired {
			return nil
		}
	}
	return p.order(a.String(), func() error {
		v := w.volume(w.cloud.tokens[key])
		if v == nil {
			v = &volume{member: a.Member, Volume: topology.Volume{
				ID: fmt.Sprintf("vol-%d", len(w.cloud.volumes)+1), Incarnation: a.Incarnation, State: creating, Zone: a.Zone, SizeGiB: w.desired.SizeGiB}}
			if a.SnapshotID != "" {
				w.inherit(v)
			}
			w.cloud.volumes = append(w.cloud.volumes, v)
			w.cloud.tokens[key] = v.ID
			w.recordVolume(v)
			w.after(w.between(100, 8*second), func() {
				if v.State == creating {
					v.State = available
					w.recordVolume(v)
				}
			})
		}
		see(pic.volumes, v.ID, v.member, v.Volume, w.now, true)
		return nil
	})
}

func (c cloudPort) PrepareLaunch(a topology.LaunchInstance) (func(context.Context) error, error) {
	w, pic := c.op.w, c.op.picture
	zone := ""
	for _, s := range w.desired.Subnets {
		if s.ID == a.SubnetID {
			zone = s.Zone
		}
	}
	from := topology.Template{Hash: w.desired.TemplateHash, Version: w.desired.Version}
	if a.Previous {
		from = c.op.desired.PreviousTemplate
	}
	key := token("instance", a.Member, a.Incarnation, c.op.records().RebuiltAt)
	return func(ctx context.Context) error {
		for _, r := range pic.instances {
			if r.member == a.Member && r.value.Incarnation == a.Incarnation {
				return nil
			}
		}
		return processOf(ctx).order(a.String(), func() error {
			in := w.instance(w.cloud.tokens[key])
			switch {
			case in == nil && w.cloud.lacksRoom(zone, a.SubnetID) != nil:
				return w.cloud.lacksRoom(zone, a.SubnetID)
			case in == nil:
				if v := w.volume(a.VolumeID); v != nil && v.Zone != zone {
					w.fail(wrongZone, "%s is launched in zone %s, its volume is in %s", a.Member, zone, v.Zone)
				}
				in = w.makeInstance(a.Member, a.Incarnation, zone, from)
				w.cloud.tokens[key] = in.ID
			case in.State == terminated && w.now-in.past[len(in.past)-1].since > 30*minute:
				return errUsedUp
			}
			see(pic.instances, in.ID, in.member, in.Instance, w.now, true)
			return nil
		})
	}, nil
}

func (c cloudPort) AttachVolume(ctx context.Context, a topology.AttachVolume) error {
	p := processOf(ctx)
	w, pic := p.w, p.op.picture
	return p.call(a.String(), func() error {
		v, in := w.volume(a.VolumeID), w.instance(a.InstanceID)
		switch {
		case v == nil || in == nil:
			return errNotFound
		case v.AttachedTo == in.ID:
			see(pic.volumes, v.ID, v.member, v.Volume, w.now, false)
			return nil
		case v.State != available || in.State != running && in.State != stopped || v.Zone != in.Zone:
			return errState
		}
		w.attach(v, in)
		see(pic.volumes, v.ID, v.member, v.Volume, w.now, false)
		return nil
	})
}

func (c cloudPort) ModifyVolume(ctx context.Context, a topology.ModifyVolume) (modified bool, err error) {
	p := processOf(ctx)
	w := p.w
	err = p.call(a.String(), func() error {
		v := w.volume(a.VolumeID)
		if v == nil || v.State == deleted {
			return errNotFound
		}
		if w.people != nil && v.member == w.people.stubborn {
			return errState
		}
		modified = v.SizeGiB < w.desired.SizeGiB
		v.SizeGiB = max(v.SizeGiB, w.desired.SizeGiB)
		w.recordVolume(v)
		see(p.op.picture.volumes, v.ID, v.member, v.Volume, w.now, false)
		return nil
	})
	return modified, err
}

// DetachVolume takes a stopped instance's volume. From a running one the guest would have to let go.
func (c cloudPort) DetachVolume(ctx context.Context, a topology.DetachVolume) error {
	p := processOf(ctx)
	w, pic := p.w, p.op.picture
	return p.call(a.String(), func() error {
		v, in := w.volume(a.VolumeID), w.instance(a.InstanceID)
		switch {
		case v == nil || in == nil:
			return errNotFound
		case v.AttachedTo != in.ID:
			see(pic.volumes, v.ID, v.member, v.Volume, w.now, false)
			return nil
		case in.State != stopped:
			return errState
		}
		if in.lingers == 0 {
			in.volume = nil
		}
		v.AttachState = detaching
		w.recordVolume(v)
		see(pic.volumes, v.ID, v.member, v.Volume, w.now, false)
		w.after(w.between(200, 5*second), func() {
			if v.AttachedTo == in.ID && v.AttachState == detaching {
				if in.lingers > 0 {
					w.cloud.stops.endLingering(in) // EBS takes nothing from it any more; what is on its way may still arrive
				}
				in.volume = nil
				w.release(v)
			}
		})
		return nil
	})
}

func (c cloudPort) StartInstance(ctx context.Context, a topology.StartInstance) error {
	p := processOf(ctx)
	w, pic := p.w, p.op.picture
	return p.call(a.String(), func() error {
		in := w.instance(a.InstanceID)
		switch {
		case in == nil:
			return errNotFound
		case in.State == running || in.State == pending:
			see(pic.instances, in.ID, in.member, in.Instance, w.now, false) // the answer says so
			return nil
		case in.State != stopped:
			return errState
		case w.cloud.noRoom[in.Zone]:
			return errCapacity
		}
		in.State, in.LaunchTime = pending, w.time()
		w.recordInstance(in)
		w.powerUp(in)
		see(pic.instances, in.ID, in.member, in.Instance, w.now, false)
		return nil
	})
}

// onInstance does something to an instance and takes over what became of it.
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

func (c cloudPort) DeleteVolume(ctx context.Context, a topology.DeleteVolume) error {
	p := processOf(ctx)
	w, pic := p.w, p.op.picture
	return p.call(a.String(), func() error {
		v := w.volume(a.VolumeID)
		switch {
		case v == nil || v.State == deleted:
			delete(pic.volumes, a.VolumeID) // EC2 knows it no more
			return nil
		case v.State == deleting:
			see(pic.volumes, v.ID, v.member, v.Volume, w.now, false)
			return nil
		case v.AttachedTo != "":
			return errState
		}
		w.checkDeletion(v, p.op.desired)
		v.State = deleting
		w.recordVolume(v)
		w.after(w.between(100, 8*second), func() {
			v.State, v.st = deleted, nil
			w.recordVolume(v)
		})
		see(pic.volumes, v.ID, v.member, v.Volume, w.now, false)
		return nil
	})
}

func (c cloudPort) TakeSnapshot(ctx context.Context, a topology.TakeSnapshot) error {
	p := processOf(ctx)
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
		s.past = append(s.past, staleRead[topology.Snapshot]{w.now, s.Snapshot})
		w.cloud.snapshots = append(w.cloud.snapshots, s)
		w.after(w.between(second, 40*second), func() {
			s.State = completed
			s.past = append(s.past, staleRead[topology.Snapshot]{w.now, s.Snapshot})
		})
		see(pic.snapshots, s.ID, "", s.Snapshot, w.now, true)
		return nil
	})
}
