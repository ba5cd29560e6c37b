package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/control/recorder"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/journal"
	"github.com/weirhq/weir/internal/engine/why"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
)

func newReplayCommand() *cobra.Command {
	var until string
	var again rerunFlags
	cmd := &cobra.Command{
		Use:   "replay FILE [explain OPERATION|pool:NAME|cluster | pools | shares | what-if FILE]",
		Short: "Repeat a recorded journal exactly, and ask about any moment in it",
		Long: `Repeat what weir journal export has saved: apply every recorded input to a core, and compare every decision, and the hashes of the
state, with what was recorded. The first difference is printed, with its input, and the exit code is 1. Differences mean that this build
decides otherwise than the one that wrote the journal. No scheduler is needed.

With a question, the answer is about the moment of --until, or the end of the journal. explain tells what an operation, a pool or the
cluster waited for, pools what pools used and demanded, shares what they were entitled to and by which cause, what-if what changes would
have done in the hours after it. Reasons outside the core, such as banned nodes, are part of the journal.

With --with POOLS, run the recorded time again with the pools of a file as for weir apply; with --set, with other options of pools; with
--nodes, with more or fewer nodes. This is not exact: what users did and which other nodes there were is kept, but other jobs run, and each
runs as long as it did when it completed. Three figures stand side by side: recorded, again as recorded, which shows the error of the model,
and again with the changes.

A journal that ends inside a frame, because its writer was killed or the file was cut, is replayed up to there.`,
		Example: `  weir journal export today.journal
  weir replay today.journal
  weir replay today.journal pools
  weir replay today.journal explain cluster
  weir replay today.journal what-if - <<< 'changes: [{pool: research, set: {weight: 3}}]'
  weir replay today.journal --with examples/production-research.yaml
  weir replay today.journal --set //sys/pools/research/@weight=3 --nodes +2=node-1`,
		Args: cobra.RangeArgs(1, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			moment, err := momentOf("until", until)
			if err != nil {
				return err
			}
			input, label, closeInput, err := openInput(cmd, args[0])
			if err != nil {
				return err
			}
			defer closeInput()
			r := &replay{cmd: cmd, out: cmd.OutOrStdout(), label: label, player: journal.NewPlayer(input)}
			switch {
			case again.asked() && len(args) > 1:
				return usageErrorf("replay takes a question, or --with, --set and --nodes, not both")
			case again.tree != "" && again.file == "":
				return usageErrorf("--tree is the tree of --with")
			case again.asked():
				return r.with(cmd.Context(), &again, moment)
			}
			question, err := r.question(args[1:])
			if err != nil {
				return err
			}
			if err := r.play(moment); err != nil {
				return err
			}
			r.summarise()
			return question(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&again.file, "with", "", "run the recorded time again with the pools of this file")
	cmd.Flags().StringVar(&again.tree, "tree", "", "the tree of these pools; the default one if unset")
	cmd.Flags().StringArrayVar(&again.sets, "set", nil, "run it again with an option of a pool or tree: PATH=VALUE, such as //sys/pools/research/@weight=3 (repeatable)")
	cmd.Flags().StringArrayVar(&again.nodes, "nodes", nil, "run it again with other nodes: +COUNT=NODE adds nodes like one, -NODE leaves one out (repeatable)")
	cmd.Flags().StringVar(&until, "until", "", "stop at this moment, such as 2026-10-31T12:00:00Z; the end if unset")
	return cmd
}

// momentOf reads a moment that a flag states.
func momentOf(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, usageErrorf("--%s: %q is not a time such as 2026-10-31T12:00:00Z", flag, text)
}

// replay plays a journal and answers questions about its last moment.
type replay struct {
	cmd    *cobra.Command
	out    io.Writer
	label  string
	player *journal.Player
	took   time.Duration
	cut    bool // it ends inside a frame
}

// play plays the journal up to a moment.
func (r *replay) play(until time.Time) error {
	p := r.player
	began := time.Now()
	err := p.Until(until)
	r.took, r.cut = time.Since(began), errors.Is(err, journal.ErrCut)
	if err != nil && !r.cut {
		return fmt.Errorf("%s: %w", r.label, err)
	}
	switch first := p.Next(); {
	case p.Core != nil:
		return nil
	case first.IsZero() && r.cut:
		return fmt.Errorf("%s: %w: it was cut inside its first frame", r.label, journal.ErrFormat)
	case first.IsZero():
		return fmt.Errorf("%s: %w: it is empty", r.label, journal.ErrFormat)
	default:
		return fmt.Errorf("%s starts at %s, after %s", r.label, stamp(first), stamp(until))
	}
}

// summarise writes to standard error what was compared.
func (r *replay) summarise() {
	p, errs := r.player, r.cmd.ErrOrStderr()
	covered := p.Now.Sub(p.Played.From)
	speed := ""
	if r.took > 0 && covered > 0 {
		speed = fmt.Sprintf(", %.0f times as fast as it happened", covered.Seconds()/r.took.Seconds())
	}
	hashes := ""
	if n := int64(p.Played.Hashes + p.Played.Checkpoints); n > 0 {
		hashes = fmt.Sprintf("; %s", plural(n, "hash of the state agrees", "hashes of the state agree"))
	}
	fmt.Fprintf(errs, "%s to %s: %s, %d started and %d stopped jobs, as recorded%s%s.\n",
		stamp(p.Played.From), stamp(p.Now), plural(int64(p.Played.Inputs), "input", "inputs"), p.Played.Started, p.Played.Stopped, hashes, speed)
	for _, g := range p.Played.Gaps {
		switch {
		case g.To.IsZero() && g.Why == journal.EndTerm, g.To.IsZero() && g.Why == journal.EndGap:
		case g.Why == journal.EndTerm:
			fmt.Fprintf(errs, "From %s to %s nobody led: the leader stepped down, and another one took over.\n", stamp(g.From), stamp(g.To))
		default:
			fmt.Fprintf(errs, "Nothing is recorded from %s to %s (%s).\n", stamp(g.From), stamp(g.To), g.Why)
		}
	}
	if r.cut {
		fmt.Fprintln(errs, "The file ends inside a frame: its writer was killed, or it was cut. All before that is complete.")
	}
}

// question returns what answers the question in the arguments.
func (r *replay) question(args []string) (func(context.Context) error, error) {
	if len(args) == 0 {
		return func(context.Context) error { return nil }, nil
	}
	subject := func(what string) error {
		if len(args) < 2 {
			return usageErrorf("replay FILE %s needs %s", args[0], what)
		}
		return nil
	}
	switch args[0] {
	case "explain":
		return func(context.Context) error { return r.explain(args[1]) }, subject("an operation, pool:NAME or cluster")
	case "pools", "shares":
		if len(args) > 1 {
			return nil, usageErrorf("replay FILE %s takes no further argument", args[0])
		}
		return func(context.Context) error { return r.pools(args[0] == "shares") }, nil
	case "what-if":
		return func(ctx context.Context) error { return r.whatIf(ctx, args[1]) }, subject("a file with changes")
	}
	return nil, usageErrorf("replay answers explain, pools, shares and what-if, not %q", args[0])
}

// name returns what users call an operation.
func (r *replay) name(id core.OperationID) string {
	n, known := r.player.Names[id]
	switch {
	case !known:
		return fmt.Sprintf("operation %d", id)
	case n.Alias != "":
		return n.Alias
	}
	return n.ID
}

// find returns the operation with a name.
func (r *replay) find(name string) (core.OperationID, error) {
	found, ended := core.NoOperation, false
	for id, n := range r.player.Names {
		if n.ID != name && n.Alias != name && fmt.Sprint(id) != name {
			continue
		}
		if r.player.Core.ControllerOf(id) != nil {
			found = max(found, id)
		}
		ended = true
	}
	switch {
	case found != core.NoOperation:
		return found, nil
	case ended:
		return found, fmt.Errorf("operation %s had ended by %s", name, stamp(r.player.Now))
	}
	return found, fmt.Errorf("the journal knows no operation %s up to %s", name, stamp(r.player.Now))
}

// explain tells what an operation, a pool or all trees waited for.
func (r *replay) explain(subject string) error {
	scene := why.Look(r.player.Core, r.player.Now, recorder.GatesOf(r.player))
	if subject == "cluster" {
		for _, tree := range scene.Trees() {
			if err := r.explainPool(scene, tree, core.RootName); err != nil {
				return err
			}
		}
		return nil
	}
	if pool, is := strings.CutPrefix(subject, "pool:"); is {
		return r.explainPool(scene, r.treeOf(pool), pool)
	}
	id, err := r.find(subject)
	if err != nil {
		return err
	}
	x, err := scene.Operation(id)
	if err != nil {
		return err
	}
	fmt.Fprintf(r.out, "At %s operation %s was %s.\n", stamp(r.player.Now), r.name(id), x.Facts.State)
	if x.Starts > 0 {
		fmt.Fprintf(r.out, "%s at the next heartbeats, the first on %s.\n", plural(int64(x.Starts), "job started", "jobs started"), x.Node)
	}
	for i, list := range [][]why.Blocker{x.Blockers, x.Then} {
		if i == 1 && len(list) > 0 {
			fmt.Fprintln(r.out, "Then:")
		}
		r.writeBlockers(list)
	}
	return nil
}

func (r *replay) writeBlockers(list []why.Blocker) {
	width := 0
	for i := range list {
		width = max(width, len(list[i].Code.String()))
	}
	for i := range list {
		b := &list[i]
		fmt.Fprintf(r.out, "%-3d%-*s  %s%s\n", i+1, width, b.Code, b.Text(r.name), sinceText(b.Since, r.player.Now, ", since "))
	}
}

// treeOf returns the tree that has a pool; the first one if none has.
func (r *replay) treeOf(pool string) string {
	trees := r.player.Core.Trees()
	for i, name := range trees {
		if _, there := r.player.Core.PoolDemand(core.TreeID(i), pool); there {
			return name
		}
	}
	return append(trees, "")[0]
}

func (r *replay) explainPool(scene *why.Scene, tree, pool string) error {
	x, err := scene.Pool(tree, pool, func() bool { return true })
	if err != nil {
		return err
	}
	amount := func(v int64) string { return resource.FormatAmount(x.Resource, v) }
	fmt.Fprintf(r.out, "At %s pool %s of tree %s used %s %s, demanded %s and lacked %s.\n", stamp(r.player.Now), pool, tree,
		amount(x.Usage[x.Resource]), x.Resource, amount(x.Demand[x.Resource]), amount(x.Gap))
	for i := range x.Rows {
		row := &x.Rows[i]
		text := "start at the next heartbeats"
		if !row.StartsNow {
			text = row.Blocker.Code.String() + ": " + row.Blocker.Text(r.name)
		}
		fmt.Fprintf(r.out, "  %s of %s: %s\n", amount(row.Amount), plural(int64(row.Jobs), "job", "jobs"), text)
	}
	return nil
}

// pools lists the pools of all trees: what they use and demand, or what they are entitled to.
func (r *replay) pools(shares bool) error {
	picture := r.player.Core.Fork().Picture(r.player.Now)
	t := newTable(r.out)
	if shares {
		t.row("TREE", "POOL", "FAIR SHARE", "STRONG", "INTEGRAL", "BY WEIGHT", "USAGE")
		t.alignRight(2, 3, 4, 5, 6)
	} else {
		t.row("TREE", "POOL", "USAGE", "DEMAND", "FAIR SHARE", "OPERATIONS", "RUNNING", "JOBS", "WAITING")
		t.alignRight(2, 3, 4, 5, 6, 7, 8)
	}
	for _, tree := range picture.Trees {
		for p := range tree.Pools() {
			usage := percent(p.UsageShare.Largest())
			if shares {
				t.row(tree.Name, tree.Path(p), percent(p.Share.Total.Largest()), percent(p.Share.Strong.Largest()),
					percent(p.Share.Integral.Largest()), percent(p.Share.WeightProportional.Largest()), usage)
				continue
			}
			t.row(tree.Name, tree.Path(p), usage, percent(p.Demand.Share(tree.Total).Largest()), percent(p.Share.Total.Largest()),
				fmt.Sprint(p.Operations), fmt.Sprint(p.RunningOperations), fmt.Sprint(p.RunningJobs), fmt.Sprint(p.WaitingJobs))
		}
	}
	return t.flush()
}

// periodsOf returns the periods of the daemon that wrote the journal.
func periodsOf(h *journal.Header) (update, heartbeat time.Duration) {
	const usual = time.Second
	return max(h.UpdatePeriod, usual/10), max(h.HeartbeatPeriod, usual/10)
}

// documentOf reads a document of a file, or of standard input.
func documentOf(cmd *cobra.Command, file string) (v document.Value, label string, err error) {
	input, label, closeInput, err := openInput(cmd, file)
	if err != nil {
		return v, label, err
	}
	defer closeInput()
	data, err := readBounded(input, label)
	if err != nil {
		return v, label, err
	}
	v, err = parseDocument(label, data)
	return v, label, err
}

// explainAt explains a past moment from the scheduler's journal.
func (s *session) explainAt(text, subject string) error {
	moment, err := momentOf("at", text)
	if err != nil {
		return err
	}
	at := yson.String(stamp(moment))
	body, err := s.Stream(s.ctx, client.Request{Command: "export_journal", Parameters: yson.Map(yson.Pair("from_time", at), yson.Pair("to_time", at))})
	if err != nil {
		return err
	}
	defer body.Close()
	r := &replay{cmd: s.cmd, out: s.out, label: "the journal", player: journal.NewPlayer(body)}
	if err := r.play(moment); err != nil {
		return err
	}
	return r.explain(subject)
}
