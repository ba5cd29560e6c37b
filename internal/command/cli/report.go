package cli

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/value/resource"
)

func newReportCommand(opts *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Report about the past",
		Long:  `Report about the past: whether pools got what they were promised, and why they did not; who preempted whom; who used what; how well forecasts held.`,
		Example: `  weir report guarantees
  weir report usage --month 2026-10 --by pool,user -o csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newReportGuaranteesCommand(opts), newReportPreemptionsCommand(opts), newReportUsageCommand(opts), newReportSavingsCommand(opts), newReportWaitsCommand(opts),
		newReportBudgetsCommand(opts), newReportForecastsCommand(opts))
	return cmd
}

// reportFormat is the value of --output of a report, which may be CSV as well.
type reportFormat struct {
	*outputFormat
	csv bool
}

// Type is the kind of the flag's value in help.
func (f *reportFormat) Type() string { return "table|csv|json|yaml|yson" }

// Set reads the flag.
func (f *reportFormat) Set(value string) error {
	if f.csv = value == "csv"; f.csv {
		return nil
	}
	if f.outputFormat.Set(value) != nil {
		return errors.New("must be table, csv, json, yaml or yson")
	}
	return nil
}

// period is the time of a report as flags state it.
type period struct{ from, to, day, month string }

func (p *period) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&p.from, "from", "", "start, such as 2026-10-31 or 2026-10-31T12:00:00Z; the start of the day if unset")
	flags.StringVar(&p.to, "to", "", "end; now if unset")
	flags.StringVar(&p.day, "day", "", "a day of UTC, such as 2026-10-31")
	flags.StringVar(&p.month, "month", "", "a month of UTC, such as 2026-10")
	cmd.MarkFlagsMutuallyExclusive("day", "month", "from")
	cmd.MarkFlagsMutuallyExclusive("day", "month", "to")
}

// read returns the start and the end; zero if they were not given.
func (p *period) read() (from, to time.Time, err error) {
	moment := func(flag, text, example string, layouts ...string) (at time.Time) {
		if text == "" || err != nil {
			return at
		}
		for _, layout := range layouts {
			if at, parsed := time.Parse(layout, text); parsed == nil {
				return at
			}
		}
		err = usageErrorf("--%s: %q is not %s", flag, text, example)
		return at
	}
	switch {
	case p.day != "":
		from = moment("day", p.day, "a day such as 2026-10-31", time.DateOnly)
		to = from.AddDate(0, 0, 1)
	case p.month != "":
		from = moment("month", p.month, "a month such as 2026-10", "2006-01")
		to = from.AddDate(0, 1, 0)
	default:
		const example = "a time such as 2026-10-31T12:00:00Z or 2026-10-31"
		from = moment("from", p.from, example, time.RFC3339, "2006-01-02T15:04:05", time.DateOnly)
		to = moment("to", p.to, example, time.RFC3339, "2006-01-02T15:04:05", time.DateOnly)
	}
	return from, to, err
}

func newReportGuaranteesCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	flags := reportFlags{format: reportFormat{outputFormat: &opts.output}}
	byDay := false
	cmd := &cobra.Command{
		Use:   "guarantees",
		Short: "Report which guarantees were kept, and why others were not",
		Long: `Report for every pool with a strong or integral guarantee what it was promised, asked for and got, what was due (the part of
the promise that it asked for), and what it lacked of that, by cause. KEPT is the part of what was due that was not broken: causes in
the pool's own settings (count_limit, own_limit, parent_limit, volume_empty) break no promise. TIME KEPT is the part of the time in which
at most one percent of what was due was broken. Both are "–" if nothing was due.

A flow guarantee of a relaxed pool is a promise about days. FLOW says on how many days of those on which anything was due the pool got at
least 99 % of it by its flow; with --by day it says whether it did.

Amounts are of the dominant resource of the pool's demand, multiplied by time; a pool has a line for each resource that was dominant.
Without flags, the report is about today, in UTC. It consists of whole hours.

--verify recomputes the books from the log of everything that changed them, which is kept for three days, and compares every hour, and
days and months with their hours. It prints whether they are equal, or where they differ; the exit code is then 1.`,
		Example: `  weir report guarantees
  weir report guarantees --verify
  weir report guarantees --day 2026-10-31 --pool production
  weir report guarantees --month 2026-10 --by day
  weir report guarantees --month 2026-10 -o csv`,
		Args: noArgs,
		RunE: r.do(func(s *session, _ []string) error {
			if err := flags.read(); err != nil {
				return err
			}
			if byDay {
				flags.query.By = []string{"day"}
			}
			report, err := s.ReportGuarantees(s.ctx, flags.query)
			if err != nil {
				return err
			}
			if flags.query.Verify {
				return s.printVerification(report)
			}
			if flags.format.csv {
				return writeGuaranteesCSV(s.out, report)
			}
			var days *client.GuaranteeReport
			if !byDay && hasFlow(report) {
				query := flags.query
				query.From, query.To, query.By = report.From, report.To, []string{"day"}
				if days, err = s.ReportGuarantees(s.ctx, query); err != nil {
					return err
				}
			}
			return s.print(report.Raw, func(w io.Writer) error { return writeGuarantees(w, report, days) })
		}),
	}
	flags.addTo(r, cmd)
	cmd.Flags().Var(&dayFlag{&byDay}, "by", "divide the lines: day")
	cmd.Flags().BoolVar(&flags.query.Verify, "verify", false, "compare the books with the log")
	r.mustComplete(cmd, "by", cobra.FixedCompletions([]cobra.Completion{"day"}, cobra.ShellCompDirectiveNoFileComp))
	return r.addTo(cmd)
}

// mostDifferences limits the differences that are printed.
const mostDifferences = 20

// printVerification prints whether the books equal the log. Differences are an error.
func (s *session) printVerification(report *client.GuaranteeReport) error {
	v := report.Verification
	if v == nil {
		return errors.New("the scheduler does not verify its books: it is of an earlier version")
	}
	err := s.print(report.Raw.Get("verification"), func(w io.Writer) error {
		writeSpan(w, v.From, v.To)
		if v.Equal {
			fmt.Fprintf(w, "The books equal the log: %s, %s and %s of pools were compared.\n",
				plural(v.Hours, "hour", "hours"), plural(v.Days, "day", "days"), plural(v.Months, "month", "months"))
		}
		for _, d := range v.Differences[:min(len(v.Differences), mostDifferences)] {
			fmt.Fprintf(w, "%s, %s of %s, %s %s: stored %s, computed %s\n", d.Pool, d.Level, d.Start.UTC().Format(time.RFC3339), d.Resource, d.Figure, d.Stored, d.Computed)
		}
		if more := len(v.Differences) - mostDifferences; more > 0 {
			fmt.Fprintf(w, "and %d more\n", more)
		}
		if len(v.Unverified) > 0 {
			fmt.Fprintf(w, "%s cannot be verified: the log is kept for three days, and starts with the first flush after an upgrade.\n", plural(int64(len(v.Unverified)), "hour", "hours"))
		}
		return nil
	})
	if err == nil && !v.Equal {
		err = errors.New("the books differ from the log")
	}
	return err
}

// dayFlag is a flag whose only value is day.
type dayFlag struct{ set *bool }

// String returns the value of the flag.
func (f *dayFlag) String() string {
	if f.set != nil && *f.set {
		return "day"
	}
	return ""
}

// Type is the kind of the flag's value in help.
func (f *dayFlag) Type() string { return "day" }

// Set reads the flag.
func (f *dayFlag) Set(value string) error {
	if value != "day" {
		return errors.New("must be day")
	}
	*f.set = true
	return nil
}

// hasFlow reports whether a report has relaxed pools.
func hasFlow(report *client.GuaranteeReport) bool {
	return slices.ContainsFunc(report.Pools, func(p client.PoolGuarantees) bool { return p.Flow != nil })
}

// flowText says whether a flow guarantee was kept: on that day, or on how many days.
func flowText(p *client.PoolGuarantees, days *client.GuaranteeReport) string {
	if days == nil {
		switch {
		case p.Flow == nil || p.Flow.Kept == nil:
			return "–"
		case *p.Flow.Kept:
			return "kept"
		}
		return "broken"
	}
	due, kept := map[string]bool{}, map[string]bool{}
	for i := range days.Pools {
		if d := &days.Pools[i]; d.Tree == p.Tree && d.Pool == p.Pool && d.Resource == p.Resource && d.Flow != nil && d.Flow.Kept != nil {
			due[d.Day], kept[d.Day] = true, *d.Flow.Kept
		}
	}
	count := 0
	for _, k := range kept {
		if k {
			count++
		}
	}
	if len(due) == 0 {
		return "–"
	}
	return fmt.Sprintf("%d of %s", count, plural(int64(len(due)), "day", "days"))
}

// writeGuarantees writes a report. days is the same report by day if it has relaxed pools and is not by day itself.
func writeGuarantees(w io.Writer, report, days *client.GuaranteeReport) error {
	writeSpan(w, report.From, report.To)
	if len(report.Pools) == 0 {
		fmt.Fprintln(w, "No pool had a guarantee.")
		return nil
	}
	t := newTable(w)
	flow, byDay := hasFlow(report), report.Pools[0].Day != ""
	header := []string{"POOL", "PROMISED", "ASKED", "DUE", "GOT", "SHORT", "KEPT", "TIME KEPT"}
	if flow {
		header = append(header, "FLOW")
	}
	if byDay {
		header = append([]string{"DAY"}, header...)
	}
	t.row(append(header, "CAUSES")...)
	for column, name := range header {
		if name != "DAY" && name != "POOL" {
			t.alignRight(column)
		}
	}
	t.fit(widthOf(w), len(header))
	for i := range report.Pools {
		p := &report.Pools[i]
		kind, _ := resource.ParseKind(p.Resource)
		amount := func(v float64) string { return resource.FormatVolume(kind, v) }
		var causes []string
		slices.SortStableFunc(p.Causes, func(a, b client.ShortCause) int { return cmp.Compare(b.Amount, a.Amount) })
		for _, c := range p.Causes {
			causes = append(causes, c.Cause+" "+amount(c.Amount))
		}
		cells := []string{p.Pool, amount(p.Promised), amount(p.Asked), amount(p.Due), amount(p.Got), amount(p.Short), partText(p.Kept), partText(p.KeptTime)}
		if flow {
			cells = append(cells, flowText(p, days))
		}
		if byDay {
			cells = append([]string{p.Day}, cells...)
		}
		t.row(append(cells, strings.Join(causes, ", "))...)
	}
	return t.flush()
}

// partText is a part as a percentage, rounded down: only what was kept in full is 100 %.
func partText(part *float64) string {
	if part == nil {
		return "–"
	}
	return strconv.FormatFloat(float64(int64(*part*10000+1e-9))/100, 'f', 2, 64) + "%"
}

// writeGuaranteesCSV writes a line for each pool and resource, with amounts × seconds. Columns are only ever
// added, at the end.
func writeGuaranteesCSV(w io.Writer, report *client.GuaranteeReport) error {
	out := csv.NewWriter(w)
	header := []string{"from", "to", "tree", "pool", "resource", "promised", "asked", "due", "got", "unclaimed", "short", "broken", "kept", "kept_time"}
	for cause := range ledger.CauseCount {
		header = append(header, cause.String())
	}
	header = append(header, "day", "flow", "flow_due", "flow_got", "flow_overflowed", "flow_kept", "surplus")
	if err := out.Write(header); err != nil {
		return err
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	part := func(v *float64) string {
		if v == nil {
			return ""
		}
		return number(*v)
	}
	for i := range report.Pools {
		p := &report.Pools[i]
		line := []string{
			report.From.UTC().Format(time.RFC3339), report.To.UTC().Format(time.RFC3339), p.Tree, p.Pool, p.Resource, number(p.Promised), number(p.Asked), number(p.Due),
			number(p.Got), number(p.Unclaimed), number(p.Short), number(p.Broken), part(p.Kept), part(p.KeptTime),
		}
		for cause := range ledger.CauseCount {
			amount := 0.0
			for _, c := range p.Causes {
				if c.Cause == cause.String() {
					amount = c.Amount
				}
			}
			line = append(line, number(amount))
		}
		line = append(line, p.Day)
		if f := p.Flow; f != nil {
			kept := ""
			if f.Kept != nil {
				kept = strconv.FormatBool(*f.Kept)
			}
			line = append(line, number(f.Flowed), number(f.Due), number(f.Got), number(f.Overflowed), kept)
		} else {
			line = append(line, "", "", "", "", "")
		}
		line = append(line, number(p.Surplus))
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
