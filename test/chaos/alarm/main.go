// Command alarm makes each alert fire on the running lab by the fault that it is about, and prints how soon it fired and ended. See
// chaos.Alarms.
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
	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/chaos"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/insights"
)

// options are the flags.
type options struct {
	only     *regexp.Regexp
	document string
	dir      string
	// quiet is how long an ordinary day lasts, in which nothing may fire; 0: the alarms.
	quiet time.Duration
}

func main() {
	ctrllog.SetLogger(zap.New(zap.WriteTo(io.Discard)))
	var o options
	only := flag.String("only", "", "Only alarms whose fault or one of whose alerts matches this expression.")
	flag.StringVar(&o.document, "document", filepath.Join("docs", "runbooks", "README.md"), "The document that gets the table of a whole run. Empty: none.")
	flag.StringVar(&o.dir, "dir", "", "Where the ledger goes. Empty: a new folder.")
	flag.DurationVar(&o.quiet, "quiet", 0, "Instead of the alarms, this long an ordinary day under the shipped rules: load, changes and backups. Nothing may fire.")
	flag.Parse()
	o.only = regexp.MustCompile(*only)
	if o.dir == "" {
		o.dir = filepath.Join(os.TempDir(), "nairobi-chaos", time.Now().UTC().Format("20060102-150405")+"-alarms")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "alarm:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	lab, err := deploy.Open(ctx)
	if err != nil {
		return err
	}
	key := client.ObjectKey{Namespace: "alarms", Name: "orders"}
	if err := lab.Deploy(ctx, key.Namespace); err != nil {
		return err
	}
	by, cron := insights.Options{Interval: chaos.AlarmInterval, Members: chaos.AlarmMembers}, chaos.EveryMinute
	if o.quiet > 0 {
		by, cron = insights.Options{}, everyTenMinutes
	} else if by.Rules, err = yaml.Marshal(chaos.HastyRules()); err != nil {
		return err
	}
	watch, err := insights.Start(ctx, lab, by)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, watch.Close()) }()
	world, err := chaos.Open(ctx, chaos.Options{Lab: lab, Key: key, Seed: 1, Dir: o.dir, Out: os.Stdout})
	if err != nil {
		lab.Diagnose(ctx, os.Stderr, key)
		return err
	}
	defer func() { err = errors.Join(err, world.Close()) }()
	if err := world.Protect(ctx, cron); err != nil {
		return err
	}
	if o.quiet > 0 {
		err = ordinaryDay(ctx, o.quiet, world, watch)
	} else {
		err = alarms(ctx, o, world, watch)
	}
	if err != nil {
		lab.Diagnose(context.WithoutCancel(ctx), os.Stderr, key)
	}
	return err
}

// everyTenMinutes is how often the cluster of an ordinary day is backed up and verified.
const everyTenMinutes v1alpha1.CronExpression = "*/10 * * * *"

// ordinaryDay changes the cluster in every way, spread over the time, and fails when an alert fires.
func ordinaryDay(ctx context.Context, length time.Duration, world *chaos.World, watch *insights.Watch) error {
	began, changes := time.Now(), chaos.OrdinaryDay()
	for i, change := range changes {
		if _, err := world.Run(ctx, change); err != nil {
			return err
		}
		next := began.Add(length * time.Duration(i+1) / time.Duration(len(changes)))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(next)):
		}
	}
	var errs []error
	for _, a := range watch.Fired() {
		errs = append(errs, fmt.Errorf("%s fired at %s: %v", a.Name(), a.Began.Format(time.TimeOnly), a.Labels))
	}
	fmt.Printf("%s, %d changes, %d alerts\n", time.Since(began).Round(time.Second), len(changes), len(errs))
	return errors.Join(errs...)
}

// alarms makes the alerts fire, and writes the table of them.
func alarms(ctx context.Context, o options, world *chaos.World, watch *insights.Watch) error {
	began := time.Now()
	raised, left, err := raise(ctx, o, world, watch)
	err = errors.Join(err, world.AwaitEnds(ctx, raised, watch))
	table := chaos.AlarmTable(raised)
	fmt.Printf("\n%s", table)
	if err != nil || left || o.document == "" {
		return err
	}
	head := fmt.Sprintf("%s; %s; `make alerts`.", began.UTC().Format("2006-01-02 15:04 UTC"), chaos.Machine())
	return chaos.Document(o.document, chaos.PartAlarms, head+"\n\n"+table)
}

// raise makes one alarm after another happen, and says whether some were left out. It goes on after one that was not heard.
func raise(ctx context.Context, o options, world *chaos.World, pager chaos.Pager) (raised []chaos.Raised, left bool, err error) {
	for _, a := range chaos.Alarms() {
		if !a.Matches(o.only) {
			left = true
			continue
		}
		heard, failed := world.Raise(ctx, a, pager)
		raised, err = append(raised, heard...), errors.Join(err, failed)
		if ctx.Err() != nil {
			break
		}
	}
	return raised, left, err
}
