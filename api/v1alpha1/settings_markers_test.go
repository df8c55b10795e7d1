package v1alpha1_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/settings"
)

// update rewrites the markers from internal/settings: go test ./api/v1alpha1 -run TestMarkersFollow -update, then make generate.
var update = flag.Bool("update", false, "rewrite the markers that are generated from internal/settings")

const (
	markedFile = "mysqlcluster_types.go"
	beginMark  = "// +settings:begin"
	endMark    = "// +settings:end"
)

// TestMarkersFollowTheDecisions holds the CEL rules about spec.mysqld to internal/settings.
func TestMarkersFollowTheDecisions(t *testing.T) {
	source, err := os.ReadFile(markedFile)
	if err != nil {
		t.Fatal(err)
	}
	ofSettings, ofSpec := settings.Markers()
	text := replaceMarked(t, replaceMarked(t, string(source), "", ofSpec), "\t", ofSettings)
	if text == string(source) {
		return
	}
	if !*update {
		t.Fatal("the markers of spec.mysqld are not those of internal/settings: run this test with -update, then make generate bundle catalog")
	}
	if err := os.WriteFile(markedFile, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// replaceMarked puts markers between the marks with an indentation.
func replaceMarked(t *testing.T, text, indent string, markers []string) string {
	t.Helper()
	before, rest, found := strings.Cut(text, "\n"+indent+beginMark)
	_, after, closed := strings.Cut(rest, "\n"+indent+endMark+"\n")
	if !found || !closed {
		t.Fatalf("%s has no marks with the indentation %q", markedFile, indent)
	}
	lines := indent + strings.Join(markers, "\n"+indent)
	return before + "\n" + indent + beginMark + "\n" + lines + "\n" + indent + endMark + "\n" + after
}
