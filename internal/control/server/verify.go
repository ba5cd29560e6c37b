package server

import (
	"context"
	"errors"
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
	log, err := s.store.LedgerFacts(ctx, from, to)
	if err != nil || !from.Before(to) {
		return v, err
	}
	hours, err := s.bookRows(ctx, q, ledger.Hour, ledger.Day.Start(from), ledger.Day.Start(to.Add(-1)).AddDate(0, 0, 1))
	if err != nil {
		return nil, err
	}
	next := from
	for _, stretch := range append(covered(log, from, to, flushed), stretch{from: to, to: to}) {
		for ; next.Before(stretch.from); next = next.Add(time.Hour) {
			if len(within(hours, next, next.Add(time.Hour))) > 0 {
				v.Unverified = append(v.Unverified, next)
			}
		}
		next = stretch.to
		computed, err := ledger.Integrate(stretch.facts, stretch.from, stretch.to)
		if err != nil {
			return nil, err
		}
		for pool := range computed {
			if !q.selects(pool) {
				delete(computed, pool)
			}
		}
		rows := within(hours, stretch.from, stretch.to)
		v.Hours += len(rows)
		if err := v.compare(rows, computed, ledger.Hour); err != nil {
			return nil, err
		}
	}
	return v, s.verifySums(ctx, v, q, hours, flushed)
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

// within returns the rows that start in a time.
func within(rows []ledger.Row, from, to time.Time) (selected []ledger.Row) {
	for _, row := range rows {
		if !row.Start.Before(from) && row.Start.Before(to) {
			selected = append(selected, row)
		}
	}
	return selected
}

// selects reports whether the query is about a pool.
func (q *GuaranteeQuery) selects(pool ledger.Pool) bool {
	return (q.Tree == "" || q.Tree == pool.Tree) && (q.Pool == "" || q.Pool == pool.Name)
}

// stretch is whole hours that the log covers.
type stretch struct {
	from, to time.Time
	facts    []ledger.Facts
}

// covered divides a time into stretches that the log covers without a gap. The hour of the last flush counts as
// covered: its rows end there.
func covered(log []store.LedgerFacts, from, to, last time.Time) (all []stretch) {
	for i := 0; i < len(log); {
		if log[i].Gap {
			i++
			continue
		}
		next := i + 1
		for next < len(log) && !log[next].Gap && log[next].Start.Equal(log[next-1].Finish) {
			next++
		}
		s := stretch{from: latest(from, ledger.Hour.Start(log[i].Start.Add(time.Hour-1))), to: earliest(to, ledger.Hour.Start(log[next-1].Finish))}
		if log[next-1].Finish.Equal(last) {
			s.to = to
		}
		if s.from.Before(s.to) {
			for _, f := range log[i:next] {
				s.facts = append(s.facts, ledger.Facts{From: f.Start, To: f.Finish, Data: f.Data})
			}
			all = append(all, s)
		}
		i = next
	}
	return all
}
