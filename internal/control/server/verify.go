package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/ledger"
)

// Verification states whether the books of guarantees equal the integral of the log.
type Verification struct {
	// From and To are the time that was verified: whole hours, of which the last may be the current one, up to
	// the last flush.
	From, To time.Time
	// Hours, Days and Months count the rows of pools that were compared: hours with the log, days with hours,
	// months with days.
	Hours, Days, Months int
	// Unverified lists the hours that the log does not cover: it is kept for three days, and
	// begins with the first flush after an upgrade.
	Unverified []time.Time
	// Differences are by level, pool, time, resource and figure.
	Differences []ledger.Difference
}

// Equal reports whether there are no differences.
func (v *Verification) Equal() bool { return len(v.Differences) == 0 }

// errBooksMove is returned if the leader stores its books faster than they can be read.
var errBooksMove = errors.New("the leader stored its books while they were read; try again")

// VerifyGuarantees recomputes the books of guarantees from the log, and compares every stored row of the query.
func (s *Server) VerifyGuarantees(ctx context.Context, q GuaranteeQuery) (*Verification, error) {
	for range 5 {
		flushed, err := s.store.LastLedgerFacts(ctx)
		if err != nil {
			return nil, err
		}
		v, err := s.verify(ctx, &q, flushed)
		if err != nil {
			return nil, err
		}
		after, err := s.store.LastLedgerFacts(ctx)
		if err != nil {
			return nil, err
		}
		if after.Equal(flushed) {
			return v, nil
		}
	}
	return nil, errBooksMove
}

// verify verifies the books as of the last flush.
func (s *Server) verify(ctx context.Context, q *GuaranteeQuery, flushed time.Time) (*Verification, error) {
	from, to := ledger.Hour.Start(q.From), ledger.Hour.Start(earliest(q.To, flushed).Add(time.Hour-1))
	v := &Verification{From: from, To: latest(from, to)}
	if !from.Before(to) {
		return v, nil
	}
	hours, err := s.bookRows(ctx, q, ledger.Hour, ledger.Day.Start(from), ledger.Day.Start(to.Add(-1)).AddDate(0, 0, 1))
	if err != nil {
		return nil, err
	}
	for hour := from; hour.Before(to); hour = hour.Add(time.Hour) {
		rows := slices.DeleteFunc(slices.Clone(hours), func(row ledger.Row) bool { return !row.Start.Equal(hour) })
		if err := s.verifyHour(ctx, v, q, hour, rows, flushed); err != nil {
			return nil, err
		}
	}
	return v, s.verifySums(ctx, v, q, hours, flushed)
}

// verifyHour compares the rows of an hour with the log.
func (s *Server) verifyHour(ctx context.Context, v *Verification, q *GuaranteeQuery, hour time.Time, rows []ledger.Row, flushed time.Time) error {
	end := hour.Add(time.Hour)
	log, err := s.store.LedgerFacts(ctx, hour, end)
	if err != nil {
		return err
	}
	facts, covered := factsOf(log, hour, earliest(end, flushed))
	if !covered {
		if len(rows) > 0 {
			v.Unverified = append(v.Unverified, hour)
		}
		return nil
	}
	computed, err := ledger.Integrate(facts, hour, end)
	if err != nil {
		return err
	}
	for pool := range computed {
		if !q.selects(pool) {
			delete(computed, pool)
		}
	}
	v.Hours += len(rows)
	return v.compare(rows, computed, ledger.Hour)
}

// factsOf returns the log of a time, and whether it covers it without a gap.
func factsOf(log []store.LedgerFacts, from, to time.Time) (facts []ledger.Facts, covered bool) {
	at := from
	for _, f := range log {
		if f.Gap || f.Start.After(at) || len(facts) > 0 && !f.Start.Equal(at) {
			return nil, false
		}
		facts = append(facts, ledger.Facts{From: f.Start, To: f.Finish, Data: f.Data})
		at = f.Finish
	}
	return facts, !at.Before(to)
}

// verifySums compares days with their hours, and months with their days, as far as these are kept. Days have the
// hours that had ended at the last flush.
func (s *Server) verifySums(ctx context.Context, v *Verification, q *GuaranteeQuery, hours []ledger.Row, flushed time.Time) error {
	ended := slices.DeleteFunc(slices.Clone(hours), func(row ledger.Row) bool { return !row.Start.Add(time.Hour).Before(flushed) })
	for _, part := range []struct {
		level, of ledger.Level
		reach     time.Duration // how long rows of the lower level are kept
		count     *int
	}{{ledger.Day, ledger.Hour, hoursReach, &v.Days}, {ledger.Month, ledger.Day, daysReach, &v.Months}} {
		from := part.level.Start(v.From)
		if from.Before(flushed.Add(-part.reach)) {
			continue
		}
		rows, err := s.bookRows(ctx, q, part.level, from, v.To)
		if err != nil {
			return err
		}
		lower := ended
		if part.of != ledger.Hour {
			if lower, err = s.bookRows(ctx, q, part.of, from, part.level.Start(v.To.Add(-1)).AddDate(0, 1, 0)); err != nil {
				return err
			}
		}
		sums, err := ledger.Read(lower, part.of)
		if err != nil {
			return err
		}
		*part.count = len(rows)
		if err := v.compare(rows, sums.Total(part.level), part.level); err != nil {
			return err
		}
	}
	return nil
}

func (v *Verification) compare(rows []ledger.Row, computed ledger.Integral, level ledger.Level) error {
	differ, err := ledger.Compare(rows, computed, level)
	v.Differences = append(v.Differences, differ...)
	return err
}

// bookRows returns the stored rows of a level.
func (s *Server) bookRows(ctx context.Context, q *GuaranteeQuery, level ledger.Level, from, to time.Time) ([]ledger.Row, error) {
	rows, err := s.store.Ledger(ctx, store.LedgerQuery{Tree: q.Tree, Pool: q.Pool, Level: int32(level), From: from, To: to})
	return ledgerRows(rows), err
}

// selects reports whether the query is about a pool.
func (q *GuaranteeQuery) selects(pool ledger.Pool) bool {
	return (q.Tree == "" || q.Tree == pool.Tree) && (q.Pool == "" || q.Pool == pool.Name)
}

// nightlyCheck is how long after midnight, in UTC, the leader verifies the day that has ended.
const nightlyCheck = 10 * time.Minute

// verifyNightly verifies the books of each day that has ended, in the background.
func (t *term) verifyNightly(ctx context.Context) {
	for {
		today := ledger.Day.Start(time.Now().Add(-nightlyCheck))
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(today.AddDate(0, 0, 1).Add(nightlyCheck))):
		}
		today = today.AddDate(0, 0, 1)
		v, err := t.server.VerifyGuarantees(ctx, GuaranteeQuery{From: today.AddDate(0, 0, -1), To: today})
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			t.server.log.Warn("cannot verify the ledger", "error", err)
		case v.Equal():
			t.server.alerts.clear(AlertLedgerDiffers)
		default:
			d := &v.Differences[0]
			t.server.alerts.raise(AlertLedgerDiffers, fmt.Sprintf("the books of %s differ from their log in %d figures; the first is %s of pool %s at %s",
				today.AddDate(0, 0, -1).Format(time.DateOnly), len(v.Differences), d.Figure, d.Name, d.Start.Format(time.RFC3339)))
		}
	}
}
