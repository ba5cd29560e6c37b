package weir_test

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// architecturePage holds the table that the code is held to.
const architecturePage = "docs/architecture.md"

// highestPureLayer is the last layer without clocks, locks, goroutines and I/O.
const highestPureLayer = 3

// A room is a row of the table of rooms.
type room struct {
	layer   int
	imports []string // rooms of its own layer, and modules from outside
}

// readRooms parses the table under the heading; the key is the directory of the room.
func readRooms(t *testing.T, heading string) map[string]room {
	t.Helper()
	rooms := map[string]room{}
	for _, row := range markdownTables(readSource(t).texts[architecturePage], heading) {
		names := backquoted(row.cells[1])
		layer, err := strconv.Atoi(row.cells[0])
		if err != nil || len(names) != 1 {
			t.Fatalf("%s:%d: a row needs a layer and one room: %q", architecturePage, row.line, row.cells)
		}
		dir := roomDir(names[0])
		if _, twice := rooms[dir]; twice {
			t.Errorf("%s:%d: room %s stands twice", architecturePage, row.line, names[0])
		}
		r := room{layer: layer}
		if len(row.cells) > 3 {
			r.imports = backquoted(row.cells[3])
		}
		rooms[dir] = r
	}
	if len(rooms) == 0 {
		t.Fatalf("%s: no table under %q", architecturePage, heading)
	}
	return rooms
}

// roomDir is where a room named in a table lives.
func roomDir(name string) string {
	if strings.HasPrefix(name, "cmd/") {
		return name
	}
	return "internal/" + name
}

// roomOf returns the directory of the room that a package belongs to: its own, or the nearest
// one above it that is a room.
func roomOf(rooms map[string]room, dir string) (roomDir string, listed bool) {
	for ; dir != "." && dir != "/"; dir = path.Dir(dir) {
		if _, ok := rooms[dir]; ok {
			return dir, true
		}
	}
	return "", false
}

func TestTheTableOfRoomsNamesEveryPackage(t *testing.T) {
	rooms := readRooms(t, "## Rooms")
	found := map[string]bool{}
	for _, file := range readSource(t).files {
		if file.dir() == "." || file.test {
			continue
		}
		if room, ok := roomOf(rooms, file.dir()); ok {
			found[room] = true
		} else if !found[file.dir()] {
			found[file.dir()] = true
			t.Errorf("package %s is not in the table of rooms of %s", file.dir(), architecturePage)
		}
	}
	for dir := range rooms {
		if !found[dir] {
			t.Errorf("%s lists %s, which holds no code", architecturePage, dir)
		}
	}
	for dir := range readRooms(t, "## Planned rooms") {
		if found[dir] {
			t.Errorf("%s calls %s planned, but it is there: move its row", architecturePage, dir)
		}
	}
}

func TestRoomsImportOnlyWhatTheTableAllows(t *testing.T) {
	rooms := readRooms(t, "## Rooms")
	source := readSource(t)
	used := map[string]bool{}
	for _, file := range source.files {
		if file.test {
			continue
		}
		for _, spec := range file.ast.Imports {
			target, _ := strconv.Unquote(spec.Path.Value)
			where := fmt.Sprintf("%s:%d", file.path, source.line(spec.Pos()))
			if file.dir() == "." {
				t.Errorf("%s: the root package imports nothing, %s included", where, target)
				continue
			}
			if why := refusedImport(rooms, file.dir(), target, used); why != "" {
				t.Errorf("%s: %s", where, why)
			}
		}
	}
	for dir, r := range rooms {
		for _, allowed := range r.imports {
			if !used[dir+" "+allowed] {
				t.Errorf("%s allows %s to import %s, which it does not: take it out", architecturePage, dir, allowed)
			}
		}
	}
}

// refusedImport says why the package in dir may not import target, empty if it may. It notes
// in used which permissions of the table were needed.
func refusedImport(rooms map[string]room, dir, target string, used map[string]bool) string {
	if room, ok := roomOf(rooms, dir); ok {
		dir = room // packages inside a room keep its rules
	}
	from := rooms[dir]
	if local, ok := strings.CutPrefix(target, modulePath+"/"); ok {
		other, listed := roomOf(rooms, local)
		to, name := rooms[other], strings.TrimPrefix(other, "internal/")
		switch {
		case !listed:
			return fmt.Sprintf("imports %s, which is not in the table of rooms", local)
		case other == dir || to.layer < from.layer:
			return ""
		case to.layer == from.layer && slices.Contains(from.imports, name):
			used[dir+" "+name] = true
			return ""
		default:
			return fmt.Sprintf("%s (layer %d) may not import %s (layer %d)", dir, from.layer, local, to.layer)
		}
	}
	if isStandard(target) {
		if from.layer <= highestPureLayer && isImpure(target) {
			return fmt.Sprintf("%s (layer %d) is pure and may not import %s", dir, from.layer, target)
		}
		return ""
	}
	for _, module := range from.imports {
		if target == module || strings.HasPrefix(target, module+"/") {
			used[dir+" "+module] = true
			return ""
		}
	}
	return fmt.Sprintf("%s may not import %s: the table of rooms does not name it", dir, target)
}

// isStandard says whether an import path belongs to the standard library: its first
// element has no dot.
func isStandard(target string) bool {
	first, _, _ := strings.Cut(target, "/")
	return !strings.Contains(first, ".")
}

// isImpure says whether a package of the standard library brings in the world outside:
// I/O, time that passes, other goroutines, chance.
func isImpure(target string) bool {
	switch first, _, _ := strings.Cut(target, "/"); first {
	case "os", "net", "log", "sync", "syscall", "plugin", "testing", "flag", "C":
		return true
	}
	return slices.Contains([]string{"io/ioutil", "math/rand", "math/rand/v2", "crypto/rand", "runtime/debug", "context"}, target)
}

// impureCalls are functions of otherwise pure packages.
var impureCalls = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
	"fmt":  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},

	"path/filepath": {"Abs", "EvalSymlinks", "Glob", "Walk", "WalkDir"},
}

func TestPureRoomsStayPure(t *testing.T) {
	rooms := readRooms(t, "## Rooms")
	source := readSource(t)
	for _, file := range source.files {
		dir, listed := roomOf(rooms, file.dir())
		r := rooms[dir]
		if file.test || !listed || r.layer > highestPureLayer {
			continue
		}
		ast.Inspect(file.ast, func(n ast.Node) bool {
			if n == nil {
				return false
			}
			if what := impurity(file.ast, n); what != "" {
				t.Errorf("%s:%d: %s in a pure room (layer %d)", file.path, source.line(n.Pos()), what, r.layer)
			}
			return true
		})
	}
}

// impurity names what makes one node of a syntax tree impure, empty if nothing does.
func impurity(file *ast.File, n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "a goroutine is started"
	case *ast.ChanType:
		return "a channel"
	case *ast.SelectorExpr:
		pkg, ok := n.X.(*ast.Ident)
		if ok && pkg.Obj == nil && slices.Contains(impureCalls[importedAs(file, pkg.Name)], n.Sel.Name) {
			return "call of " + importedAs(file, pkg.Name) + "." + n.Sel.Name
		}
	case *ast.CallExpr:
		if name, ok := n.Fun.(*ast.Ident); ok && name.Obj == nil && (name.Name == "print" || name.Name == "println") {
			return "builtin " + name.Name
		}
	}
	return ""
}

// importedAs is the import path that file knows by name, empty if name is no import.
func importedAs(file *ast.File, name string) string {
	for _, spec := range file.Imports {
		target, _ := strconv.Unquote(spec.Path.Value)
		if spec.Name != nil && spec.Name.Name == name || spec.Name == nil && path.Base(target) == name {
			return target
		}
	}
	return ""
}

func TestOnlyTheProgramExits(t *testing.T) {
	source := readSource(t)
	for _, file := range source.files {
		if file.test || strings.HasPrefix(file.path, "cmd/") {
			continue
		}
		ast.Inspect(file.ast, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := selector.X.(*ast.Ident)
			if ok && importedAs(file.ast, pkg.Name) == "os" && selector.Sel.Name == "Exit" {
				t.Errorf("%s:%d: os.Exit outside cmd/", file.path, source.line(n.Pos()))
			}
			return true
		})
	}
}
