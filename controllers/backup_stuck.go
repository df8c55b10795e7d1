package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// startPatience is how long the pod of a Job may take until it runs: pulling an image and waiting for a node take
// minutes.
const startPatience = 30 * time.Minute

// endStuck deletes the Jobs of schedules whose pods never began: for an image that is not there, or no node with room.
// While such a Job is there its schedule starts no other, for days if need be; the next one sees a spec that may be mended.
func (r *MySQLClusterReconciler) endStuck(ctx context.Context, s *scope) error {
	var jobs batchv1.JobList
	if err := r.Client.List(ctx, &jobs, client.InNamespace(s.cluster.Namespace), client.MatchingLabels{v1alpha1.LabelCluster: s.cluster.Name}); err != nil {
		return fmt.Errorf("list the Jobs of schedules: %w", err)
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if !r.neverBegan(s, job) {
			continue
		}
		if err := deleteJob(ctx, r.Client, job, metav1.DeletePropagationBackground); err != nil {
			return err
		}
		r.Events.Eventf(s.cluster, nil, corev1.EventTypeWarning, "BackupNotStarted", actionAct,
			"The pod of Job %s did not run within %s; the Job was deleted, so that it does not hold up the next", job.Name, startPatience)
	}
	return nil
}

// neverBegan says whether a Job is that of a schedule whose pod should long have run and never did.
func (r *MySQLClusterReconciler) neverBegan(s *scope, job *batchv1.Job) bool {
	by := metav1.GetControllerOf(job)
	if by == nil || by.Kind != "CronJob" || s.schedules[by.Name].IsZero() || !neverRan(job, r.Clock.Now()) {
		return false
	}
	// A pod that began has made its MySQLBackup, and that is supervised. One that verifies makes none.
	return by.Name == resources.VerifyName(s.cluster.Name) || !slices.ContainsFunc(s.backups, func(b v1alpha1.MySQLBackup) bool { return b.Name == job.Name })
}
