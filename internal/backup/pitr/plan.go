// Package pitr restores a cluster to a point in its history: a backup, and from the archive of binary logs every
// transaction after it up to that point, under its own identifier. It refuses what it cannot do exactly.
package pitr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// NewPlan finds out how a point is reached: from the backup in a folder, or from the newest that suits. It reads every
// segment that is needed from beginning to end, so that what is damaged is refused before anything is restored.
func NewPlan(ctx context.Context, f archive.Folder, backupFolder string, point Point) (*Plan, error) {
	return newPlan(ctx, f, point, func(p *Plan, cut *archive.Header, upTo gtid.Set) error { return p.choose(ctx, backupFolder, cut, upTo) })
}

// NewPlanFrom finds out how a point is reached from a base that is there, as NewPlan does from a backup.
func NewPlanFrom(ctx context.Context, f archive.Folder, base Base, point Point) (*Plan, error) {
	return newPlan(ctx, f, point, func(p *Plan, cut *archive.Header, upTo gtid.Set) error { return p.suits(base, cut, upTo) })
}

// newPlan is NewPlan with a base that choose takes, once it is known what was committed up to the point.
func newPlan(ctx context.Context, f archive.Folder, point Point, choose func(p *Plan, cut *archive.Header, upTo gtid.Set) error) (*Plan, error) {
	numbers, err := f.Numbers(ctx)
	if err != nil {
		return nil, err
	}
	if len(numbers) == 0 {
		return nil, fmt.Errorf("%w: there is no archive in %s", ErrBeyond, f.Store.URL(f.Root))
	}
	p := &Plan{folder: f, point: point}
	cut, err := p.findCut(ctx, numbers)
	if err != nil {
		return nil, err
	}
	if p.anchor, err = p.folder.Header(ctx, cut.AnchorNumber); err != nil && !errors.Is(err, backup.ErrCorrupt) && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	upTo, err := p.upTo(ctx, numbers, cut)
	if err == nil {
		p.seen, err = p.seesUntil(ctx, cut, upTo)
	}
	if err != nil {
		return nil, err
	}
	if err := choose(p, cut, upTo); err != nil {
		return nil, err
	}
	if err := p.chain(ctx, numbers, cut); err != nil {
		return nil, err
	}
	p.Result = upTo.Union(p.base)
	return p, p.findLast(ctx)
}

// seesUntil says whether it is certain that all of before the cut was committed before the point. When segments before it are
// gone, deleted because the oldest backup holds them, they may have been committed at any time since the archive began.
func (p *Plan) seesUntil(ctx context.Context, cut *archive.Header, upTo gtid.Set) (bool, error) {
	if p.point.GTID != "" || !upTo.Subtract(cut.Preceding()).IsEmpty() {
		return true, nil
	}
	if cut.Number == cut.AnchorNumber {
		return !p.point.Time.Before(cut.AnchorTime), nil
	}
	before, err := p.folder.Header(ctx, cut.Number-1)
	if errors.Is(err, backup.ErrCorrupt) || errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil && !before.Until().After(p.point.Time), err
}

// choose takes the given backup, or the newest good one that is a base for the point.
func (p *Plan) choose(ctx context.Context, folder string, cut *archive.Header, upTo gtid.Set) error {
	if folder != "" {
		m, err := p.folder.ReadManifest(ctx, folder)
		if err != nil {
			return err
		}
		return p.take(folder, m, cut, upTo)
	}
	var refusal, damage error
	for candidate, err := range p.folder.Backups().NewestFirst(ctx) {
		if err != nil {
			return err
		}
		if !candidate.Standing.Good() {
			if damage == nil {
				damage = fmt.Errorf("backup %s: %w", candidate.Folder, candidate.Why)
			}
			continue
		}
		if err = p.take(candidate.Folder, candidate.Manifest, cut, upTo); err == nil {
			return nil
		}
		// Of backups that are all too new the oldest says most, of those that are too old the newest.
		if refusal == nil || errors.Is(refusal, ErrBefore) {
			refusal = err
		}
	}
	switch {
	case refusal == nil && damage != nil:
		return damage
	case refusal == nil:
		return fmt.Errorf("look for a backup in %s: %w", p.folder.Store.URL(p.folder.Root), store.ErrNotFound)
	case damage != nil:
		return fmt.Errorf("%w; %s", refusal, damage.Error())
	}
	return refusal
}

// take takes a backup if the archive leads from it to the point.
func (p *Plan) take(folder string, m backup.Manifest, cut *archive.Header, upTo gtid.Set) error {
	base := Base{TakenAt: m.TakenAt, Version: m.Version}
	var err error
	if base.Set, err = gtid.Parse(m.GTIDSet); err != nil {
		err = fmt.Errorf("%w: its GTID set: %w", backup.ErrCorrupt, err)
	} else {
		err = p.suits(base, cut, upTo)
	}
	if err != nil {
		return fmt.Errorf("backup %s: %w", folder, err)
	}
	p.Backup, p.leftOut = folder, m.LeftOut
	return nil
}

// suits takes a base, or says why the archive does not lead from it to the point.
func (p *Plan) suits(b Base, cut *archive.Header, upTo gtid.Set) error {
	p.base, p.Version = b.Set, b.Version
	if later := p.base.Subtract(upTo); !later.IsEmpty() {
		return fmt.Errorf("%w: it holds %s, which came after %s", ErrBefore, later, p.point)
	}
	if lost := cut.LostIn(p.base, b.TakenAt); !b.TakenAt.IsZero() && !lost.IsEmpty() {
		return fmt.Errorf("%w: it was taken before the cluster lost %s, which it holds", ErrGap, lost)
	}
	if missing := cut.Base().Subtract(p.base); !missing.IsEmpty() {
		return fmt.Errorf("%w: %s", ErrGap, p.broken(missing, cut))
	}
	if p.point.GTID != "" || p.seen && !p.point.Time.Before(cut.AnchorTime) {
		return nil
	}
	switch {
	case b.TakenAt.IsZero():
		return fmt.Errorf("%w: the archive does not say what of it was committed when before %s", ErrBefore, cut.AnchorTime.UTC().Format(time.RFC3339Nano))
	case p.point.Time.Before(b.TakenAt):
		return fmt.Errorf("%w: it was taken at %s, and the archive does not say what was committed when before that", ErrBefore, b.TakenAt.UTC().Format(time.RFC3339Nano))
	}
	return nil
}

// broken names what no segment holds, or what the cluster lost, between a backup and the segment in which the point lies.
func (p *Plan) broken(missing gtid.Set, cut *archive.Header) string {
	if h := p.anchor; h != nil && h.Number == cut.AnchorNumber {
		gap := gtid.MustParse(h.Gap).Subtract(p.base)
		switch {
		case !gap.IsEmpty():
			return fmt.Sprintf("%s, which the servers had purged before segment %d could hold them", gap, h.Number)
		case h.Lost != "":
			return fmt.Sprintf("%s, which segments before %d hold, but so they do %s, which the cluster has lost", missing, h.Number, h.Lost)
		}
	}
	return fmt.Sprintf("%s, which were committed before segment %d, the first that follows without a gap", missing, cut.AnchorNumber)
}

// chain collects the segments from the backup to the point and makes sure that nothing is missing between them.
func (p *Plan) chain(ctx context.Context, numbers []uint64, cut *archive.Header) error {
	numbers = slices.DeleteFunc(slices.Clone(numbers), func(n uint64) bool { return n < cut.AnchorNumber || n > cut.Number })
	var failure error
	first := sort.Search(len(numbers), func(i int) bool {
		h, err := p.header(ctx, numbers, i)
		if err != nil {
			failure = err
		}
		return err != nil || h == nil || !p.base.Contains(h.All())
	})
	if failure != nil {
		return failure
	}
	// Of segments that cannot be read, those right before the first needed one may be needed.
	for first > 0 {
		if _, err := p.folder.Header(ctx, numbers[first-1]); !errors.Is(err, backup.ErrCorrupt) {
			break
		}
		first--
	}
	numbers = numbers[first:]
	seen := p.base
	var damaged []string
	for i, f := range p.look(numbers, func(number uint64) (*archive.Header, error) { return p.folder.Verify(ctx, number) }) {
		switch {
		case errors.Is(f.err, backup.ErrCorrupt), errors.Is(f.err, store.ErrNotFound):
			damaged = append(damaged, f.err.Error())
			if f.header != nil && f.header.Number == cut.Number {
				return p.missing(f.header.Own().Subtract(seen), damaged)
			}
			continue
		case f.err != nil:
			return f.err
		}
		if err := p.follows(ctx, f.header, cut); err != nil {
			return err
		}
		if missing := f.header.Preceding().Subtract(seen); !missing.IsEmpty() {
			damaged = append(damaged, notThere(numbers, i, cut)...)
			return p.missing(missing, damaged)
		}
		if backup.CheckVersion(f.header.Version, p.Version) != nil {
			p.Version = f.header.Version
		}
		if own := f.header.Own(); !seen.Contains(own) {
			p.Segments, seen = append(p.Segments, f.header.Number), seen.Union(own)
		}
	}
	return nil
}

// notThere names the segment before the i-th, when that is not there.
func notThere(numbers []uint64, i int, cut *archive.Header) []string {
	if i > 0 && numbers[i-1]+1 != numbers[i] || i == 0 && numbers[i] != cut.AnchorNumber {
		return []string{fmt.Sprintf("segment %d is not there", numbers[i]-1)}
	}
	return nil
}

func (p *Plan) missing(set gtid.Set, why []string) error {
	if len(why) == 0 {
		return fmt.Errorf("%w: %s", ErrGap, set)
	}
	return fmt.Errorf("%w: %s (%s)", ErrGap, set, strings.Join(why, "; "))
}
