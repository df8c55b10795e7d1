package archive

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

const (
	// memberPatience is how long a member that does not answer is waited for before a gap is declared that it may fill.
	memberPatience = 10 * time.Minute
	// uncommittedPatience is how long what another member sent may stay uncommitted on the primary. It committed it before it
	// had it purged.
	uncommittedPatience = 2 * time.Minute
)

var (
	// errWaiting: a member is silent that may have what the primary has purged.
	errWaiting = errors.New("waiting for members that may still have what the primary has purged")
	// errCaughtUp: another member has given what the primary had purged, and the rest is the primary's to give.
	errCaughtUp = errors.New("what the primary had purged was read from another member")
	// errForeign: another member sends what the primary does not have.
	errForeign = errors.New("another member sends transactions that the primary does not commit")
)

// Source is a server whose binary log can be followed.
type Source struct {
	Name string
	// Connect opens a session on it as the backup pods' account, Stream follows its binary log.
	Connect func(ctx context.Context) (*podclient.Visit, error)
	Stream  func(ctx context.Context, have gtid.Set) (*podclient.BinlogStream, error)
}

// from is what a session archives from: the primary, or for a while another member that still has what that one purged.
type from struct {
	name, uuid, version string
	stream              func(ctx context.Context, have gtid.Set) (*podclient.BinlogStream, error)
	// until is what to read from another member; it is empty for the primary, which is followed for as long as it is one.
	until gtid.Set
}

// elsewhere looks for a member that has all of what is missing. It returns nil when there is none, and an error while one
// that may have it does not answer.
func (a *Archiver) elsewhere(ctx context.Context, v *podclient.Visit, have, gap gtid.Set, at server) (*from, error) {
	if a.o.Others == nil {
		return nil, nil //nolint:nilnil // there is no other member
	}
	var silent []string
	for _, other := range a.o.Others(ctx) {
		found, err := other.position(ctx)
		switch {
		case err != nil:
			silent = append(silent, fmt.Sprintf("%s: %s", other.Name, err))
			continue
		case found.uuid == at.uuid, !found.executed.Contains(gap), !have.Contains(found.purged):
			continue
		}
		now, err := a.position(ctx, v)
		if err != nil {
			return nil, err
		}
		errant := found.executed.Subtract(now.executed)
		if !errant.IsEmpty() && errant.WithoutSource(at.uuid).IsEmpty() {
			// The primary's own, which it has sent and waits to be acknowledged: it commits or loses them in a while.
			silent = append(silent, other.Name+" is ahead of the primary")
			continue
		}
		if !errant.IsEmpty() {
			a.o.Log.Info("not read from a member that has what the primary has not", "member", other.Name, "transactions", errant)
			continue
		}
		a.o.Log.Info("reading from another member what the primary has purged", "member", other.Name, "transactions", gap)
		a.gapSince = time.Time{}
		return &from{name: other.Name, uuid: found.uuid, version: found.version, stream: other.Stream, until: at.purged}, nil
	}
	if len(silent) == 0 {
		return nil, nil //nolint:nilnil // nobody has it
	}
	if a.gapSince.IsZero() {
		a.gapSince = a.o.Clock.Now()
	}
	if a.o.Clock.Since(a.gapSince) < a.o.MemberPatience {
		return nil, fmt.Errorf("%w (%s): %s", errWaiting, gap, strings.Join(silent, "; "))
	}
	return nil, nil //nolint:nilnil // they had time enough
}

// position looks at a member that is not the primary.
func (s Source) position(ctx context.Context) (server, error) {
	v, err := s.Connect(ctx)
	if err != nil {
		return server{}, err
	}
	defer v.Close()
	p, err := v.Position(ctx)
	if err != nil {
		return server{}, err
	}
	return seen(p)
}
