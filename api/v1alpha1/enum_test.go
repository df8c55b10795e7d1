package v1alpha1

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestEnumsAreTheirConstants: a status with a value that the schema does not know is refused as a whole, and never shown.
func TestEnumsAreTheirConstants(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	allowed, constants := map[string][]string{}, map[string][]string{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range decl.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					for _, line := range strings.Split(comments(decl.Doc), "\n") {
						if values, marked := strings.CutPrefix(line, "// +kubebuilder:validation:Enum="); marked {
							allowed[s.Name.Name] = strings.Split(values, ";")
						}
					}
				case *ast.ValueSpec:
					kind, typed := s.Type.(*ast.Ident)
					if !typed || len(s.Values) != 1 {
						continue
					}
					if literal, ok := s.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
						value, err := strconv.Unquote(literal.Value)
						if err != nil {
							t.Fatal(err)
						}
						constants[kind.Name] = append(constants[kind.Name], value)
					}
				}
			}
		}
	}
	if len(allowed) < 3 {
		t.Fatalf("types with an enumeration: %v", allowed)
	}
	for _, name := range slices.Sorted(maps.Keys(allowed)) {
		want, have := allowed[name], constants[name]
		slices.Sort(want)
		slices.Sort(have)
		if len(have) > 0 && !slices.Equal(want, have) {
			t.Errorf("%s allows %q, its constants are %q", name, want, have)
		}
	}
}

// comments are the lines of a comment, with their markers.
func comments(group *ast.CommentGroup) string {
	if group == nil {
		return ""
	}
	var lines []string
	for _, c := range group.List {
		lines = append(lines, c.Text)
	}
	return strings.Join(lines, "\n")
}
