package controllers

import (
	batchv1 "k8s.io/api/batch/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/backups"
)

// MySQLBackupReconciler looks after MySQLBackups.
type MySQLBackupReconciler struct {
	*backups.Supervisor
	// Workers is how many backups are looked at side by side.
	Workers int
}

// SetupWithManager registers the reconciler and its watches.
func (r *MySQLBackupReconciler) SetupWithManager(mgr ctrl.Manager) error {
	gone := predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: func(event.UpdateEvent) bool { return false }}
	return ctrl.NewControllerManagedBy(mgr).
		Named("mysqlbackup").
		For(&v1alpha1.MySQLBackup{}).
		Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(backups.BackupOfJob)).
		Watches(&v1alpha1.MySQLCluster{}, handler.EnqueueRequestsFromMapFunc(r.BackupsOf), builder.WithPredicates(gone)).
		WithOptions(options(r.Workers)).
		Complete(r)
}
