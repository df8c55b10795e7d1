// Command soak does faults to a cluster on the running lab, one after another, and prints what they cost. See package chaos.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/alx-ke/nairobi-mysql-operator/test/chaos"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
)

// options are the flags.
type options struct {
	faults int
	seed   uint64
	only   *regexp.Regexp
	not    *regexp.Regexp
	// some says that only and not leave some faults out: then no table goes into the document.
	some  bool
	story bool
	dir   string
	// document gets the table of a whole run.
	document string
	// bench is how often each interruption is measured instead; 0: not at all.
	bench int
	cool  bool
	// behind is how long a replica is cut off so that it falls far behind.
	behind time.Duration
	// power says that only the power of several members is cut, and fresh after how many faults a new cluster is made; 0: one for all.
	power bool
	fresh int
	// changes is what is done instead of faults: changes of the spec, "plain", or "cut" with the primary's power cut in the
	// middle of each; empty: faults.
	changes string
}

func main() {
	ctrllog.SetLogger(zap.New(zap.WriteTo(io.Discard)))
	var o options
	flag.IntVar(&o.faults, "faults", 100, "How many faults.")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().Unix()), "Seed of every choice.") //nolint:gosec // a time after 1970
	flag.IntVar(&o.bench, "bench", 0, "Measure each interruption of the write service this often, instead of doing faults.")
	flag.BoolVar(&o.cool, "cool", true, "With -bench: wait for more than a minute between two failovers.")
	flag.DurationVar(&o.behind, "behind", chaos.DefaultBehind, "How long a replica is cut off so that it falls far behind.")
	flag.StringVar(&o.changes, "changes", "", "Change the spec in every way instead of doing faults: plain, or cut (the primary loses its power in the middle of each).")
	flag.BoolVar(&o.power, "power", false, "Only the power cuts of several members within each other's window. Implies -fresh 1.")
	flag.IntVar(&o.fresh, "fresh", 0, "A new cluster after this many faults: a member that loses its power three times in ten minutes is given no vote for as long. 0: one for all.")
	only := flag.String("only", "", "Only faults whose names match this expression.")
	not := flag.String("not", "^$", "No faults whose names match this expression.")
	flag.BoolVar(&o.story, "story", false, "Print what was seen in Kubernetes during each fault.")
	flag.StringVar(&o.dir, "dir", "", "Where the ledger goes, and what is collected after a failure. Empty: a new folder.")
	flag.StringVar(&o.document, "document", filepath.Join("docs", "reliability.md"), "The document that gets the table of a run of at least 100 faults, or of 10 repetitions. Empty: none.")
	flag.Parse()
	if o.dir == "" {
		o.dir = filepath.Join(os.TempDir(), "nairobi-chaos", fmt.Sprintf("%s-%d", time.Now().UTC().Format("20060102-150405"), o.seed))
	}
	if o.changes != "" && o.changes != changesPlain && o.changes != changesCut {
		fmt.Fprintf(os.Stderr, "chaos: -changes is %q; it is %s or %s\n", o.changes, changesPlain, changesCut)
		os.Exit(2)
	}
	if o.power {
		o.fresh = cmp.Or(o.fresh, powerFresh)
	}
	o.only, o.not = regexp.MustCompile(*only), regexp.MustCompile(*not)
	o.some = slices.ContainsFunc(chaos.Faults(), func(f chaos.Fault) bool { return !o.only.MatchString(f.Name) || o.not.MatchString(f.Name) })
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

const (
	// wholeRun is how many faults, wholeBench how many repetitions a run must have for its table to go into the document.
	wholeRun, wholeBench = 100, 10
	// wholePower is the same of power cuts, and powerFresh how many of them one cluster gets.
	wholePower, powerFresh = 60, 1
	// changesPlain and changesCut are the values of -changes.
	changesPlain, changesCut = "plain", "cut"
	// deleteTimeout bounds taking a cluster away that got stuck.
	deleteTimeout = 5 * time.Minute
)

// soak is a run.
type soak struct {
	options
	lab   *deploy.Lab
	world *chaos.World
	// clusters counts those that were made: one that got stuck is replaced.
	clusters int
}

func run(ctx context.Context, o options) error {
	lab, err := deploy.Open(ctx)
	if err != nil {
		return err
	}
	image, err := lab.PushOperatorImage(ctx)
	if err != nil {
		return err
	}
	if err := lab.InstallOperator(ctx, image); err != nil {
		return err
	}
	fmt.Printf("seed %d, operator %s, %s, evidence goes to %s\n", o.seed, image, chaos.Machine(), o.dir)
	s := &soak{options: o, lab: lab}
	if err := s.open(ctx); err != nil {
		return err
	}
	if o.bench > 0 {
		err = s.measure(ctx)
	} else {
		err = s.faultAfterFault(ctx)
	}
	return errors.Join(err, s.world.Close())
}

func (s *soak) key() client.ObjectKey {
	return client.ObjectKey{Namespace: "chaos", Name: fmt.Sprintf("ledger%d", s.clusters)}
}

// open makes the next cluster, under load.
func (s *soak) open(ctx context.Context) error {
	s.clusters++
	world, err := chaos.Open(ctx, chaos.Options{
		Lab: s.lab, Key: s.key(), Seed: s.seed + uint64(s.clusters-1), Out: os.Stdout, Behind: s.behind, //nolint:gosec // a small number
		Dir: filepath.Join(s.dir, fmt.Sprintf("cluster%d", s.clusters)),
	})
	if err != nil {
		s.lab.Diagnose(ctx, os.Stderr, s.key())
		return err
	}
	s.world = world
	return nil
}

// wanted says whether a fault is one of those that the flags ask for.
func (s *soak) wanted(f chaos.Fault) bool {
	return s.only.MatchString(f.Name) && !s.not.MatchString(f.Name) && (!s.power || isPower(f))
}

func isPower(f chaos.Fault) bool {
	return slices.ContainsFunc(chaos.PowerFaults(), func(p chaos.Fault) bool { return p.Name == f.Name })
}

// measure measures the interruptions that are promised to be short.
func (s *soak) measure(ctx context.Context) error {
	began := time.Now()
	table, err := s.world.Measure(ctx, s.bench, s.cool, s.wanted)
	all := !slices.ContainsFunc(chaos.Figures(), func(f chaos.Figure) bool { return !s.wanted(f.Fault) })
	if err == nil && all {
		var price string
		price, err = s.world.PriceOfDisk(ctx)
		table += "\n" + price
	}
	fmt.Printf("\n%s", table)
	if err != nil {
		s.world.Explain(context.WithoutCancel(ctx), began)
		return err
	}
	if !all || s.bench < wholeBench || s.document == "" {
		return nil
	}
	head := fmt.Sprintf("%s; %s; `make bench-failover BENCH_TIMES=%d`.", began.UTC().Format("2006-01-02 15:04 UTC"), chaos.Machine(), s.bench)
	return chaos.Document(s.document, chaos.PartBench, head+"\n\n"+table)
}

// faultAfterFault does the faults in a seeded order, until all are done or something was found.
func (s *soak) faultAfterFault(ctx context.Context) error {
	began := time.Now()
	results, err := s.all(ctx)
	command := fmt.Sprintf("make chaos CHAOS_FAULTS=%d", len(results))
	switch {
	case s.changes != "":
		command = "make changes CHANGES=" + s.changes
	case s.power:
		command += " CHAOS_FLAGS=-power"
	}
	table := chaos.Summary(results, command, s.seed, began) + "\n" + chaos.Table(results)
	fmt.Printf("\n%s", table)
	switch {
	case err != nil || s.document == "" || s.some:
	case s.changes != "" && len(results) == len(chaos.Changes(s.changes == changesCut)):
		err = chaos.Document(s.document, chaos.PartChanges+s.changes, table)
	case s.power && len(results) >= wholePower:
		err = chaos.Document(s.document, chaos.PartPower, table)
	case s.changes == "" && !s.power && len(results) >= wholeRun:
		err = chaos.Document(s.document, chaos.PartChaos, table)
	}
	return err
}

func (s *soak) all(ctx context.Context) ([]chaos.Result, error) {
	var results []chaos.Result
	order := s.world.Order(s.faults, s.wanted)
	if s.changes != "" {
		order = slices.DeleteFunc(chaos.Changes(s.changes == changesCut), func(f chaos.Fault) bool { return !s.wanted(f) })
	}
	var undone []error // unlike of a fault, all of a change must be done
	for i, f := range order {
		if s.fresh > 0 && i > 0 && i%s.fresh == 0 {
			if err := s.renew(ctx); err != nil {
				return results, err
			}
		}
		began := time.Now()
		result, err := s.world.Run(ctx, f)
		result.Number = len(results) + 1
		results = append(results, result)
		if s.changes != "" && (result.Incomplete != "" || result.Stuck) {
			undone = append(undone, fmt.Errorf("%s: %s", f.Name, cmp.Or(result.Incomplete, "the cluster was not Ready afterwards")))
		}
		if interrupted := chaos.Interruption(result); s.changes == changesPlain && interrupted != nil {
			undone = append(undone, fmt.Errorf("%s: %w", f.Name, interrupted))
		}
		if s.story {
			fmt.Print(s.world.Story(began))
		}
		if err == nil {
			continue
		}
		s.world.Explain(context.WithoutCancel(ctx), began)
		if ctx.Err() != nil || !errors.Is(err, chaos.ErrNotReady) {
			return results, err
		}
		// Nothing is lost. What was seen is kept, and the rest goes on with a cluster of its own.
		fmt.Printf("     %v; it is taken away, and a new one is made\n", err)
		if err := s.renew(ctx); err != nil {
			return results, err
		}
	}
	return results, errors.Join(undone...)
}

// renew takes the cluster away and makes the next one.
func (s *soak) renew(ctx context.Context) error {
	if err := errors.Join(s.world.Close(), s.lab.Delete(ctx, s.key(), deleteTimeout)); err != nil {
		return err
	}
	return s.open(ctx)
}
