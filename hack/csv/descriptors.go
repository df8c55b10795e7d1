package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// describeKinds fills the owned kinds: every CRD must have an entry in the base, with the name for people and what
// belongs to an object of it, and every entry a CRD.
func describeKinds(spec object, objects []object) error {
	owned, ok := child(spec, "customresourcedefinitions")["owned"].([]any)
	if !ok {
		return errors.New("customresourcedefinitions.owned is missing")
	}
	entries := map[string]object{}
	for _, o := range owned {
		if entry, ok := o.(object); ok {
			entries[fmt.Sprint(entry["name"], " ", entry["version"])] = entry
		}
	}
	for _, o := range objects {
		if o["kind"] != "CustomResourceDefinition" {
			continue
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := convert(o, &crd); err != nil {
			return fmt.Errorf("read a CRD: %w", err)
		}
		for _, version := range crd.Spec.Versions {
			key := crd.Name + " " + version.Name
			entry := entries[key]
			if entry == nil {
				return fmt.Errorf("the ClusterServiceVersion does not own %s", key)
			}
			delete(entries, key)
			if err := describeKind(entry, crd.Spec.Names.Kind, version); err != nil {
				return fmt.Errorf("describe %s: %w", key, err)
			}
		}
	}
	if len(entries) > 0 {
		return fmt.Errorf("the base ClusterServiceVersion owns what is no CRD: %s", strings.Join(slices.Sorted(maps.Keys(entries)), ", "))
	}
	return nil
}

func describeKind(entry object, kind string, version apiextensionsv1.CustomResourceDefinitionVersion) error {
	if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
		return errors.New("it has no schema")
	}
	if entry["kind"] != kind || entry["displayName"] == nil || entry["resources"] == nil {
		return fmt.Errorf("the base ClusterServiceVersion, below config/manifests, must own kind %s with displayName and resources", kind)
	}
	schema := version.Schema.OpenAPIV3Schema
	entry["description"] = oneLine(schema.Description)
	for part, key := range map[string]string{"spec": "specDescriptors", "status": "statusDescriptors"} {
		root, ok := schema.Properties[part]
		if !ok {
			continue
		}
		w := walker{status: part == "status"}
		w.properties("", root)
		if len(w.undescribed) > 0 {
			return fmt.Errorf("these fields have no description in the Go type: %s", strings.Join(w.undescribed, ", "))
		}
		entry[key] = w.descriptors
	}
	return nil
}

// walker collects the descriptors of a schema, parents before children, by name.
type walker struct {
	status      bool
	descriptors []any
	undescribed []string
}

// properties visits what is below a path. An item of a list is written [0], as consoles expect it.
func (w *walker) properties(path string, schema apiextensionsv1.JSONSchemaProps) {
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		at := strings.TrimPrefix(path+"."+name, ".")
		field := schema.Properties[name]
		w.field(at, name, field)
		if isCondition(field) {
			continue // a console shows conditions as a table of its own
		}
		w.properties(at, field)
		if field.Items != nil && field.Items.Schema != nil {
			w.properties(at+"[0]", *field.Items.Schema)
		}
	}
}

func (w *walker) field(path, name string, schema apiextensionsv1.JSONSchemaProps) {
	if schema.Description == "" {
		w.undescribed = append(w.undescribed, path)
		return
	}
	descriptor := object{"path": path, "displayName": title(name), "description": oneLine(schema.Description)}
	if hints := w.hints(path, name, schema); len(hints) > 0 {
		descriptor["x-descriptors"] = hints
	}
	w.descriptors = append(w.descriptors, descriptor)
}

// Hints to a console about how to show a field, from OLM's list of descriptors.
const (
	ui   = "urn:alm:descriptor:com.tectonic.ui:"
	kube = "urn:alm:descriptor:io.kubernetes"
)

func (w *walker) hints(path, name string, schema apiextensionsv1.JSONSchemaProps) []any {
	switch {
	case w.status && isCondition(schema):
		return []any{kube + ".conditions"}
	case w.status && path == "phase":
		return []any{kube + ".phase"}
	case !w.status && path == "replicas":
		return []any{ui + "podCount"}
	case !w.status && strings.HasSuffix(name, "SecretRef"):
		return nil // its name, below, is the field to fill
	case !w.status && strings.HasSuffix(path, "SecretRef.name"):
		return []any{kube + ":Secret"}
	case w.status && schema.Type == "string":
		return []any{ui + "text"}
	case w.status:
		return nil
	case schema.Type == "boolean":
		return []any{ui + "booleanSwitch"}
	case schema.Type == "integer":
		return []any{ui + "number"}
	case len(schema.Enum) > 0:
		var choices []any
		for _, value := range schema.Enum {
			choices = append(choices, ui+"select:"+strings.Trim(string(value.Raw), `"`))
		}
		return choices
	case schema.Type == "string" || schema.XIntOrString:
		return []any{ui + "text"}
	default:
		return nil
	}
}

// isCondition recognises a list of metav1.Condition.
func isCondition(schema apiextensionsv1.JSONSchemaProps) bool {
	return schema.Items != nil && schema.Items.Schema != nil && schema.Items.Schema.Properties["lastTransitionTime"].Type == "string" &&
		schema.Items.Schema.Properties["reason"].Type == "string"
}

// oneLine joins the lines of a comment.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
