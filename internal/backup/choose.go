package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// ErrNoMember: no member can be backed up at the moment.
var ErrNoMember = errors.New("no member can be backed up")

// lookTimeout bounds the look at one member.
const lookTimeout = 10 * time.Second

// candidate is a member that answered.
type candidate struct {
	member Member
	state  mysql.ServerState
}

// Choose returns the member to back up: the replica that is least behind, whose dump costs no client anything, or the
// primary when no replica follows it within maxLag. not are the names of members that were tried in vain; they come last.
func Choose(ctx context.Context, members []Member, maxLag time.Duration, not ...string) (Member, error) {
	var mu sync.Mutex
	var group sync.WaitGroup
	var replicas, primaries []candidate
	var problems []string
	for _, m := range members {
		group.Go(func() {
			state, err := look(ctx, m)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				problems = append(problems, m.Name+": "+err.Error())
			case state.Writable:
				primaries = append(primaries, candidate{m, state})
			case state.Following && state.LagKnown && state.Lag > maxLag:
				problems = append(problems, fmt.Sprintf("%s: it is %s behind", m.Name, state.Lag.Round(time.Second)))
			case state.Following && state.LagKnown:
				replicas = append(replicas, candidate{m, state})
			default:
				problems = append(problems, m.Name+": it does not replicate")
			}
		})
	}
	group.Wait()
	slices.SortFunc(replicas, func(a, b candidate) int {
		tried := func(c candidate) int {
			if slices.Contains(not, c.member.Name) {
				return 1
			}
			return 0
		}
		if d := tried(a) - tried(b); d != 0 {
			return d
		}
		if a.state.Lag != b.state.Lag {
			return int(a.state.Lag - b.state.Lag)
		}
		return strings.Compare(a.member.Name, b.member.Name)
	})
	switch {
	case len(replicas) > 0:
		return replicas[0].member, nil
	case len(primaries) == 1:
		return primaries[0].member, nil
	}
	slices.Sort(problems)
	return Member{}, fmt.Errorf("%w: %s", ErrNoMember, strings.Join(problems, "; "))
}

func look(ctx context.Context, m Member) (mysql.ServerState, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	v, err := m.Connect(ctx)
	if err != nil {
		return mysql.ServerState{}, err
	}
	defer v.Close()
	return v.State(ctx)
}
