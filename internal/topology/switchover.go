package topology

import (
	"cmp"
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// handover has another voter lead, because a person wants it, or because the primary is to be changed or restarted.
type handover struct {
	*pass
	acks  *acks
	turns *turns

	// restartStep is what the next restart of a mysqld waits for.
	restartStep Step
}

// handOver plans a switchover when a person asked for one, or when EC2 announced that it will disturb the primary's instance.
func (p *handover) handOver() {
	if failed := &p.plan.Records.HandOverFailed; *failed != p.SwitchoverTo {
		*failed = ""
	}
	primary := p.Members[p.plan.Primary]
	if primary == nil || p.unconfirmed {
		return
	}
	if p.SwitchoverTo != "" && p.SwitchoverTo != primary.Name {
		p.handOverTo(primary, p.SwitchoverTo)
		return
	}
	in := primary.CurrentInstance()
	if in != nil && in.Event != "" && in.EventAt.Sub(p.Now) < announcedSoon {
		if to := p.successor(primary); to != nil {
			p.switchover(primary, to, "EC2 announced "+in.Event)
		}
	}
}

// handOverTo plans the switchover that a person asked for, waits until it can be done, or says why it never can.
func (p *handover) handOverTo(primary *Member, name string) {
	to := p.Members[name]
	if p.plan.Answers.Switchover = p.refusesSwitchover(primary, to, name); p.plan.Answers.Switchover.Given() {
		return
	}
	if why := p.notReadyToLead(to); why.Waits() {
		p.waitAtMost(waitMySQL)
		if v := p.views[primary.Name]; !v.Step.Waits() {
			v.Step = waits(fmt.Sprintf("hands over to %s as soon as that %s", name, why.Message))
		}
		return
	}
	p.switchover(primary, to, "asked for by annotation")
}

// refusesSwitchover refuses a switchover to a member that cannot be the primary.
func (p *handover) refusesSwitchover(primary, to *Member, name string) Answer {
	if answer := p.refusesMember(name); answer.Given() {
		return answer
	}
	switch other, older := p.successor(primary), p.olderThan(to, primary); {
	case p.Replicas == 1:
		return refused("there is only one member")
	case name == p.plan.Records.HandOverFailed:
		return refused("the switchover to %s failed, and %s was promoted. Check that %s is well and that XA RECOVER lists no transaction on %s, then ask again", name, primary.Name, name, primary.Name)
	case older != nil:
		return refused("%s runs MySQL %s, and %s, which runs %s, would have to replicate from it: MySQL supports that only the other way round. Ask again when every member runs the same version",
			name, to.SQL.Version, older.Name, older.SQL.Version)
	case to != nil && to.unstable() && other != nil && !other.unstable():
		return refused("%s: %s; name another member, such as %s", name, to.Unstable, other.Name)
	}
	return Answer{}
}

// switchover plans to hand over, unless something else is planned for one of the two.
func (p *handover) switchover(primary, to *Member, why string) {
	p.waitAtMost(waitMySQL)
	if p.unconfirmed || p.busy(primary.Name) || p.busy(to.Name) || p.acks.changingVotes() || !p.plan.Membership.Settled() {
		return
	}
	next := p.at(p.plan.Membership.LedBy(to))
	p.plan.Records.recordHandOver(to, next.Epoch) // which proves nothing, so that a doubt stays
	p.retry(waitNext, Switchover{Member: primary.Name, To: to.Name, From: *p.plan.Membership, Next: next, SemiSync: p.Lossless && len(p.plan.Membership.Voters) > 1, Why: why})
}

// notReadyToLead says what a member still has to do before it can take over; empty when it is ready.
func (p *handover) notReadyToLead(m *Member) Step {
	switch {
	case m == nil || !m.verified():
		return waits("answers")
	case !p.plan.Membership.Has(m.Name):
		return waits("is a voter")
	case m.SQL.Membership == nil || m.SQL.Membership.Epoch != p.plan.Membership.Epoch:
		return waits("knows the present voters")
	case m.unsound() != nil:
		return waits("has the settings that it must have: " + m.unsound().String())
	case p.plan.Records.gap(m).found():
		return waits("is rebuilt, because it left out or changed what it received: " + p.plan.Records.gap(m).Why)
	case p.plan.Records.mayLack(m):
		return waits("has shown in its binary log whether it applied a transaction at which its applier had stopped")
	case !m.following():
		return waits("replicates")
	case !m.SQL.Replication.LagKnown || m.SQL.Replication.Lag > time.Second:
		return waits("has caught up")
	}
	return Step{}
}

// successor returns the voter that takes over best: ready to lead, on an instance that nobody is about to disturb, with all
// its settings in effect; by ordinal. An unstable one is the last choice.
func (p *handover) successor(primary *Member) *Member {
	var second, last *Member
	for _, m := range p.ordered() {
		in := m.CurrentInstance()
		if m == primary || in == nil || p.notReadyToLead(m).Waits() || p.busy(m.Name) || m.Ordinal >= p.Replicas || p.tooNewToLead(m, primary) {
			continue
		}
		switch {
		case in.Event != "":
		case m.unstable():
			last = cmp.Or(last, m)
		case !in.Impaired && !p.RestartDue(m, p.Now) && !p.turns.outdated(m):
			return m
		default:
			second = cmp.Or(second, m)
		}
	}
	return cmp.Or(second, last)
}

// tooNewToLead says whether another replica would get a source that is newer than itself: MySQL supports it the other way
// round only. The primary that hands over in the course of an upgrade is replaced right after.
func (st *state) tooNewToLead(m, primary *Member) bool {
	older := st.olderThan(m, primary)
	return older != nil && older != primary
}

// olderThan returns a member that runs an older version than the one that is to lead; one that stays a replica before the
// primary. Nil for none.
func (st *state) olderThan(to, primary *Member) *Member {
	if to == nil || !to.verified() {
		return nil
	}
	var found *Member
	for _, other := range st.ordered() {
		if other != to && other.Ordinal < st.Replicas && other.verified() && mysql.OlderVersion(other.SQL.Version, to.SQL.Version) && (found == nil || found == primary) {
			found = other
		}
	}
	return found
}

// restartPrimary hands over before a primary is restarted, so that writes stop for a second and not for a restart, and waits
// until somebody can take over. Only one that is alone by the spec is restarted in place.
func (p *handover) restartPrimary(primary *Member) {
	if to := p.successor(primary); to != nil {
		if why := p.acks.handsOverLater(primary, to); why.Waits() {
			p.restartStep = waits(fmt.Sprintf("%s is to be restarted last, and hands over to %s before: %s", primary.Name, to.Name, why.Message))
			return
		}
		p.switchover(primary, to, "its mysqld is to be restarted")
		return
	}
	if p.Replicas > 1 {
		p.waitAtMost(waitMySQL)
		p.restartStep = waits(primary.Name + " is to be restarted last, and waits for a member that can take over")
		return
	}
	p.retry(waitMySQL, Restart{primary.Name})
	p.views[primary.Name].Step = restarting
	p.views[primary.Name].Phase = v1alpha1.PhaseReplicating
}
