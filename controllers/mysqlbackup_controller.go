package controllers

import (
	batchv1 "k8s.io/api/batch/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/handler"

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
	return ctrl.NewControllerManagedBy(mgr).
		Named("mysqlbackup").
		For(&v1alpha1.MySQLBackup{}).
		Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(backups.BackupOfJob)).
		WithOptions(options(r.Workers)).
		Complete(r)
}
