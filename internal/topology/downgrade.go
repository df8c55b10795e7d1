package topology

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// upgrades opens the volumes of members with a newer version one by one, and takes them back to the older one when that fails.
type upgrades struct {
	*pass
	acks    *acks
	turns   *turns
	votes   *votes
	healing *healing
	seeding *seeding
	scaling *scaling
}

// downgradePrefix begins the purpose of the snapshot that is kept for a while of a member which is taken back to the version
// of before. It is one of the quarantined ones.
const downgradePrefix = quarantinePrefix + "takenback-"

// A version that was raised may be set back as long as the primary was not upgraded: it holds everything, in a form that the
// version of before reads. What a newer mysqld has opened no older one opens again. So a member that went ahead does not
// get an older mysqld on its volume: it is taken away, as one is that is not wanted any more, and seeded anew by CLONE.

// recordLaunch remembers for which version a member's next instance is made.
func (rec *MemberRecord) recordLaunch(incarnation int, version string) {
	if rec.LaunchedAs != incarnation || mysql.OlderVersion(rec.Launched, version) {
		rec.Launched, rec.LaunchedAs = version, incarnation
	}
	rec.Instance = incarnation
}

// mayOpen returns why a volume is not attached to an instance yet, or "". What a newer mysqld opens is secured before, and as long
// as nobody is up with that version, one member at a time tries: a version that does not start must not have opened them all.
func (p *upgrades) mayOpen(m *Member, vol *Volume, in *Instance) Step {
	version, opened := p.turns.versionOn(m, in), p.plan.Records.Members[m.Name].Opened
	tooOld := opened != "" && mysql.OlderVersion(version, opened) // also when it is not known
	if version != "" && mysql.OlderVersion(p.Version, version) || tooOld && in.TemplateHash != p.TemplateHash {
		p.retry(waitMySQL, TerminateInstance{m.Name, in.ID})
		return waits(fmt.Sprintf("ending instance %s, which was made for another version of MySQL", in.ID))
	}
	if tooOld {
		p.waitAtMost(waitMySQL)
		if len(p.primaries()) == 0 {
			p.degraded(v1alpha1.ReasonInvalidSpec, fmt.Sprintf("%s: MySQL %s has opened its data, which %s does not read; if the other members are not enough for a primary, set spec.version to %s again", m.Name, opened, version, opened))
		}
		return waits(fmt.Sprintf("volume %s is not attached: MySQL %s has opened it, which %s does not read", vol.ID, opened, version))
	}
	if why := p.untried(in.TemplateHash); why.Waits() {
		return why
	}
	if opened == "" || !mysql.OlderVersion(opened, version) {
		p.turns.recordOpened(m, version)
		return Step{}
	}
	if why := p.waitForTrial(m, version); why.Waits() {
		return why
	}
	if why := p.secure(m, vol, opened, version); why.Waits() {
		return why
	}
	p.turns.recordOpened(m, version)
	return Step{}
}

// waitForTrial returns what a member waits for whose data a newer mysqld is to open while another member tries that, or "".
func (p *upgrades) waitForTrial(m *Member, version string) Step {
	other := p.turns.trying(m, version)
	if other == nil {
		return Step{}
	}
	p.waitAtMost(waitMySQL)
	p.turns.unopened = append(p.turns.unopened, m.Name)
	return waits(fmt.Sprintf("waiting until %s is up with MySQL %s, which nobody else opens data with before", other.Name, version))
}

// secure has a snapshot taken of a member's volume before a newer mysqld opens it, and returns what is waited for. It is the
// last resort when the whole cluster is newer and wrong: then nothing else is left of the previous version.
func (p *upgrades) secure(m *Member, vol *Volume, from, to string) Step {
	turn := fmt.Sprintf("i%d", p.plan.Records.Members[m.Name].Instance)
	if p.plan.Records.Rolling == m.Name {
		turn = strconv.FormatInt(p.plan.Records.RollingAt, 10)
	}
	purpose := fmt.Sprintf("%s%s-%s-%s", upgradePrefix, from, to, turn)
	switch taken := p.snapshotFor(vol.ID, purpose); {
	case taken == nil:
		if why := p.healing.afterFailed(m, vol.ID, purpose); why.Waits() {
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

// failedUpgrade returns a member whose turn comes although not all are well, because it will not get well before: one that is
// too new and does not answer, or one of another series than all that it could be cloned from. Nil for none, and while the
// others cannot do without its vote.
func (p *upgrades) failedUpgrade(primary *Member) *Member {
	if primary == nil || !p.CloudReachable || p.turns.tooNew(primary) {
		return nil
	}
	for _, m := range slices.Backward(p.ordered()) {
		switch {
		case m == primary || m.Ordinal >= p.Replicas || !p.turns.outdated(m) && !p.seeding.rebuildsWithPrevious(m, primary):
		case p.seeding.unseedable(m, primary):
			return m
		case p.turns.tooNew(m) && p.silentLong(m) && (!p.plan.Membership.Has(m.Name) || p.votes.mayRemove(m, primary)):
			return m
		}
	}
	return nil
}

// silentLong says whether a member has not answered for longer than a restart takes.
func (o Observed) silentLong(m *Member) bool {
	return !m.verified() && !m.DownSince.IsZero() && o.Now.Sub(m.DownSince) >= restartPatience
}

// blockedBy says whether another member than the one whose turn it is has to be taken back first.
func (p *upgrades) blockedBy(m *Member) bool {
	failed := p.failedUpgrade(p.Members[p.plan.Primary])
	return failed != nil && failed != m
}

// downgrade takes away a member that is newer than the spec asks for, and returns what it waits for. It is rebuilt when
// nothing is left of it, see forgetDowngraded. The primary's data must be readable by the version that is asked for: they are all
// that the member gets back.
func (p *upgrades) downgrade(m, primary *Member) Step {
	if primary == nil || primary == m {
		p.waitAtMost(waitMySQL)
		return waits("waiting for a primary, to be taken back to " + p.turns.downgradeVersion(m))
	}
	if p.turns.tooNew(primary) {
		p.waitAtMost(waitReady)
		return waits(fmt.Sprintf("cannot be taken back to %s: the primary %s is newer as well", p.Version, primary.Name))
	}
	if p.turns.mayBeNeeded(m) && p.votes.stopSilent(m, primary) { // before anything is settled: the primary's own row may wait for this one
		p.waitAtMost(waitMySQL)
		return waits(fmt.Sprintf("being taken back to %s: stopping, to lose its vote", p.turns.downgradeVersion(m)))
	}
	stays := m.verified() && !p.turns.othersVote(m) && !p.seeding.unseedable(m, primary)
	if stays && !p.plan.Membership.Has(m.Name) && !p.errant(m, primary).IsEmpty() {
		stays = false // it is of use to nobody, and those who were rebuilt get no vote as long as it holds what they lost
	}
	if p.unconfirmed || stays {
		p.waitAtMost(waitMySQL)
		return waits("waiting until all others are well")
	}
	if why := p.Rehearsal.forbids(); why.Waits() && m.verified() {
		p.waitAtMost(waitEC2)
		return waits(fmt.Sprintf("being taken back to %s next: %s", p.turns.downgradeVersion(m), why.Message))
	}
	return p.scaling.leave(m, primary, fmt.Sprintf("being taken back to %s", p.turns.downgradeVersion(m)), downgradePrefix)
}

// forgetDowngraded makes the records of members ready that were taken back, once nothing is left of what was too new: they are
// provisioned like new ones.
func (p *upgrades) forgetDowngraded() {
	for _, m := range p.Members {
		if p.turns.downgrading(m) && p.CloudReachable && p.nothingLeft(m) && !p.turns.mayBeNeeded(m) && (m.RecordedVolume == "" || len(m.Volumes) > 0 || p.volumeLost(m)) {
			p.turns.forgetMember(m)
		}
	}
}

// reportTooNew says what a person can do who set the version back too late, or whose voters that went ahead are needed for a commit,
// or for the proof of a primary: as long as others are well, the primary does not go on alone.
func (p *upgrades) reportTooNew(primary *Member) {
	for _, m := range p.ordered() {
		row := p.plan.Membership
		if mayVote := row == nil || row.Has(m.Name); !mayVote || !p.turns.tooNew(m) || !p.silentLong(m) {
			continue
		}
		opened := p.plan.Records.Members[m.Name].Opened
		switch {
		case primary == nil:
			p.degraded(v1alpha1.ReasonInvalidSpec, fmt.Sprintf("%s: MySQL %s has opened its data and is not up; if the other members are not enough for a primary, set spec.version to %s again, with an image on which that starts", m.Name, opened, opened))
		case p.waitsForTooNew(primary):
			p.degraded(v1alpha1.ReasonInvalidSpec, fmt.Sprintf("%s: MySQL %s has opened its data and is not up, and writes wait for its acknowledgement: set spec.version to %s again, with an image on which that starts", m.Name, opened, opened))
		}
	}
	if primary != nil && p.turns.tooNew(primary) {
		p.degraded(v1alpha1.ReasonInvalidSpec, fmt.Sprintf("the primary %s runs MySQL %s already, whose data %s does not read: set spec.version to %s again. To go back, restore a backup into a new cluster", primary.Name, primary.SQL.Version, p.Version, primary.SQL.Version))
	}
}

// waitsForTooNew says whether commits of a primary that can be read by the version asked for wait, and too few voters acknowledge.
func (p *upgrades) waitsForTooNew(primary *Member) bool {
	waiting := p.Lossless && primary.SQL.SemiSync.SourceEnabled && primary.SQL.PendingCommits > 0
	return waiting && !p.turns.tooNew(primary) && !p.votes.onlyFailed(primary) && !p.acks.suffice(*p.plan.Membership, primary, "")
}
