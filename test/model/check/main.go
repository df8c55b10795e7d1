// Command check searches the states of test/model for one that breaks an invariant, within bounds that are too large for a test, and prints
// how it comes to it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/test/model"
)

// memory is where the garbage collector begins to work harder. The states that wait to be visited take most of it.
const memory = 2500 << 20

var errBroken = errors.New("an invariant is broken")

type options struct {
	rules, mutant string
	bounds        model.Bounds
	states, depth int
	walks         int
	seed          uint64
	limit         time.Duration
}

func main() {
	var o options
	b := &o.bounds
	flag.StringVar(&o.rules, "rules", "", "only these: synced, certificates or upgrading; all when empty")
	flag.StringVar(&o.mutant, "mutant", "", "instead: the mutant whose name contains this, with its own bounds")
	flag.IntVar(&b.Members, "members", 3, "members of the cluster")
	flag.IntVar(&b.Reached, "reached", 2, "how many members the operator reaches at least")
	flag.IntVar(&b.Writes, "writes", 1, "transactions of clients")
	flag.IntVar(&b.PowerCuts, "power-cuts", 1, "losses of power")
	flag.IntVar(&b.Kills, "kills", 1, "times that mysqld of a primary is killed")
	flag.IntVar(&b.Promotions, "promotions", 1, "promotions")
	flag.IntVar(&b.LostRecords, "lost-records", 1, "losses of the operator's records")
	flag.IntVar(&b.Certificates, "certificates", 1, "certificates")
	flag.IntVar(&b.VoterChanges, "voter-changes", 0, "changes of the voters")
	flag.IntVar(&b.Transactions, "transactions", 0, "transactions and rows together; 8 when 0")
	flag.IntVar(&o.states, "states", 20_000_000, "most states of a search")
	flag.IntVar(&o.depth, "depth", 0, "most steps of a search; any number when 0")
	flag.DurationVar(&o.limit, "time", 20*time.Minute, "most time for each set of rules")
	flag.IntVar(&o.walks, "walks", 0, "instead of a search: so many random walks, for larger bounds")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the random walks")
	flag.Parse()
	debug.SetMemoryLimit(memory)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run checks one set of rules after the other.
func run(ctx context.Context, o options) error {
	if o.mutant != "" {
		i := slices.IndexFunc(model.Mutants(), func(m model.Mutant) bool { return strings.Contains(m.Name, o.mutant) })
		if i < 0 {
			return fmt.Errorf("no mutant's name contains %q", o.mutant)
		}
		return checkMutant(ctx, model.Mutants()[i], o)
	}
	sets := []struct {
		name  string
		rules model.Rules
	}{{"synced", model.WithSyncedRelayLogs()}, {"certificates", model.WithCertificates()}, {"upgrading", model.Upgrading()}}
	checked := false
	for _, set := range sets {
		if o.rules == "" || o.rules == set.name {
			checked = true
			if err := check(ctx, set.rules, o); err != nil {
				return err
			}
		}
	}
	if !checked {
		return fmt.Errorf("no rules are called %q", o.rules)
	}
	return nil
}

// checkMutant prints how a broken rule loses a commit.
func checkMutant(ctx context.Context, mutant model.Mutant, o options) error {
	o.bounds = mutant.Bounds
	switch err := check(ctx, mutant.Rules, o); {
	case err == nil:
		return errors.New("the broken rule was not noticed")
	case !errors.Is(err, errBroken):
		return err
	default:
		fmt.Printf("  %s\n", err)
		return nil
	}
}

// check checks one set of rules. It fails when an invariant is broken.
func check(ctx context.Context, rules model.Rules, o options) error {
	m, err := model.New(rules, o.bounds)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	fmt.Printf("%s: %s\n", rules, o.bounds)
	if o.walks > 0 {
		return walk(ctx, m, o)
	}
	return search(ctx, m, o)
}

func search(ctx context.Context, m *model.Model, o options) error {
	began := time.Now()
	show := func(r model.Result) {
		seconds := time.Since(began).Seconds()
		fmt.Printf("  depth %2d: %d states, %d transitions, %.0f s, %.0f states/s\n", r.Depth, r.States, r.Transitions, seconds, float64(r.States)/seconds)
	}
	r := m.Search(ctx, model.Limits{States: o.states, Depth: o.depth, Level: show})
	switch {
	case r.Broken != nil:
		return broken(r.Counterexample, r.Broken)
	case r.Exhaustive:
		fmt.Println("  holds in every state within the bounds")
	default:
		fmt.Println("  holds in the states that were visited; a limit ended the search")
	}
	return nil
}

func walk(ctx context.Context, m *model.Model, o options) error {
	r := m.Walk(ctx, o.seed, o.walks)
	fmt.Printf("  %d walks, %d steps, %d acknowledged transactions, %d promotions\n", r.Walks, r.Steps, r.Acknowledged, r.Promotions)
	if r.Broken != nil {
		return broken(r.Counterexample, r.Broken)
	}
	return nil
}

// broken prints a counterexample.
func broken(steps []string, why error) error {
	for i, step := range steps {
		fmt.Printf("%4d  %s\n", i+1, step)
	}
	return fmt.Errorf("%w: %w", errBroken, why)
}
