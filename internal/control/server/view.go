package server

import (
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/value/resource"
)

// View is what the last update computed. It is immutable.
type View struct {
	At time.Time
	// Revision is that of the store which a standby has read.
	Revision int64
	Epoch    uint64
	// Reviving says that the leader waits for nodes of its predecessor.
	Reviving bool
	Trees    []TreeView
	// snapshot is everything that the core knew then; nil if nobody had asked for it
	// lately.
	snapshot *core.Snapshot
}

// TreeView is a tree with its pools and operations as of an update.
type TreeView struct {
	Name  string
	Total resource.Amounts
	// Pools has parents before their children; Parent is an index in it. The
	// first one is the root.
	Pools      []core.PoolView
	Operations []core.OperationView
	pools      map[string]int
	operations map[core.OperationID]int
}

// Pool returns a pool of the tree.
func (v *TreeView) Pool(name string) (*core.PoolView, bool) {
	i, there := v.pools[name]
	if !there {
		return nil, false
	}
	return &v.Pools[i], true
}

// Operation returns an operation in the tree.
func (v *TreeView) Operation(id core.OperationID) (*core.OperationView, bool) {
	i, there := v.operations[id]
	if !there {
		return nil, false
	}
	return &v.Operations[i], true
}

// Tree returns a tree by its name.
func (v *View) Tree(name string) (*TreeView, bool) {
	for i := range v.Trees {
		if v.Trees[i].Name == name {
			return &v.Trees[i], true
		}
	}
	return nil, false
}

// View returns what the last update computed.
func (s *Server) View() *View { return s.view.Load() }

// show publishes the state of pools and operations for readers.
func (t *term) show() {
	t.pools = t.core.Pools(t.pools[:0])
	t.views = t.core.Operations(t.views[:0])
	v := &View{At: t.now, Epoch: t.epoch, Reviving: t.reviving, Trees: make([]TreeView, len(t.slots.names))}
	pools, operations := make([]int, len(v.Trees)), make([]int, len(v.Trees))
	for i := range t.pools {
		pools[t.pools[i].Tree]++
	}
	for i := range t.views {
		operations[t.views[i].Tree]++
	}
	for i, name := range t.slots.names {
		v.Trees[i] = TreeView{
			Name: name, Total: t.core.TreeTotal(core.TreeID(i)),
			Pools: make([]core.PoolView, 0, pools[i]), pools: make(map[string]int, pools[i]),
			Operations: make([]core.OperationView, 0, operations[i]), operations: make(map[core.OperationID]int, operations[i]),
		}
	}
	for i := range t.pools {
		tree := &v.Trees[t.pools[i].Tree]
		p := t.pools[i]
		if p.Parent >= 0 {
			p.Parent = int32(tree.pools[t.pools[p.Parent].Name])
		}
		tree.pools[p.Name] = len(tree.Pools)
		tree.Pools = append(tree.Pools, p)
	}
	for i := range t.views {
		tree := &v.Trees[t.views[i].Tree]
		tree.operations[t.views[i].Operation] = len(tree.Operations)
		tree.Operations = append(tree.Operations, t.views[i])
	}
	// The place of a removed tree stays in the core.
	v.Trees = slices.DeleteFunc(v.Trees, func(tree TreeView) bool {
		_, there := t.trees.Find(tree.Name)
		return !there
	})
	if t.server.snapshotWanted() {
		v.snapshot = t.core.Snapshot(t.now)
	}
	t.server.view.Store(v)
}
