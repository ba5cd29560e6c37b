package pathtree

import (
	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/resource"
)

// RequirePassages refuses a change by which more of a guarantee passes through a pool that does not
// have it, unless the caller may write to the pool that gives it, or to the tree. Otherwise the owner
// of such a pool could promise themselves what belongs to others.
func (c *Request) RequirePassages(tree *server.TreeConfig, after *pooltree.Tree) error {
	type passage struct{ through, giver, option string }
	before := map[passage]resource.Amounts{}
	for _, p := range tree.Tree.Passages() {
		before[passage{p.Through.Name(), p.Giver.Name(), p.Option}] = p.Amount
	}
	for _, p := range after.Passages() {
		had := before[passage{p.Through.Name(), p.Giver.Name(), p.Option}]
		if had.Dominates(p.Amount) {
			continue
		}
		if err := c.Require(auth.Requires(auth.Write, c.ChainOfPool(tree, nearestIn(tree.Tree, p.Giver)))); err != nil {
			return err
		}
	}
	return nil
}

// nearestIn is the name of the nearest pool from p up that a tree has.
func nearestIn(tree *pooltree.Tree, p *pooltree.Pool) string {
	for ; !p.IsRoot(); p, _ = p.Parent() {
		if _, there := tree.Pool(p.Name()); there {
			break
		}
	}
	return p.Name()
}
