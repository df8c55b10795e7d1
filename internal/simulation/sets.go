package simulation

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// bitset is a set of transactions by their number in the world. It tells two transactions apart that carry the same GTID,
// which MySQL cannot.
type bitset []uint64

func (s bitset) has(i int) bool { return i>>6 < len(s) && s[i>>6]&(1<<(i&63)) != 0 }

func (s *bitset) add(i int) {
	for len(*s) <= i>>6 {
		*s = append(*s, 0)
	}
	(*s)[i>>6] |= 1 << (i & 63)
}

func (s bitset) contains(o bitset) bool {
	for i, word := range o {
		if i >= len(s) {
			if word != 0 {
				return false
			}
		} else if word&^s[i] != 0 {
			return false
		}
	}
	return true
}

func (s bitset) without(o bitset) []int {
	var left []int
	for i, word := range s {
		if i < len(o) {
			word &^= o[i]
		}
		for word != 0 {
			left = append(left, i<<6+bits.TrailingZeros64(word))
			word &= word - 1
		}
	}
	return left
}

// gtidSet is a set of transactions as MySQL speaks of them, with its text kept until it changes.
type gtidSet struct {
	bitset
	changed bool
	text    string
}

func (g *gtidSet) add(i int) { g.bitset.add(i); g.changed = true }

func (g *gtidSet) clear() { *g = gtidSet{} }

func (g *gtidSet) copyOf(o *gtidSet) {
	*g = gtidSet{bitset: slices.Clone(o.bitset), changed: o.changed, text: o.text}
}

// transaction is what a commit writes: a client's row, or the membership row, or something else of the operator's.
type transaction struct {
	uuid, number int
	row          *mysql.Membership
	client       int  // -1 when it is the operator's
	harmless     bool // it changes no data
}

// ledger numbers the transactions of a world and knows their GTIDs.
type ledger struct {
	all []transaction
	// byServer lists the transactions of each server UUID by their number in it.
	byServer [][]int
	// twins are the transactions that were given a GTID which another one has: only ever after a server was rebuilt.
	twins   map[int][]int
	covered coveredUp
	// givenTwice is true once a person had GTIDs given to other transactions than those that had them.
	givenTwice bool
	// inForce is the newest membership row that was acknowledged, or that a member held when it was opened for writes, nil for none.
	inForce *mysql.Membership
	// parsed remembers the sets that were parsed.
	parsed map[string]gtid.Set
}

// coveredUp are the transactions on replicas whose GTIDs people gave to empty ones elsewhere; hidden are those of them that nobody can
// tell from the primary's any more.
type coveredUp struct {
	by     map[int]int // the empty one
	hidden bitset
}

// opened records that a server is opened for writes: the empty transactions that it holds are those of the cluster then.
func (c *coveredUp) opened(holds bitset) {
	for id, by := range c.by {
		if holds.has(by) {
			c.hidden.add(id)
		}
	}
}

// beyond is what a replica holds and a primary does not, without what people have hidden.
func (c *coveredUp) beyond(replica, primary bitset) []int {
	return slices.DeleteFunc(replica.without(primary), c.hidden.has)
}

// missing is what a primary holds and a replica lacks and will get: not that whose GTID people gave to an empty transaction which the
// replica has executed.
func (c *coveredUp) missing(primary, replica, executed bitset) []int {
	return slices.DeleteFunc(primary.without(replica), func(id int) bool {
		by, covered := c.by[id]
		return covered && executed.has(by)
	})
}

func newLedger() *ledger {
	return &ledger{twins: map[int][]int{}, covered: coveredUp{by: map[int]int{}}, parsed: map[string]gtid.Set{}}
}

func (l *ledger) newServer() int {
	l.byServer = append(l.byServer, nil)
	return len(l.byServer) - 1
}

// record makes a transaction and returns its number in the world.
func (l *ledger) record(t transaction) int {
	id := len(l.all)
	l.all = append(l.all, t)
	list := l.byServer[t.uuid]
	at, _ := slices.BinarySearchFunc(list, t.number, func(i, number int) int { return l.all[i].number - number })
	for n := at; n < len(list) && l.all[list[n]].number == t.number; n++ {
		l.twins[id] = append(l.twins[id], list[n])
		l.twins[list[n]] = append(l.twins[list[n]], id)
	}
	l.byServer[t.uuid] = slices.Insert(list, at, id)
	return id
}

// acknowledged records that a transaction has the acknowledgements that it waited for.
func (l *ledger) acknowledged(id int) {
	l.inForceFrom(l.all[id].row)
}

// inForceFrom records that a row holds from now on, unless a newer one does. That of a member that is opened does: what it has executed is
// the cluster's history, whether or not a client was answered.
func (l *ledger) inForceFrom(row *mysql.Membership) {
	if row != nil && (l.inForce == nil || row.Epoch > l.inForce.Epoch) {
		l.inForce = row
	}
}

// knows says whether a server that has these transactions takes one for its own: by GTID, not by content.
func (l *ledger) knows(s bitset, id int) bool {
	if s.has(id) {
		return true
	}
	if len(l.twins) > 0 {
		for _, twin := range l.twins[id] {
			if s.has(twin) {
				return true
			}
		}
	}
	return false
}

// next returns the number that a server gives to its next transaction.
func (l *ledger) next(uuid int, sets ...bitset) int {
	list := l.byServer[uuid]
	for n := len(list) - 1; n >= 0; n-- {
		for _, s := range sets {
			if s.has(list[n]) {
				return l.all[list[n]].number + 1
			}
		}
	}
	return 1
}

func uuidText(uuid int) string { return fmt.Sprintf("%08d-0000-0000-0000-000000000000", uuid) }

func (l *ledger) name(id int) string {
	t := l.all[id]
	return fmt.Sprintf("#%d(%d:%d)", id, t.uuid, t.number)
}

func (l *ledger) names(ids []int) string {
	text := ""
	for n, id := range ids {
		if n == 8 {
			return text + fmt.Sprintf(" and %d more", len(ids)-n)
		}
		text += " " + l.name(id)
	}
	return text
}

// print returns a set as MySQL prints it.
func (l *ledger) print(g *gtidSet) string {
	if !g.changed {
		return g.text
	}
	var b []byte
	for uuid, list := range l.byServer {
		first, last := 0, 0
		open := false
		flush := func() {
			if first == 0 {
				return
			}
			if !open {
				if len(b) > 0 {
					b = append(b, ',')
				}
				b, open = append(b, uuidText(uuid)...), true
			}
			b = strconv.AppendInt(append(b, ':'), int64(first), 10)
			if last > first {
				b = strconv.AppendInt(append(b, '-'), int64(last), 10)
			}
		}
		for _, id := range list {
			if !g.has(id) {
				continue
			}
			switch n := l.all[id].number; {
			case first == 0:
				first, last = n, n
			case n <= last+1:
				last = n
			default:
				flush()
				first, last = n, n
			}
		}
		flush()
	}
	g.text, g.changed = string(b), false
	return g.text
}

// parse reads a set that print wrote.
func (l *ledger) parse(text string) gtid.Set {
	s, ok := l.parsed[text]
	if !ok {
		s = gtid.MustParse(text)
		l.parsed[text] = s
	}
	return s
}

// covers says whether a server's transactions cover a GTID set.
func (l *ledger) covers(g *gtidSet, text string) bool {
	return text == "" || l.parse(l.print(g)).Contains(l.parse(text))
}
