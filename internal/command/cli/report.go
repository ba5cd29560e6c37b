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
		Use:     "report",
		Short:   "Report about the past",
		Long:    `Report about the past: whether pools got what they were promised, and why they did not.`,
		Example: `  weir report guarantees`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newReportGuaranteesCommand(opts))
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
	var query client.ReportQuery
	var when period
	format := reportFormat{outputFormat: &opts.output}
	cmd := &cobra.Command{
		Use:   "guarantees",
		Short: "Report which guarantees were kept, and why others were not",
		Long: `Report for every pool with a strong or burst guarantee what it was promised, asked for and got, what was due (the part of
the promise that it asked for), and what it lacked of that, by cause. KEPT is the part of what was due that was not broken: causes in
the pool's own settings (count_limit, own_limit, parent_limit, volume_empty) break no promise. TIME KEPT is the part of the time in which
at most one percent of what was due was broken. Both are "–" if nothing was due.

Amounts are of the dominant resource of the pool's demand, multiplied by time; a pool has a line for each resource that was dominant.
Without flags, the report is about today, in UTC. It consists of whole hours.`,
		Example: `  weir report guarantees
  weir report guarantees --day 2026-10-31 --pool production
  weir report guarantees --month 2026-10 -o csv`,
		Args: noArgs,
		RunE: r.do(func(s *session, _ []string) error {
			var err error
			if query.From, query.To, err = when.read(); err != nil {
				return err
			}
			report, err := s.ReportGuarantees(s.ctx, query)
			if err != nil {
				return err
			}
			if format.csv {
				return writeGuaranteesCSV(s.out, report)
			}
			return s.print(report.Raw, func(w io.Writer) error { return writeGuarantees(w, report) })
		}),
	}
	flags := cmd.Flags()
	flags.VarP(&format, "output", "o", "output format")
	r.mustComplete(cmd, "output", cobra.FixedCompletions([]cobra.Completion{"table", "csv", "json", "yaml", "yson"}, cobra.ShellCompDirectiveNoFileComp))
	flags.StringVar(&query.Pool, "pool", "", "only this pool")
	flags.StringVar(&query.Tree, "tree", "", "pool tree; the default one if unset")
	r.mustComplete(cmd, "tree", r.completeTrees())
	r.mustComplete(cmd, "pool", r.completePools())
	when.addTo(cmd)
	return r.addTo(cmd)
}

func writeGuarantees(w io.Writer, report *client.GuaranteeReport) error {
	const layout = "2006-01-02 15:04"
	fmt.Fprintf(w, "From %s to %s UTC.\n", report.From.UTC().Format(layout), report.To.UTC().Format(layout))
	if len(report.Pools) == 0 {
		fmt.Fprintln(w, "No pool had a guarantee.")
		return nil
	}
	t := newTable(w)
	t.row("POOL", "PROMISED", "ASKED", "DUE", "GOT", "SHORT", "KEPT", "TIME KEPT", "CAUSES")
	t.alignRight(1, 2, 3, 4, 5, 6, 7)
	t.fit(widthOf(w), 8)
	for i := range report.Pools {
		p := &report.Pools[i]
		kind, _ := resource.ParseKind(p.Resource)
		amount := func(v float64) string { return resource.FormatVolume(kind, v) }
		var causes []string
		slices.SortStableFunc(p.Causes, func(a, b client.ShortCause) int { return cmp.Compare(b.Amount, a.Amount) })
		for _, c := range p.Causes {
			causes = append(causes, c.Cause+" "+amount(c.Amount))
		}
		t.row(p.Pool, amount(p.Promised), amount(p.Asked), amount(p.Due), amount(p.Got), amount(p.Short), partText(p.Kept), partText(p.KeptTime), strings.Join(causes, ", "))
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
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
