package pathtree

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

// EditTree changes one tree: the closure gets the current tree and returns edits, which are
// validated together and applied entirely or not at all. The closure checks permissions itself.
func (c *Request) EditTree(object, name string, plan func(tree *server.TreeConfig) ([]pooltree.Edit, error)) error {
	return c.EditTrees(object, func(trees *server.Trees) (*server.Trees, error) {
		tree, err := findTree(trees, name)
		if err != nil {
			return nil, err
		}
		edits, err := plan(tree)
		if err != nil {
			return nil, respelled(err, c.spelling)
		}
		if slices.ContainsFunc(edits, addsPools) {
			most, err := c.maxSubtreeSize()
			if err != nil {
				return nil, err
			}
			edits = append([]pooltree.Edit{pooltree.LimitSubtrees{MaxSubtreeSize: most}}, edits...)
		}
		next, warnings, err := tree.Tree.With(edits...)
		if err != nil {
			return nil, respelled(err, c.spelling)
		}
		if err := c.RequirePassages(tree, next); err != nil {
			return nil, err
		}
		c.Warn(warnings)
		changed := trees.Put(name, next)
		for _, edit := range edits {
			if rename, ok := edit.(pooltree.RenamePool); ok {
				changed = changed.Rename(name, rename.Pool, rename.Name)
			}
		}
		return changed, nil
	})
}

// addsPools reports whether an edit may make a subtree larger.
func addsPools(edit pooltree.Edit) bool {
	switch edit.(type) {
	case pooltree.AddPool, pooltree.MovePool:
		return true
	}
	return false
}

// optionEdits are edits of a pool's or tree's attributes, sorted by destination.
type optionEdits struct {
	options []AttributeEdit // by primary name, unknown ones included
	beside  []AttributeEdit
	// name and parent are a pool's new ones, nil if they do not change.
	name, parent *string
	// spelling has the names that the user wrote, by primary name.
	spelling map[string]string
}

// sortPoolEdits sorts edits and refuses attributes that cannot be set on a pool.
func (c *Request) sortPoolEdits(edits []AttributeEdit) (out optionEdits, err error) {
	spelling := map[string]string{}
	c.spelling, out.spelling = spelling, spelling
	for _, e := range edits {
		switch {
		case isAccessAttribute(e.Name):
			out.beside = append(out.beside, e)
		case e.Name == "name" || e.Name == "parent_name":
			text, err := e.text()
			if err != nil {
				return out, err
			}
			if e.Name == "name" {
				out.name = &text
			} else {
				out.parent = &text
			}
		case isFixed(e.Name) || e.Name == "pool_tree" || e.Name == "pools":
			return out, cannotSet(e.Name)
		default:
			if option, known := pooltree.PoolOptions.Resolve(e.Name); known {
				if first, twice := spelling[option]; twice && first != e.Name {
					return out, twoAliases(first, e.Name)
				}
				spelling[option] = e.Name
				e.Name, e.Steps = option, normalSteps(e.Steps)
			}
			out.options = append(out.options, e)
		}
	}
	return out, nil
}

// text is the string that an attribute is set to.
func (e AttributeEdit) text() (string, error) {
	if len(e.Steps) > 0 {
		return "", cannotSet(e.Name)
	}
	n, keep, err := e.Edit(yson.Entity(), true)
	if err != nil {
		return "", err
	}
	text, ok := n.Text()
	if !keep || !ok {
		return "", wire.Errorf(wire.CodeGeneric, "Attribute %q has invalid type: expected string, actual %s", e.Name, n.Kind())
	}
	return text, nil
}

// twoAliases is the error for an attribute that is set under two of its names.
func twoAliases(first, second string) *wire.Error {
	return wire.Errorf(wire.CodeGeneric, "Attempt to set the same attribute with different alias: %q and %q", first, second)
}

// applyPoolOptions applies edits to the configuration of a pool, as a document under the names
// that the user wrote. An option that is set under one name cannot be set under another, except
// for guarantees, whose two names are both in use.
func applyPoolOptions(config document.Value, sorted optionEdits) (document.Value, error) {
	for _, e := range sorted.options {
		key, known := e.Name, false
		if written, given := sorted.spelling[e.Name]; given {
			key, known = document.Normal(written), true
		}
		entry, there := pooltree.PoolOptions.Find(config, e.Name)
		if !known {
			entry.Key = e.Name
			entry.Value, there = config.Get(e.Name)
		}
		old := entry.Value
		if len(e.Steps) > 0 && !there && (!known || e.Name == "ephemeral_subpool_config") {
			word := "Attribute"
			if known {
				word = "Builtin attribute"
			}
			return config, wire.Errorf(wire.CodeResolve, "%s %q is not found", word, e.Name)
		}
		next, keep, err := e.on(true)(wire.FromDocument(old), there)
		if err != nil {
			return config, err
		}
		if there && keep && entry.Key != key && e.Name != "min_share_resources" {
			return config, twoAliases(entry.Key, key)
		}
		if there && (!keep || entry.Key != key) {
			config = config.Without(entry.Key)
		}
		if !keep {
			continue
		}
		value, err := wire.ToDocument(next)
		if err != nil {
			return config, err
		}
		config = config.With(key, value)
	}
	return config, nil
}

// readPool decodes the configuration of a pool; problems name the pool.
func (c *Request) readPool(name string, config document.Value) (pooltree.PoolConfig, error) {
	r := document.NewReader("")
	r.KeepUnknown = true
	r.Enter("pools/" + name)
	var out pooltree.PoolConfig
	pooltree.PoolOptions.Read(r, config, &out)
	r.Leave()
	c.Warn(r.Warnings())
	return out, r.Problems().Err()
}

func (n *poolNode) EditAttributes(c *Request, at *Place, edits []AttributeEdit) error {
	sorted, err := c.sortPoolEdits(edits)
	if err != nil {
		return err
	}
	name := n.pool.Name()
	if len(sorted.options) > 0 || sorted.name != nil || sorted.parent != nil {
		err = c.EditTree(at.Path(), n.tree.Name, func(tree *server.TreeConfig) ([]pooltree.Edit, error) {
			if err := c.Require(besideNeeds(c.ChainOfPool(tree, name), sorted.beside)); err != nil && len(sorted.beside) > 0 {
				return nil, err
			}
			return c.planPool(tree, name, sorted)
		})
	} else if len(sorted.beside) > 0 {
		err = c.Require(besideNeeds(at.Chain(c), sorted.beside))
	}
	if err != nil {
		return err
	}
	return c.editBeside(at.Path(), "#"+n.tree.Pool(name).ID.String(), sorted.beside)
}

// respelled replaces the primary names of options in problems with those that the user wrote.
func respelled(err error, spelling map[string]string) error {
	var problems document.Problems
	if !errors.As(err, &problems) {
		return err
	}
	out := slices.Clone(problems)
	for option, written := range spelling {
		if document.Normal(written) == option {
			continue
		}
		for i := range out {
			steps := strings.Split(out[i].Path, "/")
			for n, step := range steps {
				if step == option {
					steps[n] = written
				}
			}
			out[i].Path = strings.Join(steps, "/")
		}
	}
	return out
}

// planPool turns edits of a pool's attributes into edits of its tree.
func (c *Request) planPool(tree *server.TreeConfig, name string, sorted optionEdits) ([]pooltree.Edit, error) {
	pool, err := FindPool(tree, name)
	if err != nil {
		return nil, err
	}
	chain := c.ChainOfPool(tree, name)
	var plan []pooltree.Edit
	if len(sorted.options) > 0 {
		var options []string
		for _, e := range sorted.options {
			options = append(options, e.Name)
		}
		if err := c.Require(auth.SetPool(chain, options...)); err != nil {
			return nil, err
		}
		before := pool.Config()
		config, err := applyPoolOptions(pooltree.PoolOptions.WriteAsWritten(&before, document.ForPrograms), sorted)
		if err != nil {
			return nil, err
		}
		after, err := c.readPool(name, config)
		if err != nil {
			return nil, err
		}
		c.Warnings = slices.DeleteFunc(c.Warnings, func(p document.Problem) bool {
			// Problems of other options were reported when those were set.
			return !slices.ContainsFunc(options, func(option string) bool { return hasOption(p, option) })
		})
		plan = append(plan, pooltree.SetPool{Pool: name, Config: after})
	}
	if sorted.parent != nil {
		parent, err := FindPool(tree, *sorted.parent)
		if err != nil {
			return nil, err
		}
		if err := c.Require(auth.MovePool(chain, c.ChainOfPool(tree, parent.Name()))); err != nil {
			return nil, err
		}
		plan = append(plan, pooltree.MovePool{Pool: name, Parent: parent.Name()})
	}
	if sorted.name != nil {
		if err := c.Require(auth.RenamePool(chain)); err != nil {
			return nil, err
		}
	}
	if sorted.name != nil && *sorted.name != name {
		above, _ := pool.Parent()
		if err := c.checkNewPool(tree, above.Name(), *sorted.name); err != nil {
			return nil, err
		}
		plan = append(plan, pooltree.RenamePool{Pool: name, Name: *sorted.name})
	}
	return plan, nil
}

// hasOption reports whether a problem is about an option of a pool.
func hasOption(p document.Problem, option string) bool {
	steps, err := ypath.ParseSteps("/" + p.Path)
	return err != nil || slices.ContainsFunc(steps, func(s ypath.Step) bool {
		name, known := pooltree.PoolOptions.Resolve(s.Name)
		return known && name == option || document.Normal(s.Name) == option
	})
}

// checkNewPool refuses names that a new pool cannot have.
func (c *Request) checkNewPool(tree *server.TreeConfig, parent, name string) error {
	administrator := c.Require(auth.Requires(auth.Administer, c.TreeChain(tree))) == nil
	expression := "[-_.a-z0-9]+"
	if administrator {
		expression = "[-_.a-z0-9:A-Z]+"
	}
	switch {
	case name == pooltree.RootName:
		return wire.Errorf(wire.CodeGeneric, "Pool name cannot be equal to root pool name %q", pooltree.RootName)
	case len(name) > pooltree.DefaultLimits().MaxNameLength:
		return wire.Errorf(wire.CodeGeneric, "Pool name %q is too long: it has %d bytes, the limit is %d", wire.CutText(name, 100), len(name), pooltree.DefaultLimits().MaxNameLength)
	}
	if err := pooltree.CheckName(name, administrator); err != nil {
		return wire.Errorf(wire.CodeGeneric, "Pool name %q must match regular expression %q", wire.CutText(name, 100), expression).Because(err)
	}
	if other, taken := tree.Tree.Pool(name); taken {
		if above, _ := other.Parent(); above.Name() == parent {
			return alreadyHasChild(tree.Name, parent, name)
		}
		return wire.Errorf(wire.CodeAlreadyExists, "Pool tree %q already contains pool with name %q", tree.Name, name)
	}
	return nil
}

func makePool(c *Request, attributes yson.Node, ignoreExisting bool) (guid.ID, error) {
	tree, err := PoolPlaceOf(c, attributes)
	if err != nil {
		return guid.ID{}, err
	}
	sorted, err := c.sortPoolEdits(EditsOf(attributes.Without("pool_tree")))
	if err != nil {
		return guid.ID{}, err
	}
	if sorted.name == nil {
		return guid.ID{}, wire.Errorf(wire.CodeGeneric, "Attribute \"name\" is required to create a pool, or a path such as //sys/pools/NAME")
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

// addPools creates a pool under the last of the names, and empty pools under the names in front of
// it, each below the previous one.
func (c *Request) addPools(treeName, parent string, names []string, sorted optionEdits) (guid.ID, error) {
	last := names[len(names)-1]
	object := JoinPath(JoinPath(PoolTreesPath, treeName), last)
	plan := func(tree *server.TreeConfig) ([]pooltree.Edit, error) {
		above, err := FindPool(tree, parent)
		if err != nil {
			return nil, err
		}
		var options []string
		for _, e := range slices.Concat(sorted.options, sorted.beside) {
			options = append(options, e.Name)
		}
		if err := c.Require(auth.CreatePool(c.ChainOfPool(tree, above.Name()), options...)); err != nil {
			return nil, err
		}
		var plan []pooltree.Edit
		below := above.Name()
		for i, name := range names {
			if err := c.checkNewPool(tree, below, name); err != nil {
				return nil, err
			}
			add := pooltree.AddPool{Pool: name, Parent: below}
			if i == len(names)-1 {
				config, err := applyPoolOptions(document.Map(), sorted)
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
	if err := c.EditTree(object, treeName, plan); err != nil {
		return guid.ID{}, err
	}
	id := NewID(guid.Pool)
	err := c.EditTrees(object, func(trees *server.Trees) (*server.Trees, error) { return trees.Identify(treeName, last, id), nil })
	if err != nil {
		return guid.ID{}, err
	}
	c.Remembered = id.String()
	return id, c.editBeside(object, "#"+id.String(), sorted.beside)
}

func (n treeNode) Create(c *Request, _ *Place, keys []string, what Creation) (guid.ID, error) {
	return c.createPools(n.tree.Name, pooltree.RootName, keys, what)
}

func (n *poolNode) Create(c *Request, _ *Place, keys []string, what Creation) (guid.ID, error) {
	return c.createPools(n.tree.Name, n.pool.Name(), keys, what)
}

// alreadyHasChild is the error for a second pool of one name below a parent.
func alreadyHasChild(tree, parent, name string) *wire.Error {
	if parent == pooltree.RootName || parent == "" {
		return wire.Errorf(wire.CodeAlreadyExists, "Scheduler pool tree %q already has a child %q", tree, name)
	}
	return wire.Errorf(wire.CodeAlreadyExists, "Scheduler pool %q already has a child %q", parent, name)
}

// createPools creates pools at paths, as clients did before pools were objects.
func (c *Request) createPools(tree, parent string, keys []string, what Creation) (guid.ID, error) {
	if what.Kind != "scheduler_pool" && what.Kind != "map_node" {
		return guid.ID{}, wire.Errorf(wire.CodeGeneric, "Only pools can be created in a pool tree, not %q", wire.CutText(what.Kind, 100))
	}
	if what.Replace {
		return guid.ID{}, alreadyHasChild(tree, parent, keys[len(keys)-1])
	}
	if len(what.Value.Entries()) > 0 {
		return guid.ID{}, wire.Errorf(wire.CodeGeneric, "A pool has no value: set its attributes")
	}
	sorted, err := c.sortPoolEdits(EditsOf(what.Attributes))
	if err != nil {
		return guid.ID{}, err
	}
	if sorted.name != nil && *sorted.name != keys[len(keys)-1] || sorted.parent != nil {
		return guid.ID{}, wire.Errorf(wire.CodeGeneric, "The path determines the name and the parent of the pool")
	}
	return c.addPools(tree, parent, keys, sorted)
}

func (n *poolNode) Remove(c *Request, at *Place, _ bool) error {
	name := n.pool.Name()
	var gone []string
	err := c.EditTree(at.Path(), n.tree.Name, func(tree *server.TreeConfig) ([]pooltree.Edit, error) {
		pool, err := FindPool(tree, name)
		if err != nil {
			return nil, err
		}
		gone = []string{"#" + tree.Pool(name).ID.String()}
		c.warnOfOperations(n.tree.Name, name)
		var below []auth.Chain
		for _, child := range poolsBelow(pool) {
			c.warnOfOperations(n.tree.Name, child.Name())
			below = append(below, c.ChainOfPool(tree, child.Name()))
			gone = append(gone, "#"+tree.Pool(child.Name()).ID.String())
		}
		if err := c.Require(auth.RemovePool(c.ChainOfPool(tree, name), below...)); err != nil {
			return nil, err
		}
		return []pooltree.Edit{pooltree.RemovePool{Pool: name, Recursive: true}}, nil
	})
	if err != nil {
		return err
	}
	return c.forgetBeside(at.Path(), &gone)
}

// warnOfOperations warns that a pool which is removed stays for its operations.
func (c *Request) warnOfOperations(tree, pool string) {
	live, known := c.Server.View().Tree(tree)
	if !known {
		return
	}
	if p, known := live.Pool(pool); known && p.DirectOperations > 0 {
		c.Warn(document.Problems{{Rule: pooltree.RuleIneffective, Message: fmt.Sprintf(
			"pool %q has operations (%d): it stays as an ephemeral pool, without its options, until they end", pool, p.DirectOperations)}})
	}
}

func poolsBelow(p *pooltree.Pool) (list []*pooltree.Pool) {
	for _, child := range p.Children() {
		list = append(append(list, child), poolsBelow(child)...)
	}
	return list
}

// forgetBeside deletes the data stored beside removed objects. The edit of the trees that removes
// them lists their keys.
func (c *Request) forgetBeside(object string, keys *[]string) error {
	return c.EditRegistry(object, func(r *server.Registry) (*store.Batch, error) {
		batch := &store.Batch{}
		for _, key := range *keys {
			if _, there := r.ACL(key); there {
				batch.Delete.ACLs = append(batch.Delete.ACLs, store.ACL{Path: key})
			}
		}
		return batch, nil
	})
}

// Move makes a pool, with everything below, a child of another pool or tree, under the last of the
// keys, below new pools under the keys in front of it. A copy is a new pool with the same options and
// no children.
func (n *poolNode) Move(c *Request, at *Place, to *Place, keys []string, copying bool) (guid.ID, error) {
	name, parent, tree := n.pool.Name(), pooltree.RootName, ""
	switch above := to.Object.(type) {
	case treeNode:
		tree = above.tree.Name
	case *poolNode:
		tree, parent = above.tree.Name, above.pool.Name()
	}
	if tree == "" {
		return guid.ID{}, wire.Errorf(wire.CodeGeneric, "A pool can be moved only to a pool or a pool tree")
	}
	if copying {
		if len(n.pool.Children()) > 0 {
			return guid.ID{}, wire.Errorf(wire.CodeGeneric, "Pool %q cannot be copied: it has subpools, whose names are unique in a tree", name)
		}
		sorted, err := c.sortPoolEdits(EditsOf(wire.FromDocument(n.config())))
		if err != nil {
			return guid.ID{}, err
		}
		return c.addPools(tree, parent, keys, sorted)
	}
	before, key := keys[:len(keys)-1], keys[len(keys)-1]
	if len(before) > 0 {
		if _, err := c.addPools(tree, parent, before, optionEdits{}); err != nil {
			return guid.ID{}, err
		}
		parent = before[len(before)-1]
	}
	id := n.tree.Pool(name).ID
	c.Remembered = id.String()
	if tree != n.tree.Name {
		return id, c.moveToTree(at, n, tree, parent, key)
	}
	return id, c.EditTree(at.Path(), tree, func(current *server.TreeConfig) ([]pooltree.Edit, error) {
		sorted := optionEdits{name: &key}
		if above, _ := n.pool.Parent(); above.Name() != parent {
			sorted.parent = &parent
		}
		return c.planPool(current, name, sorted)
	})
}
