package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
)

func newExplainCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	cmd := &cobra.Command{
		Use:   "explain OPERATION",
		Short: "Say why jobs of an operation wait, and where its fair share comes from",
		Long: `Say why jobs of an operation wait: every reason, with amounts and the pools and nodes concerned; what
starvation and preemption will do for it; and where its fair share comes from, pool by pool.`,
		Example: `  weir explain '*nightly'
  weir explain '*nightly' -o json`,
		Args:              oneName("operation"),
		ValidArgsFunction: r.completeOperations(),
		RunE: r.do(func(s *session, args []string) error {
			answer, err := s.ask("explain_operation", operationKey(args[0]))
			if err != nil {
				return err
			}
			return s.print(answer, func(w io.Writer) error { return writeExplanation(w, answer) })
		}),
	}
	return r.addTo(cmd)
}

var blocks = map[string]string{
	"operation_not_running": "it does not run yet, or no more",
	"operation_suspended":   "it is suspended; weir op resume lets it go on",
	"operation_failing":     "it is failing and waits for its running jobs",
	"no_pending_jobs":       "all its jobs run or are done",
	"backing_off":           "nodes could not start its jobs, so it waits before it tries again; weir job list shows why",
}

func writeExplanation(w io.Writer, x yson.Node) error {
	paint := painter(w)
	state := cell(field(x, "state"))
	fmt.Fprintf(w, "Operation %s is %s; it was started %s ago.\n", paint(styleBold, cell(field(x, "operation_id"))), stateStyle(paint, state),
		shortDuration(time.Duration(whole(x, "age"))*time.Millisecond))
	if block, ok := field(x, "blocked_by").Text(); ok {
		fmt.Fprintf(w, "No job can start: %s.\n", firstNonEmpty(blocks[block], block))
	}
	for _, tree := range field(x, "pool_trees").Items() {
		fmt.Fprintf(w, "\nIn tree %s, pool %s: %d running, %d waiting.\n", cell(field(tree, "pool_tree")),
			paint(styleBold, cell(field(tree, "pool"))), whole(tree, "running_job_count"), whole(tree, "waiting_job_count"))
		writeObstacles(w, tree)
		writeHope(w, tree)
		if err := writeShare(w, field(tree, "fair_share")); err != nil {
			return err
		}
	}
	return nil
}

// writeObstacles says what keeps jobs waiting in a tree.
func writeObstacles(w io.Writer, tree yson.Node) {
	if waits := field(tree, "waits_for"); !waits.IsEntity() {
		fmt.Fprintf(w, "  The operation waits for pool %s, which runs %d of at most %d operations; %d wait before it.\n", cell(field(waits, "pool")),
			whole(waits, "running"), whole(waits, "max_running_operation_count"), whole(waits, "ahead"))
	}
	for _, obstacle := range field(tree, "obstacles").Items() {
		if cell(field(obstacle, "reason")) != "no_available_demand" { // nothing waits, which is said already
			fmt.Fprintf(w, "  %s.\n", obstacleText(obstacle))
		}
	}
	if whole(tree, "waiting_job_count") == 0 {
		return
	}
	for _, task := range field(tree, "tasks").Items() {
		waiting := whole(task, "waiting_job_count")
		if waiting == 0 {
			continue
		}
		fmt.Fprintf(w, "  Task %s: %s, each with %s; a job would fit on %s now.\n", cell(field(task, "task_name")), plural(waiting, "job waits", "jobs wait"),
			amountsText(field(task, "job_resources")), ofNodes(whole(task, "fitting_node_count"), whole(tree, "node_count")))
		for _, obstacle := range field(task, "obstacles").Items() {
			fmt.Fprintf(w, "    %s.\n", obstacleText(obstacle))
		}
	}
	if whole(tree, "node_count") == 0 {
		fmt.Fprintln(w, "  The tree has no nodes.")
	} else if fitting := whole(tree, "fitting_node_count"); fitting > 0 {
		fmt.Fprintf(w, "  On %s a waiting job would fit right now: it gets its turn at their next heartbeats.\n", ofNodes(fitting, whole(tree, "node_count")))
	}
}

// obstacleText is an obstacle in words.
func obstacleText(o yson.Node) string {
	owner := "the operation"
	if pool, ok := field(o, "pool").Text(); ok {
		owner = "pool " + pool
	}
	nodes := plural(whole(o, "node_count"), "node", "nodes")
	reason := cell(field(o, "reason"))
	kind, known := field(o, "resource").Text()
	if !known {
		kind = "resource"
	}
	text := ""
	switch reason {
	case "unmatched_scheduling_tag":
		return fmt.Sprintf("%s excluded by the filter of %s", plural(whole(o, "node_count"), "node is", "nodes are"), owner)
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
		text = strings.ReplaceAll(reason, "_", " ")
	}
	if known {
		text += fmt.Sprintf(": a job needs %s, there is %s", amountText(kind, number(o, "needed")), amountText(kind, number(o, "available")))
	}
	if small := whole(o, "too_small_node_count"); small > 0 {
		text += fmt.Sprintf("; %s too small even when empty", plural(small, "node is", "nodes are"))
	}
	return text
}

// writeHope says what starvation and preemption will do.
func writeHope(w io.Writer, tree yson.Node) {
	starvation, preemption := field(tree, "starvation"), field(tree, "preemption")
	timeout := shortDuration(time.Duration(whole(starvation, "timeout")) * time.Millisecond)
	switch status := cell(field(starvation, "starvation_status")); {
	case status == "starving" || status == "aggressively_starving":
		fmt.Fprintf(w, "  It is %s since %s.\n", strings.ReplaceAll(status, "_", " "), cell(field(starvation, "starving_since")))
	case cell(field(starvation, "scheduling_status")) == "below_fair_share":
		fmt.Fprintf(w, "  It is below its fair share since %s; after %s of that it starves and may preempt.\n",
			cell(field(starvation, "below_fair_share_since")), timeout)
	}
	if reason, ok := field(preemption, "because_of").Text(); ok {
		fmt.Fprintf(w, "  It may preempt because pool %s starves.\n", reason)
	}
	if normal, aggressive := whole(preemption, "fitting_node_count"), whole(preemption, "fitting_node_count_aggressively"); aggressive > 0 {
		fmt.Fprintf(w, "  Preemption would make room on %s, the aggressive one on %d.\n", plural(normal, "node", "nodes"), aggressive)
	}
}

var bounds = map[string]string{
	"demand":         "it asks for no more",
	"limit":          "its own limit is reached",
	"ancestor_limit": "the limit of pool %s is reached",
	"cluster":        "the tree has no more",
	"fifo":           "operations before it in FIFO pool %s take the rest",
	"gang":           "a gang takes all or nothing, and all does not fit",
}

// writeShare derives the fair share, from the operation up to the root.
func writeShare(w io.Writer, share yson.Node) error {
	if share.IsEntity() {
		return nil
	}
	split := field(share, "detailed_dominant_fair_share")
	bound := cell(field(share, "bound"))
	why, known := bounds[bound]
	if !known {
		why = "bound by " + strings.ReplaceAll(bound, "_", " ")
	}
	if strings.Contains(why, "%s") {
		why = fmt.Sprintf(why, cell(field(share, "bound_by_pool")))
	}
	if scarce, ok := field(share, "scarce_resource").Text(); ok {
		why += " (" + scarce + ")"
	}
	fmt.Fprintf(w, "  Fair share %s = strong %s + integral %s + by weight %s; %s.\n\n", percent(number(split, "total")),
		percent(number(split, "strong_guarantee")), percent(number(split, "integral_guarantee")), percent(number(split, "weight_proportional")), why)
	t := newTable(w)
	t.row("  from", "weight", "demand", "guarantee", "limit", "fair share")
	t.alignRight(1, 2, 3, 4, 5)
	for _, link := range field(share, "chain").Items() {
		name := "  the operation"
		if pool, ok := field(link, "pool").Text(); ok {
			name = "  pool " + pool
		}
		t.row(name, strconv.FormatFloat(number(link, "weight"), 'g', 4, 64), percent(largest(field(link, "demand"))),
			percent(largest(field(link, "guarantee"))), percent(tightest(field(link, "limits"), field(link, "demand"))), percent(largest(field(link, "fair_share"))))
	}
	return t.flush()
}

func largest(shares yson.Node) (most float64) {
	for _, e := range shares.Entries() {
		value, _ := e.Value.Double()
		most = max(most, value)
	}
	return most
}

// tightest is the least of the limits on resources that are asked for.
func tightest(limits, demand yson.Node) float64 {
	least := 1.0
	for _, e := range limits.Entries() {
		if value, _ := e.Value.Double(); number(demand, e.Key) > 0 {
			least = min(least, value)
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

// amountText is an amount that the API gives in the units of people.
func amountText(kind string, value float64) string {
	k, known := resource.ParseKind(kind)
	if !known {
		return strconv.FormatFloat(value, 'g', 6, 64)
	}
	return resource.FormatAmount(k, resource.FromFloat(k, value))
}

// amountsText lists amounts that are not zero.
func amountsText(amounts yson.Node) string {
	var list []string
	for _, e := range amounts.Entries() {
		if value, _ := e.Value.Double(); value > 0 {
			list = append(list, e.Key+" "+amountText(e.Key, value))
		}
	}
	return firstNonEmpty(strings.Join(list, ", "), "nothing")
}
