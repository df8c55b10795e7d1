package controllers

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// claim makes the claim of the archive's pod as the StatefulSet's controller does, bound, of a class that lets it grow or not.
func (a *annals) claim(grows bool) *corev1.PersistentVolumeClaim {
	a.t.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}, Provisioner: "example.com/none", AllowVolumeExpansion: &grows}
	must(a.t, kube.Create(a.t.Context(), class))
	a.t.Cleanup(func() { must(a.t, kube.Delete(context.Background(), class)) })
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "spool-orders-archive-0"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class.Name, VolumeName: "pv-1",
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")}},
		},
	}
	must(a.t, kube.Create(a.t.Context(), claim))
	claim.Status.Phase = corev1.ClaimBound
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")}
	must(a.t, kube.Status().Update(a.t.Context(), claim))
	return claim
}

// TestTheArchivesVolumeGrows: the claim where its class allows that, and it stays with its pod; otherwise another is made.
func TestTheArchivesVolumeGrows(t *testing.T) {
	for name, grows := range map[string]bool{"a class that lets it": true, "one that does not": false} {
		t.Run(name, func(t *testing.T) {
			a := newAnnals(t)
			a.pass()
			before := a.set()
			claim := a.claim(grows)
			a.change(func(c *v1alpha1.MySQLCluster) {
				c.Spec.Backup.BinlogArchive.Storage = ptr.To(resource.MustParse("8Gi"))
			})
			a.pass()
			must(t, kube.Get(t.Context(), client.ObjectKeyFromObject(claim), claim))
			want := map[bool]string{true: "8Gi", false: "5Gi"}[grows]
			if size := claim.Spec.Resources.Requests[corev1.ResourceStorage]; size.String() != want {
				t.Errorf("the claim asks for %s", size.String())
			}
			if old := a.set(); grows != (old != nil && len(old.Finalizers) == 1 && old.Finalizers[0] == metav1.FinalizerOrphanDependents) {
				t.Errorf("what the StatefulSet owned: %+v", old)
			}
			if old := a.set(); old != nil { // nobody collects garbage here
				old.Finalizers = nil
				must(t, kube.Update(t.Context(), old))
			}
			a.pass()
			set := a.set()
			if set == nil || set.UID == before.UID {
				t.Fatalf("the StatefulSet is %+v", set)
			}
			if size := set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage]; size.String() != "8Gi" {
				t.Errorf("the next claim asks for %s", size.String())
			}
		})
	}
}

// TestTheArchiveEndsBeforeTheServers of a cluster that goes: its pod is asked to end and given the time to store what is
// committed, and no more.
func TestTheArchiveEndsBeforeTheServers(t *testing.T) {
	a := newAnnals(t)
	a.pass()
	s := &scope{cluster: a.cluster, log: logr.Discard(), notes: a.notes}
	end := func() bool {
		t.Helper()
		wait, err := a.r.endArchive(t.Context(), s)
		must(t, err)
		return wait
	}
	if end() || !a.set().DeletionTimestamp.IsZero() {
		t.Fatal("it ends though the cluster does not go")
	}
	now := metav1.Now()
	a.cluster.DeletionTimestamp, a.cluster.Spec.DeletionProtection = &now, ptr.To(true)
	if end() || !a.set().DeletionTimestamp.IsZero() {
		t.Fatal("it ends though the cluster is protected")
	}
	a.cluster.Spec.DeletionProtection = ptr.To(false)
	if !end() || a.set().DeletionTimestamp.IsZero() || a.set().Finalizers[0] != metav1.FinalizerDeleteDependents {
		t.Fatalf("it does not end: %+v", a.set())
	}
	a.clock.SetTime(a.set().DeletionTimestamp.Add(archiveEnds - time.Second))
	if !end() {
		t.Error("its pod is not waited for")
	}
	a.later(2 * time.Second)
	if end() {
		t.Error("it is waited for too long")
	}
	set := a.set()
	set.Finalizers = nil
	must(t, kube.Update(t.Context(), set))
	if end() {
		t.Error("it is gone, and waited for")
	}
	var sets appsv1.StatefulSetList
	must(t, kube.List(t.Context(), &sets, client.InNamespace(a.namespace)))
	if len(sets.Items) > 0 {
		t.Errorf("there are %+v", sets.Items)
	}
}
