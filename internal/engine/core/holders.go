package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

// Holding is what an operation holds of a resource.
type Holding struct {
	Operation OperationID
	Pool      string
	Amount    int64
	// Classes counts the operation's running jobs in the tree by class, and Since is
	// when the oldest of them started.
	Classes scheduling.JobCounts
	Since   time.Time
	// FirstEnd is when the first of these jobs ends at the latest, by job_time_limit;
	// zero if that is unknown.
	FirstEnd time.Time
}

// Holders returns the operations below a pool that use a resource, largest
// amounts first; equal amounts in the order of their identifiers.
func (c *Core) Holders(id TreeID, pool string, k resource.Kind) []Holding {
	t := c.trees[id]
	p := t.pools[pool]
	if p == nil {
		return nil
	}
	var list []Holding
	for _, id := range c.live {
		at := c.operations[id].placeIn(t.id)
		if at == nil || !t.state.IsBelow(p.slot, at.slot) {
			continue
		}
		if amount := t.state.Usage(at.slot)[k]; amount > 0 {
			list = append(list, t.holding(id, at, amount))
		}
	}
	sortHoldings(list)
	return list
}

// HoldersOn returns the operations whose jobs use a resource of some nodes of a
// tree, in the order of Holders.
func (c *Core) HoldersOn(id TreeID, nodes []scheduling.Node, k resource.Kind) []Holding {
	t := c.trees[id]
	var list []Holding
	for slot, amount := range t.state.UsageOn(nodes, k) {
		if amount > 0 {
			id := t.owners[slot]
			list = append(list, t.holding(id, c.operations[id].placeIn(t.id), amount))
		}
	}
	sortHoldings(list)
	return list
}

func (t *tree) holding(id OperationID, at *place, amount int64) Holding {
	h := Holding{Operation: id, Pool: at.pool, Amount: amount, Classes: t.state.Jobs(at.slot)}
	h.Since = t.state.OldestStart(at.slot)
	if limit, limited := t.core.operations[id].jobTimeLimit(); limited && !h.Since.IsZero() {
		h.FirstEnd = h.Since.Add(limit)
	}
	return h
}

// jobTimeLimit returns how long jobs of an operation may run, if that is the same for
// all of its tasks.
func (op *running) jobTimeLimit() (limit time.Duration, limited bool) {
	tasks := op.controller.Spec().Tasks
	for i := range tasks {
		own, set := tasks[i].Value.JobTimeLimit.Get()
		if !set || i > 0 && own != limit {
			return 0, false
		}
		limit = own
	}
	return limit, len(tasks) > 0
}

func sortHoldings(list []Holding) {
	slices.SortFunc(list, func(a, b Holding) int {
		return cmp.Or(cmp.Compare(b.Amount, a.Amount), cmp.Compare(a.Operation, b.Operation))
	})
}

// PoolDemand is what the operations of a pool use and demand.
type PoolDemand struct {
	Usage, Demand resource.Amounts
	Operations    []OperationID // in the order they were started
}

// PoolDemand returns what the operations below a pool use and demand, as of the
// last update, and whether the pool exists.
func (c *Core) PoolDemand(id TreeID, pool string) (d PoolDemand, ok bool) {
	t := c.trees[id]
	p := t.pools[pool]
	if p == nil {
		return d, false
	}
	for _, id := range c.live {
		at := c.operations[id].placeIn(t.id)
		if at == nil || !t.state.IsBelow(p.slot, at.slot) {
			continue
		}
		queue := t.state.Queue(at.slot)
		d.Usage, d.Demand = d.Usage.Add(queue.Usage), d.Demand.Add(queue.Demand)
		d.Operations = append(d.Operations, id)
	}
	return d, true
}

// Trees returns the names of the trees, by TreeID.
func (c *Core) Trees() []string {
	names := make([]string, len(c.trees))
	for i, t := range c.trees {
		names[i] = t.name
	}
	return names
}

// OpenNodes returns the nodes that would get work at their next heartbeats, as
// far as the core knows: they are in a tree, have reported to this core, and have
// not gone offline.
func (c *Core) OpenNodes() (list []NodeID) {
	for id, n := range c.nodes {
		if n != nil && n.tree != none && !n.silent && !n.awaited {
			list = append(list, NodeID(id))
		}
	}
	return list
}

// Live returns the operations that have not ended, in the order they were started.
func (c *Core) Live() []OperationID { return slices.Clone(c.live) }

// ChildPools returns the pools directly below a pool, in the order they were added.
func (c *Core) ChildPools(id TreeID, pool string) (names []string) {
	for _, p := range c.trees[id].order {
		if p.parent != nil && p.parent.name == pool {
			names = append(names, p.name)
		}
	}
	return names
}

// NodeAt returns the identifier of a node of a tree.
func (c *Core) NodeAt(id TreeID, at scheduling.Node) NodeID { return c.trees[id].nodes[at] }

// NodeTags returns the tags of a node. The caller must not modify them.
func (c *Core) NodeTags(id NodeID) []string { return c.nodes[id].tags }

// NextNode returns the smallest identifier that no node has ever had.
func (c *Core) NextNode() NodeID { return NodeID(len(c.nodes)) }

// OperationDetails returns an operation in a tree, and whether it is there.
func (c *Core) OperationDetails(id OperationID, tree TreeID) (d scheduling.OperationDetails, ok bool) {
	op := c.operationAt(id)
	if op == nil || op.placeIn(tree) == nil {
		return d, false
	}
	return c.trees[tree].state.Operation(op.placeIn(tree).slot), true
}

// Satisfaction returns the satisfaction of an operation in a tree; zero if it is
// not there.
func (c *Core) Satisfaction(id OperationID, tree TreeID) float64 {
	return c.queueOf(id, tree).Satisfaction
}

// PackingRefusals counts the nodes on which only packing kept jobs of an operation
// waiting.
func (c *Core) PackingRefusals(id OperationID, tree TreeID) uint32 {
	return c.queueOf(id, tree).PackingRefusals
}

func (c *Core) queueOf(id OperationID, tree TreeID) scheduling.Queue {
	op := c.operationAt(id)
	if op == nil || op.placeIn(tree) == nil {
		return scheduling.Queue{}
	}
	return c.trees[tree].state.Queue(op.placeIn(tree).slot)
}

// NodeName returns the name of a node, empty if there is none.
func (c *Core) NodeName(id NodeID) string {
	if id < 0 || int(id) >= len(c.nodes) || c.nodes[id] == nil {
		return ""
	}
	return c.nodes[id].name
}
