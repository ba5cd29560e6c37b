package operation

import "github.com/weirhq/weir/internal/value/resource"

// Gang is what the jobs of an operation need together.
type Gang struct {
	// Lack is how many waiting jobs must start together; zero if jobs start one by one.
	Lack int
	// Whole reports that the operation loses all running jobs if it loses one.
	Whole bool
}

// Gang returns what jobs need together; ok is false if the operation is not a gang. With
// is_gang all jobs start together. While some run, others start one by one: only a job
// that never reached its node is missing then. A gang of an external operation has a
// minimum; jobs beyond it start one by one, as do replacements.
func (c *Controller) Gang() (g Gang, ok bool) {
	if c.spec.IsExternal() {
		return c.externalGang()
	}
	if !c.spec.IsGang.Value() {
		return Gang{}, false
	}
	g.Whole = true
	if c.running == 0 {
		g.Lack = c.pending
	}
	return g, true
}

// Largest returns what the largest waiting job of a group needs: with this much room for
// each, all jobs of the group can start.
func (c *Controller) Largest(group int) resource.Amounts {
	t := &c.tasks[group]
	most := c.groups[group].Resources
	if t.raised.size > 0 {
		for cookie := range t.memory.retries { // the largest does not depend on the order
			if t.isPending(cookie) {
				most = most.Max(t.resources(cookie))
			}
		}
	}
	return most
}
