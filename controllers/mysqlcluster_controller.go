// Package controllers joins the planes: it reads what is wanted and what is there, lets internal/topology decide, acts
// on EC2 and on mysqld, and publishes the outcome in Kubernetes. One reconcile is a straight line; no step reaches back.
package controllers

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/access"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/announce"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/backups"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/decide"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/execute"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/identity"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/monitoring"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/objects"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/observe"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/podlogin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/publish"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/records"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/release"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/restore"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/status"
)

const (
	// controllerName appears in metrics, logs and events.
	controllerName = "mysqlcluster"
	// passTimeout bounds one reconcile. It is longer than the longest action (waiting for a replica to apply what it
	// holds) and short enough that a hung pass does not hold a worker for long.
	passTimeout = 90 * time.Second
	// firstRetry and longestRetry are how long after a pass that failed the next one follows; each further failure doubles it.
	// controller-runtime's own 1000 s would leave a cluster alone for a quarter of an hour after the trouble is over.
	firstRetry   = 5 * time.Millisecond
	longestRetry = time.Minute
)

// options are how a controller works.
func options(workers int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: max(workers, 1), ReconciliationTimeout: passTimeout,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, longestRetry),
	}
}

// MySQLClusterReconciler looks after MySQLClusters, pass by pass. Its parts know some of those before them, and none after them.
type MySQLClusterReconciler struct {
	*pass.Ports
	objects       *objects.Objects
	recordKeeper  *records.Keeper
	identities    *identity.Identities
	releaser      *release.Releaser
	access        *access.Access
	cloudObserver *observe.Cloud
	mysqlObserver *observe.Database
	restorer      *restore.Restorer
	executor      *execute.Executor
	decider       *decide.Decider
	backups       *backups.Backups
	monitoring    *monitoring.Monitoring
	publisher     *publish.Publisher
	reporter      *status.Reporter
}

// NewMySQLClusterReconciler gives each part those that it asks.
func NewMySQLClusterReconciler(ports pass.Ports) *MySQLClusterReconciler {
	ports.Caches = pass.NewCaches()
	r := &MySQLClusterReconciler{Ports: &ports}
	announcer := &announce.Announcer{Ports: r.Ports}
	r.objects = &objects.Objects{Ports: r.Ports}
	r.recordKeeper = &records.Keeper{Ports: r.Ports, Announcer: announcer, Objects: r.objects}
	r.identities = &identity.Identities{Ports: r.Ports, Objects: r.objects}
	r.releaser = &release.Releaser{Ports: r.Ports, Announcer: announcer, Objects: r.objects}
	r.access = &access.Access{Ports: r.Ports, Releaser: r.releaser}
	r.cloudObserver = &observe.Cloud{Ports: r.Ports}
	r.mysqlObserver = &observe.Database{Ports: r.Ports}
	archive := &backups.Archive{Ports: r.Ports, Objects: r.objects}
	r.restorer = &restore.Restorer{Ports: r.Ports, Objects: r.objects}
	r.executor = &execute.Executor{Ports: r.Ports, Announcer: announcer, Database: r.mysqlObserver, Archive: archive, Restorer: r.restorer}
	r.decider = decide.New(r.Ports, r.executor)
	snapshots := &backups.Snapshots{Ports: r.Ports}
	logins := &podlogin.Logins{Ports: r.Ports, Objects: r.objects, Database: r.mysqlObserver}
	r.backups = &backups.Backups{Ports: r.Ports, Objects: r.objects, Logins: logins, Archive: archive, Restorer: r.restorer, Snapshots: snapshots}
	r.monitoring = &monitoring.Monitoring{Ports: r.Ports, Objects: r.objects, Logins: logins, Optional: &monitoring.Optional{Ports: r.Ports, Objects: r.objects}}
	r.publisher = &publish.Publisher{Ports: r.Ports, Objects: r.objects}
	r.reporter = &status.Reporter{Ports: r.Ports, Announcer: announcer, Backups: r.backups}
	return r
}

// Watched are the kinds that the reconcilers watch, and read from caches.
func Watched() []client.Object {
	return []client.Object{
		&v1alpha1.MySQLCluster{}, &v1alpha1.MySQLBackup{}, &corev1.Service{}, &corev1.Secret{}, &corev1.ConfigMap{}, &discoveryv1.EndpointSlice{}, &batchv1.CronJob{}, &batchv1.Job{},
		&appsv1.StatefulSet{}, &appsv1.Deployment{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
	}
}

// SetupWithManager registers the reconciler and its watches.
func (r *MySQLClusterReconciler) SetupWithManager(mgr ctrl.Manager) error {
	deletions := predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }}
	return ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(&v1alpha1.MySQLCluster{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, finalizerChanged{}, statusEmptied{}))).
		Owns(&corev1.Service{}).
		Owns(&corev1.Secret{}).
		Owns(&corev1.ConfigMap{}, builder.WithPredicates(records.OthersWrites{Caches: r.Caches})).
		Owns(&discoveryv1.EndpointSlice{}).
		Owns(&batchv1.CronJob{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&batchv1.Job{}).
		Owns(&appsv1.StatefulSet{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&appsv1.Deployment{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.ServiceAccount{}, builder.WithPredicates(deletions)).
		Owns(&rbacv1.Role{}).
		Owns(&rbacv1.RoleBinding{}).
		Watches(&v1alpha1.MySQLBackup{}, handler.EnqueueRequestsFromMapFunc(backups.ClusterOfBackup), builder.WithPredicates(backupTurned{})).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.affectedByPolicy)).
		WatchesRawSource(source.Channel(r.Wake, &handler.EnqueueRequestForObject{})).
		WithOptions(options(r.Config.Workers)).
		Complete(r)
}

// Reconcile does one pass over one cluster: observe, plan, act, publish.
func (r *MySQLClusterReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	started := r.Clock.Now()
	s, err := r.open(ctx, req)
	if s == nil {
		if err == nil {
			r.reporter.ReportUnfinished(req, nil)
		}
		return ctrl.Result{}, err
	}
	failed := r.pass(ctx, s)
	r.publisher.FollowClients(ctx, s)
	result, err := r.reporter.Conclude(ctx, s, failed)
	r.reporter.ReportUnfinished(req, s)
	r.Metrics.Reconciled(r.Clock.Since(started), err)
	return result, err
}

// pass is the straight line. A step that fails ends it; what was found out until then is published all the same.
func (r *MySQLClusterReconciler) pass(ctx context.Context, s *pass.Pass) error {
	for _, step := range []struct {
		name string
		run  func(context.Context, *pass.Pass) error
	}{
		{"claim the cluster", r.recordKeeper.Claim},
		{"establish identities", r.identities.Identify},
		{"check the tenancy policy", r.access.Permit},
		{"connect to EC2", r.access.Connect},
		{"observe EC2", r.cloudObserver.Observe},
		{"find what is restored from", r.restorer.FindSource},
		{"observe mysqld", r.mysqlObserver.Observe},
		{"check before launching", r.decider.Preflight},
		{"decide", r.decider.Decide},
		{"remember", r.recordKeeper.Remember},
		{"hold the credentials", r.releaser.Hold},
		{"show the primary", r.publisher.ShowPrimary},
		{"act", r.executor.Act},
		{"publish", r.publisher.Publish},
		{"back up", r.backups.Ensure},
		{"monitor", r.monitoring.Ensure},
		{"answer requests", r.reporter.Answer},
		{"release", r.releaser.Release},
	} {
		if s.Done {
			return nil
		}
		if err := step.run(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// affectedByPolicy returns every cluster when the administrator's policy changed.
func (r *MySQLClusterReconciler) affectedByPolicy(ctx context.Context, obj client.Object) []reconcile.Request {
	if obj.GetNamespace() != r.Config.SystemNamespace || obj.GetName() != v1alpha1.PolicyConfigMap {
		return nil
	}
	var list v1alpha1.MySQLClusterList
	if err := r.Client.List(ctx, &list); err != nil {
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// finalizerChanged lets updates through that change finalizers or set the deletion timestamp: neither changes the
// generation of every kind of object.
type finalizerChanged struct{ predicate.Funcs }

func (finalizerChanged) Update(e event.UpdateEvent) bool {
	return len(e.ObjectOld.GetFinalizers()) != len(e.ObjectNew.GetFinalizers()) ||
		e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
}

// statusEmptied lets an update through in which somebody took the status away.
type statusEmptied struct{ predicate.Funcs }

func (statusEmptied) Update(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*v1alpha1.MySQLCluster)
	after, is := e.ObjectNew.(*v1alpha1.MySQLCluster)
	return ok && is && before.Status.Phase != "" && after.Status.Phase == ""
}

// backupTurned lets updates of MySQLBackups through that matter to the cluster. Progress, written every few seconds, does
// not.
type backupTurned struct{ predicate.Funcs }

func (backupTurned) Update(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*v1alpha1.MySQLBackup)
	after, is := e.ObjectNew.(*v1alpha1.MySQLBackup)
	return !ok || !is || before.Status.Phase != after.Status.Phase || finalizerChanged{}.Update(e) ||
		!apiequality.Semantic.DeepEqual(before.Status.Verification, after.Status.Verification)
}

// open reads the cluster and begins a pass, or returns nil when there is nothing to do.
func (r *MySQLClusterReconciler) open(ctx context.Context, req ctrl.Request) (*pass.Pass, error) {
	var cluster v1alpha1.MySQLCluster
	if err := r.Client.Get(ctx, req.NamespacedName, &cluster); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName)
			return nil, r.objects.ReleaseLeftovers(ctx, req.NamespacedName)
		}
		return nil, fmt.Errorf("get cluster: %w", err)
	}
	s := &pass.Pass{
		Cluster: &cluster,
		Log:     ctrl.LoggerFrom(ctx),
		Cache:   r.Caches.Of(req.NamespacedName, pass.KeyOf(cluster.UID)),
	}
	r.recordKeeper.Open(s)
	return s, nil
}

// forget drops what is remembered of a cluster that no longer exists.
func (r *MySQLClusterReconciler) forget(name types.NamespacedName) {
	if uid := r.Caches.Drop(name); uid != "" {
		r.Prober.Forget(uid)
		r.Metrics.Forget(name)
	}
}

// NameOf returns the name of the cluster with a UID, or nothing when it is not known.
func (r *MySQLClusterReconciler) NameOf(uid string) types.NamespacedName {
	return r.Caches.NameOf(uid)
}
