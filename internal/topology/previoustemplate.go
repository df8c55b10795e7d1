package topology

import (
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// Template is what instances are made from, as far as decisions depend on it.
type Template struct {
	// Hash identifies it; Version is that of the mysqld which it brings, x.y.z.
	Hash, Version string
}

// While a newer version is on its way through the cluster, an instance that has to be launched out of turn is made from the present
// spec (see mayOpen for what is done before it opens data), but as before the version was raised where that would not do: for a
// member that is to be seeded, as long as all that it can be seeded from run the previous version, because CLONE does
// not go from one series to another; and for one with data, as long as nobody is to be disturbed, because opening the data
// is the upgrade.

// mixed says whether a newer version than the previous one is on its way.
func (d Desired) mixed() bool {
	return d.PreviousTemplate.Version != "" && mysql.OlderVersion(d.PreviousTemplate.Version, d.Version)
}

// launchesPrevious says whether a member's next instance is made with the previous MySQL version.
func (p *upgrades) launchesPrevious(m *Member) bool {
	switch {
	case !p.mixed():
		return false
	case p.toSeed(m):
		return p.turns.seededWithPrevious(m)
	}
	return p.turns.opensWithPrevious(m)
}

// toSeed says whether a member has nothing that it needs: it never had a volume with data, or was launched to be seeded with the
// previous version and has no vote yet.
func (p *upgrades) toSeed(m *Member) bool {
	rec, row := p.plan.Records.Members[m.Name], p.turns.presentMembership()
	if rec.Opened == "" && rec.VolumeID == "" {
		return true
	}
	return rec.ToSeed != 0 && rec.ToSeed == rec.Instance && rec.Opened == p.PreviousTemplate.Version && row != nil && !row.Has(m.Name)
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

// suitsPrevious says whether the present spec offers a member nothing better than the previous instance that it has, however long
// mysqld takes to start there: it could be seeded with no newer one, or its data is not to be opened by a newer one yet.
func (p *upgrades) suitsPrevious(m *Member, in *Instance) bool {
	if !p.mixed() || in.TemplateHash != p.PreviousTemplate.Hash {
		return false
	}
	toSeed := p.plan.Records.Members[m.Name].ToSeed == in.Incarnation && !mysql.SameSeries(p.PreviousTemplate.Version, p.Version)
	return p.turns.opensWithPrevious(m) || toSeed && (p.turns.presentMembership() == nil || p.turns.seededWithPrevious(m))
}

// replacesPrevious says whether an instance with the previous MySQL version on which mysqld does not start is to give way to another such,
// because something else that it was made from was corrected since.
func (p *upgrades) replacesPrevious(m *Member, in *Instance) bool {
	return in.TemplateHash != "" && in.TemplateHash != p.TemplateHash && in.TemplateHash != p.PreviousTemplate.Hash && p.launchesPrevious(m)
}

// replacePreviousInstances ends such instances. Their volumes stay.
func (p *upgrades) replacePreviousInstances() {
	if !p.CloudReachable || !p.Launchable {
		return
	}
	for _, m := range p.ordered() {
		if in := m.CurrentInstance(); m.Ordinal < p.Replicas && p.startFails(m) && p.replacesPrevious(m, in) && !p.busy(m.Name) {
			p.retry(waitEC2, TerminateInstance{m.Name, in.ID})
		}
	}
}

// reportPreviousFails says what a person can do about instances with the previous MySQL version on which mysqld does not start.
func (p *upgrades) reportPreviousFails() {
	for _, m := range p.ordered() {
		if in := m.CurrentInstance(); m.Ordinal < p.Replicas && p.startFails(m) && p.suitsPrevious(m, in) {
			p.degraded(v1alpha1.ReasonRollingStopped, fmt.Sprintf("%s does not come up with MySQL %s on instance %s, made as before the version was raised: set spec.version back to %s, with an image or a download that has it, and raise it again when all members are well",
				m.Name, p.PreviousTemplate.Version, in.ID, p.PreviousTemplate.Version))
		}
	}
}

// rebuildLimit is how often a member is rebuilt for one version that it went ahead to.
const rebuildLimit = 3

// recordRebuild remembers that a member is being taken away to be rebuilt with the previous MySQL version.
func (p *upgrades) recordRebuild(m *Member) {
	rec := p.plan.Records.Members[m.Name]
	rec.Rebuilding = true
	p.plan.Records.Members[m.Name] = rec
}

// countRebuild counts that a member was rebuilt for a version.
func (rec *MemberRecord) countRebuild(version string) {
	if rec.RebuiltFor != version {
		rec.RebuiltFor, rec.RebuiltTimes = version, 0
	}
	rec.RebuiltTimes++
}

// forgetRebuilds forgets how often members were rebuilt for a version that is asked for no more.
func (p *upgrades) forgetRebuilds() {
	for name, rec := range p.plan.Records.Members {
		if rec.RebuiltFor != "" && rec.RebuiltFor != p.Version {
			rec.RebuiltFor, rec.RebuiltTimes = "", 0
			p.plan.Records.Members[name] = rec
		}
	}
}

// rebuiltTooOften returns why a member is not upgraded any more, or "": every time that it was, it had to be rebuilt.
func (p *upgrades) rebuiltTooOften(m *Member) Step {
	if !p.upgradedInVain(m) {
		return Step{}
	}
	p.waitAtMost(waitReady)
	p.degraded(v1alpha1.ReasonRollingStopped, fmt.Sprintf("%s was rebuilt %d times after its upgrade to MySQL %s and is not rebuilt again: the events say what stopped its replication. Set spec.version back, and raise it when the cause is gone",
		m.Name, p.plan.Records.Members[m.Name].RebuiltTimes, p.Version))
	return waits("upgraded in vain before")
}

// upgradedInVain says whether a member had to be rebuilt each time that it was upgraded to the version asked for.
func (p *upgrades) upgradedInVain(m *Member) bool {
	rec := p.plan.Records.Members[m.Name]
	return rec.RebuiltFor == p.Version && rec.RebuiltTimes >= rebuildLimit && m.SQL.Version != p.Version
}

// recordTemplate remembers what the instances are made from once all members are well on such ones.
func (p *upgrades) recordTemplate() {
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
