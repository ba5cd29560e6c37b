package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/nodefilter"
)

// Pool trees must not share nodes. A filter that would put a known node into two trees
// is stored, because the administrator may change the other tree next, but the tree keeps
// the filter that it had. Its row has that filter, so that the next leader uses it too.

// noNodes is the filter of a tree that never had one in force.
var noNodes = mustFilter("%false")

func mustFilter(text string) nodefilter.Filter {
	f, err := nodefilter.Parse(text)
	if err != nil {
		panic(err)
	}
	return f
}

// stored returns the filter of the tree's configuration.
func (t *TreeConfig) stored() nodefilter.Filter { return t.Tree.Settings().NodesFilter.Value() }

// HeldFilter returns the filter in force if it is not the stored one.
func (t *TreeConfig) HeldFilter() (nodefilter.Filter, bool) {
	if t.inForce == nil {
		return nodefilter.Filter{}, false
	}
	return *t.inForce, true
}

// inCore returns the tree as the core uses it: with the filter in force.
func (t *TreeConfig) inCore() *pooltree.Tree {
	if t.inForce == nil {
		return t.Tree
	}
	held, _, err := t.Tree.With(pooltree.SetTreeOption{Option: "nodes_filter", Value: document.Text(t.inForce.String()), KeepUnknown: true})
	if err != nil {
		panic(fmt.Sprintf("a node filter makes a valid pool tree invalid: %v", err))
	}
	return held
}

// holdsFilters reports whether a tree has another filter than the stored one.
func (t *Trees) holdsFilters() bool {
	return slices.ContainsFunc(t.List, func(tree TreeConfig) bool { return tree.inForce != nil })
}

// withFilters returns a configuration in which each tree has the filter that the function
// returns; nil is the stored one.
func (t *Trees) withFilters(choose func(*TreeConfig) *nodefilter.Filter) *Trees {
	next := t.clone()
	for i := range next.List {
		next.List[i].inForce = choose(&next.List[i])
	}
	return next
}

// settleFilters chooses the filters in force after a change: the stored ones, unless a node
// would be in two trees. Then each tree keeps the filter that it had before, except those
// that can have theirs without harm; earlier trees are tried first. A new leader does not
// know the nodes that have yet to come back, so until then it releases no filter.
func (t *term) settleFilters(before, after *Trees) (*Trees, error) {
	conflict := func(trees *Trees) error {
		named, err := t.slots.arrange(trees, t.hasOperations)
		if err != nil {
			return err
		}
		return t.core.CheckTrees(named)
	}
	missing := t.missesNodes()
	waits := func(tree *TreeConfig) *nodefilter.Filter {
		if old, there := before.Find(tree.Name); missing && there && old.inForce != nil && old.stored() == tree.stored() {
			return old.inForce
		}
		return nil
	}
	next := after.withFilters(waits)
	err := conflict(next)
	var two *core.TwoTreesError
	if !errors.As(err, &two) {
		return next, err
	}
	next = after.withFilters(func(tree *TreeConfig) *nodefilter.Filter {
		used := noNodes
		if old, there := before.Find(tree.Name); there {
			used = old.stored()
			if old.inForce != nil {
				used = *old.inForce
			}
		}
		if used == tree.stored() {
			return nil
		}
		return &used
	})
	if err := conflict(next); err != nil {
		return nil, err
	}
	for i := range next.List {
		name := next.List[i].Name
		if next.List[i].inForce == nil || waits(&next.List[i]) != nil {
			continue
		}
		trial := next.withFilters(func(tree *TreeConfig) *nodefilter.Filter {
			if tree.Name == name {
				return nil
			}
			return tree.inForce
		})
		if conflict(trial) == nil {
			next = trial
		}
	}
	return next, nil
}

// missesNodes reports whether a node that was online lately, under an earlier leader, has
// not registered yet.
func (t *term) missesNodes() bool {
	lately := t.server.settings().Core.NodeTimeout + nodeStorePeriod
	return slices.ContainsFunc(t.nodeList, func(node *activeNode) bool {
		return node.session == nil && !node.record.LastSeen.IsZero() && t.now.Sub(node.record.LastSeen) < lately
	})
}

// settle replaces the configuration by the one with filters chosen, and the rows of trees
// whose filter in force has changed.
func (n *nextTrees) settle(settled *Trees) error {
	for i := range settled.List {
		tree := &settled.List[i]
		var stored *nodefilter.Filter
		if old, there := n.before.Find(tree.Name); there {
			stored = old.inForce
		}
		at := slices.IndexFunc(n.rows.Put.Trees, func(row store.Tree) bool { return row.Name == tree.Name })
		if at < 0 && equalFilters(stored, tree.inForce) {
			continue
		}
		row, err := treeRow(tree)
		if err != nil {
			return err
		}
		if at < 0 {
			n.rows.Put.Trees = append(n.rows.Put.Trees, row)
		} else {
			n.rows.Put.Trees[at] = row
		}
	}
	n.after = settled
	return nil
}

func equalFilters(a, b *nodefilter.Filter) bool {
	return (a == nil) == (b == nil) && (a == nil || *a == *b)
}

// retryTimeout is how long an attempt to put stored filters into force may take.
const retryTimeout = 10 * time.Second

// retryFilters puts stored filters into force once no node is in the way. It does so by an
// edit that changes nothing else, because edits run one after another.
func (t *term) retryFilters() {
	if !t.trees.holdsFilters() || t.retrying.Load() || t.missesNodes() {
		return
	}
	settled, err := t.settleFilters(t.trees, t.trees)
	if err != nil || slices.EqualFunc(settled.List, t.trees.List, func(a, b TreeConfig) bool { return equalFilters(a.inForce, b.inForce) }) {
		return
	}
	t.retrying.Store(true)
	go func() {
		defer t.retrying.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), retryTimeout)
		defer cancel()
		err := t.server.EditTrees(ctx, Caller{}, func(trees *Trees) (*Trees, error) { return trees, nil })
		if err != nil {
			t.server.log.Warn("stored node filters could not be put into force", "error", err)
		}
	}()
}

// heldFilters describes the trees whose stored filter is not in force.
func (t *Trees) heldFilters() (held []string) {
	for i := range t.List {
		if used, is := t.List[i].HeldFilter(); is {
			held = append(held, fmt.Sprintf("nodes_filter %q of pool tree %q is not in force: with it trees would share nodes; %q stays in force",
				t.List[i].stored(), t.List[i].Name, used))
		}
	}
	return held
}
