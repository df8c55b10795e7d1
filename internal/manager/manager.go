// Package manager puts the operator together: the manager with its caches, lease and servers, the planes, the prober
// and the reconciler. main.go gives it the flags; the benchmarks run the very same operator in other surroundings.
package manager

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/probe"

	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	ctrl "sigs.k8s.io/controller-runtime"

	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"

	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/controllers"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/announce"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/backups"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/metrics"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/leader"
	"github.com/alx-ke/nairobi-mysql-operator/internal/olm"
	"github.com/alx-ke/nairobi-mysql-operator/internal/scrape"
	"github.com/alx-ke/nairobi-mysql-operator/internal/settings"
	"github.com/alx-ke/nairobi-mysql-operator/internal/tarball"
	"github.com/alx-ke/nairobi-mysql-operator/internal/webhook"
)

// garbagePercent is by how much the heap may grow before garbage is collected, in percent, unless GOGC says something else. Most
// of the operator's heap are caches and connections, which stay, and little garbage is made: at Go's own 100 the process would
// take nearly twice the memory to save some hundredths of a core, of the quarter of one that a thousand clusters take.
const garbagePercent = 25

// serviceAccountVariable names the ServiceAccount that the operator's pod runs as.
const serviceAccountVariable = "POD_SERVICE_ACCOUNT"

// Operator is the operator, put together. Nothing runs before Run.
type Operator struct {
	manager ctrl.Manager
	pool    *conn.Pool
	prober  *probe.Prober
	wake    chan event.GenericEvent
}

// New puts the operator together for the API server of config. It makes no call to AWS or to a member.
func New(config *rest.Config, o Options) (*Operator, error) {
	around := o.Surroundings.filled(ctrlmetrics.Registry)
	// The rate limit of the client would hold up a thousand clusters, and the renewal of the lease behind the looks at it;
	// the API server's own fairness is the better judge.
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = -1, -1
	lock, err := leader.New(config, o.Namespace, cmp.Or(os.Getenv(serviceAccountVariable), leader.DefaultServiceAccount), o.LeaderElection, clock.RealClock{})
	if err != nil {
		return nil, err
	}
	mgr, err := newManager(config, o, lock)
	if err != nil {
		return nil, err
	}
	clouds := ec2.NewFactory(ec2.Options{Logger: o.Logger.WithName("ec2"), Config: awsapi.Config{
		Endpoint: o.AWSEndpoint, Region: o.AWSRegion, UserAgent: o.Build.userAgent(), CallTimeout: awsCallTimeout,
		Clock: clock.RealClock{}, Metrics: around.Registry, Middleware: around.AWS,
	}})
	events := announce.Recorder{EventRecorder: mgr.GetEventRecorder("nairobi-mysql-operator")}
	if err := reportLeadership(mgr, lock, events, o, around.Registry); err != nil {
		return nil, err
	}
	op := &Operator{manager: mgr, wake: make(chan event.GenericEvent, wakeLength)}
	op.pool = conn.NewPool(conn.Options{
		Lease: lock.Check, DialTimeout: sqlDialTimeout, StatementTimeout: sqlStatementTimeout, MaxAnswer: sqlMaxAnswer, Logger: o.Logger.WithName("mysql"),
		Dial: around.Dial, Hook: around.Statement,
		Owned: func(variable string) bool { _, owned := settings.Owned(variable); return owned },
	})
	images := imagesOf(o)
	reconciler := controllers.NewMySQLClusterReconciler(pass.Ports{
		Images: images,
		Client: around.Client(mgr.GetClient()), Reader: around.Reader(mgr.GetAPIReader()), Clouds: clouds, SQL: op.pool,
		Events: events, Clock: around.Clock,
		Config: pass.Config{
			SystemNamespace: o.Namespace, ClusterDomain: o.ClusterDomain, ProbeThroughService: o.ProbeThroughService, Workers: o.Workers, WriterID: lock.Identity(), Lease: lock.Check,
		},
		Wake: op.wake, Metrics: metrics.New(around.Registry), Tarballs: tarball.NewWatch(&http.Client{}, around.Clock),
	})
	op.prober = probe.NewProber(probe.ProberOptions{
		OnChange: func(uid string) { op.Wake(reconciler.NameOf(uid)) }, Pool: conn.Options{Dial: around.Dial},
	})
	reconciler.Prober = op.prober
	if err := reportToOLM(mgr, reconciler, o); err != nil {
		return nil, err
	}
	if err := reconciler.SetupWithManager(mgr); err != nil {
		return nil, fmt.Errorf("set up the controller: %w", err)
	}
	supervisor := &backups.Supervisor{
		Client: around.Client(mgr.GetClient()), Reader: around.Reader(mgr.GetAPIReader()), Clock: around.Clock,
		Events: events, Images: images, SystemNamespace: o.Namespace,
	}
	if err := (&controllers.MySQLBackupReconciler{Supervisor: supervisor, Workers: o.Workers}).SetupWithManager(mgr); err != nil {
		return nil, fmt.Errorf("set up the controller of backups: %w", err)
	}
	if err := mgr.Add(clouds); err != nil {
		return nil, fmt.Errorf("set up the sweeper: %w", err)
	}
	if err := setUpWebhookAndHealth(mgr, o); err != nil {
		return nil, err
	}
	return op, nil
}

// imagesOf returns which images the backup pods run, and how they reach the world.
func imagesOf(o Options) *pass.Images {
	return &pass.Images{Own: o.PodImage, Client: o.ClientImage, Proxy: proxy(os.Getenv, o.Logger)}
}

// Run runs the operator until ctx ends, and then lets go of the lease and of every connection. It can be called once.
func (op *Operator) Run(ctx context.Context) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	defer op.pool.Close()
	defer op.prober.Close()
	return op.manager.Start(ctx)
}

// Wake asks for a look at a cluster; no name, no look. When the channel is full a look is due anyway.
func (op *Operator) Wake(name types.NamespacedName) {
	if name.Name == "" {
		return
	}
	cluster := &v1alpha1.MySQLCluster{}
	cluster.Namespace, cluster.Name = name.Namespace, name.Name
	select {
	case op.wake <- event.GenericEvent{Object: cluster}:
	default:
	}
}

func newManager(config *rest.Config, o Options, lock *leader.Lock) (ctrl.Manager, error) {
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                              newScheme(),
		MapperProvider:                      newMapper,
		Metrics:                             metricsOptions(o),
		HealthProbeBindAddress:              o.ProbeAddress,
		LeaderElection:                      o.LeaderElection,
		LeaderElectionResourceLockInterface: lock.Interface(),
		LeaderElectionReleaseOnCancel:       true,
		LeaseDuration:                       ptr.To(leaseDuration),
		RenewDeadline:                       ptr.To(renewDeadline),
		RetryPeriod:                         ptr.To(retryPeriod),
		GracefulShutdownTimeout:             ptr.To(shutdownTimeout),
		Cache:                               cacheOptions(o.Namespace),
		WebhookServer:                       ctrlwebhook.NewServer(ctrlwebhook.Options{Port: 9443, CertDir: webhook.CertDir}),
		Controller:                          ctrlconfig.Controller{SkipNameValidation: ptr.To(o.Surroundings.Shared)},
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	return mgr, nil
}

// reportToOLM has OLM told what must not be interrupted, where there is an OLM.
func reportToOLM(mgr ctrl.Manager, reconciler *controllers.MySQLClusterReconciler, o Options) error {
	if o.OperatorCondition == "" {
		return nil
	}
	key := types.NamespacedName{Namespace: o.Namespace, Name: o.OperatorCondition}
	condition := olm.New(mgr.GetClient(), mgr.GetAPIReader(), key, clock.RealClock{}, o.Logger.WithName("olm"))
	reconciler.Upgradeable = condition
	if err := mgr.Add(condition); err != nil {
		return fmt.Errorf("set up the OperatorCondition: %w", err)
	}
	return nil
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(operatorsv2.AddToScheme(scheme))
	return scheme
}

func metricsOptions(o Options) metricsserver.Options {
	options := metricsserver.Options{BindAddress: o.MetricsAddress, SecureServing: o.SecureMetrics}
	if o.SecureMetrics {
		options.FilterProvider = scrape.Filter
	}
	return options
}
