package cluster

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/control/store"
)

// jobError is an error as it is stored.
type jobError struct {
	Code       int            `json:"code"`
	Message    string         `json:"message"`
	Attributes map[string]any `json:"attributes"`
	Inner      []jobError     `json:"inner_errors"`
}

func readError(t *testing.T, job store.Job) jobError {
	t.Helper()
	var e jobError
	if err := json.Unmarshal(job.Error, &e); err != nil {
		t.Fatalf("error of a job: %v: %s", err, job.Error)
	}
	return e
}

func TestAJobThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("{cpu: 8, memory: 8GiB, user_slots: 8}")
	cases := []struct {
		name, command, more string
		code                int
		says                string
	}{
		{"an exit code", "echo no >&2; exit 3", "", 10000, "Process exited with code 3"},
		{"a signal", "kill -SEGV $$", "", 10001, "Process terminated by signal 11 (SIGSEGV)"},
		{"a time limit", "sleep 100", "job_time_limit: 1s", 1202, "Job time limit exceeded"},
		{"a missing command", "/does/not/exist", "", 10000, "Process exited with code 127"},
		{"memory", reference("alloc=300000000", "sleep=100s"), "memory_limit: 200MiB", 1200, "Memory limit exceeded"},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			c := c.of(t)
			spec := task("a", k.command)
			if k.more != "" {
				spec = task("a", k.command, k.more)
			}
			row, jobs := c.ended(c.start(strings.Replace(spec, "{pool", "{max_failed_job_count: 1, pool", 1)))
			if row.State != "failed" || len(jobs) != 1 || jobs[0].State != "failed" {
				t.Fatalf("%s: %s\n%s", row.State, row.Result, describe(jobs))
			}
			e := readError(t, jobs[0])
			for len(e.Inner) > 0 && e.Code == 1205 {
				e = e.Inner[0]
			}
			if e.Code != k.code || e.Message != k.says {
				t.Errorf("%d %q, want %d %q", e.Code, e.Message, k.code, k.says)
			}
			if !strings.Contains(string(row.Result), k.says) {
				t.Errorf("the error of the operation does not say %q: %s", k.says, row.Result)
			}
			if k.name == "an exit code" && c.stderr(jobs[0]) != "no\n" {
				t.Errorf("stderr %q", c.stderr(jobs[0]))
			}
		})
	}
}

func TestAJobThatRunsAgainHasAnotherIndexAndTheSameCookie(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("{cpu: 8, memory: 8GiB, user_slots: 8}")
	row, jobs := c.ended(c.start(task("a", "echo $YT_JOB_INDEX $YT_TASK_JOB_INDEX $YT_JOB_COOKIE >&2; [ $YT_JOB_INDEX -gt 0 ]")))
	if row.State != "completed" || len(jobs) != 2 {
		t.Fatalf("%s: %s\n%s", row.State, row.Result, describe(jobs))
	}
	for _, job := range jobs {
		want := map[string]string{"failed": "0 0 0\n", "completed": "1 1 0\n"}[job.State]
		if got := c.stderr(job); got != want {
			t.Errorf("a job that %s says %q, want %q", job.State, got, want)
		}
	}
}

func TestAJobOverItsMemoryLimitFailsWithTheProcessesThatUsedIt(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("{cpu: 8, memory: 8GiB, user_slots: 8}")
	row, jobs := c.ended(c.start("{max_failed_job_count: 1, " + task("a", reference("alloc=20000000", "sleep=100s")+" & "+reference("alloc=250000000", "sleep=100s"), "memory_limit: 200MiB")[1:]))
	if row.State != "failed" || len(jobs) != 1 {
		t.Fatalf("%s: %s\n%s", row.State, row.Result, describe(jobs))
	}
	e := readError(t, jobs[0])
	if e.Code != 1205 || e.Message != "User job failed" || len(e.Inner) != 1 {
		t.Fatalf("error %d %q", e.Code, e.Message)
	}
	e = e.Inner[0]
	usage, _ := e.Attributes["usage"].(float64)
	limit, _ := e.Attributes["limit"].(float64)
	tmpfs, _ := e.Attributes["tmpfs_usage"].(float64)
	if e.Code != 1200 || e.Message != "Memory limit exceeded" || usage <= limit || limit != 200<<20 || tmpfs != 0 {
		t.Errorf("error %d %q with %v", e.Code, e.Message, e.Attributes)
	}
	processes, _ := e.Attributes["processes"].([]any)
	if len(processes) < 2 {
		t.Fatalf("processes %v", e.Attributes["processes"])
	}
	first, _ := processes[0].(map[string]any)
	command, _ := first["cmdline"].(string)
	if size, _ := first["rss"].(float64); !strings.Contains(command, "alloc=250000000") || size < 150<<20 {
		t.Errorf("the largest process is not first: %v", processes)
	}
}
