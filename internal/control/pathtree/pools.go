package pathtree

import (
	"strings"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

// PoolTreesPath is the path of the pool trees.
const PoolTreesPath = "//sys/pool_trees"

// poolsLink is //sys/pools: the default tree.
type poolsLink struct{ Bare }

func (poolsLink) Kind() string { return "link" }
func (poolsLink) Shape() Shape { return LinkShape }

func (poolsLink) Value(c *Request) (yson.Node, error) {
	tree := c.Server.Trees().Default
	if tree == "" {
		return yson.Node{}, wire.Errorf(wire.CodeResolve, "Pool tree does not exist: there is no default tree; set %s/@default_tree", PoolTreesPath)
	}
	if _, there := c.Server.Trees().Find(tree); !there {
		return yson.Node{}, wire.Errorf(wire.CodeResolve, "Pool tree %q does not exist: %s/@default_tree names it", tree, PoolTreesPath)
	}
	return yson.String(JoinPath(PoolTreesPath, tree)), nil
}

func (l poolsLink) Attribute(c *Request, _ *Place, name string) (yson.Node, bool, error) {
	if name != "target_path" {
		return yson.Entity(), false, nil
	}
	n, err := l.Value(c)
	return n, err == nil, nil
}

func (poolsLink) AttributeNames(*Request) (builtin, custom []string) {
	return []string{"target_path"}, nil
}

// treesNode is //sys/pool_trees.
type treesNode struct{ Bare }

func (treesNode) Kind() string { return "scheduler_pool_tree_map" }

func (treesNode) Child(c *Request, key string) (Object, error) {
	if tree, there := c.Server.Trees().Find(key); there {
		return treeNode{tree: tree}, nil
	}
	return nil, nil
}

func (treesNode) Keys(c *Request) ([]string, error) {
	var keys []string
	for i := range c.Server.Trees().List {
		keys = append(keys, c.Server.Trees().List[i].Name)
	}
	return keys, nil
}

func (treesNode) Attribute(c *Request, at *Place, name string) (yson.Node, bool, error) {
	if name == "default_tree" {
		tree := c.Server.Trees().Default
		return yson.String(tree), tree != "", nil
	}
	return c.customBeside(at.Path(), name)
}

func (treesNode) knows(name string) bool { return name == "default_tree" }

func (treesNode) AttributeNames(c *Request) (builtin, custom []string) {
	return []string{"default_tree"}, c.customNames(PoolTreesPath)
}

// customBeside returns a custom attribute that is stored beside a node.
func (c *Request) customBeside(key, name string) (yson.Node, bool, error) {
	if isAccessAttribute(name) {
		return yson.Entity(), false, nil
	}
	d, err := besideOf(c.Server.Registry(), key)
	if err != nil {
		return yson.Entity(), false, err
	}
	return d.get(name)
}

func (c *Request) customNames(key string) []string {
	d, err := besideOf(c.Server.Registry(), key)
	if err != nil {
		return nil
	}
	var names []string
	for name := range d.Custom {
		names = append(names, name)
	}
	return SortedUnique(names)
}

// treeNode is a pool tree.
type treeNode struct {
	Bare
	tree *server.TreeConfig
}

func (treeNode) Kind() string { return "scheduler_pool_tree" }

func (n treeNode) Meta(*Request) Meta { return metaOf(n.tree.Object) }

func metaOf(o server.Object) Meta { return Meta{ID: o.ID, Created: o.Created, Modified: o.Changed} }

func (n treeNode) access(c *Request, _ *Place) auth.Object { return c.treeAccess(n.tree) }

func (c *Request) treeAccess(tree *server.TreeConfig) auth.Object {
	return c.AccessOf(auth.Object{Kind: auth.KindTree, Name: tree.Name}, "#"+tree.Object.ID.String())
}

func (c *Request) poolAccess(tree *server.TreeConfig, pool string) auth.Object {
	return c.AccessOf(auth.Object{Kind: auth.KindPool, Name: pool}, "#"+tree.Pool(pool).ID.String())
}

// TreeChain is the chain of a pool tree.
func (c *Request) TreeChain(tree *server.TreeConfig) auth.Chain {
	chain := auth.Chain{c.treeAccess(tree)}
	for _, path := range []string{PoolTreesPath, "//sys", "/"} {
		chain = append(chain, c.AccessOf(auth.Object{Kind: auth.KindNode, Name: path}, path))
	}
	return chain
}

// ChainOfPool is the chain of a pool; for the root, the chain of the tree.
func (c *Request) ChainOfPool(tree *server.TreeConfig, name string) auth.Chain {
	var chain auth.Chain
	pool, there := tree.Tree.Pool(name)
	for there && !pool.IsRoot() {
		chain = append(chain, c.poolAccess(tree, pool.Name()))
		pool, there = pool.Parent()
	}
	return append(chain, c.TreeChain(tree)...)
}

func (n treeNode) Child(_ *Request, key string) (Object, error) {
	return childPool(n.tree, n.tree.Tree.Root(), key)
}

func (n treeNode) Keys(*Request) ([]string, error) { return poolKeys(n.tree.Tree.Root()), nil }

func childPool(tree *server.TreeConfig, above *pooltree.Pool, key string) (Object, error) {
	pool, there := tree.Tree.Pool(key)
	if !there || pool.IsRoot() {
		return nil, nil
	}
	if parent, _ := pool.Parent(); parent.Name() != above.Name() {
		return nil, nil
	}
	return &poolNode{tree: tree, pool: pool}, nil
}

func poolKeys(p *pooltree.Pool) []string {
	var keys []string
	for _, child := range p.Children() {
		keys = append(keys, child.Name())
	}
	return keys
}

// config has the options that are set, under the names that the user wrote.
func (n treeNode) config() document.Value {
	config := n.tree.Tree.Config()
	return pooltree.TreeOptions.WriteAsWritten(&config, document.ForPrograms)
}

func (n treeNode) Attribute(c *Request, _ *Place, name string) (yson.Node, bool, error) {
	switch name {
	case "name":
		return yson.String(n.tree.Name), true, nil
	case "config":
		return wire.FromDocument(n.config()), true, nil
	}
	if _, known := pooltree.TreeOptions.Resolve(name); known {
		settings := n.settings()
		value, there := pooltree.TreeOptions.WriteOption(&settings, name, document.ForPrograms)
		return wire.FromDocument(value), there, nil
	}
	return c.customBeside("#"+n.tree.Object.ID.String(), name)
}

// settings are the options of the tree that hold, set or not.
func (n treeNode) settings() pooltree.TreeConfig {
	s := n.tree.Tree.Settings()
	p := &s.Preemption
	p.MinSharePreemptionTimeout = document.Some(n.tree.Tree.Root().Effective().MinShareTimeout)
	p.MaxUnpreemptableRunningJobCount = document.Some(p.MaxUnpreemptableRunningJobCount.Value())
	return s
}

func (treeNode) knows(name string) bool {
	_, known := pooltree.TreeOptions.Resolve(name)
	return known
}

func (n treeNode) AttributeNames(c *Request) (builtin, custom []string) {
	builtin = []string{"name", "config"}
	settings := n.settings()
	for _, e := range pooltree.TreeOptions.Write(&settings, document.ForPrograms).Entries() {
		if n.knows(e.Key) {
			builtin = append(builtin, e.Key)
		}
	}
	return builtin, c.customNames("#" + n.tree.Object.ID.String())
}

// Normal replaces the names in steps inside an attribute with those that the configuration has.
func (n treeNode) Normal(name string, steps []ypath.Step) []ypath.Step {
	if name != "config" {
		return normalSteps(steps)
	}
	if len(steps) == 0 {
		return steps
	}
	rest := steps[1:]
	first := steps[0]
	if option, known := pooltree.TreeOptions.Resolve(first.Name); known && first.Kind == ypath.Child {
		first.Name = document.Normal(first.Name)
		if n.tree != nil {
			if e, set := pooltree.TreeOptions.Find(n.config(), option); set {
				first.Name = e.Key
			}
		}
		rest = normalSteps(rest)
	}
	return append([]ypath.Step{first}, rest...)
}

// normalSteps treats hyphens in names as underscores, as options do.
func normalSteps(steps []ypath.Step) []ypath.Step {
	out := make([]ypath.Step, len(steps))
	for i, step := range steps {
		if _, isPlace := step.Position(); step.Kind == ypath.Child && !isPlace {
			step.Name = document.Normal(step.Name)
		}
		out[i] = step
	}
	return out
}

// poolNode is a pool.
type poolNode struct {
	Bare
	tree    *server.TreeConfig
	pool    *pooltree.Pool
	written *document.Value
}

// config has the options that are set, under the names that the user wrote.
func (n *poolNode) config() document.Value {
	if n.written == nil {
		config := n.pool.Config()
		written := pooltree.PoolOptions.WriteAsWritten(&config, document.ForPrograms)
		n.written = &written
	}
	return *n.written
}

func (*poolNode) Kind() string { return "scheduler_pool" }

func (n *poolNode) Meta(*Request) Meta { return metaOf(n.tree.Pool(n.pool.Name())) }

func (n *poolNode) access(c *Request, _ *Place) auth.Object {
	return c.poolAccess(n.tree, n.pool.Name())
}

func (n *poolNode) Child(_ *Request, key string) (Object, error) {
	return childPool(n.tree, n.pool, key)
}

func (n *poolNode) Keys(*Request) ([]string, error) { return poolKeys(n.pool), nil }

func (n *poolNode) Attribute(_ *Request, _ *Place, name string) (yson.Node, bool, error) {
	switch name {
	case "name":
		return yson.String(n.pool.Name()), true, nil
	case "parent_name":
		parent, _ := n.pool.Parent()
		return yson.String(parent.Name()), true, nil
	}
	config := n.pool.Config()
	value, there := pooltree.PoolOptions.WriteOption(&config, name, document.ForPrograms)
	return wire.FromDocument(value), there, nil
}

func (*poolNode) knows(name string) bool {
	_, known := pooltree.PoolOptions.Resolve(name)
	return known
}

func (n *poolNode) AttributeNames(*Request) (builtin, custom []string) {
	builtin = []string{"name", "parent_name"}
	for _, e := range n.config().Entries() {
		option, known := pooltree.PoolOptions.Resolve(e.Key)
		if !known {
			custom = append(custom, e.Key)
			continue
		}
		builtin = append(builtin, e.Key)
		if option == "min_share_resources" {
			builtin = append(builtin, "min_share_resources", "strong_guarantee_resources")
		}
	}
	return builtin, SortedUnique(custom)
}

// Normal replaces the names in steps inside an option with those that the configuration has.
func (n *poolNode) Normal(name string, steps []ypath.Step) []ypath.Step {
	if n.knows(name) {
		return normalSteps(steps)
	}
	return steps
}

// findTree finds a tree in a configuration.
func findTree(trees *server.Trees, name string) (*server.TreeConfig, error) {
	tree, there := trees.Find(name)
	if !there {
		return nil, wire.Errorf(wire.CodeResolve, "Pool tree %q does not exist", wire.CutText(name, 100))
	}
	return tree, nil
}

// FindPool finds a pool of a tree; the root by its name or the empty name.
func FindPool(tree *server.TreeConfig, name string) (*pooltree.Pool, error) {
	if name == "" {
		name = pooltree.RootName
	}
	pool, there := tree.Tree.Pool(name)
	if !there {
		return nil, wire.Errorf(wire.CodeResolve, "Pool %q does not exist", wire.CutText(name, 200))
	}
	return pool, nil
}

// PoolPlaceOf is the tree that attributes of a pool to be made speak of.
func PoolPlaceOf(c *Request, attributes yson.Node) (*server.TreeConfig, error) {
	trees := c.Server.Trees()
	name := trees.Default
	if n, given := attributes.Get("pool_tree"); given {
		text, ok := n.Text()
		if !ok {
			return nil, wire.Errorf(wire.CodeGeneric, "Attribute \"pool_tree\" has invalid type: expected string, actual %s", n.Kind())
		}
		name = text
	}
	if name == "" {
		return nil, wire.Errorf(wire.CodeGeneric, "Attribute \"pool_tree\" is required: there is no default tree")
	}
	return findTree(trees, name)
}

// treeNameProblem describes what is wrong with the name of a tree.
func treeNameProblem(name string) string {
	switch {
	case name == "":
		return "it is empty"
	case len(name) > 100:
		return "it is too long; the limit is 100 bytes"
	case strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "":
		return "it must match regular expression \"[-_.a-zA-Z0-9]+\""
	}
	return ""
}
