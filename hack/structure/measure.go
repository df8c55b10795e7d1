package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// counts are numbers by the name of what was counted.
type counts map[string]int

// worst tells of the highest one; "-" for none.
func (c counts) worst() string {
	best := ""
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if best == "" || c[name] > c[best] {
			best = name
		}
	}
	if best == "" {
		return "-"
	}
	return fmt.Sprintf("%d %s", c[best], best)
}

// above counts those that are higher than a limit.
func (c counts) above(limit int) int {
	n := 0
	for _, value := range c {
		if value > limit {
			n++
		}
	}
	return n
}

// figures are what was measured of a package, without its tests and what is generated.
type figures struct {
	name                        string
	files, lines, exported      int
	methods, fields, complexity counts
	texts                       []string // functions that return a text whose emptiness a caller decides by
	arrows, backwards           int      // between files: who uses a name of which other file, and how many run against the best order
	decides                     map[types.Object]bool
	uses                        map[string]map[string]bool
}

func measure(pkg *packages.Package) *figures {
	f := &figures{name: short(pkg.PkgPath), methods: counts{}, fields: counts{}, complexity: counts{}, decides: map[types.Object]bool{}, uses: map[string]map[string]bool{}}
	for _, file := range pkg.Syntax {
		if ast.IsGenerated(file) {
			continue
		}
		f.files++
		f.lines += linesOfCode(pkg.Fset, file)
		f.uses[fileOf(pkg.Fset, file.Pos())] = map[string]bool{}
	}
	for _, file := range pkg.Syntax {
		if !ast.IsGenerated(file) {
			f.read(pkg, file)
		}
	}
	for object := range f.decides {
		f.texts = append(f.texts, nameOf(object))
	}
	slices.Sort(f.texts)
	f.arrows, f.backwards = backwards(f.uses)
	return f
}

// read adds what a file declares and uses.
func (f *figures) read(pkg *packages.Package, file *ast.File) {
	here := fileOf(pkg.Fset, file.Pos())
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			f.function(pkg, d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				f.declared(spec)
			}
		}
	}
	assigned := map[types.Object]types.Object{} // variables, and the function whose result they hold
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			if used := pkg.TypesInfo.Uses[n]; used != nil && used.Pkg() == pkg.Types && topLevel(used) {
				if there := fileOf(pkg.Fset, used.Pos()); there != here && f.uses[there] != nil {
					f.uses[here][there] = true
				}
			}
		case *ast.AssignStmt:
			if len(n.Lhs) == 1 && len(n.Rhs) == 1 {
				if id, ok := n.Lhs[0].(*ast.Ident); ok {
					if callee := textOf(pkg, n.Rhs[0]); callee != nil {
						assigned[objectOf(pkg, id)] = callee
					}
				}
			}
		case *ast.BinaryExpr:
			f.comparison(pkg, n, assigned)
		}
		return true
	})
}

// comparison notes the function whose text an expression compares with an empty one.
func (f *figures) comparison(pkg *packages.Package, n *ast.BinaryExpr, assigned map[types.Object]types.Object) {
	if n.Op != token.EQL && n.Op != token.NEQ {
		return
	}
	text := n.X
	if isEmptyText(n.X) {
		text = n.Y
	} else if !isEmptyText(n.Y) {
		return
	}
	callee := textOf(pkg, text)
	if id, ok := text.(*ast.Ident); ok {
		callee = assigned[objectOf(pkg, id)]
	}
	if callee != nil {
		f.decides[callee] = true
	}
}

func isEmptyText(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && lit.Value == `""`
}

// textOf is the function of the package, other than one that only reads a text out, that an expression calls and that returns
// nothing but a text; nil for none.
func textOf(pkg *packages.Package, e ast.Expr) types.Object {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return nil
	}
	var id *ast.Ident
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		id = fun
	case *ast.SelectorExpr:
		id = fun.Sel
	default:
		return nil
	}
	fn, ok := pkg.TypesInfo.Uses[id].(*types.Func)
	if !ok || fn.Pkg() != pkg.Types {
		return nil
	}
	results := fn.Signature().Results()
	if results.Len() != 1 || !types.Identical(results.At(0).Type(), types.Typ[types.String]) {
		return nil
	}
	return fn
}

func objectOf(pkg *packages.Package, id *ast.Ident) types.Object {
	if object := pkg.TypesInfo.Defs[id]; object != nil {
		return object
	}
	return pkg.TypesInfo.Uses[id]
}

// function adds a function or a method.
func (f *figures) function(pkg *packages.Package, d *ast.FuncDecl) {
	object, ok := pkg.TypesInfo.Defs[d.Name].(*types.Func)
	if !ok {
		return
	}
	name := nameOf(object)
	f.complexity[name] = complexity(d)
	if receiver, _, ok := strings.Cut(name, "."); ok {
		f.methods[receiver]++
	} else if d.Name.IsExported() {
		f.exported++
	}
}

// declared adds a type, a variable or a constant.
func (f *figures) declared(spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() {
			f.exported++
		}
		if st, ok := s.Type.(*ast.StructType); ok {
			n := 0
			for _, field := range st.Fields.List {
				n += max(len(field.Names), 1)
			}
			f.fields[s.Name.Name] = n
		}
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if name.IsExported() {
				f.exported++
			}
		}
	}
}

// nameOf is the name of a function, a method with that of its type.
func nameOf(object types.Object) string {
	fn, ok := object.(*types.Func)
	if !ok || fn.Signature().Recv() == nil {
		return object.Name()
	}
	t := fn.Signature().Recv().Type()
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if named, ok := t.(*types.Named); ok {
		return named.Obj().Name() + "." + fn.Name()
	}
	return fn.Name()
}

// topLevel says whether an object is declared in the scope of its package, or is a method or field of something that is.
func topLevel(object types.Object) bool {
	switch o := object.(type) {
	case *types.Func:
		return true
	case *types.Var:
		return o.IsField() || o.Parent() == o.Pkg().Scope()
	default:
		return object.Parent() == object.Pkg().Scope()
	}
}

// complexity is McCabe's: one, and one more for each branch.
func complexity(d *ast.FuncDecl) int {
	n := 1
	ast.Inspect(d, func(node ast.Node) bool {
		switch b := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if b.List != nil {
				n++
			}
		case *ast.CommClause:
			if b.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if b.Op == token.LAND || b.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

// linesOfCode counts the lines that hold more than a comment.
func linesOfCode(fset *token.FileSet, file *ast.File) int {
	lines := map[int]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n.(type) {
		case nil, *ast.Comment, *ast.CommentGroup:
			return false
		}
		lines[fset.Position(n.Pos()).Line] = true
		lines[fset.Position(n.End()-1).Line] = true
		return true
	})
	return len(lines)
}

func fileOf(fset *token.FileSet, pos token.Pos) string {
	return filepath.Base(fset.Position(pos).Filename)
}
