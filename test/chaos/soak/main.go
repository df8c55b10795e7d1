// Command soak does faults to a cluster on the running lab, one after another, and prints what they cost. See package chaos.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
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
	story  bool
	dir    string
	table  string
	// bench is how often each interruption is measured instead; 0: not at all.
	bench int
	cool  bool
}

func main() {
	ctrllog.SetLogger(zap.New(zap.WriteTo(io.Discard)))
	var o options
	flag.IntVar(&o.faults, "faults", 100, "How many faults.")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().Unix()), "Seed of every choice.") //nolint:gosec // a time after 1970
	flag.IntVar(&o.bench, "bench", 0, "Measure each interruption of the write service this often, instead of doing faults.")
	flag.BoolVar(&o.cool, "cool", true, "With -bench: wait out the cool-down between two failovers.")
	only := flag.String("only", "", "Only faults whose names match this expression.")
	not := flag.String("not", "^$", "No faults whose names match this expression.")
	flag.BoolVar(&o.story, "story", false, "Print what was seen in Kubernetes during each fault.")
	flag.StringVar(&o.dir, "dir", filepath.Join(os.TempDir(), "nairobi-chaos"), "Where the ledger goes, and what is collected after a failure.")
	flag.StringVar(&o.table, "table", "", "A file that the table is written to, as Markdown.")
	flag.Parse()
	o.only, o.not = regexp.MustCompile(*only), regexp.MustCompile(*not)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
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
	fmt.Printf("seed %d, operator %s\n", o.seed, image)
	world, err := chaos.Open(ctx, chaos.Options{
		Lab: lab, Key: client.ObjectKey{Namespace: "chaos", Name: "ledger"}, Seed: o.seed, Dir: o.dir, Out: os.Stdout,
	})
	if err != nil {
		lab.Diagnose(ctx, os.Stderr, client.ObjectKey{Namespace: "chaos", Name: "ledger"})
		return err
	}
	table, err := work(ctx, o, world)
	fmt.Printf("\n%s", table)
	if o.table != "" {
		err = errors.Join(err, os.WriteFile(o.table, []byte(table), 0o644))
	}
	return errors.Join(err, world.Close())
}

// work does what was asked for and returns its table.
func work(ctx context.Context, o options, world *chaos.World) (string, error) {
	if o.bench == 0 {
		results, err := faults(ctx, o, world)
		return chaos.Table(results), err
	}
	began := time.Now()
	table, err := world.Measure(ctx, o.bench, o.cool)
	if err == nil {
		var price string
		price, err = world.PriceOfSync(ctx)
		table += "\n" + price
	}
	if err != nil {
		world.Explain(context.WithoutCancel(ctx), began)
	}
	return table, err
}

// faults does them in a seeded order.
func faults(ctx context.Context, o options, world *chaos.World) ([]chaos.Result, error) {
	var results []chaos.Result
	for _, f := range world.Order(o.faults, func(f chaos.Fault) bool { return o.only.MatchString(f.Name) && !o.not.MatchString(f.Name) }) {
		began := time.Now()
		result, err := world.Run(ctx, f)
		results = append(results, result)
		if o.story {
			fmt.Print(world.Story(began))
		}
		if err != nil {
			world.Explain(context.WithoutCancel(ctx), began)
			return results, err
		}
	}
	return results, nil
}
