package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/objects"
)

// forced takes the finalizer off a cluster by hand and deletes it; then its objects go, as the garbage collector has them.
func (w *world) forced() {
	w.t.Helper()
	w.change(func(c *v1alpha1.MySQLCluster) { c.Finalizers = nil })
	w.delete()
	var secrets corev1.SecretList
	var maps corev1.ConfigMapList
	must(w.t, w.client.List(w.t.Context(), &secrets, client.InNamespace(w.cluster.Namespace)))
	must(w.t, w.client.List(w.t.Context(), &maps, client.InNamespace(w.cluster.Namespace)))
	for i := range secrets.Items {
		must(w.t, w.client.Delete(w.t.Context(), &secrets.Items[i]))
	}
	for i := range maps.Items {
		must(w.t, w.client.Delete(w.t.Context(), &maps.Items[i]))
	}
}

// TestFinalizerTakenOffByHand: nothing that the operator held for the cluster may stay for ever, or its namespace could not
// go either.
func TestFinalizerTakenOffByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	w.forced()
	if !w.gone() {
		t.Fatal("the cluster is still there")
	}
	w.passes(o, 1)
	w.nothingHeld()
}

// TestNamesakeOfAForcedDeletion: a new cluster of the same name comes up, although what was held for the old one is in its way.
func TestNamesakeOfAForcedDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.drive(w.newOperator(nil), patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	w.forced()
	again := w.cluster.DeepCopy()
	again.ObjectMeta = metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: w.cluster.Name}
	must(t, w.client.Create(t.Context(), again))
	w.cluster = again
	w.drive(w.newOperator(nil), patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
}

// TestHeldForAnotherCluster: only what nothing but our finalizer keeps, of a cluster of that very name, may be let go.
func TestHeldForAnotherCluster(t *testing.T) {
	of := func(change func(*corev1.Secret)) types.UID {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "orders-ca", Finalizers: []string{v1alpha1.Finalizer}, DeletionTimestamp: &metav1.Time{},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "MySQLCluster", Name: "orders", UID: "u", Controller: ptr.To(true)}}}}
		s.DeletionTimestamp.Time = s.DeletionTimestamp.AddDate(2026, 0, 0)
		change(s)
		return objects.HeldForUID(s, "orders")
	}
	if uid := of(func(*corev1.Secret) {}); uid != "u" {
		t.Errorf("held for %q", uid)
	}
	for name, change := range map[string]func(*corev1.Secret){
		"not deleted":          func(s *corev1.Secret) { s.DeletionTimestamp = nil },
		"held by others, too":  func(s *corev1.Secret) { s.Finalizers = append(s.Finalizers, "example.com/backup") },
		"held by nobody":       func(s *corev1.Secret) { s.Finalizers = nil },
		"of another name":      func(s *corev1.Secret) { s.OwnerReferences[0].Name = "orders-2" },
		"of another kind":      func(s *corev1.Secret) { s.OwnerReferences[0].Kind = "MySQLBackup" },
		"of another group":     func(s *corev1.Secret) { s.OwnerReferences[0].APIVersion = "example.com/v1alpha1" },
		"not controlled by it": func(s *corev1.Secret) { s.OwnerReferences[0].Controller = nil },
		"of nobody":            func(s *corev1.Secret) { s.OwnerReferences = nil },
	} {
		if uid := of(change); uid != "" {
			t.Errorf("%s: let go for %q", name, uid)
		}
	}
}
