package cluster

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// up is a whole cluster started by one command.
type up struct {
	*process
	t         testing.TB
	directory string
	group     string
	address   string
	token     string // empty: the socket lets the test in
	log       *logFile
}

// startUp runs weir up in its own directory, which also holds its temporary files.
func startUp(t testing.TB, directory, group string, args ...string) *up {
	t.Helper()
	needMachine(t)
	return startUpAs(t, nil, programs.weir, sharing(directory), directory, group, args...)
}

// startUpAs is startUp with a command line that runs weir with fewer rights, a program and a section isolation.
func startUpAs(t testing.TB, prefix []string, program, isolation, directory, group string, args ...string) *up {
	t.Helper()
	u := &up{t: t, directory: directory, group: group, log: &logFile{}}
	temporary := filepath.Join(directory, "tmp")
	if err := os.MkdirAll(temporary, 0o700); err != nil {
		t.Fatal(err)
	}
	config := writeFile(t, directory, "up.yaml", "node: {cgroup: {parent: "+group+"}, memory_watchdog_period: 50ms, isolation: "+isolation+"}\n")
	portFile := filepath.Join(directory, "port")
	if err := os.Chmod(config, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(portFile); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temporary)
	words := append(slices.Clip(prefix), program, "up", "--config", config, "--port", "0", "--port-file", portFile)
	u.process = runWords(t, "weir up", u.log, append(words, args...))
	t.Cleanup(func() {
		u.signal(syscall.SIGKILL)
		<-u.ended
		if t.Failed() {
			t.Logf("weir up said:\n%s", u.log)
		}
	})
	await(t, "weir up writes its address", func() bool {
		text, err := os.ReadFile(portFile)
		u.address = strings.TrimSpace(string(text))
		return err == nil
	})
	return u
}

// weir runs a command against the cluster.
func (u *up) weir(args ...string) (output string, err error) {
	ctx, cancel := background()
	defer cancel()
	command := exec.CommandContext(ctx, programs.weir, args...)
	command.Env = append(environment(), "WEIR_ADDR="+u.address)
	if u.token != "" {
		command.Env = append(command.Env, "WEIR_TOKEN="+u.token)
	}
	text, err := command.CombinedOutput()
	return string(text), err
}

func (u *up) mustWeir(args ...string) string {
	u.t.Helper()
	output, err := u.weir(args...)
	if err != nil {
		u.t.Fatalf("weir %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

// printedToken is the token in the greeting.
func (u *up) printedToken() (token string) {
	u.t.Helper()
	await(u.t, "a token is printed", func() bool {
		_, text, found := strings.Cut(u.log.String(), "YT_TOKEN=")
		token, _, _ = strings.Cut(text, " ")
		return found && strings.Contains(text, "Ctrl-C stops it.")
	})
	return token
}

// interrupt is Ctrl-C.
func (u *up) interrupt() {
	u.t.Helper()
	u.signal(syscall.SIGINT)
	u.await()
	if code := u.cmd.ProcessState.ExitCode(); code != 0 && code != 130 {
		u.t.Errorf("weir up ended with %v", u.cmd.ProcessState)
	}
}

func TestUpGreetsRunsJobsAndLeavesNothingBehind(t *testing.T) {
	directory, group := sharedDirectory(t), newGroup()
	began := time.Now()
	u := startUp(t, directory, group)
	t.Logf("ready after %v", time.Since(began).Round(time.Millisecond))
	await(t, "it greets", func() bool { return strings.Contains(u.log.String(), "Ctrl-C stops it.") })
	for _, line := range []string{"A cluster of 1 node is up at http://" + u.address, "weir run -- ", "weir pools", "weir set ", "/#signin=weir_", "export YT_PROXY=http://" + u.address + " YT_TOKEN=weir_"} {
		if !strings.Contains(u.log.String(), line) {
			t.Errorf("the greeting lacks %q", line)
		}
	}
	// The printed token lets a client in that knows nothing of the socket.
	token := u.printedToken()
	for given, want := range map[string]string{token: "root", "": "guest"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+u.address+"/auth/whoami", nil)
		if err != nil {
			t.Fatal(err)
		}
		if given != "" {
			request.Header.Set("Authorization", "OAuth "+given)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("with %d characters one is %s, %v; want %s", len(given), body, err, want)
		}
	}
	if output := u.mustWeir("run", "--", "echo hello from $YT_JOB_ID; df -T . >&2"); !strings.Contains(output, "hello from ") {
		t.Errorf("a job wrote %q", output)
	}
	if output, err := u.weir("run", "--", "exit 7"); err == nil || err.(*exec.ExitError).ExitCode() != 7 {
		t.Errorf("%v: %s", err, output)
	}
	// Some jobs still run, each with a disk in memory.
	spec := writeFile(t, directory, "spec.yaml", task("adhoc", "sleep 1000", "job_count: 3", "cpu_limit: 0.1", "tmpfs_path: t", "tmpfs_size: 10MiB"))
	id := strings.TrimSpace(u.mustWeir("op", "start", spec))
	await(t, "jobs run", func() bool { return strings.Count(u.mustWeir("op", "jobs", id), "running") == 3 })
	u.interrupt()
	checkNothingIsLeft(t, directory, group)
	left, err := os.ReadDir(filepath.Join(directory, "tmp"))
	if err != nil || len(left) > 0 {
		t.Errorf("directories left behind: %v %v", left, err)
	}
}

func TestJobsHaveTheFilesThatWereTakenAlong(t *testing.T) {
	directory, group := sharedDirectory(t), newGroup()
	u := startUp(t, directory, group)
	script, data := filepath.Join(t.TempDir(), "count.sh"), filepath.Join(t.TempDir(), "data")
	for _, err := range []error{
		os.WriteFile(script, []byte("#!/bin/sh\ncat in/bytes | wc -c\nls -R\n"), 0o755), os.WriteFile(data, []byte{0, 0xff, '\n', 1, 2}, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	output := u.mustWeir("run", "-q", "--file", script, "--file", data+":in/bytes", "--", "./count.sh")
	if fields := strings.Fields(output); len(fields) == 0 || fields[0] != "5" || !strings.Contains(output, "bytes") {
		t.Errorf("the job printed %q, want that it counted 5 bytes", output)
	}
	checkDirectoryOfJobs(t, u)
	output, err := u.weir("run", "--", "./up_test.go") // a file here, which the job does not see
	if err == nil || err.(*exec.ExitError).ExitCode() != 127 || !strings.Contains(output, "weir run --file ./up_test.go -- ./up_test.go") {
		t.Errorf("%v, %q; want exit code 127 and how to take the file along", err, output)
	}
	spec := filepath.Join(t.TempDir(), "spec.yaml")
	if err := os.WriteFile(spec, []byte("{tasks: {a: {job_count: 1, command: cat shadow, file_paths: [/etc/shadow]}}, max_failed_job_count: 1}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := u.weir("op", "start", "--wait", spec); err == nil || !strings.Contains(output, "node/files/allow") {
		t.Errorf("%v, %q; want that files of the node are refused", err, output)
	}
	u.interrupt()
	checkNothingIsLeft(t, directory, group)
}

// checkDirectoryOfJobs runs a job that brings a directory along, and one whose archive leads out of its directory.
func checkDirectoryOfJobs(t *testing.T, u *up) {
	t.Helper()
	source := filepath.Join(t.TempDir(), "project")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(source, "bin"), 0o755), os.WriteFile(filepath.Join(source, "bin/tool"), []byte("#!/bin/sh\ncat data; cat ../project/data; ls -A; echo changed >data && cat data; id -u; stat -c %u bin\n"), 0o755),
		os.WriteFile(filepath.Join(source, "real"), []byte("input\n"), 0o600), os.Symlink("real", filepath.Join(source, "data")),
		os.WriteFile(filepath.Join(source, "cache.tmp"), nil, 0o600), os.WriteFile(filepath.Join(source, ".weirignore"), []byte("*.tmp\n"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	output := u.mustWeir("run", "--file", source, "--", "cd project && bin/tool")
	lines := strings.Fields(output[strings.Index(output, "input"):])
	if len(lines) < 9 || strings.Join(lines[:7], " ") != "input input .weirignore bin data real changed" || lines[7] != lines[8] || !strings.Contains(output, "sending "+source) {
		t.Errorf("the job printed %q", output)
	}
	if output := u.mustWeir("run", "--file", source+":a/b", "--", "cat a/b/data"); strings.Contains(output, "sending") || !strings.Contains(output, "input\n") {
		t.Errorf("the same directory: %q", output)
	}
	spec := filepath.Join(t.TempDir(), "spec.yaml")
	if err := os.WriteFile(spec, []byte("{tasks: {a: {job_count: 1, command: 'true', file_paths: [{file_name: d, unpack: true, content: no archive}]}}, max_failed_job_count: 1}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := u.weir("op", "start", "--wait", spec); err == nil || !strings.Contains(output, "directory d: it cannot be a directory of a job: it is no tar archive") {
		t.Errorf("%v, %q; want that the archive is refused", err, output)
	}
}

// Large files come from the node's cache, and jobs leave files behind, whatever the isolation.
func TestJobsShareLargeFilesAndLeaveFilesBehind(t *testing.T) {
	for _, level := range []string{"none", "shared_files", "full"} {
		t.Run(level, func(t *testing.T) {
			directory, group := t.TempDir(), newGroup()
			// With shared_files, the job's user reaches its directory over the machine's paths.
			for _, dir := range []string{filepath.Dir(directory), directory, filepath.Join(directory, "data")} {
				if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o755)); err != nil {
					t.Fatal(err)
				}
			}
			u := startUp(t, directory, group, "--data-dir", filepath.Join(directory, "data"), "--config", writeFile(t, directory, "level.yaml",
				"node: {cgroup: {parent: "+group+"}, isolation: {level: "+level+"}}\n"))
			large := filepath.Join(t.TempDir(), "large")
			if err := os.WriteFile(large, []byte(strings.Repeat("0123456789", 1<<20)), 0o600); err != nil {
				t.Fatal(err)
			}
			command := "wc -c < in/large; cp in/large l; mkdir -p out/deep; echo $YT_JOB_COOKIE > out/deep/number; ln -s /etc/passwd out/link; mkfifo out/pipe; echo no > not"
			output := u.mustWeir("run", "-n", "2", "--file", large+":in/large", "--output", "out/", "--output", "l", "--", command)
			if !strings.Contains(output, "sending") || strings.Count(output, "10485760") < 2 {
				t.Errorf("the jobs printed %q", output)
			}
			if output := u.mustWeir("run", "--file", large, "--", "sha256sum large; rm -f large; echo changed 2>/dev/null >> large; true"); strings.Contains(output, "sending") {
				t.Errorf("the file was sent again: %q", output)
			}
			if output := u.mustWeir("run", "-q", "--file", large, "--", "wc -c < large"); strings.TrimSpace(output) != "10485760" {
				t.Errorf("a job has changed the file for others: %q", output)
			}
			cached, err := filepath.Glob(filepath.Join(directory, "data", "node-1", "files", "sha256", "*", "*"))
			if err != nil || len(cached) != 1 {
				t.Errorf("the cache has %v, %v", cached, err)
			}
			id := strings.Fields(strings.SplitAfter(u.mustWeir("op", "list", "--state", "completed", "-o", "json"), "\"id\": \"")[3])[0]
			id = strings.Trim(id, "\",")
			to := filepath.Join(directory, "fetched")
			fetched := u.mustWeir("op", "artifacts", id, "-d", to)
			numbers, err := filepath.Glob(filepath.Join(to, "*", "out", "deep", "number"))
			if err != nil || len(numbers) != 2 || !strings.Contains(fetched, "not a plain file") {
				t.Errorf("fetched %v, %v; the command printed %s", numbers, err, fetched)
			}
			if wrong, _ := filepath.Glob(filepath.Join(to, "*", "out", "[lp]*")); len(wrong) > 0 {
				t.Errorf("a link or a pipe was kept: %v", wrong)
			}
			if wrong, _ := filepath.Glob(filepath.Join(to, "*", "not")); len(wrong) > 0 {
				t.Errorf("a file that was not asked for was kept: %v", wrong)
			}
			for _, name := range numbers {
				copied, err := os.Stat(filepath.Join(filepath.Dir(name), "..", "..", "l"))
				if err != nil || copied.Size() != 10<<20 {
					t.Errorf("%s: %v", name, err)
				}
			}
			u.interrupt()
			checkNothingIsLeft(t, directory+"/data/node-1/jobs", group)
		})
	}
}

func TestUpWithADataDirectoryGoesOn(t *testing.T) {
	directory, group := sharedDirectory(t), newGroup()
	data, gate := filepath.Join(directory, "data"), filepath.Join(directory, "gate")
	u := startUp(t, directory, group, "--data-dir", data)
	u.mustWeir("set", "//sys/pools/research/@weight", "7")
	ran := filepath.Join(directory, "ran")
	touch(t, ran)
	spec := writeFile(t, directory, "spec.yaml", task("research", fmt.Sprintf("echo $YT_JOB_ID >> %s; while [ ! -e %s ]; do sleep 0.05; done", ran, gate), "job_count: 2", "cpu_limit: 0.1"))
	id := strings.TrimSpace(u.mustWeir("op", "start", spec))
	await(t, "jobs run", func() bool { return len(readLines(t, ran)) == 2 })
	u.interrupt()
	checkNothingIsLeft(t, directory+"/data/node-1/jobs", group)

	u = startUp(t, directory, group, "--data-dir", data)
	if weight := strings.TrimSpace(u.mustWeir("get", "//sys/pools/research/@weight")); !strings.HasPrefix(weight, "7") {
		t.Errorf("the weight is %s", weight)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	u.mustWeir("op", "wait", id)
	seen := map[string]bool{}
	for _, line := range readLines(t, ran) {
		if seen[line] {
			t.Errorf("job %s ran twice", line)
		}
		seen[line] = true
	}
	u.interrupt()
	checkNothingIsLeft(t, directory, group)
}

func TestUpStartsFiveNodesWithDeclaredResources(t *testing.T) {
	directory, group := sharedDirectory(t), newGroup()
	u := startUp(t, directory, group, "--nodes", "5", "--resources", "cpu=8,memory=16GiB,user_slots=8")
	var total string
	await(t, "all nodes are there", func() bool {
		total = u.mustWeir("get", "//sys/scheduler/orchid/scheduler/cluster/resource_limits", "-o", "json")
		return strings.Contains(total, `"user_slots": 40`) || strings.Contains(total, `"user_slots":40`)
	})
	if !strings.Contains(strings.ReplaceAll(total, " ", ""), `"cpu":40`) {
		t.Errorf("the cluster has %s", total)
	}
	if nodes := u.mustWeir("nodes"); strings.Count(nodes, "node-") < 5 {
		t.Errorf("weir nodes:\n%s", nodes)
	}
	// More than one node has room for.
	output := u.mustWeir("run", "--jobs", "12", "--cpu", "2", "--memory", "64MiB", "-q", "--", "echo $YT_JOB_COOKIE; sleep 0.3")
	if lines := strings.Count(output, "\n"); lines < 12 {
		t.Errorf("%d lines:\n%s", lines, output)
	}
	u.interrupt()
	checkNothingIsLeft(t, directory, group)
}

func TestTwoClustersOnOneMachineLeaveEachOtherAlone(t *testing.T) {
	group := newGroup()
	first, second := sharedDirectory(t), sharedDirectory(t)
	a := startUp(t, first, group)
	ran := filepath.Join(first, "ran")
	touch(t, ran)
	spec := writeFile(t, first, "spec.yaml", task("adhoc", "echo $YT_JOB_ID >> "+ran+"; sleep 1000", "cpu_limit: 0.1"))
	id := strings.TrimSpace(a.mustWeir("op", "start", spec))
	await(t, "the job runs", func() bool {
		return len(readLines(t, ran)) == 1 && strings.Count(a.mustWeir("op", "jobs", id), "running") == 1
	})
	b := startUp(t, second, group)
	b.mustWeir("run", "--", "true")
	b.interrupt()
	if jobs := a.mustWeir("op", "jobs", id); strings.Count(jobs, "running") != 1 || len(readLines(t, ran)) != 1 {
		t.Errorf("the job of the other cluster is gone:\n%s", jobs)
	}
	a.interrupt()
	checkNothingIsLeft(t, first, group)
}
