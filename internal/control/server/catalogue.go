package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
)

// catalogue keeps a term's index of operations and the recently requested rows of the
// archive, so that polling one pool does not read all operations. It reads the store at
// the first request; after that the loop passes every commit to it. Until it has read the
// store, and for filters that the index cannot answer, the store answers.
type catalogue struct {
	store  *store.Store
	wanted chan struct{} // full when a caller wanted it and could not have it

	mutex sync.RWMutex
	index *operationIndex // nil until it is read
	// overlay holds what was committed while the store is being read, nil otherwise;
	// deleted operations have no row in it. spoiled reports whether rows were removed
	// meanwhile without notice.
	overlay map[int32]*store.Operation
	spoiled bool
	rows    map[int32]*store.Operation // of the archive
}

// mostRows limits the number of archive rows that are kept.
const mostRows = 4096

func newCatalogue(s *store.Store) *catalogue {
	return &catalogue{store: s, wanted: make(chan struct{}, 1), rows: map[int32]*store.Operation{}}
}

// apply applies committed rows. The loop calls it before any caller learns of the commit.
func (c *catalogue) apply(rows *store.Batch) {
	if len(rows.Put.Operations)+len(rows.Delete.Operations) == 0 {
		return
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for i := range rows.Delete.Operations {
		c.change(rows.Delete.Operations[i].Number, nil)
	}
	for i := range rows.Put.Operations {
		c.change(rows.Put.Operations[i].Number, &rows.Put.Operations[i])
	}
}

func (c *catalogue) change(number int32, row *store.Operation) {
	delete(c.rows, number)
	switch {
	case c.overlay != nil && row != nil:
		c.overlay[number] = &store.Operation{ // without documents
			Number: number, Type: row.Type, User: row.User, State: row.State, Pools: row.Pools, HasFailedJobs: row.HasFailedJobs,
			StartTime: row.StartTime, FinishTime: row.FinishTime,
		}
	case c.overlay != nil:
		c.overlay[number] = nil
	case c.index != nil && row != nil:
		c.index.put(row)
	case c.index != nil:
		c.index.drop(func(e catalogued) bool { return e.number == number })
	}
}

// forget makes the catalogue read everything again.
func (c *catalogue) forget() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.index, c.spoiled = nil, true
	clear(c.rows)
}

// bury drops the operations that retention is about to remove and returns their number.
func (c *catalogue) bury(policy *store.Policy, now time.Time) int64 {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.index == nil {
		return 0
	}
	doomed := c.index.doomed(policy, now)
	if len(doomed) == 0 {
		return 0
	}
	for number := range doomed {
		delete(c.rows, number)
	}
	buried := c.index.drop(func(e catalogued) bool { return doomed[e.number] })
	c.index.tidy()
	return buried
}

// keep reads the store whenever a caller wants the catalogue and it is not loaded.
func (c *catalogue) keep(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.wanted:
		}
		if err := c.load(ctx); err != nil {
			return err
		}
	}
}

// loadPage is the number of operations per read.
const loadPage = 1000

// load reads all operations, oldest first. What is committed meanwhile may or may not be
// among them: the overlay has it as committed.
func (c *catalogue) load(ctx context.Context) error {
	c.mutex.Lock()
	if c.index != nil {
		c.mutex.Unlock()
		return nil
	}
	c.overlay, c.spoiled = map[int32]*store.Operation{}, false
	c.mutex.Unlock()
	index, err := c.read(ctx)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	overlay := c.overlay
	c.overlay = nil
	if err != nil || c.spoiled {
		return err
	}
	for number, row := range overlay {
		if row == nil {
			index.drop(func(e catalogued) bool { return e.number == number })
		} else {
			index.put(row)
		}
	}
	c.index = index
	return nil
}

func (c *catalogue) read(ctx context.Context) (*operationIndex, error) {
	index := newOperationIndex()
	f := store.OperationFilter{Direction: store.Future, Limit: loadPage}
	for {
		page, err := c.store.Operations(ctx, f)
		if err != nil {
			return nil, fmt.Errorf("read operations: %w", err)
		}
		for i := len(page.Operations) - 1; i >= 0; i-- {
			index.put(&page.Operations[i])
		}
		if !page.Incomplete {
			return index, nil
		}
		newest := &page.Operations[0]
		f.From, f.Cursor, f.CursorNumber = newest.StartTime, newest.StartTime, newest.Number
	}
}

// with runs a query on the index, if the index is loaded and can answer it.
func (c *catalogue) with(f *store.OperationFilter, question func(*operationIndex)) bool {
	c.mutex.RLock()
	defer c.mutex.RUnlock()
	if c.index == nil {
		select {
		case c.wanted <- struct{}{}:
		default:
		}
		return false
	}
	if !c.index.answers(f) {
		return false
	}
	question(c.index)
	return true
}

// keepCatalogue maintains the term's catalogue until the term ends.
func (t *term) keepCatalogue(ctx context.Context) {
	for ctx.Err() == nil {
		if err := t.catalogue.keep(ctx); err != nil && ctx.Err() == nil {
			t.server.log.Warn("cannot load the catalogue of operations; lists query the store", "error", err)
		}
	}
}

// ListedOperation is an operation in a list: as the scheduler knows it now or, if it has
// ended, as it is stored.
type ListedOperation struct {
	Live *Operation
	Row  *store.Operation
}

// OperationPage is one page of a list of operations, newest first.
type OperationPage struct {
	Operations []ListedOperation
	// Incomplete reports whether the limit cut the list.
	Incomplete bool
	// Counts are set if they were requested.
	Counts OperationCounts
}

// ListOperations returns live and ended operations and, if counted is set, the counts for
// the choices of the filter. It includes every commit before any caller learns of that
// commit.
func (s *Server) ListOperations(ctx context.Context, f store.OperationFilter, counted bool) (OperationPage, error) {
	if t := s.term.Load(); t != nil && s.Leading() {
		// An operation may end between two reads; the catalogue then has the end at once.
		for range 3 {
			page, known, err := t.catalogue.list(ctx, s, &f, counted)
			if err != nil || known {
				return page, err
			}
		}
	}
	return s.listStored(ctx, f, counted)
}

// Catalogued reports whether lists of operations are answered from memory.
func (s *Server) Catalogued() bool {
	t := s.term.Load()
	return t != nil && s.Leading() && t.catalogue.with(&store.OperationFilter{}, func(*operationIndex) {})
}

// listStored answers from the store.
func (s *Server) listStored(ctx context.Context, f store.OperationFilter, counted bool) (OperationPage, error) {
	list, err := s.store.Operations(ctx, f)
	if err != nil {
		return OperationPage{}, err
	}
	page := OperationPage{Incomplete: list.Incomplete, Operations: make([]ListedOperation, len(list.Operations))}
	for i := range list.Operations {
		row := &list.Operations[i]
		if live, there := s.OperationByNumber(core.OperationID(row.Number)); there {
			page.Operations[i].Live = live
		} else {
			page.Operations[i].Row = row
		}
	}
	if counted {
		counts, err := s.store.CountOperations(ctx, f)
		if err != nil {
			return OperationPage{}, err
		}
		page.Counts = OperationCounts{
			Trees: sortedCounts(counts.Trees), Pools: sortedCounts(counts.Pools), Users: sortedCounts(counts.Users),
			States: sortedCounts(counts.States), Types: sortedCounts(counts.Types), FailedJobs: counts.FailedJobs, Total: counts.Total,
		}
	}
	return page, nil
}

// list answers from the index, with archive rows from the store. It returns false if the
// index cannot answer, or no longer can.
func (c *catalogue) list(ctx context.Context, s *Server, f *store.OperationFilter, counted bool) (page OperationPage, known bool, err error) {
	var entries []catalogued
	if !c.with(f, func(index *operationIndex) {
		entries, page.Incomplete = index.page(f)
		if counted {
			page.Counts = index.counts(f)
		}
	}) {
		return page, false, nil
	}
	page.Operations = make([]ListedOperation, len(entries))
	var missing []int
	c.mutex.RLock()
	for i, e := range entries {
		o := &page.Operations[i]
		if e.finish == 0 {
			o.Live, _ = s.OperationByNumber(core.OperationID(e.number))
		} else {
			o.Row = c.rows[e.number]
		}
		if o.Live == nil && o.Row == nil {
			missing = append(missing, i)
		}
	}
	c.mutex.RUnlock()
	known, err = c.fetch(ctx, entries, page.Operations, missing)
	// An operation with neither a live record nor a row was just removed by retention.
	page.Operations = slices.DeleteFunc(page.Operations, func(o ListedOperation) bool { return o.Live == nil && o.Row == nil })
	return page, known, err
}

// fetch reads the rows that a page lacks, and keeps those of the archive. It returns
// false if an operation has ended since the page was made.
func (c *catalogue) fetch(ctx context.Context, entries []catalogued, page []ListedOperation, missing []int) (known bool, err error) {
	for _, i := range missing {
		row, err := c.store.OperationByNumber(ctx, entries[i].number)
		switch {
		case errors.Is(err, store.ErrNotFound):
			continue
		case err != nil:
			return false, err
		case row.FinishTime.IsZero() != (entries[i].finish == 0):
			return false, nil
		}
		page[i].Row = &row
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, i := range missing {
		if row := page[i].Row; row != nil && !row.FinishTime.IsZero() {
			c.makeRoom()
			c.rows[row.Number] = row
		}
	}
	return true, nil
}

// makeRoom drops arbitrary rows if there are too many.
func (c *catalogue) makeRoom() {
	for number := range c.rows {
		if len(c.rows) < mostRows {
			return
		}
		delete(c.rows, number)
	}
}
