package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// ErrNoMember: no member can be backed up at the moment.
var ErrNoMember = errors.New("no member can be backed up")

// lookTimeout bounds the look at one member.
const lookTimeout = 10 * time.Second

// candidate is a member that answered.
type candidate struct {
	member Member
	state  podclient.ServerState
}

// Choose returns the member to back up: the voting replica that is least behind, whose dump costs no client anything, or the
// primary when none follows it within maxLag and has executed what the backup is required to hold. tried has members that were tried in
// vain, by name, with the error: they come after the other replicas, and those that were sick after the primary too.
func Choose(ctx context.Context, members []Member, maxLag time.Duration, required gtid.Set, tried map[string]error) (Member, error) {
	var mu sync.Mutex
	var group sync.WaitGroup
	var replicas, primaries []candidate
	var problems []string
	for _, m := range members {
		group.Go(func() {
			state, err := look(ctx, m)
			mu.Lock()
			defer mu.Unlock()
			if err == nil && !state.Writable {
				err = unfit(m, state, maxLag, required)
			}
			switch {
			case err != nil:
				problems = append(problems, m.Name+": "+err.Error())
			case state.Writable:
				primaries = append(primaries, candidate{m, state})
			default:
				replicas = append(replicas, candidate{m, state})
			}
		})
	}
	group.Wait()
	candidates := replicas
	if len(primaries) == 1 { // of two nobody knows which is one
		candidates = append(candidates, primaries[0])
	}
	if len(candidates) > 0 {
		return slices.MinFunc(candidates, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(a.rank(tried), b.rank(tried)), cmp.Compare(a.state.Lag, b.state.Lag), cmp.Compare(a.member.Name, b.member.Name))
		}).member, nil
	}
	slices.Sort(problems)
	return Member{}, fmt.Errorf("%w: %s", ErrNoMember, strings.Join(problems, "; "))
}

// rank is lower for who is tried sooner: replicas before the primary, the sick after everybody.
func (c candidate) rank(tried map[string]error) int {
	rank := 0
	if c.state.Writable {
		rank = 2
	}
	switch err := tried[c.member.Name]; {
	case err == nil:
		return rank
	case Sick(err):
		return rank + 4
	}
	return rank + 1
}

// unfit says why a replica is not to be dumped, nil when it may be.
func unfit(m Member, state podclient.ServerState, maxLag time.Duration, required gtid.Set) error {
	executed, err := gtid.Parse(state.Executed)
	switch {
	case len(state.Voters) > 0 && !slices.Contains(state.Voters, m.Name):
		return errors.New("it has no vote, and may lack data that its GTIDs name")
	case len(state.Filters) > 0:
		return fmt.Errorf("it leaves out or changes what it receives: %s", strings.Join(state.Filters, ", "))
	case !state.Following || !state.LagKnown:
		return errors.New("it does not replicate")
	case state.Lag > maxLag:
		return fmt.Errorf("it is %s behind", state.Lag.Round(time.Second))
	case err != nil:
		return err
	case !executed.Contains(required):
		return fmt.Errorf("it has not executed yet %s", required.Subtract(executed))
	}
	return nil
}

func look(ctx context.Context, m Member) (podclient.ServerState, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	v, err := m.Connect(ctx)
	if err != nil {
		return podclient.ServerState{}, err
	}
	defer v.Close()
	return v.State(ctx)
}
