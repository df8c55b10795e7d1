package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
)

// Breaking lists the changes of a CRD with which an object that was valid is refused or loses a field, or a client no longer works. Rules
// in CEL are not compared: whether one refuses more than before is tried with the stored samples of the release (api/v1alpha1).
func Breaking(old, now *apiextensionsv1.CustomResourceDefinition) []string {
	var found []string
	if old.Spec.Scope != now.Spec.Scope {
		found = append(found, fmt.Sprintf("the scope was %s and is %s", old.Spec.Scope, now.Spec.Scope))
	}
	found = append(found, names(old.Spec.Names, now.Spec.Names)...)
	found = append(found, storage(old, now)...)
	for _, version := range old.Spec.Versions {
		at := slices.IndexFunc(now.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version.Name })
		if at < 0 || version.Served && !now.Spec.Versions[at].Served {
			found = append(found, fmt.Sprintf("version %s is no longer served", version.Name))
			continue
		}
		c := comparison{}
		c.endpoints(version.Name, version, now.Spec.Versions[at])
		c.schema(version.Name, *version.Schema.OpenAPIV3Schema, *now.Spec.Versions[at].Schema.OpenAPIV3Schema)
		found = append(found, c...)
	}
	return found
}

// names compares what clients and people call the kind.
func names(old, now apiextensionsv1.CustomResourceDefinitionNames) (found []string) {
	for _, name := range []struct{ what, old, now string }{
		{"kind", old.Kind, now.Kind}, {"kind of lists", old.ListKind, now.ListKind}, {"plural", old.Plural, now.Plural}, {"singular", old.Singular, now.Singular},
	} {
		if name.old != name.now {
			found = append(found, fmt.Sprintf("the %s was %s and is %s", name.what, name.old, name.now))
		}
	}
	for _, name := range old.ShortNames {
		if !slices.Contains(now.ShortNames, name) {
			found = append(found, fmt.Sprintf("the short name %s is gone", name))
		}
	}
	for _, name := range old.Categories {
		if !slices.Contains(now.Categories, name) {
			found = append(found, fmt.Sprintf("it is no longer in the category %s", name))
		}
	}
	return found
}

// storage finds a version in which objects are stored and which the release did not have: there is no way back to it then.
func storage(old, now *apiextensionsv1.CustomResourceDefinition) []string {
	for _, version := range now.Spec.Versions {
		known := slices.ContainsFunc(old.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version.Name })
		if version.Storage && !known {
			return []string{fmt.Sprintf("objects are stored as %s, which the release does not have", version.Name)}
		}
	}
	return nil
}

// ChangedRules lists the fields of which the rules in CEL are others than before. OLM v1 refuses an upgrade with such a change, whatever it
// is. A field that is new or gone is not listed.
func ChangedRules(old, now *apiextensionsv1.CustomResourceDefinition) []string {
	before, after := rulesOf(old), rulesOf(now)
	var changed []string
	for _, path := range slices.Sorted(maps.Keys(before)) {
		if rules, there := after[path]; there && !equality.Semantic.DeepEqual(before[path], rules) {
			changed = append(changed, path)
		}
	}
	return changed
}

// rulesOf returns the rules in CEL of each field, also of those that have none.
func rulesOf(crd *apiextensionsv1.CustomResourceDefinition) map[string]apiextensionsv1.ValidationRules {
	all := map[string]apiextensionsv1.ValidationRules{}
	var collect func(path string, schema apiextensionsv1.JSONSchemaProps)
	collect = func(path string, schema apiextensionsv1.JSONSchemaProps) {
		all[path] = schema.XValidations
		for name, property := range schema.Properties {
			collect(path+"."+name, property)
		}
		if schema.Items != nil && schema.Items.Schema != nil {
			collect(path+"[]", *schema.Items.Schema)
		}
		if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
			collect(path+"{}", *schema.AdditionalProperties.Schema)
		}
	}
	for _, version := range crd.Spec.Versions {
		collect(version.Name, *version.Schema.OpenAPIV3Schema)
	}
	return all
}

// comparison collects what two schemas differ in.
type comparison []string

func (c *comparison) add(path, format string, a ...any) {
	*c = append(*c, path+": "+fmt.Sprintf(format, a...))
}

// endpoints compares through what clients read and write besides the object itself, and by which fields they select. Printed columns may
// change.
func (c *comparison) endpoints(path string, old, now apiextensionsv1.CustomResourceDefinitionVersion) {
	before, after := ptr.Deref(old.Subresources, apiextensionsv1.CustomResourceSubresources{}), ptr.Deref(now.Subresources, apiextensionsv1.CustomResourceSubresources{})
	if (before.Status == nil) != (after.Status == nil) {
		c.add(path, "the status was written through an endpoint of its own: %t, and is: %t", before.Status != nil, after.Status != nil)
	}
	if before.Scale != nil && !equality.Semantic.DeepEqual(before.Scale, after.Scale) {
		c.add(path, "what is read and written through scale is another")
	}
	for _, field := range old.SelectableFields {
		if !slices.Contains(now.SelectableFields, field) {
			c.add(path, "nobody can select by %s any more", field.JSONPath)
		}
	}
}

// schema compares a schema and all that is in it.
func (c *comparison) schema(path string, old, now apiextensionsv1.JSONSchemaProps) {
	if old.Type != now.Type || old.Format != now.Format {
		c.add(path, "the type was %q %q and is %q %q", old.Type, old.Format, now.Type, now.Format)
	}
	if old.Nullable && !now.Nullable {
		c.add(path, "null is no longer accepted")
	}
	if text(old.Default) != text(now.Default) {
		c.add(path, "the default was %s and is %s", text(old.Default), text(now.Default))
	}
	if ptr.Deref(old.XPreserveUnknownFields, false) && !ptr.Deref(now.XPreserveUnknownFields, false) {
		c.add(path, "unknown fields are no longer kept")
	}
	if old.XIntOrString && !now.XIntOrString {
		c.add(path, "it may no longer be a number or a text")
	}
	if ptr.Deref(old.XMapType, "granular") != ptr.Deref(now.XMapType, "granular") {
		c.add(path, "the type of the map is another: whose fields are whose changes")
	}
	if old.AdditionalProperties != nil && now.AdditionalProperties == nil && !ptr.Deref(now.XPreserveUnknownFields, false) {
		c.add(path, "keys of all kinds are no longer kept")
	}
	c.values(path, old, now)
	c.bounds(path, old, now)
	for _, name := range now.Required {
		if !slices.Contains(old.Required, name) {
			c.add(path+"."+name, "the field is required now")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old.Properties)) {
		if property, there := now.Properties[name]; there {
			c.schema(path+"."+name, old.Properties[name], property)
		} else {
			c.add(path+"."+name, "the field is gone")
		}
	}
	if old.Items != nil && now.Items != nil && old.Items.Schema != nil && now.Items.Schema != nil {
		c.schema(path+"[]", *old.Items.Schema, *now.Items.Schema)
	}
	if old.AdditionalProperties != nil && old.AdditionalProperties.Schema != nil && now.AdditionalProperties != nil && now.AdditionalProperties.Schema != nil {
		c.schema(path+"{}", *old.AdditionalProperties.Schema, *now.AdditionalProperties.Schema)
	}
}

// values compares which values are listed, and the pattern of others.
func (c *comparison) values(path string, old, now apiextensionsv1.JSONSchemaProps) {
	if len(old.Enum) == 0 && len(now.Enum) > 0 {
		c.add(path, "only some values are accepted now")
	}
	if len(now.Enum) > 0 {
		for _, value := range old.Enum {
			if !slices.ContainsFunc(now.Enum, func(v apiextensionsv1.JSON) bool { return string(v.Raw) == string(value.Raw) }) {
				c.add(path, "%s is no longer accepted", value.Raw)
			}
		}
	}
	if now.Pattern != "" && old.Pattern != now.Pattern {
		c.add(path, "the pattern was %q and is %q", old.Pattern, now.Pattern)
	}
	if junctors := now; len(now.AllOf)+len(now.AnyOf)+len(now.OneOf) > 0 || now.Not != nil {
		junctors.AllOf, junctors.AnyOf, junctors.OneOf, junctors.Not = old.AllOf, old.AnyOf, old.OneOf, old.Not
		if !equality.Semantic.DeepEqual(junctors, now) {
			c.add(path, "allOf, anyOf, oneOf or not is another")
		}
	}
	if !sameKeys(old.XListMapKeys, now.XListMapKeys) {
		c.add(path, "the keys of the list were %v and are %v", old.XListMapKeys, now.XListMapKeys)
	}
	if now.UniqueItems && !old.UniqueItems || ptr.Deref(old.XListType, "atomic") != ptr.Deref(now.XListType, "atomic") {
		c.add(path, "the type of the list is another")
	}
}

// sameKeys: their order has no meaning.
func sameKeys(old, now []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(old)), slices.Sorted(slices.Values(now)))
}

// bounds compares the least and the most of numbers and lengths.
func (c *comparison) bounds(path string, old, now apiextensionsv1.JSONSchemaProps) {
	least(c, path, "minimum", old.Minimum, now.Minimum)
	least(c, path, "minLength", old.MinLength, now.MinLength)
	least(c, path, "minItems", old.MinItems, now.MinItems)
	least(c, path, "minProperties", old.MinProperties, now.MinProperties)
	most(c, path, "maximum", old.Maximum, now.Maximum)
	most(c, path, "maxLength", old.MaxLength, now.MaxLength)
	most(c, path, "maxItems", old.MaxItems, now.MaxItems)
	most(c, path, "maxProperties", old.MaxProperties, now.MaxProperties)
	if now.ExclusiveMinimum && !old.ExclusiveMinimum || now.ExclusiveMaximum && !old.ExclusiveMaximum {
		c.add(path, "a bound itself is no longer accepted")
	}
	if now.MultipleOf != nil && !equality.Semantic.DeepEqual(old.MultipleOf, now.MultipleOf) {
		c.add(path, "multipleOf was %s and is %v", orNone(old.MultipleOf), *now.MultipleOf)
	}
}

func least[T cmp.Ordered](c *comparison, path, bound string, old, now *T) {
	if now != nil && (old == nil || *now > *old) {
		c.add(path, "%s was %s and is %v", bound, orNone(old), *now)
	}
}

func most[T cmp.Ordered](c *comparison, path, bound string, old, now *T) {
	if now != nil && (old == nil || *now < *old) {
		c.add(path, "%s was %s and is %v", bound, orNone(old), *now)
	}
}

func orNone[T any](value *T) string {
	if value == nil {
		return "none"
	}
	return fmt.Sprint(*value)
}

func text(value *apiextensionsv1.JSON) string {
	if value == nil {
		return "none"
	}
	var decoded any
	if json.Unmarshal(value.Raw, &decoded) != nil {
		return string(value.Raw)
	}
	return fmt.Sprint(decoded)
}
