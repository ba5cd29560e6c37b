package core

import (
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/scheduling"
)

// Assembled reports how the assembly of a gang ended.
type Assembled struct {
	Operation OperationID
	Tree      TreeID
	Result    scheduling.GangResult
	Since     time.Time
	// Members is for how many members there was room, Needed how many were needed,
	// Victims how many jobs had to leave for them.
	Members, Needed, Victims int
	// Aside is until when the gang steps aside; zero if it does not.
	Aside time.Time
}

// syncGang updates the waiting jobs of a gang in all of its trees. A gang assembles in
// one tree at a time.
func (c *Core) syncGang(op *running, gang operation.Gang, groups []scheduling.Group) {
	assembles := -1
	for i := range op.places {
		at := &op.places[i]
		if slot, _ := c.trees[at.tree].state.Assembling(); slot == at.slot {
			assembles = i
			break
		}
	}
	for i := range op.places {
		at := &op.places[i]
		state := c.trees[at.tree].state
		state.SetGang(at.slot, int32(gang.Lack), gang.Whole)
		state.SetElsewhere(at.slot, assembles >= 0 && i != assembles)
		state.SetWaiting(at.slot, groups)
	}
}

// reportGangs reports the assemblies that have ended in a tree, and makes other trees
// of a gang follow what this one does.
func (c *Core) reportGangs(t *tree, out *Decisions) {
	if slot, _ := t.state.Assembling(); slot != t.assembling {
		t.assembling = slot
		if slot != none {
			c.syncOthers(t.owners[slot])
		}
	}
	for _, a := range t.state.TakeAssembled() {
		id := t.owners[a.Operation]
		out.Gangs = append(out.Gangs, Assembled{
			Operation: id, Tree: t.id, Result: a.Result, Since: a.Since, Members: a.Members, Needed: a.Needed, Victims: a.Victims, Aside: a.Aside,
		})
		if a.Result == scheduling.GangStarted {
			if op := c.operationAt(id); op != nil {
				c.sync(op)
			}
			continue
		}
		c.syncOthers(id)
	}
}

// syncOthers updates the waiting jobs of an operation of several trees.
func (c *Core) syncOthers(id OperationID) {
	if op := c.operationAt(id); op != nil && len(op.places) > 1 {
		c.sync(op)
	}
}

// takesNoJobs gives back room for members of a gang on a node that only reports.
func (c *Core) takesNoJobs(id NodeID, out *Decisions) {
	if tree, in := c.NodeTree(id); in {
		t := c.trees[tree]
		t.state.TakesNoJobs(c.nodes[id].at)
		c.reportGangs(t, out)
	}
}

// Assembles reports whether a gang assembles in some tree.
func (c *Core) Assembles() bool {
	for _, t := range c.trees {
		if slot, _ := t.state.Assembling(); slot != none {
			return true
		}
	}
	return false
}

// heedGang makes a gang step aside if a member could not start because the jobs that it
// waited for did not leave in time.
func (c *Core) heedGang(now time.Time, t *tree, op *running, f Finished) {
	at := op.placeIn(t.id)
	switch {
	case at == nil:
	case f.State == JobAborted && f.Reason == operation.AbortWaitingTimeout:
		t.state.StepAside(now, at.slot)
	case !f.NotBegun:
		t.state.StepBack(at.slot)
	}
}
