package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// writtenBy is how a comment on a field names the packages that may write it.
var writtenBy = regexp.MustCompile(`Written by ([a-z, ]+)\.`)

// strangeWriters tells of each assignment to a field by a package that the field's comment does not name. What lies below such a field
// belongs to it, unless it has a comment of its own.
func strangeWriters(loaded []*packages.Package) []error {
	writers := map[string][]string{} // by where the field is declared
	for _, pkg := range loaded {
		for _, file := range pkg.Syntax {
			ast.Inspect(file, func(n ast.Node) bool {
				field, ok := n.(*ast.Field)
				if !ok || field.Doc == nil && field.Comment == nil {
					return true
				}
				said := writtenBy.FindStringSubmatch(strings.Join(strings.Fields(field.Doc.Text()+" "+field.Comment.Text()), " "))
				for _, name := range field.Names {
					if said != nil {
						writers[place(pkg, name.Pos())] = strings.Split(said[1], ", ")
					}
				}
				return true
			})
		}
	}
	var found []error
	for _, pkg := range loaded {
		for _, file := range pkg.Syntax {
			ast.Inspect(file, func(n ast.Node) bool {
				assigned, ok := n.(*ast.AssignStmt)
				if !ok {
					return true
				}
				for _, left := range assigned.Lhs {
					if may, field := writersOf(pkg, left, writers); may != nil && !slices.Contains(may, path.Base(pkg.PkgPath)) {
						found = append(found, fmt.Errorf("%s writes %s, which is written by %s", pkg.Fset.Position(left.Pos()), field, strings.Join(may, ", ")))
					}
				}
				return true
			})
		}
	}
	return found
}

// writersOf returns who may write the innermost field of an expression that says so; nil when none does.
func writersOf(pkg *packages.Package, expr ast.Expr, writers map[string][]string) (may []string, field string) {
	switch e := expr.(type) {
	case *ast.IndexExpr:
		return writersOf(pkg, e.X, writers)
	case *ast.StarExpr:
		return writersOf(pkg, e.X, writers)
	case *ast.SelectorExpr:
		if used, ok := pkg.TypesInfo.Uses[e.Sel].(*types.Var); ok && used.IsField() {
			if may := writers[place(pkg, used.Pos())]; may != nil {
				return may, used.Name()
			}
		}
		return writersOf(pkg, e.X, writers)
	}
	return nil, ""
}

func place(pkg *packages.Package, pos token.Pos) string { return pkg.Fset.Position(pos).String() }
