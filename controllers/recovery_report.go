package controllers

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// reportedBy says whether a pod of a Job has reported: it ran, though Kubernetes may not see it at the moment, because its node
// does not answer. Another beside it would restore into the same server.
func reportedBy(s *pass, job *batchv1.Job) bool {
	return s.backup.recovery[task.ReportJob] == string(job.UID)
}

// forgetFailure empties the report of a restore that failed and whose Job is gone: it says nothing of the next attempt.
func (r *restorer) forgetFailure(ctx context.Context, s *pass) error {
	name := resources.NamesOf(s.cluster.Name).Recovery
	var report corev1.ConfigMap
	if err := client.IgnoreNotFound(r.Client.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: name}, &report)); err != nil {
		return fmt.Errorf("read ConfigMap %s: %w", name, err)
	}
	if !ownedBy(&report, s.cluster) || report.Data[task.ReportState] != restoreFailed {
		return nil // nor is one that is not there
	}
	before := report.DeepCopy()
	report.Data, s.backup.recovery = nil, map[string]string{}
	if err := r.Client.Patch(ctx, &report, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("empty the report of the attempt before: %w", err)
	}
	return nil
}

// lookAtRecovery reads what the restoring pod said, also when it is done: what it left out is told for as long as the cluster
// says that it was restored.
func (r *restorer) lookAtRecovery(ctx context.Context, s *pass) {
	if s.backup.recovery == nil && s.cluster.Recovery() != nil {
		s.backup.recovery = r.recoveryReport(ctx, s)
	}
}

// leftOut is what a restore could not bring back, for a condition.
func (s *pass) leftOut() string {
	if skipped := s.backup.recovery[task.ReportSkipped]; skipped != "" {
		return "; " + skipped
	}
	return ""
}
