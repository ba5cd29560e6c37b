package cli

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/value/resource"
)

// reportFlags are the flags of all reports.
type reportFlags struct {
	query  client.ReportQuery
	when   period
	format reportFormat
}

func (f *reportFlags) addTo(r *remote, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.VarP(&f.format, "output", "o", "output format")
	r.mustComplete(cmd, "output", cobra.FixedCompletions([]cobra.Completion{"table", "csv", "json", "yaml", "yson"}, cobra.ShellCompDirectiveNoFileComp))
	flags.StringVar(&f.query.Pool, "pool", "", "only this pool")
	flags.StringVar(&f.query.Tree, "tree", "", "pool tree; the default one if unset")
	r.mustComplete(cmd, "tree", r.completeTrees())
	r.mustComplete(cmd, "pool", r.completePools())
	f.when.addTo(cmd)
}

// read completes the query with the times.
func (f *reportFlags) read() (err error) {
	f.query.From, f.query.To, err = f.when.read()
	return err
}

// table returns what runs a report whose lines have columns.
func (f *reportFlags) table(ask func(*client.Client, context.Context, client.ReportQuery) (*client.Report, error), write func(io.Writer, *client.Report) error) func(*session, []string) error {
	return func(s *session, _ []string) error {
		if err := f.read(); err != nil {
			return err
		}
		report, err := ask(s.Client, s.ctx, f.query)
		if err != nil {
			return err
		}
		if f.format.csv {
			return reportCSV(s.out, report)
		}
		return s.print(report.Raw, func(w io.Writer) error { return write(w, report) })
	}
}

// reportCSV writes the lines of a report in the order of its columns. Columns are only ever added, at the end.
func reportCSV(w io.Writer, report *client.Report) error {
	out := csv.NewWriter(w)
	if err := out.Write(append([]string{"from", "to"}, report.Columns...)); err != nil {
		return err
	}
	for _, line := range report.Lines {
		cells := []string{report.From.UTC().Format(time.RFC3339), report.To.UTC().Format(time.RFC3339)}
		for _, column := range report.Columns {
			cells = append(cells, cellText(line.Get(column)))
		}
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// cellText is a value in CSV; null is empty.
func cellText(v client.Value) string {
	if text, ok := v.Text(); ok {
		return text
	}
	if number, ok := v.Int(); ok {
		return strconv.FormatInt(number, 10)
	}
	if number, ok := v.Float(); ok {
		return strconv.FormatFloat(number, 'f', -1, 64)
	}
	if value, ok := v.Bool(); ok {
		return strconv.FormatBool(value)
	}
	return ""
}

// writeSpan writes the time of a report.
func writeSpan(w io.Writer, from, to time.Time) {
	const layout = "2006-01-02 15:04"
	fmt.Fprintf(w, "From %s to %s UTC.\n", from.UTC().Format(layout), to.UTC().Format(layout))
}

// sumsText is the sums of a line that begin with a prefix, as text; "–" if all are zero.
func sumsText(line client.Value, prefix string) string {
	var parts []string
	for _, part := range []struct {
		suffix string
		kind   resource.Kind
		factor float64
	}{{"_cpu_core_s", resource.CPU, 1}, {"_gpu_s", resource.GPU, 1}, {"_memory_gib_s", resource.Memory, 1 << 30}} {
		if v, _ := line.Get(prefix + part.suffix).Float(); v != 0 {
			parts = append(parts, resource.FormatVolume(part.kind, v*part.factor))
		}
	}
	if len(parts) == 0 {
		return "–"
	}
	return strings.Join(parts, ", ")
}

func newReportPreemptionsCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	flags := reportFlags{format: reportFormat{outputFormat: &opts.output}}
	cmd := &cobra.Command{
		Use:   "preemptions",
		Short: "Report who preempted whom, what that cost, and whether it went in circles",
		Long: `Report for every pair of pools and every rule how many jobs were preempted and what that cost. LOST is the work of the jobs that
did not end by themselves after all: what they held, from their start to their end. WASTED counts those that were preempted for a job that
never began. GAINED is what the winner's jobs had in their room while they ran, NET is gained minus lost, in core·s.

Rules: starving (a starving operation or pool took what was above a fair share), aggressive (it took what was within one), limit, node,
graceful.

Operations that preempt each other in turn are listed as cycles. Every minute with preemptions is checked together with the nine before it;
if shares did not change, no victim was left below its tolerance and every winner was below it, cycles are proven absent.`,
		Example: `  weir report preemptions
  weir report preemptions --day 2026-10-31 --pool production
  weir report preemptions --month 2026-10 -o csv`,
		Args: noArgs,
		RunE: r.do(flags.table((*client.Client).ReportPreemptions, writePreemptions)),
	}
	flags.addTo(r, cmd)
	return r.addTo(cmd)
}

func writePreemptions(w io.Writer, report *client.Report) error {
	writeSpan(w, report.From, report.To)
	if len(report.Lines) == 0 {
		fmt.Fprintln(w, "No job was preempted.")
		return nil
	}
	t := newTable(w)
	t.row("VICTIM", "WINNER", "RULE", "JOBS", "LOST", "WASTED", "GAINED", "NET")
	t.alignRight(3, 5, 7)
	lines := slices.Clone(report.Lines)
	slices.SortStableFunc(lines, func(a, b client.Value) int {
		x, _ := a.Get("jobs").Int()
		y, _ := b.Get("jobs").Int()
		return int(y - x)
	})
	for _, line := range lines {
		text := func(column string) string { return cellText(line.Get(column)) }
		winner := text("winner")
		if winner == "" {
			winner = "–"
		}
		net, _ := line.Get("net_cpu_core_s").Float()
		t.row(text("victim"), winner, text("rule"), text("jobs"), sumsText(line, "lost"), text("wasted_jobs"), sumsText(line, "gained"),
			resource.FormatVolume(resource.CPU, net))
	}
	if err := t.flush(); err != nil {
		return err
	}
	watch := report.Raw.Get("watch")
	minutes, _ := watch.Get("minutes").Int()
	proven, _ := watch.Get("proven").Int()
	found, _ := watch.Get("cycles").Int()
	switch {
	case minutes == 0:
	case found == 0:
		fmt.Fprintf(w, "No cycles: proven for %d of %d minutes with preemptions.\n", proven, minutes)
	default:
		fmt.Fprintf(w, "%s found; proven absent for %d of %d minutes with preemptions.\n", plural(found, "cycle", "cycles"), proven, minutes)
	}
	for _, cycle := range report.Raw.Get("cycles").Items() {
		writeCycle(w, cycle)
	}
	return nil
}

func writeCycle(w io.Writer, cycle client.Value) {
	text := func(key string) string { return cellText(cycle.Get(key)) }
	var operations []string
	for _, id := range cycle.Get("operations").Items() {
		operations = append(operations, cellText(id))
	}
	fmt.Fprintf(w, "%s  %s: %s jobs, because: %s\n", text("timestamp"), strings.Join(operations, ", "), text("jobs"), text("premises"))
}
