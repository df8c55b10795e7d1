package topology

import (
	"slices"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// mostOwn is how many errant transactions of a replica are looked up in its binary log. A replica with more is rebuilt.
const mostOwn = 32

// OwnTransactions is what the binary log of a replica shows of its errant transactions.
type OwnTransactions struct {
	// Reading is true while the binary log is read.
	Reading bool
	// Harmless are those that certainly change no data.
	Harmless []HarmlessTransaction
}

// HarmlessTransaction is a transaction that changes no data.
type HarmlessTransaction struct {
	// GTID is its identifier, uuid:number, and What says what it is, for people.
	GTID, What string
}

// Omissions are what a replica may lack of what it received.
type Omissions struct {
	// Dropped is what it lacks of what its source sent before something that it holds.
	Dropped gtid.Set
	// Stops are the transactions at which the applier stopped, and that count as executed since.
	Stops ApplierStops
}

// ApplierStops are transactions at which a replica's applier stopped, and that count as executed since. It may have applied them when it was
// started again, or somebody committed an empty transaction in the place of one. The replica's binary log says which.
type ApplierStops struct {
	// Skipped were not applied. Unread are those of which the binary log could not be read, so that nobody knows.
	Skipped, Unread gtid.Set
	// Reading is true as long as the binary log has not been read for all of them.
	Reading bool
}

// harmless says whether all of some errant transactions are known to change no data.
func (t OwnTransactions) harmless(errant gtid.Set) bool {
	for _, one := range t.Harmless {
		if set, err := gtid.Parse(one.GTID); err == nil {
			errant = errant.Subtract(set)
		}
	}
	return errant.IsEmpty()
}

// OwnErrant returns the errant transactions of each replica that committed all of its errant ones itself, and few of them: its own
// binary log may show that they change no data. What a replica has under the UUID of another server may be something else there.
// While nobody takes writes, it is what a replica committed itself and no other member that was reached holds.
func OwnErrant(o *Observed) map[string]gtid.Set {
	writable := o.writable()
	if len(writable) > 1 {
		return nil
	}
	found := map[string]gtid.Set{}
	for _, m := range o.Members {
		if m.SQL.Writable || !m.verified() || m.SQL.Replication == nil || m.cloning() {
			continue
		}
		var errant gtid.Set
		if len(writable) == 1 {
			errant = errantOf(m, writable[0])
		} else {
			errant = heldByNoOther(m, o.Members)
		}
		if !errant.IsEmpty() && errant.WithoutSource(m.SQL.ServerUUID).IsEmpty() && errant.Count() <= mostOwn {
			found[m.Name] = errant
		}
	}
	return found
}

// heldByNoOther returns what a member committed itself and no other one that was reached holds.
func heldByNoOther(m *Member, members map[string]*Member) gtid.Set {
	own := m.SQL.Executed.Subtract(m.SQL.Executed.WithoutSource(m.SQL.ServerUUID))
	for _, other := range members {
		if other != m && other.verified() {
			own = own.Subtract(other.position())
		}
	}
	return own
}

// loggedHarmless returns what voters that were reached committed themselves and what changes no data: it need not be kept, whoever may
// have been told that it is committed.
func loggedHarmless(row Membership, members map[string]*Member) gtid.Set {
	var found gtid.Set
	for _, name := range row.Voters {
		m := members[name]
		if !counts(m) || m.SQL.Replication == nil {
			continue
		}
		for _, one := range m.SQL.Replication.Own.Harmless {
			if set, err := gtid.Parse(one.GTID); err == nil {
				found = found.Union(set.Intersect(m.SQL.Executed))
			}
		}
	}
	return found
}

// errantOf returns the transactions that a replica executed and the primary did not, leaving out those of the primary's
// own UUID: a replica may have received those while the primary still waits for more acknowledgements.
func errantOf(m, primary *Member) gtid.Set {
	return m.SQL.Executed.Subtract(primary.SQL.Executed).WithoutSource(primary.SQL.ServerUUID)
}

// errant returns those of which it is not known that they change no data. While it is in doubt who led last, all are: what a voter holds
// and the primary does not is what the doubt is about.
func (p *pass) errant(m, primary *Member) gtid.Set {
	errant := errantOf(m, primary)
	if r := m.SQL.Replication; r != nil && p.plan.Records.ledLast(primary.Name) && (r.Own.Reading || r.Own.harmless(errant)) {
		return gtid.Set{}
	}
	return errant
}

// adoption has the primary commit, empty, what replicas committed themselves and what changes no data. After that they hold nothing
// that the primary does not.
type adoption struct {
	*pass
	acks *acks
}

// adopt plans it for one replica at a time. Every member has to show that it holds none of those GTIDs: a member that is away may
// have another transaction under one of them, and would keep it unnoticed.
func (p *adoption) adopt(primary *Member) {
	for _, m := range p.ordered() {
		errant := errantOf(m, primary).Subtract(primary.SQL.Waiting)
		if m == primary || errant.IsEmpty() || !counts(m) || !m.following() || m.SQL.Replication.Own.Reading || !m.SQL.Replication.Own.harmless(errant) {
			continue
		}
		p.waitAtMost(waitMySQL)
		if !p.acks.mayAdopt(primary) || !p.onlyHolder(m, errant) {
			continue
		}
		a := AdoptHarmless{Member: primary.Name, Replica: m.Name, Epoch: p.plan.Membership.Epoch}
		for _, t := range m.SQL.Replication.Own.Harmless {
			if set, err := gtid.Parse(t.GTID); err == nil && errant.Contains(set) {
				a.GTIDs, a.What = append(a.GTIDs, t.GTID), t.What
			}
		}
		p.retry(waitMySQL/2, a)
		return
	}
}

// onlyHolder says whether every other member and voter is reached and holds none of the transactions of one member, neither executed
// nor received, nor could commit any under the same UUID.
func (p *adoption) onlyHolder(m *Member, errant gtid.Set) bool {
	if slices.ContainsFunc(p.plan.Membership.Voters, func(name string) bool { return p.Members[name] == nil }) {
		return false
	}
	for _, other := range p.Members {
		if other == m {
			continue
		}
		if !counts(other) || other.SQL.ServerUUID == m.SQL.ServerUUID || !other.position().Intersect(errant).IsEmpty() {
			return false
		}
	}
	return true
}
