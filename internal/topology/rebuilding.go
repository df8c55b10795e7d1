package topology

import (
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// RebuildRequest is what is remembered of a person's request to rebuild a member.
type RebuildRequest struct {
	// At is when the request was first seen, in Unix seconds; 0 when there is none.
	At int64 `json:"at,omitempty"`
	// After identifies the member's last CLONE before the request, see Clone.Began. The request is done when a later one is completed.
	After string `json:"after,omitempty"`
}

// takeRebuildRequest decides whether the rebuild that a person asked for is done, refused, or goes on. What is remembered of a
// request is forgotten when the request is gone, not when it is done: until then an operator may read it once more.
func (p *replication) takeRebuildRequest(primary *Member) {
	if p.RebuildMember == "" {
		return
	}
	m, rec := p.Members[p.RebuildMember], p.plan.Records.Members[p.RebuildMember]
	if m != nil && rec.Rebuild.At != 0 && m.clonedAfter(rec.Rebuild.After) {
		p.plan.Answers.Rebuild.Done = fmt.Sprintf("%s; the snapshot of its volume is kept for 7 days", m.Name)
		return
	}
	if p.plan.Answers.Rebuild = p.refusesRebuild(m, primary); p.plan.Answers.Rebuild.Given() {
		return
	}
	if m != nil && m.verified() && m.lastClone() != unknownClone && rec.Rebuild.At == 0 {
		rec.Rebuild = RebuildRequest{At: p.Now.Unix(), After: m.lastClone()}
		p.plan.Records.Members[m.Name] = rec
	}
}

// dropRebuildRequests forgets the requests that no annotation makes any more, also while there is no primary: a later one is another.
func (p *replication) dropRebuildRequests() {
	for name, rec := range p.plan.Records.Members {
		if rec.Rebuild != (RebuildRequest{}) && name != p.RebuildMember {
			rec.Rebuild = RebuildRequest{}
			p.plan.Records.Members[name] = rec
		}
	}
}

// refusesRebuild refuses the rebuild of a member that cannot be rebuilt.
func (p *replication) refusesRebuild(m, primary *Member) Answer {
	if answer := p.refusesMember(p.RebuildMember); answer.Given() {
		return answer
	}
	switch {
	case p.Replicas == 1:
		return refused("%s is the only member, so there is nothing to copy from; restore the cluster from a backup instead", p.RebuildMember)
	case p.RebuildMember == primary.Name:
		return refused("%s is the primary; switch over to another member first (annotation %s), then ask again", primary.Name, v1alpha1.AnnotationSwitchover)
	case m != nil && p.answersNobody(m) && p.plan.Records.Members[m.Name].Rebuild.At == 0:
		return refused("mysqld of %s does not answer, and only one that answers can be told to copy; end its instance and delete volume %s in EC2, and it gets a new one with a copy of the primary's data", m.Name, m.volume().ID)
	case m != nil && m.verified() && !m.cloning() && !mysql.SameSeries(m.SQL.Version, primary.SQL.Version) && !p.seeding.hasOtherDonor(m):
		return refused("%s runs MySQL %s, and no voter of that series can be cloned from%s", m.Name, m.SQL.Version, p.seeding.adviceOnSeries(m, primary))
	}
	return Answer{}
}

// answersNobody says whether mysqld on a member's volume has not answered for a while.
func (o Observed) answersNobody(m *Member) bool {
	return !m.verified() && m.volume() != nil && !m.DownSince.IsZero() && o.Now.Sub(m.DownSince) >= cyclePatience
}

// toBeRebuilt says whether a person asked for a member's rebuild, and it is neither done nor refused.
func (p *replication) toBeRebuilt(m *Member) bool {
	return p.RebuildMember == m.Name && !p.plan.Answers.Rebuild.Given() && p.plan.Records.Members[m.Name].Rebuild.At != 0
}

// needsVote says what a rebuild that a person asked for waits for because the member's vote is needed; empty when it is not. What
// follows from a removal that was begun is decided by that.
func (p *replication) needsVote(m, primary *Member) Step {
	row := p.plan.Membership
	switch {
	case !p.mayVote(m):
		return Step{}
	case p.unconfirmed || !row.Settled():
		return waits("until the voters are confirmed")
	case p.plan.Records.Leaving == "" && !p.turns.othersVote(m):
		return waits("until all other members are voters")
	case !p.votes.mayRemove(m, primary):
		return waits("until enough other voters acknowledge")
	}
	return Step{}
}

// rebuildOnRequest plans the rebuild that a person asked for, and returns what the member waits for. Empty means that its
// replication goes on meanwhile.
func (p *replication) rebuildOnRequest(m, primary *Member) Step {
	if !p.toBeRebuilt(m) || p.needsVote(m, primary).Waits() {
		return Step{}
	}
	return p.seeding.rebuild(m, primary, fmt.Sprintf("asked for at %d", p.plan.Records.Members[m.Name].Rebuild.At))
}

// reportRebuild sets as the member's message what the rebuild that a person asked for waits for.
func (p *replication) reportRebuild() {
	m, primary := p.Members[p.RebuildMember], p.Members[p.plan.Primary]
	if m == nil || primary == nil || !p.toBeRebuilt(m) {
		return
	}
	p.waitAtMost(waitMySQL)
	if v := p.views[m.Name]; v != nil && !v.Step.Waits() {
		v.Step = waits("to be rebuilt; waiting " + p.needsVote(m, primary).Message)
	}
}
