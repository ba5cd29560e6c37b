package server

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
	"github.com/weirhq/weir/test/fakenode"
)

const (
	churnNodes = 8
	churnHour  = time.Hour
)

// held counts everything in a server that comes and goes.
type held struct {
	Goroutines, Files int
	// in the term
	Operations, IDs, Aliases, Jobs, Nodes, Uploads, Dirty, Touched, Endings, Later, Results, Awaited, Starving int
	// visible to readers
	ShownOperations, ShownNumbers, ShownAliases, ShownJobs, ShownNodes, Registrations, Pools, ViewOperations int
	// in the store
	Rows map[string]int
}

func heldBy(t *testing.T, s *Server, file string) held {
	t.Helper()
	synctest.Wait()
	h, err := askHow(t.Context(), s, true, func(t *term) (held, error) {
		t.answerNow = true
		return held{
			Operations: len(t.operations), IDs: len(t.ids), Aliases: len(t.aliases), Jobs: len(t.jobs), Nodes: len(t.nodes),
			Uploads: len(t.uploads), Dirty: len(t.dirty), Touched: len(t.touched), Endings: len(t.endings), Later: len(t.later),
			Results: len(t.results), Awaited: len(t.awaited), Starving: len(t.starvation),
		}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	h.ShownOperations, h.ShownNumbers, h.ShownAliases = len(s.operations.all()), len(s.numbers.all()), len(s.aliases.all())
	h.ShownJobs, h.ShownNodes, h.Registrations = len(s.jobs.all()), len(s.nodes.all()), len(s.registrations.all())
	if tree, there := s.View().Tree("default"); there {
		h.Pools, h.ViewOperations = tree.PoolCount(), s.View().Picture.OperationCount()
	}
	h.Rows = countRows(t, file)
	synctest.Wait()
	h.Goroutines = runtime.NumGoroutine()
	for range 100 { // the runtime has temporary goroutines, such as those that clean up
		runtime.Gosched()
		h.Goroutines = min(h.Goroutines, runtime.NumGoroutine())
	}
	if files, err := os.ReadDir("/proc/self/fd"); err == nil {
		h.Files = len(files)
	}
	return h
}

// countRows counts the rows that must disappear once their subjects have ended.
func countRows(t *testing.T, file string) map[string]int {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	counts := map[string]int{}
	for _, table := range []string{
		"operations", "operation_specs", "operation_progress", "controller_snapshots", "jobs", "job_outputs", "mutations", "pools", "volumes", "nodes",
	} {
		var n int
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		counts[table] = n
	}
	return counts
}

// churn makes things come and go until the context ends.
type churn struct {
	t      *testing.T
	s      *Server
	nodes  *fakenode.Cluster
	random *rand.Rand
	count  int
}

// script is the behaviour of jobs: most complete, some fail with a long stderr, some never end.
func (c *churn) script(_ string, start nodeproto.Start) fakenode.Behaviour {
	switch n := start.Identity.GetNumber(); {
	case n%17 == 0:
		return fakenode.Behaviour{Duration: -1} // until its operation is aborted
	case n%5 == 0:
		return fakenode.Behaviour{Duration: 20 * time.Second, State: nodev1.JobState_JOB_STATE_FAILED, Stderr: make([]byte, 100<<10)}
	}
	return fakenode.Behaviour{Duration: 40 * time.Second, Stderr: []byte("done")}
}

func (c *churn) edit(edits ...pooltree.Edit) {
	c.t.Helper()
	who := tester
	who.Mutation = fmt.Sprintf("edit-%d-%v", c.count, edits)
	err := c.s.EditTrees(c.t.Context(), who, func(trees *Trees) (*Trees, error) {
		tree, _, err := trees.List[0].Tree.With(edits...)
		if err != nil {
			return nil, err
		}
		return trees.Put("default", tree), nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// minute simulates a minute: a pool with operations appears, and is removed when they have ended;
// a node restarts; another node loses its disk or stays silent until the leader gives it up.
func (c *churn) minute() {
	c.t.Helper()
	c.count++
	pool := fmt.Sprintf("pool-%d", c.count)
	config := pooltree.PoolConfig{}
	amount := func(cores int64) document.Optional[resource.Partial] {
		return document.Some(resource.Partial{}.With(resource.CPU, cores*100))
	}
	switch c.count % 3 {
	case 0:
		config.Integral.Type, config.Integral.ResourceFlow = document.Some(pooltree.Relaxed), amount(1)
	case 1:
		config.StrongGuarantee = amount(2)
	}
	c.edit(pooltree.AddPool{Pool: pool, Config: config})
	var keys []OperationKey
	for i := range 3 {
		text := fmt.Sprintf("{pool: %s, alias: '*%s-%d', max_failed_job_count: 1000, tasks: {t: {job_count: %d, command: x, cpu_limit: 1, memory_limit: 256MiB}}}",
			[]string{pool, pool, "made-for-" + pool}[i], pool, i, 1+c.random.IntN(5))
		spec, err := operation.Read(expected.Document(c.t, text), operation.ReadOptions{})
		if err != nil {
			c.t.Fatal(err)
		}
		who := tester
		who.Mutation = fmt.Sprintf("start-%d-%d", c.count, i)
		id, err := c.s.StartOperation(c.t.Context(), who, Start{Type: "vanilla", User: "anna", Spec: spec})
		if err != nil {
			c.t.Fatal(err)
		}
		keys = append(keys, OperationKey{ID: id})
	}
	names := c.nodes.Names()
	victim := names[c.count%len(names)]
	check := func(err error) {
		c.t.Helper()
		if err != nil {
			c.t.Fatal(err)
		}
	}
	switch c.count % 4 {
	case 0:
		check(c.nodes.Restart(victim, true))
	case 1:
		check(c.nodes.Restart(victim, false))
	case 2:
		check(c.nodes.Cut(victim))
		defer func() { check(c.nodes.HealNow(victim)) }()
	}
	<-time.After(50 * time.Second)
	for _, key := range keys {
		_ = c.s.AbortOperation(c.t.Context(), tester, key, "") // might have ended
	}
	<-time.After(10 * time.Second)
	c.edit(pooltree.RemovePool{Pool: pool})
}

// After an hour in which operations, pools and nodes come and go, nothing is left: no goroutine,
// open file, map entry or row.
func TestAnHourOfChurnLeavesNothingBehind(t *testing.T) {
	directory := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(directory, "weir.db")
		db, err := store.Open(t.Context(), "sqlite:"+file)
		if err != nil {
			t.Fatal(err)
		}
		settings := DefaultSettings()
		settings.UpdatePeriod, settings.HeartbeatPeriod, settings.HeartbeatSplay = 5*time.Second, 10*time.Second, 0
		settings.ProgressPeriod, settings.LeaseTTL = 10*time.Second, 10*time.Minute
		settings.OfflineAfter, settings.Core.NodeTimeout = 20*time.Second, 30*time.Second
		settings.HistoryPeriod = time.Minute
		settings.Retention.OperationAge, settings.Retention.JobAge, settings.Retention.OutputAge = 10*time.Minute, 5*time.Minute, 2*time.Minute
		s := New(Options{Store: db, Name: "churn", Address: "x", Settings: settings, Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		<-s.Led()
		if err := setPools(t.Context(), s, "{max_operation_count: 100, pools: {}}"); err != nil {
			t.Fatal(err)
		}
		c := &churn{t: t, s: s, random: rand.New(rand.NewPCG(1, 2))}
		c.nodes = fakenode.New(fakenode.Config{
			Count: churnNodes, Resources: resource.Amounts{resource.UserSlots: 2, resource.CPU: 200, resource.Memory: 4 << 30},
			Caller: func(int) fakenode.Caller { return fakenode.Direct(s.NodeService()) }, Script: c.script, Seed: 1,
		})
		rest := func() held {
			calm := settings
			calm.UpdatePeriod, calm.HeartbeatPeriod = time.Minute, 20*time.Second
			s.Configure(calm)
			<-time.After(15 * time.Minute) // until retention has removed everything
			h := heldBy(t, s, file)
			s.Configure(settings)
			return h
		}
		c.minute() // warm up connections and statements
		base := rest()
		if base.Nodes != churnNodes || base.Operations+base.Jobs+base.Rows["operations"]+base.Rows["mutations"] != 0 || base.Pools != 1 {
			t.Fatalf("at rest there is %+v", base)
		}
		for began := time.Now(); time.Since(began) < churnHour; {
			c.minute()
		}
		busy := s.Counters()
		if busy.OperationsStarted < 150 || c.nodes.Totals().Acknowledged < 300 {
			t.Fatalf("nothing happened: %+v, %+v", busy, c.nodes.Totals())
		}
		after := rest()
		for range 10 { // one that looks for work at this moment ends; one that is left behind stays
			if after.Goroutines <= base.Goroutines {
				break
			}
			<-time.After(time.Minute)
			after.Goroutines = runtime.NumGoroutine()
		}
		if after.Goroutines > base.Goroutines || after.Files > base.Files {
			t.Errorf("%d goroutines and %d files have become %d and %d", base.Goroutines, base.Files, after.Goroutines, after.Files)
		}
		after.Goroutines, after.Files = base.Goroutines, base.Files // some from earlier tests may have ended
		if diff := cmp.Diff(base, after); diff != "" {
			t.Errorf("something is left of it (+):\n%s", diff)
		}
		t.Logf("%d operations, %d jobs, %d commits", busy.OperationsStarted, c.nodes.Totals().Acknowledged, busy.Commits)
		for _, alert := range s.Alerts() {
			t.Errorf("%s: %s", alert.Kind, alert.Message)
		}
		forgotten, err := askHow(t.Context(), s, true, func(t *term) (int, error) {
			t.answerNow = true
			return len(t.volumes), nil
		})
		if err != nil || forgotten != 0 {
			t.Errorf("%d volumes of pools that are gone, %v", forgotten, err)
		}
		c.nodes.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}
