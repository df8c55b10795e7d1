package olm

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/build"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
)

// TestChart renders OLM's own chart, of the version that hack/tools pins.
func TestChart(t *testing.T) {
	builds, err := build.NewConfig(t.Output())
	if err != nil {
		t.Fatal(err)
	}
	o := &OLM{Lab: &deploy.Lab{Root: builds.RepoDir}}
	if err := o.findSources(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := renderChart(o.source, "1.2.3", values{"olm": values{"image": values{"ref": "example.com/olm:test"}}, "package": values{"replicaCount": 1}})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for document := range strings.SplitSeq(text, "\n---\n") {
		var object struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     map[string]any
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
		found[object.Kind+" "+object.Metadata.Name] = true
	}
	for _, want := range []string{
		"Namespace olm", "Namespace operators", "Deployment olm-operator", "Deployment catalog-operator", "ClusterServiceVersion packageserver",
		"OperatorGroup global-operators", "OperatorGroup olm-operators", "OLMConfig cluster", "ServiceAccount olm-operator-serviceaccount",
	} {
		if !found[want] {
			t.Errorf("there is no %s among %v", want, found)
		}
	}
	if !strings.Contains(text, "image: example.com/olm:test") || strings.Contains(text, "<no value>") || found["CatalogSource operatorhubio-catalog"] {
		t.Errorf("the values are not ours:\n%s", text)
	}
}
