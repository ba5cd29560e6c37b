package why

import (
	"fmt"
	"strings"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

// Text returns a blocker in words, without its times. name returns what users call an operation.
func (b *Blocker) Text(name func(core.OperationID) string) string {
	owner := "the operation"
	if b.Pool != "" {
		owner = "pool " + b.Pool
	}
	amount := func(v int64) string { return resource.FormatAmount(b.Resource, v) }
	switch b.Code {
	case SchedulerReviving:
		return "a new leader waits for nodes of the last one" + named(b.Names, b.Nodes)
	case SchedulerOverloaded:
		return fmt.Sprintf("the scheduler is overloaded: %d requests wait", b.Waiting)
	case StoreUnavailable:
		return "the store does not answer, so no job may start"
	case JobLargerThanLimit:
		return fmt.Sprintf("%s may use %s %s (%s), and a job needs %s: it can never start", owner, amount(b.Limit), b.Resource, b.option(), amount(b.Need))
	case JobLargerThanAnyNode:
		if b.Short == 0 {
			return "no node that it may use has all resources that a job needs, even if empty"
		}
		return fmt.Sprintf("a job needs %s %s, and the largest node that it may use has %s: it can never start", amount(b.Need), b.Resource, amount(b.Limit))
	case NoNodeMatches:
		return fmt.Sprintf("filters exclude all %s of the tree", count(b.Nodes, "node", "nodes"))
	case TreeWithoutNodes:
		return "the tree has no nodes"
	case OperationNotRunning:
		return "the operation is " + b.Detail
	case OperationSuspended:
		return "the operation is suspended"
	case OperationFailing:
		return "the operation is failing and waits for its running jobs"
	case OperationBacksOff:
		return "nodes could not start its jobs, so it waits before it tries again"
	case NoWaitingJobs:
		return "no job waits: all run or are done"
	case CountLimit:
		return fmt.Sprintf("%s runs %d of at most %s (max_running_operation_count); %s in front", owner, b.Running,
			count(b.Most, "operation", "operations"), count(b.Ahead, "waits", "wait")) + b.held(name, false)
	case Limit:
		return fmt.Sprintf("%s may use %s %s (%s); %s in use, a job needs %s: %s short", owner, amount(b.Limit), b.Resource, b.option(),
			amount(b.Used), amount(b.Need), amount(b.Short)) + b.held(name, true)
	case AboveShareGraceful:
		return "it is preempted gracefully and has its fair share, so it gets no more"
	case NodeResources:
		return b.nodesText(amount) + b.held(name, true)
	case NodeFilter:
		return fmt.Sprintf("the filter of %s excludes %s", owner, count(b.Nodes, "node", "nodes")) + named(b.Names, b.Nodes)
	case NodeBan:
		return fmt.Sprintf("it avoids %s where its jobs failed", count(b.Nodes, "node", "nodes")) + named(b.Names, b.Nodes)
	case NodeConstraints:
		return fmt.Sprintf("%s not meet the constraints of the job", count(b.Nodes, "node does", "nodes do")) + named(b.Names, b.Nodes)
	case NodeGated:
		var list []string
		for code, n := range b.Gates {
			if n > 0 {
				list = append(list, fmt.Sprintf("%d %s", n, strings.ReplaceAll(NodeGateCode(code).String(), "_", " ")))
			}
		}
		return fmt.Sprintf("%s no jobs: %s", count(b.Nodes, "node gets", "nodes get"), strings.Join(list, ", ")) + named(b.Names, b.Nodes)
	case Packing:
		return fmt.Sprintf("%s room, but other nodes suited its jobs better lately (packing)", count(b.Nodes, "node has", "nodes have"))
	case Gang:
		return b.gangText(name)
	}
	return b.turnText(name)
}

func (b *Blocker) gangText(name func(core.OperationID) string) string {
	g := &b.Gang
	text := fmt.Sprintf("it is a gang: %d jobs start together or none", g.Lack)
	switch {
	case g.Waiting < g.Lack:
		return text + fmt.Sprintf("; only %s", count(int(g.Waiting), "waits", "wait"))
	case !b.Until.IsZero():
		return text + "; they did not all find room in time, so it steps aside"
	case g.Assembling:
		return text + fmt.Sprintf("; room is kept for %d, and it waits for the rest", g.Kept)
	case g.Fitting < g.Lack:
		return text + fmt.Sprintf("; there is room for %d at most", g.Fitting)
	case g.Ahead != core.NoOperation:
		return text + "; gangs find room one after another, and now it is the turn of " + name(g.Ahead)
	}
	return text + "; its turn has not come yet"
}

// option returns the name of the option that sets the limit.
func (b *Blocker) option() string {
	if b.Option == scheduling.ByTagFilter {
		return "all that matches its scheduling_tag_filter"
	}
	return b.Option.String()
}

func (b *Blocker) nodesText(amount func(int64) string) string {
	text := fmt.Sprintf("no node has room: %s %s", count(b.Nodes, "lacks", "lack"), b.Resource)
	needs := "a job needs " + amount(b.Need)
	if b.Spare {
		needs = "a node takes jobs only while it has " + amount(b.Need) + " free (min_spare_allocation_resources_on_node)"
	}
	if b.Free > 0 {
		text += fmt.Sprintf("; %s, the most that is free on one is %s", needs, amount(b.Free))
	} else {
		text += fmt.Sprintf("; %s, none is free", needs)
	}
	if b.Fragmented {
		text += "; together they have enough (fragmentation)"
	}
	if b.TooSmall > 0 {
		text += fmt.Sprintf("; %s too small even when empty", count(b.TooSmall, "is", "are"))
	}
	return text
}

func (b *Blocker) turnText(name func(core.OperationID) string) string {
	if len(b.Rivals) == 0 {
		return "other jobs are served first"
	}
	var list []string
	for _, r := range b.Rivals {
		who := name(r.Operation)
		if b.Code == TurnSatisfaction {
			who += fmt.Sprintf(" (satisfaction %.2f)", min(r.Satisfaction, 999))
		}
		list = append(list, who)
	}
	if b.OtherRivals > 0 {
		list = append(list, count(b.OtherRivals, "other", "others"))
	}
	text := "others are served first and take the room: " + strings.Join(list, ", ")
	if b.Code == TurnFIFO {
		return text + "; its pool serves operations in order (fifo)"
	}
	return text + fmt.Sprintf("; its own satisfaction is %.2f", min(b.Own, 999))
}

// held names the holders.
func (b *Blocker) held(name func(core.OperationID) string, amounts bool) string {
	if len(b.Holders) == 0 {
		return ""
	}
	var list []string
	for _, h := range b.Holders {
		text := name(h.Operation)
		if amounts {
			text += " " + resource.FormatAmount(b.Resource, h.Amount)
		}
		list = append(list, text)
	}
	if b.Others > 0 {
		list = append(list, count(b.Others, "other", "others"))
	}
	return ". Held: " + strings.Join(list, ", ")
}

// named lists the first nodes of a number.
func named(names []string, of int) string {
	if len(names) == 0 {
		return ""
	}
	text := " (" + strings.Join(names, ", ")
	if of > len(names) {
		text += ", …"
	}
	return text + ")"
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
