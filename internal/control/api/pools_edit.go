package api

import (
	"slices"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

// editTree changes one tree: the closure gets the tree as it is now and returns
// edits, which are validated together and applied entirely or not at all. It asks
// for permissions itself.
func (c *call) editTree(object, name string, plan func(tree *server.TreeConfig) ([]pooltree.Edit, error)) error {
	return c.editTrees(object, func(trees *server.Trees) (*server.Trees, error) {
		tree, err := findTree(trees, name)
		if err != nil {
			return nil, err
		}
		edits, err := plan(tree)
		if err != nil {
			return nil, err
		}
		next, warnings, err := tree.Tree.With(edits...)
		if err != nil {
			return nil, err
		}
		if err := c.requireImplied(tree.Tree, next, c.treeChain(tree)); err != nil {
			return nil, err
		}
		c.warn(warnings)
		changed := trees.Put(name, next)
		for _, edit := range edits {
			if rename, ok := edit.(pooltree.RenamePool); ok {
				changed = changed.Rename(name, rename.Pool, rename.Name)
			}
		}
		return changed, nil
	})
}

// editTrees changes the configuration of trees.
func (c *call) editTrees(object string, edit func(*server.Trees) (*server.Trees, error)) error {
	return c.server.EditTrees(c.ctx, c.caller(object), edit)
}

// optionEdits are edits of attributes of a pool or tree, sorted by where they go.
type optionEdits struct {
	options []attributeEdit // by primary names, unknown ones too
	beside  []attributeEdit
	// name and parent are the new ones of a pool, nil if they stay.
	name, parent *string
}

// sortPoolEdits refuses what cannot be set on a pool.
func sortPoolEdits(edits []attributeEdit) (out optionEdits, err error) {
	spelling := map[string]string{}
	for _, e := range edits {
		switch {
		case isAccessAttribute(e.name):
			out.beside = append(out.beside, e)
		case e.name == "name" || e.name == "parent_name":
			text, err := e.text()
			if err != nil {
				return out, err
			}
			if e.name == "name" {
				out.name = &text
			} else {
				out.parent = &text
			}
		case isFixed(e.name) || e.name == "pool_tree" || e.name == "pools":
			return out, cannotSet(e.name)
		default:
			if option, known := pooltree.PoolOptions.Resolve(e.name); known {
				if first, twice := spelling[option]; twice && first != e.name {
					return out, errorf(codeGeneric, "Attempt to set the same attribute with different alias: %q and %q", first, e.name)
				}
				spelling[option] = e.name
				e.name, e.steps = option, normalSteps(e.steps)
			}
			out.options = append(out.options, e)
		}
	}
	return out, nil
}

// text is the string that an attribute is set to.
func (e attributeEdit) text() (string, error) {
	if len(e.steps) > 0 {
		return "", cannotSet(e.name)
	}
	n, keep, err := e.edit(yson.Entity(), true)
	if err != nil {
		return "", err
	}
	text, ok := n.Text()
	if !keep || !ok {
		return "", errorf(codeGeneric, "Attribute %q has invalid type: expected string, actual %s", e.name, n.Kind())
	}
	return text, nil
}

// applyOptions makes edits of a configuration that is written as a document.
func applyOptions(config document.Value, edits []attributeEdit, knows func(string) bool) (document.Value, error) {
	for _, e := range edits {
		old, there := config.Get(e.name)
		known := knows(e.name)
		if len(e.steps) > 0 && !there && (!known || e.name == "ephemeral_subpool_config") {
			word := "Attribute"
			if known {
				word = "Builtin attribute"
			}
			return config, errorf(codeResolve, "%s %q is not found", word, e.name)
		}
		next, keep, err := e.on(true)(fromDocument(old), there)
		if err != nil {
			return config, err
		}
		if !keep {
			config = config.Without(e.name)
			continue
		}
		value, err := toDocument(next)
		if err != nil {
			return config, err
		}
		config = config.With(e.name, value)
	}
	return config, nil
}

// readPool reads a configuration of a pool; problems name the pool.
func (c *call) readPool(name string, config document.Value) (pooltree.PoolConfig, error) {
	r := document.NewReader("")
	r.KeepUnknown = true
	r.Enter("pools/" + name)
	var out pooltree.PoolConfig
	pooltree.PoolOptions.Read(r, config, &out)
	r.Leave()
	c.warn(r.Warnings())
	return out, r.Problems().Err()
}

func (n *poolNode) editAttributes(c *call, at *place, edits []attributeEdit) error {
	sorted, err := sortPoolEdits(edits)
	if err != nil {
		return err
	}
	name := n.pool.Name()
	if len(sorted.options) > 0 || sorted.name != nil || sorted.parent != nil {
		err = c.firstIf(len(sorted.beside) > 0, func() error {
			return c.editTree(at.path(), n.tree.Name, func(tree *server.TreeConfig) ([]pooltree.Edit, error) {
				if err := c.require(besideNeeds(c.chainOfPool(tree, name), sorted.beside)); err != nil && len(sorted.beside) > 0 {
					return nil, err
				}
				return c.planPool(tree, name, sorted)
			})
		})
	} else if len(sorted.beside) > 0 {
		err = c.require(besideNeeds(at.chain(c), sorted.beside))
	}
	if err != nil {
		return err
	}
	return c.editBeside(at.path(), "#"+n.tree.Pool(name).ID.String(), sorted.beside)
}

// planPool are the edits of a tree that edits of attributes of a pool mean.
func (c *call) planPool(tree *server.TreeConfig, name string, sorted optionEdits) ([]pooltree.Edit, error) {
	pool, err := findPool(tree, name)
	if err != nil {
		return nil, err
	}
	chain := c.chainOfPool(tree, name)
	var plan []pooltree.Edit
	if len(sorted.options) > 0 {
		var options []string
		for _, e := range sorted.options {
			options = append(options, e.name)
		}
		if err := c.require(auth.SetPool(chain, options...)); err != nil {
			return nil, err
		}
		before := pool.Config()
		config, err := applyOptions(pooltree.PoolOptions.Write(&before, document.ForPrograms), sorted.options, (*poolNode)(nil).knows)
		if err != nil {
			return nil, err
		}
		after, err := c.readPool(name, config)
		if err != nil {
			return nil, err
		}
		c.warnings = slices.DeleteFunc(c.warnings, func(p document.Problem) bool {
			// Others were told when those were set.
			return !slices.ContainsFunc(options, func(option string) bool { return hasOption(p, option) })
		})
		plan = append(plan, pooltree.SetPool{Pool: name, Config: after})
	}
	if sorted.parent != nil {
		parent, err := findPool(tree, *sorted.parent)
		if err != nil {
			return nil, err
		}
		if err := c.require(auth.MovePool(chain, c.chainOfPool(tree, parent.Name()))); err != nil {
			return nil, err
		}
		plan = append(plan, pooltree.MovePool{Pool: name, Parent: parent.Name()})
	}
	if sorted.name != nil {
		if err := c.require(auth.RenamePool(chain)); err != nil {
			return nil, err
		}
	}
	if sorted.name != nil && *sorted.name != name {
		if err := c.checkNewPool(tree, *sorted.name); err != nil {
			return nil, err
		}
		plan = append(plan, pooltree.RenamePool{Pool: name, Name: *sorted.name})
	}
	return plan, nil
}

// hasOption says whether a problem is about an option of a pool.
func hasOption(p document.Problem, option string) bool {
	steps, err := ypath.ParseSteps("/" + p.Path)
	return err != nil || slices.ContainsFunc(steps, func(s ypath.Step) bool { return document.Normal(s.Name) == option })
}

// checkNewPool refuses names that a new pool cannot have.
func (c *call) checkNewPool(tree *server.TreeConfig, name string) error {
	administrator := c.require(auth.Requires(auth.Administer, c.treeChain(tree))) == nil
	expression := "[-_.a-z0-9]+"
	if administrator {
		expression = "[-_.a-z0-9:A-Z]+"
	}
	switch {
	case name == pooltree.RootName:
		return errorf(codeGeneric, "Pool name cannot be equal to root pool name %q", pooltree.RootName)
	case len(name) > pooltree.DefaultLimits().MaxNameLength:
		return errorf(codeGeneric, "Pool name %q is too long: it has %d bytes, the most is %d", cutText(name, 100), len(name), pooltree.DefaultLimits().MaxNameLength)
	}
	if err := pooltree.CheckName(name, administrator); err != nil {
		return errorf(codeGeneric, "Pool name %q must match regular expression %q", cutText(name, 100), expression).because(err)
	}
	if _, taken := tree.Tree.Pool(name); taken {
		return errorf(codeAlreadyExists, "Pool tree %q already contains pool with name %q", tree.Name, name)
	}
	return nil
}

func makePool(c *call, attributes yson.Node, ignoreExisting bool) (guid.ID, error) {
	tree, err := poolPlaceOf(c, attributes)
	if err != nil {
		return guid.ID{}, err
	}
	sorted, err := sortPoolEdits(editsOf(attributes.Without("pool_tree")))
	if err != nil {
		return guid.ID{}, err
	}
	if sorted.name == nil {
		return guid.ID{}, errorf(codeGeneric, "Attribute \"name\" is needed to create a pool, or a path such as //sys/pools/NAME")
	}
	parent := pooltree.RootName
	if sorted.parent != nil {
		parent = *sorted.parent
	}
	if pool, there := tree.Tree.Pool(*sorted.name); there && ignoreExisting && !pool.IsRoot() {
		return tree.Pool(pool.Name()).ID, nil
	}
	return c.addPools(tree.Name, parent, []string{*sorted.name}, sorted)
}

// addPools makes a pool under the last of the names, with empty ones before it,
// each below the one before.
func (c *call) addPools(treeName, parent string, names []string, sorted optionEdits) (guid.ID, error) {
	last := names[len(names)-1]
	object := joinPath(joinPath(poolTreesPath, treeName), last)
	plan := func(tree *server.TreeConfig) ([]pooltree.Edit, error) {
		above, err := findPool(tree, parent)
		if err != nil {
			return nil, err
		}
		var options []string
		for _, e := range slices.Concat(sorted.options, sorted.beside) {
			options = append(options, e.name)
		}
		if err := c.require(auth.CreatePool(c.chainOfPool(tree, above.Name()), options...)); err != nil {
			return nil, err
		}
		var plan []pooltree.Edit
		below := above.Name()
		for i, name := range names {
			if err := c.checkNewPool(tree, name); err != nil {
				return nil, err
			}
			add := pooltree.AddPool{Pool: name, Parent: below}
			if i == len(names)-1 {
				config, err := applyOptions(document.Map(), sorted.options, (*poolNode)(nil).knows)
				if err != nil {
					return nil, err
				}
				if add.Config, err = c.readPool(name, config); err != nil {
					return nil, err
				}
			}
			plan = append(plan, add)
			below = name
		}
		return plan, nil
	}
	err := c.firstIf(len(sorted.beside) > 0, func() error { return c.editTree(object, treeName, plan) })
	if err != nil {
		return guid.ID{}, err
	}
	id, err := c.poolID(treeName, last)
	if err != nil {
		return id, err
	}
	c.remembered = id.String()
	return id, c.editBeside(object, "#"+id.String(), sorted.beside)
}

func (n treeNode) create(c *call, _ *place, keys []string, what creation) (guid.ID, error) {
	return c.createPools(n.tree.Name, pooltree.RootName, keys, what)
}

func (n *poolNode) create(c *call, _ *place, keys []string, what creation) (guid.ID, error) {
	return c.createPools(n.tree.Name, n.pool.Name(), keys, what)
}

// createPools makes pools at paths, as people did before pools were objects.
func (c *call) createPools(tree, parent string, keys []string, what creation) (guid.ID, error) {
	if what.kind != "scheduler_pool" && what.kind != "map_node" {
		return guid.ID{}, errorf(codeGeneric, "Only pools can be created in a pool tree, not %q", cutText(what.kind, 100))
	}
	if what.replace {
		return guid.ID{}, errorf(codeAlreadyExists, "Scheduler pool tree %q already has a child %q", tree, keys[len(keys)-1])
	}
	if len(what.value.Entries()) > 0 {
		return guid.ID{}, errorf(codeGeneric, "A pool has no value: set its attributes")
	}
	sorted, err := sortPoolEdits(editsOf(what.attributes))
	if err != nil {
		return guid.ID{}, err
	}
	if sorted.name != nil && *sorted.name != keys[len(keys)-1] || sorted.parent != nil {
		return guid.ID{}, errorf(codeGeneric, "Name and parent of the pool follow from its path")
	}
	return c.addPools(tree, parent, keys, sorted)
}

func (n *poolNode) remove(c *call, at *place, _ bool) error {
	name := n.pool.Name()
	var gone []string
	err := c.editTree(at.path(), n.tree.Name, func(tree *server.TreeConfig) ([]pooltree.Edit, error) {
		pool, err := findPool(tree, name)
		if err != nil {
			return nil, err
		}
		gone = []string{"#" + tree.Pool(name).ID.String()}
		var below []auth.Chain
		for _, child := range poolsBelow(pool) {
			below = append(below, c.chainOfPool(tree, child.Name()))
			gone = append(gone, "#"+tree.Pool(child.Name()).ID.String())
		}
		if err := c.require(auth.RemovePool(c.chainOfPool(tree, name), below...)); err != nil {
			return nil, err
		}
		return []pooltree.Edit{pooltree.RemovePool{Pool: name, Recursive: true}}, nil
	})
	if err != nil {
		return err
	}
	return c.forgetBeside(at.path(), gone)
}

func poolsBelow(p *pooltree.Pool) (list []*pooltree.Pool) {
	for _, child := range p.Children() {
		list = append(append(list, child), poolsBelow(child)...)
	}
	return list
}

// forgetBeside deletes what was stored beside objects that are gone.
func (c *call) forgetBeside(object string, keys []string) error {
	batch := &store.Batch{}
	for _, key := range keys {
		if _, there := c.server.Registry().ACL(key); there {
			batch.Delete.ACLs = append(batch.Delete.ACLs, store.ACL{Path: key})
		}
	}
	if batch.Empty() {
		return nil
	}
	return c.editRegistry(object, func(*server.Registry) (*store.Batch, error) { return batch, nil })
}

// move makes a pool a child of another one of its tree, under a name. A copy is a
// new pool with the same options and nothing below it.
func (n *poolNode) move(c *call, at *place, to *place, key string, copying bool) (guid.ID, error) {
	name, parent, tree := n.pool.Name(), pooltree.RootName, ""
	switch above := to.object.(type) {
	case treeNode:
		tree = above.tree.Name
	case *poolNode:
		tree, parent = above.tree.Name, above.pool.Name()
	}
	if tree != n.tree.Name && !copying || tree == "" {
		return guid.ID{}, errorf(codeGeneric, "A pool can be moved only inside its pool tree %q", n.tree.Name)
	}
	if copying {
		if len(n.pool.Children()) > 0 {
			return guid.ID{}, errorf(codeGeneric, "Pool %q cannot be copied: it has subpools, whose names are unique in a tree", name)
		}
		return c.addPools(tree, parent, []string{key}, optionEdits{options: editsOf(fromDocument(n.config()))})
	}
	err := c.editTree(at.path(), tree, func(current *server.TreeConfig) ([]pooltree.Edit, error) {
		sorted := optionEdits{name: &key}
		if above, _ := n.pool.Parent(); above.Name() != parent {
			sorted.parent = &parent
		}
		return c.planPool(current, name, sorted)
	})
	if err != nil {
		return guid.ID{}, err
	}
	return c.poolID(tree, key)
}
