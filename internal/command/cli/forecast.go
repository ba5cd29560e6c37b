package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/value/document"
)

func newForecastCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	var tree string
	cmd := &cobra.Command{
		Use:   "forecast OPERATION|POOL",
		Short: "Say when operations start and finish",
		Long: `Say when an operation starts and finishes: the middle of what may happen and, in brackets, an interval that holds in 90 % of all
cases. The scheduler runs copies of the cluster ahead, with run times drawn from those of earlier jobs, and corrects the result by the
outcomes of earlier forecasts; it states how many of them held in the last week. Forecasts without enough outcomes are marked as
uncalibrated: they are often too narrow.

Say for a pool when each operation in and below it starts and finishes, and when the last one does, if no more arrive; pool:NAME is
always a pool. weir report forecasts tells how well forecasts held.`,
		Example: `  weir forecast '*nightly'
  weir forecast pool:research
  weir op list --eta`,
		Args: oneName("operation or pool"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			operations, directive := r.completeOperations()(cmd, args, prefix)
			pools, _ := r.completePools()(cmd, args, prefix)
			return append(operations, pools...), directive
		},
		RunE: r.do(func(s *session, args []string) error { return s.forecast(tree, args[0]) }),
	}
	cmd.Flags().StringVar(&tree, "tree", "", "pool tree of a pool; the default one if unset")
	r.mustComplete(cmd, "tree", r.completeTrees())
	return r.addTo(cmd)
}

func (s *session) forecast(tree, name string) error {
	pool, marked := strings.CutPrefix(name, poolPrefix)
	if isID := beginningOfID.MatchString(name) || strings.HasPrefix(name, "*"); !marked && !isID {
		names, err := s.PoolNames(s.ctx, tree)
		if err != nil {
			return err
		}
		if marked = slices.Contains(names, name); !marked {
			message := fmt.Sprintf("there is no pool %s, and operations have ids or aliases, such as *nightly", name)
			if near, found := document.Nearest(name, names); found {
				message += fmt.Sprintf("; did you mean %s?", near)
			}
			return errors.New(message)
		}
	}
	if marked {
		x, err := s.ForecastPool(s.ctx, tree, pool)
		if err != nil {
			return err
		}
		return s.print(x.Raw, func(w io.Writer) error { return writePoolForecast(w, x) })
	}
	id, err := s.operation(name)
	if err != nil {
		return err
	}
	x, err := s.ForecastOperation(s.ctx, id)
	if errors.Is(err, client.CodeOperationState) {
		return s.explainEnded(id)
	}
	if err != nil {
		return err
	}
	return s.print(x.Raw, func(w io.Writer) error {
		writeForecast(w, x, name)
		return nil
	})
}

func writeForecast(w io.Writer, x *client.Forecast, name string) {
	if x.Start == nil && x.Finish == nil {
		fmt.Fprintf(w, "There is no forecast for %s yet. It needs a few seconds; none is made if scheduler/analysis/forecast_cpu is 0.\n", name)
		return
	}
	now := time.Now()
	if x.Start != nil {
		fmt.Fprintf(w, "%s starts %s%s.\n", name, etaText(now, x.Start), recordText(x.Start))
	} else {
		fmt.Fprintf(w, "%s has started.\n", name)
	}
	if x.Finish != nil {
		fmt.Fprintf(w, "%s finishes %s%s.\n", name, etaText(now, x.Finish), recordText(x.Finish))
	}
	if x.Start != nil && !x.Start.Calibrated || x.Finish != nil && !x.Finish.Calibrated {
		fmt.Fprintln(w, "Too few outcomes of forecasts are known to calibrate the intervals: they are often too narrow.")
	}
}

// etaText is the median with the interval in brackets.
func etaText(now time.Time, t *client.ForecastTimes) string {
	return fmt.Sprintf("%s (%s–%s)", futureText(now, t.Median), futureText(now, t.Earliest), futureText(now, t.Latest))
}

// futureText is the time of day, with the date if it is another day. Times more than a day ahead are not known.
func futureText(now, at time.Time) string {
	switch at = at.Local(); {
	case at.IsZero():
		return "after more than a day"
	case at.Before(now.Add(time.Second)):
		return "now"
	case at.YearDay() != now.Local().YearDay():
		return at.Format("Jan 2 15:04")
	case at.Sub(now) < 10*time.Minute:
		return at.Format("15:04:05")
	}
	return at.Format("15:04")
}

// recordText states how well such forecasts held.
func recordText(t *client.ForecastTimes) string {
	if !t.Calibrated {
		return " (uncalibrated)"
	}
	if t.Settled == 0 {
		return ""
	}
	return fmt.Sprintf("; %.0f %% of such intervals held in the last week (n = %d)", 100*float64(t.Held)/float64(t.Settled), t.Settled)
}

func writePoolForecast(w io.Writer, x *client.PoolForecast) error {
	now := time.Now()
	if len(x.Operations) == 0 {
		fmt.Fprintf(w, "Pool %s: no operation has a forecast.\n", x.Pool)
		return nil
	}
	fmt.Fprintf(w, "Pool %s, as of %s: %s with a forecast, %d waiting.\n", x.Pool, stamp(x.AsOf), plural(int64(len(x.Operations)), "operation", "operations"), x.Waiting)
	if x.Empty != nil {
		fmt.Fprintf(w, "If no more arrive, the last one finishes %s; this interval is not calibrated.\n", etaText(now, x.Empty))
	}
	t := newTable(w)
	t.row("OPERATION", "POOL", "STARTS", "FINISHES")
	for i := range x.Operations {
		o := &x.Operations[i]
		starts := "started"
		if o.Start != nil {
			starts = etaText(now, o.Start)
		}
		t.row(o.Operation, o.Pool, starts, etaText(now, o.Finish))
	}
	return t.flush()
}

// etaOf is the column ETA of lists: when an operation starts, or else when it finishes.
func etaOf(now time.Time, o *client.Operation) string {
	switch f := o.Forecast; {
	case f == nil || o.State.Ended():
		return orNothing("")
	case f.Start != nil:
		return "starts " + etaText(now, f.Start)
	case f.Finish != nil:
		return "ends " + etaText(now, f.Finish)
	}
	return orNothing("")
}

func newReportForecastsCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	flags := reportFlags{format: reportFormat{outputFormat: &opts.output}}
	cmd := &cobra.Command{
		Use:   "forecasts",
		Short: "Report how well forecasts held",
		Long: `Report for every pool how well its forecasts held (weir forecast), by target: the start or the finish of operations. The report is
about forecasts that were made in the period and whose outcomes are known. HELD is the part of the calibrated ones whose outcome was
within the 90 % interval, WIDTH the median length of these intervals. LOSS is the pinball loss in seconds, averaged over three quantiles:
of what was published, of the ensemble and of the quantiles of recent waits; less is better. With -o csv, the columns compared_… have the
losses on the forecasts that both the ensemble and the history made.`,
		Example: `  weir report forecasts
  weir report forecasts --month 2026-10 -o csv`,
		Args: noArgs,
		RunE: r.do(flags.table((*client.Client).ReportForecasts, writeForecastReport)),
	}
	flags.addTo(r, cmd)
	return r.addTo(cmd)
}

func writeForecastReport(w io.Writer, report *client.Report) error {
	writeSpan(w, report.From, report.To)
	if len(report.Lines) == 0 {
		fmt.Fprintln(w, "No forecast has an outcome.")
		return nil
	}
	t := newTable(w)
	t.row("POOL", "TARGET", "SETTLED", "HELD", "UNCALIBRATED", "WIDTH", "LOSS", "ENSEMBLE", "HISTORY")
	t.alignRight(2, 3, 4, 5, 6, 7, 8)
	for _, line := range report.Lines {
		text := func(column string) string { return orNothing(cellText(line.Get(column))) }
		number := func(column, format string, factor float64) string {
			if v, ok := line.Get(column).Float(); ok {
				return fmt.Sprintf(format, v*factor)
			}
			return orNothing("")
		}
		t.row(text("pool"), text("target"), text("settled"), number("coverage", "%.0f %%", 100), text("uncalibrated"), number("median_width_s", "%.0f s", 1),
			number("pinball_s", "%.1f", 1), number("pinball_ensemble_s", "%.1f", 1), number("pinball_history_s", "%.1f", 1))
	}
	return t.flush()
}
