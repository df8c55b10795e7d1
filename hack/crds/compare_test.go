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

// TestWhatBreaksBesideTheSchemaIsFound changes what a CRD says of itself and of its lists.
func TestWhatBreaksBesideTheSchemaIsFound(t *testing.T) {
	type (
		spec    = apiextensionsv1.CustomResourceDefinitionSpec
		version = apiextensionsv1.CustomResourceDefinitionVersion
		schema  = apiextensionsv1.JSONSchemaProps
	)
	conditions := func(s *spec, change func(*schema)) {
		status := s.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
		list := status.Properties["conditions"]
		change(&list)
		status.Properties["conditions"] = list
	}
	subresources := func(change func(*apiextensionsv1.CustomResourceSubresources)) func(*spec) {
		return func(s *spec) { change(s.Versions[0].Subresources) }
	}
	for what, row := range map[string]struct {
		change func(*spec)
		says   string
	}{
		"nothing":              {func(*spec) {}, ""},
		"another scope":        {func(s *spec) { s.Scope = apiextensionsv1.ClusterScoped }, "the scope was Namespaced and is Cluster"},
		"another kind":         {func(s *spec) { s.Names.Kind = "Other" }, "the kind was MySQLCluster and is Other"},
		"another kind of list": {func(s *spec) { s.Names.ListKind = "Others" }, "the kind of lists was MySQLClusterList and is Others"},
		"another plural":       {func(s *spec) { s.Names.Plural = "others" }, "the plural was mysqlclusters and is others"},
		"another singular":     {func(s *spec) { s.Names.Singular = "other" }, "the singular was mysqlcluster and is other"},
		"a short name is gone": {func(s *spec) { s.Names.ShortNames = nil }, "the short name nmysql is gone"},
		"a further short name": {func(s *spec) { s.Names.ShortNames = append(s.Names.ShortNames, "other") }, ""},
		"a category is gone":   {func(s *spec) { s.Names.Categories = nil }, "it is no longer in the category kept"},
		"a further category":   {func(s *spec) { s.Names.Categories = append(s.Names.Categories, "other") }, ""},
		"a version is gone":    {func(s *spec) { s.Versions[0].Name = "v1" }, "version v1alpha1 is no longer served"},
		"no longer served":     {func(s *spec) { s.Versions[0].Served = false }, "version v1alpha1 is no longer served"},
		"another stored version": {func(s *spec) {
			s.Versions = append(s.Versions, version{Name: "v1", Served: true, Storage: true, Schema: s.Versions[0].Schema})
			s.Versions[0].Storage = false
		}, "objects are stored as version v1, which the last release does not serve"},
		"a further version": {func(s *spec) {
			s.Versions = append(s.Versions, version{Name: "v1", Served: true, Schema: s.Versions[0].Schema})
		}, ""},
		"no status": {subresources(func(s *apiextensionsv1.CustomResourceSubresources) { s.Status = nil }), "v1alpha1: the subresource status was there and is none"},
		"no scale":  {subresources(func(s *apiextensionsv1.CustomResourceSubresources) { s.Scale = nil }), "v1alpha1: the subresource scale is gone"},
		"another scale": {subresources(func(s *apiextensionsv1.CustomResourceSubresources) { s.Scale.SpecReplicasPath = ".spec.other" }),
			"v1alpha1: the subresource scale stands for other fields"},
		"another type of list": {func(s *spec) { conditions(s, func(l *schema) { l.XListType = ptr.To("atomic") }) },
			"v1alpha1.status.conditions: the type of the list is another"},
		"other keys of a list": {func(s *spec) { conditions(s, func(l *schema) { l.XListMapKeys = []string{"type", "reason"} }) },
			"v1alpha1.status.conditions: the keys of the list were [type] and are [type reason]"},
		"an atomic map": {func(s *spec) { conditions(s, func(l *schema) { l.Items.Schema.XMapType = ptr.To("atomic") }) },
			"v1alpha1.status.conditions[]: the type of the map is another"},
	} {
		all, err := read(bases)
		if err != nil {
			t.Fatal(err)
		}
		old := all[name]
		old.Spec.Names.Categories = append(old.Spec.Names.Categories, "kept")
		if old.Spec.Versions[0].Subresources.Scale == nil {
			old.Spec.Versions[0].Subresources.Scale = &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas"}
		}
		now := old.DeepCopy()
		row.change(&now.Spec)
		found := Breaking(old, now)
		if said := strings.Join(found, "; "); row.says == "" && said != "" || !strings.Contains(said, row.says) {
			t.Errorf("%s: it says %q, want %q", what, said, row.says)
		}
	}
}
