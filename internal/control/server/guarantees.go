package server

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/value/resource"
)

// books keep the ledgers of guarantees, preemptions and usage. The loop enters what happens; readers query what is
// not stored yet.
type books struct {
	mutex sync.Mutex
	book  *core.Books // nil before the first term
	// flushed is when the rows were last put into a batch, and seen the last time that a batch
	// has for this leader.
	flushed, seen time.Time
	// logged is until when the facts are in a batch, and flushes counts those of the term.
	logged  time.Time
	flushes int64
	away    bool
	// restored reports whether the stored rows are still those of the last leader.
	restored bool
	lost     []resource.Amounts

	preemptions *ledger.Preemptions
	usage       *ledger.Usage
}

// Counters that are stored with the ledger: when its rows were flushed, and when their leader was
// last seen, in microseconds.
const (
	ledgerFlushed = "ledger_flushed"
	ledgerSeen    = "ledger_seen"
)

// booksFlushPeriod is how often the ledger is stored, and booksSeenPeriod how often batches have the
// time for it.
const (
	booksFlushPeriod = historyFlushPeriod
	booksSeenPeriod  = time.Second
)

// nodeMemory is how long nodes count as lost that have not registered in this term.
const nodeMemory = 30 * 24 * time.Hour

// restore continues the books of the last leader.
func (b *books) restore(ctx context.Context, db *store.Store, rows *store.Rows, now time.Time) error {
	var flushed, seen time.Time
	for _, c := range rows.Counters {
		switch c.Name {
		case ledgerFlushed:
			flushed = time.UnixMicro(c.Value).UTC()
		case ledgerSeen:
			seen = time.UnixMicro(c.Value).UTC()
		}
	}
	var stored []ledger.Row
	for _, level := range [...]ledger.Level{ledger.Standing, ledger.Hour, ledger.Day, ledger.Month} {
		start := level.StartUntil(flushed)
		list, err := db.Ledger(ctx, store.LedgerQuery{Level: int32(level), From: start, To: start.Add(time.Microsecond)})
		if err != nil {
			return err
		}
		stored = append(stored, ledgerRows(list)...)
	}
	book, err := ledger.Restore(stored, flushed, seen, now)
	if err != nil {
		return fmt.Errorf("restore the ledger: %w", err)
	}
	preemptions, usage := ledger.NewPreemptions(), ledger.NewUsage()
	if !flushed.IsZero() {
		rows, err := restoredTallies(ctx, db, flushed)
		if err != nil {
			return err
		}
		if err := preemptions.Restore(rows, flushed); err != nil {
			return fmt.Errorf("restore the ledger of preemptions: %w", err)
		}
		if err := usage.Restore(rows, flushed, now); err != nil {
			return fmt.Errorf("restore the ledger of usage: %w", err)
		}
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.book = &core.Books{Book: book}
	b.flushed, b.seen, b.away, b.restored = now, now, true, true
	b.logged, b.flushes = flushed, 0
	b.preemptions, b.usage = preemptions, usage
	return nil
}

// restoredTallies returns the tallies of the hour, day and month of the last flush.
func restoredTallies(ctx context.Context, db *store.Store, flushed time.Time) (rows []ledger.TallyRow, err error) {
	for _, level := range [...]ledger.Level{ledger.Standing, ledger.Hour, ledger.Day, ledger.Month} {
		start := level.Start(flushed)
		if level == ledger.Standing {
			start = time.UnixMicro(0)
		}
		list, err := db.Tallies(ctx, store.TallyQuery{Level: int32(level), From: start, To: start.Add(time.Microsecond)})
		if err != nil {
			return nil, err
		}
		for _, row := range list {
			rows = append(rows, ledger.TallyRow{Kind: row.Kind, Tree: row.Tree, Level: level, Start: row.Start, Data: row.Data})
		}
	}
	return rows, nil
}

func ledgerRows(list []store.LedgerRow) []ledger.Row {
	rows := make([]ledger.Row, len(list))
	for i, row := range list {
		rows[i] = ledger.Row{Pool: ledger.Pool{Tree: row.Tree, Name: row.Pool}, Level: ledger.Level(row.Level), Start: row.Start, Data: row.Data}
	}
	return rows
}

// enterClaims enters what pools may claim after an update. If the update was not due, nothing has
// changed but perhaps the gates.
func (t *term) enterClaims(due bool) {
	b := &t.server.books
	away := len(t.requests) > t.server.settings().SoftQueue || t.stalled()
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if !due && away == b.away {
		b.book.Advance(t.now)
		return
	}
	closed := func(id core.NodeID) bool {
		_, gated := t.gateOf(t.nodeList[id])
		return gated
	}
	b.lost = t.lostResources(b.lost[:0])
	entries := b.book.Updated(t.now, t.core, closed, b.lost, away)
	b.away = away
	if b.restored {
		b.usage.Settle(t.now)
	}
	t.enterCover()
	t.noticePromises(entries, away)
	var unexplained []string
	for i := range entries {
		e := &entries[i]
		if e.Claim.Split(e.Claim.Got, away)[ledger.Unexplained] > 0 {
			unexplained = append(unexplained, e.Name)
		}
	}
	if len(unexplained) == 0 {
		t.server.alerts.clear(AlertLedger)
		return
	}
	t.server.alerts.raise(AlertLedger, "guarantees are not kept, and the ledger finds no cause: "+strings.Join(unexplained[:min(len(unexplained), 10)], ", "))
}

// lostResources returns, by tree, what nodes had that are offline, banned, or get no jobs.
func (t *term) lostResources(into []resource.Amounts) []resource.Amounts {
	into = append(into, make([]resource.Amounts, len(t.slots.names))...)
	for _, node := range t.nodeList {
		limits, tags := node.record.Limits, node.record.Tags
		if limits.IsZero() && node.was != nil {
			limits, tags = node.was.Limits, node.was.Tags
		}
		_, there := t.core.NodeTree(node.id)
		disabled := node.settings.TakesNoJobs() || node.record.Status.JobsDisabled
		forgotten := node.session == nil && t.now.Sub(node.record.LastSeen) > nodeMemory
		if there && !disabled || limits.IsZero() || forgotten {
			continue
		}
		if tree, ok := t.core.TreeFor(tags); ok {
			into[tree] = into[tree].Add(limits)
		}
	}
	return into
}

// enterUsage enters the usage of pools that has changed.
func (t *term) enterUsage() {
	b := &t.server.books
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.book.Spent(t.now, t.core, t.spend)
}

// enterAbsence enters that this server does not know whether it leads.
func (t *term) enterAbsence() {
	b := &t.server.books
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if !b.away {
		b.book.Stop(t.now)
		b.away = true
	}
}

// flushBooks puts what has changed in the ledger into the open batch.
func (t *term) flushBooks() {
	b := &t.server.books
	b.mutex.Lock()
	defer b.mutex.Unlock()
	put, remove, facts := b.book.Flush(t.now)
	b.restored = false
	for _, row := range put {
		t.open.rows.Put.LedgerRows = append(t.open.rows.Put.LedgerRows, store.LedgerRow{
			Tree: row.Tree, Pool: row.Name, Level: int32(row.Level), Start: row.Start, Data: row.Data,
		})
	}
	for _, row := range remove {
		t.open.rows.Delete.LedgerRows = append(t.open.rows.Delete.LedgerRows, store.LedgerRow{Tree: row.Tree, Pool: row.Name, Level: int32(row.Level)})
	}
	tallies := append(b.preemptions.Flush(t.now), b.usage.Flush(t.now)...)
	for _, row := range tallies {
		t.open.rows.Put.LedgerTallies = append(t.open.rows.Put.LedgerTallies, store.LedgerTally{
			Kind: row.Kind, Tree: row.Tree, Level: int32(row.Level), Start: row.Start, Data: row.Data,
		})
	}
	b.flushed = t.now
	if len(put)+len(remove)+len(tallies) > 0 || facts.Gap || len(facts.Data) > 0 {
		b.seen = t.now
		b.flushes++
		t.open.rows.Put.LedgerFacts = append(t.open.rows.Put.LedgerFacts, store.LedgerFacts{
			Epoch: int64(t.epoch), Number: b.flushes, Start: b.logged, Finish: t.now, Gap: facts.Gap, Data: facts.Data,
		})
		b.logged = t.now
		t.open.rows.Put.Counters = append(t.open.rows.Put.Counters,
			store.Counter{Name: ledgerFlushed, Value: t.now.UnixMicro()}, store.Counter{Name: ledgerSeen, Value: t.now.UnixMicro()})
	}
}

// maybeFlushBooks flushes the ledger after the first update of a term, whose successor must know
// until when the scheduler was away, and then from time to time. While the store does not answer,
// the books grow only in memory.
func (t *term) maybeFlushBooks() {
	b := &t.server.books
	if b.restored || t.now.Sub(b.flushed) >= booksFlushPeriod && !t.stalled() {
		t.flushBooks()
	}
}

// markSeen adds to a batch with rows when this leader led, so that its successor knows until when
// the books hold.
func (t *term) markSeen() {
	b := &t.server.books
	if b.restored || t.open.rows.Empty() || t.now.Sub(b.seen) < booksSeenPeriod {
		return
	}
	b.seen = t.now
	t.open.rows.Put.Counters = append(t.open.rows.Put.Counters, store.Counter{Name: ledgerSeen, Value: t.now.UnixMicro()})
}

// GuaranteeSeconds returns what was due to a pool and what it lacked by cause, in seconds of its
// whole tree, since this server started to lead. It is not known for pools without guarantees.
func (s *Server) GuaranteeSeconds(tree, pool string) (due float64, short [ledger.CauseCount]float64, known bool) {
	s.books.mutex.Lock()
	defer s.books.mutex.Unlock()
	if s.books.book == nil || !s.Leading() {
		return 0, short, false
	}
	return s.books.book.Seconds(ledger.Pool{Tree: tree, Name: pool})
}

// GuaranteeQuery selects a report about guarantees.
type GuaranteeQuery struct {
	// Tree and Pool select pools; empty means all.
	Tree, Pool string
	From, To   time.Time
	// ByDay asks for a line for each day of UTC. Of times long past, only months are known: their
	// lines have the day on which the month started.
	ByDay bool
}

// GuaranteeReport states which guarantees were kept.
type GuaranteeReport struct {
	// From and To are the time that the sums are about: whole hours, and for times long past whole
	// days or months, of which To may be in the future.
	From, To time.Time
	Lines    []GuaranteeLine // by tree, pool, day and resource
}

// GuaranteeLine is the books of a pool in one resource.
type GuaranteeLine struct {
	ledger.Pool
	Day      time.Time // zero unless the report is by day
	Resource resource.Kind
	ledger.Sums
}

// Ages up to which reports use hours and days; they are a day less than rows are kept.
const (
	hoursReach = 39 * 24 * time.Hour
	daysReach  = 399 * 24 * time.Hour
)

// Guarantees returns which guarantees were kept, including the last seconds if this server leads.
func (s *Server) Guarantees(ctx context.Context, q GuaranteeQuery) (*GuaranteeReport, error) {
	span := spanOf(time.Now(), q.From, q.To)
	report := &GuaranteeReport{From: span.from, To: span.to}
	rows, err := s.guaranteeRows(ctx, q.Tree, q.Pool, span)
	if err != nil {
		return nil, err
	}
	type key struct {
		ledger.Pool
		start time.Time
	}
	sums := map[key]*ledger.ByResource{}
	for i := range rows {
		row := &rows[i]
		by, err := ledger.Decode(row.Data)
		if err != nil {
			return nil, err
		}
		line := key{Pool: row.Pool}
		if q.ByDay {
			line.start = ledger.Day.Start(row.Start)
		}
		if sums[line] == nil {
			sums[line] = &ledger.ByResource{}
		}
		for kind := range by {
			sums[line][kind].Add(&by[kind])
		}
	}
	for k, by := range sums {
		by.GatherFlow()
		for kind := range by {
			if !by[kind].IsZero() {
				report.Lines = append(report.Lines, GuaranteeLine{k.Pool, k.start, resource.Kind(kind), by[kind]})
			}
		}
	}
	slices.SortFunc(report.Lines, func(a, b GuaranteeLine) int {
		return cmp.Or(ledger.ComparePools(a.Pool, b.Pool), a.Day.Compare(b.Day), cmp.Compare(a.Resource, b.Resource))
	})
	return report, nil
}

// guaranteeRows returns the books of guarantees over a time, each period once, in no order. Empty names select all.
func (s *Server) guaranteeRows(ctx context.Context, tree, pool string, span span) ([]ledger.Row, error) {
	type key struct {
		ledger.Pool
		level ledger.Level
		start time.Time
	}
	rows := map[key]ledger.Row{}
	for _, part := range span.parts {
		list, err := s.store.Ledger(ctx, store.LedgerQuery{Tree: tree, Pool: pool, Level: int32(part.level), From: part.from, To: part.to})
		if err != nil {
			return nil, err
		}
		for _, row := range ledgerRows(list) {
			rows[key{row.Pool, row.Level, row.Start}] = row
		}
	}
	for _, row := range s.unflushed() {
		if (tree == "" || tree == row.Tree) && (pool == "" || pool == row.Name) && !row.Start.Before(span.from) && row.Start.Before(span.to) {
			rows[key{row.Pool, row.Level, row.Start}] = row
		}
	}
	return slices.Collect(maps.Values(rows)), nil
}

// unflushed returns the sums that the store does not have yet.
func (s *Server) unflushed() []ledger.Row {
	s.books.mutex.Lock()
	defer s.books.mutex.Unlock()
	if s.books.book == nil || !s.Leading() {
		return nil
	}
	return s.books.book.Unflushed()
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
