//go:build e2e

package olm_test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/olm"
)

// current reads the shared cluster.
func current(t *testing.T) *v1alpha1.MySQLCluster {
	t.Helper()
	var c v1alpha1.MySQLCluster
	if err := lab.Client.Get(t.Context(), orders, &c); err != nil {
		t.Fatal(err)
	}
	return &c
}

// sql runs a script in a client pod of the shared cluster.
func sql(t *testing.T, script string) string {
	t.Helper()
	out, err := lab.RunClient(t.Context(), orders, script)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// upgradeable is what a release of the operator tells OLM; nil while it has told nothing.
func upgradeable(t *testing.T, version string) *metav1.Condition {
	t.Helper()
	var condition operatorsv2.OperatorCondition
	if err := manager.Client.Get(t.Context(), client.ObjectKey{Namespace: subscription.Namespace, Name: olm.CSVName(version)}, &condition); err != nil {
		t.Fatal(err)
	}
	return meta.FindStatusCondition(condition.Spec.Conditions, operatorsv2.Upgradeable)
}

// waitFor polls until done or fails the test.
func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	if !eventually(t, done) {
		t.Fatalf("waited in vain for %s", what)
	}
}

// eventually polls until done, and says whether that came.
func eventually(t *testing.T, done func() bool) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), changeLimit)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Second):
		}
	}
	return true
}

// scrape reads the operator's metrics as a scraper that may, and as one that may not.
func scrape(t *testing.T) {
	t.Helper()
	namespace := v1alpha1.SystemNamespace
	for _, args := range [][]string{
		{"create", "serviceaccount", "scraper", "--namespace=" + namespace},
		{"create", "clusterrole", "nairobi-mysql-scraper", "--verb=get", "--non-resource-url=/metrics"},
		{"create", "clusterrolebinding", "nairobi-mysql-scraper", "--clusterrole=nairobi-mysql-scraper", "--serviceaccount=" + namespace + ":scraper"},
	} {
		if _, err := lab.Kubectl(t.Context(), "", args...); err != nil {
			t.Fatal(err)
		}
	}
	token, err := lab.Kubectl(t.Context(), "", "create", "token", "scraper", "--namespace="+namespace)
	if err != nil {
		t.Fatal(err)
	}
	var pods []corev1.Pod
	waitFor(t, "the pods of the version before to be gone", func() bool {
		pods, err = lab.OperatorPods(t.Context())
		return err == nil && len(pods) > 0 && !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	})
	for _, pod := range pods { // the one that leads, and the one that waits
		scrapePod(t, pod.Name, strings.TrimSpace(token))
	}
	if _, err := lab.Kubectl(t.Context(), "", "delete", "clusterrolebinding,clusterrole", "nairobi-mysql-scraper"); err != nil {
		t.Fatal(err)
	}
}

func scrapePod(t *testing.T, pod, token string) {
	t.Helper()
	address, stop, err := lab.Forward(t.Context(), v1alpha1.SystemNamespace, "pod/"+pod, 8443)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	status, metrics := get(t, address, token)
	if status != http.StatusOK || !strings.Contains(metrics, "mysqlcluster_build_info{") || !strings.Contains(metrics, `version="`+third+`"`) {
		t.Errorf("%s: %d: the metrics do not say which version runs:\n%.2000s", pod, status, metrics)
	}
	if status, text := get(t, address, "nobody"); status == http.StatusOK || strings.Contains(text, "mysqlcluster") {
		t.Errorf("somebody unknown gets %d and %q", status, text)
	}
}

func get(t *testing.T, address, token string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	// The operator makes this certificate anew at each start; who asks is checked, who answers is not.
	anybody := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // see above
	answer, err := anybody.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}
