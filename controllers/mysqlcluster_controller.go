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
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
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

// Config is what an administrator chose by flags.
type Config struct {
	// SystemNamespace is where the operator runs and where the tenancy policy is.
	SystemNamespace string
	// ClusterDomain is the DNS domain of Kubernetes Services, usually cluster.local.
	ClusterDomain string
	// ProbeThroughService lets the availability probe dial the primary Service, as clients do. Without it, for an
	// operator that runs outside of Kubernetes, the probe dials the primary's address.
	ProbeThroughService bool
	// Workers is how many clusters are reconciled side by side.
	Workers int
	// Hand names this process, unlike any other that ever led; empty when there can be no other.
	Hand string
	// Lease takes a fresh look at the leader's lease, and fails unless this process holds it. Nil: there is no election.
	Lease func(context.Context) error
}

// Clouds hands out the client of an AWS account and region.
type Clouds interface {
	Cloud(ctx context.Context, account ec2.Account) (*ec2.Cloud, error)
}

// MySQLClusterReconciler looks after MySQLClusters, pass by pass. Its parts know some of those before them, and none after them.
type MySQLClusterReconciler struct {
	*Ports
	announcer     *announcer
	objects       *objects
	recordKeeper  *recordKeeper
	identities    *identities
	publisher     *publisher
	access        *access
	cloudObserver *cloudObserver
	mysqlObserver *mysqlObserver
	restorer      *restorer
	executor      *executor
	decider       *decider
	backups       *backups
	reporter      *reporter
}

// NewMySQLClusterReconciler gives each part those that it asks.
func NewMySQLClusterReconciler(ports Ports) *MySQLClusterReconciler {
	ports.caches = newCaches()
	r := &MySQLClusterReconciler{Ports: &ports}
	r.announcer = &announcer{Ports: r.Ports}
	r.objects = &objects{Ports: r.Ports}
	r.recordKeeper = &recordKeeper{Ports: r.Ports, announcer: r.announcer, objects: r.objects}
	r.identities = &identities{Ports: r.Ports, objects: r.objects}
	r.publisher = &publisher{Ports: r.Ports, announcer: r.announcer, objects: r.objects, identities: r.identities}
	r.access = &access{Ports: r.Ports, publisher: r.publisher}
	r.cloudObserver = &cloudObserver{Ports: r.Ports}
	r.mysqlObserver = &mysqlObserver{Ports: r.Ports}
	archive := &archive{Ports: r.Ports, objects: r.objects}
	r.restorer = &restorer{Ports: r.Ports, objects: r.objects}
	r.executor = &executor{Ports: r.Ports, announcer: r.announcer, mysqlObserver: r.mysqlObserver, archive: archive, restorer: r.restorer}
	r.decider = &decider{Ports: r.Ports, executor: r.executor}
	snapshots := &snapshots{Ports: r.Ports}
	r.backups = &backups{Ports: r.Ports, objects: r.objects, identities: r.identities, mysqlObserver: r.mysqlObserver, archive: archive, restorer: r.restorer, snapshots: snapshots}
	r.reporter = &reporter{Ports: r.Ports, announcer: r.announcer, backups: r.backups}
	return r
}

// Watched are the kinds that the reconcilers watch, and read from caches.
func Watched() []client.Object {
	return []client.Object{
		&v1alpha1.MySQLCluster{}, &v1alpha1.MySQLBackup{}, &corev1.Service{}, &corev1.Secret{}, &corev1.ConfigMap{}, &discoveryv1.EndpointSlice{}, &batchv1.CronJob{}, &batchv1.Job{},
		&appsv1.StatefulSet{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
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
		Owns(&corev1.ConfigMap{}, builder.WithPredicates(othersWrites{caches: r.caches})).
		Owns(&discoveryv1.EndpointSlice{}).
		Owns(&batchv1.CronJob{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&batchv1.Job{}).
		Owns(&appsv1.StatefulSet{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.ServiceAccount{}, builder.WithPredicates(deletions)).
		Owns(&rbacv1.Role{}).
		Owns(&rbacv1.RoleBinding{}).
		Watches(&v1alpha1.MySQLBackup{}, handler.EnqueueRequestsFromMapFunc(clusterOfBackup), builder.WithPredicates(backupTurned{})).
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
			r.reporter.tellUnfinished(req, nil)
		}
		return ctrl.Result{}, err
	}
	result, err := r.reporter.conclude(ctx, s, r.pass(ctx, s))
	r.reporter.tellUnfinished(req, s)
	r.Metrics.reconciled(r.Clock.Since(started), err)
	return result, err
}

// pass is the straight line. A step that fails ends it; what was found out until then is published all the same.
func (r *MySQLClusterReconciler) pass(ctx context.Context, s *pass) error {
	for _, step := range []struct {
		name string
		run  func(context.Context, *pass) error
	}{
		{"claim the cluster", r.recordKeeper.claim},
		{"establish identities", r.identities.identify},
		{"check the tenancy policy", r.access.permit},
		{"connect to EC2", r.access.connect},
		{"observe EC2", r.cloudObserver.observeCloud},
		{"find what is restored from", r.restorer.findSource},
		{"observe mysqld", r.mysqlObserver.observeSQL},
		{"check before launching", r.decider.preflight},
		{"decide", r.decider.decide},
		{"remember", r.recordKeeper.remember},
		{"hold the credentials", r.identities.hold},
		{"show the primary", r.publisher.showPrimary},
		{"act", r.executor.act},
		{"publish", r.publisher.publish},
		{"back up", r.backups.backup},
		{"answer requests", r.announcer.answer},
		{"release", r.publisher.release},
	} {
		if s.done {
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

// clusterOfBackup names the cluster that a MySQLBackup is of.
func clusterOfBackup(_ context.Context, obj client.Object) []reconcile.Request {
	b, ok := obj.(*v1alpha1.MySQLBackup)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: b.Namespace, Name: b.Spec.ClusterName}}}
}

// finalizerChanged lets updates through that change finalizers or set the deletion timestamp: neither changes the
// generation of every kind of object.
type finalizerChanged struct{ predicate.Funcs }

// Update implements predicate.Predicate.
func (finalizerChanged) Update(e event.UpdateEvent) bool {
	return len(e.ObjectOld.GetFinalizers()) != len(e.ObjectNew.GetFinalizers()) ||
		e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
}

// statusEmptied lets an update through in which somebody took the status away.
type statusEmptied struct{ predicate.Funcs }

// Update implements predicate.Predicate.
func (statusEmptied) Update(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*v1alpha1.MySQLCluster)
	after, is := e.ObjectNew.(*v1alpha1.MySQLCluster)
	return ok && is && before.Status.Phase != "" && after.Status.Phase == ""
}

// backupTurned lets updates of MySQLBackups through that matter to the cluster. Progress, written every few seconds, does
// not.
type backupTurned struct{ predicate.Funcs }

// Update implements predicate.Predicate.
func (backupTurned) Update(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*v1alpha1.MySQLBackup)
	after, is := e.ObjectNew.(*v1alpha1.MySQLBackup)
	return !ok || !is || before.Status.Phase != after.Status.Phase || finalizerChanged{}.Update(e) ||
		!apiequality.Semantic.DeepEqual(before.Status.Verification, after.Status.Verification)
}

// keyOf is the key under which everything in memory is kept for a cluster.
func keyOf(uid types.UID) string { return string(uid) }
