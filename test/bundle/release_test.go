package bundle_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNextRelease makes the next release of a copy of the files that say the version. Nothing says the present version then but the
// catalog's template, whose channel replaces it.
func TestNextRelease(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile(`(?m)^VERSION \?= (.*)$`).FindSubmatch(makefile)
	if said == nil {
		t.Fatal("the Makefile says no version")
	}
	present, next := string(said[1]), "1000.0.0"
	files := []string{"Makefile", "config/manager/kustomization.yaml", "config/overlays/custom/kustomization.yaml", "config/samples/doctor.yaml", "docs/install.md"}
	folder, template := t.TempDir(), "catalog/template.yaml"
	for _, file := range append([]string{template, "hack/release.sh", "hack/version.sh"}, files...) {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(folder, file)), 0o750)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, file), text, 0o700) //nolint:gosec // two of them are scripts
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	script := func(name string, args ...string) error {
		return exec.CommandContext(t.Context(), filepath.Join(folder, "hack", name), args...).Run() //nolint:gosec // a script of the tree
	}
	for _, refused := range [][]string{{present, present}, {present, "0.0.1"}, {present, "v" + next}, {next, "1001.0.0"}} {
		if script("release.sh", refused...) == nil {
			t.Errorf("release.sh takes %v", refused)
		}
	}
	if err := script("release.sh", present, next); err != nil {
		t.Fatal(err)
	}
	if err := script("version.sh", next); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(folder, file)) //nolint:gosec // a file of the test
		if err != nil || !strings.Contains(string(text), next) || regexp.MustCompile(`\b`+regexp.QuoteMeta(present)+`\b`).Match(text) {
			t.Errorf("%s says %s, or not %s: %v", file, present, next, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(folder, template)) //nolint:gosec // a file of the test
	for _, want := range []string{
		"- name: nairobi-mysql-operator.v" + next + "\n        replaces: nairobi-mysql-operator.v" + present + "\n",
		"bundle:v" + present + "\n", "bundle:v" + next + "\n",
	} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("the template lacks %q: %v", want, err)
		}
	}
}
