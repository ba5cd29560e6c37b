package server

import (
	"context"
	"math/big"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/value/resource"
)

// budgetsPeriod is how often the leader looks at budgets.
const budgetsPeriod = time.Minute

// BudgetState is how much of a budget is spent in a month.
type BudgetState struct {
	*ledger.Budget
	Month time.Time // its first day
	// Of is the resource whose hours the budget limits, or KindCount for money.
	Of           resource.Kind
	Limit, Spent float64
	Level        ledger.BudgetLevel
	// LastsUntil is when all of it is spent if the month goes on as until now; zero if it lasts for the month, or is spent.
	LastsUntil time.Time
}

// Part is how much of it is spent, as a part of the limit.
func (b *BudgetState) Part() float64 { return b.Spent / b.Limit }

// Budgets returns the state of all budgets in the month of a time, in the order of the settings.
func (s *Server) Budgets(ctx context.Context, at time.Time) ([]BudgetState, error) {
	settings := s.settings()
	month := ledger.Month.Start(at)
	list := make([]BudgetState, len(settings.Budgets))
	if len(list) == 0 {
		return list, nil
	}
	now := time.Now()
	end := earliest(now, month.AddDate(0, 1, 0))
	rows, err := s.tallies(ctx, "", monthSpan(now, month))
	if err != nil {
		return nil, err
	}
	parts := map[*ledger.PricePeriod][]ledger.TallyRow{}
	for _, row := range rows {
		prices := settings.Prices.At(row.Tree, row.Start)
		parts[prices] = append(parts[prices], row)
	}
	spent := make([]*big.Rat, len(list))
	for i := range spent {
		spent[i] = new(big.Rat)
	}
	for prices, rows := range parts {
		accounts, sums, err := ledger.NewUsage().Accounts.Total(rows)
		if err != nil {
			return nil, err
		}
		for i := range accounts {
			a := &accounts[i]
			for k := range settings.Budgets {
				if b := &settings.Budgets[k]; b.Covers(a, s.isBelow) {
					spent[k].Add(spent[k], b.Spent(sums[*a], prices))
				}
			}
		}
	}
	for k := range list {
		b := &list[k]
		b.Budget, b.Month = &settings.Budgets[k], month
		b.Limit, b.Of, _ = b.Budget.Limit()
		b.Spent, _ = spent[k].Float64()
		b.Level = b.Budget.Level(b.Part())
		if elapsed := end.Sub(month); b.Spent > 0 && b.Level != ledger.BudgetSpent && end.Equal(now) {
			if whole := elapsed.Seconds() / b.Part(); whole < month.AddDate(0, 1, 0).Sub(month).Seconds() {
				b.LastsUntil = month.Add(time.Duration(whole * float64(time.Second)))
			}
		}
	}
	return list, nil
}

// monthSpan is a month: days that have ended, and the hours of the current day. Months long past are whole.
func monthSpan(now, month time.Time) span {
	next := month.AddDate(0, 1, 0)
	if month.Before(now.Add(-daysReach)) {
		return span{month, next, []spanPart{{ledger.Month, month, next}}}
	}
	today := earliest(latest(ledger.Day.Start(now), month), next)
	return span{month, next, []spanPart{{ledger.Day, month, today}, {ledger.Hour, today, next}}}
}

// isBelow reports whether a pool is another one or below it. Of a removed pool only the name is known.
func (s *Server) isBelow(tree, pool, above string) bool {
	if pool == above {
		return true
	}
	t, there := s.View().Picture.Tree(tree)
	if !there {
		return false
	}
	p, there := t.Pool(pool)
	for there && p.Parent >= 0 {
		if p = t.PoolIn(p.Parent); p.Name == above {
			return true
		}
	}
	return false
}

func budgetCounter(name string) string { return "budget/" + name }

// toldBudget is what a counter has of a budget: the month and the level that the log has last.
func toldBudget(month time.Time, level ledger.BudgetLevel) int64 {
	return month.Unix()<<2 | int64(level)
}

// watchBudgets logs when a budget is low or spent, once a month each, in the background.
func (t *term) watchBudgets(ctx context.Context) {
	for {
		if len(t.server.settings().Budgets) > 0 {
			if err := t.server.tellBudgets(ctx); err != nil && ctx.Err() == nil {
				t.server.log.Warn("cannot compute budgets", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(budgetsPeriod):
		}
	}
}

// tellBudgets logs the budgets whose level is higher than the log says.
func (s *Server) tellBudgets(ctx context.Context) error {
	list, err := s.Budgets(ctx, time.Now())
	if err != nil {
		return err
	}
	s.budgets.Store(&list)
	for i := range list {
		b := &list[i]
		if b.Level == ledger.BudgetWithin {
			continue
		}
		name := b.Name.Value()
		told, _, err := s.store.Counter(ctx, budgetCounter(name))
		if err != nil {
			return err
		}
		now := toldBudget(b.Month, b.Level)
		if told >= now {
			continue
		}
		if _, err := ask(ctx, s, func(t *term) (struct{}, error) {
			t.event(store.Event{Type: "budget", Tree: b.Tree.Value(), Pool: b.Pool.Value()},
				fact{"budget", name}, fact{"level", b.Level.String()}, fact{"user", b.User.Value()}, fact{"label", b.Label.Value()},
				fact{"month", b.Month.Format("2006-01")}, fact{"unit", s.BudgetUnit(b)}, fact{"limit", b.Limit}, fact{"spent", b.Spent})
			t.open.rows.Put.Counters = append(t.open.rows.Put.Counters, store.Counter{Name: budgetCounter(name), Value: now})
			return struct{}{}, nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// BudgetParts returns the state of the budgets as the leader saw it last, for metrics.
func (s *Server) BudgetParts() []BudgetState {
	if list := s.budgets.Load(); list != nil && s.Leading() && len(s.settings().Budgets) > 0 {
		return *list
	}
	return nil
}

// BudgetUnit is the unit of a budget: the currency, or a resource and hours.
func (s *Server) BudgetUnit(b *BudgetState) string {
	switch b.Of {
	case resource.CPU:
		return "core·h"
	case resource.GPU:
		return "GPU·h"
	case resource.Memory:
		return "GiB·h"
	}
	return s.settings().Prices.Currency.Value()
}
