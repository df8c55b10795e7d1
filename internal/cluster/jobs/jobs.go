// Package jobs says how the Jobs of backups and restores are, and ends them.
package jobs

import (
	"context"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// EndsInVain says whether a deleted Job waits for pods that do not end, as on a node that is cut off.
func EndsInVain(job *batchv1.Job, now time.Time) bool {
	return !job.DeletionTimestamp.IsZero() && now.Sub(job.DeletionTimestamp.Time) >= EndPatience
}

// Delete deletes a Job. In the background it is gone at once, also when it was deleted in the foreground before: a second
// deletion takes the finalizer off that waits for its pods.
func Delete(ctx context.Context, c client.Client, job *batchv1.Job, how metav1.DeletionPropagation) error {
	if !job.DeletionTimestamp.IsZero() && how == metav1.DeletePropagationForeground {
		return nil
	}
	err := c.Delete(ctx, job, client.PropagationPolicy(how), client.Preconditions{UID: &job.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Job %s: %w", job.Name, err)
	}
	return nil
}

// Ending is the condition with which a Job ended, nil while it goes on.
func Ending(job *batchv1.Job) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return c
		}
	}
	return nil
}

// Ended says how a Job ended, "" while it goes on.
func Ended(job *batchv1.Job) string {
	if c := Ending(job); c != nil {
		return strings.TrimSpace(string(c.Type) + " " + c.Reason + " " + c.Message)
	}
	return ""
}

// Succeeded says whether a Job ended well.
func Succeeded(job *batchv1.Job) bool {
	c := Ending(job)
	return c != nil && c.Type == batchv1.JobComplete
}

// NeverRan says whether no pod of a Job has run although there was time enough.
func NeverRan(job *batchv1.Job, now time.Time) bool {
	return job.DeletionTimestamp.IsZero() && Ended(job) == "" && job.Status.Failed == 0 &&
		(job.Status.Ready == nil || *job.Status.Ready == 0) && now.Sub(job.CreationTimestamp.Time) >= StartPatience
}

const (
	// StartPatience is how long the pod of a Job may take until it runs: pulling an image and waiting for a node take
	// minutes.
	StartPatience = 30 * time.Minute
	// EndPatience is how long the pods of a stalled backup may take to end before it is failed all the same: on a node that
	// is cut off they end when it comes back, and find then that they were given up.
	EndPatience = 10 * time.Minute
	// LeavePatience is how long a pod may go on once its MySQLBackup has an outcome: it deletes what its schedule no longer
	// keeps, and what is left of that is the next one's.
	LeavePatience = 30 * time.Minute
)

// OnlyFades says whether all that is left of a Job is a pod that is to end.
func OnlyFades(job *batchv1.Job) bool {
	return Ended(job) == "" && job.Status.Active == 0 && ptr.Deref(job.Status.Terminating, 0) > 0
}
