package bundle_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/manifests"
	"sigs.k8s.io/yaml"
)

// TestOperatorHubGetsDigestsOnly lays the bundle out for a pull request, with the operator's image by its tag and by a digest.
func TestOperatorHubGetsDigestsOnly(t *testing.T) {
	csv := bundle(t).CSV
	image := csv.Annotations["containerImage"]
	lay := func(image string) (string, string, error) {
		t.Helper()
		from, to := t.TempDir(), t.TempDir()
		if err := os.CopyFS(from, os.DirFS(filepath.Join(root, "bundle"))); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(from, "manifests", "nairobi-mysql-operator.clusterserviceversion.yaml")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), csv.Annotations["containerImage"], image)), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), filepath.Join(root, "hack", "operatorhub.sh"), from, to).CombinedOutput() //nolint:gosec // our own script
		return filepath.Join(to, "operators", "nairobi-mysql-operator"), string(out), err
	}
	name, _, _ := strings.Cut(image, "@")
	tagged := name
	if !strings.Contains(filepath.Base(name), ":") {
		tagged += ":v" + csv.Spec.Version.String()
	}
	if _, out, err := lay(tagged); err == nil || !strings.Contains(out, "does not go by a digest") {
		t.Errorf("an image by its tag: %v, %s", err, out)
	}
	folder, out, err := lay(strings.TrimSuffix(tagged, ":v"+csv.Spec.Version.String()) + "@sha256:" + strings.Repeat("0a", 32))
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if laid, err := manifests.GetBundleFromDir(filepath.Join(folder, csv.Spec.Version.String())); err != nil || laid.CSV == nil || laid.CSV.Name != csv.Name {
		t.Errorf("there is no bundle of %s: %v", csv.Name, err)
	}
	var ci struct {
		UpdateGraph string   `json:"updateGraph"`
		Reviewers   []string `json:"reviewers"`
	}
	text, err := os.ReadFile(filepath.Join(folder, "ci.yaml"))
	if err != nil || yaml.UnmarshalStrict(text, &ci) != nil || ci.UpdateGraph != "replaces-mode" || len(ci.Reviewers) == 0 {
		t.Errorf("ci.yaml is %+v, %v", ci, err)
	}
}
