package publish

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/objects"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/probe"
)

// slicesOf are the EndpointSlices of a cluster.
var slicesOf = []string{"orders-primary", "orders-replicas", "orders"}

// shelf is a namespace with the EndpointSlices of a cluster, each with one endpoint.
type shelf struct {
	t *testing.T
	r *Publisher
	s *pass.Pass
	// dialled are the addresses that the probe dialled.
	dialled chan string
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, discoveryv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Date(2026, 11, 26, 14, 2, 30, 0, time.UTC)
	h := &shelf{t: t, dialled: make(chan string, 100)}
	prober := probe.NewProber(probe.ProberOptions{Pool: conn.Options{Dial: func(_ context.Context, _, address string) (net.Conn, error) {
		h.dialled <- address
		return nil, errors.New("nobody is there")
	}}})
	t.Cleanup(prober.Close)
	byName := func(o client.Object) []string { return []string{o.GetName()} }
	kube := fake.NewClientBuilder().WithScheme(scheme).
		WithIndex(&corev1.Service{}, metav1.ObjectNameField, byName).WithIndex(&discoveryv1.EndpointSlice{}, metav1.ObjectNameField, byName).Build()
	ports := &pass.Ports{Client: kube, Reader: kube, Clock: clocktesting.NewFakePassiveClock(now), Prober: prober, Config: pass.Config{ClusterDomain: "cluster.local"}}
	cluster := &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders", UID: "u1"}}
	cluster.DeletionTimestamp, cluster.Spec.DeletionProtection = &metav1.Time{Time: now}, ptr.To(false)
	h.r, h.s = &Publisher{Ports: ports, Objects: &objects.Objects{Ports: ports}}, &pass.Pass{Cluster: cluster, Cache: pass.NewCache("u1")}
	h.s.Observed.CloudReachable = true
	for _, name := range slicesOf {
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: map[string]string{v1alpha1.AnnotationClusterUID: "u1"}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
		}
		if err := kube.Create(t.Context(), slice); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// endpoints publishes, and returns how many endpoints each EndpointSlice has then.
func (h *shelf) endpoints() map[string]int {
	h.t.Helper()
	if err := h.r.Publish(h.t.Context(), h.s); err != nil {
		h.t.Fatal(err)
	}
	var list discoveryv1.EndpointSliceList
	if err := h.r.Client.List(h.t.Context(), &list); err != nil {
		h.t.Fatal(err)
	}
	count := map[string]int{}
	for _, slice := range list.Items {
		count[slice.Name] = len(slice.Endpoints)
	}
	return count
}

// TestADeletionWithdrawsTheEndpoints once EC2 is asked to end the instances. Until then the archive's pod finds the primary by them.
func TestADeletionWithdrawsTheEndpoints(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*pass.Pass)
		left   int
	}{
		"instances end":                         {func(*pass.Pass) {}, 0},
		"the archive's pod ends first":          {func(s *pass.Pass) { s.Backup.ArchiveEnds = true }, 1},
		"EC2 does not answer: nothing is ended": {func(s *pass.Pass) { s.Observed.CloudReachable = false }, 1},
		"the slices are somebody else's":        {func(s *pass.Pass) { s.Cluster.UID = "u2" }, 1},
	} {
		h := newShelf(t)
		row.change(h.s)
		for slice, left := range h.endpoints() {
			if left != row.left {
				t.Errorf("%s: %s has %d endpoints", name, slice, left)
			}
		}
	}
	h := newShelf(t)
	if err := h.r.Client.DeleteAllOf(t.Context(), &discoveryv1.EndpointSlice{}, client.InNamespace("shop")); err != nil {
		t.Fatal(err)
	}
	if made := h.endpoints(); len(made) != 0 {
		t.Errorf("what Kubernetes removed is made again: %v", made)
	}
}
