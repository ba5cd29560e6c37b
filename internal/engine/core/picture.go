package core

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

// Picture is what a core knew at one moment, for readers: trees, pools,
// operations and nodes. It never changes and shares nothing mutable with the
// core, so any goroutine may read it, for any length of time, while the core
// continues. Pictures of one core share what has not changed between them.
type Picture struct {
	Time time.Time
	// Default is the default tree, -1 if there is none.
	Default TreeID
	// Trees are indexed by number.
	Trees []*Tree

	live       []liveRow        // operations that have not ended, by number
	operations pages[Operation] // by row
	nodes      pages[Node]      // by number
	nodeCount  int
}

// liveRow is the row of an operation in a picture.
type liveRow struct {
	id  OperationID
	row int32
}

// Tree is a pool tree in a picture.
type Tree struct {
	ID   TreeID
	Name string
	// Config is the configuration. It is never modified, only replaced.
	Config *pooltree.Tree
	// Total is the sum of the resources of all nodes.
	Total     resource.Amounts
	NodeCount int
	// Updated is when shares were last computed, and Alerts are the problems
	// found then.
	Updated time.Time
	Alerts  []fairshare.Alert

	pools  pages[Pool] // by slot
	seats  pages[Seat] // by slot
	order  []int32     // slots of pools, parents before children
	byName []int32     // slots of pools, by name
}

// Pool is a pool in a picture. Its tree has its configured and effective
// options: see Tree.Configured and Tree.Effective.
type Pool struct {
	Name string
	// Slot is its number in the tree; the root's is zero. Numbers of removed
	// pools are reused. Parent is the number of the pool above it, -1 for the
	// root.
	Slot, Parent int32
	Ephemeral    bool
	// User is the user whose operation created an ephemeral pool. Named reports
	// that the operation named the pool; other ephemeral pools were made by
	// create_ephemeral_subpools.
	User  string
	Named bool
	// DirectOperations and ChildPools count those directly in it, and
	// SchedulableOperations all operations below it that may get jobs.
	DirectOperations, ChildPools, SchedulableOperations int32
	scheduling.PoolDetails
	scheduling.JobCounts // of all operations below it
}

// Operation is an operation in a picture: one that has not ended.
type Operation struct {
	ID        OperationID
	User      string
	State     operation.State
	Suspended bool
	Started   time.Time
	// Spec is the specification as of the picture. It is never modified.
	Spec       *operation.Spec
	Statistics operation.Statistics

	seats []seatAt
}

// seatAt is the tree and the slot of an operation's seat.
type seatAt struct {
	tree TreeID
	slot int32
}

// Seat is an operation in one of its trees.
type Seat struct {
	Operation OperationID
	Tree      TreeID
	// Pool is the pool it is in, and Parent the number of that pool.
	Pool   string
	Parent int32
	// Index is the smallest number that no other operation of the pool had when
	// it was added.
	Index int
	// Options are its effective options in the tree, with changes at run time.
	Options pooltree.SchedulingOptions
	// WaitsFor is the pool whose limit keeps it from running, empty if it runs.
	WaitsFor string
	// WaitTimeout is how long its jobs wait on a node for preempted jobs to end.
	WaitTimeout time.Duration
	// Groups are its waiting jobs by task.
	Groups []scheduling.Group
	scheduling.OperationDetails
}

// Node is a node in a picture.
type Node struct {
	ID   NodeID
	Name string
	Tags []string
	// Tree is -1 if it belongs to no tree or is not online.
	Tree TreeID
	// Online is false for nodes that went offline after a silence.
	Online bool
	// Resources are what it reported; the remaining fields are empty for nodes
	// without a tree.
	Resources resource.Amounts
	scheduling.NodeDetails
}

// Tree returns a tree by name.
func (p *Picture) Tree(name string) (*Tree, bool) {
	i := slices.IndexFunc(p.Trees, func(t *Tree) bool { return t.Name == name })
	if i < 0 {
		return nil, false
	}
	return p.Trees[i], true
}

// OperationCount returns the number of operations that have not ended.
func (p *Picture) OperationCount() int { return len(p.live) }

// Operations yields the operations that have not ended, ordered by number.
func (p *Picture) Operations() iter.Seq[*Operation] {
	return func(yield func(*Operation) bool) {
		for _, at := range p.live {
			if !yield(p.operations.at(at.row)) {
				return
			}
		}
	}
}

// Operation returns an operation that has not ended.
func (p *Picture) Operation(id OperationID) (*Operation, bool) {
	row, there := p.rowOf(id)
	if !there {
		return nil, false
	}
	return p.operations.at(row), true
}

func (p *Picture) rowOf(id OperationID) (row int32, there bool) {
	i, there := slices.BinarySearchFunc(p.live, id, func(at liveRow, id OperationID) int { return cmp.Compare(at.id, id) })
	if !there {
		return none, false
	}
	return p.live[i].row, true
}

// Seats yields an operation's seats in all of its trees.
func (p *Picture) Seats(o *Operation) iter.Seq[*Seat] {
	return func(yield func(*Seat) bool) {
		for _, at := range o.seats {
			if !yield(p.Trees[at.tree].seats.at(at.slot)) {
				return
			}
		}
	}
}

// Seat returns an operation's seat in one tree, nil if it has none there.
func (p *Picture) Seat(o *Operation, tree TreeID) *Seat {
	for _, at := range o.seats {
		if at.tree == tree {
			return p.Trees[tree].seats.at(at.slot)
		}
	}
	return nil
}

// Reseated yields operations that have a seat in one of two pictures of a core
// that is not the same in the other: operations that came, went or changed. It
// may yield an operation more than once. Its cost follows what changed between
// the two.
func (p *Picture) Reseated(before *Picture) iter.Seq[OperationID] {
	return func(yield func(OperationID) bool) {
		for i, tree := range p.Trees {
			old := pages[Seat]{}
			if i < len(before.Trees) {
				old = before.Trees[i].seats
			}
			for was, is := range tree.seats.differences(old) {
				if was != nil && !yield(was.Operation) {
					return
				}
				if is != nil && (was == nil || was.Operation != is.Operation) && !yield(is.Operation) {
					return
				}
			}
		}
	}
}

// NodeCount returns the number of nodes, offline ones included.
func (p *Picture) NodeCount() int { return p.nodeCount }

// Nodes yields the nodes, ordered by number.
func (p *Picture) Nodes() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for _, page := range p.nodes.list {
			for i := range page {
				if page[i] != nil && !yield(page[i]) {
					return
				}
			}
		}
	}
}

// PoolCount returns the number of pools, the root included.
func (t *Tree) PoolCount() int { return len(t.order) }

// Slots returns a bound that is larger than the number of every pool.
func (t *Tree) Slots() int { return len(t.pools.list) * pageSize }

// Pools yields the pools, the root first and parents before their children.
func (t *Tree) Pools() iter.Seq[*Pool] {
	return func(yield func(*Pool) bool) {
		for _, slot := range t.order {
			if !yield(t.pools.at(slot)) {
				return
			}
		}
	}
}

// HasPoolsOf reports whether nothing but figures of pools can differ from another picture
// of the tree: it has the same pools in the same order, each below the same pool.
func (t *Tree) HasPoolsOf(other *Tree) bool {
	return len(t.order) == len(other.order) && (len(t.order) == 0 || &t.order[0] == &other.order[0])
}

// PoolAt returns the pool at a position in the order of Pools.
func (t *Tree) PoolAt(i int) *Pool { return t.pools.at(t.order[i]) }

// Root returns the root.
func (t *Tree) Root() *Pool { return t.pools.at(0) }

// Pool returns a pool by name.
func (t *Tree) Pool(name string) (*Pool, bool) {
	i, there := slices.BinarySearchFunc(t.byName, name, func(slot int32, name string) int {
		return strings.Compare(t.pools.at(slot).Name, name)
	})
	if !there {
		return nil, false
	}
	return t.pools.at(t.byName[i]), true
}

// PoolIn returns the pool with a number, or nil.
func (t *Tree) PoolIn(slot int32) *Pool { return t.pools.at(slot) }

// Path returns the names of the pools from below the root down to a pool,
// separated by slashes.
func (t *Tree) Path(p *Pool) string {
	if p.Parent == none {
		return ""
	}
	path := p.Name
	for above := t.pools.at(p.Parent); above.Parent != none; above = t.pools.at(above.Parent) {
		path = above.Name + "/" + path
	}
	return path
}

// Configured returns the configuration of a pool; the root and ephemeral pools
// have none.
func (t *Tree) Configured(p *Pool) (*pooltree.Pool, bool) {
	if p.Parent == none {
		return nil, false
	}
	return t.Config.Pool(p.Name)
}

// Effective returns the effective options of a pool, after inheritance.
func (t *Tree) Effective(p *Pool) pooltree.Effective {
	if p.Parent == none {
		return t.Config.Root().Effective()
	}
	if configured, ok := t.Config.Pool(p.Name); ok {
		return configured.Effective()
	}
	parent := t.pools.at(p.Parent)
	_, effective := ephemeralOptions(t.Config, parent.Name, t.inherited(parent))
	return effective
}

// inherited returns the options that a pool passes on: an ephemeral pool has
// those of its parent.
func (t *Tree) inherited(p *Pool) pooltree.Effective {
	for ; p.Parent != none; p = t.pools.at(p.Parent) {
		if configured, ok := t.Config.Pool(p.Name); ok {
			return configured.Effective()
		}
	}
	return t.Config.Root().Effective()
}

// LowestStarving returns the name of the lowest pool, from the given one up,
// whose starvation is at least least; empty if there is none.
func (t *Tree) LowestStarving(slot int32, least scheduling.Starvation) string {
	for p := t.pools.at(slot); p.Parent != none; p = t.pools.at(p.Parent) {
		if p.Starvation >= least {
			return p.Name
		}
	}
	return ""
}

// LowestStarvingAbove returns the name of the lowest pool above an operation
// whose starvation is at least least; empty if there is none or the operation
// itself starves that much.
func (t *Tree) LowestStarvingAbove(s *Seat, least scheduling.Starvation) string {
	if s.Starvation >= least {
		return ""
	}
	return t.LowestStarving(s.Parent, least)
}

// Priority returns the worst starvation of an operation and of the pools
// above it.
func (t *Tree) Priority(s *Seat) scheduling.Starvation {
	worst := s.Starvation
	for p := t.pools.at(s.Parent); p.Parent != none; p = t.pools.at(p.Parent) {
		worst = max(worst, p.Starvation)
	}
	return worst
}
