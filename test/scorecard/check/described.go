// Package check holds what our scorecard tests judge. Each check returns what is wrong, in words that say what to do;
// nothing means that all is well.
package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/manifests"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Described compares the descriptors of each owned kind with its schema, both ways. part is "spec" or "status".
func Described(bundle *manifests.Bundle, part string) []string {
	var wrong []string
	for _, crd := range bundle.V1CRDs {
		for _, version := range crd.Spec.Versions {
			owned := ownedKind(bundle.CSV, crd.Name, version.Name)
			if owned == nil {
				wrong = append(wrong, fmt.Sprintf("the ClusterServiceVersion does not own %s %s: add it below config/manifests and run `make bundle`", crd.Name, version.Name))
				continue
			}
			want := Paths(version.Schema.OpenAPIV3Schema.Properties[part])
			wrong = append(wrong, compare(crd.Spec.Names.Kind+"."+part, want, descriptors(owned, part))...)
		}
	}
	return wrong
}

func ownedKind(csv *operatorsv1alpha1.ClusterServiceVersion, name, version string) *operatorsv1alpha1.CRDDescription {
	for i, owned := range csv.Spec.CustomResourceDefinitions.Owned {
		if owned.Name == name && owned.Version == version {
			return &csv.Spec.CustomResourceDefinitions.Owned[i]
		}
	}
	return nil
}

// descriptors are the paths that have a name for people and a description.
func descriptors(owned *operatorsv1alpha1.CRDDescription, part string) []string {
	var found []string
	add := func(path, name, description string) {
		if name != "" && description != "" {
			found = append(found, path)
		}
	}
	if part == "spec" {
		for _, d := range owned.SpecDescriptors {
			add(d.Path, d.DisplayName, d.Description)
		}
		return found
	}
	for _, d := range owned.StatusDescriptors {
		add(d.Path, d.DisplayName, d.Description)
	}
	return found
}

func compare(what string, want, got []string) []string {
	var wrong []string
	for _, path := range want {
		if !slices.Contains(got, path) {
			wrong = append(wrong, fmt.Sprintf("%s.%s has no descriptor with a name and a description: describe the field in the Go type and run `make bundle`", what, path))
		}
	}
	for _, path := range got {
		if !slices.Contains(want, path) {
			wrong = append(wrong, fmt.Sprintf("%s.%s has a descriptor, but is not in the schema: run `make bundle`", what, path))
		}
	}
	return wrong
}

// Paths lists the fields of a schema as descriptors call them. What a condition consists of is Kubernetes'.
func Paths(schema apiextensionsv1.JSONSchemaProps) []string {
	found := paths("", schema)
	slices.Sort(found)
	return found
}

func paths(at string, schema apiextensionsv1.JSONSchemaProps) []string {
	var found []string
	for name, field := range schema.Properties {
		path := strings.TrimPrefix(at+"."+name, ".")
		found = append(found, path)
		if name == "conditions" {
			continue
		}
		found = append(found, paths(path, field)...)
		if field.Items != nil && field.Items.Schema != nil {
			found = append(found, paths(path+"[0]", *field.Items.Schema)...)
		}
	}
	return found
}
