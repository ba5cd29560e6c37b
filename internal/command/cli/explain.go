package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/value/resource"
)

func newExplainCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	var tree, at, namespace string
	fix := &fixFlags{}
	cmd := &cobra.Command{
		Use:   "explain OPERATION|JOB|POOL|POD|cluster",
		Short: "Explain what jobs wait for",
		Long: `Explain why an operation's jobs wait: a list of blockers, what to fix first at the top, with amounts, pools, nodes, and who
holds what is short; what starvation and preemption will do for it; and where its fair share comes from, pool by pool. Jobs that
start at the next heartbeats have no blockers.

Explain a pool: what it uses, demands and is entitled to, and what it demands and does not have, by first blocker; pool:NAME is
always a pool. Explain the cluster in the same way, tree by tree. Explain a job: where it runs and what may preempt it, or how it
ended. Explain a pod of Kubernetes that Weir schedules: pod:NAMESPACE/NAME, or pod/NAME in the namespace of -n or, without it,
the one that kubectl uses.

With --fix, list the least changes that start jobs of an operation now: each alone is enough, and each was tested on a copy of the
cluster. What the user can do comes first, then what the owner of the pool can, then what an administrator can; among these, what
costs others least. Nothing is changed.

With --at, the answer is about a past moment. It is computed here from the scheduler's journal, which only superusers may read: see weir
journal.

Otherwise an answer is about a moment at most one update period ago. Whatever it is, the exit code is 0.`,
		Example: `  weir explain '*nightly'
  weir explain '*nightly' -o json
  weir explain '*nightly' --fix
  weir explain '*nightly' --fix --jobs all --as owner
  weir explain pool:research
  weir explain pod:default/$POD
  weir explain cluster`,
		Args: oneName("operation, job or pool"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			operations, directive := r.completeOperations()(cmd, args, prefix)
			pools, _ := r.completePools()(cmd, args, prefix)
			return append(operations, pools...), directive
		},
		RunE: r.do(func(s *session, args []string) error {
			if _, _, isPod := podName(args[0]); !isPod && namespace != "" {
				return usageErrorf("--namespace is for pods, such as pod/web-0; %s is none", args[0])
			}
			if at != "" {
				if fix.fix {
					return usageErrorf("--fix is about now: use it without --at")
				}
				return s.explainAt(at, args[0])
			}
			if options, err := fix.options(s.cmd); err != nil || fix.fix {
				if err != nil {
					return err
				}
				return s.advise(args[0], options)
			}
			return s.explain(tree, namespace, args[0])
		}),
	}
	fix.addTo(r, cmd)
	cmd.Flags().StringVar(&at, "at", "", "explain this past moment, such as 2026-10-31T12:00:00Z, from the journal")
	cmd.Flags().StringVar(&tree, "tree", "", "pool tree of a pool; the default one if unset")
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace of a pod; the one that kubectl uses if unset")
	r.mustComplete(cmd, "tree", r.completeTrees())
	return r.addTo(cmd)
}

func writeExplanation(w io.Writer, x *client.Explanation, name string) error {
	paint := painter(w)
	fmt.Fprintf(w, "Operation %s is %s; it was started %s ago.\n", paint(styleBold, x.OperationID), stateStyle(paint, string(x.State)), shortDuration(x.Age))
	if x.HeldBack != "" {
		fmt.Fprintf(w, "%s.\n", x.HeldBack)
	}
	writeWaiting(w, x, name)
	for i := range x.Trees {
		tree := &x.Trees[i]
		fmt.Fprintf(w, "\nIn tree %s, pool %s: %d running, %d waiting.\n", tree.Tree, paint(styleBold, tree.Pool), tree.RunningJobs, tree.WaitingJobs)
		writeHope(w, tree)
		if err := writeShare(w, tree.FairShare); err != nil {
			return err
		}
	}
	return nil
}

// writeWaiting writes which jobs start at the next heartbeats and, if none does, what they wait for.
func writeWaiting(w io.Writer, x *client.Explanation, name string) {
	if x.StartsNow != nil {
		fmt.Fprintf(w, "%s: %s at the next heartbeats, the first on %s.\n", name, plural(x.StartsNow.Jobs, "job starts", "jobs start"), x.StartsNow.Node)
		if len(x.Then) > 0 {
			fmt.Fprintln(w, "Then:")
			writeBlockers(w, x.Then, x.AsOf)
		}
		return
	}
	if len(x.Kinds) > 0 {
		var waiting []string
		var since time.Time
		for _, k := range x.Kinds {
			waiting = append(waiting, fmt.Sprintf("%s of task %s, each with %s", plural(k.WaitingJobs, "job", "jobs"), k.Task, amountsText(k.JobResources)))
			if since.IsZero() || k.LastStart.Before(since) {
				since = k.LastStart
			}
		}
		fmt.Fprintf(w, "%s waits: %s%s\n", name, strings.Join(waiting, "; "), sinceText(since, x.AsOf, ", since "))
	} else if len(x.Blockers) > 0 {
		fmt.Fprintf(w, "%s starts no jobs:\n", name)
	}
	writeBlockers(w, x.Blockers, x.AsOf)
	writeRoom(w, x)
}

// writeBlockers writes a list of blockers, what to fix first at the top. It names their trees if there are several.
func writeBlockers(w io.Writer, list []client.Blocker, now time.Time) {
	width, several := 0, false
	for i := range list {
		width = max(width, len(list[i].Code))
		several = several || list[i].Tree != list[0].Tree
	}
	for i := range list {
		b := &list[i]
		text := b.Text
		if b.Task != "" {
			text = "task " + b.Task + ": " + text
		}
		if several && b.Tree != "" {
			text = "tree " + b.Tree + ": " + text
		}
		fmt.Fprintf(w, "%-3d%-*s  %s\n", i+1, width, b.Code, text)
		times := ""
		if b.SinceKind != "last_start" {
			times = sinceText(b.Since, now, "since ")
		}
		if !b.Until.IsZero() {
			times = strings.TrimSpace(times + " until " + clockText(now, b.Until) + " at the latest")
		}
		if times != "" {
			fmt.Fprintf(w, "   %-*s  %s\n", width, "", times)
		}
		if h, found := firstToEnd(b.Holders); found {
			fmt.Fprintf(w, "   %-*s  a job of %s ends at %s at the latest\n", width, "", h.Operation, clockText(now, h.FirstEnd))
		}
	}
}

// firstToEnd returns the holder whose first job ends first, as far as that is known.
func firstToEnd(holders []client.Holder) (first client.Holder, found bool) {
	for _, h := range holders {
		if !h.FirstEnd.IsZero() && (!found || h.FirstEnd.Before(first.FirstEnd)) {
			first, found = h, true
		}
	}
	return first, found
}

// writeRoom writes how many nodes have room, and what would start without single blockers.
func writeRoom(w io.Writer, x *client.Explanation) {
	var parts []string
	for _, k := range x.Kinds {
		if k.FittingNodes > 0 {
			parts = append(parts, fmt.Sprintf("%s room for a job of task %s", hasNodes(k.FittingNodes, k.Nodes), k.Task))
		}
	}
	for i := range x.Blockers {
		if b := &x.Blockers[i]; b.Sole {
			parts = append(parts, fmt.Sprintf("Without blocker %d, %s now", i+1, plural(b.StartsWithout, "job would start", "jobs would start")))
		}
	}
	if len(parts) > 0 {
		fmt.Fprintln(w, strings.Join(parts, ". ")+".")
	}
}

func hasNodes(n, of int64) string {
	return fmt.Sprintf("%d of %s", n, plural(of, "node has", "nodes have"))
}

// sinceText is a moment and how long ago it was, empty for the zero time.
func sinceText(at, now time.Time, prefix string) string {
	if at.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s%s (%s)", prefix, clockText(now, at), shortDuration(now.Sub(at)))
}

// writeHope writes what starvation and preemption will do.
func writeHope(w io.Writer, tree *client.TreeExplanation) {
	switch starvation := tree.Starvation; {
	case starvation.Status == "starving" || starvation.Status == "aggressively_starving":
		fmt.Fprintf(w, "  It has been %s since %s.\n", strings.ReplaceAll(starvation.Status, "_", " "), stamp(starvation.Since))
	case starvation.Scheduling == "below_fair_share":
		fmt.Fprintf(w, "  It has been below its fair share since %s; after %s below it, it starves and may preempt.\n",
			stamp(starvation.BelowSince), shortDuration(starvation.Timeout))
	case starvation.WithinTolerance:
		fmt.Fprintf(w, "  It has less than its fair share, but at least %s of it, its tolerance, so it does not starve and waits for free resources.\n",
			percent(starvation.Tolerance))
		fmt.Fprintln(w, "  A larger fair_share_starvation_tolerance (of the operation, its pool or the tree) would let it starve sooner.")
		if starvation.FairShareCoversDemand {
			fmt.Fprintln(w, "  So would ignore_tolerance_when_fair_share_covers_demand of the tree, because its fair share is all that it demands.")
		}
	}
	for _, text := range tree.Starvation.LimitedOptions {
		fmt.Fprintf(w, "  %s.\n", text)
	}
	preemption := tree.Preemption
	if preemption.BecauseOf != "" {
		fmt.Fprintf(w, "  It may preempt because pool %s starves.\n", preemption.BecauseOf)
	}
	if preemption.NodesAggressively > 0 {
		fmt.Fprintf(w, "  Preemption would make room on %s, aggressive preemption on %d.\n", plural(preemption.Nodes, "node", "nodes"), preemption.NodesAggressively)
	}
}

var bounds = map[string]string{
	"demand":         "it demands no more",
	"limit":          "its own limit is reached",
	"ancestor_limit": "the limit of pool %s is reached",
	"cluster":        "the tree has no more",
	"fifo":           "operations before it in FIFO pool %s take the rest",
	"gang":           "a gang takes all or nothing, and all does not fit",
}

// writeShare derives the fair share, from the operation up to the root.
func writeShare(w io.Writer, share *client.FairShare) error {
	if share == nil {
		return nil
	}
	why, known := bounds[share.Bound]
	if !known {
		why = "bound by " + strings.ReplaceAll(share.Bound, "_", " ")
	}
	if strings.Contains(why, "%s") {
		why = fmt.Sprintf(why, orNothing(share.BoundBy))
	}
	if share.Scarce != "" {
		why += " (" + share.Scarce + ")"
	}
	fmt.Fprintf(w, "  Fair share %s = strong %s + integral %s + by weight %s; %s.\n\n",
		percent(share.Total), percent(share.Strong), percent(share.Integral), percent(share.ByWeight), why)
	t := newTable(w)
	t.row("  from", "weight", "demand", "guarantee", "limit", "fair share")
	t.alignRight(1, 2, 3, 4, 5)
	for _, link := range share.Chain {
		name := "  the operation"
		if link.Pool != "" {
			name = "  pool " + link.Pool
		}
		t.row(name, strconv.FormatFloat(link.Weight, 'g', 4, 64), percent(largest(link.Demand)), percent(largest(link.Guarantee)),
			percent(tightest(link.Limits, link.Demand)), percent(largest(link.FairShare)))
	}
	return t.flush()
}

func largest(shares client.Resources) (most float64) {
	for _, share := range shares.All() {
		most = max(most, share)
	}
	return most
}

// tightest is the smallest of the limits on demanded resources.
func tightest(limits, demand client.Resources) float64 {
	least := 1.0
	for name, limit := range limits.All() {
		if demand.Of(name) > 0 {
			least = min(least, limit)
		}
	}
	return least
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// amountText writes an amount that the API gives in the units that people write.
func amountText(kind string, value float64) string {
	k, known := resource.ParseKind(kind)
	if !known {
		return strconv.FormatFloat(value, 'g', 6, 64)
	}
	return resource.FormatAmount(k, resource.FromFloat(k, value))
}

// amountsText lists the nonzero amounts.
func amountsText(amounts client.Resources) string {
	var list []string
	for name, amount := range amounts.All() {
		if amount > 0 {
			list = append(list, name+" "+amountText(name, amount))
		}
	}
	return firstNonEmpty(strings.Join(list, ", "), "nothing")
}
