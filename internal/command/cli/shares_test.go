package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/weirhq/weir/test/expected"
)

// callWith runs one command line in process with this standard input.
func callWith(stdin io.Reader, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = execute(context.Background(), newRootCommand(), args, stdin, &out, &errs)
	return code, out.String(), errs.String()
}

// example returns the path of an example file.
func example(name string) string { return filepath.Join("..", "..", "..", "examples", name) }

// vectors returns the path of a compressed file of stored answers.
func vectors(name string) string {
	return filepath.Join("..", "..", "engine", "treefile", "testdata", name+".jsonl.gz")
}

// writeFile makes a file for one test.
func writeFile(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func compress(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestExamplesPrintWhatTheyDid(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		golden string
		code   int
		args   []string
	}{
		{"production-research", ExitOK, []string{"shares", example("production-research.yaml")}},
		{"production-research-18h", ExitOK, []string{"shares", example("production-research.yaml"), "--at", "18h"}},
		{"production-research-explain", ExitOK, []string{"shares", example("production-research.yaml"), "--explain", "production"}},
		{"production-research-days", ExitOK, []string{"shares", example("production-research.yaml"), "--for", "3d", "--step", "6h"}},
		{"production-research-check", ExitOK, []string{"check", example("production-research.yaml")}},
		{"production-research-check-json", ExitOK, []string{"check", example("production-research.yaml"), "-o", "json"}},
		{"production-research-1900", ExitOK, []string{"shares", example("production-research-1900.yaml")}},
		{"production-research-1900-check", ExitFailed, []string{"check", example("production-research-1900.yaml")}},
		{"production-research-strong", ExitOK, []string{"shares", example("production-research-strong.yaml")}},
		{"production-research-strong-check", ExitFailed, []string{"check", example("production-research-strong.yaml")}},
		{"burst-day", ExitOK, []string{"shares", example("burst.yaml"), "--for", "24h", "--step", "1h"}},
		{"burst-operation", ExitOK, []string{"shares", example("burst.yaml"), "--for", "3h", "--step", "1h", "--pool", "report", "-o", "yaml"}},
		{"burst-explain", ExitOK, []string{"shares", example("burst.yaml"), "--at", "8h", "--explain", "bursting"}},
		{"burst-check", ExitOK, []string{"check", example("burst.yaml")}},
		{"departments", ExitOK, []string{"shares", example("departments.yaml")}},
		{"departments-memory", ExitOK, []string{"shares", example("departments.yaml"), "--resource", "memory", "--pools-only"}},
		{"departments-explain-limit", ExitOK, []string{"shares", example("departments.yaml"), "--explain", "query-2"}},
		{"departments-explain-fifo", ExitOK, []string{"shares", example("departments.yaml"), "--explain", "merge-3"}},
		{"departments-explain-demand", ExitOK, []string{"shares", example("departments.yaml"), "--explain", "thesis"}},
		{"departments-check", ExitFailed, []string{"check", example("departments.yaml"), "--job", "cpu=8,memory=64GiB", "--job", "cpu=1,memory=2TiB,user_slots=2"}},
	} {
		t.Run(test.golden, func(t *testing.T) {
			code, out, errs := call(test.args...)
			if code != test.code || errs != "" {
				t.Fatalf("exit code %d, want %d; stderr %q", code, test.code, errs)
			}
			name := filepath.Join("testdata", "golden", test.golden+".txt")
			expected.File(t, name, out)
		})
	}
}

// The tests of treefile compare all stored answers. This one checks that the command line passes them on.
func TestStoredAnswersAgreeThroughTheCommandLine(t *testing.T) {
	t.Parallel()
	const trees = 45
	code, out, errs := call("shares", "--jsonl", "--compare", vectors("cases"))
	if want := strconv.Itoa(trees) + " trees agree with their stored answers"; code != ExitOK || !strings.Contains(out, want) {
		t.Fatalf("exit code %d, stdout %q, stderr %q; want %q", code, out, errs, want)
	}
	code, out, errs = call("shares", "--jsonl", "-o", "json", vectors("cases"))
	if code != ExitOK || errs != "" || strings.Count(out, `"ok":true`) != trees || strings.Count(out, "\n") != trees {
		t.Errorf("-o json: exit code %d, %d answers in %d lines, stderr %q", code, strings.Count(out, `"ok":true`), strings.Count(out, "\n"), errs)
	}
}

const (
	smallTree  = `{"id":"small","output":"brief","total_resources":{"cpu":10},"elements":[{"type":"operation","id":"o","resource_demand":{"cpu":5}}]}`
	smallRight = `{"id":"small","ok":true,"root":{"id":"<Root>","fair_share":{"total":[0,0.5,0,0,0],"weight_proportional":[0,0.5,0,0,0]},"inferred_strong_guarantee_resources":[0,10,0,0,0]},"elements":[{"id":"o","fair_share":{"total":[0,0.5,0,0,0],"weight_proportional":[0,0.5,0,0,0]}}]}`
)

func pair(input, output string) string { return `{"input":` + input + `,"output":` + output + "}\n" }

func TestLinesOfTrees(t *testing.T) {
	t.Parallel()
	wrong := strings.Replace(smallRight, "0.5", "0.6", 1)
	for _, test := range []struct {
		name, stdin string
		args        []string
		code        int
		out, errs   string // parts
	}{
		{"answers are one a line", smallTree + "\n\n" + smallTree, []string{"-o", "json"}, ExitOK, `{"id":"small","ok":true,"resource_order":["user_slots","cpu","gpu","memory","network"],"root":{`, ""},
		{"a readable tree in one line", `{"cluster":{"total":{"cpu":10}},"pools":{"a":{}}}`, []string{"-o", "json"}, ExitOK, `"id":"a"`, ""},
		{"tables follow each other", smallTree + "\n" + smallTree, nil, ExitOK, "small\ncluster: cpu=10", ""},
		{"YAML documents are separated", smallTree + "\n" + smallTree, []string{"-o", "yaml"}, ExitOK, "\n---\nid: small\n", ""},
		{"a wrong line is an answer and the rest goes on", `{"id":"bad","elements":[],"x":1}` + "\n" + smallTree, []string{"-o", "json"}, ExitFailed,
			`{"id":"bad","ok":false,"bad_input":"the file has 2 problems\nstdin#1:`, "stdin: 1 of 2 trees could not be read"},
		{"a wrong line between tables", "{}\n" + smallTree, nil, ExitFailed, "small\n", "weir: stdin#1:1:1: "},
		{"agreement", pair(smallTree, smallRight), []string{"--compare"}, ExitOK, "stdin: 1 trees agree", ""},
		{"disagreement", pair(smallTree, wrong), []string{"--compare"}, ExitFailed, "do not agree with their stored answers; largest difference: shares 0.1 (small/<Root>/fair_share/total)", ""},
		{"nothing to compare with", smallTree, []string{"--compare"}, ExitFailed, "do not agree", "stdin#1: there is no stored output to compare with"},
		{"a stored answer that is none", pair(smallTree, `{"root":5}`), []string{"--compare"}, ExitFailed, "do not agree", "stored output: answer: json"},
		{"a tree that should be refused and is", pair("{}", `{"ok":false,"bad_input":"why"}`), []string{"--compare"}, ExitOK, "1 trees agree", ""},
		{"a tree that should be refused and is not", pair(smallTree, `{"id":"small","ok":false}`), []string{"--compare"}, ExitFailed, "small: ok is true, must be false", ""},
		{"a tree that is refused and should not be", pair(`{"elements":[]}`, smallRight), []string{"--compare"}, ExitFailed, "do not agree", "weir: stdin#1:1:1: needs total_resources"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, out, errs := callWith(strings.NewReader(test.stdin), append([]string{"shares", "--jsonl", "-"}, test.args...)...)
			if code != test.code || !strings.Contains(out, test.out) || !strings.Contains(errs, test.errs) {
				t.Errorf("exit code %d, want %d; stdout:\n%s\nwant in it: %s\nstderr: %q, want in it: %q", code, test.code, out, test.out, errs, test.errs)
			}
		})
	}
}

// expectation is the first line of a file of bad input.
func expectation(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(data), "\n")
	want, ok := strings.CutPrefix(first, "# expect: ")
	if !ok || want == "" {
		t.Fatalf("%s does not begin with what to expect", name)
	}
	return want
}

func TestBadFilesEachGetTheirOwnMessage(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "bad", "*.bad.yaml"))
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	seen := map[string]string{}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".bad.yaml"), func(t *testing.T) {
			want := expectation(t, name)
			_, message, _ := strings.Cut(want, ": ")
			if other, taken := seen[message]; taken {
				t.Errorf("says the same as %s", other)
			}
			seen[message] = name
			for _, command := range []string{"shares", "check"} {
				code, out, errs := call(command, name)
				if prefix := "weir: " + name + ":" + want; code != ExitFailed || out != "" || !strings.HasPrefix(errs, prefix) {
					t.Errorf("%s: exit code %d, stdout %q, stderr:\n%swant:\n%s", command, code, out, errs, prefix)
				}
				if strings.Count(errs, "\n") != 1 {
					t.Errorf("%s: more than one message:\n%s", command, errs)
				}
			}
		})
	}
}

func TestHostileFilesAreRefused(t *testing.T) {
	t.Parallel()
	good, err := os.ReadFile(example("burst.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, file string
		data       []byte
		errs       string
	}{
		{"nothing", "x.yaml", nil, "the file is empty; it needs a cluster and pools"},
		{"only a comment", "x.yaml", []byte("# hello\n"), "the file is empty; it needs a cluster and pools"},
		{"no text", "x.yaml", []byte{0xff, 0xfe, 0x00, 0x01}, "the text is not UTF-8"},
		{"1 MB of nested lists", "x.yaml", bytes.Repeat([]byte("["), 1<<20), "nested deeper"},
		{"1 MB of nested maps", "x.yaml", bytes.Repeat([]byte("{a: "), 1<<18), "nested deeper"},
		{"3,000 nested pools", "x.yaml", nestedPools(3000), "nested deeper"},
		{"pools nested deeper than trees go", "x.yaml", nestedPools(31), "nested deeper than 30 levels"},
		{"1 MB of nesting in a vector", "x.json", []byte(`{"total_resources":{},"elements":` + strings.Repeat("[", 1<<20)), "nested deeper"},
		{"10 MB of one word", "x.yaml", bytes.Repeat([]byte("a"), 10<<20), "must be a map"},
		{"a gzip that is cut off", "x.yaml.gz", compress(t, string(good))[:100], "unexpected EOF"},
		{"a gzip that is none", "x.yaml.gz", []byte{0x1f, 0x8b, 0, 0, 0}, "x.yaml.gz: unexpected EOF"},
		{"more problems than one reads", "x.yaml", []byte("cluster: {total: {cpu: 1}}\npools:\n" + strings.Repeat("  - {wieght: 1}\n", 1000)), "the file has 2000 problems"},
	} {
		t.Run(test.name, func(t *testing.T) {
			name := writeFile(t, test.file, test.data)
			code, out, errs := call("shares", name)
			if code != ExitFailed || out != "" || !strings.Contains(errs, test.errs) {
				t.Errorf("exit code %d, stdout %.200q, stderr %.500q; want in it %q", code, out, errs, test.errs)
			}
			if len(errs) > 20_000 {
				t.Errorf("%d bytes of messages", len(errs))
			}
		})
	}
}

// nestedPools returns a file with a chain of pools.
func nestedPools(depth int) []byte {
	var b strings.Builder
	b.WriteString("cluster: {total: {cpu: 1}}\npools: ")
	for i := range depth {
		b.WriteString("{p" + strconv.Itoa(i) + ": {pools: ")
	}
	b.WriteString("{}" + strings.Repeat("}}", depth))
	return []byte(b.String())
}

func TestFilesThatAreNotThere(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"nothing.yaml", t.TempDir()} {
		if code, out, errs := call("shares", name); code != ExitFailed || out != "" || !strings.HasPrefix(errs, "weir: ") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", name, code, out, errs)
		}
	}
	if code, _, errs := callWith(brokenReader{}, "shares", "-"); code != ExitFailed || !strings.Contains(errs, "stdin: the cable is out") {
		t.Errorf("a broken input: exit code %d, stderr %q", code, errs)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("the cable is out") }

func TestInputsOfAllKinds(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(example("burst.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, want, _ := call("shares", example("burst.yaml"))
	zipped := writeFile(t, "burst.yaml.gz", compress(t, string(text)))
	for _, test := range []struct {
		name  string
		stdin []byte
		file  string
	}{
		{"standard input", text, "-"},
		{"compressed standard input", compress(t, string(text)), "-"},
		{"a compressed file", nil, zipped},
	} {
		t.Run(test.name, func(t *testing.T) {
			if code, out, errs := callWith(bytes.NewReader(test.stdin), "shares", test.file); code != ExitOK || out != want {
				t.Errorf("exit code %d, stderr %q, stdout:\n%s\nwant:\n%s", code, errs, out, want)
			}
		})
	}
}

func TestWrongCallsOfShares(t *testing.T) {
	t.Parallel()
	file := example("burst.yaml")
	for _, test := range []struct {
		name string
		args []string
		errs string
	}{
		{"no file", nil, "takes one file name, got 0"},
		{"two files", []string{file, file}, "takes one file name, got 2"},
		{"an unknown resource", []string{file, "--resource", "cores"}, `there is no resource "cores"; there are user_slots, cpu, gpu, memory and network`},
		{"--compare alone", []string{file, "--compare"}, "--compare needs --jsonl"},
		{"--compare with -o", []string{file, "--jsonl", "--compare", "-o", "json"}, "--compare prints no answers"},
		{"--step alone", []string{file, "--step", "1h"}, "--step needs --for"},
		{"--plot alone", []string{file, "--plot", "x.svg"}, "--plot needs --for"},
		{"--csv alone", []string{file, "--csv"}, "--csv needs --for"},
		{"--pool alone", []string{file, "--pool", "a"}, "--pool needs --for"},
		{"--update-period alone", []string{file, "--update-period", "1s"}, "--update-period needs --for or --at"},
		{"--for with --explain", []string{file, "--for", "1h", "--explain", "a"}, "--for and --explain exclude each other"},
		{"--for with --at", []string{file, "--for", "1h", "--at", "1h"}, "--for and --at exclude each other"},
		{"--jsonl with --explain", []string{file, "--jsonl", "--explain", "a"}, "--jsonl and --explain exclude each other"},
		{"--csv with -o", []string{file, "--for", "1h", "--csv", "-o", "json"}, "--csv and --output exclude each other"},
		{"a picture of another kind", []string{file, "--for", "1h", "--plot", "x.png"}, "the name must end in .svg"},
		{"a time that is none", []string{file, "--for", "soon"}, "must be a time like 90s, 10m, 24h or 3d"},
		{"a negative time", []string{file, "--for", "-1h"}, "--for and --at must not be negative"},
		{"no step", []string{file, "--for", "1h", "--step", "0s"}, "must be positive"},
		{"too many lines", []string{file, "--for", "10000d", "--step", "1s"}, "more than a million lines"},
		{"too many updates", []string{file, "--at", "10000d", "--update-period", "1ms"}, "is too short for this much time"},
		{"an unknown flag", []string{file, "--reource", "cpu"}, `Did you mean "--resource"?`},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, out, errs := call(append([]string{"shares"}, test.args...)...)
			if code != ExitWrongCall || out != "" || !strings.Contains(errs, test.errs) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want in it %q", code, out, errs, test.errs)
			}
		})
	}
}

func TestElementsThatCannotBeExplained(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		file, name, errs string
		at               string
	}{
		{"departments.yaml", "merge-4", "operation merge-4 has no share: it is pending: nightly runs at most 3 operations", "0s"},
		{"production-research.yaml", "nightly", "operation nightly has no share: it is not active now", "18h"},
		{"departments.yaml", "serch", `there is no pool or operation "serch" in the file; did you mean "search"?`, "0s"},
	} {
		code, out, errs := call("shares", example(test.file), "--at", test.at, "--explain", test.name)
		if code != ExitFailed || out != "" || !strings.Contains(errs, test.errs) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q; want in it %q", test.name, code, out, errs, test.errs)
		}
	}
	if code, _, errs := call("shares", example("burst.yaml"), "--for", "1h", "--pool", "nobody"); code != ExitFailed || !strings.Contains(errs, `there is no pool or operation "nobody"`) {
		t.Errorf("exit code %d, stderr %q", code, errs)
	}
}

func TestCSVHasALineForEveryPoolAndStep(t *testing.T) {
	t.Parallel()
	code, out, errs := call("shares", example("burst.yaml"), "--for", "2h", "--step", "30m", "--csv", "--resource", "memory")
	if code != ExitOK || errs != "" {
		t.Fatalf("exit code %d, stderr %q", code, errs)
	}
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || len(rows) != 1+5*2 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	if diff := cmp.Diff(historyColumns, rows[0]); diff != "" {
		t.Error(diff)
	}
	if rows[5][0] != "3600" || rows[5][1] != "bursting" || rows[5][2] != "memory" {
		t.Errorf("the fifth row is %v", rows[5])
	}
}

func TestPlotsAreTheSameBytesEachTime(t *testing.T) {
	t.Parallel()
	draw := func(file string) string {
		t.Helper()
		name := filepath.Join(t.TempDir(), "out.svg")
		code, out, errs := call("shares", example(file), "--for", "24h", "--step", "10m", "--plot", name)
		if code != ExitOK || errs != "" || !strings.Contains(out, "drawn: "+name) || !strings.Contains(out, "entitled") {
			t.Fatalf("exit code %d, stdout %q, stderr %q", code, out, errs)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	burst := draw("burst.yaml")
	if again := draw("burst.yaml"); again != burst {
		t.Error("two pictures of one file differ")
	}
	for _, want := range []string{
		"cpu: entitlement and demand (demand is cut at 1250)", "accumulated volume and its capacity", ">3h<", ">cores<", ">cores·s<",
		"bursting: demand", "bursting: entitled to", "neighbour: entitled to", "bursting: capacity", "bursting: accumulated", ">cluster<",
	} {
		if !strings.Contains(burst, want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
	if plain := draw("departments.yaml"); strings.Contains(plain, "accumulated volume") {
		t.Error("a tree without integral pools has a figure of volumes")
	}
	decoder := xml.NewDecoder(strings.NewReader(burst))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the picture is no XML: %v", err)
		}
	}
	if code, _, errs := call("shares", example("burst.yaml"), "--for", "1h", "--plot", filepath.Join(t.TempDir(), "no", "where.svg")); code != ExitFailed || errs == "" {
		t.Errorf("a picture that cannot be written: exit code %d, stderr %q", code, errs)
	}
}

func TestHistoryForPrograms(t *testing.T) {
	t.Parallel()
	code, out, errs := call("shares", example("production-research.yaml"), "--for", "1d", "--step", "12h", "-o", "json")
	var got historyDocument
	if err := json.Unmarshal([]byte(out), &got); code != ExitOK || err != nil {
		t.Fatalf("exit code %d, stderr %q, %v", code, errs, err)
	}
	if got.Resource != "cpu" || got.Total != 2000 || len(got.Series) != 2 || len(got.Series[0].Samples) != 3 || got.Series[0].Samples[0].RatioVolume == nil {
		t.Errorf("got %s", out)
	}
	if average := got.Series[1].Average.FairShare; average < 998 || average > 1002 {
		t.Errorf("research is entitled to %v on average", average)
	}
}

func TestRareUpdatesAreWarnedOf(t *testing.T) {
	t.Parallel()
	code, _, errs := call("shares", example("burst.yaml"), "--for", "4h", "--step", "1h", "--update-period", "5m")
	if code != ExitOK || !strings.Contains(errs, "weir: warning: updates every 5m0s are too rare for integral pools") {
		t.Errorf("exit code %d, stderr %q", code, errs)
	}
}

func TestExplanationsForPrograms(t *testing.T) {
	t.Parallel()
	code, out, errs := call("shares", example("departments.yaml"), "--explain", "merge-1", "-o", "json")
	var got explanation
	if err := json.Unmarshal([]byte(out), &got); code != ExitOK || err != nil {
		t.Fatalf("exit code %d, stderr %q, %v", code, errs, err)
	}
	var names []string
	for _, link := range got.Chain {
		names = append(names, link.Name)
	}
	if chain := strings.Join(names, " "); chain != "merge-1 nightly search <Root>" || got.Chain[0].FIFOIndex == nil || *got.Chain[0].FIFOIndex != 1 {
		t.Errorf("chain %s, %+v", chain, got.Chain)
	}
	if got.Bound != "cluster" || got.Resource != "cpu" || !strings.HasPrefix(got.Says, "3.08 % of cpu from its pool nightly, bound by the cluster") {
		t.Errorf("got %+v", got)
	}
}

func TestExplanationsNameWhatBinds(t *testing.T) {
	t.Parallel()
	const file = `
cluster: {total: {cpu: 100}}
tree: {enable_step_function_for_gang_operations: true}
pools:
  bounded: {resource_limits: {cpu: 20}, pools: {inner: {}}}
  line: {mode: fifo, max_share_ratio: 0.3}
  gangs: {min_share_resources: {cpu: 10}, max_share_ratio: 0.1}
  rest: {min_share_resources: {cpu: 10}, integral_guarantees: {guarantee_type: burst, resource_flow: {cpu: 5}, burst_guarantee_resources: {cpu: 10}}}
operations:
  - {name: much, pool: inner, demand: {cpu: 50}}
  - {name: little, pool: inner, demand: {cpu: 2}}
  - {name: limited, pool: inner, demand: {cpu: 20}, resource_limits: {cpu: 1}}
  - {name: first, pool: line, demand: {cpu: 60}}
  - {name: second, pool: line, demand: {cpu: 1}}
  - {name: gang, pool: gangs, demand: {cpu: 11}, gang: true}
  - {name: hungry, pool: rest, demand: {cpu: 500}}
state: {rest: {accumulated_resource_ratio_volume: 600}}
`
	for name, want := range map[string]string{
		"much":    "much is entitled to 17 % of cpu from its pool inner\nbound by the limit of pool bounded on cpu: 20\n",
		"little":  "little is entitled to 2 % of cpu from its pool inner\nbound by its demand: it gets all it demands\n",
		"limited": "limited is entitled to 1 % of cpu from its pool inner\nbound by its own limit on cpu: 1\n",
		"bounded": "bounded is entitled to 20 % of cpu = 20 % of the surplus\nbound by its own limit on cpu: 20\n",
		"first":   "first is entitled to 30 % of cpu from its pool line\nbound by the limit of pool line on cpu: 30\n",
		"second":  "second is entitled to 0 % of cpu from its pool line\nbound by the order of FIFO pool line: operations before it take what the pool has\n",
		"gang":    "gang is entitled to 0 % of cpu from its pool gangs\nbound by being a gang: it gets all it demands or nothing, and all does not fit\n",
		"rest": "rest is entitled to 50 % of cpu = 10 % strong + 10 % burst + 30 % of the surplus\nbound by the cluster: all of its cpu is given out\n" +
			"saved 60k core·s of at most 432k core·s, with a flow of 5 cpu, which lasts 3h20m at this speed\n",
	} {
		code, out, errs := callWith(strings.NewReader(file), "shares", "-", "--explain", name)
		if code != ExitOK || errs != "" || !strings.HasPrefix(out, want) {
			t.Errorf("exit code %d, stderr %q, stdout:\n%s\nwant at first:\n%s", code, errs, out, want)
		}
	}
}

func TestYAMLAnswersAreTheJSONOnes(t *testing.T) {
	t.Parallel()
	_, asJSON, _ := call("shares", example("departments.yaml"), "-o", "json")
	code, asYAML, errs := call("shares", example("departments.yaml"), "-o", "yaml")
	var fromJSON, fromYAML any
	if err := yaml.Unmarshal([]byte(asYAML), &fromYAML); code != ExitOK || err != nil {
		t.Fatalf("exit code %d, stderr %q, %v", code, errs, err)
	}
	if err := yaml.Unmarshal([]byte(asJSON), &fromJSON); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fromJSON, fromYAML); diff != "" {
		t.Error(diff)
	}
	if strings.Count(asJSON, "\n") != 1 {
		t.Errorf("the JSON has %d lines", strings.Count(asJSON, "\n"))
	}
}

func TestBars(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name                 string
		usage, share, demand float64
		ascii, unicode       string
	}{
		{"nothing", 0, 0, 0, "", ""},
		{"rounding is nothing", 1e-9, 1e-8, 1e-9, "", ""},
		{"a little is seen", 0, 0.0001, 0.0002, "=", "▒"},
		{"half used, all entitled", 0.5, 1, 1, "############============", "████████████▒▒▒▒▒▒▒▒▒▒▒▒"},
		{"asked for more", 0.25, 0.5, 0.75, "######======......", "██████▒▒▒▒▒▒░░░░░░"},
		{"asked for more than there is", 0, 0.5, 2, "============............>", "▒▒▒▒▒▒▒▒▒▒▒▒░░░░░░░░░░░░›"},
		{"uses more than it should", 0.5, 0.25, 0.75, "######|#####......", "██████┃█████░░░░░░"},
		{"uses what it has no right to", 0.25, 0, 0.25, "|#####", "┃█████"},
		{"uses the whole cluster", 1, 1, 1, "########################", "████████████████████████"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := asciiBars.bar(test.usage, test.share, test.demand); got != test.ascii {
				t.Errorf("ASCII %q, want %q", got, test.ascii)
			}
			if got := unicodeBars.bar(test.usage, test.share, test.demand); got != test.unicode {
				t.Errorf("Unicode %q, want %q", got, test.unicode)
			}
		})
	}
}

func TestBlockCharactersOnlyOnATerminalThatKnowsThem(t *testing.T) {
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a character device, as a terminal is
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	for _, test := range []struct {
		name                string
		w                   io.Writer
		all, characters, la string
		unicode             bool
	}{
		{"a UTF-8 terminal", device, "", "", "en_US.UTF-8", true},
		{"spelled otherwise", device, "", "C.utf8", "", true},
		{"the first variable wins", device, "C", "", "en_US.UTF-8", false},
		{"another terminal", device, "", "", "ru_RU.KOI8-R", false},
		{"no locale", device, "", "", "", false},
		{"a pipe", &bytes.Buffer{}, "", "", "en_US.UTF-8", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("LC_ALL", test.all)
			t.Setenv("LC_CTYPE", test.characters)
			t.Setenv("LANG", test.la)
			if got := barStyleOf(test.w).used == unicodeBars.used; got != test.unicode {
				t.Errorf("block characters: %v, want %v", got, test.unicode)
			}
		})
	}
}
