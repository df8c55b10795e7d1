package manager

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// countingMapper counts what it is asked.
type countingMapper struct {
	meta.RESTMapper
	asked int
}

func (m *countingMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	m.asked++
	return m.RESTMapper.RESTMapping(kind, versions...)
}

// TestKindsAreMappedOnce: a kind that is known is not asked for again; one that is not is, each time, because it may come.
func TestKindsAreMappedOnce(t *testing.T) {
	version := schema.GroupVersion{Group: "example.com", Version: "v1"}
	there := meta.NewDefaultRESTMapper([]schema.GroupVersion{version})
	behind := &countingMapper{RESTMapper: there}
	m := &mapper{RESTMapper: behind}
	kind := version.WithKind("Thing")
	ask := func(versions ...string) (string, error) {
		found, err := m.RESTMapping(kind.GroupKind(), versions...)
		if err != nil {
			return "", err
		}
		return found.Resource.Resource, nil
	}
	for range 2 {
		if _, err := ask("v1"); !meta.IsNoMatchError(err) {
			t.Fatalf("a kind that is not there: %v", err)
		}
	}
	there.Add(kind, meta.RESTScopeNamespace)
	for range 3 {
		if resource, err := ask("v1"); err != nil || resource != "things" {
			t.Fatalf("%q: %v", resource, err)
		}
	}
	if behind.asked != 3 {
		t.Errorf("asked %d times", behind.asked)
	}
	if resource, err := ask(); err != nil || resource != "things" || behind.asked != 4 {
		t.Errorf("of any version: %q (%v), asked %d times", resource, err, behind.asked)
	}
	if _, err := ask("v2"); !meta.IsNoMatchError(err) {
		t.Errorf("a version that is not there: %v", err)
	}
}
