package topology

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// seeding replaces what members hold by a copy of a sound member.
type seeding struct {
	*pass
	turns   *turns
	votes   *votes
	healing *healing
}

// rebuild plans to replace what a member holds by a copy of the primary: first its vote is taken, then its volume is kept
// as a snapshot when it holds something worth looking at, then it is cloned. evidence identifies what that is.
func (p *seeding) rebuild(m, primary *Member, evidence string) Step {
	if !p.votes.expel(m, primary) {
		p.waitAtMost(waitMySQL)
		return waits("losing its vote before it is rebuilt")
	}
	vol := m.volume()
	if evidence != "" && vol != nil {
		sum := sha256.Sum256([]byte(m.Name + " " + evidence))
		purpose := quarantinePrefix + hex.EncodeToString(sum[:8])
		if p.snapshotFor(vol.ID, purpose) == nil {
			if !p.CloudReachable {
				p.waitAtMost(waitEC2)
				return waits("waiting for EC2's API, to take a snapshot before it is rebuilt")
			}
			if why := p.healing.afterFailed(m, vol.ID, purpose); why.Waits() {
				return why
			}
			p.retry(waitMySQL, TakeSnapshot{m.Name, vol.ID, purpose})
			return waits("taking a snapshot before it is rebuilt")
		}
	}
	p.recordTail(m, primary)
	return p.clone(m, primary)
}

// recordTail notes what a member that is about to be rebuilt has committed under its own UUID, and the primary has not. The
// copy brings back none of it, and leaves the UUID as it is.
func (p *seeding) recordTail(m, primary *Member) {
	lost := m.SQL.Executed.Subtract(primary.SQL.Executed)
	own := lost.Subtract(lost.WithoutSource(m.SQL.ServerUUID))
	if own.IsEmpty() {
		return
	}
	rec := p.plan.Records.Members[m.Name]
	if before, err := gtid.Parse(rec.Tail); err == nil {
		own = own.Union(before)
	}
	rec.Tail = own.String()
	p.plan.Records.Members[m.Name] = rec
}

// clone plans the seeding of a member from a donor that is free: a server serves one CLONE at a time (error 3634).
func (p *seeding) clone(m, primary *Member) Step {
	donor := p.donorFor(m, primary)
	if donor == nil && p.rebuildsWithPrevious(m, primary) {
		p.waitAtMost(waitMySQL)
		return waits(fmt.Sprintf("to be rebuilt with MySQL %s: CLONE does not go from there to %s", primary.SQL.Version, m.SQL.Version))
	}
	if donor == nil && p.unseedable(m, primary) {
		p.waitAtMost(waitMySQL)
		p.degraded(v1alpha1.ReasonMemberMissing, fmt.Sprintf("%s runs MySQL %s and has to be cloned, but CLONE does not go from one series to another, and %s runs %s%s",
			m.Name, m.SQL.Version, primary.Name, primary.SQL.Version, p.adviceOnSeries(m, primary)))
		return waits("nobody runs a version that it can be cloned from")
	}
	if donor == nil {
		p.waitFor(m)
		return waits("waiting for its turn to be cloned")
	}
	address, _ := mysqlAddress(donor) // a donor has one
	p.retry(waitMySQL/2, CloneFrom{m.Name, donor.Name, address})
	if m.cloneCutOff() {
		p.degraded(v1alpha1.ReasonMemberMissing, fmt.Sprintf("%s: CLONE failed, it is tried again: %s", m.Name, m.SQL.Clone.Message))
	}
	return waits("seeding by CLONE from " + donor.Name)
}

// donorFor returns the primary, or another sound donor, whichever serves no other CLONE. CLONE goes between versions
// of one series only (Reference Manual, "Clone Plugin Limitations").
func (p *seeding) donorFor(m, primary *Member) *Member {
	busy := p.busyDonors(m)
	donors := []*Member{primary}
	for _, other := range p.ordered() {
		if other != primary && other != m && p.soundDonor(other, primary) && !mysql.OlderVersion(m.SQL.Version, other.SQL.Version) {
			donors = append(donors, other)
		}
	}
	for _, d := range donors {
		if address, known := mysqlAddress(d); known && !busy[address] && mysql.SameSeries(m.SQL.Version, d.SQL.Version) {
			return d
		}
	}
	return nil
}

// soundDonor says whether a replica is a stable voter that replicates well, and holds what the primary holds and nothing else.
func (p *seeding) soundDonor(m, primary *Member) bool {
	return p.plan.Membership.Has(m.Name) && !p.busy(m.Name) && !m.unstable() && m.following() &&
		errantOf(m, primary).IsEmpty() && !outOfReach(m, primary) && !p.plan.Records.mayLack(m)
}

// busyDonors are the addresses of those that another member is being cloned from, or is to be in this pass.
func (p *seeding) busyDonors(m *Member) map[string]bool {
	busy := map[string]bool{}
	for _, other := range p.Members {
		if other.cloning() && other != m {
			busy[other.SQL.Clone.Source] = true
		}
	}
	for _, a := range p.plan.Actions {
		if c, ok := a.(CloneFrom); ok {
			busy[c.DonorAddress] = true
		}
	}
	return busy
}

// unseedable says whether a member without a vote has to be cloned, and all that it could be cloned from run another series.
func (p *seeding) unseedable(m, primary *Member) bool {
	if !m.verified() || p.turns.mayBeNeeded(m) || mysql.SameSeries(m.SQL.Version, primary.SQL.Version) {
		return false
	}
	if !m.SQL.Executed.IsEmpty() && !m.cloneCutOff() && p.errant(m, primary).IsEmpty() && !outOfReach(m, primary) && !m.stuck(p.Now) {
		return false
	}
	return !p.hasOtherDonor(m)
}

// adviceOnSeries says how a member that went ahead to another series is rebuilt; empty for any other.
func (p *seeding) adviceOnSeries(m, primary *Member) string {
	if !mysql.OlderVersion(primary.SQL.Version, m.SQL.Version) || p.turns.tooNew(m) {
		return ""
	}
	return fmt.Sprintf(". To have it made anew, set spec.version back to %s, and raise it again when all members are well", primary.SQL.Version)
}

// hasOtherDonor says whether a voter besides the primary runs a version that a member can be cloned from.
func (p *seeding) hasOtherDonor(m *Member) bool {
	return slices.ContainsFunc(p.ordered(), func(d *Member) bool {
		return d != m && p.plan.Membership.Has(d.Name) && d.verified() && mysql.SameSeries(m.SQL.Version, d.SQL.Version) && !mysql.OlderVersion(m.SQL.Version, d.SQL.Version)
	})
}

// rebuildsWithPrevious says whether a member that cannot be seeded with the version that it has is to be rebuilt with the one of
// before, which all others run.
func (p *seeding) rebuildsWithPrevious(m, primary *Member) bool {
	rec := p.plan.Records.Members[m.Name]
	return p.mixed() && (rec.RebuiltFor != p.Version || rec.RebuiltTimes < rebuildLimit) &&
		primary.SQL.Version == p.PreviousTemplate.Version && p.unseedable(m, primary) && p.turns.seededWithPrevious(m)
}
