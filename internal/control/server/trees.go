package server

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/nodefilter"
)

// Trees is the configuration of all pool trees. It is immutable.
type Trees struct {
	Default string
	List    []TreeConfig
	// templates have values for options that trees do not set. They are settings of the
	// scheduler and not stored with the trees.
	templates pooltree.Templates
}

// clone returns a copy whose trees can be replaced.
func (t *Trees) clone() *Trees {
	next := *t
	next.List = slices.Clone(t.List)
	return &next
}

// Options returns how a tree of this name is read.
func (t *Trees) Options(name string) pooltree.Options {
	return pooltree.Options{KeepUnknown: true, Template: pooltree.FromTemplates(t.templates, name)}
}

// withTemplates returns the trees with other templates. A tree that would not be valid keeps the
// previous ones and is reported.
func (t *Trees) withTemplates(templates pooltree.Templates) (next *Trees, problems []string) {
	next = t.clone()
	next.templates = templates
	for i := range next.List {
		tree := &next.List[i]
		changed, err := tree.Tree.WithTemplate(pooltree.FromTemplates(templates, tree.Name))
		if err != nil {
			problems = append(problems, templateProblem(tree.Name, err))
			continue
		}
		tree.Tree = changed
	}
	return next, problems
}

func templateProblem(tree string, err error) string {
	return fmt.Sprintf("Pool tree %q does not follow template_pool_tree_config_map, because it would not be valid: %v", tree, err)
}

// TreeConfig is one tree with its pools. It keeps unknown options.
type TreeConfig struct {
	Name    string
	Tree    *pooltree.Tree
	Object  Object
	objects map[string]Object
	// inForce is the node filter that the scheduler uses instead of the stored one, which
	// would put a node into two trees. It is nil if the stored one is in force.
	inForce *nodefilter.Filter
}

// Object holds what every object of the path tree has.
type Object struct {
	ID      guid.ID   `json:"id"`
	Created time.Time `json:"created"`
	Changed time.Time `json:"changed,omitzero"`
	// Order is the position among siblings after a restart: the order of creation.
	Order int `json:"order"`
}

// Pool returns the object of a pool.
func (t *TreeConfig) Pool(name string) Object { return t.objects[name] }

// Find returns the tree with this name.
func (t *Trees) Find(name string) (*TreeConfig, bool) {
	for i := range t.List {
		if t.List[i].Name == name {
			return &t.List[i], true
		}
	}
	return nil, false
}

// Put returns a configuration in which the named tree has this value; a new name adds a
// tree.
func (t *Trees) Put(name string, tree *pooltree.Tree) *Trees {
	next := t.clone()
	if old, there := next.Find(name); there {
		old.Tree = tree
		return next
	}
	next.List = append(next.List, TreeConfig{Name: name, Tree: tree})
	return next
}

// Remove returns a configuration without a tree.
func (t *Trees) Remove(name string) *Trees {
	next := t.clone()
	next.List = slices.DeleteFunc(next.List, func(tree TreeConfig) bool { return tree.Name == name })
	if next.Default == name {
		next.Default = ""
	}
	return next
}

// Rename returns a configuration in which a pool keeps its identity under another name.
// The tree must already have the new name.
func (t *Trees) Rename(tree, from, to string) *Trees {
	next := t.clone()
	if config, there := next.Find(tree); there {
		config.objects = maps.Clone(config.objects)
		config.objects[to] = config.objects[from]
		delete(config.objects, from)
	}
	return next
}

// Identify returns a configuration in which a new pool has this identity, or a new tree
// if the pool is empty. Without it, the server assigns identities to new objects.
func (t *Trees) Identify(tree, pool string, id guid.ID) *Trees {
	next := t.clone()
	config, there := next.Find(tree)
	switch {
	case !there:
	case pool == "":
		config.Object = Object{ID: id}
	default:
		config.objects = maps.Clone(config.objects)
		if config.objects == nil {
			config.objects = map[string]Object{}
		}
		config.objects[pool] = Object{ID: id}
	}
	return next
}

// Caller is the author of a change, for the audit.
type Caller struct {
	User    string
	Command string
	Object  string
	Request string
	// Mutation identifies the request so that it is carried out once: a repeated
	// request is answered from the store. It may be empty.
	Mutation string
}

// ErrTreeInUse is returned when a tree that has operations is removed.
var ErrTreeInUse = errors.New("the pool tree has operations")

// treeSlots keeps the order of trees in the core, which keeps the slots of removed
// trees.
type treeSlots struct{ names []string }

// arrange returns the trees in the core's order. An empty tree without nodes fills the
// slot of a removed one.
func (p *treeSlots) arrange(t *Trees, busy func(tree string) bool) ([]document.Named[*pooltree.Tree], error) {
	var list []document.Named[*pooltree.Tree]
	for _, name := range p.names {
		if tree, there := t.Find(name); there {
			list = append(list, document.Named[*pooltree.Tree]{Name: name, Value: tree.inCore()})
			continue
		}
		if busy(name) {
			return nil, fmt.Errorf("pool tree %s: %w", name, ErrTreeInUse)
		}
		empty, _, err := pooltree.FromValue(document.Map(document.Pair("nodes_filter", document.Text("%false"))), pooltree.Options{})
		if err != nil {
			return nil, err
		}
		list = append(list, document.Named[*pooltree.Tree]{Name: name, Value: empty})
	}
	for _, tree := range t.List {
		if !slices.Contains(p.names, tree.Name) {
			list = append(list, document.Named[*pooltree.Tree]{Name: tree.Name, Value: tree.inCore()})
		}
	}
	return list, nil
}

func (p *treeSlots) commit(list []document.Named[*pooltree.Tree]) {
	p.names = p.names[:0]
	for _, named := range list {
		p.names = append(p.names, named.Name)
	}
}

// hasOperations reports whether operations run in a tree.
func (t *term) hasOperations(tree string) bool {
	for _, op := range t.operations {
		for _, place := range op.record.Places {
			if place.Tree == tree {
				return true
			}
		}
	}
	return false
}
