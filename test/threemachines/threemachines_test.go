// Package threemachines_test runs the walk-through of docs/installation.md on three machines, which are
// network namespaces: two schedulers on one PostgreSQL, three nodes, TLS on every connection,
// certificates instead of passwords. The leader is killed, and only the standby notices.
package threemachines_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const schedulerConfiguration = `
scheduler:
  listen: 0.0.0.0:7070
  advertise: %[1]s:7070
  data_dir: %[2]s/scheduler
  socket: %[2]s/scheduler.sock
  store: %[3]q
  tls: {certificate: %[2]s/tls.crt, key: %[2]s/tls.key, client_ca: %[4]s}
  leader: {lease_ttl: 2s, renew_period: 500ms, standby_poll_period: 250ms}
`

const nodeConfiguration = `
node:
  name: %[1]s
  schedulers: [10.77.0.1:7070, 10.77.0.2:7070]
  data_dir: %[2]s/node
  tls: {enabled: true, ca: %[3]s, certificate: %[2]s/tls.crt, key: %[2]s/tls.key}
  resources: {cpu: 4, memory: 2GiB, user_slots: 4}
  tags: [rack/1]
  cgroup: {parent: %[4]s}
  isolation: {readonly_paths: [%[5]s]}
  heartbeat: {period: 500ms, splay: 100ms, min_backoff: 200ms, max_backoff: 1s}
`

type job struct {
	ID    string `json:"id"`
	State string `json:"state"`
	Node  string `json:"address"`
}

// jobsOf lists the jobs of an operation through a machine's scheduler.
func (n *network) jobsOf(m *machine, operation string) ([]job, error) {
	out, err := n.weir(m, "op", "jobs", operation, "-o", "json")
	if err != nil {
		return nil, err
	}
	var answer struct{ Jobs []job }
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		if err := json.Unmarshal([]byte(out), &answer.Jobs); err != nil {
			return nil, fmt.Errorf("%w: %s", err, out)
		}
	}
	slices.SortFunc(answer.Jobs, func(a, b job) int { return strings.Compare(a.ID, b.ID) })
	return answer.Jobs, nil
}

func TestThreeMachinesSurviveTheLossOfTheLeader(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts PostgreSQL, two schedulers and three nodes")
	}
	n := newNetwork(t, 3)
	store := newPostgres(t)
	m1, m2, m3 := n.machines[0], n.machines[1], n.machines[2]
	groups := fmt.Sprintf("weirtest%d", os.Getpid())
	t.Cleanup(func() { removeGroups(groups) })
	scheduler := func(m *machine) *daemon {
		return n.start(m, "scheduler", fmt.Sprintf(schedulerConfiguration, m.address, m.directory, store, n.authority.file))
	}
	first := scheduler(m1)
	n.await("m1 leads", n.says(m1, "leading"))
	second := scheduler(m2)
	n.await("m2 stands by", n.says(m2, "standing by; leader: 10.77.0.1:7070"))
	var daemons []*daemon
	for _, m := range n.machines {
		daemons = append(daemons, n.start(m, "node", fmt.Sprintf(nodeConfiguration, m.name, m.directory, n.authority.file, groups, n.directory)))
	}
	n.makePools(m1)
	n.await("three nodes are in the tree", func() (string, bool) {
		out, err := n.weir(m1, "nodes", "--state", "online", "-o", "json")
		return fmt.Sprint(out, err), strings.Count(out, `"pool_tree": "default"`) == 3
	})
	if out, err := n.weir(m3, "get", "//sys/pools", "--addr", "https://10.77.0.1:7070"); err == nil {
		t.Errorf("another machine reads before there is a token: %s", out)
	}
	n.makeToken(m1)
	n.await("another machine is root by the token, says the standby", func() (string, bool) {
		out, err := n.weir(m3, "whoami", "--addr", "https://10.77.0.2:7070")
		return fmt.Sprint(out, err), out == "root\n"
	})

	gate := filepath.Join(n.directory, "gate")
	open := func() { _ = os.WriteFile(gate, nil, 0o600) }
	t.Cleanup(open) // otherwise jobs would wait forever if the test fails
	operation := strings.TrimSpace(n.mustWeir(m1, "run", "--detach", "-p", "production", "-n", "6", "--cpu", "1", "--memory", "64MiB", "--",
		"while [ ! -e "+gate+" ]; do sleep 0.1; done; echo job $YT_JOB_COOKIE >&2"))
	running := func(m *machine) []job {
		var jobs []job
		n.await("six jobs run, says "+m.name, func() (string, bool) {
			var err error
			jobs, err = n.jobsOf(m, operation)
			return fmt.Sprint(jobs, err), len(jobs) == 6 && !slices.ContainsFunc(jobs, func(j job) bool { return j.State != "running" })
		})
		return jobs
	}
	before := running(m1)

	if err := first.stop(syscall.SIGKILL); err == nil {
		t.Error("a process that is killed does not end well")
	}
	n.await("m2 leads", n.says(m2, "leading"))
	if after := running(m2); !slices.Equal(after, before) {
		t.Errorf("jobs were not adopted:\n%v\n%v", after, before)
	}
	again := scheduler(m1)
	n.await("m1 stands by", n.says(m1, "standing by; leader: 10.77.0.2:7070"))

	open()
	n.mustWeir(m2, "op", "wait", operation)
	ended, err := n.jobsOf(m2, operation)
	if err != nil || len(ended) != 6 {
		t.Fatalf("%v, %v", ended, err)
	}
	for i, j := range ended {
		if j.ID != before[i].ID || j.Node != before[i].Node || j.State != "completed" {
			t.Errorf("job %v was %v", j, before[i])
		}
	}
	for _, d := range append(daemons, second, again) {
		if err := d.stop(syscall.SIGTERM); err != nil {
			t.Errorf("%s: %v", d.name, err)
		}
	}
}

// makePools creates the first tree of a new cluster and its pools.
func (n *network) makePools(m *machine) {
	n.t.Helper()
	n.mustWeir(m, "create", "scheduler_pool_tree", "--attributes", "{name=default}")
	n.mustWeir(m, "set", "//sys/pool_trees/@default_tree", "default")
	pools := filepath.Join(n.directory, "pools.yaml")
	if err := os.WriteFile(pools, []byte("pools: {production: {strong_guarantee_resources: {cpu: 6}}, research: {}}\n"), 0o600); err != nil {
		n.t.Fatal(err)
	}
	n.mustWeir(m, "apply", "-f", pools)
}

// makeToken issues the first token, after which every caller over TCP needs one, and uses it from then on.
// Nodes have certificates.
func (n *network) makeToken(m *machine) {
	n.t.Helper()
	file := filepath.Join(n.directory, "root.token")
	if err := os.WriteFile(file, []byte(n.mustWeir(m, "token", "create", "root", "--description", "the tests")), 0o600); err != nil {
		n.t.Fatal(err)
	}
	if out, err := n.weir(m, "get", "//sys/pools", "--addr", "https://127.0.0.1:7070"); err == nil {
		n.t.Errorf("the machine of the leader reads over TCP without a token: %s", out)
	}
	n.token = file
}
