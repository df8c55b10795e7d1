// Command manager is the Nairobi MySQL Operator: it keeps MySQLClusters on EC2 as their specs want them.
//
// Here are the flags and the log. How the operator is put together is in internal/manager, what it does in controllers.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"

	_ "time/tzdata"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	// schedules have time zones, and the image has no files

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/pod"
	"github.com/alx-ke/nairobi-mysql-operator/internal/manager"
	"github.com/alx-ke/nairobi-mysql-operator/internal/olm"
)

// Set by the linker; see the Makefile.
var (
	version = "dev"
	commit  = "unknown"
	date    = "unknown"
)

// flags are what the command line says.
type flags struct {
	operator    manager.Options
	showVersion bool
	development bool
	verbosity   int
}

func main() {
	if len(os.Args) > 1 && pod.IsCommand(os.Args[1]) {
		os.Exit(runPod(os.Args[1:]))
	}
	if len(os.Args) > 1 && os.Args[1] == commandDoctor {
		ctrl.SetLogger(logr.Discard()) // what is found is in the report
		os.Exit(runDoctor(ctrl.SetupSignalHandler(), os.Args[2:], build(), os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == commandPrices {
		os.Exit(runPrices(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	f := parseFlags()
	if f.showVersion {
		fmt.Printf("nairobi-mysql-operator %s (commit %s, built %s)\n", version, commit, date)
		return
	}
	log, err := newLogger(f)
	if err != nil {
		fmt.Fprintln(os.Stderr, "set up logging:", err)
		os.Exit(1)
	}
	ctrl.SetLogger(log)
	f.operator.Build, f.operator.Logger = build(), log
	f.operator.OperatorCondition = os.Getenv(olm.ConditionNameVariable)
	if err := run(ctrl.SetupSignalHandler(), f.operator); err != nil {
		log.Error(err, "the operator stops")
		os.Exit(1)
	}
}

// build is what the linker set.
func build() manager.Build { return manager.Build{Version: version, Commit: commit, Date: date} }

// runPod does the work of a backup pod, whose log is as the operator's is by default.
func runPod(arguments []string) int {
	log, err := newLogger(flags{})
	if err != nil {
		fmt.Fprintln(os.Stderr, "set up logging:", err)
		return 1
	}
	ctrl.SetLogger(log)
	return pod.Run(ctrl.SetupSignalHandler(), arguments, log, version)
}

// run runs the operator until ctx ends.
func run(ctx context.Context, o manager.Options) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the API server: %w", err)
	}
	operator, err := manager.New(config, o)
	if err != nil {
		return err
	}
	o.Logger.Info("starting", "version", version, "commit", commit, "built", date)
	return operator.Run(ctx)
}

func parseFlags() flags {
	var f flags
	o := &f.operator
	flag.StringVar(&o.MetricsAddress, "metrics-bind-address", ":8443", "Where metrics are served; 0 switches them off.")
	flag.BoolVar(&o.SecureMetrics, "metrics-secure", true, "Serve metrics over TLS to authenticated and authorised clients only.")
	flag.StringVar(&o.ProbeAddress, "health-probe-bind-address", ":8081", "Where /healthz and /readyz are served.")
	flag.StringVar(&o.WebhookCertificates, "webhook-certs", "self", "Where the webhook's certificate comes from: self (the operator makes it), external (OLM or cert-manager mounts it), none (no webhook).")
	flag.BoolVar(&o.LeaderElection, "leader-elect", false, "Take part in leader election, so that one of several replicas acts at a time.")
	flag.StringVar(&o.AWSRegion, "aws-region", "", "Region of the operator's own AWS calls (AssumeRole); empty takes it from the environment. A cluster's region is in its spec.")
	flag.StringVar(&o.AWSEndpoint, "aws-endpoint", "", "Endpoint of all AWS calls instead of AWS's own, for test stacks and private gateways.")
	flag.StringVar(&o.Namespace, "system-namespace", envOr("POD_NAMESPACE", v1alpha1.SystemNamespace), "Namespace of the operator, its lease and the administrator's policy.")
	flag.StringVar(&o.ClusterDomain, "cluster-domain", envOr("CLUSTER_DOMAIN", "cluster.local"), "DNS domain of Services.")
	flag.BoolVar(&o.ProbeThroughService, "probe-through-service", true, "Probe availability through the primary Service, as clients do. Switch off for an operator outside of Kubernetes: it then dials the primary's address.")
	flag.StringVar(&o.PodImage, "pod-image", os.Getenv("RELATED_IMAGE_OPERATOR"), "The operator's own image, for backup pods.")
	flag.StringVar(&o.ClientImage, "client-image", envOr("RELATED_IMAGE_MYSQL_CLIENT", pass.DefaultClientImage), "Image with MySQL's programs for backup pods where a spec names none; {version} stands for the cluster's version.")
	flag.IntVar(&o.Workers, "workers", 16, "How many clusters are reconciled side by side.")
	flag.BoolVar(&f.development, "development", false, "Log for people instead of machines.")
	flag.IntVar(&f.verbosity, "v", 0, "Verbosity of the log: 0 what happens, 1 what is planned, 2 and more for debugging.")
	flag.BoolVar(&f.showVersion, "version", false, "Print the version and exit.")
	flag.Parse()
	if flag.NArg() > 0 {
		// The flags behind it would not count: --leader-elect false switches leader election on, and nothing else.
		fmt.Fprintf(os.Stderr, "unknown argument %q: write flags as --name=value\n", flag.Arg(0))
		os.Exit(2)
	}
	return f
}

func envOr(name, fallback string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return fallback
}

// newLogger returns a structured logger: zap behind logr.
func newLogger(f flags) (logr.Logger, error) {
	config := zap.NewProductionConfig()
	config.EncoderConfig.EncodeTime = zapcore.ISO8601TimeEncoder
	config.Sampling = nil // a dropped line is the one that was needed
	if f.development {
		config = zap.NewDevelopmentConfig()
	}
	config.DisableStacktrace = f.verbosity < 2                       // those of the libraries say nothing to people who run this
	config.Level = zap.NewAtomicLevelAt(zapcore.Level(-f.verbosity)) //nolint:gosec // a small flag
	logger, err := config.Build()
	if err != nil {
		return logr.Discard(), fmt.Errorf("build the logger: %w", err)
	}
	return zapr.NewLogger(logger), nil
}
