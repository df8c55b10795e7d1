// Package backups looks after the backups of a cluster: the Jobs and CronJobs that dump, snapshots of volumes, the archive of binary
// logs, verification, and what status says of them.
package backups

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	corev1 "k8s.io/api/core/v1"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/objects"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/podlogin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/restore"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/text"
)

// Backups keeps the schedules of a cluster, and says how its backups are.
type Backups struct {
	*pass.Ports
	Objects   *objects.Objects
	Logins    *podlogin.Logins
	Archive   *Archive
	Restorer  *restore.Restorer
	Snapshots *Snapshots
}

// backupTask is what all backup pods of a cluster know.
func backupTask(c *v1alpha1.MySQLCluster) task.Task {
	t := task.Task{
		Namespace: c.Namespace, Cluster: c.Name, ClusterUID: string(c.UID), Region: c.Spec.AWS.Region,
		StallTimeout: c.Spec.Backup.EffectiveStallTimeout(),
	}
	for ordinal := range c.ReplicaCount() {
		t.Members = append(t.Members, c.Name+"-"+strconv.Itoa(int(ordinal)))
	}
	if c.Spec.Backup != nil && c.Spec.Backup.Destination != nil {
		// With the region, so that what a status says of it leads there from everywhere.
		if t.Destination = c.Spec.Backup.Destination.DeepCopy(); t.Destination.S3 != nil && t.Destination.S3.Region == "" {
			t.Destination.S3.Region = c.Spec.AWS.Region
		}
	}
	return t
}

// Archive keeps the pod that archives binary logs, and ends it.
type Archive struct {
	*pass.Ports
	Objects *objects.Objects
}

// archiveTask is what the archive's pod does.
func archiveTask(c *v1alpha1.MySQLCluster, storage resource.Quantity) task.Task {
	t := backupTask(c)
	t.Members = nil // their number may change, and the pod need not begin again for that
	t.Primary, t.Report, t.SpoolBytes = resources.PrimaryHost(c), resources.ArchiveName(c.Name), storage.Value()
	return t
}

// archiveReport reads what the archive's pod said last; nil before it said anything, or when that is of an archive that was switched off
// since.
func (r *Archive) archiveReport(ctx context.Context, s *pass.Pass) (*archive.Report, error) {
	report, err := readReport(ctx, r.Client, s.Cluster)
	if err != nil || report == nil || report.At.Before(s.Backup.ArchiveSince) {
		return nil, err
	}
	return report, nil
}

// Archived returns what the archive of a cluster holds or presupposes, as a GTID set, by its pod's last report; empty before there is one,
// and with an error while it cannot be read. archives is false for a cluster without an archive.
func (r *Archive) Archived(ctx context.Context, c *v1alpha1.MySQLCluster) (set string, archives bool, err error) {
	if !c.Archives() {
		return "", false, nil
	}
	report, err := readReport(ctx, r.Client, c)
	if err != nil || report == nil {
		return "", true, err
	}
	if _, err := gtid.Parse(report.Archived); err != nil {
		return "", true, fmt.Errorf("read what the archive holds: %w", err)
	}
	return report.Archived, true, nil
}

// readReport reads the newest report of a cluster's archive, nil when there is none.
func readReport(ctx context.Context, c client.Reader, cluster *v1alpha1.MySQLCluster) (*archive.Report, error) {
	var cm corev1.ConfigMap
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: resources.ArchiveName(cluster.Name)}
	if err := c.Get(ctx, key, &cm); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	text := cm.Data[task.ReportArchive]
	if text == "" {
		return nil, nil //nolint:nilnil // there is none yet
	}
	var report archive.Report
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", key.Name, err)
	}
	return &report, nil
}

// Snapshots takes the snapshots of MySQLBackups, and deletes those that nobody is to keep.
type Snapshots struct {
	*pass.Ports
}

// reportSnapshot writes how far a snapshot is.
func (r *Snapshots) reportSnapshot(ctx context.Context, b *v1alpha1.MySQLBackup, taken inventory.Snapshot) error {
	now := metav1.NewTime(r.Clock.Now())
	return patchBackup(ctx, r.Client, b, func(st *v1alpha1.MySQLBackupStatus) {
		if st.SnapshotID != taken.ID {
			st.Progress = nil // that of the calls which made none
		}
		st.Phase, st.SnapshotID, st.Location = v1alpha1.BackupRunning, taken.ID, "ebs://"+taken.ID
		st.Message = strings.TrimSpace("EC2 copies the volume " + taken.Progress)
		if st.StartedAt == nil {
			st.StartedAt = &now
		}
		percent, _ := strconv.ParseInt(strings.TrimSuffix(taken.Progress, "%"), 10, 32) // EC2 says nothing at first
		if percent = min(max(percent, 0), 100); st.Progress == nil || st.Progress.Percent != int32(percent) {
			st.Progress = &v1alpha1.BackupProgress{Percent: int32(percent), At: now}
		}
		switch taken.State {
		case inventory.SnapshotCompleted:
			st.Phase, st.Reason, st.Message, st.Progress, st.CompletedAt = v1alpha1.BackupCompleted, "", "", nil, &now
			st.Duration = now.Sub(st.StartedAt.Time).Round(time.Second).String()
			st.DataBytes = int64(taken.SizeGiB) << 30
		case inventory.SnapshotError:
			st.Phase, st.Reason, st.Progress, st.CompletedAt = v1alpha1.BackupFailed, v1alpha1.BackupReasonSnapshotFailed, nil, &now
			st.Message = "EC2 could not complete snapshot " + taken.ID
		}
	})
}

// List reads the cluster's MySQLBackups, the newest first.
func (r *Snapshots) List(ctx context.Context, s *pass.Pass) ([]v1alpha1.MySQLBackup, error) {
	var list v1alpha1.MySQLBackupList
	if err := r.Client.List(ctx, &list, client.InNamespace(s.Cluster.Namespace)); err != nil {
		return nil, fmt.Errorf("list the backups: %w", err)
	}
	own := slices.DeleteFunc(list.Items, func(b v1alpha1.MySQLBackup) bool {
		return b.Spec.ClusterName != s.Cluster.Name || ofOlder(&b, s.Cluster) // which says nothing of this one
	})
	slices.SortFunc(own, func(a, b v1alpha1.MySQLBackup) int {
		if c := b.CreationTimestamp.Compare(a.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(b.Name, a.Name)
	})
	return own, nil
}

// dropPruned deletes a MySQLBackup whose snapshot the retention took.
func (r *Snapshots) dropPruned(ctx context.Context, b *v1alpha1.MySQLBackup) error {
	if err := r.Client.Delete(ctx, b); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete MySQLBackup %s, whose snapshot is gone: %w", b.Name, err)
	}
	return nil
}

// withoutNamespace says why nothing is backed up any more.
const withoutNamespace = "the namespace is being deleted, in which Kubernetes makes nothing new: no backup is taken any more. Delete the cluster with a final snapshot, or move what it holds to a cluster in another namespace"

// summarise finds the newest good and the newest failed backup. The list is newest first.
func summarise(backups []v1alpha1.MySQLBackup) *v1alpha1.BackupSummary {
	summary := &v1alpha1.BackupSummary{}
	for i := range backups {
		b := &backups[i]
		switch {
		case !ended(b):
		case b.Standing() == v1alpha1.StandingFailed && summary.LastFailed == "":
			summary.LastFailed, summary.LastFailedAt = b.Name, b.Status.CompletedAt
		case b.Good() && summary.LastGood == "":
			summary.LastGood, summary.LastGoodAt = b.Name, b.Status.CompletedAt
		}
	}
	return summary
}

// SuperviseEvery is how often a running backup is looked at.
const SuperviseEvery = 15 * time.Second

// Supervisor has MySQLBackups worked on, supervises who does, and takes their data away where that is wanted.
// Snapshots are the work of the MySQLClusterReconciler, which has the cluster's way to EC2.
type Supervisor struct {
	Client client.Client
	Reader client.Reader
	Events events.EventRecorder
	Clock  clock.PassiveClock
	Images *pass.Images
	// SystemNamespace is where the operator runs.
	SystemNamespace string

	// Hearing is from when on the silence of a backup means something.
	Hearing hearing
}

// hearing is since when something can have been heard of backups: since this process leads, and the API server answers.
type hearing struct {
	mu    sync.Mutex
	since time.Time
	// away is true from when the API server was seen not to answer until it was seen to answer again.
	away bool
}

// ofOlder says whether a backup is of an older cluster that had the name of this one. One that is younger than this cluster is not, whatever its
// status says, which the backup pods may write.
func ofOlder(b *v1alpha1.MySQLBackup, cluster *v1alpha1.MySQLCluster) bool {
	return b.Status.ClusterUID != "" && b.Status.ClusterUID != string(cluster.UID) && b.CreationTimestamp.Before(&cluster.CreationTimestamp)
}

// cluster reads the backup's cluster, nil when there is none. Another one of that name is not it. The cache is not believed about its absence.
func (r *Supervisor) cluster(ctx context.Context, b *v1alpha1.MySQLBackup) (*v1alpha1.MySQLCluster, error) {
	var c v1alpha1.MySQLCluster
	key := client.ObjectKey{Namespace: b.Namespace, Name: b.Spec.ClusterName}
	err := r.Client.Get(ctx, key, &c)
	if apierrors.IsNotFound(err) {
		err = r.Reader.Get(ctx, key, &c)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the cluster: %w", err)
	}
	if ofOlder(b, &c) {
		return nil, nil
	}
	return &c, nil
}

func (r *Supervisor) patch(ctx context.Context, b *v1alpha1.MySQLBackup, change func(*v1alpha1.MySQLBackupStatus)) error {
	return patchBackup(ctx, r.Client, b, change)
}

// patchBackup changes the status of a backup, with a lock: what was reported meanwhile is newer than what was decided here.
func patchBackup(ctx context.Context, c client.Client, b *v1alpha1.MySQLBackup, change func(*v1alpha1.MySQLBackupStatus)) error {
	before := b.DeepCopy()
	change(&b.Status)
	b.Status.Message = text.Shorten(b.Status.Message, MessageLimit)
	setConditions(b)
	if apiequality.Semantic.DeepEqual(before.Status, b.Status) {
		return nil
	}
	if err := c.Status().Patch(ctx, b, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write status of MySQLBackup %s: %w", b.Name, err)
	}
	return nil
}

// ended says whether a backup has an outcome that counts.
func ended(b *v1alpha1.MySQLBackup) bool { return b.Done() && b.DeletionTimestamp.IsZero() }

// MessageLimit is how long status.message may be, in bytes.
const MessageLimit = 4096
