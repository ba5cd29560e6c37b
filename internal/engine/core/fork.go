package core

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/weirhq/weir/internal/engine/scheduling"
)

// Fork returns an independent copy for what-if questions: a change of one
// does not affect the other. Specifications and configurations are shared,
// because they are replaced, never changed. It takes time and memory in
// proportion to what lives. Forks of one core may be made concurrently. A fork
// updates its trees one after the other.
func (c *Core) Fork() *Core {
	f := *c
	f.together = nil
	f.decisions, f.scratch, f.promised, f.painter = scheduling.Decisions{}, nil, nil, painter{renumbered: true}
	f.jobs, f.userPools = maps.Clone(c.jobs), maps.Clone(c.userPools)
	f.stirred, f.timed, f.suspects = slices.Clone(c.stirred), slices.Clone(c.timed), slices.Clone(c.suspects)
	f.live, f.calm, f.seenAt = slices.Clone(c.live), slices.Clone(c.calm), slices.Clone(c.seenAt)
	f.nodes = make([]*node, len(c.nodes))
	for i, n := range c.nodes {
		if n != nil {
			own := *n
			f.nodes[i] = &own
		}
	}
	f.operations = make(map[OperationID]*running, len(c.live))
	for _, id := range c.live {
		own := *c.operations[id]
		own.controller, own.places = own.controller.Clone(), slices.Clone(own.places)
		own.hosted, own.touched = slices.Clone(own.hosted), false
		f.operations[id] = &own
	}
	f.trees = make([]*tree, len(c.trees))
	for i, t := range c.trees {
		f.trees[i] = t.fork(&f)
	}
	return &f
}

func (t *tree) fork(core *Core) *tree {
	f := *t
	f.core = core
	f.state = t.state.Clone()
	f.jobs, f.owners, f.nodes = slices.Clone(t.jobs), slices.Clone(t.owners), slices.Clone(t.nodes)
	own := make(map[*pool]*pool, len(t.order))
	for _, p := range t.order {
		forked := *p
		forked.numbers = slices.Clone(p.numbers)
		own[p] = &forked
	}
	f.listed, f.dropped = nil, nil
	f.order = make([]*pool, len(t.order))
	f.pools = make(map[string]*pool, len(t.order))
	for i, p := range t.order {
		forked := own[p]
		if p.parent != nil {
			forked.parent = own[p.parent]
		}
		f.order[i], f.pools[forked.name] = forked, forked
	}
	return &f
}

// Hash returns a fingerprint of the state: cores with equal histories have
// equal hashes.
func (c *Core) Hash() ([sha256.Size]byte, error) {
	h := sha256.New()
	fmt.Fprintln(h, c.nextJob, c.defaultTree, c.live)
	fmt.Fprintln(h, c.begun.UnixNano(), c.nodesChecked.UnixNano(), c.stuckChecked.UnixNano())
	for _, user := range slices.Sorted(maps.Keys(c.userPools)) {
		fmt.Fprintln(h, user, c.userPools[user])
	}
	for _, t := range c.trees {
		fmt.Fprintln(h, t.name, t.nodes, t.owners)
		t.state.Hash(h)
		for _, p := range t.order {
			fmt.Fprintln(h, p.name, p.slot, p.ephemeral, p.user, p.hub, p.members, p.numbers)
		}
		for _, j := range t.jobs {
			fmt.Fprintln(h, j)
		}
	}
	for id, n := range c.nodes {
		if n != nil {
			fmt.Fprintln(h, id, n.name, n.resources, n.tags, n.tree, n.at, n.silent, n.awaited, n.until.UnixNano(), c.seenAt[id].UnixNano())
		}
	}
	for _, id := range c.live {
		op := c.operations[id]
		snapshot, err := json.Marshal(op.controller.Snapshot())
		if err != nil {
			return [sha256.Size]byte{}, fmt.Errorf("operation %d: %w", id, err)
		}
		h.Write(snapshot)
		for i := range op.places {
			fmt.Fprintln(h, op.places[i].tree, op.places[i].slot, op.places[i].pool, op.places[i].number)
		}
		fmt.Fprintln(h, op.started, op.choosing, op.hosted)
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}
