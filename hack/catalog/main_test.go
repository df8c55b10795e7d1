package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestReleasedBundlesStay: a bundle that the earlier catalog has comes neither from a registry nor through opm.
func TestReleasedBundlesStay(t *testing.T) {
	folder := t.TempDir()
	template, earlier := filepath.Join(folder, "template.yaml"), filepath.Join(folder, "catalog.yaml")
	const released = "image: example.com/bundle:v1\nname: \"as it was\"\nschema: olm.bundle\n"
	for file, text := range map[string]string{
		template: "schema: olm.template.basic\nentries: [{schema: olm.bundle, image: \"example.com/bundle:v1\"}]\n",
		earlier:  "---\nname: one\nschema: olm.channel\n---\n" + released + "---\nimage: example.com/bundle:v0\nschema: olm.bundle\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := bundlesOf(earlier)
	if err != nil {
		t.Fatal(err)
	}
	o := options{opm: filepath.Join(folder, "no-opm"), template: template, kept: kept}
	var out bytes.Buffer
	if err := o.render(t.Context(), &out); err != nil || out.String() != "---\n"+released {
		t.Errorf("the catalog is %q, %v", out.String(), err)
	}
	if kept, err := bundlesOf(filepath.Join(folder, "none")); kept != nil || err != nil {
		t.Errorf("without an earlier catalog: %v, %v", kept, err)
	}
}
