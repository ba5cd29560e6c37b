package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/internal/sim"
	"github.com/weirhq/weir/internal/sim/forecast"
	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/sim/report"
	"github.com/weirhq/weir/internal/sim/scenario"
)

// simulateCall is a call of weir simulate.
type simulateCall struct {
	opts    *options
	html    string
	csv     string
	save    string
	seed    uint64
	compare bool
	verify  bool
	// forecasts is the part of the arrivals for which forecasts are made and scored.
	forecasts float64
}

func newSimulateCommand(opts *options) *cobra.Command {
	call := &simulateCall{opts: opts}
	cmd := &cobra.Command{
		Use:   "simulate SCENARIO",
		Short: "Run the scheduler on virtual time over a workload or a recorded trace",
		Long: `Run the real scheduling core on virtual time. A scenario (docs/simulator.md) has nodes, pool
trees, operations that arrive, and events such as lost nodes or changed limits; workloads may also
come from logs in the Standard Workload Format and from the Alibaba 2023 GPU trace. The report shows
what each pool and operation was entitled to, demanded and got, and how long its jobs waited. The same
scenario and seed give the same report, byte for byte.

A scenario may state expectations; exit code 1 means that one did not hold.

--compare compares two saved results.

--forecasts makes forecasts (weir forecast) at random arrivals of operations that cannot start at once,
from what has happened by then, and reports how well they held: how often outcomes were within the
90 % interval, how wide it was, and the loss against simpler methods.`,
		Example: `  weir simulate examples/simulate/production-research.yaml
  weir simulate examples/simulate/production-research.yaml --html report.html --csv series.csv

  # Two runs side by side
  weir simulate examples/simulate/node-loss.yaml --seed 1 --save one.json > one.txt
  weir simulate examples/simulate/node-loss.yaml --seed 2 --save two.json > two.txt
  weir simulate --compare one.json two.json | less

  # How well would forecasts hold on a recorded workload?
  weir simulate examples/simulate/starvation.yaml --forecasts 1`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case call.compare && len(args) != 2:
				return usageErrorf("--compare takes two saved results, got %d files", len(args))
			case call.compare && args[0] == "-" && args[1] == "-":
				return usageErrorf("--compare cannot read both results from standard input")
			case call.compare:
				return call.refuseWithCompare(cmd)
			case !call.compare && len(args) != 1:
				return usageErrorf("simulate takes one scenario, got %d files", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if call.compare {
				return call.runCompare(cmd, args[0], args[1])
			}
			return call.run(cmd, args[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&call.html, "html", "", "write a self-contained report with plots to this file")
	flags.StringVar(&call.csv, "csv", "", "write the time series to this file")
	flags.StringVar(&call.save, "save", "", "save the results as JSON, for --compare")
	flags.Uint64Var(&call.seed, "seed", 0, "use this seed instead of the scenario's")
	flags.BoolVar(&call.compare, "compare", false, "compare two results saved by --save")
	flags.BoolVar(&call.verify, "verify", false, "check the invariants of the scheduler after every input (slow)")
	flags.Float64Var(&call.forecasts, "forecasts", 0, "make forecasts at this part of the arrivals, such as 0.2, and report how well they held")
	return cmd
}

// refuseWithCompare refuses flags that mean nothing when nothing is run.
func (c *simulateCall) refuseWithCompare(cmd *cobra.Command) error {
	for _, flag := range []string{"csv", "save", "seed", "verify", "forecasts"} {
		if cmd.Flags().Changed(flag) {
			return usageErrorf("--compare cannot be combined with --%s: it runs nothing", flag)
		}
	}
	if c.opts.output != outputTable {
		return usageErrorf("--compare prints a table, not %s", c.opts.output)
	}
	return nil
}

func (c *simulateCall) run(cmd *cobra.Command, name string) error {
	if err := c.checkFiles(name); err != nil {
		return err
	}
	s, err := c.read(cmd, name)
	if err != nil {
		return err
	}
	if cmd.Flags().Changed("forecasts") {
		return c.runForecasts(cmd, s)
	}
	bar := newProgress(cmd.ErrOrStderr(), time.Second)
	result, err := sim.Run(cmd.Context(), s, sim.Options{Verify: c.verify, Promises: true, Progress: bar.showRun})
	bar.clear()
	if err != nil {
		return err
	}
	if err := c.write(result); err != nil {
		return err
	}
	out := bufio.NewWriter(cmd.OutOrStdout())
	err = c.opts.print(out, result, func(w io.Writer) error { return report.Summary(w, result, report.Primary(result)) })
	if err := errors.Join(err, out.Flush()); err != nil {
		return err
	}
	if len(result.Failed()) > 0 {
		return errReported
	}
	return nil
}

// showRun shows how far a simulation has come.
func (p *progress) showRun(at sim.Progress) {
	p.showAs(at.Fraction, fmt.Sprintf("%s, %d jobs run", at.Now.Format("2006-01-02 15:04"), at.RunningJobs))
}

// runForecasts simulates a scenario and scores forecasts.
func (c *simulateCall) runForecasts(cmd *cobra.Command, s *scenario.Scenario) error {
	if c.forecasts <= 0 || c.forecasts > 1 {
		return usageErrorf("--forecasts must be above 0 and at most 1, not %v", c.forecasts)
	}
	for _, flag := range []string{"csv", "html", "save", "verify"} {
		if cmd.Flags().Changed(flag) {
			return usageErrorf("--forecasts cannot be combined with --%s: it reports only forecasts", flag)
		}
	}
	bar := newProgress(cmd.ErrOrStderr(), time.Second)
	collection, err := forecast.Collect(cmd.Context(), s, forecast.Trial{Part: c.forecasts, Seed: s.Seed, Progress: bar.showRun})
	bar.clear()
	if err != nil {
		return err
	}
	accuracy := collection.Judge()
	return c.opts.print(cmd.OutOrStdout(), accuracy, accuracy.Write)
}

// read reads a scenario. Files that it names are relative to its directory.
func (c *simulateCall) read(cmd *cobra.Command, name string) (*scenario.Scenario, error) {
	input, label, closeInput, err := openInput(cmd, name)
	if err != nil {
		return nil, err
	}
	defer closeInput()
	data, err := readBounded(input, label)
	if err != nil {
		return nil, err
	}
	s, warnings, err := scenario.Read(label, data, func(file string) (io.ReadCloser, error) {
		if !filepath.IsAbs(file) && name != "-" {
			file = filepath.Join(filepath.Dir(name), file)
		}
		return os.Open(file)
	})
	printWarnings(cmd.ErrOrStderr(), warnings)
	if err != nil {
		return nil, shortenProblems(err)
	}
	if cmd.Flags().Changed("seed") {
		s.Seed = c.seed
	}
	return s, nil
}

func (c *simulateCall) runCompare(cmd *cobra.Command, a, b string) error {
	if err := c.checkFiles(a, b); err != nil {
		return err
	}
	var results [2]*outcome.Result
	for i, name := range []string{a, b} {
		input, label, closeInput, err := openInput(cmd, name)
		if err != nil {
			return err
		}
		data, err := readBounded(input, label)
		closeInput()
		if err != nil {
			return err
		}
		if results[i], err = outcome.Parse(label, data); err != nil {
			return err
		}
	}
	labels := report.Labels{A: a, B: b}
	if c.html != "" {
		err := writeWhole(c.html, func(w io.Writer) error { return report.CompareHTML(w, results[0], results[1], labels) })
		if err != nil {
			return err
		}
	}
	return report.CompareText(cmd.OutOrStdout(), results[0], results[1], labels)
}
