package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

var (
	errSilent    = fmt.Errorf("no answer: %w", context.DeadlineExceeded)
	errThrottled = answer("", "RequestLimitExceeded")
	errCapacity  = answer("RunInstances", "InsufficientInstanceCapacity")
	errNoAddress = answer("RunInstances", "InsufficientFreeAddressesInSubnet")
	errState     = answer("", "IncorrectState")
	errNotFound  = answer("", "InvalidVolume.NotFound")
	errUsedUp    = answer("RunInstances", "IdempotentInstanceTerminated")
	errDenied    = answer("", "UnauthorizedOperation")
)

// answer is EC2's answer to an operation that it does not carry out.
func answer(operation, code string) error {
	return &smithy.OperationError{ServiceID: "EC2", OperationName: operation, Err: &smithy.GenericAPIError{Code: code}}
}

const (
	// callTimeout is the deadline of a call to EC2, orderTimeout that of one that makes an instance or a volume and has a client token.
	callTimeout  = 4 * second
	orderTimeout = 20 * second
	// slowOrders are so many of a hundred schedules in which EC2 takes its time for those.
	slowOrders = 25
	// freshFor is how long what this process has just made is believed in although EC2's lists do not show it.
	freshFor = 2 * minute
	// sweepEvery is how old a sweep may be when all members answer, troubledAge when one does not.
	sweepEvery  = 30 * second
	troubledAge = 5 * second
	// endingAge is how old a sweep may be when the cluster is to go.
	endingAge = 15 * second
	// goneFor is how long EC2's word that a recorded volume does not exist is believed.
	goneFor = 30 * second
)

// weather is how EC2's API behaves at the moment.
type weather struct {
	down, throttled bool
	// withoutLists: EC2 answers no list, and what is asked of it otherwise.
	withoutLists bool
	// denies begins the calls for which the operator lacks the permission; empty for none.
	denies string
	// lag is how old the describes are, up to this many milliseconds.
	lag int64
	// withoutSnapshots: EC2 answers every list but that of snapshots.
	withoutSnapshots bool
	// loses is the chance in percent that the answer of a call is lost after it took effect.
	loses float64
}

// call makes one call to EC2, see send.
func (p *process) call(what string, effect func() error) error {
	return p.send(what, callTimeout, 0, 0, effect)
}

// order makes a call that makes an instance or a volume. In some schedules it takes 2 to 20 seconds, before or after EC2 has made it.
func (p *process) order(what string, effect func() error) error {
	rng := p.w.cloud.slow
	if rng == nil {
		return p.send(what, orderTimeout, 0, 0, effect)
	}
	takes := 2*second + rng.Int64N(18*second)
	before := rng.Int64N(takes)
	return p.send(what, orderTimeout, before, takes-before, effect)
}

// drawSlow returns what draws how long EC2's orders take in a schedule, with numbers of its own; nil in most.
func drawSlow(seed, schedule uint64) *rand.Rand {
	rng := rand.New(rand.NewPCG(seed^slowSeed, schedule))
	if rng.IntN(100) < slowOrders {
		return rng
	}
	return nil
}

// slowSeed begins the numbers from which is drawn how long EC2's orders take.
const slowSeed = 0x736c6f77

// send makes one call to EC2, which takes effect after a time and is answered after another. Its deadline runs from the moment that it
// was meant to be sent: an operator that was frozen in between does not send it any more.
func (p *process) send(what string, timeout, before, after int64, effect func() error) error {
	w := p.w
	p.op.point(p)
	p.op.checkPace(what)
	deadline := w.now + timeout
	p.sleep(w.between(5, 200))
	if w.now > deadline {
		return fmt.Errorf("%s: %w: the deadline is over", what, errSilent)
	}
	switch {
	case w.shape.weather.down, w.shape.weather.withoutLists && what == describe:
		p.sleep(timeout)
		return fmt.Errorf("%s: %w", what, errSilent)
	case w.shape.weather.throttled && w.chance(80):
		return fmt.Errorf("%s: %w", what, errThrottled)
	case w.shape.weather.denies != "" && strings.HasPrefix(what, w.shape.weather.denies):
		return fmt.Errorf("%s: %w", what, errDenied)
	}
	err := p.awaitEffect(before, effect)
	if err != nil {
		w.say("%s: %s: %v", p.op.name, what, err)
	}
	if w.chance(w.shape.weather.loses) || w.now+after > deadline {
		w.say("%s: the answer to %s is lost", p.op.name, what)
		p.takes(max(deadline-w.now, 0))
		return fmt.Errorf("%s: %w", what, errSilent)
	}
	p.takes(after)
	p.op.point(p)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// awaitEffect waits until EC2 has carried something out, which it does whatever becomes of who asked for it meanwhile.
func (p *process) awaitEffect(ms int64, effect func() error) (err error) {
	if ms <= 0 {
		return effect()
	}
	p.w.after(ms, func() { err = effect() })
	p.sleep(ms)
	return err
}

// takes lets the time of a call pass.
func (p *process) takes(ms int64) {
	if ms > 0 {
		p.sleep(ms)
	}
}

// How often an operator may ask EC2 for the same within a minute. What powers an instance off may be a fence, and is tried each second.
const (
	sameCallsAMinute  = 30
	sameFencesAMinute = 70
)

// checkPace holds that EC2 is not asked for the same more often than that. The lists are asked for in each pass here.
func (op *operator) checkPace(what string) {
	if what == describe {
		return
	}
	op.calls[what] = append(op.calls[what], op.w.now)
	calls := op.calls[what]
	for calls[0] <= op.w.now-minute {
		calls = calls[1:]
	}
	op.calls[what] = calls
	most := sameCallsAMinute
	if strings.HasPrefix(what, "stop ") {
		most = sameFencesAMinute
	}
	if len(calls) > most {
		op.w.fail(asksHotly, "%s is asked for %d times within a minute by %s", what, len(calls), op.name)
	}
}

// describe is the call that reads lists.
const describe = "describe"

// remembered is one thing in an operator's picture of EC2, see internal/ec2/inventory.
type remembered[T any] struct {
	value         T
	member        string
	retired       bool
	born, changed int64
	bornHere      bool
}

// picture is what an operator process knows of EC2.
type picture struct {
	taken  int64
	failed int64
	// snapshotsTaken is taken for the list of snapshots, which EC2 may not answer when it answers the others.
	snapshotsTaken int64
	instances      map[string]*remembered[topology.Instance]
	volumes        map[string]*remembered[topology.Volume]
	snapshots      map[string]*remembered[topology.Snapshot]
	group          bool
}

func newPicture() *picture {
	return &picture{
		taken: -1, failed: -1 << 40, snapshotsTaken: -1, instances: map[string]*remembered[topology.Instance]{}, volumes: map[string]*remembered[topology.Volume]{},
		snapshots: map[string]*remembered[topology.Snapshot]{},
	}
}

// see takes over what a call answered about one thing.
func see[T any](into map[string]*remembered[T], id, member string, v T, now int64, born bool) {
	r := into[id]
	if r == nil {
		r = &remembered[T]{}
		into[id] = r
	}
	r.value, r.member, r.changed = v, member, now
	if born {
		r.born, r.bornHere = now, true
	}
}

// sweep reads everything, as of up to lag ago: EC2's lists are eventually consistent.
func (p *process) sweep(byID bool) error {
	began := p.w.now
	err := p.call(describe, func() error {
		w, pic := p.w, p.op.picture
		lag := int64(0)
		if w.shape.weather.lag > 0 {
			lag = w.between(0, w.shape.weather.lag)
		}
		list := lister{w, began, w.now - lag, byID}
		for _, in := range w.cloud.instances {
			v, there := asOf(in.past, list.at)
			merge(list, pic.instances, in.ID, in.member, v, there, moving(pic.instances[in.ID], instanceMoves))
			if r := pic.instances[in.ID]; r != nil && w.now-in.past[len(in.past)-1].since > 30*minute && in.State == terminated {
				delete(pic.instances, in.ID) // EC2 forgets it after a while
			}
		}
		for _, v := range w.cloud.volumes {
			seen, there := asOf(v.past, list.at)
			if v.State == deleted && there && seen.State == deleted {
				there = false
			}
			merge(list, pic.volumes, v.ID, v.member, seen, there, moving(pic.volumes[v.ID], volumeMoves) || list.freed(pic, v.ID))
			if r := pic.volumes[v.ID]; r != nil {
				r.retired = v.retired
			}
		}
		list.snapshots(pic)
		pic.group = w.cloud.group
		return nil
	})
	if err != nil {
		p.op.picture.failed = p.w.now
		return err
	}
	if !byID {
		p.op.picture.taken = began
	}
	return nil
}

// lister is one listing: when it began, and as of when EC2 answers it.
type lister struct {
	w         *world
	began, at int64
	byID      bool
}

// snapshots takes over what the list of snapshots shows, when EC2 answers it.
func (l lister) snapshots(pic *picture) {
	if l.w.shape.weather.withoutSnapshots {
		return
	}
	for _, s := range l.w.cloud.snapshots {
		seen, there := asOf(s.past, l.at)
		merge(l, pic.snapshots, s.ID, "", seen, there, moving(pic.snapshots[s.ID], func(s topology.Snapshot) bool { return s.State == pending }))
	}
	if !l.byID {
		pic.snapshotsTaken = l.began
	}
}

// freed says whether a volume hangs on an instance that ended: its detachment comes without a word of its own.
func (l lister) freed(pic *picture, id string) bool {
	v := pic.volumes[id]
	if v == nil || v.value.AttachedTo == "" {
		return false
	}
	in := pic.instances[v.value.AttachedTo]
	return in != nil && (in.value.State == shuttingDown || in.value.State == terminated)
}

// merge takes over what a listing shows of one thing, see the store of internal/ec2/inventory. A listing by id is only about things
// that are on their way from one state to another.
func merge[T any](l lister, into map[string]*remembered[T], id, member string, v T, there, inTransition bool) {
	r := into[id]
	switch {
	case l.byID && (r == nil || !inTransition):
	case r != nil && r.changed > l.began:
	case there:
		see(into, id, member, v, l.began, false)
	case r != nil && (!r.bornHere || l.w.now-r.born >= freshFor):
		delete(into, id)
	}
}

func moving[T any](r *remembered[T], moves func(T) bool) bool { return r != nil && moves(r.value) }

func instanceMoves(i topology.Instance) bool {
	return i.State == pending || i.State == stopping || i.State == shuttingDown
}

func volumeMoves(v topology.Volume) bool {
	return v.State == creating || v.State == deleting || v.AttachState == attaching || v.AttachState == detaching
}
