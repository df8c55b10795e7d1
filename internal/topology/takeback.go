package topology

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// takenBackPrefix begins the purpose of the snapshot that is kept for a while of a member which is taken back to the version
// of before. It is one of the quarantined ones.
const takenBackPrefix = quarantinePrefix + "takenback-"

// A version that was raised may be set back as long as the primary was not upgraded: it holds everything, in a form that the
// version of before reads. What a newer mysqld has opened no older one opens again. So a member that went ahead does not
// get an older mysqld on its volume: it is taken away, as one is that is not wanted any more, and seeded anew by CLONE.

// noteOpened remembers which version opens a member's volume from now on, unless a newer one is remembered.
func (p *planner) noteOpened(m *Member, version string) {
	rec := p.plan.Records.Members[m.Name]
	if version != "" && (rec.Opened == "" || olderVersion(rec.Opened, version)) {
		rec.Opened = version
		p.plan.Records.Members[m.Name] = rec
	}
}

// noteVersions notes what the members that answer run, in case the records do not know. One that is newer than the spec asks for
// on a machine of the present spec runs what its image has, whatever the spec says.
func (p *planner) noteVersions() {
	for _, m := range p.Members {
		in := m.CurrentInstance()
		if in == nil || m.volume() == nil || p.Version == "" {
			continue
		}
		if !m.verified() {
			if vol := m.volume(); vol.AttachedTo == in.ID && in.TemplateHash != "" && in.TemplateHash == p.TemplateHash {
				p.noteOpened(m, p.Version) // it was attached by somebody whose records are lost
			}
			continue
		}
		if !olderVersion(p.Version, m.SQL.Version) || in.TemplateHash != "" && in.TemplateHash != p.TemplateHash {
			p.noteOpened(m, m.SQL.Version)
		}
	}
}

// noteLaunch remembers for which version a member's next machine is made.
func (rec *Record) noteLaunch(incarnation int, version string) {
	if rec.LaunchedAs != incarnation || olderVersion(rec.Launched, version) {
		rec.Launched, rec.LaunchedAs = version, incarnation
	}
	rec.Instance = incarnation
}

// versionOn is what a member's machine was made to run; empty when that is not known.
func (p *planner) versionOn(m *Member, in *Instance) string {
	rec := p.plan.Records.Members[m.Name]
	switch {
	case in.TemplateHash == p.TemplateHash:
		return p.Version
	case p.Before.Hash != "" && in.TemplateHash == p.Before.Hash:
		return p.Before.Version // the same incarnation may have been ordered for either
	case rec.LaunchedAs == in.Incarnation:
		return rec.Launched
	}
	return ""
}

// mayOpen returns why a volume is not attached to a machine yet, or "". What a newer mysqld opens is secured before, and as long
// as nobody is up with that version, one member at a time tries: a version that does not start must not have opened them all.
func (p *planner) mayOpen(m *Member, vol *Volume, in *Instance) Step {
	version, opened := p.versionOn(m, in), p.plan.Records.Members[m.Name].Opened
	tooOld := opened != "" && olderVersion(version, opened) // also when it is not known
	if version != "" && olderVersion(p.Version, version) || tooOld && in.TemplateHash != p.TemplateHash {
		p.retry(waitMySQL, TerminateInstance{m.Name, in.ID})
		return waits(fmt.Sprintf("ending instance %s, which was made for another version of MySQL", in.ID))
	}
	if tooOld {
		p.waitAtMost(waitMySQL)
		if len(p.primaries()) == 0 {
			p.degraded(v1alpha1.ReasonInvalidSpec, fmt.Sprintf("%s: MySQL %s has opened its data, which %s does not read; should the others not suffice for a primary, set spec.version to %s again", m.Name, opened, version, opened))
		}
		return waits(fmt.Sprintf("volume %s stays apart: MySQL %s has opened it, which %s does not read", vol.ID, opened, version))
	}
	if opened == "" || !olderVersion(opened, version) {
		p.noteOpened(m, version)
		return Step{}
	}
	if why := p.waitForTrial(m, version); why.Waits() {
		return why
	}
	if why := p.secure(m, vol, opened, version); why.Waits() {
		return why
	}
	p.noteOpened(m, version)
	return Step{}
}

// waitForTrial returns what a member waits for whose data a newer mysqld is to open while another member tries that, or "".
func (p *planner) waitForTrial(m *Member, version string) Step {
	other := p.trying(m, version)
	if other == nil {
		return Step{}
	}
	p.waitAtMost(waitMySQL)
	p.unopened = append(p.unopened, m.Name)
	return waits(fmt.Sprintf("waiting until %s is up with MySQL %s, which nobody else opens data with before", other.Name, version))
}

// trying returns another member whose mysqld of a newer version has its volume, or gets it in this pass, and is not up, as long as no member is up with
// that version; nil for none. A machine that is silent as a whole tells nothing about the version, nor does one whose volume is gone;
// one that was started a moment ago and is off, or on its way, is waited for.
func (p *planner) trying(m *Member, version string) *Member {
	var first *Member
	for _, other := range p.ordered() {
		switch {
		case other == m || other.Ordinal >= p.Replicas:
		case other.verified() && other.SQL.Version == version:
			return nil
		case first == nil && p.opensWith(other, version):
			first = other
		}
	}
	return first
}

// opensWith says whether a member that is not up may be about to open its volume with a version.
func (p *planner) opensWith(m *Member, version string) bool {
	in := m.CurrentInstance()
	if m.volume() == nil || m.verified() || in == nil || p.plan.Records.Members[m.Name].Opened != version {
		return false
	}
	if in.State == stateRunning {
		return m.SilentSince.IsZero() || m.SQL.Access == AccessRefused || p.Now.Sub(m.SilentSince) < silenceAllowed
	}
	return p.Now.Sub(in.LaunchTime) < silenceAllowed
}

// secure has a snapshot taken of a member's volume before a newer mysqld opens it, and returns what is waited for. It is the
// last resort when the whole cluster is newer and wrong: then nothing else is left of the version of before.
func (p *planner) secure(m *Member, vol *Volume, from, to string) Step {
	turn := fmt.Sprintf("i%d", p.plan.Records.Members[m.Name].Instance)
	if p.plan.Records.Rolling == m.Name {
		turn = strconv.FormatInt(p.plan.Records.RollingAt, 10)
	}
	purpose := fmt.Sprintf("%s%s-%s-%s", upgradePrefix, from, to, turn)
	switch taken := p.snapshotFor(vol.ID, purpose); {
	case taken == nil:
		if why := p.afterFailed(m, vol.ID, purpose); why.Waits() {
			return why
		}
		p.retry(waitMySQL, TakeSnapshot{m.Name, vol.ID, purpose})
		return waits("taking a snapshot before the upgrade to " + to)
	case taken.State != snapshotCompleted:
		p.waitAtMost(waitEC2)
		return waits(fmt.Sprintf("waiting for snapshot %s: %s", taken.ID, orNone(taken.Progress)))
	}
	return Step{}
}

// wayBack is the version that spec.version can be set back to: what the primary still runs. Without a primary, what those have
// who wait for another to come up with the newer one. Empty when there is none.
func (p *planner) wayBack(primary *Member) string {
	if primary != nil {
		if olderVersion(primary.SQL.Version, p.Version) {
			return primary.SQL.Version
		}
		return ""
	}
	back := ""
	for _, name := range p.unopened {
		if opened := p.plan.Records.Members[name].Opened; back == "" || olderVersion(back, opened) {
			back = opened
		}
	}
	return back
}

// tooNew says whether a newer mysqld than the spec asks for has opened a member's volume, or one that is newer than all that it
// could be seeded from.
func (p *planner) tooNew(m *Member) bool {
	rec := p.plan.Records.Members[m.Name]
	if rec.Anew {
		return true
	}
	opened := rec.Opened
	if p.Version == "" || opened == "" || !olderVersion(p.Version, opened) {
		return false
	}
	return !m.verified() || olderVersion(p.Version, m.SQL.Version)
}

// takenBack says whether a member is being taken back to the version of before at the moment.
func (p *planner) takenBack(m *Member) bool {
	return m.Ordinal < p.Replicas && p.plan.Records.Rolling == m.Name && p.tooNew(m)
}

// failedUpgrade returns a member whose turn comes although not all are well, because it will not get well before: one that is
// too new and does not answer, or one of another series than all that it could be cloned from. Nil for none, and while the
// others cannot do without its vote.
func (p *planner) failedUpgrade(primary *Member) *Member {
	if primary == nil || !p.CloudReachable || p.tooNew(primary) {
		return nil
	}
	for _, m := range slices.Backward(p.ordered()) {
		switch {
		case m == primary || m.Ordinal >= p.Replicas || !p.outdated(m) && !p.madeAnewAsBefore(m, primary):
		case p.unseedable(m, primary):
			return m
		case p.tooNew(m) && p.silentLong(m) && (!p.plan.Membership.Has(m.Name) || p.mayRemove(m, primary)):
			return m
		}
	}
	return nil
}

// onlyFailed says whether every voter but the primary is off, or is kept from starting by a version that was set back. None of
// them acknowledges again before it is made anew.
func (p *planner) onlyFailed(primary *Member) bool {
	row := p.presentMembership()
	if row == nil || p.tooNew(primary) || p.leaderDoubted() {
		return false
	}
	for _, name := range append(slices.Clone(row.Voters), row.Previous...) {
		m := p.Members[name]
		if name != primary.Name && m != nil && (m.verified() || !p.off(m) && (!p.tooNew(m) || !p.silentLong(m))) {
			return false
		}
	}
	return true
}

// stopFailed powers the voters off that a version which was set back keeps from starting, when there are no others: only of a
// machine that is off it is known that it acknowledges nothing, so that the primary may go on alone.
func (p *planner) stopFailed(primary *Member) {
	if !p.onlyFailed(primary) {
		return
	}
	for _, name := range p.plan.Membership.Voters {
		m := p.Members[name]
		if m == nil || m == primary || !p.tooNew(m) || p.busy(name) {
			continue
		}
		p.powerOff(m)
	}
}

// presentMembership is the row that the pass goes by, or before that is settled the newest that was seen.
func (p *planner) presentMembership() *Membership {
	if p.plan.Membership != nil {
		return p.plan.Membership
	}
	return p.newestMembership()
}

// silentLong says whether a member has not answered for longer than a restart takes.
func (o Observed) silentLong(m *Member) bool {
	return !m.verified() && !m.DownSince.IsZero() && o.Now.Sub(m.DownSince) >= restartPatience
}

// blockedBy says whether another member than the one whose turn it is has to be taken back first.
func (p *planner) blockedBy(m *Member) bool {
	failed := p.failedUpgrade(p.Members[p.plan.Primary])
	return failed != nil && failed != m
}

// takeBack takes away a member that is newer than the spec asks for, and returns what it waits for. It is made anew when
// nothing is left of it, see takenAway. The primary's data must be readable by the version that is asked for: they are all
// that the member gets back.
func (p *planner) takeBack(m, primary *Member) Step {
	if primary == nil || primary == m {
		p.waitAtMost(waitMySQL)
		return waits("waiting for a primary, to be taken back to " + p.takenBackTo(m))
	}
	if p.tooNew(primary) {
		p.waitAtMost(waitReady)
		return waits(fmt.Sprintf("cannot be taken back to %s: the primary %s is newer as well", p.Version, primary.Name))
	}
	if p.mayBeNeeded(m) && p.stopSilent(m, primary) { // before anything is settled: the primary's own row may wait for this one
		p.waitAtMost(waitMySQL)
		return waits(fmt.Sprintf("being taken back to %s: stopping, to lose its vote", p.takenBackTo(m)))
	}
	stays := m.verified() && !p.othersVote(m) && !p.unseedable(m, primary)
	if stays && !p.plan.Membership.Has(m.Name) && !p.errant(m, primary).IsEmpty() {
		stays = false // it is of use to nobody, and those who were rebuilt get no vote as long as it holds what they lost
	}
	if p.unconfirmed || stays {
		p.waitAtMost(waitMySQL)
		return waits("waiting until all others are well")
	}
	return p.leave(m, primary, fmt.Sprintf("being taken back to %s", p.takenBackTo(m)), takenBackPrefix)
}

// takenAway makes the records of members ready that were taken back, once nothing is left of what was too new: they are
// provisioned like new ones.
func (p *planner) takenAway() {
	for _, m := range p.Members {
		if p.takenBack(m) && p.CloudReachable && p.nothingLeft(m) && !p.mayBeNeeded(m) && (m.RecordedVolume == "" || len(m.Volumes) > 0 || p.volumeLost(m)) {
			p.forgetMember(m)
		}
	}
}

// tellTooNew says what a person can do who set the version back too late, or whose voters that went ahead are needed for a commit,
// or for the proof of a primary: as long as others are well, the primary does not go on alone.
func (p *planner) tellTooNew(primary *Member) {
	for _, m := range p.ordered() {
		if row := p.plan.Membership; row == nil || !row.Has(m.Name) || !p.tooNew(m) || !p.silentLong(m) {
			continue
		}
		opened := p.plan.Records.Members[m.Name].Opened
		switch {
		case primary == nil:
			p.degraded(v1alpha1.ReasonInvalidSpec, fmt.Sprintf("%s: MySQL %s has opened its data and is not up; should the others not suffice for a primary, set spec.version to %s again, with an image on which that starts", m.Name, opened, opened))
		case p.waitsForTooNew(primary):
			p.degraded(v1alpha1.ReasonInvalidSpec, fmt.Sprintf("%s: MySQL %s has opened its data and is not up, and writes wait for its acknowledgement: set spec.version to %s again, with an image on which that starts", m.Name, opened, opened))
		}
	}
	if primary != nil && p.tooNew(primary) {
		p.degraded(v1alpha1.ReasonInvalidSpec, fmt.Sprintf("the primary %s runs MySQL %s already, whose data %s does not read: set spec.version to %s again. To go back, restore a backup into a new cluster", primary.Name, primary.SQL.Version, p.Version, primary.SQL.Version))
	}
}

// waitsForTooNew says whether commits of a primary that can be read by the version asked for wait, and too few voters acknowledge.
func (p *planner) waitsForTooNew(primary *Member) bool {
	waiting := p.Lossless && primary.SQL.SemiSync.SourceEnabled && primary.SQL.PendingCommits > 0
	return waiting && !p.tooNew(primary) && !p.onlyFailed(primary) && !p.sufficesFor(*p.plan.Membership, primary)
}
