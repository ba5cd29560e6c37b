package scheduling

import (
	"math"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/resource"
)

// Packing makes jobs wait for a node whose free CPU and memory suit them. An
// operation remembers the free resources of the last nodes it was tried on; a
// node is good enough if few of those suited the job better.
//
// The node of a heartbeat is remembered after it was judged, so it is not
// compared with itself.
type Packing struct {
	Enabled bool
	Metric  pooltree.PackingMetric
	// MaxBetter is the number of remembered better nodes that makes a job wait.
	MaxBetter int
	// Better means smaller by more than AbsoluteTolerance and by more than the
	// factor RelativeTolerance.
	AbsoluteTolerance, RelativeTolerance float64
	// MinWindow is how many nodes must have been seen before a job starts,
	// MaxWindow how many are remembered, and MaxAge for how long.
	MinWindow, MaxWindow int
	MaxAge               time.Duration
}

// PackingOf returns the packing settings for a tree's options, with their
// defaults filled in.
func PackingOf(o pooltree.Packing) Packing {
	metric, _ := o.Metric.Get()
	return Packing{
		Enabled: o.Enable.Value(), Metric: metric, MaxBetter: o.MaxBetterPastSnapshots.Value(),
		AbsoluteTolerance: o.AbsoluteTolerance.Value(), RelativeTolerance: o.RelativeTolerance.Or(1),
		MinWindow: o.MinWindowSize.Value(), MaxWindow: o.MaxWindowSize.Value(), MaxAge: o.MaxHeartbeatAge.Value(),
	}
}

// sighting is what a node had free when an operation was tried on it.
type sighting struct {
	at   time.Time
	free resource.Amounts
}

// misfit returns how badly a job suits what a node has free; 0 is a perfect
// fit. Only CPU and memory count, as fractions of the tree's total.
func (p *Packing) misfit(job, free, total resource.Amounts) float64 {
	var product, jobSquare, freeSquare float64
	for _, k := range [...]resource.Kind{resource.CPU, resource.Memory} {
		if total[k] == 0 {
			continue
		}
		j, f := float64(job[k])/float64(total[k]), float64(free[k])/float64(total[k])
		product += j * f
		jobSquare += j * j
		freeSquare += f * f
	}
	if jobSquare == 0 || freeSquare == 0 {
		return 0
	}
	// Rounding may put the cosine of equal directions above one.
	angle := max(0, 1-product/math.Sqrt(jobSquare*freeSquare))
	if p.Metric == pooltree.Angle {
		return angle
	}
	return angle * math.Sqrt(freeSquare/jobSquare)
}

// suits reports whether a job of an operation may start on a node with this
// much free, and remembers the node.
func (t *Tree) suits(now time.Time, slot, group int32, free resource.Amounts) bool {
	p := &t.settings.Packing
	op := t.elements[slot].operation
	job := op.groups[group].Resources
	suited := len(op.sightings) >= p.MinWindow
	if suited {
		here, better := p.misfit(job, free, t.total), 0
		for i := range op.sightings {
			past := &op.sightings[i]
			if now.Sub(past.at) > p.MaxAge || !past.free.Dominates(job) {
				continue
			}
			if m := p.misfit(job, past.free, t.total); m < here-p.AbsoluteTolerance && m < here/p.RelativeTolerance {
				better++
			}
		}
		suited = better < p.MaxBetter
	}
	op.sightings = append(op.sightings, sighting{now, free})
	t.forgetSightings(op)
	return suited
}

// forgetSightings drops remembered nodes beyond the window.
func (t *Tree) forgetSightings(op *operationState) {
	most := 0
	if p := &t.settings.Packing; p.Enabled {
		most = max(p.MaxWindow, 0)
	}
	if over := len(op.sightings) - most; over > 0 {
		op.sightings = slices.Delete(op.sightings, 0, over)
	}
}

// setAside notes an operation that only packing keeps off the current node.
func (t *Tree) setAside(slot int32) { t.misfits = append(t.misfits, slot) }

// reconsider restores operations that packing kept off the node: after a job
// has started there, the rest may suit them.
func (t *Tree) reconsider() {
	for _, slot := range t.misfits {
		t.refresh(slot)
	}
	t.misfits = t.misfits[:0]
}

// scheduleMisfits starts one job of the operations that only packing kept off
// a node, if nothing else has started there: packing makes jobs wait for
// better nodes, but must not keep nodes idle.
func (t *Tree) scheduleMisfits(now time.Time, at Node, d *Decisions) {
	n := &t.nodes[at]
	if len(d.Starts) == 0 && n.free().Dominates(t.settings.MinSpare) {
		slices.SortFunc(t.misfits, t.comesBefore)
		for _, slot := range slices.Compact(t.misfits) {
			d.Attempts[StagePackingFallback]++
			group, refusal := t.fits(slot, n, n.free(), true)
			if refusal != RefusedNothing {
				t.refuse(slot, refusal)
				continue
			}
			t.give(now, slot, group, at, StagePackingFallback, d)
			break
		}
	}
	t.misfits = t.misfits[:0]
}
