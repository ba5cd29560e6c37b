package server

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
)

// standbyCopy holds the rows that a standby keeps beside the records made from
// them, so that it can follow changes without reading everything again.
type standbyCopy struct {
	revision    int64
	defaultTree []store.Setting // one or none
	trees       map[string]store.Tree
	pools       map[poolKey]store.Pool
	specs       map[int32]*store.OperationSpec
}

// follow brings up to date what a standby shows: pools, operations and the
// registry. It reads the changes since the last call, or everything if this is the
// first call or those changes are no longer known.
func (s *Server) follow(ctx context.Context) error {
	if s.copied != nil {
		changes, err := s.store.Changes(ctx, s.copied.revision)
		if err == nil {
			s.followChanges(changes)
			return nil
		}
		if !errors.Is(err, store.ErrTooOld) && !errors.Is(err, store.ErrInvalid) {
			return err
		}
	}
	return s.followAll(ctx)
}

// followAll reads everything.
func (s *Server) followAll(ctx context.Context) error {
	s.copied = nil
	state, err := s.store.Load(ctx)
	if err != nil {
		return err
	}
	c := &standbyCopy{trees: map[string]store.Tree{}, pools: map[poolKey]store.Pool{}, specs: map[int32]*store.OperationSpec{}}
	c.keep(&store.Batch{Put: state.Rows})
	s.copyTrees(c)
	s.registry.reset(&state.Rows)
	present := map[core.OperationID]bool{}
	for i := range state.Rows.Operations {
		row := &state.Rows.Operations[i]
		present[core.OperationID(row.Number)] = s.copyOperation(c, row)
	}
	for _, o := range s.operations.all() {
		if !present[o.Number] {
			s.hideOperation(o)
		}
	}
	for number := range s.specs {
		if c.specs[number] == nil {
			delete(s.specs, number)
		}
	}
	s.copiedAt(c, state.Revision)
	return nil
}

// followChanges reads what has changed.
func (s *Server) followChanges(changes *store.Changes) {
	c, b := s.copied, &store.Batch{Put: changes.Put, Delete: changes.Delete}
	if c.keep(b) {
		s.copyTrees(c)
	}
	s.registry.apply(b)
	for i := range b.Delete.Operations {
		s.dropOperation(c, b.Delete.Operations[i].Number)
	}
	for i := range b.Put.Operations {
		if row := &b.Put.Operations[i]; !s.copyOperation(c, row) {
			s.dropOperation(c, row.Number)
		}
	}
	s.copiedAt(c, changes.Revision)
}

// keep stores rows of trees and specifications, and reports whether trees have
// changed.
func (c *standbyCopy) keep(b *store.Batch) (trees bool) {
	for _, row := range b.Delete.Trees {
		delete(c.trees, row.Name)
		trees = true
	}
	for _, row := range b.Delete.Pools {
		delete(c.pools, poolKey{row.Tree, row.Name})
		trees = true
	}
	for _, row := range b.Delete.Settings {
		if row.Name == defaultTreeSetting {
			c.defaultTree, trees = nil, true
		}
	}
	for _, row := range b.Put.Trees {
		c.trees[row.Name] = row
		trees = true
	}
	for _, row := range b.Put.Pools {
		c.pools[poolKey{row.Tree, row.Name}] = row
		trees = true
	}
	for _, row := range b.Put.Settings {
		if row.Name == defaultTreeSetting {
			c.defaultTree, trees = []store.Setting{row}, true
		}
	}
	for i := range b.Put.OperationSpecs {
		c.specs[b.Put.OperationSpecs[i].Operation] = &b.Put.OperationSpecs[i]
	}
	return trees
}

// copyTrees publishes the configuration of trees.
func (s *Server) copyTrees(c *standbyCopy) {
	rows := &store.Rows{Settings: c.defaultTree, Pools: make([]store.Pool, 0, len(c.pools))}
	for _, name := range slices.Sorted(maps.Keys(c.trees)) {
		rows.Trees = append(rows.Trees, c.trees[name])
	}
	for _, row := range c.pools {
		rows.Pools = append(rows.Pools, row)
	}
	trees, _ := treesOf(rows, s.settings().Templates) // the leader reports what was left out
	s.trees.Store(trees)
}

// copyOperation publishes an operation, unless it has ended or cannot be read.
func (s *Server) copyOperation(c *standbyCopy, row *store.Operation) (shown bool) {
	spec := c.specs[row.Number]
	var state operation.State
	if spec == nil || state.UnmarshalText([]byte(row.State)) != nil || state.IsFinished() {
		return false
	}
	record, err := s.recordOf(row, spec)
	if err != nil {
		return false
	}
	record.State, record.Suspended = state, row.Suspended
	s.showOperation(record)
	return true
}

// dropOperation removes an operation.
func (s *Server) dropOperation(c *standbyCopy, number int32) {
	delete(c.specs, number)
	delete(s.specs, number)
	if o, there := s.OperationByNumber(core.OperationID(number)); there {
		s.hideOperation(o)
	}
}

// copiedAt records the revision of the copy.
func (s *Server) copiedAt(c *standbyCopy, revision int64) {
	c.revision = revision
	s.copied = c
	s.view.Store(&View{At: time.Now(), Revision: revision, Picture: &core.Picture{}})
	s.loaded.Store(true)
}
