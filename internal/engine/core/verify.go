package core

import (
	"errors"
	"fmt"

	"github.com/weirhq/weir/internal/engine/operation"
)

// Verify checks the invariants of the whole state: those of every tree, that
// controllers and trees agree on every job, and that no job is in two places.
func (c *Core) Verify() error {
	var found []error
	report := func(format string, args ...any) { found = append(found, fmt.Errorf(format, args...)) }
	for _, t := range c.trees {
		if err := t.state.Verify(); err != nil {
			report("tree %s: %w", t.name, err)
		}
	}
	for id := range c.nodes {
		if at, calm := c.calmOf(NodeID(id)), c.calm[id]; calm != at {
			report("node %d: its place is %v and not %v", id, at, calm)
		}
	}
	jobs := 0
	for _, id := range c.live {
		op := c.operations[id]
		if op == nil || op.id != id {
			report("operation %d is listed but gone", id)
			continue
		}
		count := 0
		for i := range op.places {
			at := &op.places[i]
			t := c.trees[at.tree]
			if t.owners[at.slot] != id {
				report("operation %d: its slot in tree %s belongs to %d", id, t.name, t.owners[at.slot])
			}
			for _, a := range t.state.AllocationsOf(at.slot, nil) {
				j := t.jobs[a]
				if place, ok := c.jobs[j.id]; !ok || place != (jobPlace{t.id, a}) || j.operation != id {
					report("operation %d: job %d is not where it should be", id, j.id)
				}
				count++
			}
		}
		if running := op.controller.RunningJobCount(); running != count {
			report("operation %d: its controller runs %d jobs, its trees %d", id, running, count)
		}
		if !op.stirred && (op.pends != op.hasToStart() || op.isTimed() && !op.timed || op.pends && !op.suspect) {
			report("operation %d: has jobs to start: %v, is watched: %v, may be stuck: %v", id, op.pends, op.timed, op.suspect)
		}
		if state := op.controller.State(); state != operation.Pending && state != operation.Running {
			report("operation %d is listed in state %s", id, state)
		}
		jobs += count
	}
	if jobs != len(c.jobs) {
		report("operations have %d jobs together, %d are known", jobs, len(c.jobs))
	}
	for _, t := range c.trees {
		t.verifyPools(report)
	}
	return errors.Join(found...)
}

// verifyPools checks the core's view of pools: no ephemeral pool is empty,
// members and numbers match the operations and pools in them, and ephemeral
// pools are where they belong.
func (t *tree) verifyPools(report func(format string, args ...any)) {
	members, numbers := map[*pool]int{}, map[*pool]int{}
	for _, p := range t.order {
		members[p.parent]++
	}
	for _, id := range t.core.live {
		at := t.core.operations[id].placeIn(t.id)
		if at == nil {
			continue
		}
		p := t.pools[at.pool]
		if p == nil || t.state.PoolOf(at.slot) != p.slot {
			report("tree %s: operation %d is not in pool %s", t.name, id, at.pool)
			continue
		}
		members[p]++
		numbers[p]++
		if at.number < 1 || at.number > len(p.numbers) || !p.numbers[at.number-1] {
			report("tree %s: operation %d has the number %d in pool %s", t.name, id, at.number, p.name)
		}
		if p.hub && !t.makesSubpools(p.parent) {
			report("tree %s: operation %d is in %s, though %s makes no subpools", t.name, id, p.name, p.parent.name)
		}
	}
	for _, p := range t.order {
		taken := 0
		for _, is := range p.numbers {
			if is {
				taken++
			}
		}
		_, configured := t.config.Pool(p.name)
		switch {
		case t.pools[p.name] != p || p.parent != nil && t.state.PoolOf(p.slot) != p.parent.slot:
			report("tree %s: pool %s is misnamed or misplaced", t.name, p.name)
		case p.ephemeral && p.members == 0, p.members != members[p], taken != numbers[p]:
			report("tree %s: pool %s has %d members and %d numbers, there are %d and %d", t.name, p.name, p.members, taken, members[p], numbers[p])
		case p.parent != nil && p.ephemeral == configured:
			report("tree %s: pool %s is ephemeral: %v, configured: %v", t.name, p.name, p.ephemeral, configured)
		case p.ephemeral && !p.hub && p.parent != t.defaultParent(p.user):
			report("tree %s: pool %s is below %s, not below %s", t.name, p.name, p.parent.name, t.defaultParent(p.user).name)
		}
	}
}
