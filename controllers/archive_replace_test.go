package controllers

import (
	"context"
	"strings"
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
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/backups"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
)

// claim makes the claim of the archive's pod as the StatefulSet's controller does, bound, of a class that lets it grow or not.
func (a *annals) claim(grows bool) *corev1.PersistentVolumeClaim {
	a.t.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}, Provisioner: "example.com/none", AllowVolumeExpansion: &grows}
	must(a.t, kube.Create(a.t.Context(), class))
	a.t.Cleanup(func() { must(a.t, kube.Delete(context.Background(), class)) })
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "spool-orders-archive-0", Labels: a.set().Spec.Selector.MatchLabels},
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
			a.wants(&v1alpha1.BinlogArchiveSpec{Enabled: true, Storage: ptr.To(resource.MustParse("8Gi"))})
			a.pass()
			must(t, kube.Get(t.Context(), client.ObjectKeyFromObject(claim), claim))
			want := map[bool]string{true: "8Gi", false: "5Gi"}[grows]
			if size := claim.Spec.Resources.Requests[corev1.ResourceStorage]; size.String() != want {
				t.Errorf("the claim asks for %s", size.String())
			}
			if old := a.set(); grows != (old != nil && len(old.Finalizers) == 1 && old.Finalizers[0] == metav1.FinalizerOrphanDependents) {
				t.Errorf("what the StatefulSet owned: %+v", old)
			}
			a.collect()
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

// TestAPodThatIsNotReadyIsReplaced: Kubernetes' controller of StatefulSets does that with Parallel alone. A set of an earlier operator gets it, and
// its claim stays with its pod.
func TestAPodThatIsNotReadyIsReplaced(t *testing.T) {
	a := newAnnals(t)
	a.pass()
	old := a.set()
	if old.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		t.Fatalf("a new StatefulSet is %s", old.Spec.PodManagementPolicy)
	}
	must(t, kube.Delete(t.Context(), old))
	old.ObjectMeta = metav1.ObjectMeta{Namespace: old.Namespace, Name: old.Name, Labels: old.Labels, Annotations: old.Annotations, OwnerReferences: old.OwnerReferences}
	old.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
	must(t, kube.Create(t.Context(), old))
	claim := a.claim(false)
	for deadline := time.Now().Add(patience); ; time.Sleep(watchPause) { // the cache may show the set that was deleted
		var shown appsv1.StatefulSet
		if err := shared.cached.Get(t.Context(), client.ObjectKeyFromObject(old), &shown); err == nil && shown.UID == old.UID {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("the cache shows %s, %v", shown.UID, err)
		}
	}
	a.pass()
	if set := a.set(); set.DeletionTimestamp.IsZero() || len(set.Finalizers) != 1 || set.Finalizers[0] != metav1.FinalizerOrphanDependents {
		t.Errorf("the earlier StatefulSet, or what it owned, is %+v", set.ObjectMeta)
	}
	a.collect()
	a.pass()
	if set := a.set(); set == nil || set.UID == old.UID || set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		t.Errorf("the StatefulSet is %+v", set)
	}
	must(t, kube.Get(t.Context(), client.ObjectKeyFromObject(claim), claim))
	if !claim.DeletionTimestamp.IsZero() {
		t.Error("the claim goes")
	}
}

// TestAClaimOfSomebodyElseDoesNotGrow: what has the name of the archive's claim, and was not made for it.
func TestAClaimOfSomebodyElseDoesNotGrow(t *testing.T) {
	for name, change := range map[string]func(*corev1.PersistentVolumeClaim){
		"without labels":    func(c *corev1.PersistentVolumeClaim) { c.Labels = nil },
		"another cluster's": func(c *corev1.PersistentVolumeClaim) { c.Labels[v1alpha1.LabelCluster] = "wares" },
		"owned by another": func(c *corev1.PersistentVolumeClaim) {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "orders-archive-0", UID: "x"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAnnals(t)
			a.pass()
			before := a.set()
			claim := a.claim(true)
			change(claim)
			must(t, kube.Update(t.Context(), claim))
			a.wants(&v1alpha1.BinlogArchiveSpec{Enabled: true, Storage: ptr.To(resource.MustParse("8Gi"))})
			s := &pass.Pass{Cluster: a.cluster, Log: logr.Discard(), Cache: a.cache}
			if err := a.r.backups.Archive.Ensure(t.Context(), s); err == nil || !strings.Contains(err.Error(), "does not belong to this cluster") {
				t.Errorf("got %v", err)
			}
			must(t, kube.Get(t.Context(), client.ObjectKeyFromObject(claim), claim))
			if size := claim.Spec.Resources.Requests[corev1.ResourceStorage]; size.String() != "5Gi" {
				t.Errorf("the claim asks for %s", size.String())
			}
			if set := a.set(); set == nil || set.UID != before.UID || !set.DeletionTimestamp.IsZero() {
				t.Errorf("the StatefulSet is %+v", set)
			}
		})
	}
}

// TestWhatAReplacementLeftBehindGoes: the pod and the claim were kept for the next StatefulSet, which then was not wanted any more.
func TestWhatAReplacementLeftBehindGoes(t *testing.T) {
	for name, deleted := range map[string]bool{"switched off": false, "the cluster goes": true} {
		t.Run(name, func(t *testing.T) {
			a := newAnnals(t)
			a.pass()
			claim := a.claim(true)
			a.wants(&v1alpha1.BinlogArchiveSpec{Enabled: true, Storage: ptr.To(resource.MustParse("8Gi"))})
			a.pass()
			before := a.set()
			if len(before.Finalizers) != 1 || before.Finalizers[0] != metav1.FinalizerOrphanDependents {
				t.Fatalf("it is not being replaced: %+v", before)
			}
			step := a.pass
			if deleted {
				now := metav1.Now()
				a.cluster.DeletionTimestamp, a.cluster.Spec.DeletionProtection = &now, ptr.To(false)
				step = func() *metav1.Condition {
					_, err := a.r.backups.Archive.End(t.Context(), &pass.Pass{Cluster: a.cluster, Log: logr.Discard(), Cache: a.cache})
					must(t, err)
					return nil
				}
			} else {
				a.wants(&v1alpha1.BinlogArchiveSpec{Enabled: false, Storage: ptr.To(resource.MustParse("8Gi"))})
			}
			step()
			before.Finalizers = nil // as the garbage collector does it
			must(t, kube.Update(t.Context(), before))
			step()
			set := a.set()
			if set == nil || set.UID == before.UID || *set.Spec.Replicas != 1 {
				t.Fatalf("nobody takes over what was left: %+v", set)
			}
			step()
			if set = a.set(); set == nil || !set.DeletionTimestamp.IsZero() {
				t.Fatal("it goes before it has taken the claim over")
			}
			must(t, kube.Get(t.Context(), client.ObjectKeyFromObject(claim), claim))
			claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: set.Name, UID: set.UID}}
			must(t, kube.Update(t.Context(), claim)) // as its controller does it
			step()
			if set = a.set(); set != nil && set.DeletionTimestamp.IsZero() {
				t.Fatal("it does not go")
			}
			if set != nil {
				set.Finalizers = nil
				must(t, kube.Update(t.Context(), set))
			}
			for range 2 {
				step()
			}
			if set = a.set(); set != nil {
				t.Errorf("it comes back: %+v", set)
			}
		})
	}
}

// TestTheArchiveEndsBeforeTheServers of a cluster that goes: its pod is asked to end and given the time to store what is
// committed, and no more.
func TestTheArchiveEndsBeforeTheServers(t *testing.T) {
	a := newAnnals(t)
	a.pass()
	s := &pass.Pass{Cluster: a.cluster, Log: logr.Discard(), Cache: a.cache}
	end := func() bool {
		t.Helper()
		wait, err := a.r.backups.Archive.End(t.Context(), s)
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
	a.clock.SetTime(a.set().DeletionTimestamp.Add(backups.ArchiveEnds - time.Second))
	if !end() {
		t.Error("its pod is not waited for")
	}
	a.events()
	a.later(2 * time.Second)
	if end() {
		t.Error("it is waited for too long")
	}
	if said := a.events(); !strings.Contains(said, "ArchiveIncomplete") || end() || a.events() != "" {
		t.Errorf("that it may lack something is told with %q, or more than once", said)
	}
	set := a.set()
	set.Finalizers = nil
	must(t, kube.Update(t.Context(), set))
	if end() {
		t.Error("it is gone, and waited for")
	}
	// What its pod did not say to be stored may be missing.
	for _, row := range []struct {
		report archive.Report
		told   bool
	}{{archive.Report{}, true}, {archive.Report{At: time.Now(), Error: "no bucket"}, true}, {archive.Report{At: time.Now()}, true}, {archive.Report{At: time.Now(), Ended: true}, false}} {
		a.reports(row.report)
		a.cache.Backups.ArchiveEnding = true
		a.r.backups.Archive.ReportEnded(t.Context(), s, "")
		if said := a.events(); strings.Contains(said, "ArchiveIncomplete") != row.told {
			t.Errorf("of %+v is told %q", row.report, said)
		}
	}
	var sets appsv1.StatefulSetList
	must(t, kube.List(t.Context(), &sets, client.InNamespace(a.namespace)))
	if len(sets.Items) > 0 {
		t.Errorf("there are %+v", sets.Items)
	}
}
