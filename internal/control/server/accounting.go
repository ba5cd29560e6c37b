package server

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// accountOf returns the account of an operation in a pool. Its labels are those with which it was first
// accounted.
func (t *term) accountOf(op *activeOperation, tree, pool string) ledger.Account {
	if op.labels == nil {
		labels := ledger.LabelsOf(t.server.settings().AccountingLabels, func(key string) (string, bool) {
			value, there := op.record.Spec.Annotations.Value().Get(key)
			if !there {
				return "", false
			}
			return labelText(value)
		})
		labels = t.server.books.usage.Admit(t.now, ledger.Account{Labels: labels}).Labels
		op.labels = &labels
	}
	return ledger.Account{Tree: tree, Pool: pool, User: op.record.User, Labels: *op.labels}
}

// labelText returns an annotation as a label. Lists and maps are no labels.
func labelText(value document.Value) (string, bool) {
	if text, ok := value.Text(); ok {
		return text, true
	}
	switch value.Kind() {
	case document.ListKind, document.MapKind, document.NullKind:
		return "", false
	}
	return value.String(), true
}

// spend enters the usage of an operation. The books are locked.
func (t *term) spend(s *core.Spent) {
	op := t.operations[s.Operation]
	if op == nil {
		return
	}
	t.server.books.usage.Spend(t.now, ledger.Seat{Operation: int32(s.Operation), Tree: s.Tree}, t.accountOf(op, s.Tree, s.Name), s.Usage)
}

// enterDeparture enters that an operation has ended and uses nothing.
func (t *term) enterDeparture(id core.OperationID) {
	b := &t.server.books
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, tree := range t.slots.names {
		b.usage.Spend(t.now, ledger.Seat{Operation: int32(id), Tree: tree}, ledger.Account{}, resource.Amounts{})
	}
}

// enterCover enters which part of the usage of pools their guarantees cover, as of the last update. The
// books are locked.
func (t *term) enterCover() {
	picture := t.server.View().Picture
	t.server.books.usage.Cover(t.now, func(name, pool string) (guaranteed, usage resource.Amounts) {
		tree, there := picture.Tree(name)
		if !there {
			return guaranteed, usage
		}
		if p, there := tree.Pool(pool); there {
			return p.Share.Strong.Add(p.Share.Integral).Of(tree.Total), p.Usage
		}
		return guaranteed, usage
	})
}

// enterFirstStart enters how long an operation waited for its first job.
func (t *term) enterFirstStart(op *activeOperation, tree string) {
	if op.waited {
		return
	}
	op.waited = true
	b := &t.server.books
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.usage.Wait(t.now, t.accountOf(op, tree, op.pool(tree)), t.now.Sub(op.record.Start))
}

// outcomeOf returns what became of a job.
func outcomeOf(state core.JobState, reason operation.AbortReason) ledger.Outcome {
	switch {
	case state == core.JobFailed:
		return ledger.Failed
	case state != core.JobAborted:
		return ledger.Completed
	case reason == operation.AbortPreemption, reason == operation.AbortNodeResourceOvercommit:
		return ledger.Preemption
	}
	return ledger.Aborted
}

// sizingOf compares what a job was given with what it used.
func sizingOf(job *Job, ran time.Duration, usage *operation.Usage, overdrafted bool) (s ledger.Sizing) {
	s.Given.Add(&job.Resources, ran)
	limit := job.Resources[resource.Memory]
	if r := job.Reserve; r != nil {
		limit += saved(r.User, r.UserFactor) + saved(r.Proxy, r.ProxyFactor)
	}
	s.Limit.AddAmount(limit, ran)
	if overdrafted {
		s.Overdrafts = 1
		s.OverdraftLost.Add(&job.Usage, ran)
	}
	if usage == nil {
		return s
	}
	s.Measured = 1
	var used resource.Amounts
	if usage.CPU != nil {
		used[resource.CPU] = usage.CPU.AggregatedSmoothedUsageX100 // hundredths of core·s
	}
	used[resource.Memory] = (usage.UserMemoryTime + usage.ProxyMemoryTime) << 20
	used = used.Max(resource.Amounts{})
	s.Used.Add(&used, time.Second)
	s.Peak.AddAmount(max(usage.UserMaxMemory+usage.ProxyMaxMemory, 0), ran)
	return s
}

// saved returns what a reserve is below the limit of which it is a part.
func saved(reserve int64, factor float64) int64 {
	if factor <= 0 || factor >= 1 {
		return 0
	}
	return max(int64(float64(reserve)/factor)-reserve, 0)
}

// UsageReport states who used what.
type UsageReport struct {
	// From and To are the time that the sums are about; see GuaranteeReport.
	From, To time.Time
	Lines    []UsageLine
}

// UsageLine is the usage of a group of accounts. Keys have a value for each thing that divides the report.
type UsageLine struct {
	Keys []string
	// Pools are the pools of the accounts in it, by tree and pool.
	Pools []ledger.Pool
	ledger.UsageSums
}

// LabelPrefix precedes the name of a label that divides a report.
const LabelPrefix = "label:"

// UsageKeys are what divides reports about usage, besides labels.
var UsageKeys = []string{"tree", "pool", "user", "day"}

// Usage returns who used what, including the last seconds if this server leads. by lists what divides the lines. Lines
// have only accounts of pools that readable accepts.
func (s *Server) Usage(ctx context.Context, q ReportQuery, by []string, readable func(ledger.Pool) bool) (*UsageReport, error) {
	rows, span, err := s.tallies(ctx, &q)
	if err != nil {
		return nil, err
	}
	report := &UsageReport{From: span.from, To: span.to}
	reader := ledger.NewUsage()
	days := map[time.Time][]ledger.TallyRow{}
	for _, row := range rows {
		day := time.Time{}
		if slices.Contains(by, "day") {
			day = ledger.Day.Start(row.Start)
		}
		days[day] = append(days[day], row)
	}
	lines := map[string]*UsageLine{}
	for day, rows := range days {
		accounts, sums, err := reader.Accounts.Total(rows)
		if err != nil {
			return nil, err
		}
		for i := range accounts {
			a := &accounts[i]
			pool := ledger.Pool{Tree: a.Tree, Name: a.Pool}
			if !readable(pool) {
				continue
			}
			keys := keysOf(a, day, by)
			name := strings.Join(keys, "\x1f")
			line := lines[name]
			if line == nil {
				line = &UsageLine{Keys: keys}
				lines[name] = line
			}
			if !slices.Contains(line.Pools, pool) {
				line.Pools = append(line.Pools, pool)
			}
			line.Add(sums[*a])
		}
	}
	for _, line := range lines {
		slices.SortFunc(line.Pools, ledger.ComparePools)
		report.Lines = append(report.Lines, *line)
	}
	slices.SortFunc(report.Lines, func(a, b UsageLine) int { return slices.Compare(a.Keys, b.Keys) })
	return report, nil
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
