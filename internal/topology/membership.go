package topology

import (
	"maps"
	"slices"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// Membership says who may acknowledge a commit: the row that the database itself keeps.
type Membership mysql.Membership

// NobodyAnswers is a wait count that no cluster can meet: a source that waits for so many acknowledgements answers no commit any more.
const NobodyAnswers = 1000

// Settled says whether no change of the voters is under way.
func (m Membership) Settled() bool { return len(m.Previous) == 0 }

// MayAcknowledge says whether a member's acknowledgements count under this row: it is a voter, and was one before a change that is
// under way. A newcomer's count as well where its row asks for one acknowledgement more than the row before: however many answer, as
// many of the voters before are among them as those have to be.
func (m Membership) MayAcknowledge(member string) bool {
	return m.Has(member) && (m.Settled() || slices.Contains(m.Previous, member) || m.W > WaitFor(len(m.Previous)))
}

// WaitCount is how many acknowledgements the primary waits for under this row: enough for both sets of voters.
func (m Membership) WaitCount() int { return max(m.W, WaitFor(len(m.Previous))) }

// Has says whether a member is a voter.
func (m Membership) Has(member string) bool { return slices.Contains(m.Voters, member) }

// WaitFor returns W for a number of voters: how many replicas must acknowledge a commit, so that any N−W voters
// together hold every acknowledged commit at least once. W = ⌊N/2⌋.
func WaitFor(voters int) int { return voters / 2 }

// electorate are the voters, and while a change of them is under way those before it.
func (m Membership) electorate() []string {
	all := append(slices.Clone(m.Voters), m.Previous...)
	slices.Sort(all)
	return slices.Compact(all)
}

// With returns the next membership with one more voter, to be settled by another row. It acknowledges from the given memory; from disk
// if that is empty.
func (m Membership) With(member, memory string) Membership {
	voters := append(slices.Clone(m.Voters), member)
	slices.Sort(voters)
	next := Membership{Primary: m.Primary, Voters: voters, Previous: slices.Clone(m.Voters), W: WaitFor(len(voters)), Memory: m.Memory}
	return next.from(member, memory)
}

// Without returns the next membership with one voter less, to be settled by another row.
func (m Membership) Without(member string) Membership {
	voters := slices.DeleteFunc(slices.Clone(m.Voters), func(v string) bool { return v == member })
	next := Membership{Primary: m.Primary, Voters: voters, Previous: slices.Clone(m.Voters), W: WaitFor(len(voters)), Memory: m.Memory}
	return next.from(member, "")
}

// Confirmed returns the next membership with the last change of the voters settled.
func (m Membership) Confirmed() Membership {
	return Membership{Primary: m.Primary, Voters: slices.Clone(m.Voters), W: m.W, Memory: maps.Clone(m.Memory)}
}

// LedBy returns the next membership, with another primary. A change that is under way stays so. What that one acknowledged it has
// executed when it is opened, so it holds all of it in its present memory too; of the others the row knows what it knew.
func (m Membership) LedBy(primary *Member) Membership {
	next := Membership{Primary: primary.Name, Voters: slices.Clone(m.Voters), Previous: slices.Clone(m.Previous), W: m.W, Memory: m.Memory}
	if m.Memory[primary.Name] == "" || primary.SQL.Memory == "" {
		next.Memory = maps.Clone(m.Memory)
		return next
	}
	return next.from(primary.Name, primary.SQL.Memory)
}

// from returns a copy in which a member acknowledges from a memory; from disk if that is empty.
func (m Membership) from(member, memory string) Membership {
	m.Memory = maps.Clone(m.Memory)
	if memory == "" {
		delete(m.Memory, member)
		return m
	}
	if m.Memory == nil {
		m.Memory = map[string]string{}
	}
	m.Memory[member] = memory
	return m
}

// newestRow returns the newest membership row that a primary or a replica of it shows: a row that admits the first replica waits on
// the primary, which does not show it yet. Nil for none.
func newestRow(primary *Member, members map[string]*Member) *Membership {
	row := primary.SQL.Membership
	for _, m := range members {
		if own := m.SQL.Membership; m.verified() && row != nil && own != nil && own.Primary == row.Primary && own.Epoch > row.Epoch {
			row = own
		}
	}
	return row
}
