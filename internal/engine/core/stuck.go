package core

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Error codes of stuck operations, as YTsaurus clients know them.
const (
	// CodeNoOnlineNode is NoOnlineNodeToScheduleAllocation.
	CodeNoOnlineNode operation.ErrorCode = 4410
)

// StuckReason is why an operation cannot make progress in one of its trees.
type StuckReason uint8

const (
	// StuckAtLimit: its smallest job is larger than the resource_limits of the
	// operation or of a pool above it.
	StuckAtLimit StuckReason = iota
	// StuckWithoutProgress: it has starved for a long time without a job.
	StuckWithoutProgress
	// StuckWithoutNode: no node could run a job of a task, even if it were
	// empty.
	StuckWithoutNode
	// StuckOnBannedNodes: all nodes that could run its jobs are banned.
	StuckOnBannedNodes

	stuckReasonCount
)

var stuckNames = [stuckReasonCount]string{"limiting_ancestor", "no_progress", "no_online_node", "all_nodes_banned"}

// String returns the name of the reason in outputs.
func (r StuckReason) String() string { return stuckNames[r] }

// Stuck states why an operation cannot make progress in one of its trees,
// with the amounts that show it.
type Stuck struct {
	Tree   string
	Reason StuckReason
	// Since is when the condition started, Attempts the number of heartbeats
	// since then that gave it nothing.
	Since    time.Time
	Attempts uint64
	// Pool is the pool with the limit, empty if it is the operation's own;
	// Resource is the scarce resource, Needed how much of it a job needs, and
	// Available what the limit allows or the largest node has.
	Pool              string
	Resource          resource.Kind
	Needed, Available int64
	// Task is the task whose jobs find no node; Hosts counts the nodes by
	// problem.
	Task  string
	Hosts scheduling.Hosts
}

// String describes it for users.
func (s *Stuck) String() string {
	var text string
	switch s.Reason {
	case StuckAtLimit:
		whose := "the operation's own resource_limits allow"
		if s.Pool != "" {
			whose = "resource_limits of pool " + s.Pool + " allow"
		}
		text = fmt.Sprintf("the smallest job needs %v %s, %s %s", s.Resource, s.amount(s.Needed), whose, s.amount(s.Available))
	case StuckWithoutProgress:
		text = fmt.Sprintf("no job has started since %s, while the operation starved and %d heartbeats of nodes had no room for it",
			s.Since.UTC().Format(time.RFC3339), s.Attempts)
	case StuckWithoutNode:
		text = fmt.Sprintf("task %s: %d of %d nodes do not match the filter, %d are too small", s.Task, s.Hosts.Excluded, s.Hosts.Nodes, s.Hosts.Small)
		if s.Hosts.Small > 0 {
			text += fmt.Sprintf(" (a job needs %v %s, the largest has %s)", s.Resource, s.amount(s.Needed), s.amount(s.Available))
		}
	case StuckOnBannedNodes:
		text = fmt.Sprintf("task %s: %d nodes are banned after failed jobs, %d do not match the filter, %d are too small",
			s.Task, s.Hosts.Banned, s.Hosts.Excluded, s.Hosts.Small)
	}
	return "tree " + s.Tree + ": " + text
}

func (s *Stuck) amount(v int64) string { return resource.FormatAmount(s.Resource, v) }

// failStuck fails an operation that cannot make progress in any of its trees.
func (c *Core) failStuck(now time.Time, op *running, code operation.ErrorCode, message string, stuck []Stuck, out *Decisions) {
	why := operation.Error{Code: code, Message: message}
	for i := range stuck {
		why.Inner = append(why.Inner, operation.Error{Code: code, Message: stuck[i].String()})
	}
	why.Message += ": " + why.Inner[0].Message
	effects, err := op.controller.Fail(why, now)
	if err != nil {
		return // it has already ended for another reason
	}
	at := len(out.Operations)
	c.carryOut(now, op, effects, out)
	if at < len(out.Operations) {
		out.Operations[at].Stuck = stuck
	}
}

// isDue reports whether a periodic check is due now, and records the time if
// it is.
func isDue(now time.Time, last *time.Time, period time.Duration) bool {
	if period <= 0 || !last.IsZero() && now.Sub(*last) < period {
		return false
	}
	*last = now
	return true
}

// eachSuspect calls a function for every operation that may be stuck, which the
// function may end. An external operation is never stuck: the node for its jobs may be
// yet to come.
func (c *Core) eachSuspect(visit func(*running)) {
	c.settleStirred()
	c.each(c.suspects, func(op *running) {
		if !op.controller.Spec().IsExternal() {
			visit(op)
		}
	})
}

// each calls a function for every operation of a list that has not ended, which the
// function may end.
func (c *Core) each(list []OperationID, visit func(*running)) {
	for _, id := range slices.Clone(list) {
		if op := c.operationAt(id); op != nil {
			visit(op)
		}
	}
}

// checkProgress fails operations that are stuck in all of their trees.
func (c *Core) checkProgress(now time.Time, out *Decisions) {
	if !isDue(now, &c.stuckChecked, c.settings.StuckCheckPeriod) {
		return
	}
	c.eachSuspect(func(op *running) {
		if op.controller.Spec().IsExternal() {
			return
		}
		var stuck []Stuck
		for i := range op.places { // all of them, because a tree remembers what it has seen
			if s, is := c.stuckIn(now, op, &op.places[i]); is {
				stuck = append(stuck, s)
			}
		}
		if len(stuck) == len(op.places) {
			c.failStuck(now, op, operation.CodeGeneric, "operation is stuck", stuck, out)
		}
	})
	c.suspects = slices.DeleteFunc(c.suspects, func(id OperationID) bool {
		op := c.operations[id]
		op.suspect = op.pends
		return !op.suspect
	})
}

// stuckIn judges an operation in one tree.
func (c *Core) stuckIn(now time.Time, op *running, at *place) (Stuck, bool) {
	t := c.trees[at.tree]
	patience := c.settings.Stuck
	if !t.config.Settings().LimitingAncestorCheck.Or(true) || !op.controller.Spec().LimitingAncestorCheck.Or(true) {
		patience.LimitingAncestor = 0
	}
	found := t.state.Stuck(now, at.slot, patience)
	s := Stuck{
		Tree: t.name, Since: found.Since, Attempts: found.Attempts,
		Resource: found.Resource, Needed: found.Needed, Available: found.Available,
	}
	switch found.Reason {
	case scheduling.StuckAtLimit:
		s.Reason = StuckAtLimit
		if found.Element != at.slot {
			s.Pool = t.state.PoolName(found.Element)
		}
	case scheduling.StuckWithoutProgress:
		s.Reason = StuckWithoutProgress
	default:
		return Stuck{}, false
	}
	return s, true
}

// checkHosts fails operations whose jobs no node can run: none matches and is
// large enough, or all such nodes are banned. A job for which there once was
// a node may wait for it to come back.
func (c *Core) checkHosts(now time.Time, out *Decisions) {
	delay := c.settings.SanityCheckDelay
	if !isDue(now, &c.nodesChecked, c.settings.NodeCheckPeriod) {
		return
	}
	c.eachSuspect(func(op *running) {
		if !op.started || op.controller.Blocked() != operation.NotBlocked || op.controller.Spec().IsExternal() { // its node may be yet to come
			return
		}
		patient := now.Sub(c.begun) < delay || now.Sub(op.controller.StartTime()) < delay
		groups := op.controller.Groups()
		op.hosted = append(op.hosted, make([]resource.Amounts, len(groups)-len(op.hosted))...)
		for task := range groups {
			if groups[task].Pending == 0 {
				continue
			}
			stuck, reason := c.homeless(op, task, groups[task].Resources)
			switch {
			case stuck == nil:
			case reason == StuckOnBannedNodes && op.controller.Spec().FailOnAllNodesBanned.Or(true):
				c.failStuck(now, op, operation.CodeGeneric, "all nodes that could run a job are banned", stuck, out)
				return
			case reason == StuckWithoutNode && !patient:
				c.failStuck(now, op, CodeNoOnlineNode, "no online node can satisfy the resource demand of task "+stuck[0].Task, stuck, out)
				return
			}
		}
	})
}

// homeless searches all trees of the operation for a node that could run a
// job of a task. If there is none, it returns what is wrong with the nodes of
// each tree.
func (c *Core) homeless(op *running, task int, job resource.Amounts) (stuck []Stuck, reason StuckReason) {
	known := op.hosted[task].Dominates(job)
	if known && op.controller.BannedNodeCount() == 0 {
		return nil, 0
	}
	nodes, banned := 0, 0
	for i := range op.places {
		t := c.trees[op.places[i].tree]
		hosts := t.state.HostsOf(op.places[i].slot, job, 1)
		if hosts.Suitable > 0 {
			op.hosted[task] = job
			return nil, 0
		}
		nodes, banned = nodes+hosts.Nodes, banned+hosts.Banned
		s := Stuck{Tree: t.name, Reason: StuckWithoutNode, Hosts: hosts, Task: op.controller.Spec().Tasks[task].Name}
		for _, k := range resource.Kinds {
			if hosts.Largest[k] < job[k] {
				s.Resource, s.Needed, s.Available = k, job[k], hosts.Largest[k]
				break
			}
		}
		if hosts.Banned > 0 {
			s.Reason = StuckOnBannedNodes
		}
		stuck = append(stuck, s)
	}
	switch {
	case banned > 0:
		return stuck, StuckOnBannedNodes
	case nodes == 0, known: // nodes will register, or come back
		return nil, 0
	}
	return stuck, StuckWithoutNode
}

// ban excludes a node for an operation in all of its trees.
func (c *Core) ban(op *running, name string) {
	for _, n := range c.nodes {
		if n != nil && n.name == name {
			c.banOn(op, n)
		}
	}
}

// banOn excludes a node for an operation, if the operation is in the node's
// tree.
func (c *Core) banOn(op *running, n *node) {
	if n.tree == none {
		return
	}
	for i := range op.places {
		if op.places[i].tree == n.tree {
			c.trees[n.tree].state.Ban(op.places[i].slot, n.at)
		}
	}
}

// renewBans restores the bans of operations on a node that has joined a tree.
// Bans are by node name.
func (c *Core) renewBans(n *node) {
	for _, id := range c.live {
		if op := c.operations[id]; op.controller.BannedNodeCount() > 0 && op.controller.Bans(n.name) {
			c.banOn(op, n)
		}
	}
}

// describeTrees joins names for a message.
func describeTrees(names []string) string {
	return document.Shorten(strings.Join(names, ", "))
}
