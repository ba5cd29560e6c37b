package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
)

// Edits are the changes of one transaction: of the pool trees, of the registry, or of
// both. They are committed together or not at all. Edits of trees run first, on the
// caller's goroutine; edits of the registry run on the loop. Each edit sees the changes
// of the edits before it in its list.
type Edits struct {
	Trees    []TreesEdit
	Registry []RegistryEdit
	// Answer returns the answer to store for a repeated request. It is called after all
	// edits have run and may be nil.
	Answer func() []byte
}

// TreesEdit changes the configuration of pool trees: it gets the current one and returns
// the next one.
type TreesEdit struct {
	Object string // for the audit
	Edit   func(*Trees) (*Trees, error)
}

// RegistryEdit changes the registry: it reads the registry and returns the rows to
// write. Rows of other kinds are refused, because the core must know about them.
type RegistryEdit struct {
	Object string // for the audit
	Edit   func(*Registry) (*store.Batch, error)
}

// EditTrees is Edit with one change of pool trees.
func (s *Server) EditTrees(ctx context.Context, who Caller, edit func(*Trees) (*Trees, error)) error {
	return s.Edit(ctx, who, Edits{Trees: []TreesEdit{{who.Object, edit}}})
}

// EditRegistry is Edit with one change of the registry.
func (s *Server) EditRegistry(ctx context.Context, who Caller, edit func(*Registry) (*store.Batch, error)) error {
	return s.Edit(ctx, who, Edits{Registry: []RegistryEdit{{who.Object, edit}}})
}

// Edit commits a transaction. If an edit or the core refuses, nothing changes.
// Transactions with edits of trees run one after another.
func (s *Server) Edit(ctx context.Context, who Caller, edits Edits) error {
	if len(edits.Trees) == 0 {
		return s.commitEdits(ctx, who, &edits, nil)
	}
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
		return fmt.Errorf("%w: other pool changes are in progress", ErrOverloaded)
	}
	next := &nextTrees{before: s.trees.Load()}
	next.after = next.before
	for _, e := range edits.Trees {
		var err error
		if next.after, err = e.Edit(next.after); err != nil {
			return err
		}
	}
	if err := s.checkManaged(who, next.before, next.after); err != nil {
		return err
	}
	next.differences = s.identify(next.before, next.after, time.Now().UTC())
	var err error
	if next.rows, err = treeChanges(next.before, next.after, next.differences); err != nil {
		return err
	}
	switch {
	case !next.rows.Empty() || next.after.holdsFilters():
		who.Object = edits.Trees[0].Object
		return s.commitEdits(ctx, who, &edits, next)
	case len(edits.Registry) > 0:
		return s.commitEdits(ctx, who, &edits, nil)
	}
	return t.stillLeading(ctx)
}

func (s *Server) commitEdits(ctx context.Context, who Caller, edits *Edits, trees *nextTrees) error {
	_, err := ask(ctx, s, func(t *term) (struct{}, error) { return struct{}{}, t.edit(who, edits, trees) })
	return err
}

// nextTrees is a configuration of pools that is to replace the current one.
type nextTrees struct {
	before, after *Trees
	differences   treeDifferences
	rows          store.Batch
}

// edit carries out a transaction on the loop. Every step that can refuse comes before
// the first change that cannot be undone.
func (t *term) edit(who Caller, edits *Edits, trees *nextTrees) error {
	rows, changed, err := t.draftRegistry(edits.Registry)
	if err != nil {
		return err
	}
	if trees != nil {
		if err := t.setTrees(trees); err != nil {
			t.registry.apply(changed.undo())
			return err
		}
		t.auditTrees(trees, who)
		t.open.pools = true
	}
	for i, e := range edits.Registry {
		if trees == nil || !changed[i].rows.Empty() {
			who.Object = e.Object
			t.audit(who, nil, nil)
		}
	}
	var answer []byte
	if edits.Answer != nil {
		answer = edits.Answer()
	}
	t.remember(who, answer)
	t.open.rows.Append(rows)
	if changesDefaultPools(rows) {
		t.obeyDefaultPools(t.registry)
	}
	if len(edits.Registry) > 0 {
		t.open.published = append(t.open.published, func(store.Receipt) { t.server.publishRegistry(rows) })
	}
	return nil
}

// publishRegistry publishes committed rows of the registry to readers.
func (s *Server) publishRegistry(rows *store.Batch) {
	s.registry.apply(rows)
	if len(rows.Put.Settings)+len(rows.Delete.Settings) > 0 {
		s.Rederive()
	}
}

// draft is what edits of the registry have changed so far.
type draft []struct{ rows, inverse *store.Batch }

// undo returns the rows that restore the registry.
func (d draft) undo() *store.Batch {
	all := &store.Batch{}
	for i := len(d) - 1; i >= 0; i-- {
		all.Append(d[i].inverse)
	}
	return all
}

// draftRegistry applies edits to the loop's registry, all or none, and returns their
// rows.
func (t *term) draftRegistry(edits []RegistryEdit) (*store.Batch, draft, error) {
	all, changed := &store.Batch{}, draft(nil)
	for _, e := range edits {
		rows, err := e.Edit(t.registry)
		if err == nil {
			withUses(t.registry, rows)
			err = checkRegistryRows(rows)
		}
		if err != nil {
			t.registry.apply(changed.undo())
			return nil, nil, err
		}
		changed = append(changed, struct{ rows, inverse *store.Batch }{rows, t.registry.inverse(rows)})
		t.registry.apply(rows)
		all.Append(rows)
	}
	return all, changed, nil
}

// setTrees puts a configuration into effect.
func (t *term) setTrees(next *nextTrees) error {
	if t.trees != next.before {
		return errors.New("the pool configuration has changed in the meantime")
	}
	settled, err := t.settleFilters(next.before, next.after)
	if err != nil {
		return err
	}
	if err := next.settle(settled); err != nil {
		return err
	}
	if err := next.rows.Check(); err != nil {
		return err
	}
	named, err := t.slots.arrange(next.after, t.hasOperations)
	if err != nil {
		return err
	}
	if err := t.apply(&core.TreesInput{Trees: named, Default: next.after.knownDefault()}); err != nil {
		return err
	}
	t.slots.commit(named)
	t.showTreesOfNodes()
	t.trees = next.after
	t.open.rows.Append(&next.rows)
	t.open.published = append(t.open.published, func(store.Receipt) {
		t.server.trees.Store(next.after)
		t.server.alerts.alertTrees(next.after)
	})
	return nil
}
