package scheduling

import "github.com/weirhq/weir/internal/resource"

// Obstacle is one reason why waiting jobs of an operation do not start, with the
// amounts that show it.
type Obstacle struct {
	Refusal Refusal
	// Group is the kind of jobs that the obstacle keeps waiting, none for all.
	Group int32
	// Element is the pool or operation whose limit is reached or whose count is
	// full, none otherwise.
	Element int32
	// Resource is what is short; Needed is what a job takes of it and Available
	// the most that there is: under the limit, or on the best node.
	Resource          resource.Kind
	Needed, Available int64
	// Nodes is on how many nodes of the tree it is so.
	Nodes int
}

// Explanation is why waiting jobs of an operation do not start.
type Explanation struct {
	Waiting int32
	Status  Status
	// Nodes is how many nodes the tree has; Fitting on how many of them a
	// waiting job would fit right now, were it this operation's turn.
	Nodes, Fitting int
	Obstacles      []Obstacle
}

// Explain finds every obstacle in the way of an operation's waiting jobs. It
// looks at all nodes, so it is for people, not for heartbeats.
func (t *Tree) Explain(slot int32) Explanation {
	e := &t.elements[slot]
	op := e.operation
	x := Explanation{Waiting: op.waiting, Status: e.status}
	add := func(o Obstacle) { x.Obstacles = append(x.Obstacles, o) }
	switch {
	case !op.running:
		p := t.elements[op.waitsAt].pool
		add(Obstacle{Refusal: RefusedCount, Group: none, Element: op.waitsAt, Needed: int64(p.running) + 1, Available: int64(p.maxRunning)})
		return x
	case op.suspended:
		add(Obstacle{Refusal: RefusedSuspended, Group: none, Element: none})
		return x
	case op.waiting == 0:
		add(Obstacle{Refusal: RefusedNoDemand, Group: none, Element: none})
		return x
	}
	if op.graceful && e.status == Normal {
		add(Obstacle{Refusal: RefusedGracefulAboveShare, Group: none, Element: none})
	}
	for g := range op.groups {
		if op.groups[g].Waiting > 0 {
			t.explainLimits(slot, int32(g), add)
		}
	}
	t.explainNodes(slot, &x, add)
	return x
}

// explainLimits adds the limits, from the operation up, that leave no room for
// one more job.
func (t *Tree) explainLimits(slot, group int32, add func(Obstacle)) {
	need := t.elements[slot].operation.groups[group].Resources
	refusal := RefusedOperationLimit
	for at := slot; ; at = t.elements[at].parent {
		e := &t.elements[at]
		for _, k := range resource.Kinds {
			if room := e.limits[k] - e.usage[k]; need[k] > 0 && room < need[k] {
				add(Obstacle{Refusal: refusal, Group: group, Element: at, Resource: k, Needed: need[k], Available: max(room, 0)})
			}
		}
		if at == 0 {
			return
		}
		refusal = RefusedPoolLimit
	}
}

// explainNodes counts nodes that are excluded by filters, and for every kind of
// jobs those that lack a resource.
func (t *Tree) explainNodes(slot int32, x *Explanation, add func(Obstacle)) {
	op := t.elements[slot].operation
	excluded := 0
	short := make([][resource.KindCount]Obstacle, len(op.groups))
	for at := range t.nodes {
		n := &t.nodes[at]
		if !n.alive {
			continue
		}
		x.Nodes++
		if !op.filter.Matches(n.hasTag) || !t.poolsMatch(slot, n) {
			excluded++
			continue
		}
		free, fits := n.free(), false
		for g := range op.groups {
			if op.groups[g].Waiting == 0 {
				continue
			}
			need, lacks := op.groups[g].Resources, false
			for k := range need {
				if free[k] >= need[k] {
					continue
				}
				lacks = true
				o := &short[g][k]
				o.Nodes++
				o.Available = max(o.Available, free[k])
			}
			fits = fits || !lacks
		}
		if fits {
			x.Fitting++
		}
	}
	if excluded > 0 {
		add(Obstacle{Refusal: RefusedTag, Group: none, Element: none, Nodes: excluded})
	}
	for g := range short {
		for k, o := range short[g] {
			if o.Nodes > 0 {
				o.Refusal, o.Group, o.Element = RefusedNodeResources, int32(g), none
				o.Resource, o.Needed = resource.Kind(k), op.groups[g].Resources[k]
				add(o)
			}
		}
	}
}
