package why

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Text returns what to do, in words. name returns what users call an operation.
func (f *Fix) Text(name func(core.OperationID) string) string {
	list := make([]string, len(f.Changes))
	for i := range f.Changes {
		list[i] = f.Changes[i].Text(name)
	}
	return strings.Join(list, ", and ")
}

// Text returns a change in words. name returns what users call an operation.
func (c *Change) Text(name func(core.OperationID) string) string {
	switch c.Knob {
	case KnobResume:
		return "resume the operation"
	case KnobPool:
		return "move it to pool " + c.Pool
	case KnobTree:
		return "start it again in tree " + c.Tree
	case KnobFilter:
		return fmt.Sprintf("drop the scheduling_tag_filter of %s (%s)", c.owner(), c.value(c.From, c.FromAmount))
	case KnobNeed:
		return fmt.Sprintf("start it again with %s %s (was %s) in task %s", c.Option, c.value(c.To, c.ToAmount), c.value(c.From, c.FromAmount), c.Task)
	case KnobSuspend:
		if c.Running {
			return fmt.Sprintf("suspend %s and abort its running jobs", name(c.Operation))
		}
		return "suspend " + name(c.Operation)
	case KnobAbort:
		return "abort " + name(c.Operation)
	case KnobReleaseNode:
		state, _ := c.From.Text()
		return fmt.Sprintf("let node %s get jobs again (now %s)", c.Node, strings.ReplaceAll(state, "_", " "))
	case KnobNodes:
		if c.Node != "" {
			return fmt.Sprintf("add %s like %s", count(c.Count, "node", "nodes"), c.Node)
		}
		return fmt.Sprintf("add %s with %v", count(c.Count, "node", "nodes"), c.Resources)
	case KnobWait:
		return c.waitText(name)
	}
	return fmt.Sprintf("set %s of %s to %s (was %s)", c.Option, c.owner(), c.value(c.To, c.ToAmount), c.value(c.From, c.FromAmount))
}

func (c *Change) owner() string {
	switch c.Pool {
	case "":
		return "the operation"
	case core.RootName:
		return "tree " + c.Tree
	}
	return "pool " + c.Pool
}

func (c *Change) value(v document.Value, amount int64) string {
	if c.HasResource {
		return resource.FormatExact(c.Resource, amount)
	}
	if text, ok := v.Text(); ok {
		return text
	}
	return v.String()
}

func (c *Change) waitText(name func(core.OperationID) string) string {
	switch {
	case len(c.Jobs) > 0:
		var names []string
		for _, j := range c.Jobs {
			if n := name(j.Operation); !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
		if len(names) > most {
			names = append(names[:most], count(len(names)-most, "other", "others"))
		}
		where := ""
		if c.Node != "" {
			where = " on " + c.Node
		}
		return fmt.Sprintf("wait until %s of %s%s", count(len(c.Jobs), "job", "jobs"), strings.Join(names, ", "), where) + ends(len(c.Jobs))
	case c.Operation != core.NoOperation:
		return "wait until " + name(c.Operation) + " ends"
	}
	return "wait: it tries again by itself"
}

func ends(n int) string {
	if n == 1 {
		return " ends"
	}
	return " end"
}

// Effect returns what a fix does in the round, in words.
func (f *Fix) Effect(name func(core.OperationID) string) string {
	text := fmt.Sprintf("%s at once, the first on %s", count(f.Starts, "job starts", "jobs start"), f.Node)
	if !f.First.IsZero() {
		text = count(f.Starts, "job starts", "jobs start") + " in time"
	}
	if f.Who == Nobody {
		text = fmt.Sprintf("then %s, the first on %s", count(f.Starts, "job starts", "jobs start"), f.Node)
	}
	h := &f.Harm
	if h.Stopped == 0 {
		if f.First.IsZero() {
			text += "; nobody is preempted"
		}
	} else {
		text += fmt.Sprintf("; %s (%.4g core·s lost)", count(h.Stopped, "running job of others ends early", "running jobs of others end early"), h.LostSeconds())
	}
	if h.OwnStopped > 0 {
		text += fmt.Sprintf("; %s (%.4g core·s lost)", count(h.OwnStopped, "of its own running jobs ends early", "of its own running jobs end early"), h.OwnLostSeconds())
	}
	for _, b := range h.Broken {
		text += fmt.Sprintf("; the guarantee of pool %s lacks %s %s", b.Pool, resource.FormatAmount(b.Resource, b.Short), b.Resource)
	}
	if len(h.Delayed) > 0 {
		list := make([]string, 0, most)
		for _, id := range h.Delayed[:min(len(h.Delayed), most)] {
			list = append(list, name(id))
		}
		if more := len(h.Delayed) - most; more > 0 {
			list = append(list, count(more, "other", "others"))
		}
		text += "; fewer jobs start of " + strings.Join(list, ", ")
	}
	return text
}
