package core

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
)

// threeTrees returns a world with trees a, b and c. Trees a and b have one node
// each, c has none.
func threeTrees(t *testing.T, a, b, c string) *world {
	t.Helper()
	w := &world{
		Core: New(DefaultSettings()), tb: t, now: midnight, nodes: map[NodeID]bool{}, jobs: map[JobID]Started{},
		over: map[JobID]bool{}, reported: map[JobID]bool{}, ops: map[OperationID]operation.State{},
	}
	var trees []document.Named[*pooltree.Tree]
	for i, pools := range []string{a, b, c} {
		name := string(rune('a' + i))
		trees = append(trees, document.Named[*pooltree.Tree]{Name: name, Value: parseTree(t, "nodes_filter: "+name+"\npools: {"+pools+"}")})
	}
	if err := w.do(&TreesInput{trees, "a"}); err != nil {
		t.Fatal(err)
	}
	w.take()
	w.addNode(0, 10, "a")
	w.addNode(1, 10, "b")
	w.pass(time.Second)
	return w
}

// treesOf returns the names of an operation's trees.
func (w *world) treesOf(id OperationID) (names []string) {
	for tree := range w.trees {
		if _, there := w.PoolOf(id, TreeID(tree)); there {
			names = append(names, string(rune('a'+tree)))
		}
	}
	return names
}

func TestTheBestOfSeveralTreesIsChosenInTheStatedOrder(t *testing.T) {
	const single = "{pool: p, pool_trees: %s, schedule_in_single_tree: true, %s tasks: {t: {job_count: 4, cpu_limit: 1, memory_limit: 512MiB}}}"
	for _, c := range []struct {
		name                  string
		a, b, c, trees, extra string
		before, want          string
	}{
		{"the larger guarantee", "p: {min_share_resources: {cpu: 2}}", "p: {min_share_resources: {cpu: 3}}", "", "[a, b]", "", "", "b"},
		{"equal trees: the one named first", "p: {}", "p: {}", "", "[b, a]", "", "", "b"},
		{"less demand", "p: {}", "p: {}", "", "[a, b]", "", "a", "b"},
		{"the guarantee covers the demand", "p: {min_share_resources: {cpu: 9}}", "p: {}", "", "[a, b]", "", "a", "a"},
		{"an empty tree is last", "p: {}", "p: {}", "p: {min_share_resources: {cpu: 5}}", "[c, b]", "", "", "b"},
		{"pending is later", "p: {max_running_operation_count: 1}", "p: {}", "", "[a, b]", "", "a", "b"},
		{"pending is later than no room", "p: {max_running_operation_count: 1, min_share_resources: {cpu: 9}}", "p: {}", "", "[a, b]", "", "a", "b"},
		{
			"guarantees first, if they are considered", "p: {min_share_resources: {cpu: 1}, max_running_operation_count: 1}", "p: {}", "", "[a, b]",
			"consider_guarantees_for_single_tree: true,", "a", "a",
		},
		{"an unknown pool", "other: {}", "p: {}", "", "[a, b]", "", "", "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := threeTrees(t, c.a, c.b, c.c)
			if c.before != "" {
				w.mustStart(fmt.Sprintf("{pool: p, pool_trees: [%s], tasks: {t: {job_count: 4, cpu_limit: 1, memory_limit: 512MiB}}}", c.before))
				w.pass(time.Second)
			}
			id := w.mustStart(fmt.Sprintf(single, c.trees, c.extra))
			if got := w.treesOf(id); !slices.Equal(got, []string{c.want}) {
				t.Errorf("it is in %v, not in %s", got, c.want)
			}
		})
	}
}

func TestTheTreeIsChosenWhenTheOperationBegins(t *testing.T) {
	w := threeTrees(t, "p: {max_running_operation_count: 1}", "p: {max_running_operation_count: 1}", "")
	first := w.mustStart("{pool: p, pool_trees: [a], tasks: {t: {job_count: 1, cpu_limit: 1, memory_limit: 512MiB}}}")
	second := w.mustStart("{pool: p, pool_trees: [b], tasks: {t: {job_count: 1, cpu_limit: 1, memory_limit: 512MiB}}}")
	id := w.mustStart("{pool: p, pool_trees: [a, b], schedule_in_single_tree: true, tasks: {t: {job_count: 1, cpu_limit: 1, memory_limit: 512MiB}}}")
	if got := w.treesOf(id); len(got) != 2 || w.ops[id] != operation.Pending {
		t.Fatalf("while it waits it is %s in %v", w.ops[id], got)
	}
	if err := w.do(&AbortInput{second, ""}); err != nil {
		t.Fatal(err)
	}
	w.take()
	if got := w.treesOf(id); !slices.Equal(got, []string{"b"}) || w.ops[id] != operation.Running {
		t.Errorf("it is %s in %v", w.ops[id], got)
	}
	if err := w.do(&AbortInput{first, ""}); err != nil {
		t.Fatal(err)
	}
	w.take()
}

func TestAnOperationWithoutGuaranteesFailsIfTheyAreConsidered(t *testing.T) {
	w := threeTrees(t, "p: {}", "p: {}", "")
	id := w.mustStart("{pool: p, pool_trees: [a, b], schedule_in_single_tree: true, consider_guarantees_for_single_tree: true, tasks: {t: {job_count: 1, cpu_limit: 1, memory_limit: 512MiB}}}")
	if w.ops[id] != operation.Failed {
		t.Errorf("it is %s", w.ops[id])
	}
}

func TestARevivedOperationChoosesItsTreeAtTheFirstUpdate(t *testing.T) {
	const a, b = "p: {max_running_operation_count: 1}", "p: {max_running_operation_count: 1}"
	old := threeTrees(t, a, b, "")
	for _, tree := range []string{"a", "b"} {
		old.mustStart("{pool: p, pool_trees: [" + tree + "], tasks: {t: {job_count: 1, cpu_limit: 1, memory_limit: 512MiB}}}")
	}
	id := old.mustStart("{pool: p, pool_trees: [a, b], schedule_in_single_tree: true, tasks: {t: {job_count: 1, cpu_limit: 1, memory_limit: 512MiB}}}")
	snapshot, _ := old.SnapshotOf(id)
	o, _ := old.seatOf(id)
	w := threeTrees(t, a, b, "")
	if err := w.do(&ReviveInput{Revived{Operation: id, User: "anna", Spec: o.Spec, Snapshot: snapshot, Places: old.PlacesOf(id)}}); err != nil {
		t.Fatal(err)
	}
	w.take()
	if got := w.treesOf(id); len(got) != 2 {
		t.Errorf("at first it is in %v", got)
	}
	w.pass(time.Second)
	if got := w.treesOf(id); len(got) != 1 {
		t.Errorf("then it is in %v", got)
	}
}
