package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// EC2's words for states.
const (
	pending      = "pending"
	running      = "running"
	stopping     = "stopping"
	stopped      = "stopped"
	shuttingDown = "shutting-down"
	terminated   = "terminated"

	creating  = "creating"
	available = "available"
	inUse     = "in-use"
	deleting  = "deleting"
	deleted   = "deleted"

	attaching = "attaching"
	detaching = "detaching"
	attached  = "attached"

	completed = "completed"
)

// cloud is EC2 as it really is. What its API tells is in api.go.
type cloud struct {
	instances []*instance
	volumes   []*volume
	snapshots []*snapshot
	group     bool
	tokens    map[string]string // client token to id
	noRoom    map[string]bool   // zones without capacity
	full      map[string]bool   // subnets without a free address
	slow      *rand.Rand        // draws how long an order takes, nil for no time
	stops     stops
	rotation  rotation
}

// lacksRoom is why no instance can be launched in a subnet of a zone; nil when one can.
func (c *cloud) lacksRoom(zone, subnet string) error {
	switch {
	case c.noRoom[zone]:
		return errCapacity
	case c.full[subnet]:
		return errNoAddress
	}
	return nil
}

type instance struct {
	topology.Instance
	member string
	node   int
	// powered is whether the instance runs, whatever EC2 says; frozen whether its kernel answers and nothing else happens.
	powered, frozen bool
	// version is that of the mysqld that the instance was set up with.
	version string
	certificate
	// clockAhead is how far its clock is ahead, negative when it is behind.
	clockAhead time.Duration
	// failures counts the starts of mysqld in a row that failed because of what is persisted.
	failures int
	volume   *volume
	server   *mysqld
	lives
	cycle int // how often its state changed; an older change that comes late does nothing
	// lingers is until when the host goes on that EC2 has called stopped after a stop by force; 0 when it does not.
	lingers int64
	past    []staleRead[topology.Instance]
}

// certificate is that of a member: whether it has one, and when it was signed last.
type certificate struct {
	signed   bool
	signedAt int64
}

// lives are those of an instance and of its mysqld.
type lives struct {
	// boots counts how often mysqld was told to start: an older start that comes late does nothing.
	boots int
	// outages counts how often the instance lost its power, crashes how often mysqld ended while the instance went on.
	outages, crashes int
	// shutDown is true when the last run of mysqld was shut down, ranIn is in which outage it began, from 1; 0 for none.
	shutDown bool
	ranIn    int
	// unreported is true for an instance that does not report its boots, as one of an older version of the operator.
	unreported bool
}

type volume struct {
	topology.Volume
	member  string
	retired bool
	st      *store
	// lateUntil is until when writes of a host may arrive that EC2 has called stopped.
	lateUntil int64
	damaged   bool // mysqld does not start on it
	past      []staleRead[topology.Volume]
}

type snapshot struct {
	topology.Snapshot
	past []staleRead[topology.Snapshot]
}

// staleRead is what something was from a time on.
type staleRead[T any] struct {
	since int64
	value T
}

// asOf returns what something was at a time; false when it was not there yet.
func asOf[T any](past []staleRead[T], at int64) (T, bool) {
	for n := len(past) - 1; n >= 0; n-- {
		if past[n].since <= at {
			return past[n].value, true
		}
	}
	var none T
	return none, false
}

func (w *world) recordInstance(in *instance) {
	in.past = append(in.past, staleRead[topology.Instance]{w.now, in.Instance})
	w.say("%s: instance %s is %s", in.member, in.ID, in.State)
}

func (w *world) recordVolume(v *volume) {
	v.past = append(v.past, staleRead[topology.Volume]{w.now, v.Volume})
	w.say("%s: volume %s is %s, attached to %q", v.member, v.ID, v.State, v.AttachedTo)
}

func (w *world) at(ms int64) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }

func (w *world) instance(id string) *instance {
	for _, in := range w.cloud.instances {
		if in.ID == id {
			return in
		}
	}
	return nil
}

func (w *world) volume(id string) *volume {
	for _, v := range w.cloud.volumes {
		if v.ID == id {
			return v
		}
	}
	return nil
}

// serverAt returns the mysqld behind an address, nil when none runs there.
func (w *world) serverAt(address string) *mysqld {
	for _, in := range w.cloud.instances {
		if in.Address == address {
			return in.server
		}
	}
	return nil
}

// serverOf returns a member's mysqld, nil when none runs.
func (w *world) serverOf(node int) *mysqld {
	for _, in := range w.cloud.instances {
		if in.node == node && in.server != nil {
			return in.server
		}
	}
	return nil
}

// makeInstance makes an instance that is about to run.
func (w *world) makeInstance(member string, incarnation int, zone string, t topology.Template) *instance {
	node, _ := w.desired.Ordinal(member)
	n := len(w.cloud.instances) + 1
	in := &instance{
		Instance: topology.Instance{
			ID: fmt.Sprintf("i-%d", n), Incarnation: incarnation, State: pending, Zone: zone, Address: address(n), LaunchTime: w.time(),
			TemplateHash: t.Hash, BareMetal: w.shape.metal,
		},
		member: member, node: node, version: t.Version,
	}
	w.cloud.instances = append(w.cloud.instances, in)
	w.recordInstance(in)
	w.powerUp(in)
	return in
}

// powerUp lets a pending instance run after a while.
func (w *world) powerUp(in *instance) {
	in.cycle++
	cycle := in.cycle
	w.after(w.between(second, 15*second), func() {
		if in.cycle != cycle || in.State != pending {
			return
		}
		if in.lingers > 0 {
			w.cloud.stops.endLingering(in) // it runs on another host
		}
		in.State, in.powered, in.Impaired = running, true, false
		w.recordInstance(in)
		in.startHardware(w)
		w.bootMySQL(in, w.between(2*second, 10*second))
	})
}

// startHardware keeps a bare-metal instance silent for as long as the slowest generation takes.
func (in *instance) startHardware(w *world) {
	cycle := in.cycle
	if in.BareMetal {
		in.frozen = true
		w.after(13*minute, func() { in.frozen = in.frozen && in.cycle != cycle })
	}
}

// bootMySQL starts mysqld after a while, if the instance still runs then and has its volume.
func (w *world) bootMySQL(in *instance, delay int64) {
	in.boots++
	boot := in.boots
	w.after(delay, func() {
		if in.boots != boot || !in.powered || in.lingers > 0 || in.server != nil || in.volume == nil || in.volume.AttachState != attached || in.volume.damaged {
			return
		}
		if in.frozen {
			w.bootMySQL(in, second)
			return
		}
		if in.volume.st == nil {
			in.volume.st = &store{uuid: w.ledger.newServer(), persisted: map[string]string{}}
			w.say("%s: volume %s is initialised", in.member, in.volume.ID)
		}
		if in.volume.lateUntil > w.now && !w.forgot { // lost records knew who was stopped by force
			w.fail(lateWrites, "%s: %s is used on %s while its last host may still write to it", in.member, in.volume.ID, in.ID)
		}
		w.start(in, in.volume.st)
	})
}

// powerOff cuts an instance's power.
func (w *world) powerOff(in *instance) {
	in.powered, in.frozen = false, false
	in.outages++
	in.boots++
	if in.server != nil {
		in.server.end(true)
	}
	w.roles = true
	w.wake()
}

// stopInstance powers an instance off. It serves on for a moment.
func (w *world) stopInstance(in *instance) { w.halt(in, false) }

// shutDown lets an instance shut its mysqld down before it is powered off.
func (w *world) shutDown(in *instance) { w.halt(in, true) }

func (w *world) halt(in *instance, gracefully bool) {
	if in.State != running && in.State != pending {
		return
	}
	in.State = stopping
	in.cycle++
	cycle := in.cycle
	w.recordInstance(in)
	serves := w.between(100, 12*second)
	if w.shape.slowStops {
		serves += w.between(20, 70) * second
	}
	w.after(serves, func() {
		if in.cycle != cycle {
			return
		}
		if gracefully && in.server != nil {
			in.server.shutdown()
		}
		w.powerOff(in)
		w.after(w.between(100, 20*second), func() {
			if in.cycle == cycle {
				in.State = stopped
				w.recordInstance(in)
			}
		})
	})
}

// endInstance terminates an instance and lets go of its volume.
func (w *world) endInstance(in *instance, reason string) {
	if in.State == shuttingDown || in.State == terminated {
		return
	}
	in.State, in.StateReason = shuttingDown, reason
	in.cycle++
	w.recordInstance(in)
	w.after(w.between(100, 10*second), func() {
		w.powerOff(in)
		w.after(w.between(second, 30*second), func() {
			in.State = terminated
			w.recordInstance(in)
			if v := in.volume; v != nil {
				in.volume = nil
				w.after(w.between(0, 5*second), func() { w.release(v) })
			}
		})
	})
}

// release ends a volume's attachment.
func (w *world) release(v *volume) {
	if v.State == inUse {
		v.State, v.AttachedTo, v.AttachState = available, "", ""
		w.recordVolume(v)
	}
}

// attach gives an instance its volume.
func (w *world) attach(v *volume, in *instance) {
	v.State, v.AttachedTo, v.AttachState = inUse, in.ID, attaching
	w.recordVolume(v)
	w.after(w.between(200, 5*second), func() {
		if v.AttachedTo != in.ID || v.AttachState != attaching {
			return
		}
		if in.State == terminated || in.State == shuttingDown {
			w.release(v)
			return
		}
		v.AttachState = attached
		in.volume = v
		w.recordVolume(v)
		if in.powered {
			w.bootMySQL(in, w.between(second, 6*second))
		}
	})
}

// loseVolume is a failure of EBS: the volume and all on it are gone.
func (w *world) loseVolume(v *volume) {
	if in := w.instance(v.AttachedTo); in != nil {
		in.volume = nil
		in.boots++
		if in.server != nil {
			in.server.end(true)
		}
	}
	v.State, v.AttachedTo, v.AttachState, v.st = deleted, "", "", nil
	w.recordVolume(v)
}

// begin returns the boot in which a run of mysqld begins and whether the run in front of it was shut down, as the instance reports it.
func (in *instance) begin() (boot string, shutDown bool) {
	shutDown = in.shutDown
	if in.ranIn == in.outages+1 && !shutDown {
		in.crashes++
	}
	in.ranIn, in.shutDown = in.outages+1, false
	if in.unreported {
		return "", false
	}
	return fmt.Sprintf("boot %d of %s", in.outages, in.ID), shutDown
}

// restart is what an instance does whose kernel panics: it boots again, and EC2 calls it running all the while.
func restart(w *world, in *instance, boot int64) {
	w.say("%s: instance %s restarts", in.member, in.ID)
	w.powerOff(in)
	in.powered = true
	w.bootMySQL(in, boot)
}
