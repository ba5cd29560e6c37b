package api

import (
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
)

// usageKeys are what reports about usage can be divided by; label:NAME is one for each label.
var usageKeys = append(slices.Clone(server.UsageKeys), server.LabelPrefix)

// divides reports whether the lines of a report can be divided by a key.
func (k *reportKind) divides(by string) bool {
	if label, found := strings.CutPrefix(by, server.LabelPrefix); found {
		return label != "" && slices.Contains(k.by, server.LabelPrefix)
	}
	return slices.Contains(k.by, by)
}

// usageLines makes a table of accounts: its keys, and then what put adds for each line.
func (c *call) usageLines(q *reportRequest, priced bool, put func(t *reportTable, line *server.UsageLine)) (yson.Node, error) {
	if len(q.by) == 0 {
		q.by = []string{"pool", "user"}
	}
	query := server.UsageQuery{ReportQuery: q.ReportQuery, By: q.by, Readable: func(p ledger.Pool) bool {
		return (q.pool == "" || q.pool == p.Name) && c.mayReadPool(p.Tree, p.Name) == nil
	}}
	var err error
	if priced {
		if query.Prices, err = c.prices(); err != nil {
			return yson.Node{}, err
		}
	}
	report, err := c.Server.Usage(c.Context, query)
	if err != nil {
		return yson.Node{}, err
	}
	if err := c.checkReported(q, len(report.Lines)); err != nil {
		return yson.Node{}, err
	}
	var table reportTable
	add := func(line *server.UsageLine, shown bool) {
		for i, key := range q.by {
			table.put(key, yson.String(line.Keys[i]))
		}
		put(&table, line)
		if report.Priced {
			kind := "usage"
			if line.Reserved {
				kind = "reserved"
			}
			table.put("line", yson.String(kind))
			table.put("cost_micros", yson.Int64(line.Micros))
		}
		table.end(shown)
	}
	add(&server.UsageLine{Keys: make([]string, len(q.by))}, false)
	for i := range report.Lines {
		add(&report.Lines[i], true)
	}
	entries := table.entries()
	if report.Priced {
		entries = append(entries, yson.Pair("currency", yson.String(report.Currency)), yson.Pair("total_micros", yson.Int64(report.Total)))
	}
	return reportNode(q, report.From, report.To, entries...), nil
}

// prices returns the price list of the request, else that of the settings; nil if there is none.
func (c *call) prices() (*ledger.PriceList, error) {
	if !c.Parameters.Has("prices") {
		if list := c.Server.Settings().Prices; len(list.Periods.Value()) > 0 {
			return &list, nil
		}
		return nil, nil
	}
	value, err := c.Parameters.Document("prices")
	if err != nil {
		return nil, err
	}
	r, list := document.NewReader(""), &ledger.PriceList{}
	r.Enter("prices")
	ledger.PriceListTable.Read(r, value, list)
	if r.HasProblems() {
		return nil, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /prices: %s", r.Problems())
	}
	return list, nil
}

// reportBudgets returns how much of each budget is spent in the month in which the report begins.
func (c *call) reportBudgets(q *reportRequest) (yson.Node, error) {
	states, err := c.Server.Budgets(c.Context, q.From)
	if err != nil {
		return yson.Node{}, err
	}
	month := ledger.Month.Start(q.From)
	var table reportTable
	put := func(b *server.BudgetState, shown bool) {
		text := func(name string, value document.Optional[string]) { table.put(name, yson.String(value.Value())) }
		table.put("budget", yson.String(b.Name.Value()))
		text("tree", b.Tree)
		text("pool", b.Pool)
		text("user", b.User)
		text("label", b.Label)
		table.put("unit", yson.String(c.Server.BudgetUnit(b)))
		table.put("limit", yson.Double(b.Limit))
		table.put("spent", yson.Double(b.Spent))
		part, lasts := yson.Entity(), yson.Entity()
		if b.Limit > 0 {
			part = yson.Double(b.Part())
		}
		if !b.LastsUntil.IsZero() {
			lasts = wire.Instant(b.LastsUntil)
		}
		table.put("part", part)
		table.put("level", yson.String(b.Level.String()))
		table.put("lasts_until", lasts)
		table.end(shown)
	}
	put(&server.BudgetState{Budget: &ledger.Budget{}}, false)
	for i := range states {
		b := &states[i]
		if q.pool != "" && q.pool != b.Pool.Value() || b.Pool.IsSet() && c.mayReadPool(b.Tree.Or(q.Tree), b.Pool.Value()) != nil {
			continue
		}
		put(b, true)
	}
	return reportNode(q, month, month.AddDate(0, 1, 0), table.entries()...), nil
}

func (c *call) reportUsage(q *reportRequest) (yson.Node, error) {
	return c.usageLines(q, true, func(t *reportTable, line *server.UsageLine) {
		jobs := int64(0)
		for _, count := range line.Jobs {
			jobs += count
		}
		t.put("jobs", yson.Int64(jobs))
		t.amounts("held", &line.Held)
		t.amounts("guarantee", &line.Guaranteed)
		surplus := line.Surplus()
		t.amounts("surplus", &surplus)
		for outcome := range ledger.OutcomeCount {
			t.put(outcome.String()+"_jobs", yson.Int64(line.Jobs[outcome]))
			t.amounts(outcome.String(), &line.Ended[outcome])
		}
		t.amounts("given", &line.Sizing.Given)
		t.amounts("used", &line.Sizing.Used)
		t.put("held_slot_s", amountNode(resource.UserSlots, line.Held[resource.UserSlots]))
	})
}

func (c *call) reportSavings(q *reportRequest) (yson.Node, error) {
	return c.usageLines(q, false, func(t *reportTable, line *server.UsageLine) {
		s := &line.Sizing
		jobs, ended := int64(0), ledger.AmountSums{}
		for outcome, count := range line.Jobs {
			jobs += count
			for k := range ended {
				ended[k].Add(line.Ended[outcome][k])
			}
		}
		gib := func(sum ledger.Sum) float64 { return sum.Seconds() / (1 << 30) }
		cores := func(sum ledger.Sum) float64 { return sum.Seconds() / float64(resource.CPU.Scale()) }
		limit, reserved := gib(s.Limit), gib(s.Given[resource.Memory])
		t.put("jobs", yson.Int64(jobs))
		t.put("measured_jobs", yson.Int64(s.Measured))
		t.put("memory_limit_gib_s", yson.Double(limit))
		t.put("memory_reserved_gib_s", yson.Double(reserved))
		t.put("memory_peak_gib_s", yson.Double(gib(s.Peak)))
		t.put("memory_used_gib_s", yson.Double(gib(s.Used[resource.Memory])))
		t.put("memory_saved_gib_s", yson.Double(limit-reserved))
		t.put("memory_slack_gib_s", yson.Double(max(reserved-gib(s.Peak), 0)))
		t.put("overdrafts", yson.Int64(s.Overdrafts))
		t.put("overdraft_lost_gib_s", yson.Double(gib(s.OverdraftLost[resource.Memory])))
		t.put("overdraft_lost_core_s", yson.Double(cores(s.OverdraftLost[resource.CPU])))
		t.put("memory_net_gib_s", yson.Double(limit-reserved-gib(s.OverdraftLost[resource.Memory])))
		t.put("cpu_requested_core_s", yson.Double(cores(s.Given[resource.CPU])))
		t.put("cpu_held_core_s", yson.Double(cores(ended[resource.CPU])))
		t.put("cpu_used_core_s", yson.Double(cores(s.Used[resource.CPU])))
		t.put("cpu_reclaimed_core_s", yson.Double(max(cores(s.Given[resource.CPU])-cores(ended[resource.CPU]), 0)))
		t.put("shadow_jobs", yson.Int64(line.Shadow.Jobs))
		t.put("shadow_saved_gib_s", yson.Double(gib(line.Shadow.Saved)))
		t.put("shadow_overdrafts", yson.Int64(line.Shadow.Overdrafts))
		t.put("shadow_lost_gib_s", yson.Double(gib(line.Shadow.Lost[resource.Memory])))
		t.put("shadow_lost_core_s", yson.Double(cores(line.Shadow.Lost[resource.CPU])))
	})
}

func (c *call) reportWaits(q *reportRequest) (yson.Node, error) {
	return c.usageLines(q, false, func(t *reportTable, line *server.UsageLine) {
		t.put("operations", yson.Int64(line.Started))
		mean := yson.Entity()
		if line.Started > 0 {
			mean = yson.Double(float64(line.Waited) / 1e6 / float64(line.Started))
		}
		t.put("mean_wait_s", mean)
		t.put("total_wait_s", yson.Double(float64(line.Waited)/1e6))
	})
}
