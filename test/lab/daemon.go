package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/build"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/cloud"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/host"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/kube"
)

const (
	// stopLimit bounds taking everything away.
	stopLimit = 2 * time.Minute
	// watchEvery is the pause between two looks at whether all programs still run.
	watchEvery = 2 * time.Second
)

// parts says what of the lab to run.
type parts struct{ noKube, noCloud bool }

func (p *parts) flags(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&p.noKube, "no-kube", false, "without Kubernetes")
	cmd.Flags().BoolVar(&p.noCloud, "no-cloud", false, "without EC2")
	return cmd
}

// arguments are the flags that say the same again.
func (p *parts) arguments() []string {
	return []string{fmt.Sprintf("--no-kube=%t", p.noKube), fmt.Sprintf("--no-cloud=%t", p.noCloud)}
}

func daemonCommand(dir string) *cobra.Command {
	wanted := &parts{}
	return wanted.flags(&cobra.Command{
		Use: "daemon", Short: "Run the lab in the foreground until SIGTERM, then take it away", Args: cobra.NoArgs,
		PreRunE: requireRoot,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := &daemon{dir: dir, parts: *wanted, log: cmd.ErrOrStderr()}
			return d.run(cmd.Context())
		},
	})
}

// daemon owns everything that the lab makes.
type daemon struct {
	dir    string
	parts  parts
	log    io.Writer
	ledger *host.Ledger
	status *statusWriter

	// kube and cloud are set by start, nil where that part is not wanted or was not reached.
	kube  *kube.Cluster
	cloud *cloud.Cloud
	// mysqlVersion is that of the instances' root file system, cloudLog what the cloud tells; both set with cloud.
	mysqlVersion string
	cloudLog     io.Closer
}

// run brings the lab up, keeps it until ctx ends, and takes it away in any case.
func (d *daemon) run(ctx context.Context) (failure error) {
	lock, err := host.AcquireLock(d.dir)
	if err != nil {
		return err
	}
	defer func() { failure = errors.Join(failure, lock.Release()) }()
	claim, err := host.ClaimMachine(ctx, d.dir)
	if err != nil {
		return err
	}
	defer func() { failure = errors.Join(failure, claim.Release()) }()
	if d.ledger, err = host.OpenLedger(d.dir); err != nil {
		return err
	}
	defer func() { failure = errors.Join(failure, d.ledger.Close()) }()
	d.status = newStatusWriter(d.dir, d.log)
	d.status.change(func(*status) {})

	started := d.start(ctx)
	if started == nil {
		d.watch(ctx)
	} else if ctx.Err() != nil {
		started = errors.New("interrupted while it started")
	}
	return errors.Join(started, d.stop(started))
}

// start runs all wanted parts, side by side.
func (d *daemon) start(ctx context.Context) error {
	if left := d.ledger.Entries(); len(left) > 0 {
		err := d.status.step("leftovers of an earlier lab", func() error {
			_, err := d.ledger.Clean(ctx)
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := d.emptyLogs(); err != nil {
		return err
	}
	cfg, err := build.NewConfig(d.log)
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	if !d.parts.noKube {
		group.Go(func() error { return d.startKube(groupCtx, cfg) })
	}
	if !d.parts.noCloud {
		group.Go(func() error { return d.startCloud(groupCtx, cfg) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if d.kube != nil && d.cloud != nil {
		err := d.status.step("node joins the EC2 network", func() error { return d.cloud.ConnectNode(d.kube.NodePID()) })
		if err != nil {
			return err
		}
	}
	d.status.change(func(s *status) {
		s.Phase = phaseReady
		if d.kube != nil {
			s.Kubeconfig, s.APIServer, s.Registry = d.kube.Kubeconfig(), kube.APIServer, kube.Registry
			s.NodePID = d.kube.NodePID()
		}
		if d.cloud != nil {
			s.cloudStatus = d.cloudStatus()
		}
	})
	return nil
}

// emptyLogs keeps the logs of the last lab only.
func (d *daemon) emptyLogs() error {
	logs := filepath.Join(d.dir, "log")
	old, err := filepath.Glob(filepath.Join(logs, "*.log"))
	if err != nil {
		return err
	}
	for _, file := range old {
		if filepath.Base(file) == daemonLog {
			continue
		}
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	return os.MkdirAll(logs, 0o755)
}

func (d *daemon) startKube(ctx context.Context, cfg build.Config) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	options := kube.Options{Dir: d.dir, Self: self, Build: cfg, Ledger: d.ledger, Log: d.log, Step: d.status.step}
	if !d.parts.noCloud {
		options.ClientRootFS = clientRootFS(cfg, d.log)
	}
	d.kube, err = kube.Start(ctx, options)
	return err
}

// watch says in the status when a program of the lab has ended by itself.
func (d *daemon) watch(ctx context.Context) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	told := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if d.kube == nil {
				continue
			}
			if ended := strings.Join(d.kube.Ended(), ", "); ended != told {
				told = ended
				d.status.change(func(s *status) { s.Phase, s.Message = phaseDegraded, "ended by themselves: "+ended })
			}
		}
	}
}

// stop takes everything away. It must not be hurried by the signal that asked for it.
func (d *daemon) stop(failure error) error {
	d.status.change(func(s *status) { s.Phase = phaseStopping })
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	var stopped error
	if d.cloud != nil {
		stopped = d.cloud.Stop(ctx)
	}
	if d.kube != nil {
		stopped = errors.Join(stopped, d.kube.Stop(ctx))
	}
	if d.cloudLog != nil {
		stopped = errors.Join(stopped, d.cloudLog.Close())
	}
	if stopped != nil {
		// The ledger undoes what did not stop as it should.
		fmt.Fprintf(d.log, "stop: %v\n", stopped)
	}
	entries, err := d.ledger.Clean(ctx)
	var removed []string
	for _, entry := range entries {
		removed = append(removed, entry.String())
	}
	return errors.Join(err, d.status.finish(d.dir, errors.Join(failure, err), removed))
}
