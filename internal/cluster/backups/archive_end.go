package backups

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/announce"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

const (
	// ArchiveEnds is how long a cluster that goes waits for its archive's pod to store what is committed: the pod has 30
	// seconds, and its node may be away.
	ArchiveEnds = 45 * time.Second
	// ArchiveEndsLook is how often it is looked whether the pod has ended.
	ArchiveEndsLook = 2 * time.Second
	// gatherPatience is how long a StatefulSet may take to take over the claim of the one before it.
	gatherPatience = 30 * time.Second
)

// End ends the archive's pod of a cluster that goes, while its servers are still there: the pod stores what is committed.
// It says whether to wait for that.
func (r *Archive) End(ctx context.Context, s *pass.Pass) (wait bool, err error) {
	if !s.Deleting() {
		return false, nil
	}
	var set appsv1.StatefulSet
	key := client.ObjectKey{Namespace: s.Cluster.Namespace, Name: resources.ArchiveName(s.Cluster.Name)}
	if err := r.Client.Get(ctx, key, &set); err != nil {
		if apierrors.IsNotFound(err) {
			r.ReportEnded(ctx, s, "")
			return r.gatherOrphans(ctx, s)
		}
		return false, fmt.Errorf("read StatefulSet %s: %w", key.Name, err)
	}
	if !s.Cluster.Archives() || !pass.OwnedBy(&set, s.Cluster) {
		return false, nil
	}
	if !set.DeletionTimestamp.IsZero() {
		wait = r.Clock.Since(set.DeletionTimestamp.Time) < ArchiveEnds
		if s.Cache.Backups.ArchiveEnding = s.Cache.Backups.ArchiveEnding || wait; !wait {
			r.ReportEnded(ctx, s, fmt.Sprintf("its pod did not end within %s", ArchiveEnds))
		}
		return wait, nil
	}
	if gathered, err := r.hasGathered(ctx, s, &set); err != nil || !gathered {
		return err == nil, err
	}
	// In the foreground: it is gone when its pod is.
	err = r.Client.Delete(ctx, &set, client.Preconditions{UID: &set.UID}, client.PropagationPolicy(metav1.DeletePropagationForeground))
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("delete StatefulSet %s: %w", key.Name, err)
	}
	s.Cache.Backups.ArchiveEnding = true
	s.Log.Info("ending the archive before the servers")
	return true, nil
}

// ReportEnded says, once, what the archive of a cluster that goes may lack: of its pod nothing is left to say it.
func (r *Archive) ReportEnded(ctx context.Context, s *pass.Pass, trouble string) {
	if !s.Cache.Backups.ArchiveEnding {
		return
	}
	s.Cache.Backups.ArchiveEnding = false
	switch report, err := r.archiveReport(ctx, s); {
	case trouble != "":
	case err != nil:
		trouble = err.Error()
	case report == nil:
		trouble = "its pod never reported"
	case report.Error != "":
		trouble = report.Error
	case !report.Ended:
		trouble = "its pod did not report that everything is stored; its last report is of " + report.At.UTC().Format(time.RFC3339)
	}
	if trouble != "" {
		r.Events.Eventf(s.Cluster, nil, corev1.EventTypeWarning, v1alpha1.EventArchiveIncomplete, announce.Act, "The archive may lack what was written last: %s", trouble)
	}
}

// gatherOrphans makes the archive's StatefulSet once more when it is gone and its claim is not: it was being replaced, with its
// pod and its claim kept, and the archive was switched off or the cluster deleted before the next one was made. The new one takes
// both over, and they go with it. The operator itself may delete neither: it would have to be allowed to everywhere.
func (r *Archive) gatherOrphans(ctx context.Context, s *pass.Pass) (made bool, err error) {
	if s.Cache.Backups.OrphansSought || s.Keys.Leaving {
		return false, nil
	}
	// Made before any StatefulSet, and never deleted: a cluster without it never had an archive.
	report := client.ObjectKey{Namespace: s.Cluster.Namespace, Name: resources.ArchiveName(s.Cluster.Name)}
	if err := r.Client.Get(ctx, report, &corev1.ConfigMap{}); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	claim, err := r.archiveClaim(ctx, s)
	if err != nil {
		return false, err
	}
	if claim == nil || !isArchiveClaim(claim, s.Cluster) || len(claim.OwnerReferences) > 0 || !claim.DeletionTimestamp.IsZero() {
		s.Cache.Backups.OrphansSought = true
		return false, nil
	}
	image, err := r.Images.Operator()
	if err != nil {
		return false, err
	}
	storage, class := claim.Spec.Resources.Requests[corev1.ResourceStorage], ""
	if claim.Spec.StorageClassName != nil {
		class = *claim.Spec.StorageClassName
	}
	ac, err := resources.Archive(s.Cluster, archiveTask(s.Cluster, storage), resources.Images{Operator: image, Proxy: r.Images.Proxy}, storage, class)
	if err != nil {
		return false, err
	}
	err = r.Objects.Apply(ctx, s, ac, *ac.Name, &appsv1.StatefulSet{})
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return false, nil // all that is in it goes
	}
	if err != nil {
		return false, err
	}
	s.Cache.Backups.OrphansSought = true
	s.Log.Info("the archive's StatefulSet is made once more, so that the pod and the claim of the one before it go with it")
	return true, nil
}

// hasGathered says whether a StatefulSet has taken over the claim that is there, or had the time to.
func (r *Archive) hasGathered(ctx context.Context, s *pass.Pass, set *appsv1.StatefulSet) (bool, error) {
	if r.Clock.Since(set.CreationTimestamp.Time) > gatherPatience {
		return true, nil
	}
	claim, err := r.archiveClaim(ctx, s)
	if err != nil {
		return false, err
	}
	return claim == nil || !isArchiveClaim(claim, s.Cluster) || len(claim.OwnerReferences) > 0, nil
}

// archiveClaim reads the claim of the archive's pod; nil when there is none.
func (r *Archive) archiveClaim(ctx context.Context, s *pass.Pass) (*corev1.PersistentVolumeClaim, error) {
	var claim corev1.PersistentVolumeClaim
	key := client.ObjectKey{Namespace: s.Cluster.Namespace, Name: resources.ArchiveClaim(s.Cluster.Name)}
	if err := r.Reader.Get(ctx, key, &claim); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil //nolint:nilnil // there is none
		}
		return nil, fmt.Errorf("read PersistentVolumeClaim %s: %w", key.Name, err)
	}
	return &claim, nil
}

// isArchiveClaim says whether a claim was made by the archive's StatefulSet, which labels it; a name alone proves nothing.
func isArchiveClaim(claim *corev1.PersistentVolumeClaim, c *v1alpha1.MySQLCluster) bool {
	if claim.Labels[v1alpha1.LabelCluster] != c.Name || claim.Labels[v1alpha1.LabelComponent] != resources.ComponentArchive {
		return false
	}
	return !slices.ContainsFunc(claim.OwnerReferences, func(by metav1.OwnerReference) bool {
		return by.Kind != "StatefulSet" || by.Name != resources.ArchiveName(c.Name) || !strings.HasPrefix(by.APIVersion, appsv1.GroupName+"/")
	})
}
