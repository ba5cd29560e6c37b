package weir_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// These tests show that the checks in this directory refuse what they should: a check that finds
// nothing would always pass.

func TestLayerCheckRefuses(t *testing.T) {
	rooms := map[string]room{
		"internal/low/seed":    {floor: "internal/low", pure: true},
		"internal/low/reader":  {floor: "internal/low", pure: true, step: 1, modules: []string{"example.org/yaml"}},
		"internal/low/sibling": {floor: "internal/low", pure: true, step: 1},
		"internal/high":        {floor: "internal/high", knows: []string{"internal/low"}},
	}
	for _, test := range []struct {
		name, dir, target string
		refused           bool
	}{
		{"a room of a known floor", "internal/high", modulePath + "/internal/low/seed", false},
		{"a room of an unknown floor", "internal/low/seed", modulePath + "/internal/high", true},
		{"its own floor, after the arrow", "internal/low/seed", modulePath + "/internal/low/reader", true},
		{"its own floor, the same step", "internal/low/reader", modulePath + "/internal/low/sibling", true},
		{"its own floor, before the arrow", "internal/low/reader", modulePath + "/internal/low/seed", false},
		{"a room that is not listed", "internal/high", modulePath + "/internal/ghost", true},
		{"a module by the table", "internal/low/reader", "example.org/yaml/v3", false},
		{"a module unasked", "internal/high", "example.org/yaml/v3", true},
		{"a module whose name only begins alike", "internal/low/reader", "example.org/yamlish", true},
		{"standard library", "internal/low/seed", "strings", false},
		{"files in a pure room", "internal/low/seed", "os", true},
		{"sockets in a pure room", "internal/low/seed", "net/http", true},
		{"locks in a pure room", "internal/low/seed", "sync/atomic", true},
		{"chance in a pure room", "internal/low/seed", "math/rand/v2", true},
		{"files above the pure rooms", "internal/high", "os", false},
		{"a package inside its room", "internal/high", modulePath + "/internal/high/part", false},
		{"its room from a package inside", "internal/high/part", modulePath + "/internal/high", false},
		{"a package inside a lower room", "internal/high/part", modulePath + "/internal/low/seed/part", false},
		{"a package inside a higher room", "internal/low/seed/part", modulePath + "/internal/high/part", true},
		{"files in a package inside a pure room", "internal/low/seed/part", "os", true},
		{"a module by the table of its room", "internal/low/reader/part", "example.org/yaml/v3", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			why := refusedImport(rooms, test.dir, test.target, map[string]bool{})
			if (why != "") != test.refused {
				t.Errorf("refused = %v (%q), want %v", why != "", why, test.refused)
			}
		})
	}
}

func TestPurityCheckSees(t *testing.T) {
	const source = `package p
import (
	"encoding/json"
	"fmt"
	clock "time"
)
type shadow struct{ Now func() int }
func f(events chan int) {
	go f(nil)
	_ = clock.Now()
	_ = fmt.Sprint(clock.Second)
	fmt.Println()
	println()
	var time shadow
	_ = time.Now
}`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	ast.Inspect(file, func(n ast.Node) bool {
		if n != nil {
			if what := impurity(file, n); what != "" {
				got = append(got, what)
			}
		}
		return true
	})
	want := []string{"a channel", "a goroutine is started", "call of time.Now", "call of fmt.Println", "builtin println"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUndocumentedNamesAreSeen(t *testing.T) {
	const source = `package p
// A is documented.
type A struct{}
type B struct{}
func (A) String() string { return "" }
func (A) Run() {}
func (b *b) Run() {}
type b struct{}
const C = 1
const D = 2 // D is documented
// A group speaks for its members.
const (
	E = iota
	F
)
const (
	K A = iota
	L
)
type (
	// G is documented.
	G int
	H int
)
func I() {}
func j() {}`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, decl := range file.Decls {
		for _, name := range undocumented(decl) {
			got = append(got, name.Name)
		}
	}
	if want := []string{"B", "Run", "C", "H", "I"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDocumentCommandsAreFound(t *testing.T) {
	const document = "```sh\n" +
		"make test\n" +
		"weir version\n" +
		"weir check x.yaml   # exit 1\n" +
		"weir up # not run: a server\n" +
		"```\n" +
		"```output\nnobody's\n```\n" +
		"```sh\n./bin/weir shares \\\n  x.yaml\n```\n" +
		"```output\n…\nroot  1.0\n```\n" +
		"```\nweir not a command\n```\n"
	got := documentCommands("d.md", document)
	want := []shellCommand{
		{document: "d.md", line: 3, text: "weir version"},
		{document: "d.md", line: 4, text: "weir check x.yaml   # exit 1", exit: 1},
		{document: "d.md", line: 11, text: "./bin/weir shares \\\n  x.yaml", output: []string{"root  1.0"}},
	}
	if !slices.EqualFunc(got, want, func(a, b shellCommand) bool {
		return a.document == b.document && a.line == b.line && a.text == b.text && a.exit == b.exit && slices.Equal(a.output, b.output)
	}) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestMarkdownTablesAreRead(t *testing.T) {
	const text = "# A\n| x | y |\n|---|---|\n| 1 | `a\\|b` |\n## B\n| z |\n|:-:|\n| 2 |\n```\n| 3 |\n```\n# C\n| w |\n|---|\n| 4 |\n"
	rows := markdownTables(text, "# A")
	if len(rows) != 2 || rows[0].cells[1] != "`a|b`" || rows[0].line != 4 || rows[1].cells[0] != "2" {
		t.Errorf("under # A: %+v", rows)
	}
	if rows := markdownTables(text, "## B"); len(rows) != 1 || rows[0].cells[0] != "2" {
		t.Errorf("under ## B: %+v", rows)
	}
	if rows := markdownTables(text, ""); len(rows) != 3 {
		t.Errorf("everywhere: %+v", rows)
	}
}

func TestLockFilesThatNpmRefusesAreSeen(t *testing.T) {
	var lock npmLock
	const text = `{"packages": {"node_modules/a": {"optionalDependencies": {"a-linux": "1", "a-mac": "1"}}, "node_modules/a-linux": {"resolved": "https://host.example/a.tgz"}}}`
	if err := json.Unmarshal([]byte(text), &lock); err != nil {
		t.Fatal(err)
	}
	got := lockProblems(lock)
	if len(got) != 2 || !strings.Contains(got[0], "lacks a-mac") || !strings.Contains(got[1], "names a registry's host") {
		t.Errorf("%q", got)
	}
}
