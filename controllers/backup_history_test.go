package controllers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// TestBackupsThatFailedAreNotKeptForEver: the newest of each schedule stay, and what a person made, what has left data, and
// whatever did not fail.
func TestBackupsThatFailedAreNotKeptForEver(t *testing.T) {
	s := newShelf(t)
	r := NewMySQLClusterReconciler(pass.Ports{Client: shared.cached, Reader: shared.operator, Clock: s.clock})
	failed := func(name string, change func(*v1alpha1.MySQLBackup), report func(*v1alpha1.MySQLBackupStatus)) {
		t.Helper()
		s.put(name, change)
		s.report(name, func(st *v1alpha1.MySQLBackupStatus) {
			st.Phase, st.Reason = v1alpha1.BackupFailed, v1alpha1.BackupReasonNoBucket
			if report != nil {
				report(st)
			}
		})
	}
	of := func(schedule string) func(*v1alpha1.MySQLBackup) {
		return func(b *v1alpha1.MySQLBackup) { b.Spec.Schedule = schedule }
	}
	base := func(b *v1alpha1.MySQLBackup) {
		b.Labels = map[string]string{v1alpha1.LabelComponent: resources.ComponentArchive}
		b.Spec.Schedule = "daily" // whose retention deletes it, and whose failures it is not counted among
	}
	// In the order of their names where they are of the same second.
	failed("a1-left", of("daily"), func(st *v1alpha1.MySQLBackupStatus) { st.Reason, st.Path = v1alpha1.BackupReasonStalled, "x" })
	failed("a2-left", of("daily"), func(st *v1alpha1.MySQLBackupStatus) {
		st.Reason, st.Path = v1alpha1.BackupReasonStoreUnavailable, "x"
	})
	for n := range 5 {
		failed(fmt.Sprintf("daily-%d", n), of("daily"), nil)
		failed(fmt.Sprintf("person-%d", n), nil, nil)
		failed(fmt.Sprintf("base-%d", n), base, nil)
	}
	failed("hourly-0", of("hourly"), nil)
	s.put("a0-good", of("daily"))
	s.report("a0-good", func(st *v1alpha1.MySQLBackupStatus) { st.Phase = v1alpha1.BackupCompleted })
	names := func(limit *int32) string {
		t.Helper()
		var c v1alpha1.MySQLCluster
		must(t, kube.Get(t.Context(), client.ObjectKeyFromObject(s.cluster), &c))
		c.Spec.Backup.FailedHistoryLimit = limit
		sc := &pass.Pass{Cluster: &c, Log: logr.Discard()}
		var err error
		sc.Backup.All, err = r.backups.Snapshots.List(t.Context(), sc)
		must(t, err)
		// As they were made: creation times have seconds only.
		slices.SortStableFunc(sc.Backup.All, func(a, b v1alpha1.MySQLBackup) int { return strings.Compare(b.Name, a.Name) })
		must(t, r.backups.PruneFailed(t.Context(), sc))
		var list v1alpha1.MySQLBackupList
		must(t, kube.List(t.Context(), &list, client.InNamespace(s.namespace)))
		var left []string
		for _, b := range list.Items {
			left = append(left, b.Name)
		}
		slices.Sort(left)
		return strings.Join(left, " ")
	}
	const persons = " hourly-0 person-0 person-1 person-2 person-3 person-4"
	if got, want := names(nil), "a0-good a1-left a2-left base-2 base-3 base-4 daily-2 daily-3 daily-4"+persons; got != want {
		t.Errorf("left are\n%s, not\n%s", got, want)
	}
	if got, want := names(ptr.To(int32(1))), "a0-good a1-left a2-left base-4 daily-4"+persons; got != want {
		t.Errorf("with a limit of 1 left are\n%s, not\n%s", got, want)
	}
}
