package bench

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/controllers"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/leader"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// As in main.go, which keeps these to itself.
const (
	leaseDuration       = 15 * time.Second
	renewDeadline       = 10 * time.Second
	retryPeriod         = 2 * time.Second
	awsCallTimeout      = 4 * time.Second
	sqlDialTimeout      = 2 * time.Second
	sqlStatementTimeout = 5 * time.Second
	shutdownTimeout     = 10 * time.Second
	workers             = 16
	wakeLength          = 1024
)

// operator is one process of the operator, wired as main.go wires it, but for the webhook, and with meters and stubs in
// the places that take them.
type operator struct {
	meter *meter
	wake  chan event.GenericEvent
	// elected is closed when it becomes the leader.
	elected <-chan struct{}
	synced  func(context.Context) bool

	cancel context.CancelFunc
	ended  chan error
}

// start runs an operator. stop ends it.
func (w *world) start(ctx context.Context, elect bool) (*operator, error) {
	o := &operator{meter: newMeter(), wake: make(chan event.GenericEvent, wakeLength), ended: make(chan error, 1)}
	config := rest.CopyConfig(w.kube)
	config.Wrap(o.meter.kubernetes)
	lock, err := leader.New(config, v1alpha1.SystemNamespace, elect, clock.RealClock{})
	if err != nil {
		return nil, err
	}
	mgr, err := newManager(config, elect, lock)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	clouds := ec2.NewFactory(ec2.Options{
		CallTimeout: awsCallTimeout, Metrics: registry,
		Middleware: func(http.RoundTripper) http.RoundTripper { return o.meter.aws(w.cloud) },
	})
	pool := mysql.NewPool(mysql.Options{
		Lease: lock.Check, DialTimeout: sqlDialTimeout, StatementTimeout: sqlStatementTimeout, Dial: w.fleet.dial, Hook: o.meter.changed,
	})
	reconciler := &controllers.MySQLClusterReconciler{
		Client: &countingClient{mgr.GetClient(), o.meter}, Reader: &countingReader{mgr.GetAPIReader(), o.meter},
		Clouds: clouds, SQL: pool, Events: mgr.GetEventRecorder("nairobi-mysql-operator"), Clock: &stopwatch{meter: o.meter},
		Config: controllers.Config{
			SystemNamespace: v1alpha1.SystemNamespace, ClusterDomain: clusterDomain, ProbeThroughService: true, Workers: workers,
		},
		Wake: o.wake, Metrics: controllers.NewMetrics(registry),
	}
	reconciler.Prober = mysql.NewProber(mysql.ProberOptions{
		OnChange: func(uid string) {
			if name := reconciler.NameOf(uid); name.Name != "" {
				o.force(name.Namespace, name.Name)
			}
		},
		Pool: mysql.Options{Dial: w.fleet.dial},
	})
	if err := reconciler.SetupWithManager(mgr); err != nil {
		return nil, fmt.Errorf("set up the controller: %w", err)
	}
	if err := mgr.Add(clouds); err != nil {
		return nil, fmt.Errorf("set up the sweeper: %w", err)
	}
	o.elected, o.synced = mgr.Elected(), mgr.GetCache().WaitForCacheSync
	ctx, o.cancel = context.WithCancel(ctx)
	go func() {
		err := mgr.Start(ctx)
		reconciler.Prober.Close()
		pool.Close()
		o.ended <- err
	}()
	return o, nil
}

// stop ends the operator as a signal does, and waits for it.
func (o *operator) stop() error {
	o.cancel()
	return <-o.ended
}

// force asks for a reconcile, as the prober does. When the channel is full a look is due anyway.
func (o *operator) force(namespace, name string) {
	cluster := &v1alpha1.MySQLCluster{}
	cluster.Namespace, cluster.Name = namespace, name
	select {
	case o.wake <- event.GenericEvent{Object: cluster}:
	default:
	}
}

func newManager(config *rest.Config, elect bool, lock *leader.Lock) (ctrl.Manager, error) {
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                              scheme(),
		Logger:                              logr.Discard(),
		Metrics:                             metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:              "0",
		LeaderElection:                      elect,
		LeaderElectionResourceLockInterface: lock.Interface(),
		LeaderElectionReleaseOnCancel:       true,
		LeaseDuration:                       ptr.To(leaseDuration),
		RenewDeadline:                       ptr.To(renewDeadline),
		RetryPeriod:                         ptr.To(retryPeriod),
		GracefulShutdownTimeout:             ptr.To(shutdownTimeout),
		Cache:                               cacheOptions(),
		// Two operators in one process have controllers of the same name.
		Controller: ctrlconfig.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	return mgr, nil
}

// cacheOptions are those of main.go.
func cacheOptions() cache.Options {
	own := labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.FieldManager})
	return cache.Options{
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}:             {Label: own},
			&corev1.Service{}:            {Label: own},
			&discoveryv1.EndpointSlice{}: {Label: own},
			&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{
				cache.AllNamespaces:      {LabelSelector: own},
				v1alpha1.SystemNamespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", v1alpha1.PolicyConfigMap)},
			}},
		},
	}
}
