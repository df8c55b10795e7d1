package controllers

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
)

// reportedBy says whether a pod of a Job has reported: it ran, though Kubernetes may not see it at the moment, because its node
// does not answer. Another beside it would restore into the same server.
func (s *scope) reportedBy(job *batchv1.Job) bool {
	return s.recovery[task.ReportJob] == string(job.UID)
}

// lookAtRecovery reads what the restoring pod said, also when it is done: what it left out is told for as long as the cluster
// says that it was restored.
func (r *MySQLClusterReconciler) lookAtRecovery(ctx context.Context, s *scope) {
	if s.recovery == nil && s.cluster.Recovery() != nil {
		s.recovery = r.recoveryReport(ctx, s)
	}
}

// leftOut is what a restore could not bring back, for a condition.
func (s *scope) leftOut() string {
	if skipped := s.recovery[task.ReportSkipped]; skipped != "" {
		return "; " + skipped
	}
	return ""
}
