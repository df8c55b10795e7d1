package chaos

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDocumentReplacesOnePartAndNothingElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "document.md")
	before := "# Title\n\n<!-- begin chaos -->\nold\n<!-- end chaos -->\nmiddle\n<!-- begin bench-failover -->\nfigures\n<!-- end bench-failover -->\nend\n"
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := Document(path, PartChaos, "| new |\n"); err != nil {
			t.Fatal(err)
		}
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(before, "old\n", "\n| new |\n\n", 1); string(after) != want {
		t.Errorf("the document is\n%s\nnot\n%s", after, want)
	}
	if err := Document(path, "another", "x"); err == nil {
		t.Error("a part that is not there was written")
	}
	if unchanged, err := os.ReadFile(path); err != nil || string(unchanged) != string(after) {
		t.Errorf("after a failure the document is\n%s (%v)", unchanged, err)
	}
}

func TestShippedDocumentHasItsParts(t *testing.T) {
	shipped, err := os.ReadFile("../../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "reliability.md")
	if err := os.WriteFile(path, shipped, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{PartChaos, PartPower, PartBench} {
		if err := Document(path, part, "x"); err != nil {
			t.Error(err)
		}
	}
}
