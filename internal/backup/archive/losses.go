package archive

import (
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// Loss is what the cluster has lost.
type Loss struct {
	// GTIDSet are the transactions, At a moment at which the cluster did not have them any more.
	GTIDSet string    `json:"gtidSet"`
	At      time.Time `json:"at"`
}

// Losses are all that the cluster is known to have lost.
type Losses []Loss

// within returns what of a set was lost, as far as a loss counts.
func (l Losses) within(set gtid.Set, counts func(Loss) bool) gtid.Set {
	var found gtid.Set
	for _, loss := range l {
		if lost, err := gtid.Parse(loss.GTIDSet); err == nil && counts(loss) {
			found = found.Union(lost.Intersect(set))
		}
	}
	return found
}

// in returns what of a backup that was taken at a time was lost after that.
func (l Losses) in(set gtid.Set, taken time.Time) gtid.Set {
	return l.within(set, func(loss Loss) bool { return taken.Before(loss.At) })
}

// all returns everything that was lost.
func (l Losses) all() gtid.Set {
	var all gtid.Set
	for _, loss := range l {
		if lost, err := gtid.Parse(loss.GTIDSet); err == nil {
			all = all.Union(lost)
		}
	}
	return all
}

// beyond returns what is lost and in none of other losses, and a moment at which all of it was lost.
func (l Losses) beyond(other Losses) (more gtid.Set, at time.Time) {
	known := other.all()
	for _, loss := range l {
		if lost, err := gtid.Parse(loss.GTIDSet); err == nil && !known.Contains(lost) {
			more = more.Union(lost.Subtract(known))
			if loss.At.After(at) {
				at = loss.At
			}
		}
	}
	return more, at
}
