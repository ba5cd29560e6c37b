package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/sim/rerun"
	"github.com/weirhq/weir/internal/value/document"
)

// with runs the recorded time again with other pools, and compares.
func (r *replay) with(ctx context.Context, file, tree string, until time.Time) error {
	v, label, err := documentOf(r.cmd, file)
	if err != nil {
		return err
	}
	history, err := rerun.Read(r.player, until)
	if err != nil {
		return fmt.Errorf("%s: %w", r.label, err)
	}
	configuration := r.player.Core.Configuration()
	if tree == "" {
		tree = configuration.Default
	}
	if !slices.ContainsFunc(configuration.Trees, func(t document.Named[*pooltree.Tree]) bool { return t.Name == tree }) {
		return fmt.Errorf("the journal has no pool tree %q", tree)
	}
	config, _, err := pooltree.FromValue(v, pooltree.Options{File: label, KeepUnknown: true})
	if err != nil {
		return err
	}
	before, err := history.Run(ctx, nil)
	if err != nil {
		return err
	}
	after, err := history.Run(ctx, []document.Named[*pooltree.Tree]{{Name: tree, Value: config}})
	if err != nil {
		return err
	}
	return r.writeRerun(history, rerun.Compare(history, before, after))
}

func (r *replay) writeRerun(h *rerun.History, x *rerun.Report) error {
	fmt.Fprintf(r.out, "%s to %s: recorded / again with the recorded pools / again with the new pools.\n", stamp(h.From), stamp(h.To))
	if h.Gap {
		fmt.Fprintln(r.out, "The journal goes on after a gap, or under another leader; this is the time before it.")
	}
	three := func(a, b, c string) string { return a + " / " + b + " / " + c }
	number := func(v int64) string { return fmt.Sprint(v) }
	fmt.Fprintf(r.out, "Jobs started %s, preempted %s; operations completed %s.\n",
		three(number(x.Recorded.Started), number(x.Old.Started), number(x.New.Started)),
		three(number(x.Recorded.Preempted), number(x.Old.Preempted), number(x.New.Preempted)),
		three(number(x.Recorded.OperationsCompleted), number(x.Old.OperationsCompleted), number(x.New.OperationsCompleted)))
	t := newTable(r.out)
	t.row("TREE", "POOL", "USAGE", "FAIR SHARE", "JOBS STARTED", "PREEMPTED")
	t.alignRight(2, 3, 4, 5)
	for i := range x.Rows {
		row := &x.Rows[i]
		all := func(pick func(*rerun.Pool) string) string {
			side := func(p *rerun.Pool) string {
				if p == nil {
					return nothing
				}
				return pick(p)
			}
			return three(side(row.Recorded), side(row.Old), side(row.New))
		}
		t.row(row.Tree, row.Pool, all(func(p *rerun.Pool) string { return percent(p.Usage) }), all(func(p *rerun.Pool) string { return percent(p.Share) }),
			all(func(p *rerun.Pool) string { return number(p.Started) }), all(func(p *rerun.Pool) string { return number(p.Preempted) }))
	}
	if err := t.flush(); err != nil {
		return err
	}
	r.writeEnds(h, x)
	fmt.Fprintln(r.out, "Model: operations, users' commands and nodes come and go as recorded; a job runs as long as it did if it completed, else as long as "+
		"others of its task; jobs do not fail; memory reserves and settings stay as at the start. The second figure shows the error of the model.")
	return nil
}

// writeEnds lists operations that end at other times.
func (r *replay) writeEnds(h *rerun.History, x *rerun.Report) {
	at := func(seconds float64) string {
		if seconds < 0 {
			return "later"
		}
		return clockText(h.From, h.From.Add(time.Duration(seconds*float64(time.Second))))
	}
	for i, e := range x.Ends {
		if i == mostEffects {
			fmt.Fprintf(r.out, "%s.\n", plural(int64(len(x.Ends)-i), "more operation ends at another time", "more operations end at other times"))
			break
		}
		var id core.OperationID
		name := e.Operation
		if _, err := fmt.Sscanf(e.Operation, "operation-%d", &id); err == nil {
			name = r.name(id)
		}
		fmt.Fprintf(r.out, "Operation %s ends at %s again with the recorded pools, at %s with the new ones.\n", name, at(e.Old), at(e.New))
	}
}
