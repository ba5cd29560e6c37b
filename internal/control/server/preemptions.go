package server

import (
	"context"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/resource"
)

// enterPreemption enters that a job is preempted, for a pool if that is not empty.
func (t *term) enterPreemption(s *core.Stopped, job *Job, pool, forPool string) {
	if job == nil {
		return
	}
	entry := ledger.Preempted{
		Edge: ledger.Edge{Tree: job.Tree, Victim: pool, Winner: forPool, Rule: ledger.RuleOf(s.Preemption, s.Class)},
		Job:  uint64(s.Job), Operation: int32(s.Operation), Started: job.Start, Held: s.Held, Balance: s.Balance,
	}
	if s.For != core.NoOperation {
		entry.ForJob, entry.For = uint64(s.ForJob), int32(s.For)
	}
	b := &t.server.books
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.preemptions.Preempt(t.now, &entry)
}

// enterEnd enters the end of a job of an operation. usage is what was measured, nil if nothing was.
func (t *term) enterEnd(op *activeOperation, job *Job, end ledger.End, outcome ledger.Outcome, usage *operation.Usage, overdrafted bool) {
	end.Job, end.Started, end.Held = uint64(job.Number), job.Start, job.Usage
	b := &t.server.books
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.preemptions.End(t.now, &end)
	if op == nil {
		return
	}
	ran := max(t.now.Sub(job.Start), 0)
	sizing := sizingOf(job, ran, usage, overdrafted)
	account := t.accountOf(op, job.Tree, op.pool(job.Tree))
	b.usage.Job(t.now, account, outcome, &job.Usage, ran, &sizing)
	if outcome == ledger.Completed && usage != nil {
		if shadow := op.shadow(t.server.settings().Core.Memory, job.Task); shadow != nil {
			saved, overdraft := shadow.Job(usage)
			b.usage.Shadow(t.now, account, &job.Usage, ran, saved, overdraft)
		}
	}
}

// noticeCycles logs operations that preempt each other in turn.
func (t *term) noticeCycles() {
	b := &t.server.books
	b.mutex.Lock()
	cycles := b.preemptions.Check(t.now, func(tree string, operation int32) string {
		if op := t.operations[core.OperationID(operation)]; op != nil {
			return op.pool(tree)
		}
		return ""
	})
	b.mutex.Unlock()
	for i := range cycles {
		c := &cycles[i]
		var names []string
		for _, id := range c.Operations {
			if op := t.operations[core.OperationID(id)]; op != nil {
				names = append(names, op.record.ID.String())
			}
		}
		t.event(store.Event{Type: "preemption_cycle", Tree: c.Tree, Pool: c.Pools[0]},
			fact{"operations", names}, fact{"pools", c.Pools}, fact{"jobs", c.Jobs}, fact{"premises", c.Premises.String()},
			fact{"lost_cpu_core_s", c.Lost[resource.CPU].Seconds() / float64(resource.CPU.Scale())})
		t.server.counters.preemptionCycles.Add(1)
		t.server.log.Warn("operations preempt each other in turn", "tree", c.Tree, "operations", names, "jobs", c.Jobs, "premises", c.Premises.String())
	}
}

// ReportQuery selects a report about preemptions or usage.
type ReportQuery struct {
	// Tree selects a tree; empty means all.
	Tree     string
	From, To time.Time
}

// PreemptionReport states which jobs were preempted, for whom, and what that cost.
type PreemptionReport struct {
	// From and To are the time that the sums are about; see GuaranteeReport.
	From, To time.Time
	Lines    []PreemptionLine
	// Watch is what became of the search for cycles, and Cycles the events of those found.
	Watch  ledger.WatchSums
	Cycles []store.Event
}

// PreemptionLine is an edge with its sums.
type PreemptionLine struct {
	ledger.Edge
	ledger.EdgeSums
}

// mostCycles limits the cycles in a report; the newest are listed.
const mostCycles = 100

// Preemptions returns the preemptions of a time, including the last seconds if this server leads.
func (s *Server) Preemptions(ctx context.Context, q ReportQuery) (*PreemptionReport, error) {
	span := spanOf(time.Now(), q.From, q.To)
	rows, err := s.tallies(ctx, q.Tree, span)
	if err != nil {
		return nil, err
	}
	report := &PreemptionReport{From: span.from, To: span.to}
	reader := ledger.NewPreemptions()
	edges, lines, err := reader.Edges.Total(rows)
	if err != nil {
		return nil, err
	}
	for _, e := range edges {
		report.Lines = append(report.Lines, PreemptionLine{e, *lines[e]})
	}
	_, watched, err := reader.Watch.Total(rows)
	if err != nil {
		return nil, err
	}
	for _, w := range watched {
		report.Watch.Minutes += w.Minutes
		report.Watch.Proven += w.Proven
		report.Watch.Cycles += w.Cycles
	}
	report.Cycles, _, err = s.store.Events(ctx, store.EventFilter{
		Types: []string{"preemption_cycle"}, Tree: q.Tree, From: span.from, To: span.to, Limit: mostCycles,
	})
	return report, err
}

// SavedAmounts returns what jobs of a tree did not hold of what they asked for, since this server started to lead.
func (s *Server) SavedAmounts(tree string) (sum ledger.AmountSums) {
	s.books.mutex.Lock()
	defer s.books.mutex.Unlock()
	if s.books.usage == nil || !s.Leading() {
		return sum
	}
	return s.books.usage.Saved(tree)
}

// span is the time of a report and the levels of rows that it consists of.
type span struct {
	from, to time.Time
	parts    []spanPart
}

// spanPart is a time for which rows of one level exist.
type spanPart struct {
	level    ledger.Level
	from, to time.Time
}

// spanOf divides the time of a report by the levels of rows that are still there: hours, then days, then
// months. It widens the time to whole periods.
func spanOf(now, from, to time.Time) span {
	hours := ledger.Day.Start(now.Add(-hoursReach))
	days := ledger.Month.Start(now.Add(-daysReach)).AddDate(0, 1, 0)
	s := span{from: ledger.Hour.Start(from), to: ledger.Hour.Start(to.Add(time.Hour - 1))}
	for _, part := range []spanPart{{ledger.Month, time.Time{}, days}, {ledger.Day, days, hours}, {ledger.Hour, hours, s.to}} {
		from, to := latest(s.from, part.from), earliest(s.to, part.to)
		if !from.Before(to) {
			continue
		}
		if start := part.level.Start(from); start.Before(s.from) {
			s.from = start
		}
		if part.level == ledger.Month && s.to.Equal(to) {
			s.to = ledger.Month.Start(to.Add(-1)).AddDate(0, 1, 0)
		} else if part.level == ledger.Day && s.to.Equal(to) {
			s.to = ledger.Day.Start(to.Add(-1)).AddDate(0, 0, 1)
		}
		s.parts = append(s.parts, spanPart{part.level, part.level.Start(from), to})
	}
	return s
}

// tallies returns the rows of all kinds for a report: each period once.
func (s *Server) tallies(ctx context.Context, tree string, span span) ([]ledger.TallyRow, error) {
	type key struct {
		kind, tree string
		start      time.Time
	}
	var rows []ledger.TallyRow
	at := map[key]int{}
	for _, part := range span.parts {
		list, err := s.store.Tallies(ctx, store.TallyQuery{Tree: tree, Level: int32(part.level), From: part.from, To: part.to})
		if err != nil {
			return nil, err
		}
		for _, row := range list {
			if part.level == ledger.Hour {
				at[key{row.Kind, row.Tree, row.Start}] = len(rows)
			}
			rows = append(rows, ledger.TallyRow{Kind: row.Kind, Tree: row.Tree, Level: ledger.Level(row.Level), Start: row.Start, Data: row.Data})
		}
	}
	for _, row := range s.unflushedTallies() {
		if tree != "" && tree != row.Tree || row.Start.Before(span.from) || !row.Start.Before(span.to) {
			continue
		}
		if i, there := at[key{row.Kind, row.Tree, row.Start}]; there {
			rows[i] = row
		} else {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// unflushedTallies returns the hours that the store does not have yet.
func (s *Server) unflushedTallies() []ledger.TallyRow {
	s.books.mutex.Lock()
	defer s.books.mutex.Unlock()
	if s.books.preemptions == nil || !s.Leading() {
		return nil
	}
	usage := s.books.usage
	return slices.Concat(s.books.preemptions.Unflushed(), usage.Accounts.Unflushed(), usage.Shadows.Unflushed())
}

// PreemptionLosses returns the work that preempted jobs of a tree have lost, by rule, since this server
// started to lead.
func (s *Server) PreemptionLosses(tree string) (sum ledger.Losses) {
	s.books.mutex.Lock()
	defer s.books.mutex.Unlock()
	if s.books.preemptions == nil || !s.Leading() {
		return sum
	}
	return s.books.preemptions.Lost(tree)
}
