package scheduling

import (
	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/resource"
)

// View is an element as of now; shares, status and starvation are those of the
// last update.
type View struct {
	Share      fairshare.Split
	Demand     resource.Amounts
	Usage      resource.Amounts
	Status     Status
	Starvation Starvation
	// Satisfaction is usage divided by fair share.
	Satisfaction float64
	FIFOIndex    int32

	// Of pools: operations below them.
	Operations, RunningOperations int
	// Volume is what an integral pool has saved, in seconds of the whole tree.
	Volume float64

	// Of operations.
	RunningJobs int32
	WaitingJobs int32
	// Classes counts running jobs by class.
	Classes  [classCount]int32
	Refusals [refusalCount]uint32
}

// View returns an element as of now.
func (t *Tree) View(slot int32) View {
	e := &t.elements[slot]
	v := View{
		Usage: e.usage, Status: e.status, Starvation: e.starvation, Satisfaction: e.satisfaction, FIFOIndex: none,
		Demand: e.demand.Of(t.total),
	}
	if e.known {
		v.Share = t.result.Split(slot)
	}
	if p := e.pool; p != nil {
		v.Operations, v.RunningOperations = p.operations, p.running
		state := t.State(slot)
		v.Volume = state.Volume.Ratio(t.total)
		return v
	}
	op := e.operation
	v.RunningJobs, v.WaitingJobs, v.Refusals, v.FIFOIndex = op.count, op.waiting, op.refusals, op.fifoIndex
	v.Classes = op.counts
	return v
}
