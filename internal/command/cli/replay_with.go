package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/sim/ahead"
	"github.com/weirhq/weir/internal/sim/rerun"
	"github.com/weirhq/weir/internal/sim/scenario"
	"github.com/weirhq/weir/internal/value/document"
)

// rerunFlags say what differs in a re-run.
type rerunFlags struct {
	file, tree  string
	sets, nodes []string
}

// asked reports whether the flags ask for a re-run.
func (f *rerunFlags) asked() bool { return f.file != "" || len(f.sets)+len(f.nodes) > 0 }

// with runs the recorded time again with other pools or nodes, and compares.
func (r *replay) with(ctx context.Context, flags *rerunFlags, until time.Time) error {
	add, without, err := nodeChanges(flags.nodes)
	if err != nil {
		return err
	}
	history, err := rerun.Read(r.player, until)
	if err != nil {
		return fmt.Errorf("%s: %w", r.label, err)
	}
	change := rerun.Change{Add: add, Without: without}
	if change.Pools, err = r.changedPools(flags); err != nil {
		return err
	}
	before, err := history.Run(ctx, rerun.Change{})
	if err != nil {
		return err
	}
	after, err := history.Run(ctx, change)
	if err != nil {
		return err
	}
	return r.writeRerun(history, rerun.Compare(history, before, after))
}

// changedPools returns the trees that --with and --set change: the pools of the file, or the last recorded ones, with
// the options that are set.
func (r *replay) changedPools(flags *rerunFlags) (changed []document.Named[*pooltree.Tree], err error) {
	configuration := r.player.Core.Configuration()
	find := func(list []document.Named[*pooltree.Tree], name string) int {
		return slices.IndexFunc(list, func(t document.Named[*pooltree.Tree]) bool { return t.Name == name })
	}
	if flags.file != "" {
		v, label, err := documentOf(r.cmd, flags.file)
		if err != nil {
			return nil, err
		}
		name := cmp.Or(flags.tree, configuration.Default)
		if find(configuration.Trees, name) < 0 {
			return nil, fmt.Errorf("the journal has no pool tree %q", name)
		}
		config, _, err := pooltree.FromValue(v, pooltree.Options{File: label, KeepUnknown: true})
		if err != nil {
			return nil, err
		}
		changed = append(changed, document.Named[*pooltree.Tree]{Name: name, Value: config})
	}
	if len(flags.sets) == 0 {
		return changed, nil
	}
	sets, err := setChanges(flags.sets)
	if err != nil {
		return nil, err
	}
	v, err := wire.ToDocument(sets)
	if err != nil {
		return nil, err
	}
	names := r.aheadNames()
	tree := names.Tree
	names.Tree = func(name string) (*pooltree.Tree, bool) {
		if at := find(changed, name); at >= 0 {
			return changed[at].Value, true
		}
		return tree(name)
	}
	plan, err := ahead.Read(v, "--set", names)
	if err != nil {
		return nil, err
	}
	for _, e := range plan.Events {
		edit, is := e.Action.(scenario.EditTree)
		if !is {
			continue
		}
		base, there := names.Tree(edit.Tree)
		if !there {
			return nil, fmt.Errorf("--set: the journal has no pool tree %q", edit.Tree)
		}
		next, _, err := base.With(edit.Edits...)
		if err != nil {
			return nil, fmt.Errorf("--set: %w", err)
		}
		if at := find(changed, edit.Tree); at >= 0 {
			changed[at].Value = next
		} else {
			changed = append(changed, document.Named[*pooltree.Tree]{Name: edit.Tree, Value: next})
		}
	}
	return changed, nil
}

// nodeChanges reads what --nodes states: +COUNT=NODE or -NODE.
func nodeChanges(texts []string) (add []rerun.MoreNodes, without []string, err error) {
	for _, text := range texts {
		if name, is := strings.CutPrefix(text, "-"); is && name != "" {
			without = append(without, name)
			continue
		}
		number, like, found := strings.Cut(strings.TrimPrefix(text, "+"), "=")
		count, failed := strconv.Atoi(number)
		if !strings.HasPrefix(text, "+") || !found || like == "" || failed != nil || count < 1 || count > mostNodes {
			return nil, nil, usageErrorf("--nodes must be +COUNT=NODE, to add up to %d nodes like one, or -NODE, to leave one out, not %q", mostNodes, text)
		}
		add = append(add, rerun.MoreNodes{Count: count, Like: like})
	}
	return add, without, nil
}

// mostNodes limits the nodes that a flag adds.
const mostNodes = 10_000

func (r *replay) writeRerun(h *rerun.History, x *rerun.Report) error {
	fmt.Fprintf(r.out, "%s to %s: recorded / again as recorded / again with the changes.\n", stamp(h.From), stamp(h.To))
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
		fmt.Fprintf(r.out, "Operation %s ends at %s again as recorded, at %s with the changes.\n", name, at(e.Old), at(e.New))
	}
}
