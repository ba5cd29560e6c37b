package server

import (
	"context"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/engine/ledger"
)

// UsageReport states who used what, and what it costs.
type UsageReport struct {
	// From and To are the time that the sums are about; see GuaranteeReport.
	From, To time.Time
	Lines    []UsageLine
	// Priced reports whether lines have costs; Total is their sum in millionths of the currency.
	Priced   bool
	Currency string
	Total    int64
}

// UsageLine is the usage of a group of accounts. Keys have a value for each thing that divides the report.
type UsageLine struct {
	Keys []string
	ledger.UsageSums
	Shadow ledger.ShadowSums
	// Reserved marks a line without usage: what guarantees of a pool cost, used or not.
	Reserved bool
	Micros   int64 // its cost in millionths of the currency

	cost *big.Rat
}

// LabelPrefix precedes the name of a label that divides a report.
const LabelPrefix = "label:"

// UsageKeys are what divides reports about usage, besides labels.
var UsageKeys = []string{"tree", "pool", "user", "day"}

// UsageQuery selects a report about usage.
type UsageQuery struct {
	ReportQuery
	By []string // what divides the lines
	// Readable selects the pools of accounts.
	Readable func(ledger.Pool) bool
	// Prices, if not nil, say what usage costs.
	Prices *ledger.PriceList
}

// pricedDay is a part of a report whose usage is summed up on its own.
type pricedDay struct {
	day    time.Time // zero unless the report is by day
	prices *ledger.PricePeriod
}

func (q *UsageQuery) partOf(tree string, start time.Time) (part pricedDay) {
	if slices.Contains(q.By, "day") {
		part.day = ledger.Day.Start(start)
	}
	if q.Prices != nil {
		part.prices = q.Prices.At(tree, start)
	}
	return part
}

// Usage returns who used what, including the last seconds if this server leads. Usage costs what it cost in its hour; of
// times long past only days or months are known, and the prices of their first day hold.
func (s *Server) Usage(ctx context.Context, q UsageQuery) (*UsageReport, error) {
	span := spanOf(time.Now(), q.From, q.To)
	rows, err := s.tallies(ctx, q.Tree, span)
	if err != nil {
		return nil, err
	}
	report := &UsageReport{From: span.from, To: span.to, Priced: q.Prices != nil}
	parts := map[pricedDay][]ledger.TallyRow{}
	for _, row := range rows {
		part := q.partOf(row.Tree, row.Start)
		parts[part] = append(parts[part], row)
	}
	lines := map[string]*UsageLine{}
	line := func(keys []string, reserved bool) *UsageLine {
		name := strings.Join(keys, "\x1f")
		if reserved {
			name += "\x1freserved"
		}
		if lines[name] == nil {
			lines[name] = &UsageLine{Keys: keys, Reserved: reserved, cost: new(big.Rat)}
		}
		return lines[name]
	}
	for part, rows := range parts {
		reader := ledger.NewUsage()
		accounts, sums, err := reader.Accounts.Total(rows)
		if err != nil {
			return nil, err
		}
		_, shadows, err := reader.Shadows.Total(rows)
		if err != nil {
			return nil, err
		}
		for i := range accounts {
			a := &accounts[i]
			if !q.Readable(ledger.Pool{Tree: a.Tree, Name: a.Pool}) {
				continue
			}
			l := line(keysOf(a, part.day, q.By), false)
			l.Add(sums[*a])
			if shadow := shadows[*a]; shadow != nil { // its jobs are in the sums too
				l.Shadow.Add(shadow)
			}
			if part.prices != nil {
				l.cost.Add(l.cost, part.prices.Usage(sums[*a]))
			}
		}
	}
	if q.Prices != nil {
		report.Currency = q.Prices.Currency.Value()
		if err := s.reserve(ctx, &q, span, line); err != nil {
			return nil, err
		}
	}
	for _, l := range lines {
		l.Micros = ledger.Micros(l.cost)
		report.Total += l.Micros
		report.Lines = append(report.Lines, *l)
	}
	slices.SortFunc(report.Lines, func(a, b UsageLine) int {
		if a.Reserved != b.Reserved {
			if a.Reserved {
				return 1
			}
			return -1
		}
		return slices.Compare(a.Keys, b.Keys)
	})
	return report, nil
}

// reserve adds what guarantees cost, used or not.
func (s *Server) reserve(ctx context.Context, q *UsageQuery, span span, line func(keys []string, reserved bool) *UsageLine) error {
	reserved := slices.ContainsFunc(q.Prices.Periods.Value(), func(p ledger.PricePeriod) bool { return p.Reserved.IsSet() })
	if !reserved {
		return nil
	}
	rows, err := s.guaranteeRows(ctx, q.Tree, "", span)
	if err != nil {
		return err
	}
	for _, row := range rows {
		part := q.partOf(row.Tree, row.Start)
		if part.prices == nil || !part.prices.Reserved.IsSet() || !q.Readable(row.Pool) {
			continue
		}
		by, err := ledger.Decode(row.Data)
		if err != nil {
			return err
		}
		cost := part.prices.Reserve(&by)
		if cost.Sign() == 0 {
			continue
		}
		l := line(keysOf(&ledger.Account{Tree: row.Tree, Pool: row.Name}, part.day, q.By), true)
		l.cost.Add(l.cost, cost)
	}
	return nil
}

func keysOf(a *ledger.Account, day time.Time, by []string) []string {
	keys := make([]string, len(by))
	for i, key := range by {
		switch key {
		case "tree":
			keys[i] = a.Tree
		case "pool":
			keys[i] = a.Pool
		case "user":
			keys[i] = a.User
		case "day":
			keys[i] = day.Format(time.DateOnly)
		default:
			keys[i] = a.Label(strings.TrimPrefix(key, LabelPrefix))
		}
	}
	return keys
}
