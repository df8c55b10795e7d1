package topology

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// rollout changes members one by one.
type rollout struct {
	*pass
	acks          *acks
	turns         *turns
	votes         *votes
	seeding       *seeding
	scaling       *scaling
	upgrades      *upgrades
	provisioning  *provisioning
	handover      *handover
	otherRollouts *otherRollouts

	// step is what the member waits for whose turn it is to be changed, or what holds back the next.
	step Step
}

// upgradePrefix begins the purpose of the snapshots that are taken of a member before its mysqld gets another version. They
// are the way back, and are kept as long as those of rebuilt members.
const upgradePrefix = "upgrade-"

// roll changes members that are not what the spec asks for, one at a time, and only while everybody else is well: those
// that are too many are taken away, those on an instance made from an earlier spec get a new one with the same volume.
// Replicas come first, the primary last, after it has handed over. Whose turn it is is remembered, because in the middle of
// it that member looks like one that needs help.
func (p *rollout) roll() {
	primary := p.Members[p.plan.Primary]
	p.scaling.reportSurplus()
	p.keepTurn()
	p.upgrades.recordTemplate()
	p.upgrades.replacePreviousInstances()
	p.takeTurn(primary)
	p.upgrades.reportTooNew(primary)
	p.upgrades.reportPreviousFails()
	p.reportRollout(primary)
}

// takeTurn does the next thing for the member whose turn it is, or makes it the next one's turn.
func (p *rollout) takeTurn(primary *Member) {
	if p.beginsOutOfTurn(primary) {
		return
	}
	m := p.Members[p.plan.Records.Rolling]
	switch {
	case p.plan.Records.Rolling == "" && primary != nil && !p.unconfirmed && p.CloudReachable && p.turns.allWell():
		if next := p.nextTurn(primary); next != nil {
			p.beginTurn(next)
		}
	case m == nil:
	case !p.CloudReachable:
		p.waitAtMost(waitEC2)
	default:
		p.change(m, primary)
	}
}

// change does the next thing for a member whose turn it is.
func (p *rollout) change(m, primary *Member) {
	switch {
	case primary == nil && p.Replicas > 1 && !p.between(m) && !p.startFails(m):
		p.waitAtMost(waitMySQL) // a primary comes first
	case m == primary && (p.Replicas > 1 || m.Ordinal >= p.Replicas):
		p.waitAtMost(waitMySQL)
		p.rollNote(m, p.handOverFirst(primary))
	case m.Ordinal >= p.Replicas:
		p.rollNote(m, p.scaling.takeAway(m, primary))
	case p.turns.tooNew(m):
		p.rollNote(m, p.upgrades.downgrade(m, primary))
	default:
		p.rollNote(m, p.replace(m, primary))
		p.reportStopped(m, primary)
	}
}

// beginsOutOfTurn makes it the turn of a member that does not get well before it is changed, or that keeps others from being well,
// and says whether it did.
func (p *rollout) beginsOutOfTurn(primary *Member) bool {
	free, rolling := p.plan.Records.Rolling == "", p.plan.Records.Rolling
	if failed := cmp.Or(p.failedInstance(), p.unstableTurn(primary)); free && failed != nil {
		p.beginTurn(failed)
		return true
	}
	if idle := p.scaling.idleSurplus(func(m *Member) bool { return free || p.scaling.keepsFromVote(m) }); idle != nil && primary != nil && p.CloudReachable {
		p.beginTurn(idle)
		return true
	}
	failed := p.upgrades.failedUpgrade(primary)
	if failed == nil || !free && rolling != failed.Name {
		return false
	}
	if !p.turns.outdated(failed) {
		p.upgrades.recordRebuild(failed)
	}
	if free {
		p.beginTurn(failed)
	}
	return free
}

// handOverFirst has the primary hand over before it is changed, and returns what that waits for.
func (p *rollout) handOverFirst(primary *Member) Step {
	if why, holds := p.holds(primary); holds {
		return waits("hands over next: " + why)
	}
	to := p.handover.successor(primary)
	if to == nil {
		return waits("waiting for a member that can take over")
	}
	if why := p.acks.handsOverLater(primary, to); why.Waits() {
		return waits(fmt.Sprintf("hands over to %s next: %s", to.Name, why.Message))
	}
	why := "its instance is to be replaced"
	if primary.Ordinal >= p.Replicas {
		why = "it leaves"
	}
	p.handover.switchover(primary, to, why)
	return waits("handing over to " + to.Name)
}

// reportStopped says of a member that was given its new instance how it gets well there, and when it does not, what a person can
// do.
func (p *rollout) reportStopped(m, primary *Member) {
	in := m.CurrentInstance()
	if in == nil || p.step.Waits() || in.TemplateHash != p.TemplateHash {
		return
	}
	message := p.views[m.Name].Step.Message
	if message == "" {
		message = "waiting until it is well"
	}
	p.step = waits(fmt.Sprintf("on instance %s: %s", in.ID, message))
	if since := p.comesNoNearer(m); since >= catchUpPatience {
		p.degraded(v1alpha1.ReasonRollingStopped, fmt.Sprintf("%s answers on instance %s and has made no progress since %s: %s. The rollout is paused. Reduce the write rate, or correct what was changed",
			m.Name, in.ID, p.Now.Add(-since).UTC().Format(time.TimeOnly), message))
	}
	if m.verified() || !p.overdue(m) {
		return
	}
	back := "Correct what was changed"
	if primary != nil && mysql.OlderVersion(primary.SQL.Version, p.Version) {
		back += fmt.Sprintf(", or set spec.version back to %s to call the upgrade off", primary.SQL.Version)
	}
	p.degraded(v1alpha1.ReasonRollingStopped, fmt.Sprintf("%s does not come up on instance %s; the rollout is paused. %s", m.Name, in.ID, back))
}

// failedInstance returns a member whose turn comes although not all are well, and without a primary, because it does not get well
// before: mysqld does not start on its instance, and what that was made from has been changed since. Nil for none.
func (p *rollout) failedInstance() *Member {
	if !p.CloudReachable || !p.Launchable {
		return nil
	}
	for _, m := range slices.Backward(p.ordered()) {
		if m.Ordinal < p.Replicas && p.turns.outdated(m) && !p.turns.tooNew(m) && p.startFails(m) && !p.upgrades.suitsPrevious(m, m.CurrentInstance()) && !p.upgrades.replacesPrevious(m, m.CurrentInstance()) {
			return m
		}
	}
	return nil
}

// startFails says whether an instance is up for long on which mysqld does not start. Nobody misses it. One on which it did start once
// may only be out of our sight: there something else has to answer us, and to hear nothing of it; and a newer mysqld may not open
// what was not shut down.
func (st *state) startFails(m *Member) bool {
	in, rec := m.CurrentInstance(), st.Records.Members[m.Name]
	if in == nil || in.State != stateRunning || m.verified() || m.SQL.Access == AccessUnverified || m.SQL.Access == AccessDenied {
		return false
	}
	mayHaveStarted := rec.SignedInstance == in.ID || rec.SignedInstance == "" && !st.Records.RebuiltAt.IsZero() // the records forgot
	if mayHaveStarted && (m.SQL.Access != AccessRefused || !st.deafTo(m) || rec.Opened != "" && mysql.OlderVersion(rec.Opened, st.Version)) {
		return false
	}
	return !m.DownSince.IsZero() && st.Now.Sub(m.DownSince) >= silenceAllowed && in.sincePowerUp(st.Now) >= silenceAllowed
}

// deafTo says whether another member answers us, and none of those that do receives from this one.
func (o Observed) deafTo(m *Member) bool {
	heard := false
	for _, other := range o.Members {
		if other == m || !other.verified() {
			continue
		}
		if o.receives(other, m) {
			return false
		}
		heard = true
	}
	return heard
}

// between says whether a member is off, on its way from one instance to the next. It may be the only one that knows the voters.
func (p *rollout) between(m *Member) bool {
	current := m.CurrentInstance()
	return current != nil && current.State == stateStopped && p.turns.rolling(m) && !p.turns.tooNew(m) && p.successorOf(m, current) != nil
}

// beginTurn makes it a member's turn. That is remembered before anything is done.
func (p *rollout) beginTurn(m *Member) {
	rec := &p.plan.Records
	rec.Rolling, rec.RollingAt = m.Name, p.Now.Unix()
	rec.Nearest, rec.NearestAt = 0, 0
	if rec.RollingSince == 0 {
		rec.RollingSince = rec.RollingAt
	}
	p.waitAtMost(waitNext)
}

// rollNote tells what a member whose turn it is waits for. A message that it has for another reason is more important.
func (p *rollout) rollNote(m *Member, step Step) {
	v := p.views[m.Name]
	if v == nil || !step.Waits() {
		return
	}
	if !v.Step.Waits() {
		v.Step = step
	}
	p.step = step
}

// keepTurn ends a member's turn that is over: it is what the spec asks for and well, nothing is left of it, or the spec
// asks for what it was before anything was done. What it is built from is EC2's to say.
func (p *rollout) keepTurn() {
	rec := &p.plan.Records
	if rec.Rolling == "" || p.CloudTaken.IsZero() {
		return
	}
	m := p.Members[rec.Rolling]
	switch {
	case m == nil:
		p.turns.endRolling(true)
	case m.verified() && p.failedInstance() != nil:
		p.turns.endRolling(m.Ordinal < p.Replicas && !p.turns.outdated(m)) // it may wait for that one, which does not get well before its own turn
	case m.Ordinal >= p.Replicas: // see dropAbsent
	case m.Name == p.plan.Primary && p.turns.outdated(m) && p.othersOutdated(m):
		p.turns.endRolling(false) // it was promoted meanwhile: the others come first
	case m.verified() && p.upgrades.blockedBy(m):
		p.turns.endRolling(false) // it waits for another, which does not get well before it is taken back
	case !p.turns.outdated(m) && p.turns.isWell(m):
		p.turns.endRolling(true)
		p.waitAtMost(waitNext) // the instance that it had is ended
	}
}

// othersOutdated says whether another member than one is to be changed as well.
func (p *rollout) othersOutdated(m *Member) bool {
	return slices.ContainsFunc(p.ordered(), func(other *Member) bool {
		return other != m && other.Ordinal < p.Replicas && p.turns.outdated(other)
	})
}

// nextTurn returns the member that is to be changed next, nil for none.
func (p *rollout) nextTurn(primary *Member) *Member {
	left := p.turnsLeft(primary)
	if len(left) == 0 {
		return nil
	}
	next := left[0]
	if next.Ordinal >= p.Replicas {
		if why, holds := p.holds(next); holds && next.verified() {
			p.waitAtMost(waitReady)
			p.step = waits(fmt.Sprintf("%s is to leave next: %s", next.Name, why))
			return nil
		}
		return next
	}
	if !p.Launchable || p.provisioning.mayCreate().Waits() {
		return nil
	}
	if why := p.Rehearsal.forbids(); why.Waits() {
		p.waitAtMost(waitEC2)
		p.step = waits(fmt.Sprintf("%s is to be replaced next: %s", next.Name, why.Message))
		return nil
	}
	if why := p.upgrades.rebuiltTooOften(next); why.Waits() {
		p.step = waits(fmt.Sprintf("%s is not replaced: %s", next.Name, why.Message))
		return nil
	}
	if why := p.holdsBack(next); why.Waits() {
		p.step = waits(fmt.Sprintf("%s is to be replaced next: %s", next.Name, why.Message))
		return nil
	}
	return next
}

// holdsBack says why a further member is not replaced at the moment, empty when it may be.
func (p *rollout) holdsBack(next *Member) Step {
	if why, holds := p.holds(next); holds {
		p.waitAtMost(waitReady)
		return waits(why)
	}
	for _, m := range p.ordered() {
		if over := m.SQL.StartedAt.Add(p.Soak); m.Ordinal < p.Replicas && !p.turns.outdated(m) && p.Now.Before(over) {
			p.waitAtMost(min(waitReady, over.Sub(p.Now)))
			return waits(fmt.Sprintf("%s runs on its new instance since %s, and spec.upgrade.soak asks for %s", m.Name, m.SQL.StartedAt.UTC().Format(time.TimeOnly), p.Soak))
		}
	}
	return Step{}
}

// replace gives a member an instance made from the present spec, with the volume that it has, and returns what it waits for.
// The new instance runs before the old one is stopped, so that capacity which EC2 refuses costs nothing; the old one is
// ended when the member is well again. Set back to what it was, the spec leads back to the old instance.
func (p *rollout) replace(m, primary *Member) Step {
	vol, current := m.volume(), m.CurrentInstance()
	if vol == nil || current == nil || !p.turns.outdated(m) {
		return Step{} // provisioning brings it back
	}
	next := p.successorOf(m, current)
	if next == nil {
		return p.launchSuccessor(m, vol)
	}
	if why := p.awaitNext(m, next); why.Waits() {
		return why
	}
	if why := p.secureBeforeUpgrade(m, vol); why.Waits() {
		return why
	}
	if p.startFails(m) {
		if !p.busy(m.Name) {
			p.stop(m, current)
		}
		p.waitAtMost(waitMySQL)
		return waits(fmt.Sprintf("stopping instance %s, on which mysqld does not start, to go on on %s", current.ID, next.ID))
	}
	switch current.State {
	case stateRunning:
		if why := p.mayNotStop(m, primary, next); why.Waits() {
			return why
		}
		p.views[m.Name].InService = false
		if m.SQL.Writable {
			p.retry(waitMySQL, Demote{m.Name}) // so that mysqld is shut down and not cut off, which a newer one might not forgive
		}
		p.retry(waitMySQL, StopInstance{Member: m.Name, InstanceID: current.ID, Gracefully: true})
		return waits(fmt.Sprintf("stopping instance %s, to go on on %s", current.ID, next.ID))
	case stateStopped:
		if vol.AttachedTo == current.ID && vol.AttachState == attachAttached {
			p.retry(waitMySQL, DetachVolume{m.Name, vol.ID, current.ID})
		}
		p.waitAtMost(waitMySQL)
		return waits(fmt.Sprintf("moving volume %s to instance %s", vol.ID, next.ID))
	}
	p.waitAtMost(waitMySQL)
	return waits(fmt.Sprintf("instance %s is %s", current.ID, current.State))
}

// awaitNext returns what a member waits for whose next instance does not run yet.
func (p *rollout) awaitNext(m *Member, next *Instance) Step {
	switch next.State {
	case stateRunning:
		return Step{}
	case statePending:
		p.provisioning.waitForEC2(next)
		return waits(fmt.Sprintf("waiting for its next instance, %s", next.ID))
	case stateStopped:
		p.retry(waitEC2, StartInstance{m.Name, next.ID})
		return waits(fmt.Sprintf("starting its next instance, %s", next.ID))
	}
	p.waitAtMost(waitEC2)
	return waits(fmt.Sprintf("its next instance, %s, is %s", next.ID, next.State))
}

// mayNotStop returns what a member waits for before its present instance is stopped to go on on the next one.
func (p *rollout) mayNotStop(m, primary *Member, next *Instance) Step {
	if why, holds := p.holds(m); holds && m.verified() && (m == primary || p.plan.Membership.Has(m.Name)) {
		p.waitAtMost(waitReady)
		return waits(fmt.Sprintf("goes on on instance %s next: %s", next.ID, why))
	}
	if why := p.Rehearsal.forbids(); why.Waits() && m.verified() {
		p.waitAtMost(waitEC2)
		return waits(fmt.Sprintf("goes on on instance %s next: %s", next.ID, why.Message))
	}
	if !p.turns.othersVote(m) && (primary == nil || !p.seeding.unseedable(m, primary)) { // the others may wait for such an instance as well
		p.waitAtMost(waitMySQL)
		return waits("waiting until all others are well")
	}
	if why := p.relieve(m, primary); why.Waits() {
		return why
	}
	if p.busy(m.Name) {
		return waits("waiting until nothing else is done about it")
	}
	return Step{}
}

// successorOf returns the instance of a member that was made from the present spec and waits for its volume; nil for none.
func (d Desired) successorOf(m *Member, current *Instance) *Instance {
	var best *Instance
	for i := range m.Instances {
		in := &m.Instances[i]
		if in.ID != current.ID && !in.gone() && in.TemplateHash == d.TemplateHash && (best == nil || in.Incarnation > best.Incarnation) {
			best = in
		}
	}
	return best
}

// launchSuccessor plans the launch of a member's next instance.
func (p *rollout) launchSuccessor(m *Member, vol *Volume) Step {
	if why := p.provisioning.mayLaunch(); why.Waits() {
		return why
	}
	if why := p.provisioning.relaunchWaits(m, vol); why.Waits() {
		return why
	}
	launch, why := p.provisioning.launchOf(m, vol, false)
	if why.Waits() {
		return why
	}
	if p.acks.shownLately() {
		return waits("waiting a moment until clients have followed the last change")
	}
	if m.CapacityRefused == vol.Zone {
		p.retry(waitEC2, launch)
		p.degraded(v1alpha1.ReasonInsufficientCapacity, fmt.Sprintf("%s: EC2 has %s for its next instance; the present one stays until then", m.Name, p.lacksRoom(vol.Zone)))
		return waits("EC2 has " + p.lacksRoom(vol.Zone) + " for its next instance")
	}
	p.retry(waitMySQL, launch)
	return waits("launching its next instance")
}

// secureBeforeUpgrade has a snapshot taken of a member's volume before a newer mysqld opens it, which no older one can after
// that. It returns what is waited for.
func (p *rollout) secureBeforeUpgrade(m *Member, vol *Volume) Step {
	if !m.verified() || m.SQL.Version == p.Version || p.Version == "" {
		return Step{}
	}
	return p.upgrades.secure(m, vol, m.SQL.Version, p.Version)
}

// relieve takes a replica's vote, which others rely on, and returns what is waited for. A member that is alone has nobody to
// take it.
func (p *rollout) relieve(m, primary *Member) Step {
	switch {
	case primary == nil || m == primary:
		return Step{}
	case m.SQL.Writable:
		p.waitAtMost(waitMySQL)
		return waits("waiting until it is read-only")
	case !m.verified():
		if p.plan.Membership.Has(m.Name) {
			p.waitAtMost(waitMySQL)
			return waits("waiting until it answers or has lost its vote")
		}
		return Step{}
	case p.plan.Records.Leaving == "" && p.acks.holdsUp(m, primary):
		return waits(awaitsOthers)
	case !p.votes.expel(m, primary):
		return waits("giving its vote back")
	}
	return Step{}
}
