package weir_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
	"github.com/weirhq/weir/test/fakenode"
)

// A cluster for the examples in documents and help texts: a scheduler process, and fake nodes in
// this process. Examples find there:
//
//	pools        production, research, and research/thesis
//	operations   *nightly, which runs until it is ended, and *quick, which has completed

// patience is how long a test waits for anything that must happen. The machine may be busy.
const patience = 2 * time.Minute

// serve starts the cluster and makes all commands of the workshop use it.
func (w *workshop) serve(t *testing.T) {
	t.Helper()
	portFile := filepath.Join(w.dir, "port")
	log, err := os.Create(filepath.Join(w.dir, "scheduler.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	ctx, cancel := context.WithCancel(context.Background())
	daemon := exec.CommandContext(ctx, filepath.Join(w.dir, "bin", "weir"), "scheduler",
		"--listen", "127.0.0.1:0", "--data-dir", filepath.Join(w.dir, "data"), "--port-file", portFile)
	// Commands that only read are repeated faster than people ask.
	daemon.Env = append(os.Environ(), "WEIR_SCHEDULER_ANALYSIS_QUESTIONS_PER_MINUTE=100000", "WEIR_SCHEDULER_ANALYSIS_CPU=1", "WEIR_SCHEDULER_JOURNAL_KEEP=1h")
	daemon.Stdout, daemon.Stderr = log, log
	daemon.Cancel = func() error { return daemon.Process.Signal(os.Interrupt) }
	daemon.WaitDelay = patience
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = daemon.Wait() // the daemon was asked to end
	})
	w.address = awaitFile(t, portFile, log.Name())
	w.must(t, "weir create scheduler_pool_tree --attributes '{name=default}' --ignore-existing && weir set //sys/pool_trees/@default_tree default")
	w.startNodes(t)
	w.refresh(t)
}

// awaitFile waits for the file into which a daemon writes its address.
func awaitFile(t *testing.T, name, log string) string {
	t.Helper()
	var address string
	eventually(t, func() bool {
		data, err := os.ReadFile(name)
		address = strings.TrimSpace(string(data))
		return err == nil
	}, func() string {
		said, _ := os.ReadFile(log)
		return "the scheduler does not start:\n" + string(said)
	})
	return address
}

// prepare creates the pools of the examples.
func (w *workshop) prepare(t *testing.T) {
	t.Helper()
	for _, pool := range []string{"{name=production}", "{name=research; weight=2}", "{name=thesis; parent_name=research}"} {
		w.must(t, fmt.Sprintf("weir create scheduler_pool --attributes '%s' --ignore-existing", pool))
	}
	w.must(t, "weir set //sys/pools/research/@weight 2")
}

func (w *workshop) startNodes(t *testing.T) {
	t.Helper()
	caller, err := nodeproto.NewClient([]string{w.address}, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	// Over the socket, nodes need no token, even after an example has made the first one.
	caller.DialWith(func(ctx context.Context, _, address string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", client.SocketPath(address))
	})
	var amounts resource.Amounts
	amounts[resource.CPU], amounts[resource.Memory] = resource.FromFloat(resource.CPU, 16), 64<<30
	amounts[resource.UserSlots], amounts[resource.Network] = 32, 100
	const count = 2
	nodes := fakenode.New(fakenode.Config{
		Count: count, Script: playJob, Caller: func(int) fakenode.Caller { return caller },
		Describe: func(i int) *nodev1.NodeDescription { // named as weir up names nodes
			return &nodev1.NodeDescription{
				Name: fmt.Sprintf("node-%d", i+1), Resources: nodeproto.ToAmounts(amounts), Tags: []string{"ssd"}, SoftwareVersion: "fake", Cgroups: "none",
			}
		},
	})
	t.Cleanup(nodes.Close)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := nodes.Await(ctx, func(t fakenode.Totals) bool { return t.Registered == count }); err != nil {
		t.Fatal("nodes do not register:", err)
	}
}

// playJob imitates the few commands that examples run.
func playJob(_ string, start nodeproto.Start) (b fakenode.Behaviour) {
	command := start.Spec.GetCommand()
	if text, echoes := strings.CutPrefix(command, "echo "); echoes {
		b.Stderr = []byte(strings.Trim(text, "'") + "\n")
	}
	if command == "false" {
		b.State, b.ExitCode = nodev1.JobState_JOB_STATE_FAILED, 1
		b.Error = &nodev1.Error{Code: 1205, Message: "User job failed"}
	}
	if command == "sleep infinity" {
		b.Duration = -1
	}
	return b
}

// refresh restarts operations that examples may have ended.
func (w *workshop) refresh(t *testing.T) {
	t.Helper()
	w.prepare(t)
	const spec = `{"alias": "*%s", "title": "%s", "pool": "research", "tasks": {"work": {"job_count": 2, "command": "%s"}}}`
	if !w.isRunning(t, "*nightly") {
		w.must(t, "echo '"+fmt.Sprintf(spec, "nightly", "nightly report", "sleep infinity")+"' | weir op start -")
	}
	if _, exit := w.run(t, "weir op get '*quick' --attribute state"); exit != 0 {
		w.must(t, "echo '"+fmt.Sprintf(spec, "quick", "quick check", "true")+"' | weir op start - --wait")
	}
}

// isRunning reports whether an operation runs. It waits while the operation is starting or ending.
func (w *workshop) isRunning(t *testing.T, operation string) bool {
	t.Helper()
	var state string
	eventually(t, func() bool {
		var exit int
		state, exit = w.run(t, "weir op get '"+operation+"' --attribute state")
		return exit != 0 || settled.MatchString(state)
	}, func() string { return operation + " stays " + state })
	return strings.Contains(state, "running")
}

// settled is a state in which an operation can remain.
var settled = regexp.MustCompile(`\b(running|completed|failed|aborted)\b`)

// eventually waits until a condition holds, and fails the test with the complaint otherwise.
func eventually(t *testing.T, holds func() bool, complaint func() string) {
	t.Helper()
	if !expected.Soon(holds) {
		t.Fatal(complaint())
	}
}

// must runs a command line that must succeed.
func (w *workshop) must(t *testing.T, line string) {
	t.Helper()
	if out, exit := w.run(t, line); exit != 0 {
		t.Fatalf("%s\nexit code %d; output:\n%s", line, exit, out)
	}
}
