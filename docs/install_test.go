package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// heredocs are the manifests that a document has a reader apply.
var heredocs = regexp.MustCompile(`(?s)<<'YAML'\n(.*?)\nYAML\n`)

// clusterCatalog is what is checked of a ClusterCatalog of OLM v1.
type clusterCatalog struct {
	Spec struct {
		Source struct {
			Image struct {
				Ref                 string `json:"ref"`
				PollIntervalMinutes int    `json:"pollIntervalMinutes"`
			} `json:"image"`
		} `json:"source"`
	} `json:"spec"`
}

// TestRemovalUnderOLMv1NamesEveryKind of what the bundle has installed, but for the CRDs: what stays of it meets the next installation, and a
// webhook's configuration without pods refuses every deletion.
func TestRemovalUnderOLMv1NamesEveryKind(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "install.md"), "### Remove it under OLM v1")
	section, _, _ = strings.Cut(section, "\n### ")
	removed := map[string]bool{}
	for _, command := range regexp.MustCompile(`kubectl .*delete ([a-z,]+) --selector \$left`).FindAllStringSubmatch(section, -1) {
		for _, kind := range strings.Split(command[1], ",") {
			removed[kind] = true
		}
	}
	// What OLM makes of a CSV: of its deployments, permissions and webhooks.
	kinds := []string{"deployment", "serviceaccount", "role", "rolebinding", "clusterrole", "clusterrolebinding", "service", "validatingwebhookconfiguration", "certificate", "issuer"}
	files, err := filepath.Glob("../bundle/manifests/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d manifests of the bundle: %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(data, &kind); err != nil {
			t.Fatal(err)
		}
		if kind.Kind != "CustomResourceDefinition" && kind.Kind != operatorsv1alpha1.ClusterServiceVersionKind {
			kinds = append(kinds, strings.ToLower(kind.Kind))
		}
	}
	for _, kind := range kinds {
		if !removed[kind] {
			t.Errorf("a %s stays", kind)
		}
	}
}

// TestCatalogsAreLookedForAgain: OLM reads a catalog once unless its manifest says how often to look for a newer image under its tag. Then no
// upgrade ever arrives.
func TestCatalogsAreLookedForAgain(t *testing.T) {
	found := map[string]int{}
	for _, block := range heredocs.FindAllStringSubmatch(read(t, "install.md"), -1) {
		for _, manifest := range strings.Split(block[1], "\n---\n") {
			var kind metav1.TypeMeta
			if err := yaml.Unmarshal([]byte(manifest), &kind); err != nil {
				t.Fatalf("%v in\n%s", err, manifest)
			}
			found[kind.Kind]++
			switch kind.Kind {
			case operatorsv1alpha1.CatalogSourceKind:
				var source operatorsv1alpha1.CatalogSource
				if err := yaml.UnmarshalStrict([]byte(manifest), &source); err != nil {
					t.Error(err)
				}
				if !source.Poll() || source.Spec.UpdateStrategy.Interval.Duration <= 0 || source.Spec.UpdateStrategy.ParsingError != "" {
					t.Errorf("the CatalogSource does not poll: %+v", source.Spec.UpdateStrategy)
				}
			case "ClusterCatalog":
				var catalog clusterCatalog
				if err := yaml.Unmarshal([]byte(manifest), &catalog); err != nil {
					t.Error(err)
				}
				if image := catalog.Spec.Source.Image; image.PollIntervalMinutes <= 0 || strings.Contains(image.Ref, "@") {
					t.Errorf("the ClusterCatalog does not poll: %+v", image)
				}
			}
		}
	}
	if found[operatorsv1alpha1.CatalogSourceKind] != 1 || found["ClusterCatalog"] != 1 {
		t.Errorf("found %v", found)
	}
}
