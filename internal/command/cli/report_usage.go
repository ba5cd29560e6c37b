package cli

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/value/resource"
)

// addBy adds the flag that divides a report.
func (f *reportFlags) addBy(r *remote, cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.query.By, "by", nil, "divide the lines by tree, pool, user, day or label:NAME; by pool and user if unset")
	r.mustComplete(cmd, "by", cobra.FixedCompletions([]cobra.Completion{"pool", "user", "day", "tree", "label:"}, cobra.ShellCompDirectiveNoFileComp))
}

func newReportUsageCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	flags := reportFlags{format: reportFormat{outputFormat: &opts.output}}
	prices := ""
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Report who used what, and what it costs",
		Long: `Report what the jobs of pools and users held over a time. GUARANTEE is the part that guarantees of the pool covered, by the pool's share at
the time; the rest is SURPLUS. LOST is the work of jobs that were preempted and ended in this time. With -o csv there are all columns, also
jobs and amounts by outcome (completed, lost, failed, aborted), what jobs were given and what they used as measured.

--by divides the lines. label:NAME is an annotation of operations that the setting accounting/labels names. A month that has ended does not
change any more.

--prices reads a price list and adds what each line costs, rounded half to even to millionths of the currency; the total is the sum of the
lines. Guarantees that have a price whether used or not are lines of their own.`,
		Example: `  weir report usage
  weir report usage --month 2026-10 --by pool,user
  weir report usage --month 2026-10 --by label:team --prices examples/prices.yaml -o csv`,
		Args: noArgs,
		RunE: r.do(func(s *session, _ []string) error {
			if err := flags.read(); err != nil {
				return err
			}
			report, err := s.ReportUsage(s.ctx, flags.query)
			if err != nil {
				return err
			}
			var bill *bill
			if prices != "" {
				list, err := readPrices(prices)
				if err != nil {
					return err
				}
				if bill, err = makeBill(s.ctx, s.Client, list, flags.query, report); err != nil {
					return err
				}
			}
			switch {
			case flags.format.csv && bill != nil:
				return bill.writeCSV(s.out, report)
			case flags.format.csv:
				return reportCSV(s.out, report)
			}
			return s.print(report.Raw, func(w io.Writer) error { return writeUsage(w, report, bill) })
		}),
	}
	flags.addTo(r, cmd)
	flags.addBy(r, cmd)
	cmd.Flags().StringVar(&prices, "prices", "", "file with a price list")
	return r.addTo(cmd)
}

// bill is what the lines of a usage report cost.
type bill struct {
	currency string
	by       []string
	lines    []billLine
	total    int64 // millionths of the currency
}

// billLine is a line of a usage report, or a guarantee that has a price whether used or not; then usage is null.
type billLine struct {
	keys   []string
	usage  client.Value
	micros int64
}

func keyOf(line client.Value, by []string) []string {
	keys := make([]string, len(by))
	for i, key := range by {
		keys[i] = cellText(line.Get(key))
	}
	return keys
}

// makeBill asks for the usage between changes of prices, and adds up what it costs.
func makeBill(ctx context.Context, c *client.Client, list *priceList, query client.ReportQuery, report *client.Report) (*bill, error) {
	tree := cellText(report.Raw.Get("pool_tree"))
	b := &bill{currency: list.Currency.Value(), by: query.By}
	if len(b.by) == 0 {
		b.by = []string{"pool", "user"}
	}
	costs, reserved := map[string]*big.Rat{}, map[string]*big.Rat{}
	add := func(to map[string]*big.Rat, key string, cost *big.Rat) {
		if to[key] == nil {
			to[key] = new(big.Rat)
		}
		to[key].Add(to[key], cost)
	}
	times := list.changes(report.From, report.To)
	for i, from := range times[:len(times)-1] {
		prices := list.at(tree, from)
		if prices == nil {
			continue
		}
		query.From, query.To = from, times[i+1]
		part := report
		var err error
		if len(times) > 2 {
			if part, err = c.ReportUsage(ctx, query); err != nil {
				return nil, err
			}
		}
		for _, line := range part.Lines {
			add(costs, strings.Join(keyOf(line, b.by), "\x1f"), prices.costOf(line))
		}
		if !prices.Reserved.IsSet() {
			continue
		}
		guarantees, err := c.ReportGuarantees(ctx, client.ReportQuery{Tree: query.Tree, Pool: query.Pool, From: query.From, To: query.To})
		if err != nil {
			return nil, err
		}
		for i := range guarantees.Pools {
			p := &guarantees.Pools[i]
			price := prices.Reserved.Value()
			switch kind, _ := resource.ParseKind(p.Resource); kind {
			case resource.CPU:
				add(reserved, p.Pool, price.cost(p.Promised, 0, 0))
			case resource.GPU:
				add(reserved, p.Pool, price.cost(0, p.Promised, 0))
			case resource.Memory:
				add(reserved, p.Pool, price.cost(0, 0, p.Promised/(1<<30)))
			}
		}
	}
	for _, line := range report.Lines {
		keys := keyOf(line, b.by)
		if cost := costs[strings.Join(keys, "\x1f")]; cost != nil {
			b.put(billLine{keys: keys, usage: line, micros: micros(cost)})
		} else {
			b.put(billLine{keys: keys, usage: line})
		}
	}
	var pools []string
	for pool := range reserved {
		pools = append(pools, pool)
	}
	slices.Sort(pools)
	for _, pool := range pools {
		keys := make([]string, len(b.by))
		if at := slices.Index(b.by, "pool"); at >= 0 {
			keys[at] = pool
		}
		b.put(billLine{keys: keys, micros: micros(reserved[pool])})
	}
	return b, nil
}

func (b *bill) put(line billLine) {
	b.lines = append(b.lines, line)
	b.total += line.micros
}

// writeCSV writes the report with the costs at the end of each line. Lines of reserved guarantees have only keys and
// costs.
func (b *bill) writeCSV(w io.Writer, report *client.Report) error {
	out := csv.NewWriter(w)
	header := append([]string{"from", "to"}, report.Columns...)
	if err := out.Write(append(header, "line", "cost", "currency")); err != nil {
		return err
	}
	for _, line := range b.lines {
		cells := []string{report.From.UTC().Format(time.RFC3339), report.To.UTC().Format(time.RFC3339)}
		for _, column := range report.Columns {
			at := slices.Index(b.by, column)
			if at >= 0 {
				cells = append(cells, line.keys[at])
			} else {
				cells = append(cells, cellText(line.usage.Get(column)))
			}
		}
		kind := "usage"
		if line.usage.IsNull() {
			kind = "reserved"
		}
		if err := out.Write(append(cells, kind, moneyText(line.micros), b.currency)); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func writeUsage(w io.Writer, report *client.Report, b *bill) error {
	writeSpan(w, report.From, report.To)
	if len(report.Lines) == 0 && b == nil {
		fmt.Fprintln(w, "Nothing was used.")
		return nil
	}
	t := newTable(w)
	by := report.Columns[:slices.Index(report.Columns, "jobs")]
	header := make([]string, 0, len(by)+6)
	for _, key := range by {
		header = append(header, strings.ToUpper(strings.TrimPrefix(key, "label:")))
	}
	header = append(header, "JOBS", "HELD", "GUARANTEE", "SURPLUS", "LOST")
	t.alignRight(len(by))
	lines := make([]billLine, len(report.Lines))
	for i, line := range report.Lines {
		lines[i] = billLine{keys: keyOf(line, by), usage: line}
	}
	if b != nil {
		header, lines = append(header, "COST"), b.lines
		t.alignRight(len(header) - 1)
	}
	t.row(header...)
	for _, line := range lines {
		cells := slices.Clone(line.keys)
		for i, key := range cells {
			if key == "" {
				cells[i] = "–"
			}
		}
		if line.usage.IsNull() {
			cells = append(cells, "", "reserved", "", "", "")
		} else {
			cells = append(cells, cellText(line.usage.Get("jobs")), sumsText(line.usage, "held"), sumsText(line.usage, "guarantee"),
				sumsText(line.usage, "surplus"), sumsText(line.usage, "lost"))
		}
		if b != nil {
			cells = append(cells, moneyText(line.micros))
		}
		t.row(cells...)
	}
	if err := t.flush(); err != nil {
		return err
	}
	if b != nil {
		fmt.Fprintf(w, "Total: %s %s\n", moneyText(b.total), b.currency)
	}
	return nil
}

// newReportLinesCommand makes the command of a report that prints some of its columns.
func newReportLinesCommand(opts *options, cmd *cobra.Command, ask func(*client.Client, context.Context, client.ReportQuery) (*client.Report, error), columns ...reportColumn) *cobra.Command {
	r := newRemote(opts)
	flags := reportFlags{format: reportFormat{outputFormat: &opts.output}}
	cmd.Args = noArgs
	cmd.RunE = r.do(func(s *session, _ []string) error {
		if err := flags.read(); err != nil {
			return err
		}
		report, err := ask(s.Client, s.ctx, flags.query)
		if err != nil {
			return err
		}
		if flags.format.csv {
			return reportCSV(s.out, report)
		}
		return s.print(report.Raw, func(w io.Writer) error { return writeLines(w, report, flags.query.By, columns) })
	})
	flags.addTo(r, cmd)
	flags.addBy(r, cmd)
	return r.addTo(cmd)
}

// reportColumn is a column of a table and how its numbers are written.
type reportColumn struct {
	title, column string
	text          func(v float64) string
}

func coreSeconds(v float64) string { return resource.FormatVolume(resource.CPU, v) }

func gibSeconds(v float64) string { return resource.FormatVolume(resource.Memory, v*(1<<30)) }

func countText(v float64) string { return fmt.Sprintf("%.0f", v) }

func waitText(v float64) string {
	return time.Duration(v * float64(time.Second)).Round(100 * time.Millisecond).String()
}

func writeLines(w io.Writer, report *client.Report, by []string, columns []reportColumn) error {
	writeSpan(w, report.From, report.To)
	if len(report.Lines) == 0 {
		fmt.Fprintln(w, "Nothing is known of this time.")
		return nil
	}
	if len(by) == 0 {
		by = []string{"pool", "user"}
	}
	t := newTable(w)
	var header []string
	for _, key := range by {
		header = append(header, strings.ToUpper(strings.TrimPrefix(key, "label:")))
	}
	for _, c := range columns {
		t.alignRight(len(header))
		header = append(header, c.title)
	}
	t.row(header...)
	for _, line := range report.Lines {
		cells := keyOf(line, by)
		for i, key := range cells {
			if key == "" {
				cells[i] = "–"
			}
		}
		for _, c := range columns {
			v, known := line.Get(c.column).Float()
			if n, whole := line.Get(c.column).Int(); whole {
				v, known = float64(n), true
			}
			if known {
				cells = append(cells, c.text(v))
			} else {
				cells = append(cells, "–")
			}
		}
		t.row(cells...)
	}
	return t.flush()
}

func newReportSavingsCommand(opts *options) *cobra.Command {
	return newReportLinesCommand(opts, &cobra.Command{
		Use:   "savings",
		Short: "Report how much of what jobs asked for they did not use",
		Long: `Report about the jobs that ended in a time: the memory that they might have used (LIMIT), that was reserved for them, and that they used at
most (PEAK). SAVED is limit minus reserved, SLACK is reserved minus peak, NET is saved minus the work of jobs that were aborted because they
used more than was reserved (OVERDRAFTS). CPU likewise: requested, and RECLAIMED from jobs that did not use it.`,
		Example: `  weir report savings --month 2026-10
  weir report savings --by pool,user -o csv`,
	}, (*client.Client).ReportSavings,
		reportColumn{"JOBS", "jobs", countText}, reportColumn{"LIMIT", "memory_limit_gib_s", gibSeconds}, reportColumn{"RESERVED", "memory_reserved_gib_s", gibSeconds},
		reportColumn{"PEAK", "memory_peak_gib_s", gibSeconds}, reportColumn{"SAVED", "memory_saved_gib_s", gibSeconds}, reportColumn{"SLACK", "memory_slack_gib_s", gibSeconds},
		reportColumn{"OVERDRAFTS", "overdrafts", countText}, reportColumn{"NET", "memory_net_gib_s", gibSeconds},
		reportColumn{"REQUESTED", "cpu_requested_core_s", coreSeconds}, reportColumn{"USED", "cpu_used_core_s", coreSeconds}, reportColumn{"RECLAIMED", "cpu_reclaimed_core_s", coreSeconds})
}

func newReportWaitsCommand(opts *options) *cobra.Command {
	return newReportLinesCommand(opts, &cobra.Command{
		Use:   "waits",
		Short: "Report how long operations waited for their first jobs",
		Long:  `Report how long the operations that started their first job in a time had waited for it.`,
		Example: `  weir report waits --month 2026-10
  weir report waits --by day --pool production`,
	}, (*client.Client).ReportWaits,
		reportColumn{"OPERATIONS", "operations", countText}, reportColumn{"MEAN WAIT", "mean_wait_s", waitText})
}
