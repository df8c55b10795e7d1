package pitr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/binlog"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// lookBehind is how many segments after the cut are looked at for commits that belong before it.
const lookBehind = 512

// search returns the first segment of which something holds that, once it holds, holds of all that follow; nil when it holds of none. newest
// is the newest header that was read, nil when none can be.
func (p *Plan) search(ctx context.Context, numbers []uint64, holds func(*archive.Header) bool) (first, newest *archive.Header, err error) {
	at := sort.Search(len(numbers), func(i int) bool {
		h, failure := p.header(ctx, numbers, i)
		err = errors.Join(err, failure)
		if failure != nil || h == nil {
			return true
		}
		if newest == nil || h.Number > newest.Number {
			newest = h
		}
		return holds(h)
	})
	if err == nil {
		first, err = p.header(ctx, numbers, at)
	}
	return first, newest, err
}

// findCut finds the segment in which the point lies.
func (p *Plan) findCut(ctx context.Context, numbers []uint64) (*archive.Header, error) {
	if p.point.GTID != "" {
		return p.findTransaction(ctx, numbers)
	}
	h, newest, err := p.search(ctx, numbers, func(h *archive.Header) bool { return h.Until().After(p.point.Time) })
	switch {
	case err != nil || h != nil:
		return h, err
	case newest != nil && newest.Number == numbers[len(numbers)-1] && newest.Until().Equal(p.point.Time):
		return newest, nil // the very moment to which the archive reaches
	}
	return nil, p.beyond(newest)
}

// beyond says that the archive does not reach the point. newest is its newest header, nil when none can be read.
func (p *Plan) beyond(newest *archive.Header) error {
	if newest == nil {
		return fmt.Errorf("%w: no segment of the archive can be read", backup.ErrCorrupt)
	}
	return fmt.Errorf("%w: it is %s, and the archive reaches to %s with the transactions %s", ErrBeyond, p.point, newest.Until().UTC().Format(time.RFC3339Nano), newest.Cumulative)
}

// findTransaction finds the segment that holds the transaction of the point. What a segment says of all up to itself grows from one break to
// the next only: what the cluster lost is in segments before a break, and not in what those after it presuppose.
func (p *Plan) findTransaction(ctx context.Context, numbers []uint64) (*archive.Header, error) {
	wanted, err := gtid.Parse(p.point.GTID)
	if err != nil || wanted.Count() != 1 {
		return nil, fmt.Errorf("%q is not one transaction", p.point.GTID)
	}
	stretches, err := p.folder.Stretches(ctx, numbers)
	if err != nil {
		return nil, err
	}
	var newest, presupposes *archive.Header
	for _, stretch := range slices.Backward(stretches) {
		h, last, err := p.search(ctx, stretch, func(h *archive.Header) bool { return h.All().Contains(wanted) })
		switch {
		case err != nil:
			return nil, err
		case h != nil && !h.Preceding().Contains(wanted):
			return h, nil
		case h != nil:
			presupposes = h // it may be in a segment before the break
		}
		if newest == nil {
			newest = last
		}
	}
	switch {
	case presupposes == nil:
		return nil, p.beyond(newest)
	case presupposes.Number > numbers[0]:
		return nil, fmt.Errorf("%w: %s, which should be in a segment before %d", ErrGap, p.point.GTID, presupposes.Number)
	}
	return nil, fmt.Errorf("%w: %s is older than the archive", ErrGap, p.point.GTID)
}

// each calls visit with the transactions of a segment in their order, until visit returns false.
func (p *Plan) each(ctx context.Context, h *archive.Header, visit func(binlog.Transaction) bool) error {
	s, err := p.folder.Open(ctx, h.Number)
	if err != nil {
		return err
	}
	defer s.Close()
	damaged := func(err error) error {
		if errors.Is(err, binlog.ErrDamaged) {
			err = fmt.Errorf("%w: %w", backup.ErrCorrupt, err)
		}
		return fmt.Errorf("segment %d, which holds the transactions %s: %w", h.Number, h.GTIDSet, err)
	}
	log, err := binlog.NewReader(s)
	if err != nil {
		return damaged(err)
	}
	var track binlog.Tracker
	for {
		e, err := log.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return damaged(err)
		}
		step, err := track.Add(log.Format, e)
		if err != nil {
			return damaged(err)
		}
		if step.Begins && !visit(*step.Transaction) {
			return nil
		}
	}
}

// cutter divides the transactions of the segment in which the point lies.
type cutter struct {
	point Point
	cut   *archive.Header
	upTo  binlog.Collector
	over  bool
	// first is the first transaction after the point, later one behind it that was committed long before the point.
	first, later *binlog.Transaction
}

func (c *cutter) visit(t binlog.Transaction) bool {
	stated := t.Committed
	t.Committed = c.cut.Committed(stated)
	if c.over {
		if c.later == nil && c.point.precedes(t.Committed) {
			c.later = &t
		}
		return true
	}
	after, last := c.point.after(t)
	if !after {
		c.upTo.Add(t)
	} else {
		t.Committed = stated
		c.first = &t
	}
	c.over = after || last
	return true
}

// precedes says whether a commit was long before the point: times of different servers are not compared more exactly.
func (p Point) precedes(committed time.Time) bool {
	return p.GTID == "" && p.Time.Sub(committed) > archive.ClockTolerance
}

// upTo reads the segment in which the point lies and returns all transactions of the cluster's history up to the point. It is the
// first commit after the point that ends them, unless the archive shows that its time cannot be relied on.
func (p *Plan) upTo(ctx context.Context, numbers []uint64, cut *archive.Header) (gtid.Set, error) {
	c := cutter{point: p.point, cut: cut}
	if err := p.each(ctx, cut, c.visit); err != nil {
		return gtid.Set{}, err
	}
	all := cut.Preceding().Union(c.upTo.Set())
	if p.point.GTID != "" || c.first != nil && cut.Corroborates(c.first.Committed) {
		return all, nil
	}
	behind, err := c.later, error(nil)
	where := "later in the same segment"
	if behind == nil {
		var h *archive.Header
		if h, err = p.begunBefore(ctx, numbers, cut); h != nil {
			behind, where = &binlog.Transaction{Committed: h.First}, fmt.Sprintf("in segment %d", h.Number)
		}
	}
	if err != nil || behind == nil {
		return all, err
	}
	what := "the transactions up to " + all.String()
	if c.first != nil {
		what = fmt.Sprintf("%s, which says that it was committed at %s", c.first.GTID(), c.first.Committed.UTC().Format(pointFormat))
	}
	return gtid.Set{}, fmt.Errorf("%w: after %s, follow transactions of %s (%s): the clock of a server was wrong. Restore to a gtid instead of a time",
		ErrClock, what, behind.Committed.UTC().Format(pointFormat), where)
}

// begunBefore returns the header of a segment after the cut in which a commit was long before the point; nil when there is none.
func (p *Plan) begunBefore(ctx context.Context, numbers []uint64, cut *archive.Header) (*archive.Header, error) {
	at, _ := slices.BinarySearch(numbers, cut.Number+1)
	numbers = numbers[at:]
	for _, f := range p.look(numbers[:min(len(numbers), lookBehind)], func(number uint64) (*archive.Header, error) { return p.folder.Header(ctx, number) }) {
		switch {
		case errors.Is(f.err, backup.ErrCorrupt), errors.Is(f.err, store.ErrNotFound):
		case f.err != nil:
			return nil, f.err
		case p.point.precedes(f.header.First):
			return f.header, nil
		}
	}
	return nil, nil //nolint:nilnil // there is none
}

// follows makes sure that what the base holds of a segment are the segment's transactions. Where the cluster has lost some, and given their
// GTIDs to others later, a base of before the loss holds those that were lost, and lacks what precedes the others.
func (p *Plan) follows(ctx context.Context, h, cut *archive.Header) error {
	suspects := cut.EverLost(p.base.Intersect(h.Own()))
	if suspects.IsEmpty() {
		return nil
	}
	var lost binlog.Collector
	lacks := !p.base.Contains(h.Preceding())
	err := p.each(ctx, h, func(t binlog.Transaction) bool {
		switch one := gtid.MustParse(t.GTID()); {
		case !p.base.Contains(one):
			lacks = true
		case lacks && suspects.Contains(one):
			lost.Add(t)
		}
		return true
	})
	if set := lost.Set(); err == nil && !set.IsEmpty() {
		err = fmt.Errorf("%w: what it begins with holds %s and lacks what the cluster had committed before: the cluster lost those transactions, and has others under the same GTIDs", ErrGap, set)
	}
	return err
}

// findLast finds the last transaction that is replayed.
func (p *Plan) findLast(ctx context.Context) error {
	for _, number := range slices.Backward(p.Segments) {
		h, err := p.folder.Header(ctx, number)
		if err == nil {
			err = p.each(ctx, h, func(t binlog.Transaction) bool {
				if one := gtid.MustParse(t.GTID()); p.Result.Contains(one) && !p.base.Contains(one) {
					p.Last = Replayed{t.GTID(), t.Committed}
				}
				return true
			})
		}
		if err != nil || p.Last.GTID != "" {
			return err
		}
	}
	return nil
}
