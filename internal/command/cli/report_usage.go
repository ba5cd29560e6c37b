package cli

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
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

If the setting accounting/prices has a price list, each line has its cost, rounded half to even to millionths of the currency; the total is the
sum of the lines. Guarantees that have a price whether used or not are lines of their own. --prices tries another price list.`,
		Example: `  weir report usage
  weir report usage --month 2026-10 --by pool,user
  weir report usage --month 2026-10 --by label:team --prices examples/prices.yaml -o csv`,
		Args: noArgs,
		RunE: r.do(func(s *session, _ []string) error {
			if err := flags.read(); err != nil {
				return err
			}
			if prices != "" {
				list, err := readPrices(prices)
				if err != nil {
					return err
				}
				flags.query.Prices = list
			}
			report, err := s.ReportUsage(s.ctx, flags.query)
			if err != nil {
				return err
			}
			if flags.format.csv {
				return writeUsageCSV(s.out, report)
			}
			return s.print(report.Raw, func(w io.Writer) error { return writeUsage(w, report) })
		}),
	}
	flags.addTo(r, cmd)
	flags.addBy(r, cmd)
	cmd.Flags().StringVar(&prices, "prices", "", "file with a price list to use instead of accounting/prices")
	return r.addTo(cmd)
}

func keyOf(line client.Value, by []string) []string {
	keys := make([]string, len(by))
	for i, key := range by {
		keys[i] = cellText(line.Get(key))
	}
	return keys
}

// isPriced reports whether the lines of a report have costs.
func isPriced(report *client.Report) bool { return slices.Contains(report.Columns, "cost_micros") }

// isReserved reports whether a line has no usage, but what guarantees cost, used or not.
func isReserved(line client.Value) bool { return cellText(line.Get("line")) == "reserved" }

func costText(line client.Value) string {
	micros, _ := line.Get("cost_micros").Int()
	return moneyText(micros)
}

// writeUsageCSV writes the report with what each line costs at its end, if there are prices. Lines of reserved guarantees have only keys
// and costs.
func writeUsageCSV(w io.Writer, report *client.Report) error {
	if !isPriced(report) {
		return reportCSV(w, report)
	}
	out := csv.NewWriter(w)
	columns := report.Columns[:slices.Index(report.Columns, "line")]
	by := slices.Index(columns, "jobs")
	header := append([]string{"from", "to"}, columns...)
	if err := out.Write(append(header, "line", "cost", "currency")); err != nil {
		return err
	}
	for _, line := range report.Lines {
		cells := []string{report.From.UTC().Format(time.RFC3339), report.To.UTC().Format(time.RFC3339)}
		for i, column := range columns {
			if i >= by && isReserved(line) {
				cells = append(cells, "")
			} else {
				cells = append(cells, cellText(line.Get(column)))
			}
		}
		if err := out.Write(append(cells, cellText(line.Get("line")), costText(line), cellText(report.Raw.Get("currency")))); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func writeUsage(w io.Writer, report *client.Report) error {
	writeSpan(w, report.From, report.To)
	if len(report.Lines) == 0 {
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
	if isPriced(report) {
		header = append(header, "COST")
		t.alignRight(len(header) - 1)
	}
	t.row(header...)
	for _, line := range report.Lines {
		cells := keyOf(line, by)
		for i, key := range cells {
			if key == "" {
				cells[i] = "–"
			}
		}
		if isReserved(line) {
			cells = append(cells, "", "reserved", "", "", "")
		} else {
			cells = append(cells, cellText(line.Get("jobs")), sumsText(line, "held"), sumsText(line, "guarantee"), sumsText(line, "surplus"), sumsText(line, "lost"))
		}
		if isPriced(report) {
			cells = append(cells, costText(line))
		}
		t.row(cells...)
	}
	if err := t.flush(); err != nil {
		return err
	}
	if isPriced(report) {
		total, _ := report.Raw.Get("total_micros").Int()
		fmt.Fprintf(w, "Total: %s %s\n", moneyText(total), cellText(report.Raw.Get("currency")))
	}
	return nil
}

func newReportBudgetsCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	flags := reportFlags{format: reportFormat{outputFormat: &opts.output}}
	cmd := &cobra.Command{
		Use:   "budgets",
		Short: "Report how much of each budget is spent",
		Long: `Report how much of each budget of the setting accounting/budgets is spent in a month, by default the current one. A budget is a sum of money
or of hours of a resource that a pool, a user or a label may use in a month of UTC. It limits nothing: when it is low and when it is spent, an
event says so, and a notification of the kind budget tells people.

LASTS UNTIL is when all of it will be spent if the month goes on as until now.`,
		Example: `  weir report budgets
  weir report budgets --month 2026-10 -o csv`,
		Args: noArgs,
		RunE: r.do(func(s *session, _ []string) error {
			if err := flags.read(); err != nil {
				return err
			}
			report, err := s.ReportBudgets(s.ctx, flags.query)
			if err != nil {
				return err
			}
			if flags.format.csv {
				return reportCSV(s.out, report)
			}
			return s.print(report.Raw, func(w io.Writer) error { return writeBudgets(w, report) })
		}),
	}
	flags.addTo(r, cmd)
	return r.addTo(cmd)
}

func writeBudgets(w io.Writer, report *client.Report) error {
	writeSpan(w, report.From, report.To)
	if len(report.Lines) == 0 {
		fmt.Fprintln(w, "There are no budgets; the setting accounting/budgets has them.")
		return nil
	}
	t := newTable(w)
	t.alignRight(2)
	t.alignRight(3)
	t.alignRight(5)
	t.row("BUDGET", "OF", "SPENT", "LIMIT", "UNIT", "PART", "LEVEL", "LASTS UNTIL")
	for _, line := range report.Lines {
		var of []string
		for _, key := range []string{"tree", "pool", "user", "label"} {
			if text := cellText(line.Get(key)); text != "" {
				of = append(of, key+" "+text)
			}
		}
		number := func(column string) float64 {
			v, _ := line.Get(column).Float()
			return v
		}
		lasts := "–"
		if at, err := time.Parse(time.RFC3339Nano, cellText(line.Get("lasts_until"))); err == nil {
			lasts = at.UTC().Format("2006-01-02 15:04")
		}
		t.row(cellText(line.Get("budget")), cmp.Or(strings.Join(of, ", "), "everything"), fmt.Sprintf("%.2f", number("spent")), fmt.Sprintf("%.2f", number("limit")),
			cellText(line.Get("unit")), fmt.Sprintf("%.1f%%", 100*number("part")), cellText(line.Get("level")), lasts)
	}
	return t.flush()
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
used more than was reserved (OVERDRAFTS). CPU likewise: requested, and RECLAIMED from jobs that did not use it.

MIGHT SAVE is for jobs whose tasks do not learn their memory, because memory_reserve_factor is 1: what learning would have saved, computed by the
same rules from the jobs of the operation that had ended before. MIGHT ABORT is how many of them used more than they would have been given.`,
		Example: `  weir report savings --month 2026-10
  weir report savings --by pool,user -o csv`,
	}, (*client.Client).ReportSavings,
		reportColumn{"JOBS", "jobs", countText}, reportColumn{"LIMIT", "memory_limit_gib_s", gibSeconds}, reportColumn{"RESERVED", "memory_reserved_gib_s", gibSeconds},
		reportColumn{"PEAK", "memory_peak_gib_s", gibSeconds}, reportColumn{"SAVED", "memory_saved_gib_s", gibSeconds}, reportColumn{"SLACK", "memory_slack_gib_s", gibSeconds},
		reportColumn{"OVERDRAFTS", "overdrafts", countText}, reportColumn{"NET", "memory_net_gib_s", gibSeconds},
		reportColumn{"REQUESTED", "cpu_requested_core_s", coreSeconds}, reportColumn{"USED", "cpu_used_core_s", coreSeconds}, reportColumn{"RECLAIMED", "cpu_reclaimed_core_s", coreSeconds},
		reportColumn{"MIGHT SAVE", "shadow_saved_gib_s", gibSeconds}, reportColumn{"MIGHT ABORT", "shadow_overdrafts", countText})
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
