package pathtree

import (
	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
)

// movedPool is a pool on its way to another tree.
type movedPool struct {
	pooltree.AddPool
	id guid.ID
}

// moveToTree moves a pool, with everything below, to another pool tree, under a new name. The pools
// keep their identities and so their access lists. Operations stay in the old tree.
func (c *Request) moveToTree(at *Place, n *poolNode, to, parent, name string) error {
	var moved []movedPool
	err := c.EditTree(at.Path(), n.tree.Name, func(tree *server.TreeConfig) ([]pooltree.Edit, error) {
		top, err := FindPool(tree, n.pool.Name())
		if err != nil {
			return nil, err
		}
		var below []auth.Chain
		for i, pool := range append([]*pooltree.Pool{top}, poolsBelow(top)...) {
			c.warnOfOperations(tree.Name, pool.Name())
			above, _ := pool.Parent()
			add := pooltree.AddPool{Pool: pool.Name(), Parent: above.Name(), Config: pool.Config()}
			switch {
			case i == 0:
				add.Pool, add.Parent = name, parent
			case add.Parent == top.Name():
				add.Parent = name
			}
			if i > 0 {
				below = append(below, c.ChainOfPool(tree, pool.Name()))
			}
			moved = append(moved, movedPool{add, tree.Pool(pool.Name()).ID})
		}
		if err := c.Require(auth.RemovePool(c.ChainOfPool(tree, top.Name()), below...)); err != nil {
			return nil, err
		}
		return []pooltree.Edit{pooltree.RemovePool{Pool: top.Name(), Recursive: true}}, nil
	})
	if err != nil {
		return err
	}
	object := JoinPath(JoinPath(PoolTreesPath, to), name)
	err = c.EditTree(object, to, func(tree *server.TreeConfig) (plan []pooltree.Edit, err error) {
		above, err := FindPool(tree, parent)
		if err != nil {
			return nil, err
		}
		chain := c.ChainOfPool(tree, above.Name())
		for _, m := range moved {
			if err := c.checkNewPool(tree, m.Parent, m.Pool); err != nil {
				return nil, err
			}
			var options []string
			for _, e := range pooltree.PoolOptions.Write(&m.Config, document.ForPrograms).Entries() {
				options = append(options, e.Key)
			}
			if err := c.Require(auth.CreatePool(chain, options...)); err != nil {
				return nil, err
			}
			plan = append(plan, m.AddPool)
		}
		return plan, nil
	})
	if err != nil {
		return err
	}
	return c.EditTrees(object, func(trees *server.Trees) (*server.Trees, error) {
		for _, m := range moved {
			trees = trees.Identify(to, m.Pool, m.id)
		}
		return trees, nil
	})
}
