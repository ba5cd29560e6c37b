package weir_test

import (
	"go/ast"
	"path"
	"strconv"
	"strings"
	"testing"
)

// Callers outside the module cannot name types of internal packages.
func TestThePublicClientShowsNoInternalPackage(t *testing.T) {
	source := readSource(t)
	for _, file := range source.files {
		if file.dir() != "client" || file.test {
			continue
		}
		internal := map[string]string{}
		for _, spec := range file.ast.Imports {
			if target, _ := strconv.Unquote(spec.Path.Value); strings.Contains(target, "/internal/") {
				name := path.Base(target)
				if spec.Name != nil {
					name = spec.Name.Name
				}
				internal[name] = target
			}
		}
		for _, shown := range shownParts(file.ast) {
			ast.Inspect(shown, func(n ast.Node) bool {
				selector, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if name, ok := selector.X.(*ast.Ident); ok && internal[name.Name] != "" {
					t.Errorf("%s:%d: exported, and shows %s.%s of %s", file.path, source.line(n.Pos()), name.Name, selector.Sel.Name, internal[name.Name])
				}
				return true
			})
		}
	}
}

// shownParts returns the parts of a file that callers of its package see: signatures of exported
// functions and methods, exported types without their unexported fields, exported values.
func shownParts(file *ast.File) (parts []ast.Node) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d))) {
				parts = append(parts, d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						parts = append(parts, shownTypes(s.Type)...)
					}
				case *ast.ValueSpec:
					if s.Names[0].IsExported() {
						parts = append(parts, s)
					}
				}
			}
		}
	}
	return parts
}

func shownTypes(expr ast.Expr) (parts []ast.Node) {
	structure, ok := expr.(*ast.StructType)
	if !ok {
		return []ast.Node{expr}
	}
	for _, field := range structure.Fields.List {
		if len(field.Names) == 0 || field.Names[0].IsExported() {
			parts = append(parts, field.Type)
		}
	}
	return parts
}
