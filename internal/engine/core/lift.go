package core

import (
	"time"

	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

// Lift is an obstacle that LiftInput removes.
type Lift uint8

const (
	// LiftLimit removes a limit of the operation or of a pool on a resource.
	LiftLimit Lift = iota
	// LiftFilter lets the operation or a pool use all nodes.
	LiftFilter
	// LiftBans lets the operation use nodes on which its jobs failed.
	LiftBans
	// LiftGrace lets an operation that is preempted gracefully get more than its
	// fair share.
	LiftGrace
	// LiftPacking lets jobs start on any node with room.
	LiftPacking
	// LiftCount makes room for the operation in the pool that it waits for.
	LiftCount
	// LiftRivals keeps other operations, and other tasks, from starting jobs.
	LiftRivals
)

// LiftInput removes one obstacle of an operation, for questions on a fork: what
// would start without it. It is refused if the operation or the pool does not
// exist. Later inputs that configure pools may restore the obstacle.
type LiftInput struct {
	Operation OperationID
	Tree      TreeID
	Lift      Lift
	Pool      string // with the limit or filter; empty: the operation
	Resource  resource.Kind
	Option    scheduling.LimitOption
	Task      int32 // for LiftRivals
}

func (i *LiftInput) apply(c *Core, now time.Time, out *Decisions) error {
	return c.lift(now, i, out)
}

func (c *Core) lift(now time.Time, i *LiftInput, out *Decisions) error {
	op := c.operationAt(i.Operation)
	if op == nil || op.placeIn(i.Tree) == nil {
		return ErrNoOperation
	}
	t := c.trees[i.Tree]
	slot := op.placeIn(i.Tree).slot
	element := slot
	if i.Pool != "" {
		p := t.pools[i.Pool]
		if p == nil {
			return &PoolError{Tree: t.name, Pool: i.Pool, Rule: PoolMissing}
		}
		element = p.slot
	}
	switch i.Lift {
	case LiftLimit:
		t.state.LiftLimit(element, i.Resource, i.Option)
	case LiftFilter:
		t.state.LiftFilter(element)
	case LiftBans:
		t.state.LiftBans(slot)
	case LiftGrace:
		t.state.LiftGrace(slot)
	case LiftPacking:
		t.state.LiftPacking()
	case LiftCount:
		for _, admitted := range t.state.LiftCount(slot) {
			c.admitted(now, t, admitted, out)
		}
	case LiftRivals:
		t.state.LiftRivals(slot, i.Task)
	}
	return nil
}
