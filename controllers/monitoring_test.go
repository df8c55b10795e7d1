package controllers

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/metrics"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// monitorCRD is what prometheus-operator installs for a kind, without its schema.
const monitorCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]ss.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {kind: %[1]s, listKind: %[1]sList, plural: %[2]ss, singular: %[2]s}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// requests counts what is asked of an API server, by verb and resource.
type requests struct {
	mu   sync.Mutex
	seen map[string]int
}

// wrap counts what goes through to behind.
func (r *requests) wrap(behind http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		verbs := map[string]string{http.MethodGet: "get", http.MethodPatch: "patch", http.MethodDelete: "delete", http.MethodPost: "create"}
		resource := ""
		for _, known := range []string{"deployments", "podmonitors", "prometheusrules", "monitoring.coreos.com"} {
			if resource == "" && strings.Contains(request.URL.Path, known) {
				resource = known
			}
		}
		if resource != "" {
			r.mu.Lock()
			r.seen[verbs[request.Method]+" "+resource]++
			r.mu.Unlock()
		}
		return behind.RoundTrip(request)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// monitored is a cluster on a real API server, and the requests that the operator makes for it.
type monitored struct {
	*shelf
	r       *MySQLClusterReconciler
	keys    *pki.Authority
	cache   *pass.Cache
	counted *requests
}

func newMonitored(t *testing.T) *monitored {
	t.Helper()
	m := &monitored{shelf: newShelf(t), counted: &requests{seen: map[string]int{}}}
	config := rest.CopyConfig(shared.config)
	config.Wrap(m.counted.wrap)
	own, err := client.New(config, client.Options{Scheme: testScheme()})
	must(t, err)
	m.r = NewMySQLClusterReconciler(pass.Ports{
		Client: cached{Client: own, kube: kube}, Reader: own, Clock: m.clock, Metrics: metrics.New(prometheus.NewRegistry()),
		Images: &pass.Images{Own: "operator:1", Client: pass.DefaultClientImage}, Events: m.shelf.r.Events,
	})
	m.keys, err = pki.NewAuthority(string(m.cluster.UID), "orders", m.clock.Now())
	must(t, err)
	m.cache = m.r.Caches.Of(client.ObjectKeyFromObject(m.cluster), pass.KeyOf(m.cluster.UID))
	return m
}

func (m *monitored) change(change func(*v1alpha1.MySQLClusterSpec)) {
	m.t.Helper()
	must(m.t, kube.Get(m.t.Context(), client.ObjectKeyFromObject(m.cluster), m.cluster))
	change(&m.cluster.Spec)
	must(m.t, kube.Update(m.t.Context(), m.cluster))
}

// pass does what a pass does about monitoring, and returns what it reports.
func (m *monitored) pass() (problems []string) {
	m.t.Helper()
	s := &pass.Pass{Cluster: m.cluster, Log: logr.Discard(), Cache: m.cache}
	s.Keys.Sign(m.keys)
	must(m.t, m.r.monitoring.Ensure(m.t.Context(), s))
	for _, p := range s.Result.Problems {
		problems = append(problems, p.Message)
	}
	for _, p := range s.Result.InTheWay {
		problems = append(problems, p.Message)
	}
	return problems
}

// quiet is a pass that reports nothing.
func (m *monitored) quiet() {
	m.t.Helper()
	if problems := m.pass(); len(problems) > 0 {
		m.t.Fatalf("reported: %v", problems)
	}
}

// install adds a kind of prometheus-operator's to the API server.
func (m *monitored) install(kind string) *unstructured.Unstructured {
	m.t.Helper()
	crd := &unstructured.Unstructured{}
	must(m.t, yaml.Unmarshal(fmt.Appendf(nil, monitorCRD, kind, strings.ToLower(kind)), &crd.Object))
	must(m.t, kube.Create(m.t.Context(), crd))
	m.t.Cleanup(func() { _ = kube.Delete(context.Background(), crd) })
	return crd
}

func (m *monitored) has(obj client.Object, name string) bool {
	m.t.Helper()
	err := kube.Get(m.t.Context(), client.ObjectKey{Namespace: m.namespace, Name: name}, obj)
	if meta.IsNoMatchError(err) {
		return false
	}
	must(m.t, client.IgnoreNotFound(err))
	return err == nil && obj.GetDeletionTimestamp().IsZero()
}

func (m *monitored) podMonitor() *unstructured.Unstructured {
	return m.monitor(resources.PodMonitorKind)
}

func (m *monitored) monitor(kind schema.GroupVersionKind) *unstructured.Unstructured {
	m.t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	if !m.has(u, "orders-metrics") {
		return nil
	}
	return u
}

func intervalOf(u *unstructured.Unstructured) string {
	endpoints, _, _ := unstructured.NestedSlice(u.Object, "spec", "podMetricsEndpoints")
	if len(endpoints) != 1 {
		return ""
	}
	return endpoints[0].(map[string]any)["interval"].(string)
}

// TestMonitoring: what exports metrics comes when the spec asks for it and goes when it does not; a PodMonitor is made only where the
// API server has the kind.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	m := newMonitored(t)
	m.quiet()
	if m.has(&appsv1.Deployment{}, "orders-metrics") {
		t.Fatal("a cluster that asks for nothing has a Deployment")
	}
	m.change(func(s *v1alpha1.MySQLClusterSpec) { s.Monitoring = &v1alpha1.MonitoringSpec{} })
	for range 20 {
		m.quiet()
	}
	var deployment appsv1.Deployment
	if !m.has(&deployment, "orders-metrics") || !m.has(&corev1.Secret{}, "orders-metrics-tls") {
		t.Fatal("there is no Deployment, or no Secret")
	}
	if arguments := strings.Join(deployment.Spec.Template.Spec.Containers[0].Args, " "); !strings.Contains(arguments, "--members=orders-0,orders-1,orders-2 ") || !strings.Contains(arguments, "InnoDB") {
		t.Errorf("its pod is run with %s", arguments)
	}
	if n := m.counted.seen["patch deployments"]; n != 1 {
		t.Errorf("20 passes wrote the Deployment %d times", n)
	}
	if n := m.counted.seen["get monitoring.coreos.com"]; n > 2 {
		t.Errorf("20 passes asked %d times for a kind that is not there", n)
	}

	crd := m.install("PodMonitor")
	m.comes("a PodMonitor after its kind", func() bool { return m.podMonitor() != nil })
	m.install("PrometheusRule")
	m.comes("alerts after their kind", func() bool { return m.monitor(resources.PrometheusRuleKind) != nil })
	if groups, _, _ := unstructured.NestedSlice(m.monitor(resources.PrometheusRuleKind).Object, "spec", "groups"); !strings.Contains(fmt.Sprint(groups...), fmt.Sprintf(`namespace=%q,cluster="orders"`, m.namespace)) {
		t.Errorf("the alerts are not the cluster's: %v", groups)
	}
	u := m.podMonitor()
	if !pass.OwnedBy(u, m.cluster) || intervalOf(u) != "30s" {
		t.Errorf("the PodMonitor is %v", u.Object)
	}
	before := m.counted.seen["patch podmonitors"]
	for range 20 {
		m.quiet()
	}
	if n := m.counted.seen["patch podmonitors"] - before; n != 0 {
		t.Errorf("20 passes wrote the PodMonitor %d times", n)
	}
	m.change(func(s *v1alpha1.MySQLClusterSpec) {
		s.Monitoring.Interval, s.Replicas = &metav1.Duration{Duration: time.Minute}, ptr.To[int32](1)
	})
	m.quiet()
	if intervalOf(m.podMonitor()) != "60s" {
		t.Error("another interval does not reach the PodMonitor")
	}
	must(t, kube.Get(t.Context(), client.ObjectKeyFromObject(&deployment), &deployment))
	if !slices.Contains(deployment.Spec.Template.Spec.Containers[0].Args, "--members=orders-0") {
		t.Error("another number of members does not reach the Deployment")
	}
	must(t, kube.Delete(t.Context(), u))
	m.comes("the PodMonitor again", func() bool { return m.podMonitor() != nil })

	m.change(func(s *v1alpha1.MySQLClusterSpec) { s.Hibernate = true })
	m.gone("a cluster that hibernates")
	m.change(func(s *v1alpha1.MySQLClusterSpec) { s.Hibernate = false })
	m.comes("all of it again", func() bool {
		return m.has(&appsv1.Deployment{}, "orders-metrics") && m.podMonitor() != nil && m.monitor(resources.PrometheusRuleKind) != nil
	})
	m.change(func(s *v1alpha1.MySQLClusterSpec) { s.Monitoring.Enabled = ptr.To(false) })
	m.gone("a cluster that is not to be monitored")

	// A kind that is taken away again is no trouble, and is not asked for in each pass.
	m.change(func(s *v1alpha1.MySQLClusterSpec) { s.Monitoring.Enabled = ptr.To(true) })
	m.comes("all of it once more", func() bool { return m.podMonitor() != nil })
	must(t, kube.Delete(t.Context(), crd))
	for deadline := time.Now().Add(patience); !apierrors.IsNotFound(kube.Get(t.Context(), client.ObjectKeyFromObject(crd), crd)); time.Sleep(watchPause) {
		if time.Now().After(deadline) {
			t.Fatal("the kind does not go")
		}
	}
	before = m.counted.seen["patch podmonitors"]
	for range 20 {
		m.clock.SetTime(m.clock.Now().Add(time.Minute))
		m.quiet()
	}
	if n := m.counted.seen["patch podmonitors"] - before; n > 3 {
		t.Errorf("within 20 minutes the operator tried %d times to write a PodMonitor", n)
	}
}

// comes has passes done, ten minutes apart, until something is there.
func (m *monitored) comes(what string, there func() bool) {
	m.t.Helper()
	for deadline := time.Now().Add(patience); !there(); time.Sleep(watchPause) {
		if time.Now().After(deadline) {
			m.t.Fatalf("waited in vain for %s", what)
		}
		m.clock.SetTime(m.clock.Now().Add(10 * time.Minute))
		m.quiet()
	}
}

// gone does a pass, and fails the test if it leaves something there.
func (m *monitored) gone(of string) {
	m.t.Helper()
	m.quiet()
	for name, obj := range map[string]client.Object{"orders-metrics": &appsv1.Deployment{}, "orders-metrics-tls": &corev1.Secret{}} {
		if m.has(obj, name) {
			m.t.Errorf("%s has a %T", of, obj)
		}
	}
	for _, kind := range []schema.GroupVersionKind{resources.PodMonitorKind, resources.PrometheusRuleKind} {
		if m.monitor(kind) != nil {
			m.t.Errorf("%s has a %s", of, kind.Kind)
		}
	}
}

// TestForeignMonitors: what somebody else made under the names is reported and stays as it is.
func TestForeignMonitors(t *testing.T) {
	t.Parallel()
	m := newMonitored(t)
	labels := map[string]string{"app": "other"}
	theirs := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: "orders-metrics"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "other", Image: "other:1"}}}},
	}}
	must(t, kube.Create(t.Context(), theirs))
	m.change(func(s *v1alpha1.MySQLClusterSpec) { s.Monitoring = &v1alpha1.MonitoringSpec{} })
	if problems := m.pass(); len(problems) != 1 || !strings.Contains(problems[0], "Deployment orders-metrics exists and does not belong to this cluster") {
		t.Errorf("reported: %v", problems)
	}
	m.change(func(s *v1alpha1.MySQLClusterSpec) { s.Monitoring = nil })
	m.quiet()
	var now appsv1.Deployment
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(theirs), &now); apierrors.IsNotFound(err) || now.UID != theirs.UID || now.Spec.Template.Spec.Containers[0].Image != "other:1" {
		t.Errorf("theirs was changed: %v", err)
	}
}

// TestAnExporterThatDoesNotRunIsReported: its metrics are missing, and no alert is made of what is missing.
func TestAnExporterThatDoesNotRunIsReported(t *testing.T) {
	m := newMonitored(t)
	m.change(func(spec *v1alpha1.MySQLClusterSpec) { spec.Monitoring = &v1alpha1.MonitoringSpec{} })
	m.quiet()
	for _, row := range []struct {
		since    time.Duration
		status   corev1.ConditionStatus
		reported bool
	}{{9 * time.Minute, corev1.ConditionFalse, false}, {11 * time.Minute, corev1.ConditionFalse, true}, {11 * time.Minute, corev1.ConditionTrue, false}} {
		var d appsv1.Deployment
		must(t, kube.Get(t.Context(), client.ObjectKey{Namespace: m.cluster.Namespace, Name: "orders-metrics"}, &d))
		d.Status.Conditions = []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentAvailable, Status: row.status, Reason: "Test", LastTransitionTime: metav1.NewTime(m.clock.Now().Add(-row.since)), LastUpdateTime: metav1.NewTime(m.clock.Now()),
		}}
		must(t, kube.Status().Update(t.Context(), &d))
		said := strings.Join(m.pass(), "; ")
		if strings.Contains(said, "Deployment orders-metrics has had no available pod since") != row.reported {
			t.Errorf("Available is %s for %s: %q", row.status, row.since, said)
		}
	}
}
