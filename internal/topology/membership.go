package topology

import "slices"

// Membership says who may acknowledge a commit: the row that the database itself keeps.
type Membership struct {
	// Epoch grows by one with every change and every promotion.
	Epoch uint64
	// Primary is the member that was promoted last. A member that is writable under a row that names another has not
	// had its own promotion acknowledged yet.
	Primary string
	// Voters are the members whose acknowledgements count, the primary included.
	Voters []string
	// Previous are the voters before the last change, until a second row confirms that the change was acknowledged: a row
	// that only crash recovery committed must not be believed alone. Meanwhile whatever is proven is proven under both.
	Previous []string
	// W is how many replicas must acknowledge a commit before its client is answered.
	W int
}

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

// With returns the next membership with one more voter, to be settled by another row.
func (m Membership) With(member string) Membership {
	voters := append(slices.Clone(m.Voters), member)
	slices.Sort(voters)
	return Membership{Primary: m.Primary, Voters: voters, Previous: slices.Clone(m.Voters), W: WaitFor(len(voters))}
}

// Without returns the next membership with one voter less, to be settled by another row.
func (m Membership) Without(member string) Membership {
	voters := slices.DeleteFunc(slices.Clone(m.Voters), func(v string) bool { return v == member })
	return Membership{Primary: m.Primary, Voters: voters, Previous: slices.Clone(m.Voters), W: WaitFor(len(voters))}
}

// Confirmed returns the next membership with the last change of the voters settled.
func (m Membership) Confirmed() Membership {
	return Membership{Primary: m.Primary, Voters: slices.Clone(m.Voters), W: m.W}
}

// LedBy returns the next membership, with another primary. A change that is under way stays so.
func (m Membership) LedBy(member string) Membership {
	return Membership{Primary: member, Voters: slices.Clone(m.Voters), Previous: slices.Clone(m.Previous), W: m.W}
}
