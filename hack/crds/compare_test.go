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
