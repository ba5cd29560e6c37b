package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/client"
)

func TestExplainFixListsCommandsThatHelp(t *testing.T) {
	b := newTestbed(t, 2)
	b.pool("research", "<Root>", "resource_limits={cpu=4}")
	b.pool("batch", "<Root>", "")
	first := b.startNightly("")
	_, out, _ := b.withInput(`{pool=research;alias="*late";tasks={a={job_count=1;command=sleep;cpu_limit=1.0;memory_limit=67108864}}}`, "op", "start", "-")
	late := strings.TrimSpace(out)
	b.until(func() bool { return strings.Contains(b.ok("explain", "*late"), "limit") }, "the operation does not wait for the limit")
	out = b.ok("explain", "*late", "--fix")
	for _, want := range []string{
		"*late waits:\n1  limit  pool research may use 4 cpu", "Least changes that start 1 job now (each alone; checked on a copy of the cluster):\n1  move it to pool batch\n     weir op update '*late' --pool batch\n     user: 1 job starts at once",
		"     weir set //sys/pools/research/@resource_limits/cpu 5\n     owner: 1 job starts at once", "weir op suspend '*nightly' --abort-running-jobs", "wait until 1 job of *nightly ends",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
	if out := b.ok("explain", late, "--fix", "--as", "user", "-o", "json"); !strings.Contains(out, `"outcome": "found"`) || strings.Contains(out, `"who": "owner"`) {
		t.Error(out)
	}
	// The first command that it prints does what it promises.
	b.ok("op", "update", "*late", "--pool", "batch")
	b.until(func() bool { return strings.Contains(b.ok("explain", "*late", "--fix"), "no job waits") }, "the fix does not help")
	for _, args := range [][]string{
		{"explain", "*late", "--jobs", "2"}, {"explain", "*late", "--fix", "--jobs", "none"}, {"explain", "*late", "--fix", "--as", "king"},
		{"explain", "cluster", "--fix"}, {"explain", "pool:research", "--fix"},
	} {
		if code, _, errs := b.call(args...); code != ExitWrongCall {
			t.Errorf("%v: exit code %d, %q", args, code, errs)
		}
	}
	if said := b.refused("explain", "pool:reserch"); !strings.Contains(said, "there is no pool reserch; did you mean research?") || strings.Contains(said, "orchid") {
		t.Error(said)
	}
	if said := b.refused("forecast", "reserch"); !strings.Contains(said, "there is no pool reserch, and operations have ids or aliases, such as *nightly; did you mean research?") {
		t.Error(said)
	}
	b.ok("op", "abort", first, late)
	for _, args := range [][]string{{"explain", late}, {"explain", "*late", "--fix"}} {
		if out := b.ok(args...); !strings.Contains(out, "Operation "+late+" has ended: aborted at ") || !strings.Contains(out, "weir op get "+late+" shows more.") {
			t.Errorf("%v says %q", args, out)
		}
	}
}

func TestSetWarnsOfPromisesThatDoNotFit(t *testing.T) {
	b := newTestbed(t, 1)
	b.pool("research", "<Root>", "")
	for value, want := range map[string]string{"{cpu=1}": "", "{cpu=1000}": "it is set, but the promises do not fit the nodes of the tree:\n  "} {
		code, _, errs := b.call("set", "//sys/pools/research/@strong-guarantee-resources", value)
		if code != ExitOK || !strings.Contains(errs, want) || want == "" && errs != "" {
			t.Errorf("set %s: exit code %d, %q; want %q", value, code, errs, want)
		}
	}
}

func TestBlockersNameTheirTreesIfThereAreSeveral(t *testing.T) {
	var out strings.Builder
	writeBlockers(&out, []client.Blocker{{Code: "limit", Text: "it is reached", Tree: "physical", Task: "a"}, {Code: "turn_fifo", Text: "others are first", Tree: "cloud"}}, time.Time{})
	writeBlockers(&out, []client.Blocker{{Code: "limit", Text: "it is reached", Tree: "physical"}}, time.Time{})
	want := "1  limit      tree physical: task a: it is reached\n2  turn_fifo  tree cloud: others are first\n1  limit  it is reached\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestWhatIfShowsBothRuns(t *testing.T) {
	b := newTestbed(t, 2)
	b.pool("research", "<Root>", "resource_limits={cpu=2}")
	file := filepath.Join(t.TempDir(), "op.yaml")
	if err := os.WriteFile(file, []byte("alias: '*two'\npool: research\ntasks:\n  work: {job_count: 2, command: sleep 1000, cpu_limit: 2, memory_limit: 128MiB}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(b.ok("op", "start", file))
	b.until(func() bool { return strings.Contains(b.ok("op", "get", id), "1 running") }, "no job runs")
	out := b.ok("what-if", "--set", "//sys/pools/research/@resource_limits/cpu=4", "--for", "1h")
	for _, want := range []string{"1h00m ahead of ", "Nothing was changed.", "The promises of tree default fit its nodes.", "*two", "research", "Model: "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
	pools := filepath.Join(t.TempDir(), "pools.yaml")
	if err := os.WriteFile(pools, []byte("pools:\n  research: {resource_limits: {cpu: 4}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := b.ok("apply", "-f", pools, "--what-if", "--for", "1h"); !strings.Contains(out, "*two") {
		t.Error(out)
	}
	if got := strings.TrimSpace(b.ok("get", "//sys/pools/research/@resource_limits/cpu")); got != "2" && got != "2." {
		t.Errorf("the limit is now %s", got)
	}
	if code, out, errs := b.withInput("changes: []", "what-if", "-", "--for", "10m"); code != ExitOK || !strings.Contains(out, "No pool and no operation differs.") {
		t.Errorf("%d %s %s", code, out, errs)
	}
	for _, args := range [][]string{
		{"what-if"}, {"what-if", "--set", "weight=3"}, {"what-if", "--set", "//sys/scheduler/@a=3"}, {"what-if", "x.yaml", "--set", "//sys/pools/research/@weight=3"},
	} {
		if code, _, errs := b.call(args...); code != ExitWrongCall {
			t.Errorf("%v: exit code %d, %q", args, code, errs)
		}
	}
	if said := b.refused("what-if", "--set", "//sys/pools/research/@weight=3", "--for", "48h"); !strings.Contains(said, "at most 1d") {
		t.Error(said)
	}
	b.ok("op", "abort", id)
}
