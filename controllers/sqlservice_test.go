package controllers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	discoveryv1ac "k8s.io/client-go/applyconfigurations/discovery/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// dialService dials as a pod does: the name of the primary Service leads to its endpoints, if both exist. An open connection outlives them.
func (w *sqlWorld) dialService(ctx context.Context, network, address string) (net.Conn, error) {
	if !strings.HasPrefix(address, "orders-primary.") {
		return w.farm.Dial(ctx, network, address)
	}
	var slice discoveryv1.EndpointSlice
	key := client.ObjectKey{Namespace: w.cluster.Namespace, Name: "orders-primary"}
	if err := errors.Join(w.client.Get(ctx, key, &corev1.Service{}), w.client.Get(ctx, key, &slice)); err != nil {
		return nil, fmt.Errorf("no such host: %w", err)
	}
	if len(slice.Endpoints) == 0 {
		return nil, errors.New("connection refused")
	}
	return w.farm.Dial(ctx, network, net.JoinHostPort(slice.Endpoints[0].Addresses[0], "3306"))
}

// TestAvailableFollowsTheService: mysqld takes writes all the time, over connections that are there already. Clients that connect by the
// Service do not get through while it is gone, or leads elsewhere, and the API server refuses to have that put right.
func TestAvailableFollowsTheService(t *testing.T) {
	t.Parallel()
	farm, err := mysqld.NewPrivateFarm(t.Context(), t.Output(), moto.VPCCIDR)
	must(t, err)
	t.Cleanup(func() { must(t, farm.Close()) })
	w := newSQLWorld(t, farm, func(c *v1alpha1.MySQLCluster) { c.Spec.Replicas = ptr.To[int32](1) })
	o := w.equip(&operator{}, nil, conn.Options{Dial: w.dialService})
	o.Config.ProbeThroughService = true
	var refuse atomic.Bool
	guard(o, func(ac runtime.ApplyConfiguration) error {
		_, service := ac.(*corev1ac.ServiceApplyConfiguration)
		_, slice := ac.(*discoveryv1ac.EndpointSliceApplyConfiguration)
		if refuse.Load() && (service || slice) {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "orders-primary", errors.New("exceeded quota: small"))
		}
		return nil
	})
	available := func(words ...string) {
		t.Helper()
		w.drive(o, sqlPatience, w.conditionHas(v1alpha1.ConditionAvailable, words...))
	}
	w.drive(o, sqlPatience, w.phaseIs(v1alpha1.PhaseReady))
	available("True/WriteSucceeded")

	refuse.Store(true)
	must(t, w.client.Delete(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: "orders-primary"}}))
	available("False/ObjectRefused", "Service orders-primary does not exist", "exceeded quota: small")
	if !w.conditionHas(v1alpha1.ConditionDegraded, "True/ObjectRefused")() || !w.conditionHas(v1alpha1.ConditionReady, "False/ObjectRefused")() {
		t.Errorf("Degraded is %s, Ready %s", w.condition(v1alpha1.ConditionDegraded), w.condition(v1alpha1.ConditionReady))
	}
	refuse.Store(false)
	available("True/WriteSucceeded")
	if !w.exists("orders-primary", &corev1.Service{}) {
		t.Error("Available is True without the Service")
	}

	refuse.Store(true)
	var slice discoveryv1.EndpointSlice
	w.exists("orders-primary", &slice)
	slice.Endpoints[0].Addresses = []string{"10.0.255.254"} // of nobody
	must(t, w.client.Update(t.Context(), &slice))
	available("False/WriteFailed", "the last write through the primary Service failed")
	refuse.Store(false)
	available("True/WriteSucceeded")
}
