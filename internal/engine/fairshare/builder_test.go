package fairshare

import (
	"sort"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// testTree builds trees by name. Amounts given in cores are proportional, with one
// slot and a megabyte per core, so that tests need to check only cpu.
type testTree struct {
	Tree
	slots map[string]int32
}

func cores(n float64) resource.Amounts {
	return resource.Amounts{int64(n), int64(n * 100), 0, int64(n * 1e6), 0}
}

// onlyCPU is a guarantee that names cpu only; the other resources are inferred.
func onlyCPU(n float64) resource.Partial {
	return resource.Partial{}.With(resource.CPU, int64(n*100))
}

func newTestTree(total resource.Amounts) *testTree {
	t := &testTree{slots: map[string]int32{}}
	t.Total, t.Options = total, DefaultOptions()
	t.add("root", Element{Kind: KindPool})
	return t
}

func (t *testTree) add(name string, e Element) *Element {
	t.slots[name] = int32(len(t.Elements))
	t.Elements = append(t.Elements, e)
	return &t.Elements[len(t.Elements)-1]
}

// pool adds a pool below the named parent.
func (t *testTree) pool(parent, name string, settings Pool) *Element {
	return t.add(name, Element{Kind: KindPool, Parent: t.slots[parent], Pool: &settings})
}

// operation adds an operation below the named parent.
func (t *testTree) operation(parent, name string, demand resource.Amounts) *Element {
	return t.add(name, Element{Kind: KindOperation, Parent: t.slots[parent], Demand: demand})
}

// hungryPool adds a pool with one operation that demands more than the cluster.
func (t *testTree) hungryPool(parent, name string, settings Pool) *Element {
	t.pool(parent, name, settings)
	t.operation(name, name+".op", t.Total.Times(10))
	return &t.Elements[t.slots[name]]
}

// setVolume gives an integral pool the volume of the whole cluster for these
// seconds.
func (t *testTree) setVolume(name string, seconds float64) {
	t.States = resize(t.States, len(t.Elements))
	t.States[t.slots[name]].Volume = resource.VolumeOf(t.Total, seconds, 1)
}

// run computes one update, checks it, and keeps the state for the next one.
func (t *testTree) run(tb testing.TB, elapsed time.Duration) *testResult {
	tb.Helper()
	result := Compute(&t.Tree, elapsed)
	for _, v := range Verify(&t.Tree, elapsed, result) {
		tb.Errorf("%s", v)
	}
	t.States = append([]State(nil), result.States...)
	return &testResult{result, t}
}

type testResult struct {
	*Result
	tree *testTree
}

// cpu returns a share in cores.
func (r *testResult) cpu(s resource.Shares) float64 {
	return s[resource.CPU] * r.Total.Float(resource.CPU)
}

// split returns the fair share in cores by cause: strong, integral, by weight.
func (r *testResult) split(name string) [3]float64 {
	s := r.Split(r.tree.slots[name])
	return [3]float64{r.cpu(s.Strong), r.cpu(s.Integral), r.cpu(s.WeightProportional)}
}

// fair returns the fair share in cores.
func (r *testResult) fair(name string) float64 {
	return r.cpu(r.Elements[r.tree.slots[name]].FairShare)
}

// volume returns the saved volume of an integral pool, in core·seconds.
func (r *testResult) volume(name string) float64 {
	return r.States[r.tree.slots[name]].Volume[resource.CPU]
}

func near(tb testing.TB, what string, got, want, tolerance float64) {
	tb.Helper()
	if d := got - want; !(d <= tolerance && d >= -tolerance) {
		tb.Errorf("%s: got %.10g, want %.10g", what, got, want)
	}
}

func nearAll(tb testing.TB, what string, got, want [3]float64) {
	tb.Helper()
	for i, part := range []string{"strong", "integral", "by weight"} {
		near(tb, what+" "+part, got[i], want[i], 1e-6)
	}
}

// valueAt returns the function's value at x: the lower end at a jump, and the
// nearest end's value outside the interval.
func valueAt(points []point, x float64) resource.Shares {
	i := sort.Search(len(points), func(i int) bool { return points[i].x >= x })
	switch {
	case i == len(points):
		return points[len(points)-1].v
	case i == 0 || points[i].x == x:
		return points[i].v
	}
	a, b := &points[i-1], &points[i]
	return between(&a.v, &b.v, (x-a.x)/(b.x-a.x))
}
