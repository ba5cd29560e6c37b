package pooltree

import (
	"github.com/weirhq/weir/internal/value/resource"
)

// Names of the three guarantees that pools hand down to pools below them.
const (
	strongOption = "min_share_resources"
	burstOption  = "integral_guarantees/burst_guarantee_resources"
	flowOption   = "integral_guarantees/resource_flow"
)

// guaranteeKind is one of them. Some pass through pools that have none themselves:
// what a pool has is then asked of the nearest pool above that has it, or of the
// tree. Of others a child has none if its parent has none.
type guaranteeKind struct {
	option string
	passes bool
	of     func(*PoolConfig) resource.Partial
}

var guaranteeKinds = [...]guaranteeKind{
	{strongOption, false, func(c *PoolConfig) resource.Partial { return c.StrongGuarantee.Value() }},
	{burstOption, true, func(c *PoolConfig) resource.Partial { return c.Integral.Burst.Value() }},
	{flowOption, true, func(c *PoolConfig) resource.Partial { return c.Integral.ResourceFlow.Value() }},
}

// has reports whether a pool has the guarantee itself.
func (g guaranteeKind) has(p *Pool) bool { return !g.of(p.config).IsTrivial() }

// nearestBelow returns the nearest pools below p for which stop holds, depth
// first. It does not look below them.
func (p *Pool) nearestBelow(stop func(*Pool) bool) (list []*Pool) {
	for _, n := range p.children {
		if child := &p.tree.pools[n]; stop(child) {
			list = append(list, child)
		} else {
			list = append(list, child.nearestBelow(stop)...)
		}
	}
	return list
}

// Passage is a guarantee that comes through a pool which does not have it: pools
// below are guaranteed more than the pool itself, so it is asked of the nearest
// pool above that has the guarantee, or of the tree.
type Passage struct {
	Through *Pool
	// Giver is the parent of Through: the pool that has the guarantee, or the
	// root.
	Giver *Pool
	// Option names the guarantee.
	Option string
	Amount resource.Amounts
}

// Passages returns what passes through pools, directly below those who give it.
func (t *Tree) Passages() (list []Passage) {
	for i := 1; i < len(t.pools); i++ {
		p := &t.pools[i]
		giver := &t.pools[p.parent]
		for _, g := range guaranteeKinds {
			if !g.passes || g.has(p) || !giver.IsRoot() && !g.has(giver) {
				continue
			}
			var sum resource.Amounts
			for _, claim := range p.nearestBelow(g.has) {
				sum = sum.Add(g.of(claim.config).OrZero())
			}
			if !sum.IsZero() {
				list = append(list, Passage{Through: p, Giver: giver, Option: g.option, Amount: sum})
			}
		}
	}
	return list
}
