package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheBeginningOfAnIDNamesItsOperation(t *testing.T) {
	b := newTestbed(t, 1)
	b.pool("research", "<Root>", "")
	id := b.startNightly("")
	short, _, _ := strings.Cut(id, "-")
	for _, args := range [][]string{{"op", "get", short}, {"op", "jobs", short}, {"explain", short}, {"events", "--operation", short}} {
		if out := b.ok(args...); out == "" {
			t.Errorf("%v shows nothing", args)
		}
	}
	if out := b.ok("op", "get", short); !strings.Contains(out, id) {
		t.Errorf("op get %s:\n%s", short, out)
	}
	if said := b.refused("op", "get", "ffffffff-f"); !strings.Contains(said, "no operation has an id that starts with ffffffff-f") {
		t.Errorf("an id that nothing has: %q", said)
	}
	b.ok("op", "abort", short)
}

func TestOperationsAreListedPageByPage(t *testing.T) {
	b := newTestbed(t, 0)
	var ids []string
	for range 3 {
		ids = append(ids, strings.TrimSpace(b.ok("run", "--detach", "--", "true")))
	}
	code, out, errs := b.call("op", "list", "-q", "--limit", "2")
	if code != ExitOK || strings.Fields(out)[0] != ids[2] || strings.Fields(out)[1] != ids[1] {
		t.Fatalf("the first page: %d %q", code, out)
	}
	if errs != "" {
		t.Errorf("with -q the command says %q, want nothing but ids", errs)
	}
	_, _, errs = b.call("op", "list", "--limit", "2")
	_, rest, _ := strings.Cut(errs, "--before ")
	before, _, found := strings.Cut(rest, ",")
	if !found {
		t.Fatalf("the command does not say how to go on: %q", errs)
	}
	if out := b.ok("op", "list", "-q", "--before", before); out != ids[0]+"\n" {
		t.Errorf("the second page: %q, want %s", out, ids[0])
	}
	if code, _, errs := b.call("op", "list", "--before", "yesterday"); code != ExitWrongCall || !strings.Contains(errs, `"yesterday" is not a time`) {
		t.Errorf("a wrong time: %d %q", code, errs)
	}
}

func TestAMistypedPoolIsNotCreated(t *testing.T) {
	b := newTestbed(t, 1)
	b.pool("research", "<Root>", "")
	code, _, said := b.call("run", "-p", "resaerch", "--", "true")
	if code != ExitWrongCall || !strings.Contains(said, `there is no pool "resaerch", an ephemeral one would be created; did you mean "research"?`) {
		t.Errorf("exit code %d, %q", code, said)
	}
	code, _, said = b.withInput("{pool=resaerch;tasks={t={command=true;job_count=1}}}", "op", "start", "-")
	if code != ExitWrongCall || !strings.Contains(said, `did you mean "research"?`) {
		t.Errorf("op start: exit code %d, %q", code, said)
	}
	b.ok("run", "-p", "resaerch", "--ephemeral-pool", "--", "true")
	if code, _, said = b.call("run", "-p", "holidays", "--", "true"); code != ExitOK || !strings.Contains(said, `there is no pool "holidays": an ephemeral one is created`) {
		t.Errorf("a name that is like no other: exit code %d, %q", code, said)
	}
}

func TestAFullPoolSaysWhatToDoAndCanBeWaitedFor(t *testing.T) {
	b := newTestbed(t, 1)
	b.pool("research", "<Root>", "max_operation_count=1; max_running_operation_count=1")
	id := b.startNightly("")
	said := b.refused("run", "-p", "research", "--", "true")
	for _, part := range []string{`Limit for the number of concurrent operations 1 for pool "research" has been reached`, "--wait-for-room", `raise max_operation_count of pool "research"`} {
		if !strings.Contains(said, part) {
			t.Errorf("%q is not in %q", part, said)
		}
	}
	waiting := make(chan string, 1)
	heard := &listener{word: "waiting for room", heard: make(chan struct{})}
	go func() {
		code := execute(t.Context(), newRootCommand(), []string{"run", "-p", "research", "--wait-for-room", "--", "true"}, strings.NewReader(""), os.Stdout, heard)
		waiting <- map[bool]string{true: "completed", false: "failed"}[code == ExitOK]
	}()
	<-heard.heard
	b.ok("op", "abort", id)
	if result := <-waiting; result != "completed" {
		t.Errorf("the run that waited for room %s", result)
	}
}

func TestNegativeNumbersAreValues(t *testing.T) {
	b := newTestbed(t, 0)
	b.ok("create", "map_node", "//home/ann", "-r")
	b.ok("set", "//home/ann/@offset", "-1")
	b.ok("set", "//home/ann/@ratio", "-.5", "--force")
	if out := b.ok("get", "//home/ann/@offset") + b.ok("get", "//home/ann/@ratio"); out != "-1\n-0.5\n" {
		t.Errorf("the values are %q", out)
	}
}

func TestANodeIsDrained(t *testing.T) {
	b := newTestbed(t, 2)
	b.pool("research", "<Root>", "")
	b.startNightly("")
	busy := "node-1"
	if strings.Contains(b.ok("nodes", "get", "node-2"), "jobs        2") {
		busy = "node-2"
	}
	b.ok("nodes", "drain", busy, "--deadline", "1ms", "-m", "a new kernel")
	b.shows("nodes get "+busy, `state +disabled`) // it registers again after the ban
	if out := b.ok("nodes", "get", busy); !strings.Contains(out, "disabled") || !strings.Contains(out, "disable_scheduler_jobs by root: a new kernel") || strings.Contains(out, "banned") {
		t.Errorf("the drained node:\n%s", out)
	}
	b.until(func() bool { return strings.Contains(b.ok("op", "get", "*nightly"), "2 running") }, "the jobs do not run elsewhere")
	if out := b.ok("nodes", "get", busy, "-o", "json"); !strings.Contains(out, `"running_job_count": 0`) {
		t.Errorf("jobs on the drained node: %s", out)
	}
	if said := b.refused("nodes", "get", "moon"); !strings.Contains(said, `no node "moon"`) {
		t.Errorf("a node that does not exist: %q", said)
	}
}

func TestTheAuditSaysWhoChangedWhat(t *testing.T) {
	b := newTestbed(t, 0)
	b.pool("research", "<Root>", "")
	b.ok("set", "//sys/pools/research/@weight", "3")
	out := b.ok("audit", "--command", "set", "--below", "//sys/pool_trees")
	if !strings.Contains(out, "root") || !strings.Contains(out, "research") || !strings.Contains(out, "weight") {
		t.Errorf("the audit:\n%s", out)
	}
	if out := b.ok("audit", "--user", "nobody", "-o", "json"); strings.Contains(out, "research") {
		t.Errorf("changes of nobody: %s", out)
	}
}

func TestPoolsShowWhatWasJustApplied(t *testing.T) {
	b := newTestbed(t, 0)
	file := filepath.Join(t.TempDir(), "pools.yaml")
	if err := os.WriteFile(file, []byte("pools: {fresh: {weight: 2}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.ok("apply", "-f", file)
	if out := b.ok("pools"); !strings.Contains(out, "fresh") {
		t.Errorf("pools straight after apply:\n%s", out)
	}
}

func TestRemovingABusyPoolSaysWhatBecomesOfIt(t *testing.T) {
	b := newTestbed(t, 1)
	b.pool("research", "<Root>", "")
	b.startNightly("")
	b.shows("pools", `research +fair_share +1 +1/1`)
	code, _, errs := b.call("remove", "//sys/pools/research")
	if code != ExitOK || !strings.Contains(errs, `pool "research" has operations (1): it stays as an ephemeral pool, without its options, until they end`) {
		t.Errorf("exit code %d, %q", code, errs)
	}
}

// What people get wrong first is answered in their words, not in those of a library.
func TestWrongValuesOfFlagsAreNamedWithTheRightKind(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "--cpu", "two", "--", "true"}, `--cpu must be a number, such as 0.5, not "two"`},
		{[]string{"run", "--jobs", "1.5", "--", "true"}, `--jobs must be an integer, not "1.5"`},
		{[]string{"run", "--memory", "5", "--", "true"}, "--memory 5 means 5 bytes; write 5MiB or 5GiB"},
		{[]string{"run", "--time-limit", "5", "--", "true"}, `--time-limit must be a duration, such as 90s or 2h, not "5"`},
		{[]string{"events", "--since", "yesterday"}, `--since must be a duration, such as 90s or 2h, not "yesterday"`},
		{[]string{"op", "abort"}, "abort takes at least one operation"},
	} {
		code, _, said := call(test.args...)
		if code != ExitWrongCall || !strings.Contains(said, test.want) {
			t.Errorf("%v: exit code %d, %q, want %q in it", test.args, code, said, test.want)
		}
	}
}

func TestAnswersToWhatNewcomersMistake(t *testing.T) {
	b := newTestbed(t, 0)
	b.pool("research", "<Root>", "integral_guarantees={guarantee_type=relaxed;resource_flow={cpu=2}}")
	if said := b.refused("pools", "research"); !strings.Contains(said, `"research" is a pool, not a pool tree; weir explain pool:research describes it`) {
		t.Errorf("weir pools POOL: %q", said)
	}
	if said := b.refused("set", "//sys/pools/research/@fair_share_preemption_timeout", "2s"); !strings.Contains(said, `needs quotes: '"2s"'`) {
		t.Errorf("a duration without quotes: %q", said)
	}
	b.ok("set", "//sys/pools/research/@fair_share_preemption_timeout", `"2s"`)
	if code, out, said := b.call("events", "--type", "job_exploded"); code != ExitOK || out != "" || !strings.Contains(said, "no event matches") {
		t.Errorf("events of a type that nothing has: %d %q %q", code, out, said)
	}
}

func TestPoolsShowSavingsInTheUnitOfTheTable(t *testing.T) {
	b := newTestbed(t, 1)
	b.pool("research", "<Root>", "integral_guarantees={guarantee_type=relaxed;resource_flow={cpu=2}}")
	b.shows("pools", `research .* relaxed, saved [0-9.]+k? core·s`)
	b.shows("pools --resource memory", `research .* relaxed, saved [0-9.]+ [KMGT]?i?B·s`)
	b.shows("explain pool:research", `it has saved [0-9.]+k? core·s of at most 172\.8k core·s`)
}

func TestAnExplanationSaysThatTheNodesCannotKeepAGuarantee(t *testing.T) {
	b := newTestbed(t, 1)
	b.pool("large", "<Root>", "strong_guarantee_resources={cpu=24}")
	b.shows("explain pool:large", `Its strong guarantee of 24 cpu is only 8 now: the nodes cannot keep all promises of the tree`)
}

func TestAPoolIsExplained(t *testing.T) {
	b := newTestbed(t, 1)
	b.pool("research", "<Root>", "resource_limits={cpu=4}; max_running_operation_count=1")
	b.startNightly("")
	b.ok("run", "--detach", "-p", "research", "--", "sleep 1000")
	b.shows("pools", `research +fair_share +1 +1/2 +4`)
	out := b.ok("explain", "research")
	for _, part := range []string{
		"Pool research, fair_share, weight 1.",
		"Of cpu it uses 4, demands 4 and is entitled to 4.",
		"It has 2 of at most 50 operations and runs 1 of at most 1.",
		"1 operation waits for its limit max_running_operation_count = 1.",
		"2 jobs run and 0 wait.",
		"Fair share 50.00% = strong 0.00% + integral 0.00% + by weight 50.00%.",
		"pool <Root>",
	} {
		if !strings.Contains(out, part) {
			t.Errorf("%q is missing in:\n%s", part, out)
		}
	}
	if again := b.ok("explain", "pool:research"); again != out {
		t.Errorf("pool:research is explained differently:\n%s", again)
	}
	if out := b.ok("explain", "research", "-o", "json"); !strings.Contains(out, `"pool": "research"`) || !strings.Contains(out, "<Root>") {
		t.Errorf("as JSON: %s", out)
	}
	if out := b.ok("explain", "cluster"); !strings.Contains(out, "Tree default:\n") {
		t.Errorf("the cluster: %s", out)
	}
	job := strings.Fields(b.ok("op", "jobs", "*nightly", "-q"))[0]
	if out := b.ok("explain", job); !strings.Contains(out, "Job "+job+" of task ") || !strings.Contains(out, " in pool research") {
		t.Errorf("a job: %s", out)
	}
	if said := b.refused("explain", "1-2-3-4"); !strings.Contains(said, "No such operation") {
		t.Errorf("neither an operation nor a job: %q", said)
	}
	if said := b.refused("explain", "pool:moon"); !strings.Contains(said, "moon") {
		t.Errorf("a pool that does not exist: %q", said)
	}
}
