package sim

import (
	"context"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/value/resource"
)

// checkPromise checks that the books of a pool balance and that everything short has a cause.
func checkPromise(t *testing.T, p *outcome.Promise) {
	t.Helper()
	short := 0.0
	for _, c := range p.Causes {
		short += c.Amount
		if c.Name == ledger.Unexplained.String() {
			t.Errorf("pool %s: %v is unexplained", p.Pool, c.Amount)
		}
	}
	rounding := 1e-3 + 1e-5*(p.Due+p.Got) // results have six digits
	if math.Abs(short-p.Short) > rounding || math.Abs(p.Due+p.Surplus-p.Got-p.Short) > rounding {
		t.Errorf("the books do not balance: %+v", p)
	}
}

// shadow is a core that gets the inputs of a simulation, with books that it keeps as the daemon does.
type shadow struct {
	core  *core.Core
	books core.Books
	nodes map[core.NodeID]core.NodeInput
}

// watch applies an input as the daemon does: usage is entered after every input, claims after updates that are due.
func (s *shadow) watch(t *testing.T) func(now time.Time, input core.Input, _ *core.Decisions) {
	var out core.Decisions
	return func(now time.Time, input core.Input, _ *core.Decisions) {
		if node, ok := input.(*core.NodeInput); ok {
			s.nodes[node.Node] = *node
		}
		_, updates := input.(*core.UpdateInput)
		due := updates && s.core.UpdateDue(now)
		out.Reset()
		if err := s.core.Apply(now, input, &out); err != nil {
			t.Fatal(err)
		}
		s.books.Spent(now, s.core, nil)
		if due {
			s.books.Updated(now, s.core, nil, s.lost(), false)
		}
	}
}

// lost is what nodes have that the trees do not have now.
func (s *shadow) lost() (lost []resource.Amounts) {
	for _, id := range slices.Sorted(maps.Keys(s.nodes)) {
		node := s.nodes[id]
		if _, there := s.core.NodeTree(id); there {
			continue
		}
		if tree, ok := s.core.TreeFor(node.Tags); ok {
			for int(tree) >= len(lost) {
				lost = append(lost, resource.Amounts{})
			}
			lost[tree] = lost[tree].Add(node.Resources)
		}
	}
	return lost
}

// TestASimulationHasTheLedgerOfTheDaemon applies the inputs of simulated days to a second core and keeps its books
// as the daemon does. Both ledgers are equal, to the last unit.
func TestASimulationHasTheLedgerOfTheDaemon(t *testing.T) {
	for _, name := range []string{"burst", "node-loss", "starvation"} {
		s := load(t, filepath.Join("example", name+".yaml"))
		twin := &shadow{core: core.New(SettingsOf(s)), books: core.Books{Book: ledger.New()}, nodes: map[core.NodeID]core.NodeInput{}}
		r := newRun(s, core.New(SettingsOf(s)), Options{Promises: true, Watch: twin.watch(t)})
		result, err := r.complete(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if len(result.Promises) == 0 {
			t.Errorf("%s has no promises", name)
		}
		own := &promises{Books: twin.books}
		if want := own.results(r.date()); !reflect.DeepEqual(result.Promises, want) {
			t.Errorf("%s: the simulator has %+v, the daemon %+v", name, result.Promises, want)
		}
		for i := range result.Promises {
			p := &result.Promises[i]
			checkPromise(t, p)
			// Guarantees that the nodes can keep are kept but for the moments that preemption and placing need
			// (L5). In the example about starvation, a pool that asks seldom waits for its timeout each time.
			if least := map[bool]float64{false: 0.99, true: 0.95}[name == "starvation"]; p.Kept == nil || *p.Kept < least {
				t.Errorf("%s: pool %s: %+v", name, p.Pool, p)
			}
			for _, c := range p.Causes {
				if !c.Own && c.Name != ledger.PreemptionDelay.String() && c.Name != ledger.Placing.String() {
					t.Errorf("%s: pool %s lacks %v by %s", name, p.Pool, c.Amount, c.Name)
				}
			}
		}
	}
}
