package scheduling

import (
	"slices"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// StuckReason is why an operation will not make progress in a tree.
type StuckReason uint8

const (
	// NotStuck: nothing prevents the operation's progress.
	NotStuck StuckReason = iota
	// StuckAtLimit: its smallest job is larger than its resource_limits or those
	// of a pool above it.
	StuckAtLimit
	// StuckWithoutProgress: it has starved for a long time, has no job running,
	// and no node had room for one.
	StuckWithoutProgress

	stuckReasonCount
)

var stuckNames = [stuckReasonCount]string{"none", "limiting_ancestor", "no_progress"}

// String returns the name of the reason in outputs.
func (r StuckReason) String() string { return stuckNames[r] }

// Stuck states why an operation will not make progress, with the amounts that
// show it.
type Stuck struct {
	Reason StuckReason
	// Since is when the condition started.
	Since time.Time

	// Element is the operation or the pool with the limit, none otherwise;
	// Resource is the limited resource, Needed how much of it the smallest job
	// needs and Available what the limit allows.
	Element           int32
	Resource          resource.Kind
	Needed, Available int64

	// Attempts is the number of node heartbeats that gave it nothing.
	Attempts uint64
}

// StuckPatience is how long operations may be stuck.
type StuckPatience struct {
	// LimitingAncestor is how long a limit may be smaller than the smallest job;
	// zero disables this check.
	LimitingAncestor time.Duration
	// NoProgress is how long an operation may starve without a job, and Attempts
	// how many heartbeats must have passed meanwhile.
	NoProgress time.Duration
	Attempts   uint64
}

// Stuck checks whether an operation is stuck. Call it periodically: it
// remembers from call to call since when a limit was too small.
func (t *Tree) Stuck(now time.Time, slot int32, p StuckPatience) Stuck {
	e := &t.elements[slot]
	op := e.operation
	if !op.isCandidate() || op.activatedAt.IsZero() {
		op.limitedSince = time.Time{}
		return Stuck{Element: none}
	}
	if s := t.limitingAncestor(slot); s.Reason != NotStuck && p.LimitingAncestor > 0 {
		if op.limitedSince.IsZero() {
			op.limitedSince = now
		}
		s.Since = latest(op.limitedSince, op.activatedAt)
		if now.Sub(s.Since) > p.LimitingAncestor {
			return s
		}
	} else {
		op.limitedSince = time.Time{}
	}
	if e.starvation == NonStarving || op.count > 0 || !t.mayStart(slot) {
		return Stuck{Element: none}
	}
	s := Stuck{
		Reason: StuckWithoutProgress, Element: none, Attempts: t.heartbeats - op.beatsBefore,
		Since: latest(latest(op.activatedAt, op.startedAt), e.rest().starvingSince),
	}
	if now.Sub(s.Since) > p.NoProgress && s.Attempts > p.Attempts {
		return s
	}
	return Stuck{Element: none}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// limitingAncestor finds the lowest element, from an operation up, whose
// specified limits are smaller than what every waiting job needs of a
// resource.
func (t *Tree) limitingAncestor(slot int32) Stuck {
	least := t.elements[slot].operation.leastWaiting()
	for at := slot; ; at = t.elements[at].parent {
		e := &t.elements[at]
		for _, k := range resource.Kinds {
			if limit, ok := e.rest().specified.Get(k); ok && limit < least[k] {
				return Stuck{Reason: StuckAtLimit, Element: at, Resource: k, Needed: least[k], Available: limit}
			}
		}
		if at == 0 {
			return Stuck{Element: none}
		}
	}
}

// leastWaiting returns, for each resource, the least that a waiting job
// needs.
func (o *operationState) leastWaiting() resource.Amounts {
	if o.waiting == 0 {
		return resource.Amounts{}
	}
	least := resource.UnlimitedAmounts()
	for _, g := range o.groups {
		if g.Waiting > 0 {
			least = least.Min(g.Resources)
		}
	}
	return least
}

// mayStart reports whether limits leave room for some waiting job, so that
// only nodes can lack room.
func (t *Tree) mayStart(slot int32) bool {
	for _, g := range t.elements[slot].operation.groups {
		if g.Waiting > 0 && t.withinLimits(slot, g.Resources) == RefusedNothing {
			return true
		}
	}
	return false
}

// Hosts counts the nodes of a tree by whether they could ever run a job,
// assuming they were empty.
type Hosts struct {
	Nodes    int // of the tree
	Excluded int // do not match a filter of the operation or of a pool above
	Small    int // match, and have less than the job needs
	Banned   int // match and are large enough, and the operation avoids them
	Suitable int
	// Largest is the most of every resource that a matching node has.
	Largest resource.Amounts
}

// HostsOf counts nodes that could ever run a job of an operation. If enough
// is not zero, it stops after it has found that many.
func (t *Tree) HostsOf(slot int32, job resource.Amounts, enough int) (h Hosts) {
	op := t.elements[slot].operation
	for i := range t.nodes {
		n := &t.nodes[i]
		if !n.alive {
			continue
		}
		h.Nodes++
		if !op.filter.Matches(n.hasTag) || !t.poolsMatch(slot, n) {
			h.Excluded++
			continue
		}
		h.Largest = h.Largest.Max(n.limits)
		switch {
		case !n.limits.Dominates(job):
			h.Small++
		case op.avoids(n.id):
			h.Banned++
		default:
			h.Suitable++
			if h.Suitable == enough {
				return h
			}
		}
	}
	return h
}

// Ban excludes a node for an operation.
func (t *Tree) Ban(slot int32, at Node) {
	op := t.elements[slot].operation
	if i, found := slices.BinarySearch(op.banned, at); !found {
		t.mark(slot, forBoth)
		op.banned = slices.Insert(op.banned, i, at)
	}
}

// avoids reports whether the operation avoids a node.
func (o *operationState) avoids(at Node) bool {
	if len(o.banned) == 0 {
		return false
	}
	_, found := slices.BinarySearch(o.banned, at)
	return found
}

// unban removes the bans of a removed node, because another node will reuse
// its index.
func (t *Tree) unban(at Node) {
	for slot := range t.elements {
		op := t.elements[slot].operation
		if op == nil || len(op.banned) == 0 {
			continue
		}
		if i, found := slices.BinarySearch(op.banned, at); found {
			t.mark(int32(slot), forBoth)
			op.banned = slices.Delete(op.banned, i, i+1)
		}
	}
}
