package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/objects"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// TestFailoverWithoutTheAuthority: the Secret with the certificate authority is deleted while no operator runs, and then the primary dies.
// The next operator fails over with the certificate that is stored, reports the loss, and launches nothing; once the Secret is back the
// cluster becomes whole again.
func TestFailoverWithoutTheAuthority(t *testing.T) {
	t.Parallel()
	farm, err := mysqld.NewPrivateFarm(t.Context(), t.Output(), moto.VPCCIDR)
	must(t, err)
	t.Cleanup(func() { must(t, farm.Close()) })
	w := newTrio(t, farm)
	c, _ := w.get()
	primary, launched := c.Status.Primary, len(w.left().instances)
	lost := w.loseAuthority()
	w.server(primary).Kill()
	o := w.newSQLOperator(&operator{}, nil)
	w.drive(o, sqlPatience, func() bool {
		c, _ := w.get()
		return c.Status.Primary != "" && c.Status.Primary != primary && w.conditionHas(v1alpha1.ConditionAvailable, "True/")()
	})
	if !w.conditionHas(v1alpha1.ConditionDegraded, "certificate authority is gone", "no instance is launched")() {
		t.Errorf("Degraded says %s", w.condition(v1alpha1.ConditionDegraded))
	}
	w.follow(o, 5)
	if now := len(w.left().instances); now != launched {
		t.Errorf("%d instances of %d: one was launched that could get no certificate", now, launched)
	}
	must(t, w.client.Create(t.Context(), lost))
	w.books.open()
	w.settle(o)
}

// loseAuthority deletes the Secret with the certificate authority and its copy for good, and returns one with the same content.
func (w *sqlWorld) loseAuthority() *corev1.Secret {
	w.t.Helper()
	name := resources.NamesOf(w.cluster.Name).CA
	var secret corev1.Secret
	if !w.exists(name, &secret) {
		w.t.Fatalf("there is no Secret %s", name)
	}
	for _, name := range []string{name, objects.KeptName(name)} {
		gone := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: name}}
		release := client.RawPatch(client.Merge.Type(), []byte(`{"metadata":{"finalizers":null}}`))
		must(w.t, client.IgnoreNotFound(w.client.Patch(w.t.Context(), gone, release)))
		must(w.t, client.IgnoreNotFound(w.client.Delete(w.t.Context(), gone)))
	}
	return &corev1.Secret{Type: secret.Type, Data: secret.Data, ObjectMeta: metav1.ObjectMeta{
		Namespace: secret.Namespace, Name: secret.Name, Labels: secret.Labels, Annotations: secret.Annotations, OwnerReferences: secret.OwnerReferences,
	}}
}
