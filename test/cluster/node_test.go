package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirhq/weir/internal/node/jobproxy"
)

// nodeOptions are what a node is like.
type nodeOptions struct {
	name      string
	resources string // as in a configuration
	tags      string
	directory string // of its data; unset: one of the test
	namespace string // of the network; unset: that of the machine
	watchdog  string // how often memory is looked at; unset: every 50 ms
	contained string // further settings of how jobs are contained
	more      string // further lines of its section
}

// node is an agent in a process of its own. It can die and be started again.
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

// configure writes the configuration that holds from the next start on.
func (n *node) configure(scheduler, directory, group string) {
	n.t.Helper()
	o := n.options
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

// start starts the agent, for the first time or again.
func (n *node) start() {
	n.t.Helper()
	n.process = runIn(n.t, n.options.namespace, n.options.name, n.log, "node", "--config", n.config)
}

// jobs is where the directories of jobs are.
func (n *node) jobs() string { return filepath.Join(n.directory, "jobs") }

// jobDirectories are the directories of jobs.
func (n *node) jobDirectories() []string {
	dirs, err := jobproxy.Scan(n.jobs())
	if err != nil && !os.IsNotExist(err) {
		n.t.Log(err)
	}
	return dirs
}

// state asks the proxy of a job how it is; nil if it does not answer.
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

// proxies are the ids of the proxies that run.
func (n *node) proxies() (pids []int) {
	for _, dir := range n.jobDirectories() {
		if state, err := jobproxy.ReadState(dir); err == nil && state.Phase == jobproxy.Running && jobproxy.IsAlive(dir) {
			pids = append(pids, state.ProxyPID)
		}
	}
	return pids
}

// background is a context for what has to be done after a test.
func background() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}
