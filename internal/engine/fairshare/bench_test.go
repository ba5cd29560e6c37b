package fairshare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

// syntheticTree returns a tree with the given number of operations and 5 % as many
// pools on two levels. Pools with larger indices have fewer operations; 30 % of the
// lower pools are FIFO. Demand is 1.5 times the cluster.
func syntheticTree(operations int, seed uint64) *Tree {
	rng := rand.New(rand.NewPCG(seed, 7))
	n := float64(operations)
	tree := &Tree{Options: DefaultOptions(), Elements: []Element{{Kind: KindPool}}}
	tree.Total = resource.Amounts{int64(110 * n), int64(100_00 * n), 0, int64(4e11 * n), int64(50 * n)}
	pools := operations / 20
	top := max(2, int(math.Sqrt(float64(pools))))
	for i := range pools {
		element := Element{Kind: KindPool, Weight: math.Exp(2 * rng.Float64()), Pool: &Pool{}}
		if i >= top {
			element.Parent = int32(1 + skewed(rng, top))
			if rng.Float64() < 0.3 {
				element.Pool = &Pool{Mode: FIFO}
			}
		}
		if rng.Float64() < 0.3 {
			part := 0.5 * rng.Float64() / float64(top)
			if i >= top {
				part /= float64(pools) / float64(top)
			}
			element.Pool.Strong = onlyMain(tree, part)
		}
		if rng.Float64() < 0.1 {
			element.Limits = onlyMain(tree, rng.Float64()/10)
		}
		tree.Elements = append(tree.Elements, element)
	}
	for i := range operations {
		tree.Elements = append(tree.Elements, syntheticOperation(rng, int32(1+top+skewed(rng, pools-top)), i))
	}
	return tree
}

// skewed draws an index below n; smaller ones are more likely.
func skewed(rng *rand.Rand, n int) int {
	return min(int(float64(n)*math.Pow(rng.Float64(), 1.3)), n-1)
}

func syntheticOperation(rng *rand.Rand, parent int32, start int) Element {
	jobs := int64(1 + math.Exp(5.5*rng.Float64()))
	cpu := int64(100 * (1 + rng.IntN(4)))
	memory := int64(1+rng.IntN(12)) << 30
	amounts := func(jobs int64) resource.Amounts {
		return resource.Amounts{jobs, jobs * cpu, 0, jobs * memory, jobs * int64(rng.IntN(2))}
	}
	running := int64(0)
	if rng.IntN(2) == 0 {
		running = rng.Int64N(jobs + 1)
	}
	demand := amounts(jobs)
	return Element{
		Kind: KindOperation, Parent: parent, Weight: 1, Demand: demand, Usage: amounts(running).Min(demand), StartTime: int64(start),
	}
}

// churn changes the usage of a part of the operations, at least one, and lists
// them in the tree.
func churn(tree *Tree, round int, part float64) {
	// Benchmarks share a tree: what one has set must not be what the next one sets.
	rng := rand.New(rand.NewPCG(uint64(round), math.Float64bits(part)))
	tree.Tracked, tree.Touched = true, tree.Touched[:0]
	if part == 0 {
		return
	}
	for count := max(1, int(part*float64(len(tree.Elements)))); len(tree.Touched) < count; {
		slot := rng.IntN(len(tree.Elements))
		if element := &tree.Elements[slot]; element.Kind == KindOperation {
			element.Usage = element.Demand.Times(rng.Float64())
			tree.Touched = append(tree.Touched, int32(slot))
		}
	}
}

// siblingsTree is one pool with many operations, a quarter of them gangs.
func siblingsTree(operations int) *Tree {
	tree := syntheticTree(operations, 3)
	tree.Elements = slices.DeleteFunc(tree.Elements, func(e Element) bool { return e.Kind == KindPool })
	tree.Elements = slices.Insert(tree.Elements, 0, Element{Kind: KindPool}, Element{Kind: KindPool})
	for i := range tree.Elements[2:] {
		tree.Elements[2+i].Parent = 1
		tree.Elements[2+i].Gang = i%4 == 0
	}
	return tree
}

// productionTree has the shape of a production tree: 565 pools up to ten levels
// deep, 286 of them FIFO; 743 operations, 670 of them gangs; 226 pools with strong
// guarantees; five resources, of which gpu is scarce.
func productionTree() *Tree {
	rng := rand.New(rand.NewPCG(5, 6))
	tree := &Tree{Options: DefaultOptions(), Elements: []Element{{Kind: KindPool}}}
	tree.Options.MainResource = resource.GPU
	tree.Total = resource.Amounts{60_000, 300_000_00, 8_000, 3 << 50, 400_000}
	depth := map[int32]int{0: 0}
	inner, fifo := []int32{0}, []int32(nil)
	for i := range 565 {
		slot := int32(len(tree.Elements))
		parent := inner[skewed(rng, len(inner))]
		for depth[parent] >= 9 {
			parent = inner[rng.IntN(len(inner))]
		}
		depth[slot] = depth[parent] + 1
		settings := &Pool{}
		if i < 226 {
			settings.Strong = onlyMain(tree, 0.004*rng.Float64())
		}
		if i%2 == 1 || i > 560 {
			settings.Mode = FIFO
			fifo = append(fifo, slot)
		} else {
			inner = append(inner, slot)
		}
		tree.Elements = append(tree.Elements, Element{Kind: KindPool, Parent: parent, Pool: settings})
	}
	for i := range 743 {
		jobs := int64(1 + math.Exp(4*rng.Float64()))
		job := resource.Amounts{1, int64(rng.IntN(40_00)), 8, int64(rng.IntN(1 << 38)), int64(rng.IntN(5))}
		demand := job.Times(float64(jobs))
		parent := fifo[skewed(rng, len(fifo))]
		if i%10 == 0 {
			parent = inner[rng.IntN(len(inner))]
		}
		operation := Element{Kind: KindOperation, Parent: parent, Weight: 1, Demand: demand, Gang: i%10 != 0, StartTime: int64(i)}
		if rng.IntN(2) == 0 {
			operation.Usage = demand
		}
		tree.Elements = append(tree.Elements, operation)
	}
	return tree
}

// fifoTree is one FIFO pool with many operations.
func fifoTree(operations int) *Tree {
	tree := syntheticTree(operations, 3)
	for i := range tree.Elements {
		if element := &tree.Elements[i]; element.Kind == KindOperation {
			element.Parent = 1
		} else if i > 0 {
			element.Pool, element.Parent = &Pool{Mode: FIFO}, 0
		}
	}
	return tree
}

func BenchmarkUpdate(b *testing.B) {
	for _, c := range []struct {
		name string
		tree *Tree
	}{
		{"production", productionTree()},
		{"1k", syntheticTree(1_000, 1)},
		{"10k", syntheticTree(10_000, 1)},
		{"100k", syntheticTree(100_000, 1)},
		{"fifo20k", fifoTree(20_000)},
		{"siblings500", siblingsTree(500)},
		{"siblings16k", siblingsTree(16_000)},
	} {
		for _, mode := range []string{"default", "improved"} {
			tree := *c.tree
			tree.Elements = slices.Clone(c.tree.Elements)
			tree.Options.Improved = mode == "improved"
			tree.Options.GangSteps = mode == "improved"
			b.Run(fmt.Sprintf("tree=%s/mode=%s/changed=fresh", c.name, mode), func(b *testing.B) {
				b.ReportAllocs()
				var cpu expected.Stopwatch
				cpu.Start()
				for b.Loop() {
					Compute(&tree, FirstUpdate)
				}
				cpu.Stop()
				cpu.Report(b)
			})
			for _, changed := range []struct {
				name string
				part float64
			}{{"all", 1}, {"1%", 0.01}, {"one", 1e-9}, {"nothing", 0}} {
				b.Run(fmt.Sprintf("tree=%s/mode=%s/changed=%s", c.name, mode, changed.name), func(b *testing.B) {
					benchmarkRepeated(b, &tree, changed.part)
				})
			}
		}
	}
}

// benchmarkRepeated measures updates of one engine. A fraction of the operations
// changes between updates.
func benchmarkRepeated(b *testing.B, tree *Tree, part float64) {
	var e Engine
	var result Result
	round := 0
	e.Update(tree, time.Second, &result)
	b.ReportAllocs()
	var cpu expected.Stopwatch
	for b.Loop() {
		b.StopTimer()
		round++
		churn(tree, round, part)
		b.StartTimer()
		cpu.Start()
		e.Update(tree, 200*time.Millisecond, &result)
		cpu.Stop()
	}
	cpu.Report(b)
}
