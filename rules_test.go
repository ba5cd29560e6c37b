package weir_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The largest sizes allowed; aim for half of each.
const (
	maxFileLines     = 800
	maxTestFileLines = 1200
	maxFunctionLines = 120
)

func TestFilesAndFunctionsStaySmall(t *testing.T) {
	source := readSource(t)
	for _, file := range source.files {
		if file.generated {
			continue
		}
		limit := maxFileLines
		if file.test {
			limit = maxTestFileLines
		}
		if file.lines > limit {
			t.Errorf("%s has %d lines, more than %d: does it have one subject?", file.path, file.lines, limit)
		}
		if file.test {
			continue // tables of cases are long and easy to read
		}
		for _, decl := range file.ast.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if lines := source.line(function.End()) - source.line(function.Pos()) + 1; lines > maxFunctionLines {
				t.Errorf("%s:%d: %s has %d lines, more than %d", file.path, source.line(function.Pos()), function.Name, lines, maxFunctionLines)
			}
		}
	}
}

func TestPackagesSayWhatTheyOwn(t *testing.T) {
	source := readSource(t)
	comments, names := map[string]string{}, map[string]string{}
	for _, file := range source.files {
		if file.test {
			continue
		}
		names[file.dir()] = file.ast.Name.Name
		if doc := file.ast.Doc.Text(); doc != "" {
			if comments[file.dir()] != "" {
				t.Errorf("%s: package %s has a second package comment", file.path, file.ast.Name)
			}
			comments[file.dir()] = doc
		}
	}
	for dir, name := range names {
		want := "Package " + name + " "
		if name == "main" {
			want = "Command " + path.Base(dir) + " "
		}
		if doc := comments[dir]; !strings.HasPrefix(doc, want) || len(doc) < 80 {
			t.Errorf("%s: needs a package comment that begins with %q and says what it owns", dir, want)
		}
		if vagueName.MatchString(name) {
			t.Errorf("%s: %q says nothing about what is inside; name the noun", dir, name)
		}
	}
}

var vagueName = regexp.MustCompile(`(?i)^(utils?|common|helpers?|misc|shared|tools?|stuff|lib)$|_`)

// interfaceMethods need no comment: their contract is that of a well-known interface.
var interfaceMethods = []string{
	"String", "Error", "Unwrap", "Is", "As", "Len", "Less", "Swap", "Format", "GoString",
	"MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText", "MarshalYAML", "UnmarshalYAML",
}

func TestExportedNamesAreDocumented(t *testing.T) {
	source := readSource(t)
	for _, file := range source.files {
		if file.test || file.generated {
			continue
		}
		for _, decl := range file.ast.Decls {
			for _, name := range undocumented(decl) {
				t.Errorf("%s:%d: %s has no comment", file.path, source.line(name.Pos()), name.Name)
			}
		}
	}
}

// undocumented returns the exported names that a declaration leaves without a comment.
func undocumented(decl ast.Decl) []*ast.Ident {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Doc != nil || !decl.Name.IsExported() || !ast.IsExported(receiver(decl)) ||
			decl.Recv != nil && slices.Contains(interfaceMethods, decl.Name.Name) {
			return nil
		}
		return []*ast.Ident{decl.Name}
	case *ast.GenDecl:
		var names []*ast.Ident
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() && spec.Doc == nil && (decl.Doc == nil || len(decl.Specs) > 1) {
					names = append(names, spec.Name)
				}
			case *ast.ValueSpec:
				if spec.Doc != nil || spec.Comment != nil || decl.Doc != nil || isEnumeration(decl) {
					continue // the comment of a group of constants covers all of them
				}
				for _, name := range spec.Names {
					if name.IsExported() {
						names = append(names, name)
					}
				}
			}
		}
		return names
	}
	return nil
}

// isEnumeration reports whether a declaration lists the values of a named type, whose comment
// covers them.
func isEnumeration(decl *ast.GenDecl) bool {
	first, ok := decl.Specs[0].(*ast.ValueSpec)
	return ok && decl.Tok == token.CONST && decl.Lparen.IsValid() && first.Type != nil
}

// receiver returns the name of a method's type, or the name of a plain function.
func receiver(function *ast.FuncDecl) string {
	if function.Recv == nil {
		return function.Name.Name
	}
	expr := function.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

func TestTestsDoNotSleep(t *testing.T) {
	source := readSource(t)
	for _, file := range source.files {
		if !file.test {
			continue
		}
		ast.Inspect(file.ast, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := selector.X.(*ast.Ident); ok && pkg.Name == "time" && selector.Sel.Name == "Sleep" {
				t.Errorf("%s:%d: a test sleeps; wait for what it waits for, or use testing/synctest", file.path, source.line(n.Pos()))
			}
			return true
		})
	}
}

func TestNothingRunsBeforeMain(t *testing.T) {
	source := readSource(t)
	for _, file := range source.files {
		if file.test || file.generated {
			continue
		}
		for _, decl := range file.ast.Decls {
			if function, ok := decl.(*ast.FuncDecl); ok && function.Recv == nil && function.Name.Name == "init" {
				t.Errorf("%s:%d: an init function; use an explicit table or call", file.path, source.line(function.Pos()))
			}
		}
	}
}

// unfinished matches a marker of unfinished work that names no issue.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX|HA` + `CK)\b(\(#\d+\))?`)

// strangers are texts that belong to one machine and not to the project. They are split so that
// this file passes its own test.
var strangers = []struct{ what, text string }{
	{"a path of one machine", "/wo" + "rk/"},
	{"a path of one machine", "/tm" + "p/"},
	{"a path of one machine", "/ro" + "ot/"},
	{"a registry's host", "proxy.golang" + ".org"},
	{"a registry's host", "sum.golang" + ".org"},
	{"a registry's host", "registry.npmjs" + ".org"},
	{"a registry's host", "deb.debian" + ".org"},
	{"a registry's host", "security.debian" + ".org"},
}

func TestFilesHoldNothingUnfinishedOrForeign(t *testing.T) {
	for name, text := range readSource(t).texts {
		for i, line := range strings.Split(text, "\n") {
			if found := unfinished.FindStringSubmatch(line); found != nil && found[2] == "" {
				t.Errorf("%s:%d: %s without the number of an issue", name, i+1, found[1])
			}
			ours := strings.ReplaceAll(line, "//tm"+"p/", "") // a path in the tree of paths
			for _, stranger := range strangers {
				if strings.Contains(ours, stranger.text) {
					t.Errorf("%s:%d: %s: %s", name, i+1, stranger.what, stranger.text)
				}
			}
			if !strings.HasSuffix(name, "_test.go") && strings.Contains(line, "../sha"+"red") {
				t.Errorf("%s:%d: reads from beside the repository", name, i+1)
			}
		}
	}
}

// npmLock is the part of web/package-lock.json that lists what is installed.
type npmLock struct {
	Packages map[string]struct {
		Resolved             string
		OptionalDependencies map[string]string
	}
}

// npm ci refuses a lock file that lacks the native part of a platform, and uses the machine's
// registry only if the lock file names no host.
func TestTheLockFileOfThePageIsWholeAndNamesNoHost(t *testing.T) {
	text, err := os.ReadFile("web/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	var lock npmLock
	if err := json.Unmarshal(text, &lock); err != nil {
		t.Fatal(err)
	}
	for _, problem := range lockProblems(lock) {
		t.Error("web/package-lock.json: " + problem)
	}
}

func lockProblems(lock npmLock) []string {
	var problems []string
	for name, one := range lock.Packages {
		if one.Resolved != "" {
			problems = append(problems, name+" names a registry's host; web/.npmrc keeps npm from writing it")
		}
		for part := range one.OptionalDependencies {
			if _, there := lock.Packages["node_modules/"+part]; !there {
				problems = append(problems, name+" lacks "+part+": choose a version that has all its parts")
			}
		}
	}
	slices.Sort(problems)
	return problems
}

var relativeLink = regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)\s]*)?\)`)

func TestLinksInDocumentsLead(t *testing.T) {
	source := readSource(t)
	for name, text := range source.texts {
		if path.Ext(name) != ".md" {
			continue
		}
		for _, link := range relativeLink.FindAllStringSubmatch(text, -1) {
			if target := path.Join(path.Dir(name), link[1]); !exists(target) {
				t.Errorf("%s: link to %s, which is not there", name, link[1])
			}
		}
	}
}

// declaredTests returns the names of all test, fuzz, benchmark and example functions, each with the
// files that declare it.
func declaredTests(source *sourceTree) map[string][]goFile {
	tests := map[string][]goFile{}
	for _, file := range source.files {
		if !file.test {
			continue
		}
		for _, decl := range file.ast.Decls {
			if function, ok := decl.(*ast.FuncDecl); ok && function.Recv == nil && testName.MatchString(function.Name.Name) {
				tests[function.Name.Name] = append(tests[function.Name.Name], file)
			}
		}
	}
	return tests
}

var testName = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)($|[^a-z])`)

// stringLiterals returns all strings written in a file, as subtest names spell them.
func stringLiterals(file goFile) []string {
	var literals []string
	ast.Inspect(file.ast, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			literals = append(literals, strings.ReplaceAll(strings.Trim(lit.Value, "\"`"), " ", "_"))
		}
		return true
	})
	return literals
}

// missingTest returns why name, "TestX" or "TestX/a_case" or the path of a scenario file, does not
// name a test that runs; empty if it does.
func missingTest(tests map[string][]goFile, name string) string {
	if strings.Contains(name, ".") {
		if !exists(name) {
			return fmt.Sprintf("no file %s", name)
		}
		return ""
	}
	function, subtest, _ := strings.Cut(name, "/")
	files := tests[function]
	if len(files) == 0 {
		return fmt.Sprintf("no test %s", function)
	}
	if subtest == "" {
		return ""
	}
	for _, file := range files {
		if slices.Contains(stringLiterals(file), strings.ReplaceAll(subtest, " ", "_")) {
			return ""
		}
	}
	return fmt.Sprintf("%s has no case %q", function, subtest)
}
