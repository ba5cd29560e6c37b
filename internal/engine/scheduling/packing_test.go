package scheduling

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/resource"
)

// packed returns a tree with packing enabled and its defaults.
func packed(change func(*Packing)) *testTree {
	tree := newTestTree()
	p := PackingOf(pooltree.TreeConfig{}.Settings().Packing)
	p.Enabled = true
	if change != nil {
		change(&p)
	}
	tree.settings.Packing = p
	return tree
}

func amounts(cpu, gigabytes int64) resource.Amounts {
	return resource.Amounts{resource.UserSlots: 10, resource.CPU: cpu * 100, resource.Memory: gigabytes << 30}
}

func TestDefaultsOfPackingAreThoseOfTheReference(t *testing.T) {
	want := Packing{
		Metric: pooltree.AngleLength, MaxBetter: 2, AbsoluteTolerance: 0.05, RelativeTolerance: 1.5, MaxWindow: 10, MaxAge: time.Hour,
	}
	if got := PackingOf(pooltree.TreeConfig{}.Settings().Packing); got != want {
		t.Errorf("%+v", got)
	}
}

func TestMisfitIsTheAngleBetweenAJobAndWhatIsFree(t *testing.T) {
	total := amounts(100, 100)
	for _, c := range []struct {
		name      string
		metric    pooltree.PackingMetric
		job, free resource.Amounts
		want      float64
	}{
		{"the same direction", pooltree.Angle, amounts(1, 1), amounts(10, 10), 0},
		{"a right angle", pooltree.Angle, amounts(1, 0), amounts(0, 10), 1},
		{"half a right angle", pooltree.Angle, amounts(1, 0), amounts(10, 10), 1 - math.Sqrt2/2},
		{"half a right angle and ten times the length", pooltree.AngleLength, amounts(1, 1), amounts(0, 10), (1 - math.Sqrt2/2) * 10 / math.Sqrt2},
		{"a job that needs neither", pooltree.AngleLength, amounts(0, 0), amounts(10, 10), 0},
		{"nothing free", pooltree.AngleLength, amounts(1, 1), amounts(0, 0), 0},
	} {
		p := Packing{Metric: c.metric}
		if got := p.misfit(c.job, c.free, total); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %g, want %g", c.name, got, c.want)
		}
	}
	if got := (&Packing{}).misfit(amounts(1, 1), amounts(1, 1), resource.Amounts{}); got != 0 {
		t.Errorf("in a tree without resources: %g", got)
	}
}

func TestAJobWaitsWhileRecentNodesSuitedItBetter(t *testing.T) {
	tree := packed(nil)
	plain, wide := tree.AddNode(amounts(10, 10), nil), tree.AddNode(amounts(10, 100), nil)
	slot := tree.operation(t, "root", "op", job(1, 1), 100)
	tree.pass(time.Second)
	var d Decisions
	tree.Heartbeat(tree.now, plain, &d)
	if len(d.Starts) != 10 || len(tree.elements[slot].operation.sightings) != 10 {
		t.Fatalf("%d jobs start on the node that suits, %d sightings", len(d.Starts), len(tree.elements[slot].operation.sightings))
	}
	tree.Heartbeat(tree.now, wide, &d)
	if len(d.Starts) != 1 || d.Starts[0].Stage != StagePackingFallback || d.Attempts[StagePackingFallback] != 1 {
		t.Errorf("on the other: %+v", d)
	}
	if got := tree.Operation(slot).Refusals[RefusedPacking]; got != 1 {
		t.Errorf("%d refusals", got)
	}
	// Sightings expire.
	tree.now = tree.now.Add(time.Hour + time.Second)
	tree.Heartbeat(tree.now, wide, &d)
	if len(d.Starts) != 9 || d.Starts[0].Stage != StageRegular {
		t.Errorf("an hour later: %+v", d)
	}
	if err := tree.Verify(); err != nil {
		t.Error(err)
	}
}

func TestNodesThatCouldNotHostTheJobDoNotCountForPacking(t *testing.T) {
	tree := packed(func(p *Packing) { p.MaxBetter = 1 })
	tree.AddNode(amounts(10, 10), nil)
	tree.AddNode(amounts(10, 100), nil)
	slot := tree.operation(t, "root", "op", job(2, 2), 10)
	op := tree.elements[slot].operation
	op.sightings = []sighting{{tree.now, amounts(1, 1)}} // the right shape, but too small
	if !tree.suits(tree.now, slot, 0, amounts(10, 100)) {
		t.Error("a node that is too small for the job is taken for a better one")
	}
	op.sightings = []sighting{{tree.now, amounts(2, 2)}}
	if tree.suits(tree.now, slot, 0, amounts(10, 100)) {
		t.Error("a node that suited better makes no difference")
	}
	if len(op.sightings) != 2 || op.sightings[1].free != amounts(10, 100) {
		t.Errorf("a node that was refused is not remembered: %+v", op.sightings)
	}
}

func TestTheWindowOfPackingIsBounded(t *testing.T) {
	tree := packed(func(p *Packing) { p.MaxWindow = 3 })
	tree.AddNode(amounts(100, 100), nil)
	slot := tree.operation(t, "root", "op", job(1, 1), 10)
	for i := range int64(5) {
		tree.suits(tree.now, slot, 0, amounts(10+i, 10))
	}
	sightings := tree.elements[slot].operation.sightings
	if len(sightings) != 3 || sightings[0].free != amounts(12, 10) {
		t.Errorf("%+v", sightings)
	}
	settings := tree.settings
	settings.Packing.Enabled = false
	tree.Configure(settings, fairshare.DefaultOptions())
	if got := tree.elements[slot].operation.sightings; len(got) != 0 {
		t.Errorf("packing is off and remembers %+v", got)
	}
}

func TestAStartBringsBackOperationsThatPackingSetAside(t *testing.T) {
	tree := packed(func(p *Packing) { p.MaxBetter, p.Metric = 1, pooltree.Angle })
	node := tree.AddNode(amounts(10, 20), nil)
	tree.AddNode(amounts(90, 80), nil)
	// The operation that is tried first needs equal parts and has seen such a node;
	// the other one uses the surplus memory.
	picky := tree.operation(t, "root", "picky", job(1, 1), 5)
	hungry := tree.operation(t, "root", "hungry", job(0, 10), 1)
	tree.elements[picky].operation.sightings = []sighting{{tree.now, amounts(10, 10)}}
	tree.pass(time.Second)
	var d Decisions
	tree.Heartbeat(tree.now, node, &d)
	if len(d.Starts) != 6 || d.Starts[0].Operation != hungry || d.Starts[1].Operation != picky || d.Starts[1].Stage != StageRegular {
		t.Errorf("%+v", d.Starts)
	}
}

func TestPropertyAMisfitIsNotNegativeAndScalesWithTheJob(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		draw := func(name string) resource.Amounts {
			return amounts(rapid.Int64Range(0, 1000).Draw(r, name+" cpu"), rapid.Int64Range(0, 1000).Draw(r, name+" memory"))
		}
		job, free := draw("job"), draw("free")
		p := Packing{Metric: rapid.SampledFrom([]pooltree.PackingMetric{pooltree.Angle, pooltree.AngleLength}).Draw(r, "metric")}
		m := p.misfit(job, free, amounts(1000, 1000))
		if m < 0 || math.IsNaN(m) || math.IsInf(m, 0) {
			r.Fatalf("misfit %g", m)
		}
		twice := p.misfit(job.Add(job), free, amounts(1000, 1000))
		if p.Metric == pooltree.AngleLength {
			twice *= 2
		}
		if math.Abs(twice-m) > 1e-9*(1+m) {
			r.Fatalf("a job of twice the size: %g, once: %g", twice, m)
		}
	})
}
