package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/orchid"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/journal"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
)

func TestAnExplanationNamesEveryObstacleWithAmounts(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p", "small", "one")
	c.set("//sys/pools/small/@resource_limits", "{cpu=2}")
	c.set("//sys/pools/one/@max_running_operation_count", "1")
	c.withNodes(2)
	explain := func(id string) yson.Node {
		t.Helper()
		n := c.node("explain_operation", fmt.Sprintf("{operation_id=%q}", id))
		if text(n, "operation_id") != id {
			t.Error(n)
		}
		return dug(n, "pool_trees").Items()[0]
	}
	limited := c.start(job("small", "sleep", 5))
	c.runs(limited, 2)
	x := explain(limited)
	tasks := dug(x, "tasks").Items()
	if whole(x, "running_job_count") != 2 || whole(x, "waiting_job_count") != 3 || len(tasks) != 1 {
		t.Fatal(x)
	}
	found := false
	for _, o := range dug(tasks[0], "obstacles").Items() {
		found = found || text(o, "reason") == "pool_resource_limits_exceeded" && text(o, "pool") == "small" && text(o, "resource") == "cpu" &&
			real(o, "needed") == 1 && real(o, "available") == 0
	}
	if !found {
		t.Error(x)
	}
	if chain := dug(x, "fair_share", "chain").Items(); len(chain) != 3 || text(chain[1], "pool") != "small" || text(chain[2], "pool") != "<Root>" {
		t.Error(dug(x, "fair_share"))
	}
	c.start(job("one", "sleep", 1))
	second := c.start(job("one", "sleep", 1))
	x = explain(second)
	if text(x, "waits_for", "pool") != "one" || whole(x, "waits_for", "max_running_operation_count") != 1 {
		t.Error(x)
	}
	if got := c.state(second); got != "pending" {
		t.Error(got)
	}
	if got := dug(c.operation(second, "waiting_for_pools"), "waiting_for_pools").String(); got != `["one";]` {
		t.Error(got)
	}
	large := c.start("{pool=p;tasks={huge={job_count=1;command=sleep;cpu_limit=64.0}}}")
	tasks = dug(explain(large), "tasks").Items()
	found = false
	for _, o := range dug(tasks[0], "obstacles").Items() {
		found = found || text(o, "reason") == "min_needed_resources_unsatisfied" && whole(o, "too_small_node_count") == 2 && real(o, "needed") == 64
	}
	if !found {
		t.Error(tasks)
	}
	n := c.node("explain_operation", fmt.Sprintf("{operation_id=%q; sole=%%true}", limited))
	first := dug(n, "blockers").Items()[0]
	if text(first, "code") != "limit" || text(first, "class") != "limit" || text(first, "pool") != "small" || text(first, "option") != "resource_limits" ||
		real(first, "limit") != 2 || real(first, "used") != 2 || real(first, "needed") != 1 || real(first, "short") != 1 ||
		dug(first, "sole").String() != "%true" || whole(first, "starts_without_it") != 3 || text(first, "since") == "" ||
		text(dug(first, "holders").Items()[0], "operation") != limited || dug(n, "starts_at_next_heartbeat").String() != "#" {
		t.Error(n)
	}
	pool := c.node("explain_pool", `{pool=small}`)
	rows := dug(pool, "waterfall").Items()
	if text(pool, "resource") != "cpu" || real(pool, "gap") != 3 || len(rows) != 1 || text(rows[0], "code") != "limit" || real(rows[0], "amount") != 3 {
		t.Error(pool)
	}
	if got := dug(c.node("explain_cluster", `{}`), "pool_trees").Items(); len(got) != 1 || text(got[0], "pool") != "<Root>" {
		t.Error(got)
	}
	c.refused("explain_pool", `{pool=moon}`, "", wire.CodeResolve, "moon")
	c.refused("explain_job", `{job_id="1-2-3-4"}`, "", wire.CodeNoSuchJob)
	c.must("abort_operation", fmt.Sprintf("{operation_id=%q}", second), "")
	c.reaches(second, "aborted")
	c.refused("explain_operation", fmt.Sprintf("{operation_id=%q}", second), "", wire.CodeOperationState, "aborted")
	c.refused("explain_operation", `{operation_id="1-2-3e8-4"}`, "", wire.CodeNoSuchOperation)
}

// Jobs that start in one heartbeat have the same start time, and still an order.
func TestAnExplanationOfAJobCountsThoseThatArePreemptedBeforeIt(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p")
	c.withNodes(1)
	id := c.start(job("p", "sleep", 3))
	var jobs []yson.Node
	c.eventually("three jobs run", func() bool {
		jobs = dug(c.node("list_jobs", fmt.Sprintf("{operation_id=%q;state=running}", id)), "jobs").Items()
		return len(jobs) == 3
	})
	var counts []int64
	for _, j := range jobs {
		counts = append(counts, whole(c.node("explain_job", fmt.Sprintf("{job_id=%q}", text(j, "id"))), "preempted_before_it"))
	}
	slices.Sort(counts)
	if !slices.Equal(counts, []int64{0, 1, 2}) {
		t.Errorf("jobs preempted before each of three jobs: %v, want 0, 1 and 2", counts)
	}
}

func TestAnExplanationSaysThatAnOperationWaitsWithinItsTolerance(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p", "q")
	c.set("//sys/pools/q/@fair_share_starvation_tolerance_limit", "0.5")
	c.withNodes(3)
	hog := c.start(job("p", "sleep", 7))
	c.runs(hog, 7)
	// Of 12 cores it gets the 5 that are left: less than its fair share, 6, but more than half of it.
	late := c.start(`{pool=q;fair_share_starvation_tolerance=0.9;tasks={t={job_count=6;command=sleep;cpu_limit=1.0}}}`)
	c.runs(late, 5)
	var starvation yson.Node
	await(t, "the operation waits within its tolerance", func() bool {
		x := c.node("explain_operation", fmt.Sprintf("{operation_id=%q}", late))
		starvation = dug(dug(x, "pool_trees").Items()[0], "starvation")
		return dug(starvation, "within_tolerance").String() == "%true"
	})
	limited := dug(starvation, "limited_options").Items()
	if dug(starvation, "fair_share_covers_demand").String() != "%true" || real(starvation, "tolerance") != 0.5 || len(limited) != 1 ||
		!strings.Contains(limited[0].String(), "fair_share_starvation_tolerance is 0.9 in the specification, but fair_share_starvation_tolerance_limit") {
		t.Error(starvation)
	}
	if got := text(c.operation(late, "alerts"), "alerts", "limited_starvation_options", "message"); !strings.Contains(got, "makes it 0.5 (pool q of tree default)") {
		t.Error(got)
	}
}

const poolsDocument = `
max_running_operation_count: 30
pools:
  production:
    strong_guarantee_resources: {cpu: 4}
    pools:
      etl: {weight: 2}
  research: {mode: fifo}
`

func TestAWholeTreeIsPlannedAppliedAndExported(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	parameters := func(document string, more ...yson.Entry) yson.Node {
		return yson.Map(append(more, yson.Pair("pool_tree", yson.String("default")), yson.Pair("document", yson.String(document)))...)
	}
	plan := c.must2("plan_pools", parameters(poolsDocument))
	if isNew, _ := dug(plan, "is_new").Boolean(); !isNew || dug(plan, "added").String() != `["production";"etl";"research";]` {
		t.Error(plan)
	}
	if len(c.Trees().List) != 0 {
		t.Error("a plan has changed something")
	}
	c.must2("apply_pools", parameters(poolsDocument))
	if got := c.get("//sys/pools/production/etl/@weight"); got != "2" && got != "2." {
		t.Error(got)
	}
	if got := c.get("//sys/pool_trees/@default_tree"); got != `"default"` {
		t.Error(got)
	}
	if empty, _ := dug(c.must2("plan_pools", parameters(poolsDocument)), "is_empty").Boolean(); !empty {
		t.Error("the same document changes something")
	}
	// Applying an export, including custom attributes, changes nothing.
	c.set("//sys/pools/research/@owner_team", "{name=x}")
	exported := c.must2("export_pools", yson.Map())
	for _, document := range []yson.Node{dug(exported, "document"), dug(exported, "yaml")} {
		again := c.must2("plan_pools", yson.Map(yson.Pair("document", document)))
		if empty, _ := dug(again, "is_empty").Boolean(); !empty {
			t.Error(again)
		}
	}
	c.withNodes(2)
	changed := strings.Replace(strings.Replace(poolsDocument, "cpu: 4", "cpu: 400", 1), "  research: {mode: fifo}\n", "", 1)
	plan = c.must2("plan_pools", parameters(changed))
	if fits, given := dug(plan, "is_feasible").Boolean(); fits || !given || dug(plan, "removed").String() != `["research";]` {
		t.Error(plan)
	}
	if findings := dug(plan, "feasibility", "findings").Items(); len(findings) == 0 {
		t.Error(dug(plan, "feasibility"))
	}
	if lines := dug(plan, "changes").String(); !strings.Contains(lines, "- pool research") || !strings.Contains(lines, "production") {
		t.Error(lines)
	}
	refuse := func(document string, code int, words ...string) {
		t.Helper()
		body, err := yson.Append(nil, parameters(document, yson.Pair("require_feasible", yson.Boolean(true))), yson.Text)
		if err != nil {
			t.Fatal(err)
		}
		before := c.Trees()
		a := c.send(http.MethodPost, "/api/v4/apply_pools", http.Header{"Content-Type": {"application/x-yt-yson-text"}}, body)
		e := parseError(t, a)
		if !e.HasCode(code) || c.Trees() != before {
			t.Errorf("%s", a.body)
		}
		for _, word := range words {
			if !strings.Contains(a.body, word) {
				t.Errorf("%q is not in %s", word, a.body)
			}
		}
	}
	refuse(changed, codeGuaranteesOvercommit, "cannot be kept")
	refuse(strings.Replace(poolsDocument, "weight", "wieght", 1), wire.CodeGeneric, "wieght", "weight")
	refuse(strings.Replace(poolsDocument, "mode: fifo", "mode: lifo", 1), wire.CodeGeneric, "mode", "document:8")
	refuse("pools: {a: {mode: fifo, pools: {b: {}}}}", wire.CodeGeneric, "FIFO")
	c.refused("plan_pools", "{pool_tree=default}", "", wire.CodeGeneric, "document")
	c.refused("export_pools", "{pool_tree=moon}", "", wire.CodeResolve, "moon")
	c.must2("apply_pools", parameters(changed))
	if got := c.must("exists", `{path="//sys/pools/research";return_only_value=%true}`, ""); got != "%false" {
		t.Error(got)
	}
	// The audit names the tree, and what became of each pool.
	records := dug(c.node("list_audit", `{command=apply_pools;object="//sys/pool_trees/default"}`), "records").Items()
	if len(records) != 3 || !strings.Contains(text(records[0], "after"), "- pool research") || text(records[2], "after") != "+ tree default" {
		t.Error(records)
	}
}

func TestTheClusterTellsWhatIsHeldBackAfterATakeover(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 11, 16, 7, 0, 0, 0, time.UTC)
	usage := resource.Amounts{resource.CPU: 200} // in hundredths of a core
	list := heldBack([]server.HeldNode{
		{Name: "n1", Tree: "default", Jobs: 2, Operations: []core.OperationID{7}, Usage: usage, Until: until}, {Name: "n2", Everything: true},
	}).Items()
	first, second := list[0], list[1]
	if text(first, "address") != "n1" || whole(first, "job_count") != 2 || whole(first, "operation_count") != 1 || real(first, "resource_usage", "cpu") != 2 ||
		text(first, "until") != "2026-11-16T07:00:00.000000Z" {
		t.Error(first)
	}
	if everything, _ := dug(second, "everything").Boolean(); !everything || !dug(second, "until").IsEntity() || !dug(second, "pool_tree").IsEntity() {
		t.Error(second)
	}
	if list := dug(newCluster(t).node("get_cluster", "{}"), "held_back").Items(); len(list) != 0 {
		t.Error(list)
	}
}

func TestTheClusterItsNodesEventsAuditAndHistoryAreTold(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p")
	c.set("//sys/pools/p/@strong_guarantee_resources", "{cpu=2}")
	c.withNodes(3)
	id := c.start(job("p", "sleep", 5))
	c.runs(id, 5)
	c.eventually("usage is known", func() bool {
		return real(c.node("get_cluster", "{}"), "pool_trees", "default", "used", "cpu") == 5
	})
	tree := dug(c.node("get_cluster", "{}"), "pool_trees", "default")
	for name, want := range map[string]float64{"capacity": 12, "used": 5, "free": 7, "demanded": 5, "guaranteed": 2} {
		if got := real(tree, name, "cpu"); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	nodes := c.node("list_nodes", "{pool_tree=default;tag=tagged;state=online}")
	jobs := int64(0)
	for _, n := range dug(nodes, "nodes").Items() {
		jobs += whole(n, "running_job_count")
	}
	if whole(nodes, "total") != 3 || jobs != 5 {
		t.Error(nodes)
	}
	if n := c.node("list_nodes", "{tag=moon}"); whole(n, "total") != 0 {
		t.Error(n)
	}
	events := c.node("list_events", fmt.Sprintf("{operation_id=%q;event_type=job_started;limit=2;oldest_first=%%true}", id))
	list := dug(events, "events").Items()
	if more, _ := dug(events, "incomplete").Boolean(); len(list) != 2 || !more || text(list[0], "operation_id") != id || text(list[0], "pool") != "p" {
		t.Error(events)
	}
	rest := c.node("list_events", fmt.Sprintf("{operation_id=%q;event_type=job_started;oldest_first=%%true;cursor=%d}", id, whole(events, "next_cursor")))
	if got := len(dug(rest, "events").Items()); got != 3 {
		t.Error(rest)
	}
	audit := c.node("list_audit", "{command=start_operation}")
	if records := dug(audit, "records").Items(); len(records) != 1 || text(records[0], "object") != id || text(records[0], "request_id") == "" {
		t.Error(audit)
	}
	c.eventually("a point of history is there", func() bool {
		n := c.node("get_history", "{pool=p;resource=cpu;series=[usage]}")
		series := dug(n, "series").Items()
		return len(series) == 1 && text(series[0], "name") == "usage" && len(dug(series[0], "points").Items()) > 0
	})
	c.refused("get_history", "{max_points=0}", "", wire.CodeGeneric, "max_points")
	c.refused("get_history", `{from_time="2026-01-02";to_time="2026-01-01"}`, "", wire.CodeGeneric, "from_time")
	c.refused("list_events", "{limit=0}", "", wire.CodeGeneric, "limit")
}

func TestABackupCanBeImported(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p")
	c.start(job("p", "sleep", 1))
	a := c.do("backup", "{}", "")
	if a.status != http.StatusOK || len(a.body) == 0 {
		t.Fatalf("%d %.300s", a.status, a.body)
	}
	empty, err := store.Open(t.Context(), "sqlite:"+t.TempDir()+"/copy.db")
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	if err := empty.Import(t.Context(), strings.NewReader(a.body)); err != nil {
		t.Fatal(err)
	}
	state, err := empty.Load(t.Context())
	if err != nil || len(state.Rows.Operations) != 1 || len(state.Rows.Pools) != 1 {
		t.Error(state, err)
	}
}

func TestTheJournalIsListedAndExported(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p")
	c.start(job("p", "sleep", 1))
	if a := c.do("list_journal", "{}", ""); a.status != http.StatusOK || !strings.Contains(a.body, "start_time") {
		t.Errorf("%d %.300s", a.status, a.body)
	}
	var p *journal.Player
	c.eventually("the start is recorded", func() bool {
		a := c.do("export_journal", "{}", "")
		if a.status != http.StatusOK {
			t.Fatalf("%d %.300s", a.status, a.body)
		}
		p = journal.NewPlayer(strings.NewReader(a.body))
		if err := p.Until(time.Time{}); err != nil {
			t.Fatal(err)
		}
		return len(p.Names) == 1
	})
	c.refused("export_journal", `{from_time="2026-01-02";to_time="2026-01-01"}`, "", wire.CodeGeneric, "from_time")
	c.refused("export_journal", `{to_time="2020-01-01"}`, "", wire.CodeGeneric, "nothing about this time", "it starts at")
}

// TestThePastIsExplained asks about a moment before a limit was lifted.
func TestThePastIsExplained(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p")
	c.set("//sys/pools/p/@resource_limits", "{cpu=2}")
	c.withNodes(2)
	id := c.start(job("p", "sleep", 5))
	c.runs(id, 2)
	code := func(n yson.Node) string {
		if list := dug(n, "blockers").Items(); len(list) > 0 {
			return text(list[0], "code")
		}
		return ""
	}
	var then string
	c.eventually("it waits for the limit", func() bool {
		n := c.node("explain_operation", fmt.Sprintf("{operation_id=%q}", id))
		then = text(n, "as_of")
		return code(n) == "limit"
	})
	c.set("//sys/pools/p/@resource_limits", "{cpu=64}")
	c.runs(id, 5)
	c.must("abort_operation", fmt.Sprintf("{operation_id=%q}", id), "")
	c.reaches(id, "aborted")
	question := fmt.Sprintf("{operation_id=%q;as_of=%q}", id, then)
	n := c.node("explain_operation", question)
	if code(n) != "limit" || text(dug(dug(n, "blockers").Items()[0], "holders").Items()[0], "operation") != id || text(n, "as_of") > then {
		t.Error(n)
	}
	if pool := c.node("explain_pool", fmt.Sprintf("{pool=p;as_of=%q}", then)); text(dug(pool, "waterfall").Items()[0], "code") != "limit" {
		t.Error(pool)
	}
	if all := c.node("explain_cluster", fmt.Sprintf("{as_of=%q}", then)); len(dug(all, "pool_trees").Items()) != 1 {
		t.Error(all)
	}
	w := c.node("what_if", fmt.Sprintf(`{as_of=%q;for=600000;document={changes=[{pool=p;set={"resource_limits/cpu"=4}}]}}`, then))
	if whole(w, "cluster", "before", "started_job_count") >= whole(w, "cluster", "after", "started_job_count") {
		t.Error(w)
	}
	for _, command := range []string{"explain_cluster", "what_if"} {
		c.refused(command, `{document={};as_of="2020-01-01"}`, "", wire.CodeGeneric, "the journal has nothing about this time")
		c.refused(command, `{document={};as_of="2999-01-01"}`, "", wire.CodeGeneric, "is in the future")
		c.refused(command, `{document={};as_of=yesterday}`, "", wire.CodeGeneric, "as_of")
	}
}

// actingAs returns a cluster that sends commands as another user.
func (c *cluster) actingAs(user string) *cluster {
	other := *c
	other.headers = http.Header{"X-Yt-User-Name": {user}}
	return &other
}

// The author of an operation, a user in its access list, a manager of its pool and a stranger
// have different permissions.
func TestWhoMayDoWhatWithAnOperation(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p", "q", "closed")
	for _, user := range []string{"anna", "boris", "clara", "daria"} {
		c.must("create", fmt.Sprintf("{type=user;attributes={name=%s}}", user), "")
	}
	c.set("//sys/pools/p/@acl", "[{action=allow;subjects=[clara];permissions=[manage]}]")
	c.set("//sys/pools/closed/@acl", "[{action=deny;subjects=[anna];permissions=[use]}]")
	c.withNodes(1)
	spec := strings.TrimSuffix(job("p", "sleep", 1), "}") + ";acl=[{action=allow;subjects=[boris];permissions=[read]}]}"
	id := c.actingAs("anna").start(spec)
	c.runs(id, 1)
	c.refusedAs("anna", "start_operation", "{operation_type=vanilla;spec="+job("closed", "sleep", 1)+"}", "closed")
	jobID := text(dug(c.node("list_jobs", fmt.Sprintf("{operation_id=%q}", id)), "jobs").Items()[0], "id")
	commands := map[string]string{
		"read state":  fmt.Sprintf("get_operation {operation_id=%q;attributes=[state]}", id),
		"read all":    fmt.Sprintf("get_operation {operation_id=%q}", id),
		"read spec":   fmt.Sprintf("get_operation {operation_id=%q;attributes=[full_spec]}", id),
		"read stderr": fmt.Sprintf("get_job_stderr {operation_id=%q;job_id=%q}", id, jobID),
		"read node":   fmt.Sprintf("get {path=\"//sys/operations/%s/%s/@full_spec\"}", bucketText(id), id),
		"weight":      fmt.Sprintf("update_operation_parameters {operation_id=%q;parameters={weight=2.0}}", id),
		"annotations": fmt.Sprintf("update_operation_parameters {operation_id=%q;parameters={annotations={a=1}}}", id),
		"move":        fmt.Sprintf("update_operation_parameters {operation_id=%q;parameters={pool=q}}", id),
		"move closed": fmt.Sprintf("update_operation_parameters {operation_id=%q;parameters={pool=closed}}", id),
		"suspend":     fmt.Sprintf("suspend_operation {operation_id=%q}", id),
		"audit":       "list_audit {}",
		"backup":      "backup {}",
		"apply":       "apply_pools {document={pools={mine={}}}}",
		"explain":     fmt.Sprintf("explain_operation {operation_id=%q}", id),
		"abort a job": fmt.Sprintf("abort_job {job_id=%q}", jobID),
		"list":        "list_operations {}",
		"list spec":   "list_operations {attributes=[spec]}",
	}
	for _, x := range []struct {
		user    string
		allowed string
	}{
		{"daria", "read state, read all, explain, list"},
		{"boris", "read state, read all, read spec, read stderr, read node, explain, list, list spec"},
		{"clara", "read state, read all, weight, explain, list"},
		{"anna", "read state, read all, read spec, read stderr, read node, weight, annotations, suspend, explain, list, list spec, abort a job, move"},
	} {
		allowed := strings.Split(x.allowed, ", ")
		for _, what := range orchid.SortedKeys(commands) {
			command, parameters, _ := strings.Cut(commands[what], " ")
			a := c.actingAs(x.user).do(command, parameters, "")
			want := false
			for _, name := range allowed {
				want = want || name == what
			}
			switch {
			case want && a.status != http.StatusOK:
				t.Errorf("%s may not %s: %s", x.user, what, a.body)
			case !want && a.status == http.StatusOK:
				t.Errorf("%s may %s", x.user, what)
			case !want && !parseError(t, a).HasCode(auth.CodeAuthorization):
				t.Errorf("%s, %s: %s", x.user, what, a.body)
			}
		}
	}
	// Private attributes are omitted unless requested.
	n := c.actingAs("daria").node("get_operation", fmt.Sprintf("{operation_id=%q}", id))
	for _, name := range []string{"spec", "full_spec", "provided_spec", "unrecognized_spec"} {
		if _, there := n.Get(name); there {
			t.Errorf("a stranger sees %s", name)
		}
	}
}

func (c *cluster) refusedAs(user, command, parameters string, words ...string) {
	c.t.Helper()
	c.actingAs(user).refused(command, parameters, "", auth.CodeAuthorization, words...)
}

func TestTheThirdVersionHasItsOwnNames(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p")
	send := func(command, parameters string) answer {
		return c.send(http.MethodPost, "/api/v3/"+command, http.Header{"Content-Type": {"application/x-yt-yson-text"}, "Accept": {"application/x-yt-yson-text"}}, []byte(parameters))
	}
	a := send("start_op", "{operation_type=vanilla;spec="+job("p", "sleep", 1)+"}")
	if a.status != http.StatusOK || !strings.HasPrefix(a.body, `"`) {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for _, command := range []string{"suspend_op", "resume_op", "update_op_parameters", "complete_op"} {
		parameters := "{operation_id=" + a.body + ";parameters={weight=2.0}}"
		if got := send(command, parameters); got.status != http.StatusOK || got.body != "" {
			t.Errorf("%s: %d %q", command, got.status, got.body)
		}
	}
}

// Whatever the parameters, the server answers or refuses properly.
func TestParametersOfWrongKindsAreRefusedProperly(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p")
	id := c.start(job("p", "sleep", 1))
	names := strings.Fields(`operation_id operation_alias job_id attributes limit offset filter state type user pool pool_tree from_time to_time
		cursor_time cursor_direction include_counters enable_ui_mode with_failed_jobs job_state sort_field sort_order continuation_token
		data_source with_stderr include_archive fields document series resource max_points event_type oldest_first cursor spec operation_type
		parameters patches abort_message abort_running_jobs interrupt_timeout tag require_feasible file`)
	values := []string{"5", "-1", "1.5", "%true", "#", `""`, `"x"`, `"*x"`, "[1;2]", `["a"]`, "{a=1}", "{keys=5}", "[{path=5}]", `"1-2-3-4"`, "<a=1>\"y\"", "9223372036854775807"}
	tried := 0
	for _, command := range strings.Fields(`start_operation abort_operation complete_operation suspend_operation resume_operation
		update_operation_parameters patch_operation_spec get_operation list_operations list_operation_events list_jobs get_job get_job_stderr
		get_job_fail_context get_job_input abort_job abandon_job signal_job explain_operation advise_operation what_if plan_pools apply_pools export_pools get_history get_report
		list_events list_audit list_nodes get_cluster`) {
		for i, name := range names {
			value := values[(i*7+len(command)*3+tried)%len(values)]
			parameters := fmt.Sprintf("{operation_id=%q;%s=%s}", id, name, value)
			if name == "operation_id" {
				parameters = fmt.Sprintf("{%s=%s}", name, value)
			}
			if command == "abort_operation" || command == "complete_operation" {
				parameters = strings.Replace(parameters, id, "1-2-3e8-4", 1)
			}
			a := c.do(command, parameters, "")
			tried++
			if a.status == http.StatusOK {
				continue
			}
			if e := parseError(t, a); e.Code == 0 || strings.Contains(a.body, "Internal error") {
				t.Errorf("%s %s: %d %s", command, parameters, a.status, a.body)
			}
		}
	}
	if got := c.state(id); got != "running" || tried < 1000 {
		t.Error(got, tried)
	}
}

func TestAdviceNamesTheCommandThatHelps(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p", "small", "closed")
	c.must("create", "{type=user;attributes={name=anna}}", "")
	c.set("//sys/pools/small/@resource_limits", "{cpu=2}")
	c.set("//sys/pools/closed/@acl", "[{action=deny;subjects=[anna];permissions=[use]}]")
	c.withNodes(2)
	c = c.actingAs("anna")
	first := c.start(job("small", "sleep", 2))
	c.runs(first, 2)
	id := c.start(job("small", "sleep", 3))
	advise := func(more string) yson.Node {
		return c.node("advise_operation", fmt.Sprintf("{operation_id=%q;%s}", id, more))
	}
	n := advise("")
	fixes := dug(n, "fixes").Items()
	if text(n, "outcome") != "found" || len(fixes) < 4 || text(dug(n, "blockers").Items()[0], "code") != "limit" {
		t.Fatal(n)
	}
	if got, want := dug(fixes[0], "commands").String(), fmt.Sprintf(`["weir op update %s --pool p";]`, id); got != want || text(fixes[0], "who") != "user" {
		t.Errorf("got %s, want %s", got, want)
	}
	if all := n.String(); strings.Contains(all, "closed") || !strings.Contains(all, "weir set //sys/pools/small/@resource_limits/cpu 3") ||
		!strings.Contains(all, "weir op suspend "+first+" --abort-running-jobs") {
		t.Error(all)
	}
	if got := dug(advise("upto=user;knobs=[resource_limits]"), "fixes").Items(); len(got) != 0 {
		t.Error(got)
	}
	if got := text(dug(advise("jobs=-1;knobs=[resource_limits]"), "fixes").Items()[0], "text"); got != "set resource_limits/cpu of pool small to 5 (was 2)" {
		t.Error(got)
	}
	for parameters, word := range map[string]string{"jobs=-7": "/jobs", "upto=king": "king", "knobs=[luck]": "luck"} {
		c.refused("advise_operation", fmt.Sprintf("{operation_id=%q;%s}", id, parameters), "", wire.CodeGeneric, word)
	}
	c.refused("advise_operation", `{operation_id="1-2-3e8-4"}`, "", wire.CodeNoSuchOperation)
}

func TestWhatIfComparesAndChangesNothing(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p", "small")
	c.set("//sys/pools/small/@resource_limits", "{cpu=2}")
	c.withNodes(2)
	id := c.start(job("small", "sleep", 4))
	c.runs(id, 2)
	ask := func(document string) yson.Node {
		return c.must2("what_if", yson.Map(yson.Pair("document", yson.String(document)), yson.Pair("for", yson.Int64(3_600_000))))
	}
	if n := ask("{}"); len(dug(n, "pools").Items())+len(dug(n, "operations").Items()) != 0 || whole(n, "unchanged_operation_count") != 1 || len(dug(n, "model").Items()) == 0 {
		t.Error(n)
	}
	n := ask("changes: [{pool: small, set: {resource_limits: {cpu: 4}}}]")
	rows := dug(n, "operations").Items()
	if len(rows) != 1 || text(rows[0], "operation") != id || text(rows[0], "after", "finish") == "" ||
		text(rows[0], "before", "finish") <= text(rows[0], "after", "finish") {
		t.Error(n)
	}
	if verdicts := dug(n, "feasibility").Items(); len(verdicts) != 1 || text(verdicts[0], "pool_tree") != "default" {
		t.Error(verdicts)
	}
	if got := c.get("//sys/pools/small/@resource_limits/cpu"); got != "2" && got != "2." {
		t.Errorf("the limit is now %s", got)
	}
	refuse := func(document string, words ...string) {
		t.Helper()
		c.refused("what_if", fmt.Sprintf("{document=%q}", document), "", wire.CodeGeneric, words...)
	}
	refuse("for: 30h", "at most 1d")
	refuse("changes: [{pool: small, set: {mode: lifo}}]", "mode")
	refuse("changes: [{pool: small, set: {mode: fifo}}, {pool: moon, set: {weight: 2}}]", "moon")
	refuse(`changes: [{abort: "*moon"}]`, "moon")
	refuse("changes: [", "document")
	c.refused("what_if", "{}", "", wire.CodeGeneric, "document")
}
