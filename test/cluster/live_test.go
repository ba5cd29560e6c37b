package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/test/expected"
)

// weir returns a call of the command line, as root of this machine.
func (c *cluster) weir(args ...string) *exec.Cmd {
	ctx, cancel := background()
	c.t.Cleanup(cancel)
	command := exec.CommandContext(ctx, programs.weir, args...)
	command.Env = append(environment(), "WEIR_ADDR="+c.scheduler.Address)
	return command
}

// client returns a client that is root.
func (c *cluster) client() *client.Client {
	c.t.Helper()
	address, found := client.LocalAddress(c.scheduler.Address)
	if !found {
		c.t.Fatal("the scheduler has no socket")
	}
	made, err := client.New(client.Options{Address: address})
	if err != nil {
		c.t.Fatal(err)
	}
	return made
}

// sandboxOf is the working directory of a job, as the machine sees it.
func (n *node) sandboxOf(job guid.ID) string { return filepath.Join(n.jobs(), job.String(), "sandbox") }

// levels are all ways in which a node runs jobs.
var levels = map[string]string{
	"full":                 isolated,
	"none in a supervisor": "  isolation: {level: none}\n  supervisor: true\n", "none": "  isolation: {level: none}\n  supervisor: false\n",
}

func TestTheLogOfAJobIsFollowedWhileItRunsAndEndsWithIt(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	n := c.node("{cpu: 4, memory: 4GiB, user_slots: 4}", isolated)
	id := c.start(task("a", "echo first >&2; while [ ! -e go ]; do sleep 0.01; done; for i in $(seq 20000); do echo line $i >&2; done"))
	job := c.awaitRunning(id, 1)[0]
	command := c.weir("job", "logs", "-f", job.ID.String())
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	if !lines.Scan() || lines.Text() != "first" {
		t.Fatalf("the first line is %q", lines.Text())
	}
	if len(c.running(id)) != 1 {
		t.Error("the job has ended before its log could be read")
	}
	touch(t, filepath.Join(n.sandboxOf(job.ID), "go"))
	for i := 1; i <= 20000; i++ {
		if !lines.Scan() || lines.Text() != fmt.Sprintf("line %d", i) {
			t.Fatalf("line %d is %q", i, lines.Text())
		}
	}
	if lines.Scan() {
		t.Errorf("there is %q after the last line", lines.Text())
	}
	if err := command.Wait(); err != nil {
		t.Error(err)
	}
	c.completed(id)
	text, err := c.weir("job", "logs", "-f", job.ID.String(), "--tail", "2").Output()
	if err != nil || string(text) != "line 19999\nline 20000\n" {
		t.Errorf("after the end: %q, %v", text, err)
	}
}

func TestTheLogOfARunningJobSaysWhatIsNotKept(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	n := c.node("{cpu: 4, memory: 4GiB, user_slots: 4}", isolated)
	id := c.start(task("a", "echo first >&2; head -c 1000000 /dev/zero | tr '\\0' x >&2; echo >&2; echo last >&2; touch done; exec sleep 1000", "max_stderr_size: 1000"))
	job := c.awaitRunning(id, 1)[0]
	await(t, "the job has written", func() bool {
		_, err := os.Stat(filepath.Join(n.sandboxOf(job.ID), "done"))
		return err == nil
	})
	var text string
	await(t, "the log has its end", func() bool {
		out, err := c.weir("job", "logs", job.ID.String()).Output()
		text = string(out)
		return err == nil && strings.HasSuffix(text, "last\n")
	})
	if !strings.HasPrefix(text, "first\n") || !strings.Contains(text, " bytes are not kept …\n") || len(text) > 100_000 {
		t.Errorf("the log has %d bytes: %.200q", len(text), text)
	}
}

func TestAShellIsTheJobsUserInItsSandboxGroupAndNamespaces(t *testing.T) {
	t.Parallel()
	number := 0
	for name, settings := range levels {
		number++ // so that the processes of the levels differ
		jobs, own := fmt.Sprintf("100321.%d", number), fmt.Sprintf("100123.%d", number)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.node("{cpu: 4, memory: 4GiB, user_slots: 4}", settings)
			id := c.start(task("a", "id -u > uid; readlink /proc/self/ns/pid > namespace; touch ready; exec sleep "+jobs))
			job := c.awaitRunning(id, 1)[0]
			shell, err := c.client().OpenShell(t.Context(), job.ID.String(), client.ShellOptions{Terminal: true, Type: "dumb", Height: 33, Width: 77})
			if err != nil {
				t.Fatal(err)
			}
			script := `while [ ! -e ready ]; do sleep 0.1; done; test "$(id -u)" = "$(cat uid)" && echo same-u""ser; test "$(readlink /proc/self/ns/pid)" = "$(cat namespace)" && echo same-name""space
test -t 0 && stty size; echo $YT_JOB_ID $TERM; sleep ` + own + ` & test -d /proc/$! && echo started-sl""eep
`
			if err := shell.Write(t.Context(), []byte(script)); err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			for !strings.Contains(text.String(), "started-sleep") {
				output, _, err := shell.Read(t.Context())
				if err != nil {
					t.Fatalf("%v after\n%s", err, &text)
				}
				text.Write(output)
			}
			for _, want := range []string{"same-user", "same-namespace", "33 77", job.ID.String() + " dumb"} {
				if !strings.Contains(text.String(), want) {
					t.Errorf("the shell does not say %q:\n%s", want, &text)
				}
			}
			groups := func(program string) string {
				var found []string
				if !expected.Soon(func() bool { found = processesOf(t, program); return len(found) > 0 }) { // it may not have begun to sleep
					t.Fatalf("no process has %s on its command line", program)
				}
				pid, _, _ := strings.Cut(found[0], " ")
				data, err := os.ReadFile("/proc/" + pid + "/cgroup")
				if err != nil {
					t.Fatal(err)
				}
				return string(data)
			}
			if own, its := groups(own), groups(jobs); own != its || !strings.Contains(own, job.ID.String()) {
				t.Errorf("the shell is in\n%sthe job in\n%s", own, its)
			}
			if err := shell.Resize(t.Context(), 44, 88); err != nil {
				t.Fatal(err)
			}
			if err := shell.Write(t.Context(), []byte("stty size; exit 3\n")); err != nil {
				t.Fatal(err)
			}
			text.Reset()
			exited := drainShell(t, shell, &text)
			if exited.Reason != "exited" || exited.Code != 3 || !strings.Contains(text.String(), "44 88") {
				t.Errorf("it ended with %+v after\n%s", exited, &text)
			}
		})
	}
}

// drainShell reads a shell to its end.
func drainShell(t testing.TB, shell *client.Shell, into io.Writer) *client.ShellExited {
	t.Helper()
	for {
		output, _, err := shell.Read(context.Background())
		var exited *client.ShellExited
		if errors.As(err, &exited) {
			return exited
		}
		if err != nil {
			t.Fatal(err)
		}
		_, _ = into.Write(output) // to a buffer
	}
}

func TestACommandInAJobHasItsOwnStreamsAndExitCode(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("{cpu: 4, memory: 4GiB, user_slots: 4}", isolated)
	job := c.awaitRunning(c.start(task("a", "exec sleep 1000")), 1)[0].ID.String()
	large := strings.Repeat("0123456789abcde\n", 1<<16)
	for name, one := range map[string]struct {
		flags, command        []string
		input, output, errors string
		code                  int
	}{
		"two streams":      {command: []string{"sh", "-c", "echo out; echo err >&2"}, output: "out\n", errors: "err\n"},
		"words stay words": {command: []string{"printf", "%s|", "a b", "c"}, output: "a b|c|"},
		"exit code":        {command: []string{"sh", "-c", "exit 42"}, code: 42},
		"signal":           {command: []string{"sh", "-c", "kill -TERM $$"}, code: 128 + int(syscall.SIGTERM)},
		"no such program":  {command: []string{"no-such-program"}, errors: "sh: 1: exec: no-such-program: not found\n", code: 127},
		"input is closed":  {command: []string{"cat"}, input: "not passed on"},
		"input":            {flags: []string{"-i"}, command: []string{"cat"}, input: large, output: large},
		"terminal":         {flags: []string{"-t"}, command: []string{"sh", "-c", "test -t 1 && echo yes"}, output: "yes\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			command := c.weir(append(append(append([]string{"job", "exec"}, one.flags...), job, "--"), one.command...)...)
			var out, errs bytes.Buffer
			command.Stdin, command.Stdout, command.Stderr = strings.NewReader(one.input), &out, &errs
			_ = command.Run() // the exit code says how
			if code := command.ProcessState.ExitCode(); code != one.code || out.String() != one.output || errs.String() != one.errors {
				t.Errorf("exit code %d, output %.200q, errors %.200q", code, out.String(), errs.String())
			}
		})
	}
}

func TestOnlyWhoMayManageTheOperationLooksIntoItsJobsAndTheAuditHasIt(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("{cpu: 4, memory: 4GiB, user_slots: 4}", isolated)
	job := c.awaitRunning(c.start(task("a", "echo secret >&2; exec sleep 1000")), 1)[0].ID.String()
	for _, user := range []string{"anna", "bob"} {
		if text, err := c.weir("create", "user", "--attributes", "{name="+user+"}").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	for _, args := range [][]string{{"exec", job, "--", "true"}, {"shell", job}, {"logs", job}} {
		text, err := c.weir(append([]string{"job", "--as", "bob"}, args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(text), "Access denied") {
			t.Errorf("weir job %v: %v, %s", args, err, text)
		}
	}
	if text, err := c.weir("job", "exec", "--as", "anna", job, "--", "sh", "-c", "exit 5").CombinedOutput(); len(text) > 0 || err == nil || err.Error() != "exit status 5" {
		t.Fatalf("anna: %v, %s", err, text)
	}
	var records []store.AuditRecord
	await(t, "the audit has the session", func() bool {
		var err error
		records, _, err = c.scheduler.Server.Store().Audit(context.Background(), store.AuditFilter{Command: "poll_job_shell", OldestFirst: true})
		return err == nil && len(records) == 2
	})
	var opened, closed struct {
		Shell     string   `json:"shell_id"`
		State     string   `json:"state"`
		Arguments []string `json:"arguments"`
		Reason    string   `json:"reason"`
		Code      *int     `json:"exit_code"`
		Duration  *int     `json:"duration_ms"`
	}
	if err := errors.Join(json.Unmarshal(records[0].After, &opened), json.Unmarshal(records[1].After, &closed)); err != nil {
		t.Fatal(err)
	}
	if opened.State != "opened" || len(opened.Arguments) != 3 || closed.State != "closed" || closed.Shell != opened.Shell || closed.Reason != "exited" ||
		closed.Code == nil || *closed.Code != 5 || closed.Duration == nil {
		t.Errorf("the audit has\n%s\n%s", records[0].After, records[1].After)
	}
	for _, record := range records {
		if record.User != "root (as anna)" || record.Object != job {
			t.Errorf("the audit names %s and %s", record.User, record.Object)
		}
	}
}

func TestASignalReachesTheCommandOfAJobAndTheAuditHasIt(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("{cpu: 4, memory: 4GiB, user_slots: 4}", isolated)
	id := c.start(task("a", "trap 'echo signalled >&2; exit 0' USR1; echo ready >&2; while :; do sleep 0.01; done"))
	job := c.awaitRunning(id, 1)[0].ID.String()
	await(t, "the job is ready", func() bool {
		text, err := c.weir("job", "logs", job).CombinedOutput()
		return err == nil && string(text) == "ready\n"
	})
	if text, err := c.weir("create", "user", "--attributes", "{name=bob}").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if text, err := c.weir("job", "signal", "--as", "bob", job, "USR1").CombinedOutput(); err == nil || !strings.Contains(string(text), "Access denied") {
		t.Errorf("bob: %v, %s", err, text)
	}
	if text, err := c.weir("job", "signal", job, "WHAT").CombinedOutput(); err == nil || !strings.Contains(string(text), "SIGUSR1") {
		t.Errorf("a signal that does not exist: %v, %s", err, text)
	}
	if text, err := c.weir("job", "signal", job, "usr1").CombinedOutput(); err != nil || len(text) > 0 {
		t.Fatalf("%v, %s", err, text)
	}
	c.awaitEnd(server.OperationKey{ID: id})
	if text, err := c.weir("job", "logs", job).CombinedOutput(); err != nil || string(text) != "ready\nsignalled\n" {
		t.Errorf("the log is %q, %v", text, err)
	}
	if text, err := c.weir("job", "signal", job, "USR1").CombinedOutput(); err == nil || !strings.Contains(string(text), "completed") {
		t.Errorf("after the end: %v, %s", err, text)
	}
	records, _, err := c.scheduler.Server.Store().Audit(context.Background(), store.AuditFilter{Command: "signal_job"})
	if err != nil || len(records) != 1 || records[0].Object != job || string(records[0].After) != `{"all":false,"signal_name":"SIGUSR1"}` {
		t.Errorf("the audit has %+v, %v", records, err)
	}
}

// Permissions count at every step: somebody who may no longer manage the operation loses the sessions that they have.
func TestASessionIsOfNoUseOnceItsUserMayNoLongerManageTheOperation(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("{cpu: 4, memory: 4GiB, user_slots: 4}", isolated)
	started := c.start(task("a", "exec sleep 1000"))
	job := c.awaitRunning(started, 1)[0].ID.String()
	if text, err := c.weir("create", "user", "--attributes", "{name=bob}").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	allow := func(permissions string) {
		if text, err := c.weir("op", "update", started.String(), "--parameters", "{acl=[{action=allow;subjects=[bob];permissions=["+permissions+"]}]}").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	address, found := client.LocalAddress(c.scheduler.Address)
	if !found {
		t.Fatal("the scheduler has no socket")
	}
	bob, err := client.New(client.Options{Address: address, User: "bob"})
	if err != nil {
		t.Fatal(err)
	}
	allow("read;manage")
	shell, err := bob.OpenShell(t.Context(), job, client.ShellOptions{Arguments: []string{"cat"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Write(t.Context(), []byte("mine\n")); err != nil {
		t.Fatal(err)
	}
	if out, _, err := shell.Read(t.Context()); err != nil || string(out) != "mine\n" {
		t.Fatalf("%q, %v", out, err)
	}
	allow("read")
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, client.CodeAuthorization) {
			t.Errorf("%s: %v, want an authorization error", what, err)
		}
	}
	_, _, err = shell.Read(t.Context())
	refused("reading", err)
	refused("writing", shell.Write(t.Context(), []byte("more\n")))
	_, err = bob.OpenShell(t.Context(), job, client.ShellOptions{Arguments: []string{"true"}})
	refused("another one", err)
}

func TestAShellEndsWithItsJobItsAgentItsSupervisorAndTheTermOfTheLeader(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		end     func(c *cluster, n *node, job guid.ID)
		reasons string
	}{
		"job": {func(c *cluster, n *node, job guid.ID) { touch(c.t, filepath.Join(n.sandboxOf(job), "go")) }, "job_ended exited"},
		"agent killed": {func(c *cluster, n *node, _ guid.ID) {
			n.kill()
			n.start()
		}, "node_away"},
		"agent stopped": {func(c *cluster, n *node, _ guid.ID) {
			n.stop()
			n.start()
		}, "agent_stopped"},
		"host of jobs": {func(c *cluster, n *node, _ guid.ID) {
			if err := syscall.Kill(n.supervisor(), syscall.SIGKILL); err != nil {
				c.t.Error(err)
			}
		}, "job_ended"},
		"leader": {func(c *cluster, _ *node, _ guid.ID) {
			c.stop()
			c.startScheduler()
		}, "unknown_shell leader_changed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			n := c.node("{cpu: 4, memory: 4GiB, user_slots: 4}", isolated)
			job := c.awaitRunning(c.start(task("a", "while [ ! -e go ]; do sleep 0.05; done")), 1)[0].ID
			mark := newMark()
			client := c.client()
			options := sleeping(mark)
			if name == "host of jobs" { // what a shell has put into the background then lives as long as the job
				options.Command = "echo begins; exec sleep " + mark
			}
			shell, err := client.OpenShell(t.Context(), job.String(), options)
			if err != nil {
				t.Fatal(err)
			}
			if output, _, err := shell.Read(t.Context()); err != nil || string(output) != "begins\n" {
				t.Fatalf("%q, %v", output, err)
			}
			one.end(c, n, job)
			exited := drainShell(t, shell, io.Discard)
			if !strings.Contains(one.reasons, exited.Reason) || exited.Reason == "" {
				t.Errorf("it ended with %+v", exited)
			}
			awaitNothing(t, "processes of the shell", func() []string { return processesOf(t, mark) })
		})
	}
}

// newMark returns a number by which a test finds a process.
func newMark() string { return fmt.Sprintf("%d%04d", os.Getpid(), groups.Add(1)) }

// sleeping runs a shell that ends only when it is ended.
func sleeping(mark string) client.ShellOptions {
	return client.ShellOptions{Command: "echo begins; trap '' HUP; sleep " + mark + " & while true; do wait; done"}
}

func TestAShellIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	n := c.node("{cpu: 4, memory: 4GiB, user_slots: 4}", isolated+"  shells: false\n")
	open := func(job string) error {
		_, err := c.client().OpenShell(t.Context(), job, client.ShellOptions{Command: "true"})
		return err
	}
	check := func(job, reason string) {
		t.Helper()
		var refused *client.Error
		if err := open(job); !errors.As(err, &refused) || refused.Attributes["reason"] != reason && refused.Attributes["state"] != reason {
			t.Errorf("want %s: %v", reason, err)
		}
	}
	id := c.start(task("a", "exec sleep 1000"))
	job := c.awaitRunning(id, 1)[0].ID.String()
	check(job, "shells_forbidden")
	n.signal(syscall.SIGSTOP)
	await(t, "the node counts as away", func() bool {
		var refused *client.Error
		return errors.As(open(job), &refused) && refused.Attributes["reason"] == "node_away"
	})
	n.signal(syscall.SIGCONT)
	_, ended := c.completed(c.start(task("b", "true")))
	check(guid.OfJob(ended[0].Number).String(), "completed")
}

func TestAJobHasAFewShellsAtATime(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("{cpu: 4, memory: 4GiB, user_slots: 4}", isolated)
	job := c.awaitRunning(c.start(task("a", "exec sleep 1000")), 1)[0].ID.String()
	client := c.client()
	for i := range 5 {
		shell, err := client.OpenShell(t.Context(), job, sleeping(newMark()))
		if i < 4 && err != nil || i == 4 && (err == nil || !strings.Contains(err.Error(), "the job has 4 shells, which is the limit")) {
			t.Errorf("shell %d: %v", i+1, err)
		}
		if err == nil {
			defer func() {
				if err := shell.Terminate(context.Background()); err != nil {
					t.Error(err)
				}
				if exited := drainShell(t, shell, io.Discard); exited.Reason != "terminated" {
					t.Errorf("it ended with %+v", exited)
				}
			}()
		}
	}
}

// The requests are those of YTsaurus's own client in Python: yt run-job-shell.
func TestAnUnmodifiedClientRunsAShell(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("{cpu: 4, memory: 4GiB, user_slots: 4}", isolated)
	job := c.awaitRunning(c.start(task("a", "exec sleep 1000")), 1)[0].ID.String()
	token, err := c.weir("token", "create", "root").Output()
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.TrimSpace(string(token))
	for _, version := range []string{"v3", "v4"} {
		send := func(parameters string) (status int, answer, failure string) {
			request, err := http.NewRequest(http.MethodPost, "http://"+c.scheduler.Address+"/api/"+version+"/poll_job_shell", nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "OAuth "+secret)
			request.Header.Set("X-YT-Header-Format", "<format=text>yson")
			request.Header.Set("X-YT-Output-Format", "<format=text>yson")
			request.Header.Set("X-YT-Parameters", `{"job_id"="`+job+`";"parameters"={`+parameters+`}}`)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			return response.StatusCode, string(body), response.Header.Get("X-YT-Error")
		}
		status, answer, failure := send(`"operation"="spawn";"term"="xterm";"height"=50;"width"=132;"environment"=["YT_PROXY=x";"YT_TOKEN=very-secret"]`)
		_, rest, _ := strings.Cut(answer, `"shell_id"="`)
		shell, _, found := strings.Cut(rest, `"`)
		if status != http.StatusOK || !found || version == "v4" != strings.HasPrefix(answer, `{"result"={`) {
			t.Fatalf("%s: %d %s %s", version, status, answer, failure)
		}
		keys := fmt.Sprintf("%x", "stty size; echo $YT_TOKEN | wc -c; exit\r")
		for range 2 { // the second one is a repetition
			if status, answer, failure := send(`"operation"="update";"shell_id"="` + shell + `";"input_offset"=0;"keys"="` + keys + `"`); status != http.StatusOK ||
				!strings.Contains(answer, fmt.Sprintf(`"consumed_offset"=%d;`, len(keys)/2)) {
				t.Fatalf("%s: %d %s %s", version, status, answer, failure)
			}
		}
		var text string
		for {
			status, answer, failure := send(`"operation"="poll";"shell_id"="` + shell + `"`)
			if status != http.StatusOK {
				if !strings.Contains(failure, `"code":1800`) {
					t.Errorf("%s: %s", version, failure)
				}
				break
			}
			text += answer
		}
		if !strings.Contains(text, "50 132") || strings.Count(text, `12\r\n`) != 1 {
			t.Errorf("%s: the shell wrote %s", version, text)
		}
	}
	records, _, err := c.scheduler.Server.Store().Audit(context.Background(), store.AuditFilter{Command: "poll_job_shell"})
	if err != nil || len(records) == 0 {
		t.Fatal(err)
	}
	for _, record := range records {
		if bytes.Contains(record.After, []byte("very-secret")) {
			t.Errorf("the audit has the token: %s", record.After)
		}
	}
	if strings.Contains(c.log.String(), "very-secret") {
		t.Error("the log has the token")
	}
}
