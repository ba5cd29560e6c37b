package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// somethingToSee makes a tree of three pools with an operation in one of them.
func somethingToSee(t *testing.T) *testbed {
	t.Helper()
	b := newTestbed(t, 2)
	b.pool("production", "<Root>", "strong_guarantee_resources={cpu=4}; weight=2")
	b.pool("research", "<Root>", "")
	b.pool("thesis", "research", "mode=fifo")
	b.startNightly("")
	b.shows("pools", `research +fair_share +1 +1/1 +4 +4 +4 `) // the operation and its two jobs: pools are a moment behind
	return b
}

// shows waits until a command prints this text.
func (b *testbed) shows(command, pattern string) {
	b.t.Helper()
	line := regexp.MustCompile(pattern)
	b.until(func() bool { return line.MatchString(b.ok(strings.Fields(command)...)) }, "%s does not show %s", command, pattern)
}

func TestPoolsAndNodesAsTables(t *testing.T) {
	b := somethingToSee(t)
	for _, test := range []struct {
		name string
		args []string
	}{
		{"pools", []string{"pools"}},
		{"pools-operations", []string{"pools", "default", "--operations", "--resource", "memory,cpu"}},
		{"explain", []string{"explain", "*nightly"}},
		{"export", []string{"export"}},
	} {
		t.Run(test.name, func(t *testing.T) { golden(t, test.name, b.ok(test.args...)) })
	}
	var answer struct {
		Tree  string         `json:"pool_tree"`
		Pools map[string]any `json:"pools"`
	}
	if err := json.Unmarshal([]byte(b.ok("pools", "-o", "json")), &answer); err != nil || answer.Tree != "default" || len(answer.Pools) != 4 {
		t.Errorf("%+v, %v", answer, err)
	}
	if said := b.refused("pools", "moon"); !strings.Contains(said, `there is no pool tree "moon"; there are: default`) {
		t.Errorf("a tree that is not there: %q", said)
	}
}

func TestNodesAsATable(t *testing.T) {
	b := newTestbed(t, 3)
	b.ok("set", "//sys/cluster_nodes/node-2/@user_tags", "[fast;new]")
	b.ok("set", "//sys/cluster_nodes/node-2/@disable_scheduler_jobs", "%true")
	b.ok("set", "//sys/cluster_nodes/node-3/@banned", "%true")
	b.shows("nodes", `(?s)node-1 +online +default .*node-2 +disabled +default .* fast,new,.*node-3 +banned +- `)
	golden(t, "nodes", b.ok("nodes"))
	if out := b.ok("nodes", "--state", "offline"); strings.Contains(out, "node-1") {
		t.Errorf("offline nodes:\n%s", out)
	}
	if out := b.ok("nodes", "--tag", "fast"); strings.Count(out, "\n") != 2 || !strings.Contains(out, "node-2") {
		t.Errorf("nodes with a tag:\n%s", out)
	}
}

func TestNodesAreKeptFromJobsWithAReason(t *testing.T) {
	b := newTestbed(t, 3)
	if code, _, said := b.call("nodes", "release", "node-2"); code != ExitWrongCall || !strings.Contains(said, "--mine") {
		t.Errorf("a release that does not say of what: %d %q", code, said)
	}
	if code, _, said := b.call("nodes", "ban", "--comment", "nobody"); code != ExitWrongCall || !strings.Contains(said, "at least one node") {
		t.Errorf("a ban of nobody: %d %q", code, said)
	}
	if said := b.refused("nodes", "ban", "moon", "-m", "far"); !strings.Contains(said, `No such node "moon"`) {
		t.Errorf("a node that is not there: %q", said)
	}
	if said := b.refused("nodes", "disable", "node-2", "--type", "party"); !strings.Contains(said, "decommission") {
		t.Errorf("a type that is not there: %q", said)
	}
	b.ok("nodes", "disable", "node-2", "node-1", "-m", "a new kernel tonight")
	id := strings.Fields(b.ok("nodes", "ban", "node-3", "--comment", "the disk is broken"))
	if len(id) != 2 || id[0] != "node-3" || strings.Count(id[1], "-") != 3 {
		t.Errorf("a ban answers %q", id)
	}
	b.ok("nodes", "disable", "node-3", "--type", "pending_restart")
	b.shows("nodes", `(?s)node-1 +disabled +default .*node-2 +disabled +default .*node-3 +banned +- .*pending_restart`)
	golden(t, "nodes-kept", b.ok("nodes"))
	if out := b.ok("nodes", "release", "node-3", "--id", id[1]); strings.Join(strings.Fields(out), " ") != "node-3 ban: 1" {
		t.Errorf("the ban is taken back: %q", out)
	}
	if out := b.ok("nodes", "release", "node-1", "node-2", "node-3", "--mine", "--type", "disable_scheduler_jobs"); !strings.Contains(out, "nothing to remove") ||
		strings.Count(out, "disable_scheduler_jobs: 1") != 2 {
		t.Errorf("all is taken back: %q", out)
	}
	if out := b.ok("nodes", "-o", "json"); strings.Contains(out, "kernel") || !strings.Contains(out, "pending_restart") {
		t.Errorf("nodes afterwards: %s", out)
	}
}

func TestExplanationsNameWhatIsShort(t *testing.T) {
	b := newTestbed(t, 1)
	b.pool("narrow", "<Root>", "resource_limits={cpu=2}")
	huge := strings.TrimSpace(b.ok("run", "--detach", "--cpu", "64", "--", "sleep 1000"))
	b.until(func() bool { return strings.Contains(b.ok("explain", huge), "the largest node that it may use has") }, "a job that is too large for all nodes")
	b.ok("run", "--detach", "-p", "narrow", "--cpu", "2", "--", "sleep 1000")
	second := strings.TrimSpace(b.ok("run", "--detach", "-p", "narrow", "--cpu", "2", "--", "sleep 1000"))
	b.until(func() bool {
		return strings.Contains(b.ok("explain", second), "pool narrow may use 2 cpu (resource_limits); 2 in use, a job needs 2: 2 short. Held: ")
	},
		"a pool at its limit")
}

// ticks ends a command when it has written left more tables or events.
type ticks struct {
	bytes.Buffer
	left int
	end  context.CancelFunc
}

func (w *ticks) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "pool ") || strings.Contains(string(p), "node_registered") {
		if w.left--; w.left == 0 {
			w.end()
		}
	}
	return w.Buffer.Write(p)
}

func TestWatchShowsPoolsAgain(t *testing.T) {
	b := newTestbed(t, 1)
	b.until(func() bool { code, _, _ := b.call("pools"); return code == ExitOK }, "the tree is never shown")
	ctx, cancel := context.WithCancel(t.Context())
	out, errs := &ticks{left: 2, end: cancel}, &bytes.Buffer{}
	code := execute(ctx, newRootCommand(), []string{"pools", "--watch", "--interval", "100ms"}, strings.NewReader(""), out, errs)
	if code != ExitInterrupted || strings.Count(out.String(), "<Root>") < 2 {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s", code, errs, out)
	}
}

func TestEventsAreShownAndFollowed(t *testing.T) {
	b := somethingToSee(t)
	b.shows("events --type job_started", `(?s)job_started.*job_started`) // they are read from the store, which is behind what runs
	if out := b.ok("events", "--type", "job_started", "--operation", "*nightly"); strings.Count(out, "job_started") != 2 || !strings.Contains(out, "pool=research") {
		t.Errorf("starts of jobs:\n%s", out)
	}
	var events []map[string]any
	if err := json.Unmarshal([]byte(b.ok("events", "--node", "node-1", "--since", "1h", "-o", "json")), &events); err != nil || len(events) == 0 {
		t.Errorf("%d events, %v", len(events), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out, errs := &ticks{left: 2, end: cancel}, &bytes.Buffer{}
	code := execute(ctx, newRootCommand(), []string{"events", "--follow", "--type", "node_registered", "--interval", "100ms"}, strings.NewReader(""), out, errs)
	if code != ExitInterrupted || strings.Count(out.String(), "node_registered") != 2 {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s", code, errs, out)
	}
}

func TestAFileOfPoolsIsComparedAndApplied(t *testing.T) {
	b := somethingToSee(t)
	file := filepath.Join(t.TempDir(), "pools.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(b.ok("export"))
	if out := b.ok("diff", "-f", file); !strings.Contains(out, "Nothing differs in tree default.") {
		t.Errorf("what was exported differs:\n%s", out)
	}
	write("pools:\n  production: {weight: 3, strong_guarantee_resources: {cpu: 4}}\n  research:\n    pools: {thesis: {mode: fifo}}\n  adhoc: {weight: 0.5}\n")
	code, out, _ := b.call("diff", "-f", file)
	golden(t, "diff", out)
	if code != ExitFailed {
		t.Errorf("differences end with exit code %d", code)
	}
	golden(t, "apply", b.ok("apply", "-f", file))
	if out := b.ok("get", "//sys/pools/adhoc/@weight"); out != "0.5\n" {
		t.Errorf("the weight of the new pool is %q", out)
	}
	write("pools:\n  production: {weight: 3, strong_guarantee_resources: {cpu: 400}}\n  research: {}\n")
	said := b.refused("apply", "-f", file, "--require-feasible")
	if !strings.Contains(said, "cannot be kept") || !strings.Contains(said, "(code 29000)") {
		t.Errorf("promises that do not fit: %q", said)
	}
	for _, wrong := range []struct {
		file string
		want []string
	}{
		{"pools:\n  production: {wieght: 3}\n", []string{"pools.yaml:2", "wieght", `"weight"`}},
		{"pools:\n  production: {}\n  research: {mode: lifo}\n", []string{"pools.yaml:3", "research/mode", "lifo", `"fifo"`}},
		{"pools: [\n", []string{"pools.yaml:"}},
	} {
		write(wrong.file)
		said := b.refused("apply", "-f", file)
		for _, want := range wrong.want {
			if !strings.Contains(said, want) {
				t.Errorf("%q: said %q, want %q in it", wrong.file, said, want)
			}
		}
	}
	if out := b.ok("get", "//sys/pools/adhoc/@weight"); out != "0.5\n" {
		t.Errorf("a refused file changed something: %q", out)
	}
}

func TestABackupIsRestored(t *testing.T) {
	b := newTestbed(t, 0)
	b.pool("kept", "<Root>", "weight=7")
	directory := t.TempDir()
	file := filepath.Join(directory, "weir.backup")
	if code, out, errs := b.call("backup", file); code != ExitOK || out != "" || !strings.Contains(errs, "bytes") {
		t.Fatalf("exit code %d, stdout %q, stderr %q", code, out, errs)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v: others can read the backup", info.Mode(), err)
	}
	b.ok("restore", file, "--data-dir", filepath.Join(directory, "new"))
	if said := b.refused("restore", file, "--data-dir", filepath.Join(directory, "new")); !strings.Contains(said, "unused store: name another") {
		t.Errorf("restored twice: %q", said)
	}
	if err := os.WriteFile(file, []byte("cut off"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := b.refused("restore", file, "--data-dir", filepath.Join(directory, "third")); !strings.Contains(said, "import") {
		t.Errorf("a file that is no backup: %q", said)
	}
}

func TestAThousandPoolsAreShown(t *testing.T) {
	b := newTestbed(t, 1)
	var text strings.Builder
	text.WriteString("pools:\n")
	for i := range 10 {
		fmt.Fprintf(&text, "  d%d:\n    pools:\n", i)
		for j := range 100 {
			fmt.Fprintf(&text, "      d%d-%d: {}\n", i, j)
		}
	}
	file := filepath.Join(t.TempDir(), "pools.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	b.ok("apply", "-f", file)
	b.until(func() bool { return strings.Count(b.ok("pools"), "\n") > 1010 }, "the pools are not there")
}

func TestTablesFitTheTerminal(t *testing.T) {
	for _, width := range []int{0, 120, 40, 25} {
		var out bytes.Buffer
		table := newTable(&out)
		table.fit(width, 2, 0)
		table.row("a-rather-long-name", "fixed", strings.Repeat("x", 60))
		table.row("b", colour(styleRed, "short"), "y")
		if err := table.flush(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if got := visibleWidth(strings.TrimSuffix(line, "\n")); width > 0 && got > width {
				t.Errorf("%d columns in a terminal of %d: %q", got, width, line)
			}
		}
		if width == 0 && !strings.Contains(out.String(), strings.Repeat("x", 60)) {
			t.Error("a file got a cut table")
		}
	}
}
