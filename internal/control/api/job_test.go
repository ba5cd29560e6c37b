package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/yson"
)

// jobKeys are the keys of a listed job, running or finished.
var jobKeys = strings.Fields(`id operation_id type state controller_state address addresses start_time has_spec job_competition_id
	has_competitors progress stderr_size fail_context_size interruption_info brief_statistics statistics events exec_attributes
	task_name pool_tree pool monitoring_descriptor is_stale job_cookie allocation_id`)

func TestRunningAndFinishedJobsAreOneList(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p")
	c.withNodes(1)
	// Jobs of the task "bad" fail again and again for as long as the test runs.
	id := c.start("{pool=p;max_failed_job_count=10000;tasks={good={job_count=2;command=\"true\"};long={job_count=2;command=sleep};bad={job_count=1;command=\"false\"}}}")
	list := func(parameters string) yson.Node {
		t.Helper()
		return c.node("list_jobs", fmt.Sprintf("{operation_id=%q;%s}", id, parameters))
	}
	count := func(parameters string) int { t.Helper(); return len(dug(list(parameters), "jobs").Items()) }
	c.eventually("jobs have ended and failed", func() bool {
		n := list("")
		return whole(n, "state_counts", "completed") == 2 && whole(n, "state_counts", "failed") >= 2 && whole(n, "state_counts", "running") == 2
	})
	for _, j := range dug(list(""), "jobs").Items() {
		for _, key := range jobKeys {
			if _, there := j.Get(key); !there {
				t.Errorf("a job that is %s has no %s", text(j, "state"), key)
			}
		}
		job, allocation := text(j, "id"), text(j, "allocation_id")
		if text(j, "operation_id") != id || text(j, "address") != "node-00000" || allocation != allocationByClients(t, job) {
			t.Error(j)
		}
	}
	for _, j := range dug(list("state=running;attributes=[cpu_history;state]"), "jobs").Items() {
		h := dug(j, "cpu_history")
		if limits := dug(h, "limit").Items(); whole(h, "step") == 0 || whole(h, "step")%1000 != 0 || len(limits) == 0 || limits[len(limits)-1].String() != "1." || len(dug(h, "usage").Items()) != len(limits) {
			t.Errorf("the CPU of a running job went like this: %v", h)
		}
	}
	for _, j := range dug(list(""), "jobs").Items() {
		if h, there := j.Get("cpu_history"); there {
			t.Errorf("nobody asked for %v", h)
		}
	}
	for parameters, want := range map[string]int{
		"job_state=completed": 2, "state=completed": 2, "state=running": 2, "task_name=long": 2, "address=\"node-00000\";state=completed": 2,
		"address=moon": 0, "include_runtime=%false;include_archive=%false;include_cypress=%false;state=running": 2,
		"include_runtime=%false;include_archive=%false;include_cypress=%false;state=completed": 2,
		"data_source=manual;include_runtime=%false;state=running":                              0, "data_source=manual;include_archive=%false;state=completed": 0,
		"include_archive=%true;include_runtime=%false;state=completed": 2, "with_stderr=%true;state=completed": 2, "with_stderr=%true;state=running": 0,
		"with_fail_context=%true": 0, "job_type=vanilla;state=completed": 2, "type=map": 0, "data_source=runtime;state=running": 2, "limit=1": 1,
		"state=completed;from_time=\"2100-01-01T00:00:00Z\"": 0,
	} {
		if got := count(parameters); got != want {
			t.Errorf("%s: %d, want %d", parameters, got, want)
		}
	}
	// The pages together contain the same jobs as the whole list.
	var pages []string
	token := ""
	for range 100 {
		n := list("task_name=good;limit=1" + token)
		for _, j := range dug(n, "jobs").Items() {
			pages = append(pages, text(j, "id"))
		}
		next := text(n, "continuation_token")
		if next == "" {
			break
		}
		token = ";continuation_token=" + quoted(next)
	}
	var all []string
	for _, j := range dug(list("task_name=good"), "jobs").Items() {
		all = append(all, text(j, "id"))
	}
	if fmt.Sprint(pages) != fmt.Sprint(all) || len(all) != 2 {
		t.Errorf("%v, %v", pages, all)
	}
	first := func(parameters string) string { return text(dug(list(parameters), "jobs").Items()[0], "task_name") }
	if up, down := first("sort_field=task_name"), first("sort_field=task_name;sort_order=descending"); up != "bad" || down != "long" {
		t.Error(up, down)
	}
	c.refused("list_jobs", fmt.Sprintf("{operation_id=%q;sort_field=mood}", id), "", wire.CodeGeneric, "mood")
	c.refused("list_jobs", fmt.Sprintf("{operation_id=%q;limit=-1}", id), "", wire.CodeGeneric, "limit")
	c.refused("list_jobs", fmt.Sprintf("{operation_id=%q;continuation_token=x}", id), "", wire.CodeGeneric, "continuation_token")
	c.refused("list_jobs", "{}", "", wire.CodeGeneric, "operation_id")
}

// allocationByClients derives the allocation from a job's id as clients do.
func allocationByClients(t *testing.T, job string) string {
	t.Helper()
	id, err := guid.Parse(job)
	if err != nil || id[3]>>24 != 1 {
		t.Fatal(job, err)
	}
	id[3] &= 0xffffff
	return id.String()
}

func TestAFailedJobKeepsItsErrorAndItsWords(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p")
	c.withNodes(1)
	id := c.start("{pool=p;max_failed_job_count=1;tasks={bad={job_count=1;command=\"false\"}}}")
	c.reaches(id, "failed")
	o := c.operation(id, "result")
	if whole(o, "result", "error", "code") != 215 || !strings.Contains(text(o, "result", "error", "message"), "Failed jobs limit exceeded") {
		t.Error(o)
	}
	jobs := dug(c.node("list_jobs", fmt.Sprintf("{operation_id=%q;state=failed;include_archive=%%true;include_runtime=%%false}", id)), "jobs").Items()
	if len(jobs) != 1 {
		t.Fatal(jobs)
	}
	job := text(jobs[0], "id")
	j := c.node("get_job", fmt.Sprintf("{operation_id=%q;job_id=<address=\"x\">%q}", id, job))
	if text(j, "job_id") != job || whole(j, "error", "code") != 1205 || whole(j, "exit_code") != 1 || text(j, "finish_time") == "" ||
		whole(j, "stderr_size") != int64(len("words of bad\n")) || whole(j, "statistics", "user_job", "max_memory", "sum") != 1<<20 {
		t.Error(j)
	}
	if _, there := j.Get("id"); there {
		t.Error("get_job calls it job_id")
	}
	if n := c.node("get_job", fmt.Sprintf("{operation_id=%q;job_id=%q;attributes=[state;address]}", id, job)); len(n.Entries()) != 3 {
		t.Error(n)
	}
	for parameters, want := range map[string]string{"": "words of bad\n", ";offset=6": "of bad\n", ";offset=6;limit=2": "of", ";offset=100": ""} {
		a := c.do("get_job_stderr", fmt.Sprintf("{operation_id=%q;job_id=%q%s}", id, job, parameters), "")
		if a.status != http.StatusOK || a.body != want || !strings.Contains(a.header.Get("X-YT-Response-Parameters"), `"total_size"=13`) {
			t.Errorf("%s: %q, %v", parameters, a.body, a.header)
		}
	}
	for _, command := range []string{"get_job_fail_context", "get_job_input"} {
		c.refused(command, fmt.Sprintf("{operation_id=%q;job_id=%q}", id, job), "", wire.CodeNoSuchJob, "not found")
	}
	c.refused("abort_job", fmt.Sprintf("{job_id=%q}", job), "", wire.CodeNoSuchAllocation, "failed")
	c.refused("get_job", fmt.Sprintf("{operation_id=%q;job_id=\"1-2-3ff0384-1000004\"}", id), "", wire.CodeNoSuchJob, "No such job")
	other := c.start(`{pool=p;tasks={t={job_count=1;command=sleep}}}`)
	c.refused("get_job", fmt.Sprintf("{operation_id=%q;job_id=%q}", other, job), "", wire.CodeNoSuchJob, "No such job")
}

func TestARunningJobIsSeenEverywhereAndAborted(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p")
	c.withNodes(1)
	id := c.start(job("p", "sleep", 1))
	c.runs(id, 1)
	path := "//sys/operations/" + bucketText(id) + "/" + id + "/controller_orchid/running_jobs"
	first := c.node("list", fmt.Sprintf("{path=%q;return_only_value=%%true}", path)).Items()
	if len(first) != 1 {
		t.Fatal(first)
	}
	job, _ := first[0].Text()
	c.eventually("the node says that it runs", func() bool { return c.get(path+"/"+job+"/state") == `"running"` })
	allocation := text(c.node("get_job", fmt.Sprintf("{job_id=%q}", job)), "allocation_id")
	a := "//sys/scheduler/orchid/scheduler/allocations/" + allocation
	if got := c.get(a + "/node_address"); got != `"node-00000"` {
		t.Error(got)
	}
	if got := c.get(a + "/operation_id"); got != quoted(id) {
		t.Error(got)
	}
	if got := c.do("get_job_stderr", fmt.Sprintf("{operation_id=%q;job_id=%q}", id, job), ""); got.status != http.StatusOK || got.body != "" {
		t.Error(got)
	}
	c.refused("abandon_job", fmt.Sprintf("{job_id=%q}", job), "", wire.CodeGeneric, "abandoned")
	c.must("abort_job", fmt.Sprintf("{job_id=%q}", job), "")
	c.eventually("it is aborted and another one runs", func() bool {
		n := c.node("list_jobs", fmt.Sprintf("{operation_id=%q}", id))
		return whole(n, "state_counts", "aborted") == 1 && whole(n, "state_counts", "running") == 1
	})
	j := c.node("get_job", fmt.Sprintf("{job_id=%q}", job))
	if text(j, "abort_reason") != "user_request" || text(j, "error", "attributes", "abort_reason") != "user_request" {
		t.Error(j)
	}
}
