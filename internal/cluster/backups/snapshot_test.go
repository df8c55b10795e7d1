package backups

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/observe"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// TestASnapshotThatAnotherOperatorAskedForIsLookedFor before EC2 is asked for it once more: that operator may have ended without the answer,
// and EC2's lists are late.
func TestASnapshotThatAnotherOperatorAskedForIsLookedFor(t *testing.T) {
	now := time.Unix(1e9, 0)
	for name, row := range map[string]struct {
		asked, watched time.Duration // ago
		member         string
		asks           bool
	}{
		"just before":                         {20 * time.Second, 10 * time.Second, "orders-1", false},
		"long ago":                            {observe.TagsShown, 10 * time.Second, "orders-1", true},
		"this operator asked":                 {10 * time.Second, 20 * time.Second, "orders-1", true},
		"EC2 refused it, so that nothing was": {20 * time.Second, 10 * time.Second, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			asks := errors.New("it is about to ask")
			patch := func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				return asks
			}
			ports := &pass.Ports{Client: fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{Patch: patch}).Build(), Clock: clocktesting.NewFakePassiveClock(now)}
			b := &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "daily", UID: "backup"}, Spec: v1alpha1.MySQLBackupSpec{Method: v1alpha1.BackupMethodSnapshot}}
			started := metav1.NewTime(now.Add(-row.asked))
			b.Status.Phase, b.Status.Member, b.Status.StartedAt = v1alpha1.BackupRunning, row.member, &started
			s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}, Cache: pass.NewCache("uid"), Log: logr.Discard()}
			s.Observed.WatchedSince = now.Add(-row.watched)
			s.Observed.Members = map[string]*topology.Member{"orders-1": {SQL: topology.SQL{Access: topology.AccessVerified}}}
			s.Plan.Members = []topology.View{{Name: "orders-1", InService: true, VolumeID: "vol-1"}}
			err := (&Snapshots{Ports: ports}).snapshot(t.Context(), s, b)
			if errors.Is(err, asks) != row.asks {
				t.Errorf("it ends with %v", err)
			}
		})
	}
}

// TestSnapshotsOfAScheduleThatDumpsByNowStay: the retention of the dumps may be shorter.
func TestSnapshotsOfAScheduleThatDumpsByNowStay(t *testing.T) {
	now := time.Unix(1e9, 0)
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for method, stay := range map[v1alpha1.BackupMethod]bool{v1alpha1.BackupMethodDump: true, v1alpha1.BackupMethodSnapshot: false} {
		deletes := errors.New("it is about to delete a snapshot")
		patch := func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return deletes
		}
		ports := &pass.Ports{Client: fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{Patch: patch}).Build(), Clock: clocktesting.NewFakePassiveClock(now)}
		s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}, Cache: pass.NewCache("uid"), Log: logr.Discard()}
		s.Cluster.Spec.Backup = &v1alpha1.BackupSpec{Schedules: []v1alpha1.BackupSchedule{{Name: "hourly", Method: method, Retention: v1alpha1.RetentionSpec{Count: ptr.To[int32](1)}}}}
		s.Observed.Snapshots.Taken = now
		for i, name := range []string{"new", "old"} {
			b := completed(name, "hourly", v1alpha1.BackupMethodSnapshot)
			b.UID = types.UID(name)
			s.Backup.All = append(s.Backup.All, b)
			s.Seen.Inventory.Snapshots = append(s.Seen.Inventory.Snapshots, inventory.Snapshot{
				State: inventory.SnapshotCompleted, StartTime: now.Add(-time.Duration(i) * time.Hour), Tags: map[string]string{awsapi.TagPurpose: pass.PurposeOf(&b)},
			})
		}
		if err := (&Snapshots{Ports: ports}).pruneSnapshots(t.Context(), s); errors.Is(err, deletes) == stay {
			t.Errorf("the schedule's method is %s by now: %v", method, err)
		}
	}
}
