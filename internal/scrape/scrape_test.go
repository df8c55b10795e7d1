package scrape

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/build"
)

const (
	// startTimeout bounds the API server's start and end on a busy machine.
	startTimeout = 3 * time.Minute
	namespace    = "default"
)

// reviews counts the questions to the API server, by kind, and fails them while it is down.
type reviews struct {
	http.RoundTripper
	mu    sync.Mutex
	asked map[string]int
	most  int // at the same time
	now   int
	down  bool
}

func (r *reviews) RoundTrip(request *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.asked[request.URL.Path[strings.LastIndexByte(request.URL.Path, '/')+1:]]++
	r.now++
	r.most = max(r.most, r.now)
	down := r.down
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.now--
		r.mu.Unlock()
	}()
	if down {
		return nil, http.ErrServerClosed
	}
	return r.RoundTripper.RoundTrip(request)
}

func (r *reviews) take() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := r.asked
	r.asked = map[string]int{}
	return asked
}

// startAPIServer starts an API server with two accounts: both are known, and the first may read the metrics. It returns their tokens.
func startAPIServer(t *testing.T) (config *rest.Config, reader, other string) {
	t.Helper()
	assets, err := build.EnvtestAssets(t.Context())
	must(t, err)
	env := &envtest.Environment{BinaryAssetsDirectory: assets, ControlPlaneStartTimeout: startTimeout, ControlPlaneStopTimeout: startTimeout}
	config, err = env.Start()
	must(t, err)
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	ctx := t.Context()
	tokens := map[string]string{}
	for _, name := range []string{"reader", "other"} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := client.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{})
		must(t, err)
		answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		must(t, err)
		tokens[name] = answer.Status.Token
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "scraper"}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}}
	_, err = client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
	must(t, err)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "scraper"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "scraper"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "reader"}},
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	must(t, err)
	return config, tokens["reader"], tokens["other"]
}

// TestOnlyWhoMayReadsTheMetrics asks a real API server.
func TestOnlyWhoMayReadsTheMetrics(t *testing.T) {
	config, reader, other := startAPIServer(t)
	client, err := rest.HTTPClientFor(config)
	must(t, err)
	count := &reviews{RoundTripper: client.Transport, asked: map[string]int{}}
	client.Transport = count
	filter, err := Filter(config, client)
	must(t, err)
	handler, err := filter(logr.Discard(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "figures") }))
	must(t, err)
	get := func(method, path, authorization string) int {
		t.Helper()
		request := httptest.NewRequestWithContext(t.Context(), method, path, nil)
		if authorization != "" {
			request.Header.Set("Authorization", authorization)
		}
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if shown := strings.Contains(answer.Body.String(), "figures"); shown != (answer.Code == http.StatusOK) {
			t.Errorf("%s %s as %.20q: %d, figures shown: %t", method, path, authorization, answer.Code, shown)
		}
		return answer.Code
	}
	for _, row := range []struct {
		name, method, path, authorization string
		want                              int
		asked                             string // of the API server, the first time
	}{
		{"whoever may", http.MethodGet, "/metrics", "Bearer " + reader, http.StatusOK, "map[subjectaccessreviews:1 tokenreviews:1]"},
		{"the scheme in small letters, and more space", http.MethodGet, "/metrics", "bearer  " + reader, http.StatusOK, "map[]"},
		{"another path", http.MethodGet, "/debug/pprof/heap", "Bearer " + reader, http.StatusForbidden, "map[subjectaccessreviews:1]"},
		{"another verb", http.MethodPost, "/metrics", "Bearer " + reader, http.StatusForbidden, "map[subjectaccessreviews:1]"},
		{"somebody known", http.MethodGet, "/metrics", "Bearer " + other, http.StatusForbidden, "map[subjectaccessreviews:1 tokenreviews:1]"},
		{"somebody unknown", http.MethodGet, "/metrics", "Bearer nobody", http.StatusUnauthorized, "map[tokenreviews:1]"},
		{"another scheme", http.MethodGet, "/metrics", "Basic " + reader, http.StatusUnauthorized, "map[]"},
		{"a token alone", http.MethodGet, "/metrics", reader, http.StatusUnauthorized, "map[]"},
		{"an empty token", http.MethodGet, "/metrics", "Bearer ", http.StatusUnauthorized, "map[]"},
		{"nobody", http.MethodGet, "/metrics", "", http.StatusUnauthorized, "map[]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			count.take()
			for round, asked := range []string{row.asked, "map[]"} {
				if got := get(row.method, row.path, row.authorization); got != row.want {
					t.Errorf("round %d: %d, want %d", round, got, row.want)
				}
				if got := fmt.Sprint(count.take()); got != asked {
					t.Errorf("round %d: asked %s, want %s", round, got, asked)
				}
			}
		})
	}

	// Whoever tries one token after the other keeps the API server no busier than a few do.
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() { get(http.MethodGet, "/metrics", fmt.Sprintf("Bearer guess-%d", i)) })
	}
	group.Wait()
	if count.most > maxReviews {
		t.Errorf("%d questions at the same time", count.most)
	}

	// While nobody can be asked nobody new is let in, and those who were a moment ago still are.
	count.mu.Lock()
	count.down = true
	count.mu.Unlock()
	if got := get(http.MethodGet, "/metrics", "Bearer another"); got != http.StatusInternalServerError {
		t.Errorf("with the API server down somebody new gets %d", got)
	}
	if got := get(http.MethodGet, "/metrics", "Bearer "+reader); got != http.StatusOK {
		t.Errorf("with the API server down a reader of a moment ago gets %d", got)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
