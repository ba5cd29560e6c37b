package cli

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/treefile"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// sharesCall is one call of the command: its flags and where it writes.
type sharesCall struct {
	opts *options

	jsonl     bool
	compare   bool
	resource  string
	explain   string
	poolsOnly bool

	at     flagDuration
	length flagDuration
	step   flagDuration
	period flagDuration
	pools  []string
	csv    bool
	plot   string

	out   *bufio.Writer
	style barStyle
	errs  io.Writer
}

func newSharesCommand(opts *options) *cobra.Command {
	call := &sharesCall{opts: opts, step: flagDuration(10 * time.Minute), period: flagDuration(10 * time.Second)}
	cmd := &cobra.Command{
		Use:   "shares FILE",
		Short: "Compute who is entitled to what in a pool tree",
		Long: `Compute the fair shares of a pool tree offline.

FILE describes a cluster, its pools and its operations in YAML or JSON (docs/shares.md), or is
a tree in the JSON of the conformance vectors; it may be compressed with gzip, and - means
standard input. The output is a table of the tree: what each pool and operation uses, is
entitled to and demands, and how much of its share comes from strong guarantees, from integral
guarantees and from the rest by weight. With -o json it is the JSON of the vectors.

With --for time passes: integral pools save and spend, operations come and go, and the output
shows what each pool was entitled to and had saved over time.`,
		Example: `  # Who is entitled to what now
  weir shares examples/production-research.yaml

  # Where the share of a pool comes from, and what limits it
  weir shares examples/production-research.yaml --explain research

  # The same tree eighteen hours later
  weir shares examples/production-research.yaml --at 18h

  # A day of a burst pool, as a table and as a plot
  weir shares examples/burst.yaml --for 24h --step 1h
  weir shares examples/burst.yaml --for 24h --step 10m --plot burst.svg

  # Many trees, one per line; compare with the stored answers
  weir shares --jsonl -o json trees.jsonl > answers.jsonl
  weir shares --jsonl --compare pairs.jsonl | tail -1`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			stdout := cmd.OutOrStdout()
			call.out, call.errs = bufio.NewWriterSize(stdout, 1<<16), cmd.ErrOrStderr()
			call.style = barStyleOf(stdout)
			err := call.check(cmd)
			if err == nil {
				err = call.run(cmd, args[0])
			}
			if flushed := call.out.Flush(); err == nil {
				err = flushed
			}
			return err
		},
		ValidArgsFunction: completeTreeFiles,
	}
	flags := cmd.Flags()
	flags.BoolVar(&call.jsonl, "jsonl", false, "the file has one tree or one {\"input\", \"output\"} pair per line")
	flags.BoolVar(&call.compare, "compare", false, "with --jsonl: compare with the stored outputs instead of printing answers")
	flags.StringVar(&call.resource, "resource", "", "resource that tables show (default: the tree's main resource)")
	flags.StringVar(&call.explain, "explain", "", "explain the share of this pool or operation")
	flags.BoolVar(&call.poolsOnly, "pools-only", false, "omit operations from the table")
	flags.Var(&call.at, "at", "show the shares after this much time")
	flags.Var(&call.length, "for", "show how shares develop over this much time")
	flags.Var(&call.step, "step", "with --for: time between two lines")
	flags.Var(&call.period, "update-period", "with --for and --at: longest time between two updates")
	flags.StringSliceVar(&call.pools, "pool", nil, "with --for: pools or operations to show (default: all top-level and integral pools)")
	flags.BoolVar(&call.csv, "csv", false, "with --for: print as CSV")
	flags.StringVar(&call.plot, "plot", "", "with --for: draw entitlement, demand and savings into this SVG file")
	complete := cobra.FixedCompletions(resourceCompletions(), cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc("resource", complete); err != nil {
		panic(err) // the flag was added above
	}
	return cmd
}

func completeTreeFiles(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return []cobra.Completion{"yaml", "yml", "json", "jsonl", "gz"}, cobra.ShellCompDirectiveFilterFileExt
}

func resourceCompletions() (names []cobra.Completion) {
	for _, k := range resource.Kinds {
		names = append(names, k.String())
	}
	return names
}

// check refuses flags that exclude or need each other.
func (c *sharesCall) check(cmd *cobra.Command) error {
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	if c.resource != "" {
		if _, ok := resource.ParseKind(c.resource); !ok {
			return usageErrorf("there is no resource %q; there are user_slots, cpu, gpu, memory and network", c.resource)
		}
	}
	if c.compare && !c.jsonl {
		return usageErrorf("--compare needs --jsonl")
	}
	if c.compare && given("output") {
		return usageErrorf("--compare prints no answers: it cannot be combined with --output")
	}
	if given("for") {
		for _, other := range []string{"jsonl", "explain", "at", "pools-only"} {
			if given(other) {
				return usageErrorf("--for and --%s exclude each other", other)
			}
		}
	} else {
		for _, other := range []string{"step", "pool", "csv", "plot"} {
			if given(other) {
				return usageErrorf("--%s needs --for", other)
			}
		}
	}
	if given("jsonl") && given("explain") {
		return usageErrorf("--jsonl and --explain exclude each other")
	}
	if given("update-period") && !given("for") && !given("at") {
		return usageErrorf("--update-period needs --for or --at")
	}
	if c.csv && given("output") {
		return usageErrorf("--csv and --output exclude each other")
	}
	if c.plot != "" && !strings.HasSuffix(c.plot, ".svg") {
		return usageErrorf("--plot draws SVG files: the name must end in .svg")
	}
	return c.checkTimes()
}

func (c *sharesCall) checkTimes() error {
	const mostSamples, mostUpdates = 1_000_000, 100_000_000
	if c.step <= 0 || c.period <= 0 {
		return usageErrorf("--step and --update-period must be positive")
	}
	if c.length < 0 || c.at < 0 {
		return usageErrorf("--for and --at must not be negative")
	}
	if c.length/c.step > mostSamples {
		return usageErrorf("--for %v with --step %v would print more than a million lines", &c.length, &c.step)
	}
	if max(c.length, c.at)/c.period > mostUpdates {
		return usageErrorf("--update-period %v is too short for this much time", &c.period)
	}
	return nil
}

func (c *sharesCall) run(cmd *cobra.Command, name string) error {
	if c.jsonl {
		return c.runLines(cmd, name)
	}
	file, err := c.read(cmd, name)
	if err != nil {
		return err
	}
	if cmd.Flags().Changed("for") {
		return c.printHistory(cmd.Context(), file)
	}
	result := c.compute(file)
	if c.explain != "" {
		return c.printExplanation(file, result)
	}
	return c.print(file, result)
}

// compute lets time pass if requested and returns the shares at the end.
func (c *sharesCall) compute(file *treefile.File) *fairshare.Result {
	run := treefile.NewRun(file)
	run.Advance(time.Duration(c.at), time.Duration(c.period), nil)
	return run.Result()
}

func (c *sharesCall) print(file *treefile.File, result *fairshare.Result) error {
	switch c.opts.output {
	case outputTable:
		return c.printTable(file, result)
	case outputJSON:
		line := treefile.AppendAnswer(nil, file, result)
		_, err := c.out.Write(append(line, '\n'))
		return err
	default:
		return writeYAML(c.out, rawJSON(treefile.AppendAnswer(nil, file, result)))
	}
}

// rawJSON is text that is already JSON.
type rawJSON []byte

// MarshalJSON returns the text as it is.
func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }

// kind is the resource that tables show.
func (c *sharesCall) kind(file *treefile.File) resource.Kind {
	if kind, ok := resource.ParseKind(c.resource); ok {
		return kind
	}
	return file.Tree.Options.MainResource
}

// flagDuration is a duration flag that accepts days.
type flagDuration time.Duration

// String, Set and Type make flagDuration a flag value.
func (d *flagDuration) String() string {
	if *d == 0 {
		return ""
	}
	return document.FormatDuration(time.Duration(*d))
}

// Type is the kind of the flag's value in help.
func (d *flagDuration) Type() string { return "duration" }

// Set reads the flag.
func (d *flagDuration) Set(text string) error {
	value, err := document.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("must be a time like 90s, 10m, 24h or 3d")
	}
	*d = flagDuration(value)
	return nil
}
