package backups

import (
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/announce"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/jobs"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// endStuck deletes the Jobs of schedules of which nothing comes any more. While one is there its schedule starts no other, for
// days if need be; the next one sees a spec that may be mended.
func (r *Backups) endStuck(ctx context.Context, s *pass.Pass) error {
	var list batchv1.JobList
	if err := r.Client.List(ctx, &list, client.InNamespace(s.Cluster.Namespace), client.MatchingLabels{v1alpha1.LabelCluster: s.Cluster.Name}); err != nil {
		return fmt.Errorf("list the Jobs of schedules: %w", err)
	}
	fading := map[types.UID]time.Time{}
	for i := range list.Items {
		job := &list.Items[i]
		by := metav1.GetControllerOf(job)
		if by == nil || by.Kind != "CronJob" || s.Backup.Schedules[by.Name].IsZero() {
			continue
		}
		if since, fades := r.fades(s, job); fades {
			fading[job.UID] = since
		}
		reason, why := r.stuck(s, job, by.Name == resources.VerifyName(s.Cluster.Name), fading[job.UID])
		if why == "" {
			continue
		}
		if err := jobs.Delete(ctx, r.Client, job, metav1.DeletePropagationBackground); err != nil {
			return err
		}
		r.Events.Eventf(s.Cluster, nil, corev1.EventTypeWarning, reason, announce.Act, "%s; the Job was deleted, so that it does not hold up the next", why)
	}
	s.Cache.Backups.Fading = fading
	return nil
}

// fades says whether the last pod of a Job is to end and does not, as on a node that is cut off, and since when that was seen.
func (r *Backups) fades(s *pass.Pass, job *batchv1.Job) (time.Time, bool) {
	if !jobs.OnlyFades(job) {
		return time.Time{}, false
	}
	if since, known := s.Cache.Backups.Fading[job.UID]; known {
		return since, true
	}
	return r.Clock.Now(), true
}

// stuck says why nothing comes of a schedule's Job any more, with the reason of the event; "" while something may. A pod that
// began has made its MySQLBackup, and that is supervised until it has an outcome. One that verifies makes none, and reports.
func (r *Backups) stuck(s *pass.Pass, job *batchv1.Job, verifies bool, fading time.Time) (reason, why string) {
	now := r.Clock.Now()
	i := slices.IndexFunc(s.Backup.All, func(b v1alpha1.MySQLBackup) bool { return b.Name == job.Name })
	began := i >= 0
	if verifies {
		// Kubernetes may not see at the moment that it runs, because its node does not answer.
		began = s.Backup.Verification[task.ReportJob] == string(job.UID)
	}
	switch {
	case jobs.EndsInVain(job, now):
		return v1alpha1.EventBackupJobStuck, fmt.Sprintf("The pods of Job %s, which was deleted, did not end within %s", job.Name, jobs.EndPatience)
	case !job.DeletionTimestamp.IsZero() || jobs.Ended(job) != "":
	case jobs.NeverRan(job, now) && !began:
		return v1alpha1.EventBackupNotStarted, jobs.NotStarted(job.Name)
	case verifies && !fading.IsZero() && now.Sub(fading) >= jobs.EndPatience:
		return v1alpha1.EventBackupJobStuck, fmt.Sprintf("The last pod of Job %s was to end and did not within %s", job.Name, jobs.EndPatience)
	case i >= 0 && s.Backup.All[i].Done() && s.Backup.All[i].Status.CompletedAt != nil && now.Sub(s.Backup.All[i].Status.CompletedAt.Time) >= jobs.LeavePatience:
		return v1alpha1.EventBackupJobStuck, fmt.Sprintf("The pod of Job %s did not end within %s after its backup", job.Name, jobs.LeavePatience)
	}
	return "", ""
}
