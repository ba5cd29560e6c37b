package core

import (
	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

// Claims appends what pools with guarantees may claim, as of the last update, in the
// order of trees and of the pools' numbers. closed reports nodes that get no jobs for
// reasons outside the core; nil means none. lost is, by TreeID, what nodes had that
// the trees do not have now; it may be shorter.
func (c *Core) Claims(into []ledger.Entry, closed func(NodeID) bool, lost []resource.Amounts) []ledger.Entry {
	for _, t := range c.trees {
		var shut func(scheduling.Node) bool
		if closed != nil {
			shut = func(n scheduling.Node) bool { return closed(t.nodes[n]) }
		}
		c.promised = t.state.Promises(c.promised[:0], t.pendingNeed)
		for i := range c.promised {
			e := ledger.Entry{
				Pool:  ledger.Pool{Tree: t.name, Name: t.state.PoolName(c.promised[i].Slot)},
				Claim: ledger.Claim{Promise: c.promised[i]},
			}
			if int(t.id) < len(lost) {
				e.Claim.Lost = lost[t.id][e.Claim.Resource]
			}
			if e.Claim.Open() > 0 {
				e.Claim.Free = t.state.RoomFor(e.Claim.Slot, e.Claim.Resource, shut)
			}
			into = append(into, e)
		}
	}
	return into
}

// pendingNeed returns what the waiting jobs of an operation need.
func (t *tree) pendingNeed(slot int32) (need resource.Amounts) {
	for _, g := range t.core.operations[t.owners[slot]].controller.Groups() {
		for k := range need {
			need[k] += g.Resources[k] * int64(g.Pending)
		}
	}
	return need
}

// Spent is what the jobs of a pool hold, or those of an operation in a pool of a tree. Room
// that is kept for a gang that assembles is not part of it.
type Spent struct {
	ledger.Pool
	Operation OperationID // NoOperation if it is that of the pool
	Usage     resource.Amounts
}

// TakeUsage calls visit with what jobs hold now, for every pool and operation for which that may
// have changed since the last call. Pools that were removed hold nothing; operations that have ended are
// left out.
func (c *Core) TakeUsage(visit func(s *Spent)) {
	for _, t := range c.trees {
		for _, name := range t.dropped {
			if t.pools[name] == nil {
				visit(&Spent{Pool: ledger.Pool{Tree: t.name, Name: name}, Operation: NoOperation})
			}
		}
		t.dropped = t.dropped[:0]
		t.state.TakeUsage(func(slot int32, isPool bool, usage resource.Amounts) {
			s := Spent{Pool: ledger.Pool{Tree: t.name}, Operation: NoOperation, Usage: usage}
			if isPool {
				s.Name = t.state.PoolName(slot)
			} else {
				s.Operation = t.owners[slot]
				s.Name = c.operations[s.Operation].placeIn(t.id).pool
			}
			visit(&s)
		})
	}
}

// TreeFor returns the tree whose node filter matches tags; there is none if several
// do.
func (c *Core) TreeFor(tags []string) (TreeID, bool) {
	tree, err := c.treeOf(&node{tags: tags})
	return tree, err == nil && tree != none
}
