package publish

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// newServed is a shelf of a cluster with a primary, to which its Service leads.
func newServed(t *testing.T) *shelf {
	t.Helper()
	h := newShelf(t)
	h.s.Cluster.DeletionTimestamp = nil
	h.r.Config.ProbeThroughService = true
	h.s.Plan.Primary = "orders-0"
	authority, err := pki.NewAuthority("u1", "orders", time.Now())
	h.do(err)
	cert, key, err := authority.IssueOperator(time.Now())
	h.do(err)
	h.s.Keys.Identity = mysql.Identity{CAPEM: authority.CertificatePEM(), CertPEM: cert, KeyPEM: key}
	h.s.Observed.Members = map[string]*topology.Member{"orders-0": {Instances: []topology.Instance{{ID: "i-0", State: "running", Address: "10.0.0.1"}}}}
	h.do(h.r.Client.Create(t.Context(), h.service("u1")))
	return h
}

func (h *shelf) service(uid string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders-primary", Annotations: map[string]string{v1alpha1.AnnotationClusterUID: uid}}}
}

func (h *shelf) do(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// change edits the EndpointSlice of the primary.
func (h *shelf) change(edit func(*discoveryv1.EndpointSlice)) {
	h.t.Helper()
	var slice discoveryv1.EndpointSlice
	h.do(h.r.Client.Get(h.t.Context(), client.ObjectKey{Namespace: "shop", Name: "orders-primary"}, &slice))
	edit(&slice)
	h.do(h.r.Client.Update(h.t.Context(), &slice))
}

func (h *shelf) delete(o client.Object) {
	h.t.Helper()
	o.SetNamespace("shop")
	o.SetName("orders-primary")
	h.do(h.r.Client.Delete(h.t.Context(), o))
}

// TestTheProbeGoesTheWayOfClients, and where that leads nowhere it is known why.
func TestTheProbeGoesTheWayOfClients(t *testing.T) {
	const through, direct = "orders-primary.shop.svc.cluster.local:3306", "10.0.0.1:3306"
	refused := &engine.Problem{Reason: v1alpha1.ReasonObjectRefused, Message: "exceeded quota: small"}
	for name, row := range map[string]struct {
		change  func(h *shelf)
		missing string // reason: message, in part; empty for nothing
		dials   string
	}{
		"the Service leads to the primary": {func(*shelf) {}, "", through},
		"an operator outside Kubernetes":   {func(h *shelf) { h.r.Config.ProbeThroughService = false }, "", direct},
		"there is no Service": {func(h *shelf) { h.delete(&corev1.Service{}) },
			"WriteFailed: Service orders-primary does not exist", direct},
		"it is refused": {func(h *shelf) {
			h.delete(&corev1.Service{})
			h.s.Cache.Published.Write.Refused = refused
		}, "ObjectRefused: Service orders-primary does not exist, so that clients do not find the primary. Put right what refuses it: exceeded quota: small", direct},
		"its namespace is being deleted": {func(h *shelf) {
			h.delete(&corev1.Service{})
			h.s.Keys.Leaving = true
		}, "DeletionProtected: Service orders-primary does not exist, and cannot be made again because the namespace shop", direct},
		"its namespace is being deleted, and it is still there":           {func(h *shelf) { h.s.Keys.Leaving = true }, "", through},
		"a Service that leads on, and a change of it was refused":         {func(h *shelf) { h.s.Cache.Published.Write.Refused = refused }, "", through},
		"the pass ended early: there is no plan, but there is no Service": {func(h *shelf) { h.delete(&corev1.Service{}); h.s.Plan.Primary = "" }, "WriteFailed: Service", ""},
		"it is to hibernate, and does not yet":                            {func(h *shelf) { h.s.Cluster.Spec.Hibernate = true }, "", through},
		"there is no EndpointSlice": {func(h *shelf) { h.delete(&discoveryv1.EndpointSlice{}) },
			"WriteFailed: EndpointSlice orders-primary does not exist", direct},
		"it has no endpoint": {func(h *shelf) { h.change(func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil }) },
			"WriteFailed: EndpointSlice orders-primary has no address that is ready", direct},
		"none that is ready": {func(h *shelf) {
			h.change(func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = ptr.To(false) })
		}, "WriteFailed: EndpointSlice orders-primary has no address that is ready", direct},
		"the Service is somebody else's: the probe finds out where it leads": {func(h *shelf) {
			h.delete(&corev1.Service{})
			h.delete(&discoveryv1.EndpointSlice{})
			h.do(h.r.Client.Create(h.t.Context(), h.service("u2")))
		}, "", through},
	} {
		t.Run(name, func(t *testing.T) {
			h := newServed(t)
			row.change(h)
			h.r.FollowClients(t.Context(), h.s)
			said := ""
			if f := h.s.Cache.Published.Write.Missing; f != nil {
				said = f.Reason + ": " + f.Message
			}
			if row.missing == "" && said != "" || !strings.HasPrefix(said, row.missing) {
				t.Errorf("it says %q, want %q", said, row.missing)
			}
			if row.dials == "" {
				return
			}
			select {
			case at := <-h.dialled:
				if at != row.dials {
					t.Errorf("the probe dials %s, want %s", at, row.dials)
				}
			case <-time.After(time.Minute):
				t.Error("the probe dials nobody")
			}
		})
	}
}

// TestWhatTheProbeWroteElsewhereIsForgotten once the Service leads to the primary again, and a change of where it leads is known.
func TestWhatTheProbeWroteElsewhereIsForgotten(t *testing.T) {
	h := newServed(t)
	follow := func() string {
		h.r.FollowClients(t.Context(), h.s)
		return h.s.Cache.Published.Write.Shown
	}
	first := follow()
	h.change(func(s *discoveryv1.EndpointSlice) { s.Labels = map[string]string{"of": "no matter"} })
	if follow() != first {
		t.Error("a label leads clients elsewhere")
	}
	h.change(func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"10.0.0.2"} })
	second := follow()
	if second == first {
		t.Error("another address leads clients nowhere else")
	}
	h.delete(&corev1.Service{})
	follow()
	for deadline := time.Now().Add(time.Minute); !h.r.Prober.Status(h.s.UID()).Probed; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no write ends")
		}
	}
	h.do(h.r.Client.Create(t.Context(), h.service("u1")))
	h.s.Plan.Primary = "" // so that the probe does not begin again
	if follow(); h.r.Prober.Status(h.s.UID()).Probed {
		t.Errorf("what it wrote at the primary's address counts for the Service: %+v", h.r.Prober.Status(h.s.UID()))
	}
}

// TestWhyTheWriteEndpointIsRefused: only what became of the primary's own objects counts.
func TestWhyTheWriteEndpointIsRefused(t *testing.T) {
	no, other := &engine.Problem{Message: "no"}, &engine.Problem{Message: "other"}
	f := refusal{primary: "orders-primary"}.of("orders", other, nil).of("orders-primary", nil, nil)
	if f.why != nil {
		t.Errorf("refused: %+v", f.why)
	}
	if f = f.of("orders-primary", no, nil).of("orders-primary", other, nil); f.why != no {
		t.Errorf("refused: %+v", f.why)
	}
	if f = (refusal{primary: "orders-primary"}).of("orders-primary", nil, pass.AsProblem(no)); f.why != no {
		t.Errorf("an error counts for nothing: %+v", f.why)
	}
}
