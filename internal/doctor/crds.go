package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"k8s.io/client-go/discovery"
	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/config/crd"
)

// shownFields is how many fields a finding names.
const shownFields = 5

// definition is what matters of a CRD.
type definition struct {
	Spec struct {
		Names struct {
			Kind   string `json:"kind"`
			Plural string `json:"plural"`
		} `json:"names"`
		Versions []struct {
			Name   string `json:"name"`
			Schema struct {
				OpenAPI schema `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

// schema is what matters of an OpenAPI schema: which fields there are.
type schema struct {
	Properties           map[string]schema `json:"properties,omitempty"`
	Items                *schema           `json:"items,omitempty"`
	AdditionalProperties json.RawMessage   `json:"additionalProperties,omitempty"`
	Kinds                []struct {
		Group string `json:"group"`
		Kind  string `json:"kind"`
	} `json:"x-kubernetes-group-version-kind,omitempty"`
}

// fields adds the paths of all fields below a path.
func (s schema) fields(path string, to map[string]bool) {
	if s.Items != nil {
		s.Items.fields(path, to)
	}
	for name, p := range s.Properties {
		if path == "" && name == "metadata" {
			continue
		}
		at := strings.TrimPrefix(path+"."+name, ".")
		to[at] = true
		p.fields(at, to)
	}
}

// checkCRDs compares the fields that the API server serves with those of this build. Everybody may read the schema that it serves.
func checkCRDs(_ context.Context, d *Doctor) Finding {
	served, err := servedSchemas(d)
	if err != nil {
		return failed("install the CRDs of this release: kubectl apply --server-side -f crds.yaml (docs/install.md)", "the API server does not serve %s: %v", v1alpha1.GroupVersion, err)
	}
	own, err := ownSchemas()
	if err != nil {
		return failed("report it: the build is broken", "the CRDs of this build cannot be read: %v", err)
	}
	for _, kind := range slices.Sorted(maps.Keys(own)) {
		have, found := served[kind]
		if !found {
			return failed("install the CRDs of this release: kubectl apply --server-side -f crds.yaml (docs/install.md)", "the API server does not serve the kind %s of %s", kind, v1alpha1.GroupVersion)
		}
		if missing := beyond(own[kind], have); len(missing) > 0 {
			return failed("install the CRDs of this release, before its operator: kubectl apply --server-side -f crds.yaml (docs/install.md)",
				"the CRD of %s is older than this build: it lacks %s", kind, some(missing))
		}
		if more := beyond(have, own[kind]); len(more) > 0 {
			return warning("upgrade the operator to the release of the CRDs", "the CRD of %s is newer than this build: it has %s", kind, some(more))
		}
	}
	return ok("%s serves %s as this build has them", v1alpha1.GroupVersion, strings.Join(slices.Sorted(maps.Keys(own)), " and "))
}

// beyond are the fields of a that b lacks, in order.
func beyond(a, b map[string]bool) []string {
	var out []string
	for _, field := range slices.Sorted(maps.Keys(a)) {
		if !b[field] {
			out = append(out, field)
		}
	}
	return out
}

func some(all []string) string {
	if len(all) > shownFields {
		return fmt.Sprintf("%s and %d more fields", strings.Join(all[:shownFields], ", "), len(all)-shownFields)
	}
	return strings.Join(all, ", ")
}

// ownSchemas are the fields of each kind of this build.
func ownSchemas() (map[string]map[string]bool, error) {
	out := map[string]map[string]bool{}
	files, err := fs.Glob(crd.Bases, "bases/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := crd.Bases.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var c definition
		if err := yaml.Unmarshal(text, &c); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, v := range c.Spec.Versions {
			if v.Name == v1alpha1.GroupVersion.Version {
				out[c.Spec.Names.Kind] = map[string]bool{}
				v.Schema.OpenAPI.fields("", out[c.Spec.Names.Kind])
			}
		}
	}
	return out, nil
}

// servedSchemas are the fields of each kind of the API server.
func servedSchemas(d *Doctor) (map[string]map[string]bool, error) {
	discoverer, err := discovery.NewDiscoveryClientForConfig(d.Config)
	if err != nil {
		return nil, err
	}
	paths, err := discoverer.OpenAPIV3().Paths()
	if err != nil {
		return nil, err
	}
	group, found := paths["apis/"+v1alpha1.GroupVersion.String()]
	if !found {
		return nil, fmt.Errorf("there is no such API")
	}
	text, err := group.Schema("application/json")
	if err != nil {
		return nil, err
	}
	var document struct {
		Components struct {
			Schemas map[string]schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	out := map[string]map[string]bool{}
	for _, s := range document.Components.Schemas {
		for _, k := range s.Kinds {
			if k.Group == v1alpha1.GroupVersion.Group {
				out[k.Kind] = map[string]bool{}
				s.fields("", out[k.Kind])
			}
		}
	}
	return out, nil
}
