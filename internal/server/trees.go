package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/document"
	"github.com/weirhq/weir/internal/guid"
	"github.com/weirhq/weir/internal/pooltree"
	"github.com/weirhq/weir/internal/store"
)

// Trees is the configuration of all pool trees. It is immutable.
type Trees struct {
	Default string
	List    []TreeConfig
}

// TreeConfig is one tree with its pools. Options that nobody knows are kept in
// it.
type TreeConfig struct {
	Name    string
	Tree    *pooltree.Tree
	Object  Object
	objects map[string]Object
}

// Object is what every object of the tree of paths has.
type Object struct {
	ID      guid.ID   `json:"id"`
	Created time.Time `json:"created"`
	Changed time.Time `json:"changed,omitzero"`
	// Order is the place among siblings after a restart: that of their creation.
	Order int `json:"order"`
}

// Pool returns the object of a pool.
func (t *TreeConfig) Pool(name string) Object { return t.objects[name] }

// Find returns a tree by its name.
func (t *Trees) Find(name string) (*TreeConfig, bool) {
	for i := range t.List {
		if t.List[i].Name == name {
			return &t.List[i], true
		}
	}
	return nil, false
}

// Put returns a configuration in which a tree has this value; a new name makes a
// new tree.
func (t *Trees) Put(name string, tree *pooltree.Tree) *Trees {
	next := &Trees{Default: t.Default, List: slices.Clone(t.List)}
	if old, there := next.Find(name); there {
		old.Tree = tree
		return next
	}
	next.List = append(next.List, TreeConfig{Name: name, Tree: tree})
	return next
}

// Remove returns a configuration without a tree.
func (t *Trees) Remove(name string) *Trees {
	next := &Trees{Default: t.Default}
	for _, tree := range t.List {
		if tree.Name != name {
			next.List = append(next.List, tree)
		}
	}
	if next.Default == name {
		next.Default = ""
	}
	return next
}

// Rename returns a configuration in which a pool keeps its identity under
// another name; the tree has it under the new name already.
func (t *Trees) Rename(tree, from, to string) *Trees {
	next := &Trees{Default: t.Default, List: slices.Clone(t.List)}
	if config, there := next.Find(tree); there {
		config.objects = maps.Clone(config.objects)
		config.objects[to] = config.objects[from]
		delete(config.objects, from)
	}
	return next
}

// storedPool are the attributes of a row; those of a tree are an Object.
type storedPool struct {
	Object
	Config json.RawMessage `json:"config"`
}

// defaultTreeSetting is the row that names the default tree.
const defaultTreeSetting = "default_tree"

// treeRows writes a configuration as rows.
func treeRows(t *Trees) (store.Rows, error) {
	var rows store.Rows
	for _, tree := range t.List {
		config, err := tree.Tree.Document(document.ForPrograms).Without("pools").JSON("")
		if err != nil {
			return rows, err
		}
		attributes, err := json.Marshal(tree.Object)
		if err != nil {
			return rows, err
		}
		rows.Trees = append(rows.Trees, store.Tree{Name: tree.Name, Config: config, Attributes: attributes})
		pools, _ := tree.Tree.Document(document.ForPrograms).Get("pools")
		if rows.Pools, err = poolRows(rows.Pools, &tree, "", pools); err != nil {
			return rows, err
		}
	}
	if t.Default != "" {
		rows.Settings = append(rows.Settings, store.Setting{Name: defaultTreeSetting, Document: []byte(t.Default)})
	}
	return rows, nil
}

func poolRows(rows []store.Pool, tree *TreeConfig, parent string, pools document.Value) ([]store.Pool, error) {
	for _, e := range pools.Entries() {
		config, err := e.Value.Without("pools").JSON("")
		if err != nil {
			return nil, err
		}
		attributes, err := json.Marshal(storedPool{tree.objects[e.Key], config})
		if err != nil {
			return nil, err
		}
		rows = append(rows, store.Pool{Tree: tree.Name, Name: e.Key, Parent: parent, Attributes: attributes})
		if below, has := e.Value.Get("pools"); has {
			if rows, err = poolRows(rows, tree, e.Key, below); err != nil {
				return nil, err
			}
		}
	}
	return rows, nil
}

// treesOf reads a configuration from rows.
func treesOf(rows *store.Rows) (*Trees, error) {
	t := &Trees{}
	for _, s := range rows.Settings {
		if s.Name == defaultTreeSetting {
			t.Default = string(s.Document)
		}
	}
	for _, row := range rows.Trees {
		tree := TreeConfig{Name: row.Name, objects: map[string]Object{}}
		if err := json.Unmarshal(row.Attributes, &tree.Object); err != nil {
			return nil, fmt.Errorf("pool tree %s: %w", row.Name, err)
		}
		if err := tree.read(row.Config, rows.Pools); err != nil {
			return nil, fmt.Errorf("pool tree %s: %w", row.Name, err)
		}
		t.List = append(t.List, tree)
	}
	slices.SortStableFunc(t.List, func(a, b TreeConfig) int { return a.Object.Order - b.Object.Order })
	return t, nil
}

// read builds the tree from its own row and those of its pools.
func (t *TreeConfig) read(config []byte, rows []store.Pool) error {
	root, err := document.ParseJSON("", config)
	if err != nil {
		return err
	}
	type child struct {
		order int
		name  string
		value document.Value
	}
	children := map[string][]child{}
	for _, row := range rows {
		if row.Tree != t.Name {
			continue
		}
		var attributes storedPool
		if err := json.Unmarshal(row.Attributes, &attributes); err != nil {
			return fmt.Errorf("pool %s: %w", row.Name, err)
		}
		value, err := document.ParseJSON("", attributes.Config)
		if err != nil {
			return fmt.Errorf("pool %s: %w", row.Name, err)
		}
		t.objects[row.Name] = attributes.Object
		children[row.Parent] = append(children[row.Parent], child{attributes.Order, row.Name, value})
	}
	var nest func(parent string, value document.Value) document.Value
	nest = func(parent string, value document.Value) document.Value {
		below := children[parent]
		if len(below) == 0 {
			return value
		}
		slices.SortFunc(below, func(a, b child) int {
			if a.order != b.order {
				return a.order - b.order
			}
			return strings.Compare(a.name, b.name)
		})
		var entries []document.Entry
		for _, c := range below {
			entries = append(entries, document.Pair(c.name, nest(c.name, c.value)))
		}
		return value.With("pools", document.Map(entries...))
	}
	t.Tree, _, err = pooltree.FromValue(nest("", root), pooltree.Options{KeepUnknown: true})
	return err
}

// treeChanges are the rows that lead from one configuration to another.
func treeChanges(from, to *Trees) (batch store.Batch, err error) {
	before, err := treeRows(from)
	if err != nil {
		return batch, err
	}
	after, err := treeRows(to)
	if err != nil {
		return batch, err
	}
	type poolKey struct{ tree, name string }
	pools := map[poolKey]store.Pool{}
	for _, p := range before.Pools {
		pools[poolKey{p.Tree, p.Name}] = p
	}
	for _, p := range after.Pools {
		old, there := pools[poolKey{p.Tree, p.Name}]
		delete(pools, poolKey{p.Tree, p.Name})
		if !there || old.Parent != p.Parent || !bytes.Equal(old.Attributes, p.Attributes) {
			batch.Put.Pools = append(batch.Put.Pools, p)
		}
	}
	for _, p := range before.Pools {
		if _, gone := pools[poolKey{p.Tree, p.Name}]; gone {
			batch.Delete.Pools = append(batch.Delete.Pools, p)
		}
	}
	for _, tree := range after.Trees {
		i := slices.IndexFunc(before.Trees, func(old store.Tree) bool { return old.Name == tree.Name })
		if i < 0 || !bytes.Equal(before.Trees[i].Config, tree.Config) || !bytes.Equal(before.Trees[i].Attributes, tree.Attributes) {
			batch.Put.Trees = append(batch.Put.Trees, tree)
		}
	}
	for _, tree := range before.Trees {
		if _, kept := to.Find(tree.Name); !kept {
			batch.Delete.Trees = append(batch.Delete.Trees, tree)
		}
	}
	if from.Default != to.Default {
		if to.Default == "" {
			batch.Delete.Settings = append(batch.Delete.Settings, store.Setting{Name: defaultTreeSetting})
		} else {
			batch.Put.Settings = append(batch.Put.Settings, store.Setting{Name: defaultTreeSetting, Document: []byte(to.Default)})
		}
	}
	return batch, nil
}

// identify gives trees and pools that are new their identity, and notes the time
// of those that changed.
func (s *Server) identify(from, to *Trees, now time.Time) {
	for i := range to.List {
		tree := &to.List[i]
		old, there := from.Find(tree.Name)
		if !there {
			tree.Object = Object{ID: s.newID(guid.PoolTree), Created: now, Order: i}
			if i > 0 {
				tree.Object.Order = to.List[i-1].Object.Order + 1
			}
			old = &TreeConfig{}
		}
		if there && old.Tree == tree.Tree {
			continue
		}
		tree.Object.Changed = now
		tree.objects = maps.Clone(tree.objects)
		if tree.objects == nil {
			tree.objects = map[string]Object{}
		}
		changed := map[string]bool{}
		if there {
			for _, c := range pooltree.Diff(old.Tree, tree.Tree).Changed {
				changed[c.Pool] = true
			}
		}
		next := 0
		for _, object := range tree.objects {
			next = max(next, object.Order+1)
		}
		present := map[string]bool{}
		for pool := range tree.Tree.Pools() {
			present[pool.Name()] = true
			object, known := tree.objects[pool.Name()]
			if !known {
				object = Object{ID: s.newID(guid.Pool), Created: now, Order: next}
				next++
			}
			if changed[pool.Name()] {
				object.Changed = now
			}
			tree.objects[pool.Name()] = object
		}
		maps.DeleteFunc(tree.objects, func(name string, _ Object) bool { return !present[name] })
	}
}

// Caller is who asks for a change, for the audit.
type Caller struct {
	User    string
	Command string
	Object  string
	Request string
	// Mutation names the request so that it is carried out once: a repetition is
	// answered from the store. It may be empty.
	Mutation string
}

// ErrTreeInUse is why a tree cannot be removed.
var ErrTreeInUse = errors.New("the pool tree has operations")

// EditTrees changes the configuration of pool trees: the closure gets the
// present one and returns the one that is to be. Editors come one after the
// other; what the closure refuses, or the core, changes nothing.
func (s *Server) EditTrees(ctx context.Context, who Caller, edit func(*Trees) (*Trees, error)) error {
	t := s.term.Load()
	if t == nil || !s.Leading() {
		return ErrNotLeading
	}
	if err := t.admits(); err != nil {
		return err
	}
	select {
	case s.editing <- struct{}{}:
		defer func() { <-s.editing }()
	case <-t.over:
		return ErrNotLeading
	case <-ctx.Done():
		return fmt.Errorf("%w: other changes of pools were first", ErrOverloaded)
	}
	before := s.trees.Load()
	after, err := edit(before)
	if err != nil {
		return err
	}
	if _, there := after.Find(after.Default); after.Default != "" && !there {
		return fmt.Errorf("default_tree: there is no pool tree %q", after.Default)
	}
	s.identify(before, after, time.Now().UTC())
	rows, err := treeChanges(before, after)
	if err != nil {
		return err
	}
	if rows.Empty() {
		return t.stillLeading(ctx)
	}
	_, err = ask(ctx, s, func(t *term) (struct{}, error) { return struct{}{}, t.setTrees(before, after, &rows, who) })
	return err
}

// setTrees puts a configuration into force.
func (t *term) setTrees(before, after *Trees, rows *store.Batch, who Caller) error {
	if t.trees != before {
		return errors.New("the configuration of pools has changed in the meantime")
	}
	if err := rows.Check(); err != nil {
		return err
	}
	named, err := t.slots.arrange(after, t.hasOperations)
	if err != nil {
		return err
	}
	if err := t.core.SetTrees(t.now, named, after.Default, &t.out); err != nil {
		return err
	}
	t.slots.commit(named)
	t.trees = after
	t.open.rows.Append(rows)
	t.auditTrees(before, after, who)
	t.remember(who, nil)
	t.open.published = append(t.open.published, func(store.Receipt) { t.server.trees.Store(after) })
	return nil
}

// treeSlots keeps the order that trees have in the core, which keeps the places of
// trees that were removed.
type treeSlots struct{ names []string }

// arrange puts trees in the order that the core has them in. The place of a
// removed tree is taken by an empty one without nodes.
func (p *treeSlots) arrange(t *Trees, busy func(tree string) bool) ([]document.Named[*pooltree.Tree], error) {
	var list []document.Named[*pooltree.Tree]
	for _, name := range p.names {
		if tree, there := t.Find(name); there {
			list = append(list, document.Named[*pooltree.Tree]{Name: name, Value: tree.Tree})
			continue
		}
		if busy(name) {
			return nil, fmt.Errorf("pool tree %s: %w", name, ErrTreeInUse)
		}
		empty, _, err := pooltree.Parse("", []byte(`{"nodes_filter": "%false"}`), pooltree.Options{})
		if err != nil {
			return nil, err
		}
		list = append(list, document.Named[*pooltree.Tree]{Name: name, Value: empty})
	}
	for _, tree := range t.List {
		if !slices.Contains(p.names, tree.Name) {
			list = append(list, document.Named[*pooltree.Tree]{Name: tree.Name, Value: tree.Tree})
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

// hasOperations says whether operations run in a tree.
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
