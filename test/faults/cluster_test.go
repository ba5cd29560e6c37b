//go:build linux

package faults

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
	"github.com/weirhq/weir/test/fakenode"
)

// cluster is schedulers on one store, fake nodes, and a gateway for users.
type cluster struct {
	t          *testing.T
	directory  string
	settings   settings
	url        string // of the store
	schedulers []*scheduler
	gateway    *gateway
	nodes      *fakenode.Cluster
	caller     *nodeproto.Client
	tolerated  []string // reasons for which jobs may be aborted
}

// onSQLite starts one scheduler with its own store.
func onSQLite(t *testing.T, nodes int) *cluster {
	t.Helper()
	return newCluster(t, quickly(), 1, nodes)
}

// onPostgres starts two schedulers on one PostgreSQL.
func onPostgres(t *testing.T, nodes int) *cluster {
	t.Helper()
	s := quickly()
	s.store = inConfiguration(postgres.Fresh(t))
	return newCluster(t, s, 2, nodes)
}

// inConfiguration rewrites the URL of a server behind a socket so that it has the user and host that
// configurations require; the socket takes precedence over the host.
func inConfiguration(url string) string {
	return strings.Replace(url, "postgres:///", "postgres://weir@socket/", 1)
}

// coresPerNode is the size of a node; flow is how much a pool saves every second, in cores.
const (
	coresPerNode = 4
	flow         = 10
)

func newCluster(t *testing.T, s settings, schedulers, nodes int) *cluster {
	t.Helper()
	c := &cluster{t: t, directory: t.TempDir(), settings: s, url: s.store, tolerated: []string{"preemption"}}
	var addresses []string
	for i := range schedulers {
		directory := filepath.Join(c.directory, fmt.Sprintf("scheduler-%d", i))
		if err := os.MkdirAll(directory, 0o700); err != nil {
			t.Fatal(err)
		}
		if c.url == "" {
			data := s.data
			if data == "" {
				data = filepath.Join(directory, "data")
			}
			c.url = "sqlite:" + filepath.Join(data, "weir.db")
		}
		c.schedulers = append(c.schedulers, newScheduler(t, directory, s))
		addresses = append(addresses, c.schedulers[i].address)
	}
	c.gateway = newGateway(t, c.schedulers, "")
	for _, s := range c.schedulers {
		s.start()
	}
	c.leader()
	c.makePools()
	c.startNodes(addresses, nodes)
	return c
}

// leader waits until there is a leader.
func (c *cluster) leader() (leader *scheduler) {
	c.t.Helper()
	await(c.t, "somebody leads", func() bool {
		for _, s := range c.schedulers {
			if s.process != nil && !s.running() && len(c.schedulers) == 1 {
				c.t.Fatal("the scheduler has ended by itself")
			}
			if s.running() && s.leads() {
				leader = s
				return true
			}
		}
		return false
	})
	return leader
}

// other returns the other scheduler.
func (c *cluster) other(than *scheduler) *scheduler {
	for _, s := range c.schedulers {
		if s != than {
			return s
		}
	}
	c.t.Fatal("there is one scheduler only")
	return nil
}

// must sends a change that must not be refused.
func (c *cluster) must(what command) yson.Node {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	answer, err := c.gateway.write(ctx, what)
	if err != nil {
		c.t.Fatalf("%s: %v", what.name, err)
	}
	return answer
}

// ask reads a value that must exist.
func (c *cluster) ask(what command) yson.Node {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	answer, err := c.gateway.read(ctx, what)
	if err != nil {
		c.t.Fatalf("%s: %v", what.name, err)
	}
	return answer
}

const (
	loadPools = 12
	teams     = 3
)

func loadPool(i int) string { return fmt.Sprintf("load-%d", i%loadPools) }

func team(i int) string { return fmt.Sprintf("team-%d", i) }

// makePools creates the tree: pools for operations, some of them with guarantees; a pool that saves and
// has no operations; one for each team that changes pools.
func (c *cluster) makePools() {
	c.t.Helper()
	many := []yson.Entry{
		yson.Pair("max_operation_count", yson.Int64(10_000)), yson.Pair("max_running_operation_count", yson.Int64(10_000)),
	}
	tree := append([]yson.Entry{yson.Pair("name", yson.String("default"))}, many...)
	c.must(command{name: "create", parameters: []yson.Entry{
		yson.Pair("type", yson.String("scheduler_pool_tree")), yson.Pair("attributes", yson.Map(tree...)),
	}})
	cores := func(n int64) yson.Node { return yson.Map(yson.Pair("cpu", yson.Int64(n))) }
	integral := func(kind string) yson.Entry {
		guarantees := yson.Map(yson.Pair("guarantee_type", yson.String(kind)), yson.Pair("resource_flow", cores(flow)))
		if kind == "burst" {
			guarantees = guarantees.With("burst_guarantee_resources", cores(2*flow))
		}
		return yson.Pair("integral_guarantees", guarantees)
	}
	for i := range loadPools {
		attributes := append([]yson.Entry{yson.Pair("weight", yson.Int64(int64(1+i%4)))}, many...)
		switch i {
		case 0:
			attributes = append(attributes, integral("burst"))
		case 1:
			attributes = append(attributes, integral("relaxed"))
		case 2, 3:
			attributes = append(attributes, yson.Pair("strong_guarantee_resources", cores(flow)))
		}
		c.must(createPool(loadPool(i), "", attributes...))
	}
	c.must(createPool("savings", "", integral("relaxed")))
	c.must(createPool("lessons", "", yson.Pair("resource_limits", cores(5))))
	for i := range teams {
		c.must(createPool(team(i), ""))
	}
}

func (c *cluster) startNodes(addresses []string, count int) {
	c.t.Helper()
	caller, err := nodeproto.NewClient(addresses, nil, "")
	if err != nil {
		c.t.Fatal(err)
	}
	pace := nodeproto.DefaultSettings()
	pace.BackoffMin, pace.BackoffMax, pace.HeartbeatPeriod = 200*time.Millisecond, 2*time.Second, c.settings.heart
	pace.CallTimeout = 10 * time.Second
	c.caller = caller
	c.nodes = fakenode.New(fakenode.Config{
		Count:     count,
		Resources: resource.Amounts{resource.UserSlots: 2 * coresPerNode, resource.CPU: coresPerNode * 100, resource.Memory: 32 << 30},
		Caller:    func(int) fakenode.Caller { return caller },
		Script:    script, Stagger: time.Second, Calls: 64, Seed: 1, Pace: pace,
	})
	c.t.Cleanup(func() {
		c.nodes.Close()
		caller.Close()
	})
	c.awaitNodes(func(t fakenode.Totals) bool { return t.Registered == count })
}

// awaitNodes waits until a condition on the nodes holds.
func (c *cluster) awaitNodes(holds func(fakenode.Totals) bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	if err := c.nodes.Await(ctx, holds); err != nil {
		c.t.Fatal(err)
	}
}

// Memory of jobs: the limit in their specifications, and their usage. Half of the limit is reserved
// before anything is known.
const (
	memoryLimit   = 1 << 30
	memoryUsed    = memoryLimit * 3 / 10
	defaultFactor = 0.5
)

// longStory is the length of an output that does not fit into a result.
const longStory = 70 << 10

// script is the behaviour of jobs by number, so that a job is the same in every run.
func script(_ string, start nodeproto.Start) fakenode.Behaviour {
	id := start.Identity
	draw := id.GetNumber()*0x9e3779b97f4a7c15 ^ uint64(id.GetCookie())<<32
	draw ^= draw >> 29
	b := fakenode.Behaviour{
		Duration: 200*time.Millisecond + time.Duration(draw%2800)*time.Millisecond,
		Statistics: []*nodev1.Statistic{
			{Path: "user_job/max_memory", Sum: memoryUsed, Count: 1, Min: memoryUsed, Max: memoryUsed, Last: memoryUsed},
		},
		Stderr: []byte("words of a job"),
	}
	switch id.GetTaskName() {
	case "resident":
		b.Duration = 20*time.Second + time.Duration(draw%40_000)*time.Millisecond
	case "lesson":
		b.Duration /= 3
	default:
		if draw%31 == 0 {
			b.Stderr = bytes.Repeat([]byte("x"), longStory)
		}
		if draw%11 == 0 {
			b.State, b.ExitCode = nodev1.JobState_JOB_STATE_FAILED, 1
			b.Error = &nodev1.Error{Code: 1205, Message: "the script says so"}
		}
	}
	return b
}

// look opens the store while a scheduler runs, and closes it when f returns: a killed leader must have
// been the only user of its file.
func (c *cluster) look(f func(ctx context.Context, db *store.Store) error) {
	c.t.Helper()
	c.lookAt(c.url, f)
}

func (c *cluster) lookAt(url string, f func(ctx context.Context, db *store.Store) error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	db, err := store.Open(ctx, url)
	if err != nil {
		c.t.Fatal(err)
	}
	err = f(ctx, db)
	if closing := db.Close(); err == nil {
		err = closing
	}
	if err != nil {
		c.t.Fatal(err)
	}
}
