package topology

import (
	"fmt"
	"net"
	"strconv"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// replicate gives the members that answer their roles.
func (p *planner) replicate() {
	primary := p.choosePrimary()
	if primary == nil {
		for _, m := range p.ordered() {
			if v := p.views[m.Name]; v.Phase == v1alpha1.PhaseReplicating && m.verified() {
				v.Message = "waiting for a primary"
			}
		}
		return
	}
	p.plan.Primary = primary.Name
	p.views[primary.Name].Role = v1alpha1.RolePrimary
	p.views[primary.Name].InService = true
	p.forgetGoneVolumes(primary)
	admitting := false
	for _, m := range p.ordered() {
		v := p.views[m.Name]
		v.Voter = p.plan.Membership.Has(m.Name)
		if m == primary || v.Phase != v1alpha1.PhaseReplicating {
			continue
		}
		v.Role = v1alpha1.RoleReplica
		if !m.verified() {
			continue // restarting; join said so
		}
		if m.SQL.Writable {
			// Being unseated. Replicating would switch off its wait for acknowledgements, and so answer commits that
			// nobody else holds (fact 4).
			v.Message = "being made read-only"
			p.waitAtMost(waitMySQL)
			continue
		}
		v.Message = p.seed(m, primary)
		if v.Message == "" {
			v.Message = p.vote(m, primary, &admitting)
		}
		p.serve(m, v)
	}
	p.keepWait(primary, admitting)
	if v := p.views[primary.Name]; v.Phase == v1alpha1.PhaseReplicating {
		v.Phase = v1alpha1.PhaseReady
	}
}

// seed plans a replica's next step until both its threads run, and returns what it waits for.
func (p *planner) seed(m, primary *Member) string {
	switch {
	case m.cloning():
		p.waitAtMost(waitMySQL)
		return "being cloned: " + m.SQL.Clone.Message
	case p.needsClone(m, primary):
		return p.clone(m, primary)
	}
	if errant := p.errant(m, primary); !errant.IsEmpty() {
		p.waitAtMost(waitReady)
		p.expel(m, primary)
		p.degraded(v1alpha1.ReasonMemberUntrusted, fmt.Sprintf("%s holds transactions that %s does not: %s; it does not replicate until it is rebuilt", m.Name, primary.Name, errant))
		return "holds errant transactions " + errant.String()
	}
	source := primary.CurrentInstance()
	if source == nil {
		p.waitAtMost(waitEC2)
		return "waiting for the address of " + primary.Name
	}
	r := m.SQL.Replication
	if r == nil || r.SourceHost != source.Address || (r.IOState == ioOff || !r.SQLRunning) && r.Error == "" {
		p.do(ReplicateFrom{m.Name, primary.Name, source.Address})
		return "starting replication from " + primary.Name
	}
	if r.IOState == ioOff || !r.SQLRunning {
		p.retry(waitEC2, ReplicateFrom{m.Name, primary.Name, source.Address})
		p.degraded(v1alpha1.ReasonMemberMissing, fmt.Sprintf("%s: replication stopped: %s", m.Name, r.Error))
		return "replication stopped: " + r.Error
	}
	if r.IOState == ioConnecting {
		p.waitAtMost(waitMySQL)
		return "connecting to " + primary.Name
	}
	return ""
}

// needsClone says whether a member must be seeded: it is empty, or lacks transactions that the primary's binary logs
// no longer hold. A voter is never seeded anew: it may be the only holder of an acknowledged commit.
func (p *planner) needsClone(m, primary *Member) bool {
	if p.plan.Membership.Has(m.Name) {
		return false
	}
	if m.SQL.Executed.IsEmpty() {
		return true
	}
	return !m.SQL.Executed.Contains(primary.SQL.Purged)
}

// clone plans the seeding of a member from a donor that is free: a server serves one CLONE at a time (error 3634).
func (p *planner) clone(m, primary *Member) string {
	donor := p.donorFor(m, primary)
	if donor == nil {
		p.waitAtMost(waitMySQL)
		return "waiting for its turn to be cloned"
	}
	p.retry(waitMySQL/2, CloneFrom{m.Name, donor.Name, mysqlAddress(donor)})
	if m.SQL.Clone != nil && (m.SQL.Clone.State == cloneFailed || m.SQL.Clone.State == cloneInterrupted) {
		p.degraded(v1alpha1.ReasonMemberMissing, fmt.Sprintf("%s: CLONE failed, it is tried again: %s", m.Name, m.SQL.Clone.Message))
	}
	return "seeding by CLONE from " + donor.Name
}

// donorFor returns the primary, or a voter that replicates well, whichever serves no other CLONE.
func (p *planner) donorFor(m, primary *Member) *Member {
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
	donors := []*Member{primary}
	for _, other := range p.ordered() {
		r := other.SQL.Replication
		if other != primary && other != m && p.plan.Membership.Has(other.Name) && other.verified() && r != nil && r.IOState == ioOn && r.SQLRunning && !p.busy(other.Name) {
			donors = append(donors, other)
		}
	}
	for _, d := range donors {
		if address := mysqlAddress(d); address != "" && !busy[address] {
			return d
		}
	}
	return nil
}

// mysqlAddress returns host:port of a member's mysqld, "" while its machine has no address.
func mysqlAddress(m *Member) string {
	in := m.CurrentInstance()
	if in == nil || in.Address == "" {
		return ""
	}
	return net.JoinHostPort(in.Address, strconv.Itoa(v1alpha1.MySQLPort))
}

// errant returns the transactions that a replica executed and the primary did not, leaving out those of the primary's
// own UUID: a replica may have received those while the primary still waits for more acknowledgements.
func (p *planner) errant(m, primary *Member) gtid.Set {
	return m.SQL.Executed.Subtract(primary.SQL.Executed).WithoutSource(primary.SQL.ServerUUID)
}

// vote plans to make a running replica a voter, one at a time, and returns what it waits for.
func (p *planner) vote(m, primary *Member, admitting *bool) string {
	row := *p.plan.Membership
	if row.Has(m.Name) {
		// A primary that waits needs its acknowledgements until it no longer does.
		wants := len(row.Voters) > 1 && (p.Lossless || primary.SQL.SemiSync.SourceEnabled)
		if m.acknowledgesOtherThan(wants) {
			p.retry(waitMySQL/2, SetAcknowledging{m.Name, wants})
			return "switching its acknowledgements " + onOff(wants)
		}
		return ""
	}
	switch {
	case (m.SQL.SemiSync.ReplicaEnabled || m.SQL.SemiSync.ReplicaActive) && len(row.Voters) > 1:
		// Nobody may count on an acknowledgement of a member that a promotion would not ask.
		p.retry(waitMySQL/2, SetAcknowledging{m.Name, false})
		return "switching its acknowledgements off until it is a voter"
	case m.Ordinal >= p.Replicas:
		return ""
	case *admitting:
		p.waitAtMost(waitMySQL)
		return "waiting to become a voter"
	case !m.SQL.Replication.LagKnown || m.SQL.Replication.Lag > p.MaxLag:
		p.waitAtMost(waitMySQL)
		return "catching up with " + primary.Name
	}
	if p.strangerAcknowledges(m, primary) {
		p.waitAtMost(waitMySQL)
		return "waiting until no member acknowledges that is not a voter"
	}
	*admitting = true
	p.retry(waitMySQL/4, AdmitVoter{Member: m.Name, Primary: primary.Name, From: row, SemiSync: p.Lossless})
	return "becoming a voter"
}

// acknowledgesOtherThan says whether a member's acknowledgements are not as they should be, by setting or in effect.
func (m *Member) acknowledgesOtherThan(wants bool) bool {
	s := m.SQL.SemiSync
	return s.ReplicaEnabled != wants || m.SQL.Replication.IOState == ioOn && s.ReplicaActive != wants
}

// strangerAcknowledges says whether the primary counts more acknowledging replicas than the voters and the newcomer can
// account for. Once the newcomer counts, such an acknowledgement could stand in for a voter's, and a promotion would not
// ask its giver.
func (p *planner) strangerAcknowledges(newcomer, primary *Member) bool {
	accounted := 0
	for _, m := range p.Members {
		if m != primary && m.verified() && m.SQL.SemiSync.ReplicaActive && (m == newcomer || p.plan.Membership.Has(m.Name)) {
			accounted++
		}
	}
	return primary.SQL.SemiSync.Clients > accounted
}

// expel takes the vote of a voter that holds what the primary does not: as a holder it would stand in the way of the next
// promotion. First it acknowledges no more. The last replica of a primary keeps its vote: without it every commit would
// rest on one machine, while the row still named two.
func (p *planner) expel(m, primary *Member) {
	row := *p.plan.Membership
	if !row.Has(m.Name) || len(row.Voters) < 3 || p.busy(primary.Name) {
		return
	}
	if m.SQL.SemiSync.ReplicaEnabled || m.SQL.SemiSync.ReplicaActive {
		p.retry(waitMySQL/2, SetAcknowledging{m.Name, false})
		return
	}
	p.retry(waitMySQL, RemoveVoter{Member: m.Name, Primary: primary.Name, From: row, SemiSync: p.Lossless})
}

// serve decides whether a replica serves reads, and with it whether it is Ready. It goes into service within MaxLag
// and out again only past twice that.
func (p *planner) serve(m *Member, v *View) {
	r := m.SQL.Replication
	if r == nil {
		return
	}
	v.Lag, v.LagKnown = r.Lag, r.LagKnown
	limit := p.MaxLag
	if p.InService[m.Name] {
		limit *= 2
	}
	v.InService = r.LagKnown && r.Lag <= limit && r.SQLRunning && r.IOState == ioOn && !m.cloning()
	switch {
	case v.Message != "":
	case !v.InService:
		p.waitAtMost(waitMySQL)
		v.Message = "catching up"
	default:
		v.Phase = v1alpha1.PhaseReady
	}
}

// keepWait keeps the primary's semi-synchronous settings in agreement with the membership row. While a voter is being
// admitted the count may be higher on purpose.
func (p *planner) keepWait(primary *Member, admitting bool) {
	row := *p.plan.Membership
	enabled := p.Lossless && len(row.Voters) > 1
	s := primary.SQL.SemiSync
	if admitting || p.busy(primary.Name) {
		return
	}
	if s.SourceEnabled != enabled || enabled && s.WaitCount != row.W {
		p.retry(waitMySQL/2, SetSourceWait{Member: primary.Name, Enabled: enabled, W: row.W, Alone: len(row.Voters) == 1 || !p.Lossless})
	}
}

// forgetGoneVolumes takes the vote of members whose volume EC2 no longer has: whatever they acknowledged is held by
// the others, and they will never acknowledge again.
func (p *planner) forgetGoneVolumes(primary *Member) {
	row := *p.plan.Membership
	for _, name := range row.Voters {
		m := p.Members[name]
		if name == primary.Name || m == nil || m.verified() || m.volume() != nil || !p.CloudReachable {
			continue
		}
		if in := m.CurrentInstance(); in != nil && in.State != stateStopped {
			p.stop(m, in)
			continue
		}
		p.retry(waitMySQL, RemoveVoter{Member: name, Primary: primary.Name, From: row, SemiSync: p.Lossless})
		return
	}
}
