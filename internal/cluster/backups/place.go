package backups

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/mark"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// recordPlace writes on a backup where the operator had its data written, for restores after the cluster is gone.
func (r *Supervisor) recordPlace(ctx context.Context, b *v1alpha1.MySQLBackup) error {
	if !b.DeletionTimestamp.IsZero() {
		return nil
	}
	marker := mark.Marker{Client: r.Client, Reader: r.Reader, Namespace: r.SystemNamespace}
	place, err := r.placeInJob(ctx, b)
	if err != nil {
		return err
	}
	if place == nil {
		if recorded, err := marker.PlaceOf(ctx, b); recorded != nil || err != nil {
			return err
		}
		cluster, err := r.cluster(ctx, b)
		if err != nil || cluster == nil {
			return err
		}
		place = placeInSpec(cluster, b)
	}
	if place == nil {
		return nil
	}
	return marker.SetPlace(ctx, b, *place)
}

// placeInJob is where the Job of a dump writes it; nil when the cache shows none. No backup pod may write a Job.
func (r *Supervisor) placeInJob(ctx context.Context, b *v1alpha1.MySQLBackup) (*v1alpha1.ObjectStoreSource, error) {
	if b.Spec.Method == v1alpha1.BackupMethodSnapshot {
		return nil, nil
	}
	var job batchv1.Job
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: RunnerOf(b)}, &job)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Job %s: %w", RunnerOf(b), err)
	}
	t := resources.TaskOf(&job)
	if !belongs(&job, b) || t.Destination == nil || t.Namespace != b.Namespace || t.Cluster != b.Spec.ClusterName {
		return nil, nil
	}
	return &v1alpha1.ObjectStoreSource{Destination: *t.Destination, Path: backup.RootOf(t.Namespace, t.Cluster, t.ClusterUID)}, nil
}

// placeInSpec is where the cluster has backups written at present, when the status says that this one is there; nil otherwise. It is for
// backups whose Job is gone, as those of operators that recorded no place, and for snapshots, which have no Job.
func placeInSpec(cluster *v1alpha1.MySQLCluster, b *v1alpha1.MySQLBackup) *v1alpha1.ObjectStoreSource {
	t, root := backupTask(cluster), backup.RootOf(cluster.Namespace, cluster.Name, string(cluster.UID))
	var there bool
	if b.Spec.Method == v1alpha1.BackupMethodSnapshot {
		archive := b.Status.Archive
		there = archive != nil && cluster.Archives() && archive.Path == root && t.Destination.SamePlace(&archive.Destination)
	} else {
		_, there = backup.Place{Root: root}.FolderAt(b.Status.Path, b.Name)
		there = there && t.Destination.SamePlace(b.Status.Destination)
	}
	if !there {
		return nil
	}
	return &v1alpha1.ObjectStoreSource{Destination: *t.Destination, Path: root}
}
