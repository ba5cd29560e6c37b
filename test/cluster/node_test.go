package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/node/jobproxy"
)

// nodeOptions configure a node.
type nodeOptions struct {
	name      string
	resources string // as in a configuration
	tags      string
	directory string // data directory; unset: the test's
	namespace string // network namespace; unset: the machine's
	watchdog  string // interval of memory checks; unset: 50 ms
	contained string // further containment settings
	more      string // further lines of its section
}

// node is an agent in its own process. It can be killed and restarted.
type node struct {
	*process
	t         testing.TB
	options   nodeOptions
	directory string
	config    string
	log       *logFile
}

// startNode starts an agent.
func startNode(t testing.TB, scheduler, directory, group string, o nodeOptions) *node {
	t.Helper()
	if o.name == "" {
		o.name = "node-1"
	}
	if o.watchdog == "" {
		o.watchdog = "50ms"
	}
	if o.tags == "" {
		o.tags = "[]"
	}
	n := &node{t: t, options: o, directory: o.directory, log: &logFile{}}
	if n.directory == "" {
		n.directory = filepath.Join(directory, o.name)
	}
	n.configure(scheduler, directory, group)
	showLog(t, o.name, n.log)
	n.start()
	return n
}

// configure writes the configuration that applies from the next start on.
func (n *node) configure(scheduler, directory, group string) {
	n.t.Helper()
	o := n.options
	if separate && !strings.Contains(o.more, "supervisor:") {
		o.more = "  supervisor: false\n" + o.more
	}
	if !strings.Contains(o.more, "isolation:") {
		o.more = "  isolation: " + sharing(directory) + "\n" + o.more
	}
	n.config = writeFile(n.t, directory, o.name+".yaml", fmt.Sprintf(`node:
  schedulers: [%q]
  name: %s
  tags: %s
  resources: %s
  data_dir: %q
  cgroup: {mode: auto, parent: %s%s}
  memory_watchdog_period: %s
  heartbeat: {min_backoff: 50ms, max_backoff: 200ms, timeout: 5s}
%s`, scheduler, o.name, o.tags, o.resources, n.directory, group, o.contained, o.watchdog, o.more))
}

// separate gives every job a proxy process instead of a supervisor for all: both ways have to pass.
var separate = os.Getenv("WEIR_TEST_PROXIES") != ""

// sharing is the section isolation of nodes whose jobs leave traces for the test in a directory. The level is the
// default.
func sharing(directory string) string {
	return fmt.Sprintf("{readonly_paths: [%q], writable_paths: [%q], share_writable_paths: true}", programs.directory, directory)
}

// sharedDirectory returns a directory that jobs of every user may write to.
func sharedDirectory(t testing.TB) string {
	t.Helper()
	directory := t.TempDir()
	if err := os.Chmod(directory, 0o777); err != nil {
		t.Fatal(err)
	}
	return directory
}

// touch makes a file that jobs of every user may append to.
func touch(t testing.TB, name string) {
	t.Helper()
	if err := errors.Join(os.WriteFile(name, nil, 0o666), os.Chmod(name, 0o666)); err != nil {
		t.Fatal(err)
	}
}

// start starts the agent, for the first time or again.
func (n *node) start() {
	n.t.Helper()
	n.process = runIn(n.t, n.options.namespace, n.options.name, n.log, "node", "--config", n.config)
}

// jobs returns the directory that holds the jobs' directories.
func (n *node) jobs() string { return filepath.Join(n.directory, "jobs") }

// jobDirectories returns the directories of jobs.
func (n *node) jobDirectories() []string {
	dirs, err := jobproxy.Scan(n.jobs())
	if err != nil && !os.IsNotExist(err) {
		n.t.Log(err)
	}
	return dirs
}

// state requests the state of a job from its proxy; nil if it does not answer.
func (n *node) state(job string) *jobproxy.State {
	connection, err := jobproxy.Attach(filepath.Join(n.jobs(), job))
	if err != nil {
		return nil
	}
	defer connection.Close()
	state, err := connection.Do(jobproxy.Order{Command: jobproxy.Status}, patience)
	if err != nil {
		return nil
	}
	return state
}

// proxies returns the ids of the running proxies.
func (n *node) proxies() (pids []int) {
	for _, dir := range n.jobDirectories() {
		if state, err := jobproxy.ReadState(dir); err == nil && state.Phase == jobproxy.Running && jobproxy.IsAlive(dir) {
			pids = append(pids, state.ProxyPID)
		}
	}
	return pids
}

// background returns a context for cleanup after a test.
func background() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}
