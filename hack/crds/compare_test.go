package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

const (
	bases = "../../config/crd/bases"
	name  = "mysqlclusters.mysql.alx.ke"
)

// TestTheTreeBreaksNothingOfTheRelease is what `make verify` asks.
func TestTheTreeBreaksNothingOfTheRelease(t *testing.T) {
	if err := run(io.Discard, "../../config/crd/released", bases); err != nil {
		t.Errorf("objects and clients of the last release: %v", err)
	}
}

// TestWhatBreaksIsFound changes the CRD of the tree after its release.
func TestWhatBreaksIsFound(t *testing.T) {
	type schema = apiextensionsv1.JSONSchemaProps
	within := func(s *schema, name string, change func(*schema)) {
		part := s.Properties[name]
		change(&part)
		s.Properties[name] = part
	}
	for what, row := range map[string]struct {
		change func(spec *schema)
		says   string
	}{
		"nothing":     {func(*schema) {}, ""},
		"a new field": {func(s *schema) { s.Properties["added"] = schema{Type: "string"} }, ""},
		"a new required field": {func(s *schema) {
			s.Properties["added"], s.Required = schema{Type: "string"}, append(s.Required, "added")
		}, "v1alpha1.spec.added: the field is required now"},
		"a field is gone": {func(s *schema) { delete(s.Properties, "hibernate") }, "v1alpha1.spec.hibernate: the field is gone"},
		"another type":    {func(s *schema) { within(s, "replicas", func(p *schema) { p.Type = "string" }) }, "v1alpha1.spec.replicas: the type was"},
		"another default": {func(s *schema) {
			within(s, "replicas", func(p *schema) { p.Default = &apiextensionsv1.JSON{Raw: []byte("5")} })
		}, "v1alpha1.spec.replicas: the default was"},
		"a lower maximum":  {func(s *schema) { within(s, "replicas", func(p *schema) { p.Maximum = ptr.To(1.0) }) }, "v1alpha1.spec.replicas: maximum was"},
		"a higher minimum": {func(s *schema) { within(s, "replicas", func(p *schema) { p.Minimum = ptr.To(3.0) }) }, "v1alpha1.spec.replicas: minimum was"},
		"another pattern":  {func(s *schema) { within(s, "version", func(p *schema) { p.Pattern = "^9" }) }, "v1alpha1.spec.version: the pattern was"},
		"a value less": {func(s *schema) {
			within(s, "storage", func(p *schema) { within(p, "type", func(q *schema) { q.Enum = q.Enum[1:] }) })
		}, "is no longer accepted"},
		"another rule": {func(s *schema) {
			within(s, "mysqld", func(p *schema) { p.XValidations = p.XValidations[1:] })
		}, ""},
		"deeper down": {func(s *schema) {
			within(s, "aws", func(p *schema) {
				within(p, "subnetIDs", func(q *schema) { q.Items.Schema.MaxLength = ptr.To[int64](3) })
			})
		}, "v1alpha1.spec.aws.subnetIDs[]: maxLength was"},
	} {
		all, err := read(bases)
		if err != nil {
			t.Fatal(err)
		}
		within(all[name].Spec.Versions[0].Schema.OpenAPIV3Schema, "spec", row.change)
		folder := t.TempDir()
		for _, crd := range all {
			text, err := yaml.Marshal(crd)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, crd.Name+".yaml"), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		said, printed := "", strings.Builder{}
		if err := run(&printed, bases, folder); err != nil {
			said = err.Error()
		}
		if row.says == "" && said != "" || !strings.Contains(said, row.says) {
			t.Errorf("%s: it says %q, want %q", what, said, row.says)
		}
		if rules := strings.HasPrefix(printed.String(), name+": the rules of v1alpha1.spec.mysqld are others"); rules != (what == "another rule") || !rules && printed.Len() > 0 {
			t.Errorf("%s: it prints %q", what, printed.String())
		}
	}
}

// TestWhatBreaksWithoutAFieldIsFound changes a small CRD in what is no field of its schema, and how its fields are written.
func TestWhatBreaksWithoutAFieldIsFound(t *testing.T) {
	type (
		definition = apiextensionsv1.CustomResourceDefinition
		schema     = apiextensionsv1.JSONSchemaProps
		version    = apiextensionsv1.CustomResourceDefinitionVersion
	)
	var crd definition
	if err := yaml.UnmarshalStrict([]byte(small), &crd); err != nil {
		t.Fatal(err)
	}
	first := func(c *definition) *version { return &c.Spec.Versions[0] }
	within := func(name string, change func(*schema)) func(*definition) {
		return func(c *definition) {
			properties := first(c).Schema.OpenAPIV3Schema.Properties
			part := properties[name]
			change(&part)
			properties[name] = part
		}
	}
	for what, row := range map[string]struct {
		change func(*definition)
		says   string
	}{
		"nothing":              {func(*definition) {}, ""},
		"another scope":        {func(c *definition) { c.Spec.Scope = apiextensionsv1.ClusterScoped }, "the scope was Namespaced and is Cluster"},
		"another kind":         {func(c *definition) { c.Spec.Names.Kind = "Other" }, "the kind was Thing and is Other"},
		"another kind of list": {func(c *definition) { c.Spec.Names.ListKind = "Others" }, "the kind of lists was ThingList and is Others"},
		"another plural":       {func(c *definition) { c.Spec.Names.Plural = "others" }, "the plural was things and is others"},
		"another singular":     {func(c *definition) { c.Spec.Names.Singular = "other" }, "the singular was thing and is other"},
		"a short name more":    {func(c *definition) { c.Spec.Names.ShortNames = []string{"new", "th"} }, ""},
		"a short name less":    {func(c *definition) { c.Spec.Names.ShortNames = nil }, "the short name th is gone"},
		"a category less":      {func(c *definition) { c.Spec.Names.Categories = nil }, "it is no longer in the category all"},
		"not served":           {func(c *definition) { first(c).Served = false }, "version v1 is no longer served"},
		"a version less":       {func(c *definition) { c.Spec.Versions = nil }, "version v1 is no longer served"},
		"a version more": {func(c *definition) {
			c.Spec.Versions = append(c.Spec.Versions, *first(c).DeepCopy())
			c.Spec.Versions[1].Name, c.Spec.Versions[1].Storage = "v2", false
		}, ""},
		"stored as a version more": {func(c *definition) {
			c.Spec.Versions = append(c.Spec.Versions, *first(c).DeepCopy())
			c.Spec.Versions[1].Name, first(c).Storage = "v2", false
		}, "objects are stored as v2, which the release does not have"},
		"no status":           {func(c *definition) { first(c).Subresources.Status = nil }, "v1: the status was written through an endpoint of its own: true, and is: false"},
		"no scale":            {func(c *definition) { first(c).Subresources.Scale = nil }, "v1: what is read and written through scale is another"},
		"no subresource":      {func(c *definition) { first(c).Subresources = nil }, "v1: what is read and written through scale is another"},
		"other replicas":      {func(c *definition) { first(c).Subresources.Scale.SpecReplicasPath = ".spec.members" }, "through scale is another"},
		"another selector":    {func(c *definition) { first(c).Subresources.Scale.LabelSelectorPath = nil }, "through scale is another"},
		"a selectable less":   {func(c *definition) { first(c).SelectableFields = nil }, "v1: nobody can select by .spec.zone any more"},
		"other columns":       {func(c *definition) { first(c).AdditionalPrinterColumns = nil }, ""},
		"other keys":          {within("list", func(s *schema) { s.XListMapKeys = []string{"name"} }), "v1.list: the keys of the list were [name port] and are [name]"},
		"keys in other order": {within("list", func(s *schema) { s.XListMapKeys = []string{"port", "name"} }), ""},
		"another list":        {within("list", func(s *schema) { s.XListType = nil }), "v1.list: the type of the list is another"},
		"another map":         {within("map", func(s *schema) { s.XMapType = ptr.To("atomic") }), "v1.map: the type of the map is another"},
		"no keys": {within("map", func(s *schema) {
			s.AdditionalProperties, s.Properties = nil, map[string]schema{"one": {Type: "string"}}
		}), "v1.map: keys of all kinds are no longer kept"},
		"no text":         {within("either", func(s *schema) { s.XIntOrString = false }), "v1.either: it may no longer be a number or a text"},
		"one of both":     {within("either", func(s *schema) { s.AnyOf = s.AnyOf[1:] }), "v1.either: allOf, anyOf, oneOf or not is another"},
		"without anyOf":   {within("either", func(s *schema) { s.AnyOf = nil }), ""},
		"a condition":     {within("number", func(s *schema) { s.Not = &schema{Minimum: ptr.To(7.0)} }), "v1.number: allOf, anyOf, oneOf or not is another"},
		"without a bound": {within("number", func(s *schema) { s.ExclusiveMinimum = true }), "v1.number: a bound itself is no longer accepted"},
		"multiples":       {within("number", func(s *schema) { s.MultipleOf = ptr.To(4.0) }), "v1.number: multipleOf was none and is 4"},
	} {
		changed := crd.DeepCopy()
		row.change(changed)
		found := Breaking(&crd, changed)
		if row.says == "" && len(found) > 0 || !strings.Contains(strings.Join(found, "\n"), row.says) {
			t.Errorf("%s: it says %q, want %q", what, found, row.says)
		}
	}
	bare := crd.DeepCopy()
	first(bare).Subresources = nil
	if found := Breaking(bare, &crd); len(found) != 1 || !strings.Contains(found[0], "of its own: false, and is: true") {
		t.Errorf("a status that clients wrote with the object: %q", found)
	}
}

const small = `
metadata: {name: things.example.com}
spec:
  group: example.com
  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing, shortNames: [th], categories: [all]}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns: [{name: Zone, type: string, jsonPath: .spec.zone}]
    selectableFields: [{jsonPath: .spec.zone}]
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          list:
            type: array
            x-kubernetes-list-type: map
            x-kubernetes-list-map-keys: [name, port]
            items: {type: object, properties: {name: {type: string}, port: {type: integer}}}
          map: {type: object, additionalProperties: {type: string}}
          either: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
          number: {type: integer, minimum: 3}
`
