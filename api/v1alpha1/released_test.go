package v1alpha1_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// TestWhatTheReleaseStoredIsStillValid has the API server judge the samples of the last release by the present CRDs, as they are: no Go type
// reads them on the way. A field that is gone, and a rule that is stricter, refuses them.
func TestWhatTheReleaseStoredIsStillValid(t *testing.T) {
	admin := api(t)
	files, err := filepath.Glob(filepath.Join("..", "..", "config", "crd", "released", "samples", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	strict := client.FieldValidation(metav1.FieldValidationStrict)
	withStatus := false
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &object.Object); err != nil {
			t.Fatal(err)
		}
		object.SetNamespace(metav1.NamespaceDefault)
		object.SetName("released-" + strings.NewReplacer("_", "-").Replace(name))
		status, has := object.Object["status"]
		if err := admin.Create(t.Context(), object, strict); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		t.Cleanup(func() { _ = admin.Delete(context.WithoutCancel(t.Context()), object) })
		if !has {
			continue
		}
		withStatus = true
		object.Object["status"] = status
		if err := admin.Status().Update(t.Context(), object, strict); err != nil {
			t.Errorf("the status of %s: %v", name, err)
		}
	}
	if !withStatus {
		t.Error("no sample has a status")
	}
}
