package controllers

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/leader"
	"github.com/alx-ke/nairobi-mysql-operator/internal/scrape"
	"github.com/alx-ke/nairobi-mysql-operator/test/scorecard/check"
)

// operatorUser is the user name of the operator's ServiceAccount. The API server of the tests takes it from a client certificate.
const operatorUser = "system:serviceaccount:" + v1alpha1.SystemNamespace + ":nairobi-mysql-controller-manager"

// auditPolicy records the operator's requests and no others.
const auditPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
  "rules": [{"level": "Metadata", "users": ["` + operatorUser + `"]}, {"level": "None"}]}`

// errNotCached is the answer to a read of a kind that the operator does not watch.
var errNotCached = errors.New("the operator reads this kind through its cache but does not watch it: add it to Watched, or use Reader")

// cached is the operator's client as its manager makes it: it writes with the operator's own grants and reads from caches. The tests
// have no caches, so the administrator reads instead; the grants to list and to watch are those of the manager's caches.
type cached struct {
	client.Client
	kube client.Client
}

// Get implements client.Client.
func (c cached) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := c.watched(obj); err != nil {
		return err
	}
	return c.kube.Get(ctx, key, obj, opts...)
}

// List implements client.Client.
func (c cached) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := c.watched(list); err != nil {
		return err
	}
	return c.kube.List(ctx, list, opts...)
}

// watched returns an error unless the operator has a cache of a kind.
func (c cached) watched(obj runtime.Object) error {
	kind, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		return err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	if !slices.ContainsFunc(Watched(), func(w client.Object) bool {
		known, err := apiutil.GVKForObject(w, c.Scheme())
		return err == nil && known == kind
	}) {
		return fmt.Errorf("%s: %w", kind, errNotCached)
	}
	return nil
}

// grant installs config/rbac, waits until it is in force, and returns its rules.
func grant(ctx context.Context, kube client.Client) ([]check.Granted, error) {
	if err := kube.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SystemNamespace}}); err != nil {
		return nil, err
	}
	var all []check.Granted
	for _, file := range []string{"service_account.yaml", "role.yaml", "role_binding.yaml"} {
		text, err := os.ReadFile(filepath.Join("..", "config", "rbac", file))
		if err != nil {
			return nil, err
		}
		for document := range strings.SplitSeq(strings.TrimPrefix(string(text), "---\n"), "\n---\n") {
			object, role := &unstructured.Unstructured{}, rbacv1.ClusterRole{}
			if err := errors.Join(yaml.Unmarshal([]byte(document), &object.Object), yaml.Unmarshal([]byte(document), &role)); err != nil {
				return nil, err
			}
			if err := kube.Create(ctx, object); err != nil {
				return nil, err
			}
			for _, rule := range role.Rules {
				all = append(all, check.Granted{Cluster: role.Kind == "ClusterRole", Rule: rule})
			}
		}
	}
	for _, granted := range all {
		for _, question := range granted.Reviews(v1alpha1.SystemNamespace) {
			if err := allowed(ctx, kube, question); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// allowed waits until the API server allows the operator a request.
func allowed(ctx context.Context, kube client.Client, question authorizationv1.ResourceAttributes) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(watchPause) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: operatorUser, ResourceAttributes: &question}}
		if err := kube.Create(ctx, review); err != nil {
			return err
		}
		if review.Status.Allowed {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("config/rbac grants the operator %+v, which the API server denies: %s", question, review.Status.Reason)
		}
	}
}

// everyTestRuns says whether the command line leaves no test out.
func everyTestRuns() bool {
	everything := true
	flag.Visit(func(f *flag.Flag) {
		everything = everything && !slices.Contains([]string{"test.run", "test.skip", "test.list", "test.short"}, f.Name)
	})
	return everything
}

// usedByAdmission are grants that an admission plug-in looks up while it handles a request. The audit log has no request for them.
// The plug-in is switched on here, so a test that needs one of these grants fails without it.
func usedByAdmission() map[check.Use]string {
	const owns, owned = "an object gets an owner of this kind", "an object of this kind gets its owner back: TestOrphanedObjectsAreTakenBack"
	return map[check.Use]string{
		{Group: v1alpha1.GroupVersion.Group, Resource: "mysqlclusters/finalizers", Verb: "update"}: owns,
		{Group: v1alpha1.GroupVersion.Group, Resource: "mysqlbackups/finalizers", Verb: "update"}:  owns,
		{Resource: "configmaps", Verb: "delete"}:                                                   owned,
		{Resource: "services", Verb: "delete"}:                                                     owned,
		{Resource: "serviceaccounts", Verb: "delete"}:                                              owned,
		{Group: rbacv1.GroupName, Resource: "roles", Verb: "delete"}:                               owned,
		{Group: rbacv1.GroupName, Resource: "rolebindings", Verb: "delete"}:                        owned,
	}
}

// TestProcessHasItsGrants: apart from the reconcilers, the operator elects a leader, sends events and asks who reads its metrics.
func TestProcessHasItsGrants(t *testing.T) {
	t.Parallel()
	lock, err := leader.New(shared.config, v1alpha1.SystemNamespace, leader.DefaultServiceAccount, true, clock.RealClock{})
	must(t, err)
	mgr, err := ctrl.NewManager(shared.config, ctrl.Options{
		Scheme: testScheme(), Metrics: server.Options{BindAddress: "0"}, LeaderElection: true, LeaderElectionResourceLockInterface: lock.Interface(), LeaderElectionReleaseOnCancel: true,
		// On a busy machine the leader may be late to renew.
		LeaseDuration: ptr.To(2 * patience), RenewDeadline: ptr.To(patience), RetryPeriod: ptr.To(time.Second),
	})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := mgr.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); running.Wait() })
	select {
	case <-mgr.Elected():
	case <-time.After(patience):
		t.Fatal("the manager did not become the leader")
	}
	must(t, lock.Check(t.Context()))

	// The second event of the same content is counted in the first one.
	account := &corev1.ServiceAccount{}
	must(t, kube.Get(t.Context(), client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: "nairobi-mysql-controller-manager"}, account))
	recorder := mgr.GetEventRecorder("nairobi-mysql-operator")
	counted := func() bool {
		recorder.Eventf(account, nil, corev1.EventTypeNormal, "Test", "Test", "repeated")
		var list eventsv1.EventList
		must(t, kube.List(t.Context(), &list, client.InNamespace(account.Namespace)))
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool { return e.Reason == "Test" && e.Series != nil })
	}
	for deadline := time.Now().Add(patience); !counted(); time.Sleep(watchPause) {
		if time.Now().After(deadline) {
			t.Fatal("a repeated event was not counted")
		}
	}

	token := &authenticationv1.TokenRequest{}
	must(t, kube.SubResource("token").Create(t.Context(), account, token))
	filter, err := scrape.Filter(shared.config, mgr.GetHTTPClient())
	must(t, err)
	handler, err := filter(logr.Discard(), http.NotFoundHandler())
	must(t, err)
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
	request.Header.Set("Authorization", "Bearer "+token.Status.Token)
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	if answer.Code != http.StatusForbidden {
		t.Errorf("whoever is known and may not read the metrics gets %d: %s", answer.Code, answer.Body)
	}
}
