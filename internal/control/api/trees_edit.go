package api

import (
	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

func (treesNode) editAttributes(c *call, at *place, edits []attributeEdit) error {
	var beside []attributeEdit
	var tree *string
	for _, e := range edits {
		switch {
		case e.name == "default_tree":
			text, err := e.text()
			if err != nil {
				return err
			}
			tree = &text
		case isFixed(e.name):
			return cannotSet(e.name)
		default:
			beside = append(beside, e)
		}
	}
	if err := c.require(besideNeeds(at.chain(c), edits)); err != nil {
		return err
	}
	if tree != nil {
		plan := func(trees *server.Trees) (*server.Trees, error) {
			if _, err := findTree(trees, *tree); err != nil {
				return nil, err
			}
			return &server.Trees{Default: *tree, List: append([]server.TreeConfig(nil), trees.List...)}, nil
		}
		if err := c.firstIf(len(beside) > 0, func() error { return c.editTrees(at.path(), plan) }); err != nil {
			return err
		}
	}
	return c.editBeside(at.path(), at.path(), beside)
}

func (treesNode) create(c *call, _ *place, keys []string, what creation) (guid.ID, error) {
	if len(keys) != 1 || what.kind != "scheduler_pool_tree" && what.kind != "map_node" {
		return guid.ID{}, errorf(codeGeneric, "Only pool trees can be created at %s", poolTreesPath)
	}
	return makeTree(c, what.attributes.With("name", yson.String(keys[0])), false)
}

func makeTree(c *call, attributes yson.Node, ignoreExisting bool) (guid.ID, error) {
	given, _ := attributes.Get("name")
	name, ok := given.Text()
	if !ok {
		return guid.ID{}, errorf(codeGeneric, "Attribute \"name\" is needed to create a pool tree")
	}
	if problem := treeNameProblem(name); problem != "" {
		return guid.ID{}, errorf(codeGeneric, "Pool tree name %q: %s", cutText(name, 100), problem)
	}
	if tree, there := c.server.Trees().Find(name); there && ignoreExisting {
		return tree.Object.ID, nil
	}
	sorted, err := sortTreeEdits(editsOf(attributes.Without("name")))
	if err != nil {
		return guid.ID{}, err
	}
	path := joinPath(poolTreesPath, name)
	plan := func(trees *server.Trees) (*server.Trees, error) {
		if _, there := trees.Find(name); there {
			return nil, errorf(codeAlreadyExists, "Pool tree %q already exists", name)
		}
		above := auth.Chain{}
		for _, path := range []string{poolTreesPath, "//sys", "/"} {
			above = append(above, c.accessOf(auth.Object{Kind: auth.KindNode, Name: path}, path))
		}
		if err := c.require(auth.Requires(auth.Write, above)); err != nil {
			return nil, err
		}
		config, err := applyTreeOptions(document.Map(), sorted.options)
		if err != nil {
			return nil, err
		}
		tree, warnings, err := pooltree.FromValue(config, pooltree.Options{KeepUnknown: true})
		if err != nil {
			return nil, err
		}
		c.warn(warnings)
		next := trees.Put(name, tree)
		if next.Default == "" {
			next.Default = name // the first tree, so that //sys/pools leads somewhere
		}
		return next, nil
	}
	if err := c.firstIf(len(sorted.beside) > 0, func() error { return c.editTrees(path, plan) }); err != nil {
		return guid.ID{}, err
	}
	tree, err := findTree(c.server.Trees(), name)
	if err != nil {
		return guid.ID{}, err
	}
	c.remembered = tree.Object.ID.String()
	return tree.Object.ID, c.editBeside(path, "#"+tree.Object.ID.String(), sorted.beside)
}

// sortTreeEdits refuses what cannot be set on a tree. Options are edits inside of
// "config", whether they came as attributes of their own or not.
func sortTreeEdits(edits []attributeEdit) (out optionEdits, err error) {
	node := treeNode{}
	for _, e := range edits {
		option, known := pooltree.TreeOptions.Resolve(e.name)
		_, ofPools := pooltree.PoolOptions.Resolve(e.name)
		switch {
		case e.name == "config":
			e.steps = node.normal("config", e.steps)
			out.options = append(out.options, e)
		case known:
			steps := append([]ypath.Step{{Kind: ypath.Child, Name: option}}, normalSteps(e.steps)...)
			out.options = append(out.options, attributeEdit{name: "config", steps: steps, edit: e.edit})
		case ofPools || isFixed(e.name) || e.name == "name" || e.name == "pools":
			return out, cannotSet(e.name)
		default:
			out.beside = append(out.beside, e)
		}
	}
	return out, nil
}

// applyTreeOptions makes edits of "config". A value is not replaced by one of
// another kind.
func applyTreeOptions(config document.Value, edits []attributeEdit) (document.Value, error) {
	for _, e := range edits {
		inner := e.edit
		e.edit = func(old yson.Node, there bool) (yson.Node, bool, error) {
			next, keep, err := inner(old, there)
			if err == nil && keep && there && !sameKind(old, next) {
				err = errorf(codeGeneric, "Cannot update %s node with %s value; types must match", old.Kind(), next.Kind())
			}
			return next, keep, err
		}
		next, keep, err := e.on(true)(fromDocument(config), true)
		if err != nil {
			return config, err
		}
		if !keep {
			next = yson.Map() // there is always a configuration
		}
		if next.Kind() != yson.MapKind {
			return config, errorf(codeGeneric, "Attribute \"config\" has invalid type: expected map, actual %s", next.Kind())
		}
		if config, err = toDocument(next); err != nil {
			return config, err
		}
	}
	return config, nil
}

// sameKind says whether one value may take the place of another.
func sameKind(a, b yson.Node) bool {
	_, aNumber := a.Double()
	_, bNumber := b.Double()
	return a.Kind() == b.Kind() || aNumber && bNumber
}

func (n treeNode) editAttributes(c *call, at *place, edits []attributeEdit) error {
	sorted, err := sortTreeEdits(edits)
	if err != nil {
		return err
	}
	if err := c.require(besideNeeds(at.chain(c), edits)); err != nil {
		return err
	}
	if len(sorted.options) > 0 {
		plan := func(tree *server.TreeConfig) ([]pooltree.Edit, error) {
			config, err := applyTreeOptions(treeNode{tree: tree}.config(), sorted.options)
			if err != nil {
				return nil, err
			}
			r := document.NewReader("")
			r.KeepUnknown = true
			var next pooltree.TreeConfig
			pooltree.TreeOptions.Read(r, config, &next)
			c.warn(r.Warnings())
			return []pooltree.Edit{pooltree.SetTree{Config: next}}, r.Problems().Err()
		}
		if err := c.firstIf(len(sorted.beside) > 0, func() error { return c.editTree(at.path(), n.tree.Name, plan) }); err != nil {
			return err
		}
	}
	return c.editBeside(at.path(), "#"+n.tree.Object.ID.String(), sorted.beside)
}

func (n treeNode) remove(c *call, at *place, _ bool) error {
	name := n.tree.Name
	gone := []string{"#" + n.tree.Object.ID.String()}
	err := c.editTrees(at.path(), func(trees *server.Trees) (*server.Trees, error) {
		tree, err := findTree(trees, name)
		if err != nil {
			return nil, err
		}
		var below []auth.Chain
		for pool := range tree.Tree.Pools() {
			below = append(below, c.chainOfPool(tree, pool.Name()))
			gone = append(gone, "#"+tree.Pool(pool.Name()).ID.String())
		}
		if err := c.require(auth.RemovePool(c.treeChain(tree), below...)); err != nil {
			return nil, err
		}
		return trees.Remove(name), nil
	})
	if err != nil {
		return err
	}
	return c.forgetBeside(at.path(), gone)
}
