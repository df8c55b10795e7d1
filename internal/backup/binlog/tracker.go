package binlog

import (
	"fmt"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// Tracker follows events in their order and knows where transactions end: each says in its first event how long it is.
type Tracker struct {
	open bool
	at   Transaction
	left uint64
}

// Step is what an event was to its transaction.
type Step struct {
	// Transaction is the one that the event belongs to; none where it is nil.
	Transaction *Transaction
	// Begins and Ends say that it is the first and the last event of it.
	Begins, Ends bool
}

// Add takes the next event that was recorded. Of one that does not begin a transaction the header is enough.
func (t *Tracker) Add(f *Format, e Event) (Step, error) {
	begins := e.Begins()
	switch {
	case begins && t.open:
		return Step{}, fmt.Errorf("%w: %s has no end", ErrDamaged, t.at.GTID())
	case begins:
		var err error
		if t.at, err = f.ParseTransaction(e); err != nil {
			return Step{}, err
		}
		t.open, t.left = true, t.at.Length
	case !t.open:
		return Step{}, nil
	}
	size := uint64(e.Size())
	if size > t.left {
		return Step{}, fmt.Errorf("%w: %s is longer than it says", ErrDamaged, t.at.GTID())
	}
	t.left -= size
	t.open = t.left > 0
	return Step{Transaction: &t.at, Begins: begins, Ends: !t.open}, nil
}

// Open says whether a transaction has begun and not ended.
func (t *Tracker) Open() bool { return t.open }

// Collector makes a GTID set of many transactions, which mostly come in the order of their numbers.
type Collector struct {
	set         gtid.Set
	source      string
	first, last int64
}

// Add takes a transaction in.
func (c *Collector) Add(t Transaction) {
	if t.Source() == c.source && t.Number == c.last+1 {
		c.last = t.Number
		return
	}
	c.flush()
	c.source, c.first, c.last = strings.Clone(t.Source()), t.Number, t.Number
}

func (c *Collector) flush() {
	if c.source != "" {
		// The server made it, and the parser takes everything that a server makes.
		c.set = c.set.Union(gtid.MustParse(fmt.Sprintf("%s:%d-%d", c.source, c.first, c.last)))
	}
	c.source = ""
}

// Set returns what was taken in.
func (c *Collector) Set() gtid.Set {
	c.flush()
	return c.set
}
