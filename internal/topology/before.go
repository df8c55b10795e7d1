package topology

import (
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// Template is what instances are made from, as far as decisions depend on it.
type Template struct {
	// Hash identifies it; Version is that of the mysqld which it brings, x.y.z.
	Hash, Version string
}

// While a newer version is on its way through the cluster, an instance that has to be launched out of turn is made from the present
// spec (see mayOpen for what is done before it opens data), but as before the version was raised where that would not do: for a
// member that is to be seeded, as long as all that it can be seeded from run the version of before, because CLONE does
// not go from one series to another; and for one with data, as long as nobody is to be disturbed, because opening the data
// is the upgrade.

// mixed says whether a newer version than that of before is on its way.
func (d Desired) mixed() bool {
	return d.Before.Version != "" && olderVersion(d.Before.Version, d.Version)
}

// launchesAsBefore says whether a member's next instance is made with the previous MySQL version.
func (p *upgrades) launchesAsBefore(m *Member) bool {
	switch {
	case !p.mixed():
		return false
	case p.toSeed(m):
		return p.turns.seededAsBefore(m)
	}
	return p.turns.opensAsBefore(m)
}

// toSeed says whether a member has nothing that it needs: it never had a volume with data, or was launched to be seeded with the
// version of before and has no vote yet.
func (p *upgrades) toSeed(m *Member) bool {
	rec, row := p.plan.Records.Members[m.Name], p.turns.presentMembership()
	if rec.Opened == "" && rec.VolumeID == "" {
		return true
	}
	return rec.ToSeed != 0 && rec.ToSeed == rec.Instance && rec.Opened == p.Before.Version && row != nil && !row.Has(m.Name)
}

// unknownDonors returns why no instance is made yet for a member that is to be seeded, or "": nobody who knows the voters answers, and
// so it is not known with which version it could be.
func (p *upgrades) unknownDonors(m *Member) Step {
	if !p.mixed() || !p.Records.Established || !p.toSeed(m) || p.turns.presentMembership() != nil {
		return Step{}
	}
	p.waitAtMost(waitMySQL)
	return waits("waiting until it is known which version it can be seeded with")
}

// suitsAsBefore says whether the present spec offers a member nothing better than the instance of before that it has, however long
// mysqld takes to start there: it could be seeded with no newer one, or its data is not to be opened by a newer one yet.
func (p *upgrades) suitsAsBefore(m *Member, in *Instance) bool {
	if !p.mixed() || in.TemplateHash != p.Before.Hash {
		return false
	}
	toSeed := p.plan.Records.Members[m.Name].ToSeed == in.Incarnation && !sameSeries(p.Before.Version, p.Version)
	return p.turns.opensAsBefore(m) || toSeed && (p.turns.presentMembership() == nil || p.turns.seededAsBefore(m))
}

// renewsAsBefore says whether an instance with the previous MySQL version on which mysqld does not start is to give way to another such,
// because something else that it was made from was corrected since.
func (p *upgrades) renewsAsBefore(m *Member, in *Instance) bool {
	return in.TemplateHash != "" && in.TemplateHash != p.TemplateHash && in.TemplateHash != p.Before.Hash && p.launchesAsBefore(m)
}

// renewBefore ends such instances. Their volumes stay.
func (p *upgrades) renewBefore() {
	if !p.CloudReachable || !p.Launchable {
		return
	}
	for _, m := range p.ordered() {
		if in := m.CurrentInstance(); m.Ordinal < p.Replicas && p.startFails(m) && p.renewsAsBefore(m, in) && !p.busy(m.Name) {
			p.retry(waitEC2, TerminateInstance{m.Name, in.ID})
		}
	}
}

// tellBefore says what a person can do about instances with the previous MySQL version on which mysqld does not start.
func (p *upgrades) tellBefore() {
	for _, m := range p.ordered() {
		if in := m.CurrentInstance(); m.Ordinal < p.Replicas && p.startFails(m) && p.suitsAsBefore(m, in) {
			p.degraded(v1alpha1.ReasonRollingStopped, fmt.Sprintf("%s does not come up with MySQL %s on instance %s, made as before the version was raised: set spec.version back to %s, with an image or a download that has it, and raise it again when all members are well",
				m.Name, p.Before.Version, in.ID, p.Before.Version))
		}
	}
}

// anewAtMost is how often a member is made anew for one version that it went ahead to.
const anewAtMost = 3

// makeAnew remembers that a member is being taken away to be made anew with the previous MySQL version.
func (p *upgrades) makeAnew(m *Member) {
	rec := p.plan.Records.Members[m.Name]
	rec.Anew = true
	p.plan.Records.Members[m.Name] = rec
}

// countAnew counts that a member was made anew for a version.
func (rec *Record) countAnew(version string) {
	if rec.AnewFor != version {
		rec.AnewFor, rec.AnewTimes = version, 0
	}
	rec.AnewTimes++
}

// forgetAnew forgets how often members were made anew for a version that is asked for no more.
func (p *upgrades) forgetAnew() {
	for name, rec := range p.plan.Records.Members {
		if rec.AnewFor != "" && rec.AnewFor != p.Version {
			rec.AnewFor, rec.AnewTimes = "", 0
			p.plan.Records.Members[name] = rec
		}
	}
}

// anewTooOften returns why a member is not upgraded any more, or "": every time that it was, it had to be made anew.
func (p *upgrades) anewTooOften(m *Member) Step {
	if !p.upgradedInVain(m) {
		return Step{}
	}
	p.waitAtMost(waitReady)
	p.degraded(v1alpha1.ReasonRollingStopped, fmt.Sprintf("%s was rebuilt %d times after its upgrade to MySQL %s and is not rebuilt again: the events say what stopped its replication. Set spec.version back, and raise it when the cause is gone",
		m.Name, p.plan.Records.Members[m.Name].AnewTimes, p.Version))
	return waits("upgraded in vain before")
}

// upgradedInVain says whether a member had to be made anew each time that it was upgraded to the version asked for.
func (p *upgrades) upgradedInVain(m *Member) bool {
	rec := p.plan.Records.Members[m.Name]
	return rec.AnewFor == p.Version && rec.AnewTimes >= anewAtMost && m.SQL.Version != p.Version
}

// noteTemplate remembers what the instances are made from once all members are well on such ones.
func (p *upgrades) noteTemplate() {
	if p.Template == "" || p.plan.Records.Template == p.Template || p.plan.Records.Rolling != "" || !p.CloudReachable || !p.turns.allWell() {
		return
	}
	for _, m := range p.ordered() {
		in := m.CurrentInstance()
		if m.Ordinal < p.Replicas && (in == nil || in.TemplateHash != p.TemplateHash || m.SQL.Version != p.Version) {
			return
		}
	}
	p.plan.Records.Template = p.Template
}
