package pathtree

import (
	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/resource"
)

// implied is the flow and the burst that a first-level pool gives its subpools
// without having any itself: they come directly from the tree.
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

// RequireImplied refuses a change by which a first-level pool gives its subpools
// more than before of a resource that it does not have itself, unless the caller
// may write to the tree. Otherwise the owner of such a pool could promise
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
