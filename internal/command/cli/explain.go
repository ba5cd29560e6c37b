package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/value/resource"
)

func newExplainCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	var tree string
	cmd := &cobra.Command{
		Use:   "explain OPERATION|POOL",
		Short: "Explain why an operation's jobs wait, or what bounds a pool",
		Long: `Explain why an operation's jobs wait: every reason, with amounts, pools and nodes; what starvation and
preemption will do for it; and where its fair share comes from, pool by pool. Or explain a pool: what it uses, demands and is
entitled to, which limits it has reached, and where its fair share comes from. pool:NAME is always a pool.`,
		Example: `  weir explain '*nightly'
  weir explain '*nightly' -o json
  weir explain research`,
		Args: oneName("operation or pool"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			operations, directive := r.completeOperations()(cmd, args, prefix)
			pools, _ := r.completePools()(cmd, args, prefix)
			return append(operations, pools...), directive
		},
		RunE: r.do(func(s *session, args []string) error { return s.explain(tree, args[0]) }),
	}
	cmd.Flags().StringVar(&tree, "tree", "", "pool tree of a pool; the default one if unset")
	r.mustComplete(cmd, "tree", r.completeTrees())
	return r.addTo(cmd)
}

var blocks = map[string]string{
	"operation_not_running": "it does not run yet, or no more",
	"operation_suspended":   "it is suspended; weir op resume lets it go on",
	"operation_failing":     "it is failing and waits for its running jobs",
	"no_pending_jobs":       "all its jobs run or are done",
	"backing_off":           "nodes could not start its jobs, so it waits before it tries again; weir job list shows why",
}

func writeExplanation(w io.Writer, x *client.Explanation) error {
	paint := painter(w)
	fmt.Fprintf(w, "Operation %s is %s; it was started %s ago.\n", paint(styleBold, x.OperationID), stateStyle(paint, string(x.State)), shortDuration(x.Age))
	if x.BlockedBy != "" {
		fmt.Fprintf(w, "No job can start: %s.\n", firstNonEmpty(blocks[x.BlockedBy], x.BlockedBy))
	}
	if x.HeldBack != "" {
		fmt.Fprintf(w, "%s.\n", x.HeldBack)
	}
	for i := range x.Trees {
		tree := &x.Trees[i]
		fmt.Fprintf(w, "\nIn tree %s, pool %s: %d running, %d waiting.\n", tree.Tree, paint(styleBold, tree.Pool), tree.RunningJobs, tree.WaitingJobs)
		writeObstacles(w, tree)
		writeHope(w, tree)
		if err := writeShare(w, tree.FairShare); err != nil {
			return err
		}
	}
	return nil
}

// writeObstacles writes what keeps jobs waiting in a tree.
func writeObstacles(w io.Writer, tree *client.TreeExplanation) {
	if q := tree.WaitsFor; q != nil {
		fmt.Fprintf(w, "  The operation waits for pool %s, which runs %d of at most %d operations; %d wait before it.\n", q.Pool, q.Running, q.Limit, q.Ahead)
	}
	for i := range tree.Obstacles {
		if tree.Obstacles[i].Reason != "no_available_demand" { // nothing waits, which is already printed
			fmt.Fprintf(w, "  %s.\n", obstacleText(&tree.Obstacles[i]))
		}
	}
	if tree.WaitingJobs == 0 {
		return
	}
	for _, task := range tree.Tasks {
		if task.WaitingJobs == 0 {
			continue
		}
		fmt.Fprintf(w, "  Task %s: %s, each with %s; a job would fit on %s now.\n", task.Task, plural(task.WaitingJobs, "job waits", "jobs wait"),
			amountsText(task.JobResources), ofNodes(task.FittingNodes, tree.Nodes))
		for i := range task.Obstacles {
			fmt.Fprintf(w, "    %s.\n", obstacleText(&task.Obstacles[i]))
		}
	}
	if tree.Nodes == 0 {
		fmt.Fprintln(w, "  The tree has no nodes.")
	} else if tree.FittingNodes > 0 {
		fmt.Fprintf(w, "  A waiting job would fit on %s right now: it can start at their next heartbeats.\n", ofNodes(tree.FittingNodes, tree.Nodes))
	}
}

// obstacleText is an obstacle in words.
func obstacleText(o *client.Obstacle) string {
	owner := "the operation"
	if o.Pool != "" {
		owner = "pool " + o.Pool
	}
	nodes, kind := plural(o.Nodes, "node", "nodes"), firstNonEmpty(o.Resource, "resource")
	text := ""
	switch o.Reason {
	case "unmatched_scheduling_tag":
		return fmt.Sprintf("%s excluded by the filter of %s", plural(o.Nodes, "node is", "nodes are"), owner)
	case "min_needed_resources_unsatisfied":
		text = fmt.Sprintf("On %s there is too little %s left", nodes, kind)
	case "resource_limits_exceeded", "pool_resource_limits_exceeded":
		text = fmt.Sprintf("The %s limit of %s is reached", kind, owner)
	case "fair_share_exceeded":
		return "It is preempted gracefully and has its fair share, so it gets no more"
	case "operation_suspended":
		return "The operation is suspended"
	case "operation_pending":
		return "Pool " + owner + " runs no more operations"
	case "bad_packing":
		return "Other nodes suited its jobs better than " + nodes + " lately"
	case "node_banned":
		return "It avoids " + nodes + " where its jobs failed"
	default:
		text = strings.ReplaceAll(o.Reason, "_", " ")
	}
	if o.Resource != "" {
		text += fmt.Sprintf(": a job needs %s, there is %s", amountText(kind, o.Needed), amountText(kind, o.Available))
	}
	if o.TooSmallNodes > 0 {
		text += fmt.Sprintf("; %s too small even when empty", plural(o.TooSmallNodes, "node is", "nodes are"))
	}
	return text
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

func ofNodes(n, of int64) string { return fmt.Sprintf("%d of %s", n, plural(of, "node", "nodes")) }

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
