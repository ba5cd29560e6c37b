package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/value/yson"
)

func newWhatIfCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	var sets []string
	var horizon time.Duration
	cmd := &cobra.Command{
		Use:   "what-if [FILE]",
		Short: "Show what changes would do in the next hours, on a copy of the cluster",
		Long: `Run a copy of the live cluster ahead on virtual time, once as it is and once with changes, and compare pools and operations. The
scheduler's own code decides in both runs, and jobs run equally long in both, so all differences come from the changes. Nothing
is changed.

FILE, or - for standard input, is YAML or JSON with for (at most 24h), durations (expected or limits) and a list of changes; docs/answers.md
describes them. --set changes one option of a pool or tree, given by its path as for weir set.`,
		Example: `  weir what-if --set //sys/pools/research/@weight=3 --for 30m
  weir what-if - --for 1h <<< 'changes: [{lose_nodes: [node-00000]}]'
  weir what-if - -o json <<< 'changes: [{start: {spec: {pool: research, tasks: {a: {job_count: 4, command: "true"}}}}}]'`,
		Args: cobra.MaximumNArgs(1),
		RunE: r.do(func(s *session, args []string) error {
			switch {
			case len(args)+len(sets) == 0:
				return usageErrorf("what-if needs a file with changes, or --set PATH=VALUE")
			case len(args) > 0 && len(sets) > 0:
				return usageErrorf("what-if takes a file or --set, not both")
			case len(sets) > 0:
				document, err := setChanges(sets)
				if err != nil {
					return err
				}
				return s.whatIf(document, "", horizon)
			}
			input, label, closeInput, err := openInput(s.cmd, args[0])
			if err != nil {
				return err
			}
			defer closeInput()
			data, err := readBounded(input, label)
			if err != nil {
				return err
			}
			return s.whatIf(string(data), label, horizon)
		}),
	}
	cmd.Flags().StringArrayVar(&sets, "set", nil, "set an option of a pool or tree: PATH=VALUE, such as //sys/pools/research/@weight=3 (repeatable)")
	cmd.Flags().DurationVar(&horizon, "for", 0, "how far to look ahead, at most 24h; 2h if neither this nor the file says")
	return r.addTo(cmd)
}

// setChanges makes a document of changes from PATH=VALUE pairs.
func setChanges(sets []string) (yson.Node, error) {
	var changes []yson.Node
	for _, set := range sets {
		path, text, found := strings.Cut(set, "=")
		object, option, isAttribute := strings.Cut(path, "/@")
		if !found || !isAttribute || option == "" {
			return yson.Node{}, usageErrorf("--set must be PATH=VALUE with an attribute of a pool, such as //sys/pools/research/@weight=3, not %q", set)
		}
		value, err := parseValue(text)
		if err != nil {
			return yson.Node{}, usageErrorf("--set %s: %v", path, err)
		}
		entries := []yson.Entry{yson.Pair("set", yson.Map(yson.Pair(option, value)))}
		rest, inDefault := strings.CutPrefix(object, "//sys/pools/")
		if !inDefault {
			var inTree bool
			if rest, inTree = strings.CutPrefix(object, "//sys/pool_trees/"); !inTree {
				return yson.Node{}, usageErrorf("--set: %s is no pool or tree; paths start with //sys/pools/ or //sys/pool_trees/TREE", object)
			}
			var tree string
			tree, rest, _ = strings.Cut(rest, "/")
			entries = append(entries, yson.Pair("tree", yson.String(tree)))
		}
		if rest != "" {
			entries = append(entries, yson.Pair("pool", yson.String(rest[strings.LastIndex(rest, "/")+1:])))
		}
		changes = append(changes, yson.Map(entries...))
	}
	return yson.Map(yson.Pair("changes", yson.List(changes...))), nil
}

// whatIf prints what changes would do.
func (s *session) whatIf(document any, file string, horizon time.Duration) error {
	x, err := s.WhatIf(s.ctx, document, file, horizon)
	if err != nil {
		return err
	}
	return s.print(x.Raw, func(w io.Writer) error { return writeWhatIf(w, x) })
}

// effectOf prints what applying a file would do in the next hours.
func (s *session) effectOf(file client.PoolsFile, horizon time.Duration) error {
	if _, err := s.PlanPools(s.ctx, file); err != nil { // its messages have the lines of the file
		return err
	}
	tree := ""
	if file.Tree != "" {
		tree = fmt.Sprintf("    tree: %q\n", file.Tree)
	}
	indented := "      " + strings.ReplaceAll(file.Text, "\n", "\n      ")
	return s.whatIf("changes:\n  -\n"+tree+"    pools:\n"+indented, file.File, horizon)
}

func writeWhatIf(w io.Writer, x *client.WhatIf) error {
	paint := painter(w)
	fmt.Fprintf(w, "%s ahead of %s, without → with the changes. Nothing was changed.\n", shortDuration(x.For), stamp(x.AsOf))
	for _, p := range x.Promises {
		if p.Feasible {
			fmt.Fprintf(w, "The promises of tree %s fit its nodes.\n", p.Tree)
			continue
		}
		fmt.Fprintln(w, paint(styleRed, fmt.Sprintf("The promises of tree %s do not fit its nodes:", p.Tree)))
		for _, f := range p.Findings {
			fmt.Fprintln(w, "  "+f)
		}
	}
	b, a := &x.Before, &x.After
	fmt.Fprintf(w, "Cluster: %d → %s; jobs started %d → %d, completed %d → %d, preempted %d → %d (%.4g → %.4g core·s lost); operations completed %d → %d.\n",
		b.Nodes, plural(a.Nodes, "node", "nodes"), b.StartedJobs, a.StartedJobs, b.CompletedJobs, a.CompletedJobs, b.PreemptedJobs, a.PreemptedJobs,
		b.LostCoreSeconds, a.LostCoreSeconds, b.CompletedOperations, a.CompletedOperations)
	if len(x.Pools)+len(x.Operations) == 0 {
		fmt.Fprintln(w, "No pool and no operation differs.")
	}
	if len(x.Pools) > 0 {
		t := newTable(w)
		t.row("pool", "usage", "fair share", "jobs started", "wait p50", "wait p90", "preempted", "guarantee kept")
		t.alignRight(1, 2, 3, 4, 5, 6, 7)
		for i := range x.Pools {
			p := &x.Pools[i]
			side := func(f *client.PoolFigures, pick func(*client.PoolFigures) string) string {
				if f == nil {
					return "–"
				}
				return pick(f)
			}
			both := func(pick func(*client.PoolFigures) string) string {
				return arrow(side(p.Before, pick), side(p.After, pick))
			}
			t.row(p.Pool,
				both(func(f *client.PoolFigures) string { return percent(f.Usage) }), both(func(f *client.PoolFigures) string { return percent(f.FairShare) }),
				both(func(f *client.PoolFigures) string { return fmt.Sprint(f.StartedJobs) }),
				both(func(f *client.PoolFigures) string { return seconds(f.WaitP50) }), both(func(f *client.PoolFigures) string { return seconds(f.WaitP90) }),
				both(func(f *client.PoolFigures) string { return fmt.Sprint(f.PreemptedJobs) }),
				both(func(f *client.PoolFigures) string {
					if f.GuaranteeKept == nil {
						return "–"
					}
					return percent(*f.GuaranteeKept)
				}))
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	if err := writeOperationEffects(w, x); err != nil {
		return err
	}
	fmt.Fprintf(w, "Unchanged: %s and %s.\n", plural(x.UnchangedPools, "pool", "pools"), plural(x.UnchangedOperations, "operation", "operations"))
	for _, line := range x.Model {
		fmt.Fprintf(w, "Model: %s.\n", line)
	}
	return nil
}

// mostEffects is the number of operations that the text lists; -o json has more.
const mostEffects = 20

func writeOperationEffects(w io.Writer, x *client.WhatIf) error {
	if len(x.Operations) == 0 {
		return nil
	}
	t := newTable(w)
	t.row("operation", "pool", "first start", "finish", "jobs started", "preempted")
	t.alignRight(4, 5)
	for i := range x.Operations[:min(len(x.Operations), mostEffects)] {
		o := &x.Operations[i]
		both := func(pick func(*client.OperationFigures) string) string {
			side := func(f *client.OperationFigures) string {
				if f == nil {
					return "–"
				}
				return pick(f)
			}
			return arrow(side(o.Before), side(o.After))
		}
		clock := func(at time.Time) string {
			if at.IsZero() {
				return "later"
			}
			return clockText(x.AsOf, at)
		}
		t.row(o.Operation, both(func(f *client.OperationFigures) string { return f.Pool }),
			both(func(f *client.OperationFigures) string { return clock(f.FirstStart) }), both(func(f *client.OperationFigures) string { return clock(f.Finish) }),
			both(func(f *client.OperationFigures) string { return fmt.Sprint(f.StartedJobs) }), both(func(f *client.OperationFigures) string { return fmt.Sprint(f.PreemptedJobs) }))
	}
	if err := t.flush(); err != nil {
		return err
	}
	if more := len(x.Operations) - mostEffects; more > 0 {
		fmt.Fprintf(w, "%s; -o json lists them.\n", plural(int64(more), "more operation differs", "more operations differ"))
	}
	return nil
}

func arrow(before, after string) string {
	if before == after {
		return before
	}
	return before + " → " + after
}

func seconds(s float64) string { return shortDuration(time.Duration(s * float64(time.Second))) }
