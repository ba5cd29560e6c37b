package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lostNode is a scenario that takes no time and depends on its seed.
const lostNode = `
name: lost
duration: 1h
nodes: [{name: node, count: 4, resources: {cpu: 4, memory: 16GiB}}]
pools: {important: {min_share_resources: {cpu: 8}}, other: {}}
operations:
  - {name: service, pool: important, demand: {jobs: 8}, duration: {distribution: exponential, mean: 5m}}
  - {name: batch, pool: other, demand: {jobs: 20}, duration: {distribution: exponential, mean: 5m}}
events: [{at: 20m, lose_nodes: {group: node, count: 1}}]
`

// simulated is everything that a simulation writes.
type simulated struct {
	out               string
	html, csv, answer string
}

func simulate(t *testing.T, scenario string, more ...string) simulated {
	t.Helper()
	dir := t.TempDir()
	path := func(file string) string { return filepath.Join(dir, file) }
	args := append([]string{
		"simulate", scenario,
		"--html", path("r.html"), "--csv", path("r.csv"), "--save", path("r.json"),
	}, more...)
	code, out, errs := call(args...)
	if code != ExitOK {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	read := func(file string) string {
		data, err := os.ReadFile(path(file))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	return simulated{out, read("r.html"), read("r.csv"), read("r.json")}
}

func TestTheSameSeedGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "lost.yaml", []byte(lostNode))
	first := simulate(t, file)
	if again := simulate(t, file); again != first {
		t.Error("two runs with one seed differ")
	}
	if other := simulate(t, file, "--seed", "99"); other.answer == first.answer {
		t.Error("another seed changes nothing")
	}
	for _, bad := range []string{"http://", "https://", "src="} {
		if strings.Contains(strings.ReplaceAll(first.html, "http://www.w3.org", ""), bad) {
			t.Errorf("the report needs something from outside: it has %q", bad)
		}
	}
}

func TestExpectationsOfExamplesHoldWithInvariantsChecked(t *testing.T) {
	t.Parallel()
	if s := simulate(t, example(filepath.Join("simulate", "starvation.yaml")), "--verify"); !strings.Contains(s.out, "12 of 12 expectations hold") {
		t.Errorf("%s", s.out)
	}
}

func TestAnExpectationThatDoesNotHoldIsExitCode1(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "x.yaml", []byte(`
name: x
duration: 1h
nodes: [{name: n, resources: {cpu: 4, memory: 16GiB}}]
pools: {p: {}}
operations: [{name: op, pool: p, arrival: 0s, job_count: 1, duration: 1m}]
expect: [{at: 30m, pool: p, usage: {cpu: 3}}]
`))
	code, out, _ := call("simulate", file)
	if code != ExitFailed || !strings.Contains(out, "expected") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

func TestAScenarioSetsTheSchedulerUp(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "x.yaml", []byte(`
duration: 1h
scheduler: {max_operation_count: 2, node_registration_timeout: 10m, allowed_node_resources_overcommit_duration: 20m}
nodes:
  - {name: lost, resources: {cpu: 1}, tags: [lost]}
  - {name: small, resources: {cpu: 2, gpu: 2}}
  - {name: spare, resources: {cpu: 0.5, gpu: 9}}
pools: {p: {}}
operations:
  - {name: one, pool: p, duration: 10h, scheduling_tag_filter: lost}
  - {name: two, pool: p, job_count: 2, duration: 10h, job_resources: {cpu: 1, gpu: 1}}
  - {name: three, pool: p, arrival: 1m, duration: 1m}
events:
  - {at: 10m, resize_nodes: {group: small, resources: {gpu: 1}}}
  - {at: 20m, lose_nodes: {group: lost, silently: true}}
expect:
  - {operation: three, state: rejected, error: operations}
  - {at: 29m, operation: two, running_jobs: 2}
  - {at: 32m, operation: two, running_jobs: 1}
  - {at: 29m30s, operation: one, pending_jobs: 0}
  - {at: 30m30s, operation: one, pending_jobs: 1}
`))
	if code, out, errs := call("simulate", file); code != ExitOK {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}

func TestTwoRunsAreLaidSideBySide(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "lost.yaml", []byte(lostNode))
	a := writeFile(t, "a.json", []byte(simulate(t, file, "--seed", "1").answer))
	b := writeFile(t, "b.json", []byte(simulate(t, file, "--seed", "2").answer))
	html := filepath.Join(t.TempDir(), "c.html")
	code, out, errs := call("simulate", "--compare", a, b, "--html", html)
	if code != ExitOK || !strings.Contains(out, "important") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	if data, err := os.ReadFile(html); err != nil || !strings.Contains(string(data), "important") {
		t.Errorf("the page: %v", err)
	}
}

func TestWrongCallsOfSimulate(t *testing.T) {
	t.Parallel()
	scenario, dir := example(filepath.Join("simulate", "node-loss.yaml")), t.TempDir()
	for _, test := range []struct {
		name string
		args []string
		code int
		errs string
	}{
		{"no file", nil, ExitWrongCall, "takes one scenario, got 0"},
		{"one file to compare", []string{"--compare", scenario}, ExitWrongCall, "takes two saved results, got 1"},
		{"a scenario where an answer should be", []string{"--compare", scenario, scenario}, ExitFailed, "not the result of a simulation"},
		{"a tree where a scenario should be", []string{example("burst.yaml")}, ExitFailed, "burst.yaml:10:3: cluster: this is a tree file"},
		{"a seed that is no number", []string{scenario, "--seed", "x"}, ExitWrongCall, "--seed"},
		{"a folder that is not there", []string{scenario, "--html", filepath.Join("nowhere", "r.html")}, ExitFailed, "--html nowhere/r.html: nowhere: no such file or directory"},
		{"a folder instead of a file", []string{scenario, "--csv", dir}, ExitFailed, "is a directory"},
		{"a file instead of a folder", []string{scenario, "--csv", filepath.Join(scenario, "x")}, ExitFailed, "not a directory"},
		{"two outputs in one file", []string{scenario, "--csv", filepath.Join(dir, "x"), "--html", filepath.Join(dir, ".", "x")}, ExitWrongCall, "would overwrite that of --html"},
		{"an output over the scenario", []string{scenario, "--save", scenario}, ExitWrongCall, "would overwrite what is read"},
		{"a seed for a comparison", []string{"--compare", "a", "b", "--seed", "1"}, ExitWrongCall, "cannot be combined with --seed"},
		{"a comparison as JSON", []string{"--compare", "a", "b", "-o", "json"}, ExitWrongCall, "prints a table, not json"},
		{"one input for two answers", []string{"--compare", "-", "-"}, ExitWrongCall, "both results"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, _, errs := call(append([]string{"simulate"}, test.args...)...)
			if code != test.code || !strings.Contains(errs, test.errs) {
				t.Errorf("exit code %d, want %d; stderr %q; want in it %q", code, test.code, errs, test.errs)
			}
		})
	}
}

func TestDevicesAreWrittenToAndNotReplaced(t *testing.T) {
	t.Parallel()
	code, _, errs := call("simulate", example(filepath.Join("simulate", "node-loss.yaml")), "--csv", os.DevNull, "--save", os.DevNull)
	if code != ExitOK {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Fatalf("%s is %v now: %v", os.DevNull, info.Mode(), err)
	}
}
