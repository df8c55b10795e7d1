package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// server is what was seen of the primary.
type server struct {
	uuid             string
	version          string
	executed, purged gtid.Set
	at               time.Time
	// epoch is that of the cluster's membership; 0 where it is not known.
	epoch uint64
	// retired is what it has recorded of GTIDs that were lost and used up, and was read after executed.
	retired Losses
}

// tail is where the archive ends: the header of the newest segment that can be read, nil for an empty archive, and the number of
// the newest that is there.
type tail struct {
	head   *Header
	newest uint64
}

// breakage is what a report says of the newest break.
type breakage struct{ gap, lost string }

// position looks at the primary.
func (a *Archiver) position(ctx context.Context, v *podclient.Visit) (server, error) {
	p, err := v.Position(ctx)
	if err != nil {
		return server{}, err
	}
	if !p.Writable {
		return server{}, ErrNotPrimary
	}
	at, err := seen(p)
	if err != nil {
		return server{}, err
	}
	a.executed = at.executed
	at.retired, err = retiredOn(ctx, v)
	return at, err
}

func seen(p podclient.Position) (server, error) {
	s := server{uuid: p.ServerUUID, version: p.Version, at: p.At}
	var errExecuted, errPurged error
	s.executed, errExecuted = gtid.Parse(p.Executed)
	s.purged, errPurged = gtid.Parse(p.Purged)
	return s, errors.Join(errExecuted, errPurged)
}

// retiredOn reads what the primary has recorded of GTIDs that were lost and used up.
func retiredOn(ctx context.Context, v *podclient.Visit) (Losses, error) {
	recorded, err := v.Retirements(ctx)
	if err != nil {
		return nil, err
	}
	var losses Losses
	for _, r := range recorded {
		if _, err := gtid.Parse(r.GTIDSet); err != nil {
			return nil, fmt.Errorf("read which GTIDs were used up: %w", err)
		}
		losses = append(losses, Loss(r))
	}
	return losses, nil
}

// resume finds out how the next segment begins after the archive's end, and from which server it is read. What waits in the
// spool is kept as far as it follows that, and as far as the primary has committed it; the rest is read again.
func (a *Archiver) resume(ctx context.Context, v *podclient.Visit, archived tail, at server) (Header, from, error) {
	primary := from{name: "the primary", uuid: at.uuid, stream: a.o.Stream}
	head := archived.head
	next := Header{Number: archived.newest + 1, ClusterUID: a.o.ClusterUID, ServerUUID: at.uuid, Version: at.version, Epoch: at.epoch}
	if head == nil {
		if err := a.o.Spool.Keep(0); err != nil {
			return Header{}, primary, err
		}
		return next, primary, a.start(ctx, &next, at)
	}
	a.undo()
	have := head.All()
	next.Anchor, next.AnchorNumber, next.AnchorTime, next.Reaches = head.Anchor, head.AnchorNumber, head.AnchorTime, head.Until()
	next.Losses = head.Losses
	a.recordNewest(head, at)
	have, next, err := a.resumeSpool(head, have, next, at)
	if err != nil {
		return Header{}, primary, err
	}
	lost := a.lose(&next, have, at)
	have = have.Subtract(lost)
	gap, source := at.purged.Subtract(have), primary
	if gap.IsEmpty() {
		a.gapSince = time.Time{}
	} else {
		other, err := a.elsewhere(ctx, v, have, gap, at)
		if err != nil {
			return Header{}, primary, err
		}
		if other != nil {
			source, gap = *other, gtid.Set{}
			next.ServerUUID, next.Version = other.uuid, other.version
		}
	}
	have = have.Union(gap)
	next.Before = have.String()
	if !lost.IsEmpty() || !gap.IsEmpty() {
		if err := a.unmoved(ctx, archived.newest); err != nil {
			return Header{}, primary, err
		}
		a.breaks(&next, gap, lost, at)
	}
	return next, source, nil
}

// lose returns what of the archive the cluster has lost, and has the next segment repeat all that is known of losses. A GTID that was lost
// is not on the primary, or used up there: then the primary has an empty transaction under it.
func (a *Archiver) lose(next *Header, have gtid.Set, at server) gtid.Set {
	gone := have.Subtract(at.executed)
	lost := gone.Union(at.usedUp(next.Losses).Intersect(have))
	retired, when := at.retired.beyond(next.Losses)
	next.Losses = slices.Clone(next.Losses)
	for _, more := range []struct {
		set gtid.Set
		at  time.Time
	}{{retired, when}, {gone.Subtract(retired), at.at}} {
		if !more.set.IsEmpty() {
			next.Losses = append(next.Losses, Loss{more.set.String(), more.at.UTC()})
		}
	}
	a.known = next.Losses
	return lost
}

// usedUp returns the GTIDs whose transactions are others on the primary than in a segment that names these losses.
func (s server) usedUp(losses Losses) gtid.Set {
	retired, _ := s.retired.beyond(losses)
	return retired
}

// unmoved makes sure that the archive still ends where it did: else another pod has stored meanwhile what seems to be missing.
func (a *Archiver) unmoved(ctx context.Context, newest uint64) error {
	_, now, err := a.o.Folder.Head(ctx, newest)
	if err != nil {
		return err
	}
	if now != newest {
		return fmt.Errorf("%w: it went on from segment %d to %d", errTaken, newest, now)
	}
	return nil
}

// breaks notes a break before the next segment: what was archived before is of no use for what follows, unless a backup
// bridges it.
func (a *Archiver) breaks(next *Header, gap, lost gtid.Set, at server) {
	next.Gap, next.Lost = gap.String(), lost.String()
	next.Anchor, next.AnchorNumber, next.AnchorTime = next.Before, next.Number, at.at
	a.o.Log.Error(nil, "THE ARCHIVE HAS A BREAK: what precedes it can be restored up to it, and a new backup is needed for what follows",
		"purged before they were archived", next.Gap, "archived but not in the cluster", next.Lost)
	a.tell(func(r *Report) {
		a.unproven = &breakage{r.Gap, r.Lost}
		r.Gap, r.Lost, r.Anchor, r.AnchorAt = next.Gap, next.Lost, next.Anchor, next.AnchorTime
	})
}

// undo takes a break out of the report that was told and never stored: whether there is one is found out again.
func (a *Archiver) undo() {
	if was := a.unproven; was != nil {
		a.unproven = nil
		a.tell(func(r *Report) { r.Gap, r.Lost = was.gap, was.lost })
	}
}

// recordNewest takes into the report what the archive's newest segment says.
func (a *Archiver) recordNewest(head *Header, at server) {
	a.tell(func(r *Report) {
		r.Segments, r.Archived, r.At = head.Number, head.Cumulative, at.at
		r.Anchor, r.AnchorAt = head.Anchor, head.AnchorTime
		if reaches := earlier(head.Until(), head.ClosedAt); reaches.After(r.CoveredUntil) {
			r.CoveredUntil = reaches
		}
		if head.Gap != "" || head.Lost != "" {
			r.Gap, r.Lost, a.unproven = head.Gap, head.Lost, nil
		}
		if head.Ahead != "" {
			r.TimeAhead = head.ahead()
		}
	})
}

// earlier keeps a server whose clock is ahead from making the archive look better than it is, for long after its end.
func earlier(server, own time.Time) time.Time {
	if own.Before(server) {
		return own
	}
	return server
}

// resumeSpool keeps what waits in the spool as far as it follows the archive's end. What was read in another epoch is read again while the
// primary still has it: a failover may have lost it, and its GTIDs may be those of other transactions.
func (a *Archiver) resumeSpool(head *Header, have gtid.Set, next Header, at server) (gtid.Set, Header, error) {
	kept := 0
	for _, h := range a.o.Spool.Pending() {
		if !a.follows(h, have, next, at) {
			break
		}
		kept++
		have, next.Number, next.Reaches = h.All(), h.Number+1, h.Until()
		next.Anchor, next.AnchorNumber, next.AnchorTime, next.Losses = h.Anchor, h.AnchorNumber, h.AnchorTime, h.Losses
	}
	if dropped := len(a.o.Spool.Pending()) - kept; dropped > 0 {
		a.o.Log.Info("reading again what waited to be archived: the archive or the primary went another way", "segments", dropped, "after", head.Number)
	}
	return have, next, a.o.Spool.Keep(kept)
}

// follows says whether a segment that waits is to be stored after have.
func (a *Archiver) follows(h *Header, have gtid.Set, next Header, at server) bool {
	own, before, _, err := h.sets()
	switch {
	case err != nil, h.Number != next.Number, h.ClusterUID != a.o.ClusterUID, !before.Equal(h.after(have, at)), h.Anchor != next.Anchor && h.AnchorNumber != h.Number:
		return false
	case !at.executed.Contains(own), h.Epoch != at.epoch && have.Contains(at.purged):
		return false
	}
	return at.usedUp(h.Losses).Intersect(own).IsEmpty()
}

// after is what precedes a segment that follows have: with a break, what was lost is gone and the gap is passed over. What was
// lost and is there again breaks nothing, so that the segment does not follow. What was used up is not there again.
func (h *Header) after(have gtid.Set, at server) gtid.Set {
	lost, errLost := gtid.Parse(h.Lost)
	gap, errGap := gtid.Parse(h.Gap)
	if errLost != nil || errGap != nil || !lost.Intersect(at.executed.Subtract(at.retired.all())).IsEmpty() {
		return have
	}
	return have.Subtract(lost).Union(gap)
}

// start begins an archive: after the newest backup if all that follows it is still there, else now.
func (a *Archiver) start(ctx context.Context, next *Header, at server) error {
	have, since := at.executed, at.at
	a.lose(next, gtid.Set{}, at)
	if err := a.lookAtBases(ctx, 0); err != nil {
		return err
	}
	for _, b := range a.base.newestFirst() {
		if b.set.Contains(at.purged) && at.executed.Contains(b.set) && next.Losses.in(b.set, b.taken).IsEmpty() {
			have, since = b.set, b.taken
			break
		}
	}
	next.Before = have.String()
	next.Anchor, next.AnchorNumber, next.AnchorTime = next.Before, next.Number, since.UTC()
	a.tell(func(r *Report) {
		r.Anchor, r.AnchorAt, r.Archived, r.At = next.Anchor, next.AnchorTime, next.Before, at.at
	})
	return nil
}

// lookAtBases lists the backups unless that was done a short time ago.
func (a *Archiver) lookAtBases(ctx context.Context, every time.Duration) error {
	now := a.o.Clock.Now()
	if now.Sub(a.based) < every {
		return nil
	}
	if err := a.base.look(ctx); err != nil {
		return err
	}
	a.based = now
	return nil
}
