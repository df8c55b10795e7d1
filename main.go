// Command manager is the Nairobi MySQL Operator: it keeps MySQLClusters on EC2 as their specs want them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/controllers"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/leader"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/webhook"
)

// Set by the linker; see the Makefile.
var (
	version = "dev"
	commit  = "unknown"
	date    = "unknown"
)

const (
	// Timings of the lease. A write to AWS may take awsCallTimeout, less than the time between the moment at which a
	// leader that cannot renew gives up and the one at which another may take over.
	leaseDuration  = 15 * time.Second
	renewDeadline  = 10 * time.Second
	retryPeriod    = 1 * time.Second // a follower waits up to 2.2 of it: client-go adds jitter
	awsCallTimeout = 4 * time.Second

	sqlDialTimeout      = 2 * time.Second
	sqlStatementTimeout = 5 * time.Second
	shutdownTimeout     = 10 * time.Second
)

// options are the flags.
type options struct {
	metricsAddress, probeAddress, webhookCerts string
	secureMetrics, leaderElect, development    bool
	awsRegion, awsEndpoint                     string
	namespace, clusterDomain                   string
	probeThroughService, showVersion           bool
	workers                                    int
	verbosity                                  int
}

func main() {
	o := parseFlags()
	if o.showVersion {
		fmt.Printf("nairobi-mysql-operator %s (commit %s, built %s)\n", version, commit, date)
		return
	}
	log, err := newLogger(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "set up logging:", err)
		os.Exit(1)
	}
	ctrl.SetLogger(log)
	if err := run(ctrl.SetupSignalHandler(), o, log); err != nil {
		log.Error(err, "the operator stops")
		os.Exit(1)
	}
}

func parseFlags() options {
	var o options
	flag.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443", "Where metrics are served; 0 switches them off.")
	flag.BoolVar(&o.secureMetrics, "metrics-secure", true, "Serve metrics over TLS to authenticated and authorised clients only.")
	flag.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "Where /healthz and /readyz are served.")
	flag.StringVar(&o.webhookCerts, "webhook-certs", "self", "Where the webhook's certificate comes from: self (the operator makes it), external (OLM or cert-manager mounts it), none (no webhook).")
	flag.BoolVar(&o.leaderElect, "leader-elect", false, "Take part in leader election, so that one of several replicas acts at a time.")
	flag.StringVar(&o.awsRegion, "aws-region", "", "Region of the operator's own AWS calls (AssumeRole); empty takes it from the environment. A cluster's region is in its spec.")
	flag.StringVar(&o.awsEndpoint, "aws-endpoint", "", "Endpoint of all AWS calls instead of AWS's own, for test stacks and private gateways.")
	flag.StringVar(&o.namespace, "system-namespace", envOr("POD_NAMESPACE", v1alpha1.SystemNamespace), "Namespace of the operator, its lease and the administrator's policy.")
	flag.StringVar(&o.clusterDomain, "cluster-domain", "cluster.local", "DNS domain of Services.")
	flag.BoolVar(&o.probeThroughService, "probe-through-service", true, "Probe availability through the primary Service, as clients do. Switch off for an operator outside of Kubernetes: it then dials the primary's address.")
	flag.IntVar(&o.workers, "workers", 16, "How many clusters are reconciled side by side.")
	flag.BoolVar(&o.development, "development", false, "Log for people instead of machines.")
	flag.IntVar(&o.verbosity, "v", 0, "Verbosity of the log: 0 what happens, 1 what is planned, 2 and more for debugging.")
	flag.BoolVar(&o.showVersion, "version", false, "Print the version and exit.")
	flag.Parse()
	return o
}

func envOr(name, fallback string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return fallback
}

// newLogger returns a structured logger: zap behind logr.
func newLogger(o options) (logr.Logger, error) {
	config := zap.NewProductionConfig()
	config.EncoderConfig.EncodeTime = zapcore.ISO8601TimeEncoder
	config.Sampling = nil // a dropped line is the one that was needed
	if o.development {
		config = zap.NewDevelopmentConfig()
	}
	config.Level = zap.NewAtomicLevelAt(zapcore.Level(-o.verbosity)) //nolint:gosec // a small flag
	logger, err := config.Build()
	if err != nil {
		return logr.Discard(), fmt.Errorf("build the logger: %w", err)
	}
	return zapr.NewLogger(logger), nil
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}

// run wires the operator together and runs it until ctx ends.
func run(ctx context.Context, o options, log logr.Logger) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the API server: %w", err)
	}
	lock, err := leader.New(config, o.namespace, o.leaderElect, clock.RealClock{})
	if err != nil {
		return err
	}
	mgr, err := newManager(config, o, lock)
	if err != nil {
		return err
	}
	clouds := ec2.NewFactory(ec2.Options{
		Endpoint: o.awsEndpoint, UserAgent: "nairobi-mysql-operator/" + version, CallTimeout: awsCallTimeout,
		Clock: clock.RealClock{}, Logger: log.WithName("ec2"), Metrics: metrics.Registry, Region: o.awsRegion,
	})
	pool := mysql.NewPool(mysql.Options{
		Lease: lock.Check, DialTimeout: sqlDialTimeout, StatementTimeout: sqlStatementTimeout, Logger: log.WithName("mysql"),
	})
	defer pool.Close()
	wake := make(chan event.GenericEvent, 1024)
	reconciler := &controllers.MySQLClusterReconciler{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Clouds: clouds, SQL: pool,
		Events: mgr.GetEventRecorder("nairobi-mysql-operator"), Clock: clock.RealClock{},
		Config: controllers.Config{
			SystemNamespace: o.namespace, ClusterDomain: o.clusterDomain, ProbeThroughService: o.probeThroughService, Workers: o.workers,
		},
		Wake: wake, Metrics: controllers.NewMetrics(metrics.Registry),
	}
	reconciler.Prober = mysql.NewProber(mysql.ProberOptions{OnChange: func(uid string) { wakeUp(wake, reconciler.NameOf(uid)) }})
	defer reconciler.Prober.Close()
	if err := reconciler.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the controller: %w", err)
	}
	if err := mgr.Add(clouds); err != nil {
		return fmt.Errorf("set up the sweeper: %w", err)
	}
	if err := setUpWebhookAndHealth(mgr, o); err != nil {
		return err
	}
	log.Info("starting", "version", version, "commit", commit, "built", date)
	return mgr.Start(ctx)
}

// wakeUp asks for a look at a cluster. When the channel is full a look is due anyway.
func wakeUp(wake chan<- event.GenericEvent, name types.NamespacedName) {
	if name.Name == "" {
		return
	}
	cluster := &v1alpha1.MySQLCluster{}
	cluster.Namespace, cluster.Name = name.Namespace, name.Name
	select {
	case wake <- event.GenericEvent{Object: cluster}:
	default:
	}
}

func newManager(config *rest.Config, o options, lock *leader.Lock) (ctrl.Manager, error) {
	// The rate limit of the client would hold up a thousand clusters; the API server's own fairness is the better judge.
	config.QPS, config.Burst = -1, -1
	lease, renew, retry, shutdown := leaseDuration, renewDeadline, retryPeriod, shutdownTimeout
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                              newScheme(),
		Metrics:                             metricsOptions(o),
		HealthProbeBindAddress:              o.probeAddress,
		LeaderElection:                      o.leaderElect,
		LeaderElectionResourceLockInterface: lock.Interface(),
		LeaderElectionReleaseOnCancel:       true,
		LeaseDuration:                       &lease,
		RenewDeadline:                       &renew,
		RetryPeriod:                         &retry,
		GracefulShutdownTimeout:             &shutdown,
		Cache:                               cacheOptions(o.namespace),
		WebhookServer:                       ctrlwebhook.NewServer(ctrlwebhook.Options{Port: 9443, CertDir: webhook.CertDir}),
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	return mgr, nil
}

func metricsOptions(o options) metricsserver.Options {
	options := metricsserver.Options{BindAddress: o.metricsAddress, SecureServing: o.secureMetrics}
	if o.secureMetrics {
		options.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return options
}

// cacheOptions keeps only the operator's own objects in memory, and the administrator's policy. Users' Secrets are
// never listed.
func cacheOptions(namespace string) cache.Options {
	own := labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.FieldManager})
	return cache.Options{
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}:             {Label: own},
			&corev1.Service{}:            {Label: own},
			&discoveryv1.EndpointSlice{}: {Label: own},
			&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{
				cache.AllNamespaces: {LabelSelector: own},
				namespace:           {FieldSelector: fields.OneTermEqualSelector("metadata.name", v1alpha1.PolicyConfigMap)},
			}},
		},
	}
}

func setUpWebhookAndHealth(mgr ctrl.Manager, o options) error {
	ready, err := webhook.SetUp(mgr, webhook.Options{Certificates: o.webhookCerts, Namespace: o.namespace})
	if err != nil {
		return fmt.Errorf("set up the webhook: %w", err)
	}
	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return fmt.Errorf("set up /healthz: %w", err)
	}
	if err := mgr.AddReadyzCheck("webhook", ready); err != nil {
		return fmt.Errorf("set up /readyz: %w", err)
	}
	synced := &cachesSynced{}
	if err := mgr.Add(synced); err != nil {
		return fmt.Errorf("set up /readyz: %w", err)
	}
	return mgr.AddReadyzCheck("caches", synced.check)
}

// cachesSynced knows when the manager's caches are filled: only then the manager starts what is neither a cache nor a
// webhook.
type cachesSynced struct{ started atomic.Bool }

// Start implements manager.Runnable.
func (c *cachesSynced) Start(context.Context) error {
	c.started.Store(true)
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: a follower is ready too.
func (c *cachesSynced) NeedLeaderElection() bool { return false }

func (c *cachesSynced) check(*http.Request) error {
	if !c.started.Load() {
		return errors.New("the caches are not filled yet")
	}
	return nil
}
