package cli

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/command/app"
	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
	"github.com/weirhq/weir/test/fakenode"
)

// testbed is a scheduler that listens, and nodes that simulate jobs.
type testbed struct {
	t         *testing.T
	scheduler *app.Scheduler
	nodes     *fakenode.Cluster
}

// newTestbed starts a scheduler with an empty default tree, and makes all commands
// of the test use it.
func newTestbed(t *testing.T, nodes int) *testbed {
	t.Helper()
	settings := config.Default().Scheduler
	settings.Listen, settings.DataDir = document.Some("127.0.0.1:0"), document.Some(t.TempDir())
	settings.Periods.FairShareUpdate = document.Some(20 * time.Millisecond)
	settings.Periods.OperationsUpdate = document.Some(20 * time.Millisecond)
	settings.Nodes.HeartbeatPeriod = document.Some(20 * time.Millisecond)
	settings.Analysis.Questions, settings.Analysis.CPU = document.Some(1_000_000), document.Some(64.0)
	settings.Journal.Keep = document.Some(time.Hour)
	settings.Leader.LeaseTTL = document.Some(time.Minute) // there is no other server, and the disk may be slow
	scheduler, err := app.NewScheduler(t.Context(), &settings, "test", slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- scheduler.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	<-scheduler.Server.Led()
	b := &testbed{t: t, scheduler: scheduler}
	t.Setenv(addressVariable, scheduler.Address)
	t.Setenv(contextsVariable, filepath.Join(t.TempDir(), "contexts.yaml"))
	for _, name := range []string{tokenVariable, tokenFileVariable, contextVariable, authorityVariable} {
		t.Setenv(name, "")
	}
	if _, there := scheduler.Server.Trees().Find("default"); !there {
		b.ok("create", "scheduler_pool_tree", "--attributes", "{name=default}")
		b.ok("set", "//sys/pool_trees/@default_tree", "default")
	}
	if nodes > 0 {
		b.startNodes(nodes)
	}
	return b
}

// startNodes adds nodes with eight cores each.
func (b *testbed) startNodes(count int) {
	amounts := resource.Amounts{}
	amounts[resource.CPU], amounts[resource.Memory] = resource.FromFloat(resource.CPU, 8), 16<<30
	amounts[resource.UserSlots], amounts[resource.Network] = 8, 100
	b.nodes = fakenode.New(fakenode.Config{
		Count: count, Resources: amounts, Script: playCommand,
		Describe: func(i int) *nodev1.NodeDescription { return describeNode(i, amounts) },
		Caller:   func(int) fakenode.Caller { return fakenode.Direct(b.scheduler.Server.NodeService()) },
	})
	b.t.Cleanup(b.nodes.Close)
	if err := b.nodes.Await(b.t.Context(), func(t fakenode.Totals) bool { return t.Registered == count }); err != nil {
		b.t.Fatal(err)
	}
}

func describeNode(index int, amounts resource.Amounts) *nodev1.NodeDescription {
	name := "node-" + strconv.Itoa(index+1)
	return &nodev1.NodeDescription{Name: name, Address: name + ".example:7080", Resources: nodeproto.ToAmounts(amounts), Tags: []string{"ssd"}, SoftwareVersion: "test"}
}

var played = regexp.MustCompile(`^echo '?([^';]*)'?`)

// playCommand simulates the commands of the tests: echo, exit and sleep.
func playCommand(_ string, start nodeproto.Start) (b fakenode.Behaviour) {
	command := start.Spec.GetCommand()
	if found := played.FindStringSubmatch(command); found != nil {
		b.Stderr = []byte(found[1] + "\n")
	}
	if _, code, exits := strings.Cut(command, "exit "); exits {
		number, _ := strconv.ParseInt(code, 10, 32)
		b.State, b.ExitCode = nodev1.JobState_JOB_STATE_FAILED, int32(number)
		b.Error = &nodev1.Error{Code: 1205, Message: "User job failed", InnerErrors: []*nodev1.Error{{Code: 10000, Message: "Process exited with code " + code}}}
	}
	if strings.HasPrefix(command, "sleep") {
		b.Duration = -1
	}
	return b
}

// call runs a command line and returns its output and exit code.
func (b *testbed) call(args ...string) (code int, stdout, stderr string) {
	b.t.Helper()
	return callRoot(b.t.Context(), newRootCommand(), args...)
}

// ok runs a command line that must succeed and returns its output.
func (b *testbed) ok(args ...string) string {
	b.t.Helper()
	code, out, errs := b.call(args...)
	if code != ExitOK {
		b.t.Fatalf("weir %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

// refused runs a command line that must fail and returns its error output.
func (b *testbed) refused(args ...string) string {
	b.t.Helper()
	code, out, errs := b.call(args...)
	if code != ExitFailed || out != "" {
		b.t.Fatalf("weir %s: exit code %d, want %d and no output\n%s%s", strings.Join(args, " "), code, ExitFailed, out, errs)
	}
	return errs
}

// withInput runs a command line with this standard input.
func (b *testbed) withInput(input string, args ...string) (code int, stdout, stderr string) {
	b.t.Helper()
	var out, errs bytes.Buffer
	code = execute(b.t.Context(), newRootCommand(), args, strings.NewReader(input), &out, &errs)
	return code, out.String(), errs.String()
}

// pool creates a pool in the default tree.
func (b *testbed) pool(name, parent, more string) {
	b.t.Helper()
	b.ok("create", "scheduler_pool", "--attributes", "{name="+name+"; pool_tree=default; parent_name=\""+parent+"\";"+more+"}")
}

// scrubbers replace the parts of an output that differ between runs.
var scrubbers = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\b[0-9a-f]{1,8}-[0-9a-f]{1,8}-[0-9a-f]{1,8}-[0-9a-f]{1,8}\b`), "1-2-3-4"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d+Z?`), "TIME"},
	{regexp.MustCompile(`(\d{4}-\d\d-\d\d )?\b\d\d:\d\d:\d\d\b`), "CLOCK"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`\b\d+s\b`), "0s"},
	{regexp.MustCompile(`saved [0-9.e+-]+`), "saved 0"},
}

// golden compares a scrubbed output with testdata/golden.
func golden(t *testing.T, name, printed string) {
	t.Helper()
	if scrubbers[0].what.MatchString(printed) { // ids are not all of one length, so columns are not either
		printed = regexp.MustCompile(` {2,}`).ReplaceAllString(printed, "  ")
	}
	for _, s := range scrubbers {
		printed = s.what.ReplaceAllString(printed, s.with)
	}
	expected.File(t, filepath.Join("testdata", "golden", name+".txt"), printed)
}

func TestAServerThatIsNotThere(t *testing.T) {
	t.Setenv(contextsVariable, filepath.Join(t.TempDir(), "contexts.yaml"))
	t.Setenv(addressVariable, "127.0.0.1:1")
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"by the variable", []string{"get", "//sys"}, "The address comes from WEIR_ADDR; --addr"},
		{"by the flag", []string{"get", "//sys", "--addr", "127.0.0.1:2"}, "The address was given by --addr"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, out, errs := call(test.args...)
			if code != ExitFailed || out != "" {
				t.Errorf("exit code %d, stdout %q", code, out)
			}
			for _, want := range []string{"the scheduler at http://127.0.0.1:", "cannot be reached", test.want, "weir up starts a cluster"} {
				if !strings.Contains(errs, want) {
					t.Errorf("stderr lacks %q:\n%s", want, errs)
				}
			}
		})
	}
	code, _, errs := call("get", "//sys", "--addr", "ftp://a:b:c")
	if code != ExitFailed || !strings.Contains(errs, "is not the address of a scheduler") {
		t.Errorf("exit code %d, stderr %q", code, errs)
	}
}

func TestCompletionAsksTheServer(t *testing.T) {
	b := newTestbed(t, 1)
	b.pool("research", "<Root>", "")
	id := strings.TrimSpace(b.ok("run", "--detach", "--title", "long", "-p", "research", "--", "sleep 1000"))
	b.until(func() bool { return strings.Contains(b.ok("op", "list", "--state", "running", "-q"), id) }, "the operation does not run")
	b.until(func() bool { // the live state is a moment behind
		_, out, _ := b.call("pools")
		return strings.Contains(out, "research")
	}, "the pool is not in the live state")
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"paths", []string{"get", "//sys/pools/re"}, "//sys/pools/research\n"},
		{"attributes", []string{"get", "//sys/pools/research/@parent"}, "//sys/pools/research/@parent_name\n"},
		{"the first step", []string{"list", ""}, "//sys/\n"},
		{"types", []string{"create", "scheduler"}, "scheduler_pool_tree\n"},
		{"operations", []string{"op", "get", id[:4]}, id + "\trunning root long\n"},
		{"pools", []string{"run", "--pool", "res"}, "research\n"},
		{"nodes", []string{"op", "jobs", id, "--node", "no"}, "node-1\n"},
		{"trees", []string{"pools", "d"}, "default\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if out := b.ok(append([]string{"__complete"}, test.args...)...); !strings.Contains(out, test.want) {
				t.Errorf("completions %q, want among them %q", out, test.want)
			}
		})
	}
	t.Run("a server that is not there has no names", func(t *testing.T) {
		t.Setenv(addressVariable, "127.0.0.1:1")
		if code, out, _ := call("__complete", "pools", ""); code != ExitOK || !strings.HasPrefix(out, ":4") {
			t.Errorf("exit code %d, completions %q", code, out)
		}
	})
}
