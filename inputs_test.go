package weir_test

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

const coreRoom = "internal/engine/core"

// TestACoreChangesThroughInputsOnly checks that Apply is the only exported method that reaches what
// inputs do. The owner of a core cannot change it in any other way, so a journal of inputs is
// complete.
func TestACoreChangesThroughInputsOnly(t *testing.T) {
	calls := map[string][]string{} // method of Core → methods of Core that it calls
	var exported, changes []string
	for _, file := range readSource(t).files {
		if file.dir() != coreRoom || file.test {
			continue
		}
		for _, decl := range file.ast.Decls {
			method, ok := decl.(*ast.FuncDecl)
			if !ok || method.Recv == nil {
				continue
			}
			receiver := strings.TrimPrefix(typeName(method.Recv.List[0].Type), "*")
			switch {
			case strings.HasSuffix(receiver, "Input") && method.Name.Name == "apply":
				changes = append(changes, callsOn("c", method)...)
			case receiver == "Core":
				calls[method.Name.Name] = callsOn(method.Recv.List[0].Names[0].Name, method)
				if method.Name.IsExported() && method.Name.Name != "Apply" {
					exported = append(exported, method.Name.Name)
				}
			}
		}
	}
	if len(changes) < 20 || len(exported) == 0 {
		t.Fatalf("inputs call %v, and Core has %v: the test has lost sight of them", changes, exported)
	}
	for _, name := range exported {
		if path := pathTo(name, changes, calls, map[string]bool{}); path != nil {
			t.Errorf("Core.%s changes the core without an input: %s", name, strings.Join(path, " → "))
		}
	}
}

// TestTheDaemonAppliesInputsInOnePlace checks that the daemon changes its core in a single line.
func TestTheDaemonAppliesInputsInOnePlace(t *testing.T) {
	source := readSource(t)
	var places []string
	for _, file := range source.files {
		if file.test || !strings.HasPrefix(file.path, "internal/control/") {
			continue
		}
		for _, decl := range file.ast.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(function, func(n ast.Node) bool {
				if call, ok := n.(*ast.SelectorExpr); ok && call.Sel.Name == "Apply" {
					if of, ok := call.X.(*ast.SelectorExpr); ok && of.Sel.Name == "core" {
						places = append(places, file.path+": "+function.Name.Name)
					}
				}
				return true
			})
		}
	}
	if !slices.Equal(places, []string{"internal/control/server/term.go: apply"}) {
		t.Errorf("the daemon changes its core in %v, not in term.apply alone", places)
	}
}

// callsOn lists the methods that a function calls on the variable of this name.
func callsOn(variable string, function *ast.FuncDecl) (names []string) {
	ast.Inspect(function, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if of, ok := selector.X.(*ast.Ident); ok && of.Name == variable {
				names = append(names, selector.Sel.Name)
			}
		}
		return true
	})
	return names
}

// pathTo follows calls from a method to one of the targets, and returns the path including both.
func pathTo(from string, targets []string, calls map[string][]string, seen map[string]bool) []string {
	if slices.Contains(targets, from) {
		return []string{from}
	}
	if seen[from] {
		return nil
	}
	seen[from] = true
	for _, next := range calls[from] {
		if path := pathTo(next, targets, calls, seen); path != nil {
			return append([]string{from}, path...)
		}
	}
	return nil
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return "*" + typeName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
