package controllers

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// children are the cluster's objects of the kinds without which it could not go on, or not be backed up.
func (w *world) children() []client.Object {
	w.t.Helper()
	var all []client.Object
	own := []client.ListOption{client.InNamespace(w.cluster.Namespace), client.MatchingLabels{v1alpha1.LabelCluster: w.cluster.Name}}
	for _, list := range []client.ObjectList{
		&corev1.SecretList{}, &corev1.ConfigMapList{}, &corev1.ServiceList{}, &discoveryv1.EndpointSliceList{},
		&corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
	} {
		must(w.t, w.client.List(w.t.Context(), list, own...))
		must(w.t, meta.EachListItem(list, func(item runtime.Object) error {
			all = append(all, item.(client.Object))
			return nil
		}))
	}
	return all
}

// orphan takes the cluster off its objects, as garbage collection does in a deletion with --cascade=orphan.
func (w *world) orphan() {
	w.t.Helper()
	all := w.children()
	if len(all) < 8 {
		w.t.Fatalf("the cluster has only %d objects", len(all))
	}
	for _, obj := range all {
		obj.SetOwnerReferences(nil)
		must(w.t, w.client.Update(w.t.Context(), obj))
	}
}

// TestOrphanedObjectsAreTakenBack: without their owner they are the cluster's all the same.
func TestOrphanedObjectsAreTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, backedUp)
	o := w.newOperator(nil)
	o.Images = &pass.Images{Own: "operator:1", Client: pass.DefaultClientImage}
	w.drive(o, patience, func() bool {
		return w.phaseIs(v1alpha1.PhaseEC2Ready)() && w.exists(resources.NamesOf(w.cluster.Name).BackupAccount, &rbacv1.RoleBinding{})
	})
	w.orphan()
	w.drive(o, patience, func() bool {
		for _, obj := range w.children() {
			// EndpointSlices stay as they are while there is no primary.
			_, slice := obj.(*discoveryv1.EndpointSlice)
			if by := metav1.GetControllerOf(obj); !slice && (by == nil || by.UID != w.cluster.UID) {
				return false
			}
		}
		return true
	})
	if w.conditionHas(v1alpha1.ConditionDegraded, v1alpha1.ReasonForeignResource)() {
		t.Error(w.condition(v1alpha1.ConditionDegraded))
	}
	version := w.recordsVersion()
	w.passes(o, 3)
	if w.recordsVersion() != version {
		t.Error("the records are written again and again")
	}
}

// TestDeletionThatOrphans leaves what it was told to leave in Kubernetes, held by nobody, and nothing in EC2.
func TestDeletionThatOrphans(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.drive(w.newOperator(nil), patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	w.delete()
	w.orphan()
	w.drive(w.newOperator(nil), patience, w.gone)
	w.nothing(0)
	w.nothingHeld()
}

// TestAnotherClustersOrphansAreNotTaken: an object that is marked as an older cluster's is not this one's.
func TestAnotherClustersOrphansAreNotTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	must(t, kube.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.cluster.Namespace, Name: resources.NamesOf(w.cluster.Name).CA,
		Labels:      resources.Labels(w.cluster, resources.ComponentMembers),
		Annotations: map[string]string{v1alpha1.AnnotationClusterUID: "11111111-2222-3333-4444-555555555555"},
	}}))
	w.drive(w.newOperator(nil), patience, w.conditionHas(v1alpha1.ConditionDegraded, "True/ForeignResource", "Secret orders-ca exists and does not belong to this cluster"))
}

// TestSomebodyElsesSecretHoldsNoDeletion: the cluster that it was in the way of can be deleted, and the Secret stays.
func TestSomebodyElsesSecretHoldsNoDeletion(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"orders-ca", "orders-operator-tls"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: name}}
			must(t, kube.Create(t.Context(), theirs))
			o := w.newOperator(nil)
			w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "True/ForeignResource", "Secret "+name))
			w.delete()
			w.drive(o, patience, w.gone)
			w.nothing(0)
			var now corev1.Secret
			if !w.exists(name, &now) || now.ResourceVersion != theirs.ResourceVersion {
				t.Errorf("the Secret was changed: %+v", now.ObjectMeta)
			}
		})
	}
}

// TestEmptiedRecordsHideNothing: what the records do not tell any more is found by its tags, and a deletion leaves none of it.
func TestEmptiedRecordsHideNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"{}", "null", "", `{"hand":"-"}`} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *v1alpha1.MySQLCluster) { c.Spec.Storage.DeletionPolicy = v1alpha1.DeletionPolicyDelete })
			w.drive(w.newOperator(nil), patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
			w.delete()
			cm, _ := w.records()
			cm.Data[resources.KeyMembers] = text
			must(t, w.client.Update(t.Context(), cm))
			w.drive(w.newOperator(nil), patience, w.gone)
			w.nothing(0)
			w.nothingHeld()
		})
	}
}

// TestRecordsLostInANamespaceThatGoes: nothing can be stored there again. The cluster goes on all the same, without haste, and once it
// may be deleted each of its volumes is kept as one snapshot.
func TestRecordsLostInANamespaceThatGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, protected)
	o := w.newOperator(nil)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	must(t, w.client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.cluster.Namespace}}))
	w.emptyNamespace()
	w.drive(o, patience, w.saysProtected)
	cm, _ := w.records()
	cm.Finalizers = nil
	must(t, w.client.Update(t.Context(), cm))
	w.emptyNamespace()
	w.drive(o, patience, func() bool { return !w.exists(cm.Name, &corev1.ConfigMap{}) })
	w.passes(o, 3)
	if result, err := w.pass(o); err != nil || result.RequeueAfter < time.Second {
		t.Errorf("it is looked at again after %s, %v", result.RequeueAfter, err)
	}
	w.protect(false)
	w.drive(o, patience, w.gone)
	w.nothing(members)
	w.nothingHeld()
}
