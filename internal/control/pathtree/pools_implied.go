package pathtree

import (
	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/resource"
)

// implied is the flow and the burst that a pool of the first level gives its
// subpools without having any of its own: it takes them straight from the tree.
func implied(p *pooltree.Pool) (flow, burst resource.Amounts) {
	own := p.Config()
	for _, child := range p.Children() {
		given := child.Config()
		if own.Integral.ResourceFlow.Value().IsTrivial() {
			flow = flow.Add(given.Integral.ResourceFlow.Value().OrZero())
		}
		if own.Integral.Burst.Value().IsTrivial() {
			burst = burst.Add(given.Integral.Burst.Value().OrZero())
		}
	}
	return flow, burst
}

// RequireImplied refuses a change by which a pool of the first level gives its
// subpools more than it did of what it does not have itself, unless whoever makes
// the change may write to the tree. Else the owner of such a pool could promise
// themselves the whole cluster.
func (c *Request) RequireImplied(before, after *pooltree.Tree, tree auth.Chain) error {
	for _, p := range after.Root().Children() {
		flow, burst := implied(p)
		var hadFlow, hadBurst resource.Amounts
		if old, there := before.Pool(p.Name()); there && old.Depth() == 1 {
			hadFlow, hadBurst = implied(old)
		}
		if !hadFlow.Dominates(flow) || !hadBurst.Dominates(burst) {
			return c.Require(auth.Requires(auth.Write, tree))
		}
	}
	return nil
}
