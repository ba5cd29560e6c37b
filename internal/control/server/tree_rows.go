package server

import (
	"bytes"
	"encoding/json"
	"maps"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/nodefilter"
)

// storedPool are the attributes of a pool's row.
type storedPool struct {
	Object
	Config json.RawMessage `json:"config"`
}

// storedTree are the attributes of a tree's row.
type storedTree struct {
	Object
	// FilterInForce is the node filter that is used instead of the one in the
	// configuration.
	FilterInForce *nodefilter.Filter `json:"filter_in_force,omitempty"`
}

// defaultTreeSetting is the row that names the default tree.
const defaultTreeSetting = "default_tree"

// treeRow encodes a tree without its pools.
func treeRow(tree *TreeConfig) (store.Tree, error) {
	options := tree.Tree.Config()
	config, err := pooltree.TreeOptions.WriteAsWritten(&options, document.ForPrograms).JSON("")
	if err != nil {
		return store.Tree{}, err
	}
	attributes, err := json.Marshal(storedTree{tree.Object, tree.inForce})
	return store.Tree{Name: tree.Name, Config: config, Attributes: attributes}, err
}

// poolRow encodes a pool.
func poolRow(tree *TreeConfig, pool *pooltree.Pool) (store.Pool, error) {
	options := pool.Config()
	config, err := pooltree.PoolOptions.WriteAsWritten(&options, document.ForPrograms).JSON("")
	if err != nil {
		return store.Pool{}, err
	}
	row := store.Pool{Tree: tree.Name, Name: pool.Name()}
	if parent, _ := pool.Parent(); !parent.IsRoot() {
		row.Parent = parent.Name()
	}
	row.Attributes, err = json.Marshal(storedPool{tree.objects[pool.Name()], config})
	return row, err
}

// treeDifferences are the changes that an edit made, by tree name. They cover trees
// that existed before the edit and have another value after it.
type treeDifferences map[string]pooltree.Changes

// treeChanges returns the rows that turn one configuration into another. Their number
// depends on how many pools differ, not on how many there are.
func treeChanges(from, to *Trees, differences treeDifferences) (batch store.Batch, err error) {
	for i := range to.List {
		tree := &to.List[i]
		old, there := from.Find(tree.Name)
		if there && old.Tree == tree.Tree {
			continue
		}
		if err := treeDifference(&batch, old, tree, differences[tree.Name]); err != nil {
			return batch, err
		}
	}
	for i := range from.List {
		tree := &from.List[i]
		if _, kept := to.Find(tree.Name); kept {
			continue
		}
		batch.Delete.Trees = append(batch.Delete.Trees, store.Tree{Name: tree.Name})
		for pool := range tree.Tree.Pools() {
			batch.Delete.Pools = append(batch.Delete.Pools, store.Pool{Tree: tree.Name, Name: pool.Name()})
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

// treeDifference adds the rows of one tree; all of them if there is no old one.
func treeDifference(batch *store.Batch, old, tree *TreeConfig, difference pooltree.Changes) error {
	row, err := treeRow(tree)
	if err != nil {
		return err
	}
	differs := func(string) bool { return true }
	if old != nil {
		before, err := treeRow(old)
		if err != nil {
			return err
		}
		if bytes.Equal(row.Config, before.Config) && bytes.Equal(row.Attributes, before.Attributes) {
			row.Name = ""
		}
		names := map[string]bool{}
		for _, p := range difference.Added {
			names[p.Pool] = true
		}
		for _, p := range difference.Moved {
			names[p.Pool] = true
		}
		for _, p := range difference.Changed {
			names[p.Pool] = true
		}
		for _, p := range difference.Removed {
			batch.Delete.Pools = append(batch.Delete.Pools, store.Pool{Tree: tree.Name, Name: p.Pool})
		}
		// A pool that replaced a removed one may differ only in its identity.
		differs = func(name string) bool { return names[name] || old.objects[name] != tree.objects[name] }
	}
	if row.Name != "" {
		batch.Put.Trees = append(batch.Put.Trees, row)
	}
	for pool := range tree.Tree.Pools() {
		if !differs(pool.Name()) {
			continue
		}
		row, err := poolRow(tree, pool)
		if err != nil {
			return err
		}
		batch.Put.Pools = append(batch.Put.Pools, row)
	}
	return nil
}

// identify gives new trees and pools their identity, and sets the modification time of
// changed ones. It returns what changed.
func (s *Server) identify(from, to *Trees, now time.Time) treeDifferences {
	differences := treeDifferences{}
	for i := range to.List {
		tree := &to.List[i]
		old, there := from.Find(tree.Name)
		if !there {
			tree.Object = Object{ID: s.idOr(tree.Object.ID, guid.PoolTree), Created: now, Order: i}
			if i > 0 {
				tree.Object.Order = to.List[i-1].Object.Order + 1
			}
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
			difference := pooltree.Diff(old.Tree, tree.Tree)
			for _, c := range difference.Changed {
				changed[c.Pool] = true
			}
			differences[tree.Name] = difference
		}
		next := 0
		for _, object := range tree.objects {
			next = max(next, object.Order+1)
		}
		present := map[string]bool{}
		for pool := range tree.Tree.Pools() {
			present[pool.Name()] = true
			object, known := tree.objects[pool.Name()]
			if known = known && !object.Created.IsZero(); !known {
				object = Object{ID: s.idOr(object.ID, guid.Pool), Created: now, Order: next}
				next++
			}
			if changed[pool.Name()] {
				object.Changed = now
			}
			if !known || changed[pool.Name()] {
				tree.objects[pool.Name()] = object
			}
		}
		maps.DeleteFunc(tree.objects, func(name string, _ Object) bool { return !present[name] })
	}
	return differences
}

// idOr returns the identity that an edit has chosen, or a new one.
func (s *Server) idOr(chosen guid.ID, kind guid.Kind) guid.ID {
	if chosen.IsZero() {
		return s.newID(kind)
	}
	return chosen
}
