package weir_test

import (
	"fmt"
	"go/ast"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// architecturePage contains the table with which the code must agree.
const architecturePage = "docs/architecture.md"

// room is a package with its subpackages, and its position in the table of floors.
type room struct {
	floor   string   // directory of its floor
	step    int      // position on the floor; a room may import rooms of lower steps
	knows   []string // directories of the floors that it may import
	pure    bool     // without clocks, locks, goroutines and I/O
	modules []string // external modules that it may import
}

// readRooms parses the tables of floors and of modules; the key is the directory of the room.
func readRooms(t *testing.T) map[string]room {
	t.Helper()
	rooms := map[string]room{}
	page := readSource(t).texts[architecturePage]
	for _, row := range markdownTables(page, "## Floors") {
		floors := backquoted(row.cells[0])
		if len(row.cells) != 5 || len(floors) != 1 {
			t.Fatalf("%s:%d: a row has five cells and names one floor: %q", architecturePage, row.line, row.cells)
		}
		floor := room{floor: floors[0]}
		for _, name := range backquoted(row.cells[1]) {
			floor.knows = append(floor.knows, floorDir(name))
		}
		add := func(dir, name string, step int) {
			if _, twice := rooms[dir]; twice {
				t.Errorf("%s:%d: room %s stands twice", architecturePage, row.line, dir)
			}
			r := floor
			r.step = step
			r.pure = row.cells[3] == "all" || slices.Contains(backquoted(row.cells[3]), name)
			rooms[dir] = r
		}
		if row.cells[2] == "–" {
			add(floor.floor, floor.floor, 0)
		}
		for step, cell := range strings.Split(row.cells[2], "→") {
			for _, name := range backquoted(cell) {
				add(floor.floor+"/"+name, name, step)
			}
		}
	}
	for _, row := range markdownTables(page, "## Modules from outside") {
		for _, name := range backquoted(row.cells[1]) {
			dir, ok := roomDir(rooms, name)
			if !ok {
				t.Errorf("%s:%d: no room %s", architecturePage, row.line, name)
				continue
			}
			r := rooms[dir]
			r.modules = append(slices.Clip(r.modules), backquoted(row.cells[0])...)
			rooms[dir] = r
		}
	}
	if len(rooms) == 0 {
		t.Fatalf("%s: no table of floors", architecturePage)
	}
	return rooms
}

// floorDir returns the directory of a floor that a table names.
func floorDir(name string) string {
	switch name {
	case "client":
		return name
	default:
		return "internal/" + name
	}
}

// roomDir returns the directory of a room, which a document names by its last element or in full.
func roomDir(rooms map[string]room, name string) (dir string, ok bool) {
	for dir := range rooms {
		if dir == name || path.Base(dir) == name {
			return dir, true
		}
	}
	return "", false
}

// roomOf returns the directory of the room that a package belongs to: its own, or that of the
// nearest ancestor that is a room.
func roomOf(rooms map[string]room, dir string) (roomDir string, listed bool) {
	for ; dir != "." && dir != "/"; dir = path.Dir(dir) {
		if _, ok := rooms[dir]; ok {
			return dir, true
		}
	}
	return "", false
}

func TestTheTableOfFloorsNamesEveryPackage(t *testing.T) {
	rooms := readRooms(t)
	found := map[string]bool{}
	names := map[string]string{}
	for _, file := range readSource(t).files {
		if file.dir() == "." || file.test {
			continue
		}
		if room, ok := roomOf(rooms, file.dir()); ok {
			found[room] = true
		} else if !found[file.dir()] {
			found[file.dir()] = true
			t.Errorf("package %s is not in the table of floors of %s", file.dir(), architecturePage)
		}
	}
	for dir := range rooms {
		if !found[dir] {
			t.Errorf("%s lists %s, which holds no code", architecturePage, dir)
		}
		if other := names[path.Base(dir)]; other != "" {
			t.Errorf("rooms %s and %s have one name: documents could mean either", dir, other)
		}
		names[path.Base(dir)] = dir
	}
}

func TestRoomsImportOnlyWhatTheTableAllows(t *testing.T) {
	rooms := readRooms(t)
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
		for _, module := range r.modules {
			if !used[dir+" "+module] {
				t.Errorf("%s allows %s to import %s, which it does not: take it out", architecturePage, dir, module)
			}
		}
		for _, floor := range r.knows {
			if !used[r.floor+" "+floor] {
				t.Errorf("%s says that %s knows %s, which it does not: take it out", architecturePage, r.floor, floor)
			}
		}
	}
}

// refusedImport returns why the package in dir must not import target, empty if it may. It records
// in used the permissions of the table that were needed.
func refusedImport(rooms map[string]room, dir, target string, used map[string]bool) string {
	if room, ok := roomOf(rooms, dir); ok {
		dir = room // packages inside a room follow its rules
	}
	from := rooms[dir]
	if local, ok := strings.CutPrefix(target, modulePath+"/"); ok {
		other, listed := roomOf(rooms, local)
		to := rooms[other]
		switch {
		case !listed:
			return fmt.Sprintf("imports %s, which is not in the table of floors", local)
		case other == dir || to.floor == from.floor && to.step < from.step:
			return ""
		case slices.Contains(from.knows, to.floor):
			used[from.floor+" "+to.floor] = true
			return ""
		case to.floor == from.floor:
			return fmt.Sprintf("%s may not import %s: it does not stand before an arrow on its floor", dir, local)
		default:
			return fmt.Sprintf("%s may not import %s: its floor does not know %s", dir, local, to.floor)
		}
	}
	if isStandard(target) {
		if from.pure && isImpure(target) {
			return fmt.Sprintf("%s is pure and may not import %s", dir, target)
		}
		return ""
	}
	for _, module := range from.modules {
		if target == module || strings.HasPrefix(target, module+"/") {
			used[dir+" "+module] = true
			return ""
		}
	}
	return fmt.Sprintf("%s may not import %s: the table of modules does not name it", dir, target)
}

func TestTheCoreNeedsOnlyTheStandardLibrary(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./internal/engine/core")
	output, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(output))
	if !slices.Contains(packages, modulePath+"/internal/engine/core") {
		t.Fatalf("go list does not know the core: %q", packages)
	}
	for _, name := range packages {
		if !strings.HasPrefix(name, modulePath+"/") {
			t.Errorf("the core brings in %s", name)
		}
	}
}

// isStandard reports whether an import path belongs to the standard library: its first element has
// no dot.
func isStandard(target string) bool {
	first, _, _ := strings.Cut(target, "/")
	return !strings.Contains(first, ".")
}

// isImpure reports whether a package of the standard library has effects: I/O, passing time,
// goroutines, randomness.
func isImpure(target string) bool {
	switch first, _, _ := strings.Cut(target, "/"); first {
	case "os", "net", "log", "sync", "syscall", "plugin", "testing", "flag", "C":
		return true
	}
	return slices.Contains([]string{"io/ioutil", "math/rand", "math/rand/v2", "crypto/rand", "runtime/debug", "context"}, target)
}

// impureCalls lists impure functions of otherwise pure packages.
var impureCalls = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
	"fmt":  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},

	"path/filepath": {"Abs", "EvalSymlinks", "Glob", "Walk", "WalkDir"},
}

func TestPureRoomsStayPure(t *testing.T) {
	rooms := readRooms(t)
	source := readSource(t)
	for _, file := range source.files {
		dir, _ := roomOf(rooms, file.dir())
		if file.test || !rooms[dir].pure {
			continue
		}
		ast.Inspect(file.ast, func(n ast.Node) bool {
			if n == nil {
				return false
			}
			if what := impurity(file.ast, n); what != "" {
				t.Errorf("%s:%d: %s in a pure room", file.path, source.line(n.Pos()), what)
			}
			return true
		})
	}
}

// The Makefile tests these floors without the race detector: there is nothing for it to find.
func TestFloorsTestedWithoutTheRaceDetectorAreSequential(t *testing.T) {
	source := readSource(t)
	_, list, found := strings.Cut(source.texts["Makefile"], "\nSEQUENTIAL = $(shell go list ")
	list, _, _ = strings.Cut(list, ")\n")
	var dirs []string
	for _, pattern := range strings.Fields(list) {
		if dir := strings.TrimSuffix(strings.TrimPrefix(pattern, "./"), "/..."); dir != "." {
			dirs = append(dirs, dir)
		}
	}
	if !found || len(dirs) < 3 {
		t.Fatalf("the Makefile does not say which packages are sequential: %q", dirs)
	}
	for _, file := range source.files {
		if file.test || !slices.ContainsFunc(dirs, func(dir string) bool { return file.dir() == dir || strings.HasPrefix(file.dir(), dir+"/") }) {
			continue
		}
		ast.Inspect(file.ast, func(n ast.Node) bool {
			if _, starts := n.(*ast.GoStmt); starts {
				t.Errorf("%s:%d: a goroutine is started, and the Makefile has the package tested without the race detector", file.path, source.line(n.Pos()))
			}
			return true
		})
	}
}

// impurity returns what makes a node of a syntax tree impure, empty if nothing does.
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

// importedAs returns the import path that file knows by name, empty if name is not an import.
func importedAs(file *ast.File, name string) string {
	for _, spec := range file.Imports {
		target, _ := strconv.Unquote(spec.Path.Value)
		if spec.Name != nil && spec.Name.Name == name || spec.Name == nil && path.Base(target) == name {
			return target
		}
	}
	return ""
}

func TestOnlyProgramsExit(t *testing.T) {
	source := readSource(t)
	for _, file := range source.files {
		if file.test || file.ast.Name.Name == "main" {
			continue
		}
		ast.Inspect(file.ast, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := selector.X.(*ast.Ident)
			if ok && importedAs(file.ast, pkg.Name) == "os" && selector.Sel.Name == "Exit" {
				t.Errorf("%s:%d: os.Exit in a package that is no program", file.path, source.line(n.Pos()))
			}
			return true
		})
	}
}

// sourceFile matches a Go file that a page names.
var sourceFile = regexp.MustCompile("`((?:internal|cmd|client)/[^` ]*\\.go)`")

func TestJourneysNameFilesThatExistAndEachRoomOnce(t *testing.T) {
	rooms := readRooms(t)
	source := readSource(t)
	exists := map[string]bool{}
	for _, file := range source.files {
		exists[file.path] = true
	}
	page := source.texts[architecturePage]
	_, page, _ = strings.Cut(page, "## Three journeys")
	page, _, _ = strings.Cut(page, "\n## ")
	journeys := strings.Split(page, "\n**")[1:]
	if len(journeys) != 3 {
		t.Fatalf("%s has %d journeys, want 3", architecturePage, len(journeys))
	}
	for _, journey := range journeys {
		title, _, _ := strings.Cut(journey, "**")
		last := map[string]int{} // step in which a room was named last
		for step, line := range strings.Split(journey, "\n") {
			for _, match := range sourceFile.FindAllStringSubmatch(line, -1) {
				if !exists[match[1]] {
					t.Errorf("%s: %s names %s, which is not there", architecturePage, title, match[1])
				}
				room, _ := roomOf(rooms, path.Dir(match[1]))
				if at, named := last[room]; named && at != step && path.Base(room) != "core" && path.Base(room) != "server" {
					t.Errorf("%s: %s passes %s twice", architecturePage, title, room)
				}
				last[room] = step
			}
		}
	}
}
