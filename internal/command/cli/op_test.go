package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/test/fakenode"
)

// startNightly starts an operation that runs until it is aborted or completed.
func (b *testbed) startNightly(more string) string {
	b.t.Helper()
	file := filepath.Join(b.t.TempDir(), "nightly.yaml")
	spec := "title: nightly\nalias: '*nightly'\ntasks:\n  work: {job_count: 2, command: sleep 1000, cpu_limit: 2, memory_limit: 128MiB}\n" + more
	if err := os.WriteFile(file, []byte(spec), 0o600); err != nil {
		b.t.Fatal(err)
	}
	id := strings.TrimSpace(b.ok("op", "start", file, "--pool", "research"))
	if err := b.nodes.Await(b.t.Context(), func(t fakenode.Totals) bool { return t.Running == 2 }); err != nil {
		b.t.Fatal(err)
	}
	b.until(func() bool { return strings.Contains(b.ok("op", "get", id), "2 running") }, "two jobs do not run")
	b.until(func() bool { return strings.Count(b.ok("op", "jobs", id, "--state", "running", "-q"), "\n") == 2 }, "two jobs are not seen to run")
	return id
}

func TestOperationsFromStartToEnd(t *testing.T) {
	b := newTestbed(t, 1)
	b.pool("research", "<Root>", "")
	b.pool("production", "<Root>", "")
	id := b.startNightly("")
	golden(t, "op-list", b.ok("op", "list"))
	golden(t, "op-get", b.ok("op", "get", "*nightly"))
	golden(t, "op-jobs", b.ok("op", "jobs", id))
	if out := b.ok("op", "list", "--state", "completed", "-q"); out != "" {
		t.Errorf("completed operations: %q", out)
	}
	if out := b.ok("op", "list", "--pool", "research", "-q"); out != id+"\n" {
		t.Errorf("operations of a pool: %q", out)
	}

	job := strings.Fields(b.ok("op", "jobs", "*nightly", "--state", "running", "-q"))[0]
	golden(t, "job-get", b.ok("job", "get", job))
	if out := b.ok("job", "stderr", job); out != "" {
		t.Errorf("a job that runs wrote %q", out)
	}
	b.ok("job", "abort", job)
	b.until(func() bool { return strings.Contains(b.ok("op", "jobs", id, "--state", "aborted"), "user_request") }, "the job is not aborted")

	b.ok("op", "update", "*nightly", "--pool", "production", "--weight", "3")
	b.until(func() bool { return strings.Contains(b.ok("op", "get", id), "pool     production\n") }, "the operation does not move")
	b.ok("op", "suspend", "*nightly")
	if out := b.ok("op", "get", id); !strings.Contains(out, "running, suspended") {
		t.Errorf("after suspend:\n%s", out)
	}
	b.ok("op", "resume", "*nightly")
	if said := b.refused("op", "resume", "*nightly"); !strings.Contains(said, "is not suspended") || !strings.Contains(said, "(code 201)") {
		t.Errorf("resumed twice: %q", said)
	}
	b.ok("op", "abort", "*nightly", "-m", "wrong input")
	code, out, errs := b.call("op", "wait", id)
	if code != ExitFailed || out != "" || !strings.Contains(errs, "aborted") || !strings.Contains(errs, "rong input") {
		t.Errorf("wait for an aborted operation: exit code %d, stdout %q, stderr %q", code, out, errs)
	}
}

func TestOperationsAreCompletedAndWaitedFor(t *testing.T) {
	b := newTestbed(t, 1)
	b.pool("research", "<Root>", "")
	id := b.startNightly("")
	b.ok("op", "complete", id)
	b.ok("op", "wait", id)
	var answer struct {
		State string `json:"state"`
	}
	if err := json.Unmarshal([]byte(b.ok("op", "get", id, "--attribute", "state", "-o", "json")), &answer); err != nil || answer.State != "completed" {
		t.Errorf("state %q, %v", answer.State, err)
	}
	if code, out, errs := b.withInput(`{tasks={a={job_count=1; command="echo done"}}; pool=research}`, "op", "start", "-", "--wait"); code != ExitOK {
		t.Errorf("YSON on the standard input is refused: %q %q", out, errs)
	}
	file := filepath.Join(t.TempDir(), "spec.yson")
	if err := os.WriteFile(file, []byte(`{tasks={a={job_count=1; command="echo done"}}; pool=research}`), 0o600); err != nil {
		t.Fatal(err)
	}
	started := strings.TrimSpace(b.ok("op", "start", "-f", file, "--wait"))
	job := strings.TrimSpace(b.ok("op", "jobs", started, "-q"))
	if out := b.ok("job", "stderr", job); out != "done\n" {
		t.Errorf("the job wrote %q", out)
	}
}

func TestRefusalsOfOperationsAreUseful(t *testing.T) {
	b := newTestbed(t, 1)
	b.pool("full", "<Root>", "max_running_operation_count=0; max_operation_count=0")
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	if err := os.WriteFile(wrong, []byte("tasks: {a: {job_count: many, comand: x}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		args []string
		want []string
	}{
		{"an operation that never was", []string{"op", "get", "1-2-3e8-4"}, []string{"No such operation 1-2-3e8-4 (code 1915)"}},
		{"an alias of nobody", []string{"op", "abort", "*nobody"}, []string{"*nobody"}},
		{"a job that never was", []string{"job", "get", "1-2-3-4"}, []string{"No such job"}},
		{"a pool that is full", []string{"run", "-p", "full", "--", "true"}, []string{"Limit for the number of concurrent operations", "(code 202)"}},
		{"a tree that is not there", []string{"run", "--tree", "moon", "--", "true"}, []string{`"moon" does not exist`}},
		{"a wrong specification", []string{"op", "start", wrong}, []string{"job_count", "command"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			said := b.refused(test.args...)
			for _, want := range test.want {
				if !strings.Contains(said, want) {
					t.Errorf("said:\n%s\nwant in it %q", said, want)
				}
			}
		})
	}
}
