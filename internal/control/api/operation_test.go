package api

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
	"github.com/weirhq/weir/test/expected"
	"github.com/weirhq/weir/test/fakenode"
)

// byCommand is the behaviour of these tests' jobs: "sleep" runs until it is stopped, "false"
// fails, every other command completes at once.
func byCommand(_ string, start nodeproto.Start) fakenode.Behaviour {
	b := fakenode.Behaviour{
		Stderr:     []byte("words of " + start.Identity.GetTaskName() + "\n"),
		Statistics: []*nodev1.Statistic{{Path: "user_job/max_memory", Sum: 1 << 20, Count: 1, Min: 1 << 20, Max: 1 << 20, Last: 1 << 20}},
	}
	switch start.Spec.GetCommand() {
	case "sleep":
		b.Duration = -1
	case "false":
		b.State, b.ExitCode = nodev1.JobState_JOB_STATE_FAILED, 1
		b.Error = &nodev1.Error{Code: 1205, Message: "User job failed", InnerErrors: []*nodev1.Error{{Code: 10000, Message: "Process exited with code 1"}}}
	}
	return b
}

// withNodes adds nodes with 4 cores to a cluster and waits until the scheduler counts them.
func (c *cluster) withNodes(count int) *fakenode.Cluster {
	c.t.Helper()
	return addNodes(c.t, c, count)
}

func addNodes(t testing.TB, c *cluster, count int) *fakenode.Cluster {
	t.Helper()
	settings := c.Settings()
	settings.HeartbeatPeriod, settings.HeartbeatSplay = 10*time.Millisecond, time.Millisecond
	c.Configure(settings)
	nodes := fakenode.New(fakenode.Config{
		Count: count, Resources: resource.Amounts{resource.UserSlots: 8, resource.CPU: 400, resource.Memory: 16 << 30},
		Tags: []string{"tagged"}, Caller: func(int) fakenode.Caller { return fakenode.Direct(c.NodeService()) }, Script: byCommand, Seed: 1,
	})
	t.Cleanup(nodes.Close)
	if err := nodes.Await(t.Context(), func(t fakenode.Totals) bool { return t.Registered == count }); err != nil {
		t.Fatal(err)
	}
	await(t, "the nodes count", func() bool {
		view, there := c.View().Tree("default")
		return there && view.Total[resource.CPU] == int64(400*count)
	})
	return nodes
}

// eventually waits until the condition holds. Updates of the server make it hold.
func (c *cluster) eventually(what string, holds func() bool) {
	c.t.Helper()
	await(c.t, what, holds)
}

func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !expected.Soon(holds) {
		t.Fatalf("it never happened: %s", what)
	}
}

// start starts a vanilla operation and returns its id.
func (c *cluster) start(spec string) string {
	c.t.Helper()
	answer := c.node("start_operation", "{operation_type=vanilla;spec="+spec+"}")
	id, _ := answer.Get("operation_id")
	text, ok := id.Text()
	if !ok {
		c.t.Fatalf("%s", answer)
	}
	return text
}

// job returns the specification of an operation with one task.
func job(pool, command string, count int) string {
	return fmt.Sprintf("{pool=%s;tasks={work={job_count=%d;command=%q;cpu_limit=1.0;memory_limit=536870912}}}", pool, count, command)
}

// node sends a command that must succeed and returns its answer.
func (c *cluster) node(command, parameters string) yson.Node {
	c.t.Helper()
	n, err := yson.Parse([]byte(c.must(command, parameters, "")))
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

// operation reads attributes of an operation.
func (c *cluster) operation(id string, attributes ...string) yson.Node {
	c.t.Helper()
	return c.node("get_operation", fmt.Sprintf("{operation_id=%q;attributes=[%s]}", id, strings.Join(attributes, ";")))
}

func (c *cluster) state(id string) string {
	c.t.Helper()
	return text(c.operation(id, "state"), "state")
}

func (c *cluster) reaches(id, state string) {
	c.t.Helper()
	c.eventually("operation is "+state, func() bool { return c.state(id) == state })
}

// runs waits until an operation has this number of running jobs.
func (c *cluster) runs(id string, jobs int) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("%d jobs run", jobs), func() bool {
		return c.get("//sys/operations/"+bucketText(id)+"/"+id+"/controller_orchid/progress/jobs/running") == fmt.Sprint(jobs)
	})
}

func bucketText(id string) string {
	last := id[strings.LastIndexByte(id, '-')+1:]
	for len(last) < 2 {
		last = "0" + last
	}
	return last[len(last)-2:]
}

// dug returns the value at a path of keys.
func dug(n yson.Node, keys ...string) yson.Node {
	for _, key := range keys {
		n, _ = n.Get(key)
	}
	return n
}

func text(n yson.Node, keys ...string) string {
	s, _ := dug(n, keys...).Text()
	return s
}

func whole(n yson.Node, keys ...string) int64 {
	i, _ := dug(n, keys...).Int64()
	return i
}

func TestAnOperationIsStartedSuspendedResumedAndCompleted(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p")
	c.withNodes(1)
	id := c.start(job("p", "sleep", 6))
	c.runs(id, 4)
	if got := c.get("//sys/operations/" + bucketText(id) + "/" + id + "/@state"); got != `"running"` {
		t.Error(got)
	}
	c.must("suspend_operation", fmt.Sprintf("{operation_id=%q;abort_running_jobs=%%true}", id), "")
	c.eventually("it is suspended and its jobs are gone", func() bool {
		o := c.operation(id, "suspended", "brief_progress")
		suspended, _ := dug(o, "suspended").Boolean()
		return suspended && whole(o, "brief_progress", "jobs", "aborted", "scheduled", "operation_suspended") == 4
	})
	c.must("resume_operation", fmt.Sprintf("{operation_id=%q}", id), "")
	c.refused("resume_operation", fmt.Sprintf("{operation_id=%q}", id), "", wire.CodeOperationState, "not suspended")
	c.runs(id, 4)
	c.must("complete_operation", fmt.Sprintf("{operation_id=%q}", id), "")
	c.reaches(id, "completed")
	o := c.operation(id, "result", "finish_time", "progress", "task_names", "suspended")
	if whole(o, "result", "error", "code") != 0 || text(o, "finish_time") == "" || o.String() == "" {
		t.Error(o)
	}
	if got := dug(o, "task_names").String(); got != `["work";]` {
		t.Error(got)
	}
	c.refused("abort_operation", fmt.Sprintf("{operation_id=%q}", id), "", wire.CodeOperationState, "completed")
	c.refused("abort_operation", `{operation_id="1-2-3e8-4"}`, "", wire.CodeNoSuchOperation, "No such operation 1-2-3e8-4")
}

func TestAnAbortedOperationTellsWhy(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p")
	id := c.start("{pool=p;alias=\"*night\";title=\"by night\";" + strings.TrimPrefix(job("p", "sleep", 1), "{pool=p;"))
	c.refused("start_operation", "{operation_type=vanilla;spec={pool=p;alias=\"*night\";"+strings.TrimPrefix(job("p", "sleep", 1), "{pool=p;")+"}", "",
		wire.CodeGeneric, "alias", id)
	if got := c.node("get_operation", `{operation_alias="*night";attributes=[id;brief_spec]}`); text(got, "id") != id || text(got, "brief_spec", "title") != "by night" {
		t.Error(got)
	}
	c.must("abort_operation", `{operation_alias="*night";abort_message="it is morning"}`, "")
	c.reaches(id, "aborted")
	o := c.operation(id, "result", "alias", "events")
	if got := text(o, "result", "error", "message"); !strings.Contains(got, "Operation aborted") {
		t.Error(got)
	}
	if inner := dug(o, "result", "error", "inner_errors").Items(); len(inner) != 1 || text(inner[0], "message") != "it is morning" {
		t.Error(o)
	}
	events := dug(o, "events").Items()
	if len(events) < 5 || text(events[0], "state") != "starting" || text(events[len(events)-1], "state") != "aborted" {
		t.Error(events)
	}
}

func TestStartsAreRefusedWithWordsAndCodes(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p", "full", "fifo", "closed")
	c.set("//sys/pools/full/@max_running_operation_count", "1")
	c.set("//sys/pools/full/@max_operation_count", "1")
	c.set("//sys/pools/fifo/@mode", "fifo")
	c.set("//sys/pools/closed/@forbid_immediate_operations", "%true")
	c.start(job("full", "sleep", 1))
	task := "tasks={t={job_count=1;command=\"true\"}}"
	for _, x := range []struct {
		does, parameters string
		code             int
		words            []string
	}{
		{"a type that needs tables", "{operation_type=map;spec={}}", wire.CodeGeneric, []string{"map", "vanilla"}},
		{"no type", "{spec={}}", wire.CodeGeneric, []string{"operation_type"}},
		{"no specification", "{operation_type=vanilla}", wire.CodeGeneric, []string{"spec"}},
		{"a specification that is no map", "{operation_type=vanilla;spec=5}", wire.CodeGeneric, []string{"spec", "map"}},
		{"a task without jobs", "{operation_type=vanilla;spec={tasks={t={command=\"true\"}}}}", wire.CodeGeneric, []string{"job_count"}},
		{"everything that is wrong", "{operation_type=vanilla;spec={weight=much;tasks={t={job_count=few;command=\"true\"}}}}", wire.CodeGeneric,
			[]string{"weight", "job_count"}},
		{"a full pool", "{operation_type=vanilla;spec={pool=full;" + task + "}}", wire.CodeTooManyOperations,
			[]string{"Limit for the number of concurrent operations 1 for pool", "full"}},
		{"a full pool and tasks that are wrong", "{operation_type=vanilla;spec={pool=full;tasks={t={command=\"true\"}}}}", wire.CodeTooManyOperations,
			[]string{"Limit for the number of concurrent operations 1 for pool", "full"}},
		{"a full pool and another option that is wrong", "{operation_type=vanilla;spec={pool=full;weight=much;" + task + "}}", wire.CodeGeneric, []string{"weight"}},
		{"a pool for subpools", "{operation_type=vanilla;spec={pool=closed;" + task + "}}", wire.CodeGeneric,
			[]string{"Starting operations immediately in pool", "closed"}},
		{"a tree that is not there", "{operation_type=vanilla;spec={pool_trees=[moon];" + task + "}}", wire.CodePoolTrees, []string{"moon", "does not exist"}},
		{"a pool that must be there", "{operation_type=vanilla;spec={pool=nowhere;require_specified_pools_existence=%true;" + task + "}}", wire.CodeNoSuchPool,
			[]string{"nowhere", "does not exist"}},
		{"a list that names nobody", "{operation_type=vanilla;spec={pool=p;acl=[{action=allow;subjects=[ghost];permissions=[read]}];" + task + "}}", wire.CodeGeneric,
			[]string{"ghost"}},
		{"an alias without a star", "{operation_type=vanilla;spec={pool=p;alias=night;" + task + "}}", wire.CodeGeneric, []string{"alias"}},
	} {
		t.Run(x.does, func(t *testing.T) {
			c.t = t
			c.refused("start_operation", x.parameters, "", x.code, x.words...)
		})
	}
	c.t = t
	c.set("//sys/pool_trees/default/@config/max_ephemeral_pools_per_user", "1")
	c.start(job("one", "sleep", 1))
	c.refused("start_operation", "{operation_type=vanilla;spec="+job("two", "sleep", 1)+"}", "", wire.CodeGeneric,
		`Cannot create new ephemeral pool "two" as limit for number of ephemeral pools 1 for user "root" in tree "default" has been reached`)
}

func TestUnknownKeysOfASpecificationAreToldAndKept(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p")
	a := c.do("start_operation", "{operation_type=vanilla;spec={pool=p;mapper={x=1};tasks={t={job_count=1;command=\"true\";tmpfs_sise=5}}}}", "")
	if a.status != http.StatusOK || !strings.Contains(a.header.Get("X-Weir-Warnings"), "tmpfs_sise") {
		t.Fatalf("%v %v", a.header, a.body)
	}
	n, err := yson.Parse([]byte(a.body))
	if err != nil {
		t.Fatal(err)
	}
	o := c.operation(text(n, "operation_id"), "unrecognized_spec", "provided_spec", "full_spec")
	if whole(o, "unrecognized_spec", "tasks", "t", "tmpfs_sise") != 5 || whole(o, "unrecognized_spec", "mapper", "x") != 1 {
		t.Error(o)
	}
	if whole(o, "provided_spec", "mapper", "x") != 1 {
		t.Error(o)
	}
	// The full specification has the defaults of YTsaurus's documents.
	for key, want := range map[string]string{
		"check_period": "1000", "vote_window_size": "5", "vote_decision_threshold": "3",
	} {
		if got := dug(o, "full_spec", "job_cpu_monitor", key).String(); got != want {
			t.Errorf("job_cpu_monitor/%s: %s", key, got)
		}
	}
	id := text(n, "operation_id")
	if got := c.get("//sys/operations/" + id + "/@full_spec/job-cpu-monitor/increase_coefficient"); got != "1.45" {
		t.Errorf("job-cpu-monitor, as document 000 spells it: %s", got)
	}
	if f, _ := dug(o, "full_spec", "tasks", "t", "user_job_memory_digest_default_value").Double(); f != 0.5 {
		t.Error(dug(o, "full_spec", "tasks", "t"))
	}
}

func TestARepeatedStartStartsOnce(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p")
	parameters := "{operation_type=vanilla;mutation_id=\"1-2-3-4\";retry=%s;spec=" + job("p", "sleep", 1) + "}"
	first := c.must("start_operation", fmt.Sprintf(parameters, "%false"), "")
	c.refused("start_operation", fmt.Sprintf(parameters, "%false"), "", wire.CodeGeneric, "retry")
	if again := c.must("start_operation", fmt.Sprintf(parameters, "%true"), ""); again != first {
		t.Errorf("%s, then %s", first, again)
	}
	if n := len(c.Operations()); n != 1 {
		t.Errorf("%d operations", n)
	}
	// After a restart, the server answers from the store.
	n, err := replayStart(nil, []byte("1-2-3e8-4"))
	if err != nil || n.String() != `"1-2-3e8-4"` {
		t.Error(n, err)
	}
}

func TestParametersAreChangedAllOrNone(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p", "q", "full")
	c.set("//sys/pools/full/@max_running_operation_count", "0")
	c.withNodes(1)
	id := c.start(job("p", "sleep", 2))
	c.runs(id, 2)
	update := func(parameters string) string { return fmt.Sprintf("{operation_id=%q;parameters=%s}", id, parameters) }
	c.must("update_operation_parameters", update("{pool=q;weight=3.0;annotations={a=1}}"), "")
	c.eventually("it moved", func() bool {
		return c.get("//sys/scheduler/orchid/scheduler/pool_trees/default/operations/"+id+"/pool") == `"q"`
	})
	o := c.operation(id, "runtime_parameters")
	tree := dug(o, "runtime_parameters", "scheduling_options_per_pool_tree", "default")
	if text(tree, "pool") != "q" || tree.String() == "" || whole(o, "runtime_parameters", "annotations", "a") != 1 {
		t.Error(o)
	}
	if w, _ := dug(tree, "weight").Double(); w != 3 {
		t.Error(tree)
	}
	c.refused("update_operation_parameters", update("{pool=full;weight=5.0}"), "", wire.CodeTooManyOperations, "full")
	c.refused("update_operation_parameters", update("{max_stderr_count=5}"), "", wire.CodeGeneric, "cannot be changed")
	c.refused("update_operation_parameters", update("{scheduling_options_per_pool_tree={moon={weight=1.0}}}"), "", wire.CodePoolTrees, "moon")
	c.refused("update_operation_parameters", update("{weight=heavy}"), "", wire.CodeGeneric, "weight")
	o = c.operation(id, "runtime_parameters")
	if w, _ := dug(o, "runtime_parameters", "scheduling_options_per_pool_tree", "default", "weight").Double(); w != 3 {
		t.Error(o)
	}
	c.must("patch_operation_spec", fmt.Sprintf("{operation_id=%q;patches=[{path=\"/max_failed_job_count\";value=77}]}", id), "")
	if got := whole(c.operation(id, "full_spec"), "full_spec", "max_failed_job_count"); got != 77 {
		t.Error(got)
	}
}

// operationKeys are the keys that the reference names; some appear only later in an operation's
// life.
var operationKeys = strings.Fields(`id state type operation_type authenticated_user start_time brief_progress progress brief_spec full_spec
	spec provided_spec unrecognized_spec runtime_parameters suspended events scheduling_attributes_per_pool_tree
	slot_index_per_pool_tree alerts alert_events task_names controller_agent_address experiment_assignments
	experiment_assignment_names controller_features`)

func TestGetOperationHasAllKeysLiveAndArchived(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p")
	c.withNodes(1)
	live, done := c.start(job("p", "sleep", 1)), c.start(job("p", "true", 2))
	c.runs(live, 1)
	c.reaches(done, "completed")
	for id, more := range map[string][]string{live: nil, done: {"finish_time", "result"}} {
		o := c.node("get_operation", fmt.Sprintf("{operation_id=%q}", id))
		for _, key := range append(more, operationKeys...) {
			if _, there := o.Get(key); !there {
				t.Errorf("%s: %s is missing", c.state(id), key)
			}
		}
		for _, key := range strings.Fields("total pending running completed failed aborted lost invalidated suspended blocked uncategorized") {
			for _, progress := range []string{"progress", "brief_progress"} {
				if _, there := dug(o, progress, "jobs").Get(key); !there {
					t.Errorf("%s/jobs/%s is missing", progress, key)
				}
			}
		}
		if text(o, "progress", "build_time") == "" || text(o, "runtime_parameters", "scheduling_options_per_pool_tree", "default", "pool") != "p" {
			t.Error(o)
		}
	}
	if got := dug(c.operation(live, "progress"), "progress", "scheduling_info_per_pool_tree", "default", "pool").String(); got != `"p"` {
		t.Error(got)
	}
	if got := whole(c.operation(live, "slot_index_per_pool_tree"), "slot_index_per_pool_tree", "default"); got != 0 {
		t.Error(got)
	}
	a := c.do("get_operation", fmt.Sprintf("{operation_id=%q;attributes=[state;moods]}", live), "")
	if e := parseError(t, a); e.Code != wire.CodeNoSuchAttribute || len(e.Attributes) != 1 || e.Attributes[0].Value.String() != `"moods"` {
		t.Error(a.body)
	}
	c.refused("get_operation", "{}", "", wire.CodeGeneric, "operation_id")
	c.refused("get_operation", "{operation_id=moon}", "", wire.CodeGeneric, "operation_id")
	c.refused("get_operation", `{operation_alias="*moon"}`, "", wire.CodeNoSuchOperation, "*moon")
}

func TestOperationsAreListedWithFiltersCursorsAndCounters(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p", "q")
	c.withNodes(1)
	var ids []string
	for i, x := range []struct{ pool, command string }{{"p", "true"}, {"p", "false"}, {"q", "true"}, {"p", "sleep"}} {
		spec := strings.TrimSuffix(job(x.pool, x.command, 1), "}") + fmt.Sprintf(";title=\"number %d\";max_failed_job_count=1}", i)
		ids = append(ids, c.start(spec))
	}
	c.reaches(ids[0], "completed")
	c.reaches(ids[1], "failed")
	c.reaches(ids[2], "completed")
	c.runs(ids[3], 1)
	list := func(parameters string) (found []string) {
		t.Helper()
		for _, o := range dug(c.node("list_operations", parameters), "operations").Items() {
			found = append(found, text(o, "id"))
		}
		return found
	}
	newest := []string{ids[3], ids[2], ids[1], ids[0]}
	started := text(c.operation(ids[1], "start_time"), "start_time")
	for parameters, want := range map[string][]string{
		"{}":                         newest,
		"{limit=2}":                  newest[:2],
		"{state=completed}":          {ids[2], ids[0]},
		"{state=running}":            {ids[3]},
		"{pool=q}":                   {ids[2]},
		"{pool=p;pool_tree=default}": {ids[3], ids[1], ids[0]},
		"{pool_tree=moon}":           nil,
		"{user=root}":                newest,
		"{user=anna}":                nil,
		"{type=vanilla}":             newest,
		"{filter=\"NUMBER 1\"}":      {ids[1]},
		"{with_failed_jobs=%true}":   {ids[1]},
		"{with_failed_jobs=%false}":  {ids[3], ids[2], ids[0]},
		"{cursor_time=" + quoted(started) + ";cursor_direction=past}":   {ids[0]},
		"{cursor_time=" + quoted(started) + ";cursor_direction=future}": {ids[3], ids[2]},
		"{from_time=" + quoted(started) + "}":                           {ids[3], ids[2], ids[1]},
		"{to_time=" + quoted(started) + "}":                             {ids[0]},
	} {
		if got := list(parameters); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", parameters, got, want)
		}
	}
	all := c.node("list_operations", "{limit=3}")
	if got, _ := dug(all, "incomplete").Boolean(); !got {
		t.Error("a list that is cut does not say so")
	}
	for key, want := range map[string]string{
		"pool_counts": `{"p"=3;"q"=1;}`, "state_counts": `{"completed"=2;"failed"=1;"running"=1;}`, "user_counts": `{"root"=4;}`,
		"type_counts": `{"vanilla"=4;}`, "pool_tree_counts": `{"default"=4;}`, "failed_jobs_count": "1",
	} {
		if got := dug(all, key).String(); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
	if n := c.node("list_operations", "{include_counters=%false}"); len(n.Entries()) != 2 {
		t.Error(n)
	}
	for _, item := range dug(c.node("list_operations", "{enable_ui_mode=%true;attributes=[state]}"), "operations").Items() {
		if _, isText := item.Text(); !isText || len(item.Attributes()) != 1 {
			t.Error(item)
		}
	}
	for _, o := range dug(all, "operations").Items() {
		if text(o, "brief_spec", "title") == "" || text(o, "brief_progress", "state") == "" || text(o, "start_time") == "" {
			t.Error(o)
		}
	}
	c.refused("list_operations", "{limit=100000}", "", wire.CodeGeneric, "limit")
	c.refused("list_operations", "{cursor_direction=up}", "", wire.CodeGeneric, "cursor_direction")
	c.refused("list_operations", "{attributes=[moods]}", "", wire.CodeNoSuchAttribute, "moods")
	c.refused("list_operations", "{from_time=yesterday}", "", wire.CodeGeneric, "from_time")
	events := c.node("list_operation_events", fmt.Sprintf("{operation_id=%q}", ids[1])).Items()
	if len(events) < 3 {
		t.Error(events)
	}
}

func quoted(text string) string { return fmt.Sprintf("%q", text) }

func TestOperationTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/operations/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var list []exchange
			decoder := yaml.NewDecoder(bytes.NewReader(data))
			decoder.KnownFields(true)
			if err := decoder.Decode(&list); err != nil {
				t.Fatal(err)
			}
			c := withPools(t, "p")
			c.withNodes(1)
			saved := map[string]string{}
			for i := range list {
				t.Run(fmt.Sprintf("%02d %s", i+1, list[i].Does), func(t *testing.T) {
					c.t = t
					list[i].run(c, saved)
				})
			}
		})
	}
}

func TestARequestForAnOperationWaitsUntilItChanges(t *testing.T) {
	c := withPools(t, "waits")
	id := c.start(job("waits", "true", 1))
	built, _ := c.operation(id, "brief_progress").Get("brief_progress")
	at := text(built, "build_time")
	ended := make(chan string)
	go func() {
		since := at
		for {
			answer := c.node("get_operation", fmt.Sprintf("{operation_id=%q;attributes=[state;brief_progress];wait=50000;changed_since=%q}", id, since))
			progress, _ := answer.Get("brief_progress")
			since = text(progress, "build_time")
			if state := text(answer, "state"); state == "completed" || state == "failed" {
				ended <- state
				return
			}
		}
	}()
	c.withNodes(1)
	if state := <-ended; state != "completed" {
		t.Errorf("the operation is %s, want completed", state)
	}
	began := time.Now()
	c.node("get_operation", fmt.Sprintf("{operation_id=%q;wait=50000}", id))
	if took := time.Since(began); took > 40*time.Second {
		t.Errorf("a request for an ended operation was held for %v", took)
	}
	for _, wait := range []string{"-1", "60001", "soon"} {
		c.refused("get_operation", fmt.Sprintf("{operation_id=%q;wait=%s}", id, wait), "", wire.CodeGeneric, "wait")
	}
}
