// Package docs_test compares the documents with the code that they speak of.
package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const constants = "../api/v1alpha1/constants.go"

// stringConstants returns the values of the string constants whose names begin with a prefix.
func stringConstants(t *testing.T, prefix string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), constants, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
		return true
	})
	if len(values) == 0 {
		t.Fatalf("no constant %s… in %s", prefix, constants)
	}
	return values
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestOperationsHasARowForEverythingTheStatusCanSay(t *testing.T) {
	text := read(t, "operations.md")
	for _, prefix := range []string{"Reason", "Condition", "Phase"} {
		values := stringConstants(t, prefix)
		for _, value := range values {
			if !strings.Contains(text, "\n| `"+value+"`") {
				t.Errorf("operations.md has no row for the %s %s", strings.ToLower(prefix), value)
			}
		}
	}
}

func TestOperationsHasNoRowForAReasonThatIsGone(t *testing.T) {
	_, table, found := strings.Cut(read(t, "operations.md"), "\n## Reasons\n")
	if !found {
		t.Fatal("operations.md has no section Reasons")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	known := map[string]bool{}
	for _, value := range stringConstants(t, "Reason") {
		known[value] = true
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Za-z0-9]+)`").FindAllStringSubmatch(table, -1) {
		if !known[row[1]] {
			t.Errorf("operations.md explains reason %s, which the code does not know", row[1])
		}
	}
}

func TestLinksBetweenDocumentsLead(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	documents, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range append(documents, "../README.md", "../CHANGELOG.md") {
		for _, match := range link.FindAllStringSubmatch(read(t, document), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(document), match[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", document, match[1])
			}
		}
	}
}

func TestMakeTargetsInTheDocumentsExist(t *testing.T) {
	targets := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(read(t, "../Makefile"), -1) {
		targets[match[1]] = true
	}
	documents, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range append(documents, "../README.md") {
		for _, match := range regexp.MustCompile("(?m)(?:^|`)make ([a-z0-9-]+)").FindAllStringSubmatch(read(t, document), -1) {
			if !targets[match[1]] {
				t.Errorf("%s names `make %s`, which the Makefile does not have", document, match[1])
			}
		}
	}
}
