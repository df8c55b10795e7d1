package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

const (
	// startPatience is how long the pod of a Job may take until it runs: pulling an image and waiting for a node take
	// minutes.
	startPatience = 30 * time.Minute
	// leavePatience is how long a pod may go on once its MySQLBackup has an outcome: it deletes what its schedule no longer
	// keeps, and what is left of that is the next one's.
	leavePatience = 30 * time.Minute
)

// endStuck deletes the Jobs of schedules of which nothing comes any more. While one is there its schedule starts no other, for
// days if need be; the next one sees a spec that may be mended.
func (r *backups) endStuck(ctx context.Context, s *pass) error {
	var jobs batchv1.JobList
	if err := r.Client.List(ctx, &jobs, client.InNamespace(s.cluster.Namespace), client.MatchingLabels{v1alpha1.LabelCluster: s.cluster.Name}); err != nil {
		return fmt.Errorf("list the Jobs of schedules: %w", err)
	}
	fading := map[types.UID]time.Time{}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		by := metav1.GetControllerOf(job)
		if by == nil || by.Kind != "CronJob" || s.backup.schedules[by.Name].IsZero() {
			continue
		}
		if since, fades := r.fades(s, job); fades {
			fading[job.UID] = since
		}
		reason, why := r.stuck(s, job, by.Name == resources.VerifyName(s.cluster.Name), fading[job.UID])
		if why == "" {
			continue
		}
		if err := deleteJob(ctx, r.Client, job, metav1.DeletePropagationBackground); err != nil {
			return err
		}
		r.Events.Eventf(s.cluster, nil, corev1.EventTypeWarning, reason, actionAct, "%s; the Job was deleted, so that it does not hold up the next", why)
	}
	s.cache.backups.fading = fading
	return nil
}

// fades says whether the last pod of a Job is to end and does not, as on a node that is cut off, and since when that was seen.
func (r *backups) fades(s *pass, job *batchv1.Job) (time.Time, bool) {
	if !onlyFades(job) {
		return time.Time{}, false
	}
	if since, known := s.cache.backups.fading[job.UID]; known {
		return since, true
	}
	return r.Clock.Now(), true
}

// onlyFades says whether all that is left of a Job is a pod that is to end.
func onlyFades(job *batchv1.Job) bool {
	return jobEnded(job) == "" && job.Status.Active == 0 && ptr.Deref(job.Status.Terminating, 0) > 0
}

// stuck says why nothing comes of a schedule's Job any more, with the reason of the event; "" while something may. A pod that
// began has made its MySQLBackup, and that is supervised until it has an outcome. One that verifies makes none, and reports.
func (r *backups) stuck(s *pass, job *batchv1.Job, verifies bool, fading time.Time) (reason, why string) {
	now := r.Clock.Now()
	i := slices.IndexFunc(s.backup.all, func(b v1alpha1.MySQLBackup) bool { return b.Name == job.Name })
	began := i >= 0
	if verifies {
		// Kubernetes may not see at the moment that it runs, because its node does not answer.
		began = s.backup.verification[task.ReportJob] == string(job.UID)
	}
	switch {
	case endsInVain(job, now):
		return "BackupJobStuck", fmt.Sprintf("The pods of Job %s, which was deleted, did not end within %s", job.Name, endPatience)
	case !job.DeletionTimestamp.IsZero() || jobEnded(job) != "":
	case neverRan(job, now) && !began:
		return "BackupNotStarted", fmt.Sprintf("The pod of Job %s did not run within %s", job.Name, startPatience)
	case verifies && !fading.IsZero() && now.Sub(fading) >= endPatience:
		return "BackupJobStuck", fmt.Sprintf("The last pod of Job %s was to end and did not within %s", job.Name, endPatience)
	case i >= 0 && s.backup.all[i].Done() && s.backup.all[i].Status.CompletedAt != nil && now.Sub(s.backup.all[i].Status.CompletedAt.Time) >= leavePatience:
		return "BackupJobStuck", fmt.Sprintf("The pod of Job %s did not end within %s after its backup", job.Name, leavePatience)
	}
	return "", ""
}
