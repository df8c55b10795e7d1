package topology

import (
	"slices"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// turns says which members run what the spec does not want any more, which are too new for it, and whose turn it is to be changed.
type turns struct {
	*pass
	acks *acks

	// unopened are the members that wait before a newer mysqld opens their volumes.
	unopened []string
}

// endRolling ends a member's turn. When it was changed, that is noted for those who follow the progress.
func (p *turns) endRolling(changed bool) {
	rec := &p.plan.Records
	if changed && !slices.Contains(rec.RollingDone, rec.Rolling) {
		rec.RollingDone = append(rec.RollingDone, rec.Rolling)
	}
	if m, known := rec.Members[rec.Rolling]; known && m.Rebuilding {
		m.Rebuilding = false // it is found out once more
		rec.Members[rec.Rolling] = m
	}
	rec.Rolling, rec.RollingAt = "", 0
	rec.Nearest, rec.NearestAt = 0, 0
}

// allWell says whether nothing else is going on that a change of a member would come on top of.
func (p *turns) allWell() bool {
	if p.votesChange() {
		return false
	}
	for ordinal := range p.Replicas {
		if m := p.Members[p.MemberName(ordinal)]; m == nil || !p.isWell(m) {
			return false
		}
	}
	return true
}

// votesChange says whether a change of the voters is under way, or they are not known.
func (p *turns) votesChange() bool {
	return p.plan.Membership == nil || !p.plan.Membership.Settled() || p.plan.Records.Leaving != "" || p.acks.changingVotes()
}

// isWell says whether a member is Ready and nothing is done about it.
func (p *turns) isWell(m *Member) bool {
	v := p.views[m.Name]
	return v != nil && v.Phase == v1alpha1.PhaseReady && !v.Step.Waits() && !p.busy(m.Name) && (v.Voter || v.Role == v1alpha1.RolePrimary)
}

// outdated says whether a member's instance was made from an earlier spec, or is newer than the present one asks for. An instance without the tag is left alone: nobody
// knows what it was made from.
func (p *turns) outdated(m *Member) bool {
	if p.tooNew(m) {
		return true
	}
	in := m.CurrentInstance()
	return in != nil && in.TemplateHash != "" && p.TemplateHash != "" && in.TemplateHash != p.TemplateHash
}

// rolling says whether it is a member's turn to be changed, and was not yet.
func (p *turns) rolling(m *Member) bool {
	return p.plan.Records.Rolling == m.Name && (m.Ordinal >= p.Replicas || p.outdated(m))
}

// givesVoteBack says whether a member has no use for its vote: it is its turn, and either it leaves or all others have theirs.
func (p *turns) givesVoteBack(m *Member) bool {
	return p.rolling(m) && (m.Ordinal >= p.Replicas || p.othersVote(m))
}

// othersVote says whether every other member that the spec asks for is a voter. When one is lost while another gives its vote
// back to be replaced, that one gets it back and waits.
func (p *turns) othersVote(m *Member) bool {
	for ordinal := range p.Replicas {
		if name := p.MemberName(ordinal); name != m.Name && (p.plan.Membership == nil || !p.plan.Membership.Has(name)) {
			return false
		}
	}
	return true
}

// opensWithPrevious says whether a member's data is left to the previous version, because the present one has to wait.
func (p *turns) opensWithPrevious(m *Member) bool {
	return p.mixed() && (p.Hold != "" || p.Untried != "") && p.plan.Records.Members[m.Name].Opened == p.PreviousTemplate.Version
}

// downgradeVersion is the version with which a member is rebuilt that is newer than its cluster.
func (p *turns) downgradeVersion(m *Member) string {
	if p.plan.Records.Members[m.Name].Rebuilding && p.PreviousTemplate.Version != "" {
		return p.PreviousTemplate.Version
	}
	return p.Version
}

// mayBeNeeded says whether a member that spec.replicas does not ask for has to be kept running all the same: it has a vote, or
// nobody knows whether it has one.
func (p *turns) mayBeNeeded(m *Member) bool {
	row := p.newestMembership()
	return row == nil || row.Has(m.Name) || slices.Contains(row.Previous, m.Name)
}

// forgetMember makes the records of a member that was taken away ready for another of its name: the tokens of what it had
// are used up, and no server goes on with the UUID that its volume had.
func (p *turns) forgetMember(m *Member) {
	rec := p.plan.Records.Members[m.Name]
	if rec == (MemberRecord{}) {
		return
	}
	rec.PendingVolume, rec.AbandonedVolume, rec.VolumeFailedAt = "", "", 0
	rec.RestartFor, rec.Undone, rec.UndoneWhy = "", "", ""
	if rec.Rebuilding {
		rec.countRebuild(p.Version)
	}
	if rec.Rebuilding = false; m.Ordinal >= p.Replicas {
		rec.RebuiltFor, rec.RebuiltTimes = "", 0
	}
	rec.VolumeID, rec.SignedInstance, rec.SignedKey, rec.RestartDue, rec.Tail, rec.Opened = "", "", "", 0, "", ""
	rec.Instance++
	rec.Volume++
	p.plan.Records.Members[m.Name] = rec
}

// recordOpened remembers which version opens a member's volume from now on, unless a newer one is remembered.
func (p *turns) recordOpened(m *Member, version string) {
	rec := p.plan.Records.Members[m.Name]
	if version != "" && (rec.Opened == "" || mysql.OlderVersion(rec.Opened, version)) {
		rec.Opened = version
		p.plan.Records.Members[m.Name] = rec
	}
}

// recordVersions notes what the members that answer run, in case the records do not know. One that is newer than the spec asks for
// on an instance of the present spec runs what its image has, whatever the spec says.
func (p *turns) recordVersions() {
	for _, m := range p.Members {
		in := m.CurrentInstance()
		if in == nil || m.volume() == nil || p.Version == "" {
			continue
		}
		if !m.verified() {
			if vol := m.volume(); vol.AttachedTo == in.ID && in.TemplateHash != "" && in.TemplateHash == p.TemplateHash {
				p.recordOpened(m, p.Version) // it was attached by somebody whose records are lost
			}
			continue
		}
		if !mysql.OlderVersion(p.Version, m.SQL.Version) || in.TemplateHash != "" && in.TemplateHash != p.TemplateHash {
			p.recordOpened(m, m.SQL.Version)
		}
	}
}

// versionOn is what a member's instance was made to run; empty when that is not known.
func (p *turns) versionOn(m *Member, in *Instance) string {
	rec := p.plan.Records.Members[m.Name]
	switch {
	case in.TemplateHash == p.TemplateHash:
		return p.Version
	case p.PreviousTemplate.Hash != "" && in.TemplateHash == p.PreviousTemplate.Hash:
		return p.PreviousTemplate.Version // the same incarnation may have been ordered for either
	case rec.LaunchedAs == in.Incarnation:
		return rec.Launched
	}
	return ""
}

// trying returns another member whose mysqld of a newer version has its volume, or gets it in this pass, and is not up, as long as no member is up with
// that version; nil for none. An instance that is silent as a whole tells nothing about the version, nor does one whose volume is gone;
// one that was started a moment ago and is off, or on its way, is waited for.
func (p *turns) trying(m *Member, version string) *Member {
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
func (p *turns) opensWith(m *Member, version string) bool {
	in := m.CurrentInstance()
	if m.volume() == nil || m.verified() || in == nil || p.plan.Records.Members[m.Name].Opened != version {
		return false
	}
	if in.State == stateRunning && (m.SilentSince.IsZero() || m.SQL.Access == AccessRefused || p.Now.Sub(m.SilentSince) < silenceAllowed) {
		return true
	}
	return in.sincePowerUp(p.Now) < silenceAllowed
}

// wayBack is the version that spec.version can be set back to: what the primary still runs. Without a primary, what those have
// who wait for another to come up with the newer one. Empty when there is none.
func (p *turns) wayBack(primary *Member) string {
	if primary != nil {
		if mysql.OlderVersion(primary.SQL.Version, p.Version) {
			return primary.SQL.Version
		}
		return ""
	}
	back := ""
	for _, name := range p.unopened {
		if opened := p.plan.Records.Members[name].Opened; back == "" || mysql.OlderVersion(back, opened) {
			back = opened
		}
	}
	return back
}

// tooNew says whether a newer mysqld than the spec asks for has opened a member's volume, or one that is newer than all that it
// could be seeded from.
func (p *turns) tooNew(m *Member) bool {
	rec := p.plan.Records.Members[m.Name]
	if rec.Rebuilding {
		return true
	}
	opened := rec.Opened
	if p.Version == "" || opened == "" || !mysql.OlderVersion(p.Version, opened) {
		return false
	}
	return !m.verified() || mysql.OlderVersion(p.Version, m.SQL.Version)
}

// downgrading says whether a member is being taken back to the previous version at the moment.
func (p *turns) downgrading(m *Member) bool {
	return m.Ordinal < p.Replicas && p.plan.Records.Rolling == m.Name && p.tooNew(m)
}

// presentMembership is the row that the pass goes by, or before that is settled the newest that was seen.
func (p *turns) presentMembership() *Membership {
	if p.plan.Membership != nil {
		return p.plan.Membership
	}
	return p.newestMembership()
}

// seededWithPrevious says whether all that a member can be seeded from run the previous version. A primary that is not heard counts
// as what has opened its data. One of a series that is neither that of before nor the one asked for seeds nobody: the spec was raised
// once more before the last change had gone round.
func (p *turns) seededWithPrevious(m *Member) bool {
	row := p.presentMembership()
	if row == nil {
		return false
	}
	before, between := false, false
	for _, other := range p.Members {
		version := other.SQL.Version
		if !other.verified() {
			version = ""
			if other.Name == row.Primary {
				version = p.plan.Records.Members[other.Name].Opened
			}
		}
		switch {
		case other == m || !row.Has(other.Name) || version == "":
		case version == p.PreviousTemplate.Version:
			before = true
		case mysql.SameSeries(version, p.Version):
			return false
		default:
			between = true
		}
	}
	return before || !between
}
