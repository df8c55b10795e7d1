package manager

import (
	"fmt"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// mapper remembers which resource a kind is. The one behind it knows too, and makes a tenth of a look's garbage each time
// to say so: reading a ConfigMap from the cache asks it.
type mapper struct {
	meta.RESTMapper
	known sync.Map // *meta.RESTMapping by schema.GroupVersionKind
}

// newMapper is what a manager takes a mapper from.
func newMapper(config *rest.Config, client *http.Client) (meta.RESTMapper, error) {
	behind, err := apiutil.NewDynamicRESTMapper(config, client)
	if err != nil {
		return nil, fmt.Errorf("map kinds to resources: %w", err)
	}
	return &mapper{RESTMapper: behind}, nil
}

// RESTMapping implements meta.RESTMapper. What is not known is asked for each time; a kind of one version stays what it is.
func (m *mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if len(versions) != 1 || versions[0] == "" {
		return m.RESTMapper.RESTMapping(kind, versions...) //nolint:wrapcheck // for its own callers, who look for NoMatch
	}
	key := kind.WithVersion(versions[0])
	if found, ok := m.known.Load(key); ok {
		return found.(*meta.RESTMapping), nil //nolint:forcetypeassert // nothing else is put there
	}
	found, err := m.RESTMapper.RESTMapping(kind, versions...)
	if err == nil {
		m.known.Store(key, found)
	}
	return found, err //nolint:wrapcheck // as above
}
