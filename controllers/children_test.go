package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/objects"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// guarded is a client as the operator's is: it does not see Services without our label. It refuses to apply what refuse says.
type guarded struct {
	client.Client
	refuse  func(ac runtime.ApplyConfiguration) error
	refused int
}

// Get implements client.Client.
func (g *guarded) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := g.Client.Get(ctx, key, obj, opts...)
	if service, ok := obj.(*corev1.Service); ok && err == nil && service.Labels[v1alpha1.LabelManagedBy] != v1alpha1.FieldManager {
		*service = corev1.Service{}
		return apierrors.NewNotFound(schema.GroupResource{Resource: "services"}, key.Name)
	}
	return err
}

// Apply implements client.Client.
func (g *guarded) Apply(ctx context.Context, ac runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	if g.refuse != nil {
		if err := g.refuse(ac); err != nil {
			g.refused++
			return err
		}
	}
	return g.Client.Apply(ctx, ac, opts...)
}

// guard puts a guarded client before an operator's.
func guard(o *operator, refuse func(ac runtime.ApplyConfiguration) error) *guarded {
	g := &guarded{Client: o.Client, refuse: refuse}
	o.Client = g
	return g
}

// exists says whether an object of the cluster's namespace is there, and reads it.
func (w *world) exists(name string, obj client.Object) bool {
	w.t.Helper()
	err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: w.cluster.Namespace, Name: name}, obj)
	must(w.t, client.IgnoreNotFound(err))
	return err == nil
}

// admits waits until the API server would make an object, or refuse it: its admission learns of quotas by a watch, some time after
// they were written.
func admits(t *testing.T, object client.Object, want bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(watchPause) {
		probe, _ := object.DeepCopyObject().(client.Object)
		err := kube.Create(t.Context(), probe, client.DryRunAll)
		if err == nil && want || apierrors.IsForbidden(err) && !want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the API server's answer to %s %s is still: %v", object.GetNamespace(), object.GetName(), err)
		}
	}
}

// A quota of the namespace leaves no room for Services. That is reported in the API server's words, instances are launched all the
// same, and once there is room the Services are made soon.
func TestObjectsThatTheAPIServerRefuses(t *testing.T) {
	t.Parallel()
	var service *corev1.Service
	w := newWorld(t, func(c *v1alpha1.MySQLCluster) {
		none := corev1.ResourceList{corev1.ResourceServices: resource.MustParse("0")}
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: "small"}, Spec: corev1.ResourceQuotaSpec{Hard: none}}
		must(t, kube.Create(t.Context(), quota))
		quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none} // the quota controller is not part of this API server
		must(t, kube.Status().Update(t.Context(), quota))
		service = &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: "probe"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}
		admits(t, service, false)
	})
	o := w.newOperator(nil)
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "True/ObjectRefused", "Service orders-primary", "exceeded quota: small"))
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	if !w.exists("orders-replicas", &discoveryv1.EndpointSlice{}) || !w.exists("orders-app", &corev1.Secret{}) {
		t.Error("what the API server takes waits for what it refuses")
	}
	must(t, kube.Delete(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: "small"}}))
	admits(t, service, true)
	began := w.clock.Now()
	w.drive(o, patience, func() bool {
		return w.exists("orders-primary", &corev1.Service{}) && w.conditionHas(v1alpha1.ConditionDegraded, "False/")()
	})
	if took := w.clock.Since(began); took > objects.RefusalPauseMost+time.Minute {
		t.Errorf("it was tried again only after %s", took)
	}
}

// Somebody has a Service under the name of one of ours. It stays as it is and gets no endpoints; everything else is made.
func TestForeignServiceIsInNobodysWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	foreign := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: "orders-primary"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "shop"}, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	must(t, kube.Create(t.Context(), foreign))
	o := w.newOperator(nil)
	guard(o, nil)
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "True/ForeignResource", "Service orders-primary exists and does not belong to this cluster"))
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	var now corev1.Service
	if !w.exists("orders-primary", &now) || now.ResourceVersion != foreign.ResourceVersion {
		t.Errorf("the foreign Service was changed: %+v", now)
	}
	if w.exists("orders-primary", &discoveryv1.EndpointSlice{}) {
		t.Error("a foreign Service was given our endpoints")
	}
	for _, name := range []string{"orders", "orders-replicas"} {
		if !w.exists(name, &corev1.Service{}) || !w.exists(name, &discoveryv1.EndpointSlice{}) {
			t.Errorf("Service %s and its endpoints wait for the foreign one", name)
		}
	}
	result, err := w.pass(o)
	if err != nil || result.RequeueAfter > 30*time.Second {
		t.Errorf("the next pass is to follow in %s (%v)", result.RequeueAfter, err)
	}
	must(t, kube.Delete(t.Context(), foreign))
	w.drive(o, patience, func() bool {
		return w.exists("orders-primary", &discoveryv1.EndpointSlice{}) && w.exists("orders-primary", &now) && pass.OwnedBy(&now, w.cluster)
	})
}

// Endpoints follow a failover although the API server refuses the Services, or somebody made the primary's his own.
func TestEndpointsFollowAFailoverWhateverIsInTheWay(t *testing.T) {
	t.Parallel()
	for name, arrange := range map[string]func(w *world, g *guarded){
		"Services are refused": func(_ *world, g *guarded) {
			g.refuse = func(ac runtime.ApplyConfiguration) error {
				if _, ok := ac.(*corev1ac.ServiceApplyConfiguration); ok {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "orders", errors.New("denied by a policy"))
				}
				return nil
			}
		},
		"the primary's Service is somebody else's now": func(w *world, _ *guarded) {
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: "orders-primary"}}
			must(w.t, w.client.Delete(w.t.Context(), service))
			service.Spec.Ports = []corev1.ServicePort{{Port: 3306}}
			must(w.t, w.client.Create(w.t.Context(), service))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			o := w.newOperator(nil)
			g := guard(o, nil)
			primaryIs := func(primary int) {
				t.Helper()
				s := w.seen(o)
				must(t, o.identities.Identify(t.Context(), s))
				s.Plan = topology.Plan{Primary: fmt.Sprintf("orders-%d", primary)}
				for i := range members {
					role := v1alpha1.RoleReplica
					if i == primary {
						role = v1alpha1.RolePrimary
					}
					s.Plan.Members = append(s.Plan.Members, topology.View{Name: fmt.Sprintf("orders-%d", i), Address: fmt.Sprintf("10.0.0.%d", i+1), InService: true, Role: role})
				}
				must(t, o.publisher.Publish(t.Context(), s))
				var slice discoveryv1.EndpointSlice
				if !w.exists("orders-primary", &slice) || len(slice.Endpoints) != 1 || slice.Endpoints[0].Addresses[0] != fmt.Sprintf("10.0.0.%d", primary+1) || !s.Result.Published {
					t.Errorf("orders-%d is the primary, and published is %+v (%v)", primary, slice.Endpoints, s.Result.Published)
				}
			}
			primaryIs(0)
			arrange(w, g)
			o.Caches = pass.NewCaches() // what was applied before is not known any more
			for i := range 10 {
				primaryIs(i % members)
			}
			if g.refused > 3 {
				t.Errorf("the same 3 Services were tried %d times within no time", g.refused)
			}
		})
	}
}

// Records that cannot be written: nothing is done, and what is there is published.
func TestRecordsThatTheAPIServerRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	g := guard(o, func(ac runtime.ApplyConfiguration) error {
		if _, ok := ac.(*corev1ac.ConfigMapApplyConfiguration); ok {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "orders-members", errors.New("denied by a policy"))
		}
		return nil
	})
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "True/ObjectRefused", "orders-members", "denied by a policy"))
	w.follow(o, 5)
	if l := w.left(); len(l.instances)+len(l.volumes) != 0 {
		t.Errorf("made although nothing can be remembered: %+v", l)
	}
	if !w.exists("orders-primary", &corev1.Service{}) {
		t.Error("Services wait for the records")
	}
	g.refuse = nil
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
}

// Without a Secret that keeps the application's password, there is none; the members come up all the same.
func TestPasswordThatCannotBeKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	must(t, kube.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: "orders-app"}, StringData: map[string]string{"password": "foreign"}}))
	o := w.newOperator(nil)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	if !w.conditionHas(v1alpha1.ConditionDegraded, "True/ForeignResource", "Secret orders-app")() {
		t.Errorf("Degraded says %s", w.condition(v1alpha1.ConditionDegraded))
	}
}

// TestPasswordThatAPersonHandsOver: a Secret that was there before the cluster keeps its password and its type, and goes with the cluster.
func TestPasswordThatAPersonHandsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: "orders-app", Annotations: map[string]string{v1alpha1.AnnotationHandOverTo: "another"}},
		StringData: map[string]string{"password": "from before", "note": "kept"},
	}
	must(t, kube.Create(t.Context(), secret))
	o := w.newOperator(nil)
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "True/ForeignResource", "mysql.alx.ke/hand-over-to=orders"))
	before := secret.DeepCopy()
	secret.Annotations[v1alpha1.AnnotationHandOverTo] = "orders"
	must(t, kube.Patch(t.Context(), secret, client.MergeFrom(before)))
	w.drive(o, patience, func() bool {
		var now corev1.Secret
		must(t, kube.Get(t.Context(), client.ObjectKeyFromObject(secret), &now))
		if string(now.Data["password"]) != "from before" || string(now.Data["note"]) != "kept" || now.Type != corev1.SecretTypeOpaque {
			t.Fatalf("the Secret holds %q, type %s", now.Data, now.Type)
		}
		return metav1.IsControlledBy(&now, w.cluster) && string(now.Data["username"]) != "" && strings.Contains(string(now.Data["uri"]), "from%20before")
	})
	w.drive(o, patience, func() bool { return !w.conditionHas(v1alpha1.ConditionDegraded, "", "orders-app")() })
}

func TestWhatTheAPIServerRefuses(t *testing.T) {
	t.Parallel()
	services := schema.GroupResource{Resource: "services"}
	for name, row := range map[string]struct {
		err  error
		want bool
	}{
		"RBAC, a quota or a policy":           {apierrors.NewForbidden(services, "orders", errors.New("no")), true},
		"a webhook's own words":               {&apierrors.StatusError{ErrStatus: metav1.Status{Code: 400, Message: "admission webhook denied the request"}}, true},
		"invalid":                             {apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "orders", nil), true},
		"a webhook that does not answer":      {apierrors.NewInternalError(errors.New("failed calling webhook")), true},
		"an API server in trouble":            {apierrors.NewInternalError(errors.New("etcdserver: request timed out")), false},
		"a token that has just expired":       {apierrors.NewUnauthorized("Unauthorized"), false},
		"somebody was faster":                 {apierrors.NewConflict(services, "orders", errors.New("changed")), false},
		"gone":                                {apierrors.NewNotFound(services, "orders"), false},
		"too often":                           {apierrors.NewTooManyRequests("later", 1), false},
		"an API server that is being started": {apierrors.NewServiceUnavailable("later"), false},
		"no answer":                           {context.DeadlineExceeded, false},
	} {
		p := pass.AsProblem(fmt.Errorf("apply Service orders: %w", row.err))
		if got := p.InTheWay(); got != row.want {
			t.Errorf("%s: refused %v, want %v", name, got, row.want)
		}
		if row.want && (p.After <= 0 || p.After > time.Minute || !strings.HasPrefix(p.Message, "apply Service orders: ")) {
			t.Errorf("%s: %q is told, and it is tried again after %s", name, p.Message, p.After)
		}
	}
}
