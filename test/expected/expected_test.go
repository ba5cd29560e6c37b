package expected

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/value/document"
)

// record is a test that records its failures.
type record struct {
	testing.TB
	failed string
}

func (r *record) Helper() {}

func (r *record) Errorf(format string, _ ...any) { r.failed = format }

func TestAFileThatHoldsSomethingElseFailsAndIsRewrittenOnDemand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	const page = "# Head\n\n" + marker + "all is made -->\nold\n"
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(text string) string {
		r := &record{TB: t}
		Page(r, file, text)
		return r.failed
	}
	if failed := check("old\n"); failed != "" {
		t.Errorf("the right text fails: %s", failed)
	}
	if failed := check("new\n"); !strings.Contains(failed, "out of date") {
		t.Errorf("another text does not fail: %q", failed)
	}
	*update = true
	defer func() { *update = false }()
	if failed := check("new\n"); failed != "" || Read(t, file) != strings.ReplaceAll(page, "old", "new") {
		t.Errorf("%s: the page is\n%s", failed, Read(t, file))
	}
}

func TestARowOfOptionsFitsItsTable(t *testing.T) {
	o := &document.Info{Name: "a", Aliases: []string{"b", "c"}, Doc: "x|y.", Default: document.Text("p|q")}
	want := "| `a` | text | `\"p\\|q\"` | x\\|y. Also `b`, `c`. |\n"
	if got := OptionRow(o, "text"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestInputsOfACorpusAreReadAsGoWritesThem(t *testing.T) {
	arguments, err := parseInput("string(\"a\\tb)\")\t[]byte(\"\\xff\")\tstring(\"\")")
	if err != nil || len(arguments) != 3 || arguments[0] != "a\tb)" || string(arguments[1].([]byte)) != "\xff" || arguments[2] != "" {
		t.Errorf("%q, %v", arguments, err)
	}
	for _, wrong := range []string{"", "int(5)", `string("`, `string("a") string("b")`} {
		if arguments, err := parseInput(wrong); err == nil {
			t.Errorf("%s is read as %q", wrong, arguments)
		}
	}
}
