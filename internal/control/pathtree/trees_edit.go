package pathtree

import (
	"fmt"
	"slices"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

func (treesNode) EditAttributes(c *Request, at *Place, edits []AttributeEdit) error {
	var beside []AttributeEdit
	var tree *string
	for _, e := range edits {
		switch {
		case e.Name == "default_tree":
			text := ""
			if _, keep, err := e.Edit(yson.Entity(), true); err != nil {
				return err
			} else if keep {
				if text, err = e.text(); err != nil {
					return err
				}
			}
			tree = &text
		case isFixed(e.Name):
			return cannotSet(e.Name)
		default:
			beside = append(beside, e)
		}
	}
	if err := c.Require(besideNeeds(at.Chain(c), edits)); err != nil {
		return err
	}
	if tree != nil {
		plan := func(trees *server.Trees) (*server.Trees, error) {
			return &server.Trees{Default: *tree, List: append([]server.TreeConfig(nil), trees.List...)}, nil
		}
		if err := c.EditTrees(at.Path(), plan); err != nil {
			return err
		}
	}
	return c.editBeside(at.Path(), at.Path(), beside)
}

func (treesNode) Create(c *Request, _ *Place, keys []string, what Creation) (guid.ID, error) {
	if len(keys) != 1 || what.Kind != "scheduler_pool_tree" && what.Kind != "map_node" {
		return guid.ID{}, wire.Errorf(wire.CodeGeneric, "Only pool trees can be created at %s", PoolTreesPath)
	}
	return makeTree(c, what.Attributes.With("name", yson.String(keys[0])), false)
}

func makeTree(c *Request, attributes yson.Node, ignoreExisting bool) (guid.ID, error) {
	given, _ := attributes.Get("name")
	name, ok := given.Text()
	if !ok {
		return guid.ID{}, wire.Errorf(wire.CodeGeneric, "Attribute \"name\" is required to create a pool tree")
	}
	if problem := treeNameProblem(name); problem != "" {
		return guid.ID{}, wire.Errorf(wire.CodeGeneric, "Pool tree name %q: %s", wire.CutText(name, 100), problem)
	}
	if tree, there := c.Server.Trees().Find(name); there && ignoreExisting {
		return tree.Object.ID, nil
	}
	sorted, err := sortTreeEdits(EditsOf(attributes.Without("name")))
	if err != nil {
		return guid.ID{}, err
	}
	path, id := JoinPath(PoolTreesPath, name), NewID(guid.PoolTree)
	plan := func(trees *server.Trees) (*server.Trees, error) {
		if _, there := trees.Find(name); there {
			return nil, wire.Errorf(wire.CodeAlreadyExists, "Pool tree %q already exists", name)
		}
		above := auth.Chain{}
		for _, path := range []string{PoolTreesPath, "//sys", "/"} {
			above = append(above, c.AccessOf(auth.Object{Kind: auth.KindNode, Name: path}, path))
		}
		if err := c.Require(auth.Requires(auth.Write, above)); err != nil {
			return nil, err
		}
		config, err := applyTreeOptions(document.Map(), sorted.options)
		if err != nil {
			return nil, err
		}
		tree, warnings, err := pooltree.FromValue(config, trees.Options(name))
		if err != nil {
			return nil, err
		}
		c.Warn(warnings)
		next := trees.Put(name, tree).Identify(name, "", id)
		if next.Default == "" {
			next.Default = name // the first tree, so that //sys/pools leads somewhere
		}
		return next, nil
	}
	if err := c.EditTrees(path, plan); err != nil {
		return guid.ID{}, err
	}
	c.AfterCommit(func() { c.warnOfHeldFilter(name) })
	c.Remembered = id.String()
	return id, c.editBeside(path, "#"+id.String(), sorted.beside)
}

// sortTreeEdits sorts edits and refuses attributes that cannot be set on a tree. Options become
// edits inside "config", even if they were given as separate attributes.
func sortTreeEdits(edits []AttributeEdit) (out optionEdits, err error) {
	node := treeNode{}
	for _, e := range edits {
		_, known := pooltree.TreeOptions.Resolve(e.Name)
		_, ofPools := pooltree.PoolOptions.Resolve(e.Name)
		switch {
		case e.Name == "config":
			e.Steps = node.Normal("config", e.Steps)
			out.options = append(out.options, e)
		case known:
			steps := append([]ypath.Step{{Kind: ypath.Child, Name: document.Normal(e.Name)}}, normalSteps(e.Steps)...)
			out.options = append(out.options, AttributeEdit{Name: "config", Steps: steps, Edit: e.Edit})
		case ofPools || isFixed(e.Name) || e.Name == "name" || e.Name == "parent_name" || e.Name == "pools":
			return out, cannotSet(e.Name)
		default:
			out.beside = append(out.beside, e)
		}
	}
	return out, nil
}

// underName returns an edit of "config" under the name that the option is set under. Setting it under
// another name is refused.
func underName(e AttributeEdit, config document.Value) AttributeEdit {
	if len(e.Steps) == 0 || e.Steps[0].Kind != ypath.Child {
		return e
	}
	written := e.Steps[0].Name
	option, _ := pooltree.TreeOptions.Resolve(written)
	entry, set := pooltree.TreeOptions.Find(config, option)
	if !set || entry.Key == written {
		return e
	}
	e.Steps = slices.Clone(e.Steps)
	e.Steps[0].Name = entry.Key
	inner := e.Edit
	e.Edit = func(old yson.Node, there bool) (yson.Node, bool, error) {
		next, keep, err := inner(old, there)
		if err == nil && keep {
			err = twoAliases(entry.Key, written)
		}
		return next, keep, err
	}
	return e
}

// applyTreeOptions applies edits of "config". A new value must be of the same kind as the old one.
func applyTreeOptions(config document.Value, edits []AttributeEdit) (document.Value, error) {
	for _, e := range edits {
		e = underName(e, config)
		inner := e.Edit
		e.Edit = func(old yson.Node, there bool) (yson.Node, bool, error) {
			next, keep, err := inner(old, there)
			if err == nil && keep && there && !sameKind(old, next) {
				err = wire.Errorf(wire.CodeGeneric, "Cannot update %s node with %s value; types must match", old.Kind(), next.Kind()).
					Because(wire.Errorf(wire.CodeGeneric, "The value is %s now; write the new one in the same form (numbers are milliseconds or bytes), or remove the old one first", old))
			}
			return next, keep, err
		}
		next, keep, err := e.on(true)(wire.FromDocument(config), true)
		if err != nil {
			return config, err
		}
		if !keep {
			next = yson.Map() // there is always a configuration
		}
		if next.Kind() != yson.MapKind {
			return config, wire.Errorf(wire.CodeGeneric, "Attribute \"config\" has invalid type: expected map, actual %s", next.Kind())
		}
		if config, err = wire.ToDocument(next); err != nil {
			return config, err
		}
	}
	return config, nil
}

// sameKind reports whether one value may replace another.
func sameKind(a, b yson.Node) bool {
	_, aNumber := a.Double()
	_, bNumber := b.Double()
	return a.Kind() == b.Kind() || aNumber && bNumber
}

func (n treeNode) EditAttributes(c *Request, at *Place, edits []AttributeEdit) error {
	sorted, err := sortTreeEdits(edits)
	if err != nil {
		return err
	}
	if err := c.Require(besideNeeds(at.Chain(c), edits)); err != nil {
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
			c.Warn(r.Warnings())
			return []pooltree.Edit{pooltree.SetTree{Config: next}}, r.Problems().Err()
		}
		if err := c.EditTree(at.Path(), n.tree.Name, plan); err != nil {
			return err
		}
		c.AfterCommit(func() { c.warnOfHeldFilter(n.tree.Name) })
	}
	return c.editBeside(at.Path(), "#"+n.tree.Object.ID.String(), sorted.beside)
}

// warnOfHeldFilter warns that the stored node filter of a tree is not in force.
func (c *Request) warnOfHeldFilter(name string) {
	tree, there := c.Server.Trees().Find(name)
	if !there {
		return
	}
	if used, held := tree.HeldFilter(); held {
		c.Warn(document.Problems{{Path: "nodes_filter", Rule: pooltree.RuleIneffective, Message: fmt.Sprintf(
			"is stored but not in force: with it pool trees would share nodes; %q stays in force", used)}})
	}
}

func (n treeNode) Remove(c *Request, at *Place, _ bool) error {
	name := n.tree.Name
	gone := []string{"#" + n.tree.Object.ID.String()}
	err := c.EditTrees(at.Path(), func(trees *server.Trees) (*server.Trees, error) {
		tree, err := findTree(trees, name)
		if err != nil {
			return nil, err
		}
		var below []auth.Chain
		for pool := range tree.Tree.Pools() {
			below = append(below, c.ChainOfPool(tree, pool.Name()))
			gone = append(gone, "#"+tree.Pool(pool.Name()).ID.String())
		}
		if err := c.Require(auth.RemovePool(c.TreeChain(tree), below...)); err != nil {
			return nil, err
		}
		return trees.Remove(name), nil
	})
	if err != nil {
		return err
	}
	return c.forgetBeside(at.Path(), &gone)
}
