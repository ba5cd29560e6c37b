package core

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
)

// entry is one record of a journal.
type entry struct {
	now   time.Time
	input Input
}

func (w *world) hash() [32]byte {
	w.tb.Helper()
	sum, err := w.Hash()
	if err != nil {
		w.tb.Fatal(err)
	}
	return sum
}

// TestPropertyAJournalReplaysToTheIdenticalState records a random history and
// applies it to a new core. A fork made half-way behaves the same and disturbs
// nothing.
func TestPropertyAJournalReplaysToTheIdenticalState(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(r, threePools)
		w.addNode(0, 8)
		w.addNode(1, 5)
		w.pass(time.Second)
		for range rapid.IntRange(1, 20).Draw(r, "before") {
			w.step(r)
		}
		fork := w.Fork()
		atFork := w.hash()
		if sum, err := fork.Hash(); err != nil || sum != atFork {
			r.Fatalf("a fork is not what it was made from: %v", err)
		}
		since := len(w.journal)
		for range rapid.IntRange(1, 20).Draw(r, "after") {
			w.step(r)
		}
		if sum, err := fork.Hash(); err != nil || sum != atFork {
			r.Fatalf("a fork was disturbed: %v", err)
		}
		want := w.hash()
		for name, c := range map[string]struct {
			core *Core
			from int
		}{"replay": {New(DefaultSettings()), 0}, "fork": {fork, since}} {
			var out Decisions
			for _, e := range w.journal[c.from:] {
				out.Reset()
				_ = c.core.Apply(e.now, e.input, &out) // an input that was refused is refused again
			}
			if sum, err := c.core.Hash(); err != nil || sum != want {
				r.Fatalf("%s: the state differs (%v)", name, err)
			}
		}
	})
}

func TestAnOperationCompletesWhenItsJobsHave(t *testing.T) {
	w := newWorld(t, "pools: {p: {}}")
	w.addNode(0, 4)
	w.pass(time.Second)
	id, err := w.start("anna", "{pool: p, tasks: {t: {job_count: 6, cpu_limit: 1, memory_limit: 512MiB}}}")
	if err != nil {
		t.Fatal(err)
	}
	w.pass(time.Second)
	w.beat(0)
	if got := w.running(id); got != 4 {
		t.Fatalf("%d jobs run", got)
	}
	for range 6 {
		job, ok := w.some(0)
		if !ok {
			t.Fatal("nothing runs")
		}
		w.beat(0, Finished{Job: job, State: JobCompleted})
	}
	if state := w.ops[id]; state != operation.Completed {
		t.Errorf("the operation is %s", state)
	}
}

func TestANodeThatMatchesTwoTreesIsRefusedWithBothNames(t *testing.T) {
	w := newWorld(t, "pools: {}")
	trees := []document.Named[*pooltree.Tree]{
		{Name: "default", Value: parseTree(t, `nodes_filter: "!gpu"`)},
		{Name: "gpu", Value: parseTree(t, "nodes_filter: gpu | both")},
	}
	if err := w.do(&TreesInput{trees, "default"}); err != nil {
		t.Fatal(err)
	}
	err := w.do(&NodeInput{Node: 0, Name: "n", Tags: []string{"both"}})
	var two *TwoTreesError
	if !errors.As(err, &two) || len(two.Trees) != 2 || two.Trees[0] != "default" || two.Trees[1] != "gpu" {
		t.Errorf("%v", err)
	}
	w.addNode(0, 4)
	trees[1].Value = parseTree(t, "{}")
	if err := w.do(&TreesInput{trees, "default"}); !errors.As(err, &two) {
		t.Errorf("trees that both take a node: %v", err)
	}
}

func TestATreeThatIsFullMayBeLeftOut(t *testing.T) {
	w := newWorld(t, "pools: {production: {max_running_operation_count: 1, max_operation_count: 1}}")
	spec := func(erase bool) string {
		return fmt.Sprintf("{pool: production, pool_trees: [default, gpu], erase_trees_with_pool_limit_violations: %v, "+
			"tasks: {t: {job_count: 1, cpu_limit: 1, memory_limit: 512MiB}}}", erase)
	}
	if _, err := w.start("anna", spec(false)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.start("anna", spec(false)); err == nil || !strings.Contains(err.Error(), "max_operation_count") {
		t.Errorf("the second: %v", err)
	}
	id, err := w.start("anna", spec(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, there := w.PoolOf(id, 0); there {
		t.Error("it is in the tree that is full")
	}
	if _, there := w.PoolOf(id, 1); !there {
		t.Error("it is not in the other tree")
	}
}
