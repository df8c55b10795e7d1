package manager

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/webhook"
)

const patience = time.Minute

// apiServer is as much of an API server as an operator needs to start: it has the kinds, and no objects. It notes what is
// listed and watched.
type apiServer struct {
	mu     sync.Mutex
	asked  map[string][]url.Values // by path
	closed chan struct{}
	held   map[string]chan struct{} // lists that are answered only when that is closed, by path
	leases []coordinationv1.Lease   // of all namespaces
	// allowed is what SubjectAccessReviews are answered.
	allowed bool
	// metrics are those of the operator that is put together for it.
	metrics *prometheus.Registry
}

// kinds are the resources by path of their group and version.
var kinds = map[string][]metav1.APIResource{
	"/api/v1": {
		{Name: "services", Kind: "Service", Namespaced: true}, {Name: "secrets", Kind: "Secret", Namespaced: true},
		{Name: "configmaps", Kind: "ConfigMap", Namespaced: true}, {Name: "serviceaccounts", Kind: "ServiceAccount", Namespaced: true},
	},
	"/apis/batch/v1":                     {{Name: "jobs", Kind: "Job", Namespaced: true}, {Name: "cronjobs", Kind: "CronJob", Namespaced: true}},
	"/apis/apps/v1":                      {{Name: "statefulsets", Kind: "StatefulSet", Namespaced: true}, {Name: "deployments", Kind: "Deployment", Namespaced: true}},
	"/apis/rbac.authorization.k8s.io/v1": {{Name: "roles", Kind: "Role", Namespaced: true}, {Name: "rolebindings", Kind: "RoleBinding", Namespaced: true}},
	"/apis/discovery.k8s.io/v1":          {{Name: "endpointslices", Kind: "EndpointSlice", Namespaced: true}},
	"/apis/mysql.alx.ke/v1alpha1":        {{Name: "mysqlclusters", Kind: "MySQLCluster", Namespaced: true}, {Name: "mysqlbackups", Kind: "MySQLBackup", Namespaced: true}},
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if resources, ok := kinds[r.URL.Path]; ok {
		version := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/"), "/api/")
		answer(w, metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version, APIResources: resources})
		return
	}
	s.mu.Lock()
	s.asked[r.URL.Path] = append(s.asked[r.URL.Path], r.URL.Query())
	s.mu.Unlock()
	if held := s.held[r.URL.Path]; held != nil {
		select {
		case <-held:
		case <-s.closed:
		}
	}
	if r.URL.Path == "/apis/coordination.k8s.io/v1/leases" {
		answer(w, coordinationv1.LeaseList{TypeMeta: metav1.TypeMeta{Kind: "LeaseList", APIVersion: "coordination.k8s.io/v1"}, Items: s.leases})
		return
	}
	if strings.HasSuffix(r.URL.Path, "/subjectaccessreviews") {
		answer(w, authorizationv1.SubjectAccessReview{TypeMeta: metav1.TypeMeta{Kind: "SubjectAccessReview", APIVersion: "authorization.k8s.io/v1"},
			Status: authorizationv1.SubjectAccessReviewStatus{Allowed: s.allowed}})
		return
	}
	if r.URL.Query().Get("watch") == "" {
		answer(w, map[string]any{"kind": "List", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": "1"}, "items": []any{}})
		return
	}
	if r.URL.Query().Get("sendInitialEvents") != "" {
		http.Error(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`, http.StatusUnprocessableEntity)
		return
	}
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	select {
	case <-r.Context().Done():
	case <-s.closed:
	}
}

func answer(w http.ResponseWriter, what any) { _ = json.NewEncoder(w).Encode(what) }

// listed returns what was asked of a path, lists and watches alike.
func (s *apiServer) listed(path string) []url.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[path]
}

// operator puts an operator together for an API server of its own.
func operator(t *testing.T, change ...func(*Options)) (*Operator, *apiServer) {
	registry := prometheus.NewRegistry()
	op, s := operatorWith(t, registry, change...)
	s.metrics = registry
	return op, s
}

// operatorWith puts it together with a registry.
func operatorWith(t *testing.T, registry prometheus.Registerer, change ...func(*Options)) (*Operator, *apiServer) {
	t.Helper()
	ctrllog.SetLogger(logr.Discard())
	s := &apiServer{asked: map[string][]url.Values{}, closed: make(chan struct{})}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(s.closed) })
	options := Options{
		Logger: logr.Discard(), Namespace: v1alpha1.SystemNamespace, ClusterDomain: "cluster.local", Workers: 1,
		MetricsAddress: "0", ProbeAddress: "0", WebhookCertificates: webhook.CertificatesNone,
		Surroundings: Surroundings{Registry: registry, Shared: true},
	}
	for _, c := range change {
		c(&options)
	}
	op, err := New(&rest.Config{Host: server.URL}, options)
	if err != nil {
		t.Fatal(err)
	}
	return op, s
}

// start runs an operator until the test ends.
func start(t *testing.T) *apiServer {
	t.Helper()
	op, s := operator(t)
	run(t, op)
	return s
}

// run runs an operator until the test ends.
func run(t *testing.T, op *Operator) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- op.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the operator ended with %v", err)
		}
	})
}

// TestUsersObjectsAreNotListed holds the caches to what is said of them: a Secret, ConfigMap, Service or EndpointSlice
// that is not the operator's own never comes near its memory.
func TestUsersObjectsAreNotListed(t *testing.T) {
	s := start(t)
	own := v1alpha1.LabelManagedBy + "=" + v1alpha1.FieldManager
	for path, selector := range map[string]string{
		"/api/v1/secrets": "labelSelector", "/api/v1/services": "labelSelector", "/api/v1/configmaps": "labelSelector",
		"/apis/discovery.k8s.io/v1/endpointslices":                       "labelSelector",
		"/api/v1/namespaces/" + v1alpha1.SystemNamespace + "/configmaps": "", // the policy, and what is a cluster's there
		"/apis/mysql.alx.ke/v1alpha1/mysqlclusters":                      "",
		"/apis/mysql.alx.ke/v1alpha1/mysqlbackups":                       "",
		"/apis/batch/v1/jobs":                                            "labelSelector",
		"/apis/batch/v1/cronjobs":                                        "labelSelector",
		"/api/v1/serviceaccounts":                                        "labelSelector",
		"/apis/rbac.authorization.k8s.io/v1/roles":                       "labelSelector",
		"/apis/rbac.authorization.k8s.io/v1/rolebindings":                "labelSelector",
	} {
		for began := time.Now(); len(s.listed(path)) == 0; time.Sleep(10 * time.Millisecond) {
			if time.Since(began) > patience {
				t.Fatalf("%s was never listed", path)
			}
		}
		for _, query := range s.listed(path) {
			if selector != "" && query.Get(selector) != own {
				t.Errorf("%s was asked for with %v", path, query)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for path := range s.asked {
		if strings.HasSuffix(path, "/secrets") && path != "/api/v1/secrets" {
			t.Errorf("%s was listed", path)
		}
	}
}

// TestCallsEndBeforeTheLeaseDoes holds the timings to the rule that a leader's last write to AWS, begun just before it
// finds that it cannot renew, is over when another may act.
func TestCallsEndBeforeTheLeaseDoes(t *testing.T) {
	if awsCallTimeout >= leaseDuration-renewDeadline {
		t.Errorf("a write may take %s, the lease leaves %s", awsCallTimeout, leaseDuration-renewDeadline)
	}
	if retryPeriod >= renewDeadline {
		t.Errorf("there is one try to renew in %s", renewDeadline)
	}
}

// TestNotReadyBeforeTheCachesAreFilled, each of them: the API server keeps the last list back.
func TestNotReadyBeforeTheCachesAreFilled(t *testing.T) {
	op, s := operator(t)
	s.held = map[string]chan struct{}{"/apis/rbac.authorization.k8s.io/v1/rolebindings": make(chan struct{})}
	synced := &cachesSynced{cache: op.manager.GetCache()}
	if synced.NeedLeaderElection() {
		t.Error("a follower would never be ready")
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = op.manager.GetCache().Start(ctx) })
	group.Go(func() { _ = synced.Start(ctx) })
	t.Cleanup(func() { cancel(); group.Wait() })
	until := func(what string, is func() bool) {
		t.Helper()
		for began := time.Now(); !is(); time.Sleep(10 * time.Millisecond) {
			if time.Since(began) > patience {
				t.Fatal(what)
			}
		}
	}
	for path := range s.held {
		until(path+" was never listed", func() bool { return len(s.listed(path)) > 0 })
	}
	if synced.check(nil) == nil {
		t.Error("ready although the role bindings were not read")
	}
	for _, held := range s.held {
		close(held)
	}
	until("never ready", func() bool { return synced.check(nil) == nil })
}

// TestWakeNeverBlocks: the prober calls it from its own goroutine, for any number of clusters at once.
func TestWakeNeverBlocks(t *testing.T) {
	op, _ := operator(t)
	op.Wake(types.NamespacedName{})
	if n := len(op.wake); n != 0 {
		t.Errorf("a cluster without a name is looked at %d times", n)
	}
	for range 2 * wakeLength {
		op.Wake(types.NamespacedName{Namespace: "shop", Name: "orders"})
	}
	if n := len(op.wake); n != wakeLength {
		t.Errorf("%d looks are due, want %d", n, wakeLength)
	}
}

// TestProgramLeavesOutWhatItDoesNotUse: with a template in the program, whose text may name any method, the linker has to keep every
// exported method of every type: EC2's client alone has more than two thousand, and the program was twice as large.
func TestProgramLeavesOutWhatItDoesNotUse(t *testing.T) {
	output, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "../..").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(output))
	if !slices.Contains(packages, "github.com/alx-ke/nairobi-mysql-operator/internal/manager") {
		t.Fatal("these are not the operator's packages")
	}
	for _, heavy := range []string{"text/template", "html/template"} {
		if slices.Contains(packages, heavy) {
			t.Errorf("something imports %s; `go mod why -m` and `go list -deps -f '{{.ImportPath}} {{.Imports}}' .` tell what", heavy)
		}
	}
}

// TestConfigMapsOfTheOperatorsNamespaceAreSeen: those of a cluster there as anywhere else, besides the policy.
func TestConfigMapsOfTheOperatorsNamespaceAreSeen(t *testing.T) {
	for object, by := range cacheOptions("nairobi-mysql-system").ByObject {
		if _, ok := object.(*corev1.ConfigMap); !ok {
			continue
		}
		there := by.Namespaces["nairobi-mysql-system"]
		own := labels.Set{v1alpha1.LabelManagedBy: v1alpha1.FieldManager}
		if !there.LabelSelector.Matches(own) || !there.LabelSelector.Matches(labels.Set{}) || there.FieldSelector != nil {
			t.Errorf("by label %v, by field %v", there.LabelSelector, there.FieldSelector)
		}
		return
	}
	t.Error("ConfigMaps are not restricted at all")
}

// TestMetricsSayWhoLeads: without an election the operator leads as soon as it runs.
func TestMetricsSayWhoLeads(t *testing.T) {
	leading := func(s *apiServer) float64 {
		families, err := s.metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() == "mysqlcluster_operator_leading" {
				return family.GetMetric()[0].GetGauge().GetValue()
			}
		}
		t.Fatal("there is no such metric")
		return -1
	}
	op, idle := operator(t)
	if got := leading(idle); got != 0 {
		t.Errorf("an operator that does not run reports %v", got)
	}
	op.pool.Close()
	op.prober.Close()
	s := start(t)
	for deadline := time.Now().Add(time.Minute); leading(s) != 1; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("an operator that runs is not reported")
		}
	}
}
