package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/objects"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
)

// loseAuthority deletes the Secret of the authority and the operator's copy of it, while no operator runs that could put them back.
func loseAuthority(ctx context.Context, s *Scene) error {
	name := resources.NamesOf(s.key.Name).CA
	secret := &corev1.Secret{}
	if err := s.lab.Client.Get(ctx, client.ObjectKey{Namespace: s.key.Namespace, Name: name}, secret); err != nil {
		return err
	}
	lost := &corev1.Secret{Type: secret.Type, Data: secret.Data, ObjectMeta: metav1.ObjectMeta{
		Namespace: secret.Namespace, Name: secret.Name, Labels: secret.Labels, Annotations: secret.Annotations, OwnerReferences: secret.OwnerReferences,
	}}
	if err := removeOperator(ctx, s); err != nil {
		return err
	}
	if err := pause(ctx, short); err != nil {
		return err
	}
	s.later(func(ctx context.Context) error { return client.IgnoreAlreadyExists(s.lab.Client.Create(ctx, lost)) })
	for _, gone := range []string{name, objects.KeptName(name)} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: gone}}
		patch := client.RawPatch(client.Merge.Type(), []byte(`{"metadata":{"finalizers":null}}`))
		if err := s.lab.Client.Patch(ctx, secret, patch); client.IgnoreNotFound(err) != nil { // there is no copy of one that was never gone
			return fmt.Errorf("%s: %w", gone, err)
		}
		if err := s.lab.Client.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return s.scaleOperator(ctx, 1)
}

// refuse has the API server refuse what the operator does to a kind of object in the namespace of the cluster.
func (s *Scene) refuse(ctx context.Context, group, resource string, operations ...admissionv1.OperationType) error {
	const name = "alarms-refuse"
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: operations, Rule: admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
		}}}},
		Validations: []admissionv1.Validation{{Expression: fmt.Sprintf("object.metadata.namespace != %q", s.key.Namespace), Message: "not today"}},
	}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
	}}
	for _, obj := range []client.Object{policy, binding} {
		s.later(func(ctx context.Context) error { return client.IgnoreNotFound(s.lab.Client.Delete(ctx, obj)) })
		if err := s.lab.Client.Create(ctx, obj); err != nil {
			return err
		}
	}
	return pause(ctx, moment) // the API server compiles it
}

func refuseService(ctx context.Context, s *Scene) error {
	if err := s.refuse(ctx, "", "services", admissionv1.Create); err != nil {
		return err
	}
	return s.lab.Client.Delete(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: resources.NamesOf(s.key.Name).Replicas}})
}

func deleteProtected(ctx context.Context, s *Scene) error {
	c := &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: "protected"}}
	protect := func(ctx context.Context, on bool) error {
		return s.lab.Client.Patch(ctx, c, client.RawPatch(client.Merge.Type(), fmt.Appendf(nil, `{"spec":{"deletionProtection":%t}}`, on)))
	}
	s.later(func(ctx context.Context) error {
		if err := protect(ctx, false); err != nil {
			return err
		}
		return s.hold(ctx, c, false)
	})
	if err := s.beside(ctx, c.Name, func(spec *v1alpha1.MySQLClusterSpec) { spec.DeletionProtection = ptr.To(false) }); err != nil {
		return err
	}
	if err := pause(ctx, moment); err != nil { // the operator takes it over
		return err
	}
	if err := s.hold(ctx, c, true); err != nil {
		return err
	}
	if err := s.lab.Client.Delete(ctx, c); err != nil {
		return err
	}
	return protect(ctx, true)
}

// hold keeps an object in Kubernetes when it is deleted, or lets it go.
func (s *Scene) hold(ctx context.Context, object client.Object, on bool) error {
	const finalizer = "alarms.lab/held"
	if err := s.lab.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	before, _ := object.DeepCopyObject().(client.Object)
	if on {
		controllerutil.AddFinalizer(object, finalizer)
	} else {
		controllerutil.RemoveFinalizer(object, finalizer)
	}
	return s.lab.Client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// removeOperator scales the operator to nothing, as a person does who forgets to scale it back.
func removeOperator(ctx context.Context, s *Scene) error {
	s.later(func(ctx context.Context) error { return s.scaleOperator(ctx, 1) })
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: deploy.Deployment}}
	return s.lab.Client.Patch(ctx, d, client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"replicas":0}}`)))
}

// takeLease takes the operator's lease, and keeps it until the fault is healed.
func takeLease(ctx context.Context, s *Scene) error {
	var leases coordinationv1.LeaseList
	if err := s.lab.Client.List(ctx, &leases, client.InNamespace(v1alpha1.SystemNamespace)); err != nil {
		return err
	}
	if len(leases.Items) == 0 {
		return errors.New("the operator has no lease")
	}
	lease := &leases.Items[0]
	take := func(ctx context.Context, holder string) error {
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"holderIdentity": holder, "renewTime": metav1.NowMicro(), "acquireTime": metav1.NowMicro()}})
		if err != nil {
			return err
		}
		return s.lab.Client.Patch(ctx, lease, client.RawPatch(client.Merge.Type(), patch))
	}
	held, release := context.WithCancel(context.WithoutCancel(ctx))
	var holding sync.WaitGroup
	holding.Go(func() {
		for pause(held, time.Second) == nil {
			_ = take(held, "somebody-else") // the operator may have been first; it loses it again
		}
	})
	s.later(func(ctx context.Context) error {
		release()
		holding.Wait()
		return take(ctx, "")
	})
	return nil
}
