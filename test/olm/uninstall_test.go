//go:build e2e

package olm_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/olm"
	"github.com/alx-ke/nairobi-mysql-operator/test/scorecard/check"
)

// What the documented orders of uninstalling (docs/install.md) consist of.
var (
	ofTheOperator = [][]string{
		{"delete", "subscription", olm.Package, "--namespace=" + subscription.Namespace},
		{"delete", "csv", "--selector=operators.coreos.com/" + olm.Package + "." + subscription.Namespace, "--namespace=" + subscription.Namespace},
	}
	ofTheKind    = []string{"delete", "-k", "config/crd"}
	ofTheCatalog = []string{"delete", "catalogsource", catalog.Name, "--namespace=" + catalog.Namespace}
	// ofOLM is what OLM keeps of an operator that is gone: its namespace, what the Operator object collected, and a RoleBinding
	// that OLM makes for every operator with a webhook.
	ofOLM = [][]string{
		{"delete", "namespace", subscription.Namespace},
		{"delete", "operator", olm.Package + "." + subscription.Namespace},
		{"delete", "rolebinding", deploy.Deployment + "-service-auth-reader", "--namespace=kube-system"},
	}
)

// kubectl runs commands that delete things, in the repository's folder as the document does.
func kubectl(t *testing.T, commands ...[]string) {
	t.Helper()
	for _, args := range commands {
		cmd := exec.CommandContext(t.Context(), lab.KubectlPath(), append(args, "--ignore-not-found", "--timeout=2m")...)
		cmd.Dir, cmd.Env = lab.Root, append(os.Environ(), "KUBECONFIG="+lab.Kubeconfig)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("kubectl %v: %v\n%s", args, err, out)
		}
	}
}

// deleteClusters deletes every cluster that there is, also what a test before left behind.
func deleteClusters(t *testing.T) {
	t.Helper()
	var all v1alpha1.MySQLClusterList
	if err := lab.Client.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		if err := lab.Delete(t.Context(), client.ObjectKeyFromObject(&all.Items[i]), changeLimit); err != nil {
			t.Fatal(err)
		}
	}
}

// nothingIsLeft looks through everything that Kubernetes can list for the operator's name.
func nothingIsLeft(t *testing.T) {
	t.Helper()
	var left []string
	look := func() bool {
		left = nil
		kinds, err := lab.Kubectl(t.Context(), "", "api-resources", "--verbs=list", "--output=name")
		if err != nil {
			t.Fatal(err)
		}
		// Events tell of what was; they end by themselves.
		listed := slices.DeleteFunc(strings.Fields(kinds), func(kind string) bool { return strings.HasPrefix(kind, "events") })
		out, err := lab.Kubectl(t.Context(), "", "get", strings.Join(listed, ","), "--all-namespaces", "--ignore-not-found", "--no-headers",
			"--output=custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name")
		if err != nil && strings.Contains(err.Error(), "doesn't have a resource type") {
			return false // a kind went since the kinds were listed
		}
		if err != nil || !strings.Contains(out, "CustomResourceDefinition") {
			t.Fatalf("%v: not everything is listed:\n%s", err, out)
		}
		for line := range strings.Lines(out) {
			if strings.Contains(line, "nairobi-mysql") || strings.Contains(line, "mysql.alx.ke") {
				left = append(left, strings.TrimSpace(line))
			}
		}
		return len(left) == 0
	}
	defer func() {
		for _, one := range left {
			t.Errorf("left behind: %s", one)
		}
	}()
	if !eventually(t, look) && len(left) == 0 {
		t.Error("there was no time at which everything could be listed")
	}
}

// Test09MetricsAreServedAndNothingIsDenied: TestMain of controllers compares the grants of config/rbac with the operator's requests.
func Test09MetricsAreServedAndNothingIsDenied(t *testing.T) {
	scrape(t)
	log, err := os.Open(auditLog())
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	audit, err := check.ReadAudit(log, operatorUser)
	if err != nil {
		t.Fatal(err)
	}
	if len(audit.Used) == 0 {
		t.Error("the audit log has no request of the operator")
	}
	for _, wrong := range check.LeastPrivilege(nil, audit, nil) {
		t.Error(wrong)
	}
}

// Test10OperatorRemovedBeforeItsClusters makes the mistake that a document cannot prevent, and mends it: the operator goes
// while it still has a cluster, which then can neither be refused its deletion nor go.
func Test10OperatorRemovedBeforeItsClusters(t *testing.T) {
	kubectl(t, ofTheOperator...)
	waitFor(t, "the operator to be gone", func() bool {
		pods, err := lab.OperatorPods(t.Context())
		return apierrors.IsNotFound(err) || err == nil && len(pods) == 0
	})
	before := stand(t, orders)
	if err := lab.Client.Delete(t.Context(), current(t)); err != nil {
		t.Fatalf("without its webhook nobody refuses the deletion of a protected cluster: %v", err)
	}
	if current(t).DeletionTimestamp.IsZero() {
		t.Error("the cluster is not on its way out")
	}
	subscribe(t)
	if _, err := manager.WaitForCSV(t.Context(), client.ObjectKey{Namespace: subscription.Namespace, Name: olm.CSVName(third)}, installLimit); err != nil {
		t.Fatal(err)
	}
	hasLooked(t, third)
	// The protection holds, as it does against a deleted namespace: whoever wants the cluster gone says so.
	before.same(t, stand(t, orders))
}

func Test11UninstallLeavesNothing(t *testing.T) {
	deleteClusters(t)
	kubectl(t, ofTheOperator...)
	kubectl(t, ofTheKind, ofTheCatalog)
	kubectl(t, ofOLM...)
	kubectl(t, []string{"delete", "-k", "config/scorecard/access"})
	nothingIsLeft(t)
}
