package core

import (
	"errors"
	"fmt"

	"github.com/weirhq/weir/internal/operation"
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
		if state := op.controller.State(); state != operation.Pending && state != operation.Running {
			report("operation %d is listed in state %s", id, state)
		}
		jobs += count
	}
	if jobs != len(c.jobs) {
		report("operations have %d jobs together, %d are known", jobs, len(c.jobs))
	}
	for _, t := range c.trees {
		for name, p := range t.pools { // the order does not matter: every finding is reported
			if p.name != name || p.ephemeral && p.members == 0 {
				report("tree %s: pool %s is empty or misnamed", t.name, name)
			}
		}
	}
	return errors.Join(found...)
}
