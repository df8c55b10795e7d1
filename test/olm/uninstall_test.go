//go:build e2e

package olm_test

import (
	"os"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/manifests"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/olm"
	"github.com/alx-ke/nairobi-mysql-operator/test/scorecard/check"
)

// uninstall is the documented order (docs/install.md): clusters first, while there is an operator to take them away.
func uninstall(t *testing.T, csv string) {
	t.Helper()
	if err := lab.Delete(t.Context(), orders, changeLimit); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"delete", "subscription", olm.Package, "--namespace=" + subscription.Namespace},
		{"delete", "csv", csv, "--namespace=" + subscription.Namespace},
		{"delete", "namespace", subscription.Namespace},
		{"delete", "-k", lab.Root + "/config/crd"},
		{"delete", "operator", olm.Package + "." + subscription.Namespace},
		{"delete", "catalogsource", catalog.Name, "--namespace=" + catalog.Namespace},
	} {
		if out, err := lab.Kubectl(t.Context(), "", append(args, "--ignore-not-found", "--timeout=2m")...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}

// nothingIsLeft looks through everything that Kubernetes can list for the operator's name.
func nothingIsLeft(t *testing.T) {
	t.Helper()
	kinds, err := lab.Kubectl(t.Context(), "", "api-resources", "--verbs=list", "--output=name")
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	look := func() bool {
		left = nil
		for kind := range strings.FieldsSeq(kinds) {
			// Events tell of what was; they end by themselves.
			if strings.HasPrefix(kind, "events") {
				continue
			}
			out, err := lab.Kubectl(t.Context(), "", "get", kind, "--all-namespaces", "--ignore-not-found", "--no-headers",
				"--output=custom-columns=NAMESPACE:.metadata.namespace,NAME:.metadata.name")
			if err != nil && !strings.Contains(err.Error(), "doesn't have a resource type") {
				t.Fatal(err)
			}
			for line := range strings.Lines(out) {
				if strings.Contains(line, "nairobi-mysql") && !strings.Contains(line, scorecardNamespace) || strings.Contains(line, "mysql.alx.ke") {
					left = append(left, kind+": "+strings.TrimSpace(line))
				}
			}
		}
		return len(left) == 0
	}
	defer func() {
		for _, one := range left {
			t.Errorf("left behind: %s", one)
		}
	}()
	eventually(t, look)
}

func Test08LeastPrivilege(t *testing.T) {
	// What is never done in the life above: a user of the metrics who is authenticated and authorised.
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
	bundle, err := manifests.GetBundleFromDir(bundles[first])
	if err != nil {
		t.Fatal(err)
	}
	unseen := map[check.Use]string{
		{Group: "mysql.alx.ke", Resource: "mysqlclusters/finalizers", Verb: "update"}: "asked for by an admission plug-in that OpenShift has, not by a request",
		{Group: "events.k8s.io", Resource: "events", Verb: "patch"}:                   "counts an event that repeats while its object stays as it is, which is rare",
	}
	// A watch begins with what there is where the API server can do that (WatchList); with older ones it takes a list before.
	for use := range audit.Used {
		if use.Verb == "watch" {
			unseen[check.Use{Group: use.Group, Resource: use.Resource, Verb: "list"}] = "asked for with older API servers"
		}
	}
	for _, wrong := range check.LeastPrivilege(check.Permissions(bundle.CSV), audit, unseen) {
		t.Error(wrong)
	}
	t.Logf("%d kinds of requests: %v", len(audit.Used), audit.Used)
}

func Test09UninstallLeavesNothing(t *testing.T) {
	uninstall(t, olm.CSVName(second))
	if _, err := lab.Kubectl(t.Context(), "", "delete", "-k", lab.Root+"/config/scorecard/access", "--ignore-not-found"); err != nil {
		t.Fatal(err)
	}
	nothingIsLeft(t)
}
