package pooltree

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/value/document"
)

// Changes are the differences between two trees. Every list has a stable order:
// that of the new tree, or of the old one for removed pools.
type Changes struct {
	Tree      []document.Change
	Removed   []PoolPlace
	Added     []PoolPlace
	Moved     []PoolMove
	Changed   []PoolChange
	Reordered []string // parents whose remaining children have another order
}

// PoolPlace is a pool and its parent. An added pool comes with its options as
// changes from unset.
type PoolPlace struct {
	Pool, Parent string
	Options      []document.Change
}

// PoolMove is a pool that has another parent.
type PoolMove struct {
	Pool, From, To string
}

// PoolChange is a pool whose options differ.
type PoolChange struct {
	Pool    string
	Options []document.Change
}

// Diff returns what changes from one tree to another. Pools are the same if they
// have the same name; a renamed pool is removed and added.
func Diff(from, to *Tree) Changes {
	c := Changes{Tree: TreeOptions.Diff(&from.config, &to.config)}
	for p := range from.Pools() {
		if _, kept := to.Pool(p.name); !kept {
			c.Removed = append(c.Removed, PoolPlace{Pool: p.name, Parent: p.parentName()})
		}
	}
	for p := range to.Pools() {
		old, existed := from.Pool(p.name)
		if !existed {
			options := PoolOptions.Diff(&PoolConfig{}, p.config)
			c.Added = append(c.Added, PoolPlace{Pool: p.name, Parent: p.parentName(), Options: options})
			continue
		}
		if a, b := old.parentName(), p.parentName(); a != b {
			c.Moved = append(c.Moved, PoolMove{Pool: p.name, From: a, To: b})
		}
		if old.config == p.config {
			continue // an edit of another pool
		}
		if options := PoolOptions.Diff(old.config, p.config); len(options) > 0 {
			c.Changed = append(c.Changed, PoolChange{Pool: p.name, Options: options})
		}
	}
	for i := range to.pools {
		p := &to.pools[i]
		if old, existed := from.Pool(p.name); existed && reordered(old, p) {
			c.Reordered = append(c.Reordered, p.name)
		}
	}
	return c
}

func (p *Pool) parentName() string {
	parent, ok := p.Parent()
	if !ok {
		return ""
	}
	return parent.name
}

// reordered reports whether the children that a pool had and still has are in
// another order.
func reordered(from, to *Pool) bool {
	staying := func(p, other *Pool) (names []string) {
		for _, child := range p.Children() {
			if twin, ok := other.tree.Pool(child.name); ok && twin.parent == other.index {
				names = append(names, child.name)
			}
		}
		return names
	}
	if len(from.children) < 2 || len(to.children) < 2 {
		return false
	}
	return !slices.Equal(staying(from, to), staying(to, from))
}

// IsEmpty reports whether nothing differs.
func (c Changes) IsEmpty() bool {
	return len(c.Tree)+len(c.Removed)+len(c.Added)+len(c.Moved)+len(c.Changed)+len(c.Reordered) == 0
}

// Equal reports whether two trees have the same options, pools and order.
func Equal(a, b *Tree) bool { return Diff(a, b).IsEmpty() }

// String writes one change a line:
//
//	~ tree: main_resource: cpu → gpu
//	- pool adhoc (in <Root>)
//	+ pool etl (in production): weight: 2
//	> pool batch: research → production
//	~ pool production: weight: 1 → 2
//	# pools in production: order changed
func (c Changes) String() string {
	var b strings.Builder
	for _, o := range c.Tree {
		fmt.Fprintf(&b, "~ tree: %v\n", o)
	}
	for _, p := range c.Removed {
		fmt.Fprintf(&b, "- pool %s (in %s)\n", p.Pool, p.Parent)
	}
	for _, p := range c.Added {
		fmt.Fprintf(&b, "+ pool %s (in %s)", p.Pool, p.Parent)
		for i, o := range p.Options {
			separator := ", "
			if i == 0 {
				separator = ": "
			}
			fmt.Fprintf(&b, "%s%s: %v", separator, o.Option, o.New)
		}
		b.WriteByte('\n')
	}
	for _, m := range c.Moved {
		fmt.Fprintf(&b, "> pool %s: %s → %s\n", m.Pool, m.From, m.To)
	}
	for _, p := range c.Changed {
		for _, o := range p.Options {
			fmt.Fprintf(&b, "~ pool %s: %v\n", p.Pool, o)
		}
	}
	for _, name := range c.Reordered {
		fmt.Fprintf(&b, "# pools in %s: order changed\n", name)
	}
	return b.String()
}
