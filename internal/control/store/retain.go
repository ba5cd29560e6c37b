package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/control/store/history"
)

// Policy determines how much is kept. Zero means no limit, except for history, the ledger and forecasts, where it means the default.
type Policy struct {
	// OperationAge is how long finished operations stay in the archive; OperationsPerUser and Operations limit how
	// many of the last ones stay, per user and in total. Jobs and their output are removed with their operation.
	OperationAge      time.Duration
	OperationsPerUser int
	Operations        int
	// JobAge is how long finished jobs are kept. For an unfinished operation, only jobs that its controller's
	// snapshot includes are removed.
	JobAge time.Duration
	// OutputAge is how long the output of jobs is kept.
	OutputAge time.Duration
	// EventAge and Events limit the decision log, AuditAge and AuditRecords the audit.
	EventAge     time.Duration
	Events       int64
	AuditAge     time.Duration
	AuditRecords int64
	// Tombstones is how many revisions back Changes can read.
	Tombstones int64
	// HistoryAge is how long points of each level are kept.
	HistoryAge map[history.Level]time.Duration
	// LedgerAge is how long rows of the books are kept, by level; see usualLedgerAge.
	LedgerAge map[int32]time.Duration
	// FactsAge is how long the log of the books is kept; zero means three days.
	FactsAge time.Duration
	// ForecastAge is how long forecasts are kept; zero means 90 days.
	ForecastAge time.Duration
	// BatchRows limits the rows that one transaction deletes; zero means 500. Commits wait
	// for at most one such transaction.
	BatchRows int
}

// Removed counts the rows that Retain deleted.
type Removed struct {
	Operations, Jobs, Outputs, ContentUses, Events, Audit, Mutations, Tombstones, History, Ledger, Forecasts int64
}

// Retain deletes what the policy does not keep, expired mutations and expired uses of contents, in bounded transactions under the lease. If
// it stops early, with ErrFenced or because ctx was cancelled, the next call continues.
func (s *Store) Retain(ctx context.Context, lease Lease, policy Policy, now time.Time) (Removed, error) {
	r := &retainer{Store: s, lease: lease, policy: policy, now: now, rows: policy.BatchRows}
	if r.rows <= 0 {
		r.rows = 500
	}
	for _, step := range []func(context.Context) error{r.mutations, r.contentUses, r.operations, r.jobs, r.outputs, r.log, r.history, r.ledger, r.forecasts, r.tombstones} {
		if err := step(ctx); err != nil {
			return r.removed, fmt.Errorf("retain: %w", err)
		}
	}
	s.groupings.forget() // removals have no revision
	return r.removed, nil
}

type retainer struct {
	*Store
	lease   Lease
	policy  Policy
	now     time.Time
	rows    int
	removed Removed
}

func (r *retainer) cutoff(age time.Duration) int64 { return microseconds(r.now.Add(-age)) }

// fenced runs a function in a separate transaction under the lease.
func (r *retainer) fenced(ctx context.Context, write func(ctx context.Context, w *writer) error) error {
	return within(ctx, r.patience.commit, func(ctx context.Context) error {
		if err := r.lock(ctx); err != nil {
			return err
		}
		defer r.unlock()
		return r.writing(ctx, func(ctx context.Context, w *writer) error {
			var receipt Receipt
			if err := w.checkEpoch(ctx, r.lease.Epoch, &receipt); err != nil {
				return err
			}
			return write(ctx, w)
		})
	})
}

// all deletes the rows that a condition selects, one batch per transaction. key must order the table.
func (r *retainer) all(ctx context.Context, removed *int64, table, key, condition string, args ...any) error {
	query := "DELETE FROM " + table + " WHERE (" + key + ") IN (SELECT " + key + " FROM " + table +
		" WHERE " + condition + " ORDER BY " + key + " LIMIT " + strconv.Itoa(r.rows) + ")"
	for {
		var n int64
		err := r.fenced(ctx, func(ctx context.Context, w *writer) error {
			result, err := w.exec(ctx, query, args...)
			if err != nil {
				return err
			}
			n, err = result.RowsAffected()
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", table, err)
		}
		*removed += n
		if n < int64(r.rows) {
			return nil
		}
	}
}

func (r *retainer) mutations(ctx context.Context) error {
	return r.all(ctx, &r.removed.Mutations, "mutations", "id", "expires < $1", microseconds(r.now))
}

func (r *retainer) contentUses(ctx context.Context) error {
	return r.all(ctx, &r.removed.ContentUses, "content_uses", "content, holder", "expires <> 0 AND expires < $1", microseconds(r.now))
}

// operations removes operations with all that belongs to them, a few at a time.
func (r *retainer) operations(ctx context.Context) error {
	c := &conditions{}
	if r.policy.OperationAge > 0 {
		c.add("finish_time < ?", r.cutoff(r.policy.OperationAge))
	}
	if r.policy.OperationsPerUser > 0 {
		c.add("of_user > ?", int64(r.policy.OperationsPerUser))
	}
	if r.policy.Operations > 0 {
		c.add("of_all > ?", int64(r.policy.Operations))
	}
	if len(c.parts) == 0 {
		return nil
	}
	query := `SELECT number FROM (SELECT number, finish_time,
		row_number() OVER (PARTITION BY user_name ORDER BY finish_time DESC, number DESC) AS of_user,
		row_number() OVER (ORDER BY finish_time DESC, number DESC) AS of_all
		FROM operations WHERE finish_time <> 0) AS archive
		WHERE ` + strings.Join(c.parts, " OR ") + ` ORDER BY finish_time, number LIMIT ` + strconv.Itoa(r.rows)
	for {
		var doomed []int64
		err := scanAll(ctx, reader{r.Store}, query, c.args, func(scan func(...any) error) error {
			var number int64
			if err := scan(&number); err != nil {
				return err
			}
			doomed = append(doomed, number)
			return nil
		})
		if err != nil {
			return r.wrap(err)
		}
		if len(doomed) == 0 {
			return nil
		}
		if err := r.bury(ctx, doomed); err != nil {
			return err
		}
	}
}

// bury deletes archived operations: first their jobs and output, which may be many, then the rest.
func (r *retainer) bury(ctx context.Context, numbers []int64) error {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = strconv.FormatInt(n, 10)
	}
	among := " IN (" + strings.Join(texts, ", ") + ")"
	if err := r.all(ctx, &r.removed.Outputs, "job_outputs", "job, kind", "operation"+among); err != nil {
		return err
	}
	if err := r.all(ctx, &r.removed.Jobs, "jobs", "number", "operation"+among); err != nil {
		return err
	}
	if err := r.all(ctx, &r.removed.ContentUses, "content_uses", "content, holder", "operation"+among); err != nil {
		return err
	}
	var unused int64
	for _, table := range []string{"operation_specs", "operation_progress", "controller_snapshots"} {
		if err := r.all(ctx, &unused, table, "operation", "operation"+among); err != nil {
			return err
		}
	}
	return r.all(ctx, &r.removed.Operations, "operations", "number", "finish_time <> 0 AND number"+among)
}

func (r *retainer) jobs(ctx context.Context) error {
	if r.policy.JobAge <= 0 {
		return nil
	}
	condition := `finish_time <> 0 AND finish_time < $1 AND NOT EXISTS (SELECT 1 FROM operations o
		LEFT JOIN controller_snapshots s ON s.operation = o.number
		WHERE o.number = jobs.operation AND o.finish_time = 0 AND jobs.sequence > COALESCE(s.position, 0))`
	cutoff := r.cutoff(r.policy.JobAge)
	err := r.all(ctx, &r.removed.Outputs, "job_outputs", "job, kind", "written < $1 AND job IN (SELECT number FROM jobs WHERE "+condition+")", cutoff)
	if err != nil {
		return err
	}
	return r.all(ctx, &r.removed.Jobs, "jobs", "number", condition, cutoff)
}

func (r *retainer) outputs(ctx context.Context) error {
	if r.policy.OutputAge <= 0 {
		return nil
	}
	return r.all(ctx, &r.removed.Outputs, "job_outputs", "job, kind", "written < $1", r.cutoff(r.policy.OutputAge))
}

// log trims the decision log and the audit. Their numbers are dense, so a count is a difference of numbers.
func (r *retainer) log(ctx context.Context) error {
	for _, l := range []struct {
		table   string
		age     time.Duration
		count   int64
		removed *int64
	}{
		{"events", r.policy.EventAge, r.policy.Events, &r.removed.Events},
		{"audit", r.policy.AuditAge, r.policy.AuditRecords, &r.removed.Audit},
	} {
		if l.age > 0 {
			condition, cutoff := "time < $1", r.cutoff(l.age)
			if l.table == "events" {
				condition += " AND id <= (SELECT COALESCE(max(last), 0) FROM event_minutes WHERE minute <= $1 / 60000000)"
			}
			if err := r.all(ctx, l.removed, l.table, "id", condition, cutoff); err != nil {
				return err
			}
		}
		if l.count > 0 {
			last := map[string]string{"events": "last_event", "audit": "last_audit"}[l.table]
			if err := r.all(ctx, l.removed, l.table, "id", "id <= (SELECT "+last+" FROM leadership) - $1", l.count); err != nil {
				return err
			}
		}
	}
	if r.removed.Events == 0 {
		return nil
	}
	// What leads only to events that are gone.
	gone := "last < (SELECT COALESCE((SELECT min(id) FROM events), last_event + 1) FROM leadership)"
	var unused int64
	if err := r.all(ctx, &unused, "event_spans", "last, kind, key, first", gone); err != nil {
		return err
	}
	return r.all(ctx, &unused, "event_minutes", "minute", gone)
}

func (r *retainer) history(ctx context.Context) error {
	for _, level := range history.Levels {
		keep := r.policy.HistoryAge[level]
		if keep <= 0 {
			keep = level.Keep()
		}
		err := r.all(ctx, &r.removed.History, "history_blocks", "tree, pool, level, start", "level = $1 AND start < $2",
			int64(level.Step()/time.Second), r.cutoff(keep+level.Span()))
		if err != nil {
			return err
		}
	}
	return nil
}

// usualLedgerAge is how long hours and days of the books are kept. Months are kept
// permanently.
var usualLedgerAge = [...]struct {
	level int32
	age   time.Duration
}{{60 * 60, 40 * 24 * time.Hour}, {24 * 60 * 60, 400 * 24 * time.Hour}}

func (r *retainer) ledger(ctx context.Context) error {
	for _, usual := range usualLedgerAge {
		keep := r.policy.LedgerAge[usual.level]
		if keep <= 0 {
			keep = usual.age
		}
		err := r.all(ctx, &r.removed.Ledger, "ledger_rows", "tree, pool, level, start", "level = $1 AND start < $2", int64(usual.level), r.cutoff(keep))
		if err != nil {
			return err
		}
		err = r.all(ctx, &r.removed.Ledger, "ledger_tallies", "kind, tree, level, start", "level = $1 AND start < $2", int64(usual.level), r.cutoff(keep))
		if err != nil {
			return err
		}
	}
	keep := r.policy.FactsAge
	if keep <= 0 {
		keep = usualFactsAge
	}
	return r.all(ctx, &r.removed.Ledger, "ledger_facts", "epoch, number", "finish < $1", r.cutoff(keep))
}

// usualFactsAge is how long the log of the books is kept: the check of a day that has ended needs two days.
const usualFactsAge = 3 * 24 * time.Hour

// usualForecastAge is how long forecasts are kept.
const usualForecastAge = 90 * 24 * time.Hour

func (r *retainer) forecasts(ctx context.Context) error {
	keep := r.policy.ForecastAge
	if keep <= 0 {
		keep = usualForecastAge
	}
	return r.all(ctx, &r.removed.Forecasts, "forecasts", "operation, target, made", "made < $1", r.cutoff(keep))
}

// tombstones deletes tombstones before a revision. It records that revision first, so that no reader misses a
// deletion. Epochs of early leaders are deleted with them.
func (r *retainer) tombstones(ctx context.Context) error {
	if r.policy.Tombstones <= 0 {
		return nil
	}
	err := r.fenced(ctx, func(ctx context.Context, w *writer) error {
		if _, err := w.exec(ctx, `UPDATE leadership SET oldest_revision = revision - $1
			WHERE oldest_revision < revision - $1`, r.policy.Tombstones); err != nil {
			return err
		}
		_, err := w.exec(ctx, "DELETE FROM epochs WHERE epoch < (SELECT epoch FROM leadership) - 1000")
		return err
	})
	if err != nil {
		return err
	}
	return r.all(ctx, &r.removed.Tombstones, "tombstones", "revision, number", "revision <= (SELECT oldest_revision FROM leadership)")
}
