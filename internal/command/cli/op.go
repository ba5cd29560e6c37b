package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/value/yson"
)

func newOpCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	cmd := &cobra.Command{
		Use:     "op",
		Aliases: []string{"operation"},
		Short:   "Start, list, watch, change and end operations",
		Long: `Start, list, watch, change and end operations. An operation is named by its id or by its alias,
which begins with a star: '*nightly'.`,
		Example: `  weir op list
  weir op get '*nightly'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newOpAbortCommand(r), newOpCompleteCommand(r), newOpGetCommand(r), newOpJobsCommand(r), newOpListCommand(r),
		newOpResumeCommand(r), newOpStartCommand(r), newOpSuspendCommand(r), newOpUpdateCommand(r), newOpWaitCommand(r),
	)
	return r.addTo(cmd)
}

// operationKey names an operation by its id or alias.
func operationKey(name string) yson.Entry {
	if strings.HasPrefix(name, "*") {
		return textIf("operation_alias", name)
	}
	return textIf("operation_id", name)
}

// getOperation asks for attributes of an operation.
func (s *session) getOperation(name string, attributes ...string) (yson.Node, error) {
	return s.ask("get_operation", operationKey(name), wordsIf("attributes", attributes))
}

// hasEnded says whether a state is final.
func hasEnded(state string) bool {
	return state == "completed" || state == "failed" || state == "aborted"
}

// stateStyle colours the state of an operation or job.
func stateStyle(paint func(style, string) string, state string) string {
	switch state {
	case "completed":
		return paint(styleGreen, state)
	case "failed", "lost":
		return paint(styleRed, state)
	case "aborted", "aborting", "failing", "suspended":
		return paint(styleYellow, state)
	case "running":
		return paint(styleCyan, state)
	}
	return state
}

// placesOf lists pools of an operation, with trees if there are several.
func placesOf(runtime yson.Node) string {
	trees := field(runtime, "scheduling_options_per_pool_tree").Entries()
	var list []string
	for _, tree := range trees {
		pool := cell(field(tree.Value, "pool"))
		if len(trees) > 1 {
			pool = tree.Key + ":" + pool
		}
		list = append(list, pool)
	}
	if len(list) == 0 {
		return nothing
	}
	return strings.Join(list, ",")
}

// jobCounts are the numbers of jobs of an operation by what became of them.
type jobCounts struct{ total, running, pending, completed, failed, aborted int64 }

func countsOf(progress yson.Node) jobCounts {
	jobs := field(progress, "jobs")
	number := func(key string) int64 {
		n, _ := jobs.Get(key)
		if n.Kind() == yson.MapKind {
			return whole(n, "total")
		}
		value, _ := n.Int64()
		return value
	}
	return jobCounts{number("total"), number("running"), number("pending"), number("completed"), number("failed"), number("aborted")}
}

func (c jobCounts) finished() int64 { return c.completed + c.failed + c.aborted }

func (c jobCounts) String() string {
	text := fmt.Sprintf("%d of %d completed, %d running, %d waiting", c.completed, c.total, c.running, c.pending)
	if c.failed > 0 {
		text += fmt.Sprintf(", %d failed", c.failed)
	}
	if c.aborted > 0 {
		text += fmt.Sprintf(", %d aborted", c.aborted)
	}
	return text
}

// moment reads an instant of an answer; it is zero if there is none.
func moment(node yson.Node) time.Time {
	text, _ := node.Text()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return at
}

// age is how long ago something was, in one unit that says enough.
func age(now, at time.Time) string {
	if at.IsZero() {
		return nothing
	}
	return shortDuration(now.Sub(at))
}

func shortDuration(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

func newOpListCommand(r *remote) *cobra.Command {
	var pool, tree, user, state, filter string
	var limit int64
	var quiet bool
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List operations, the newest first",
		Example: `  weir op list
  weir op list --state running --pool research
  weir op list --user root --limit 5 -o json`,
		Args: noArgs,
		RunE: r.do(func(s *session, _ []string) error {
			answer, err := s.ask("list_operations", textIf("pool", pool), textIf("pool_tree", tree), textIf("user", user), textIf("state", state),
				textIf("filter", filter), countIf("limit", limit), yson.Pair("include_counters", yson.Boolean(false)))
			if err != nil {
				return err
			}
			return s.print(answer, func(w io.Writer) error { return s.writeOperations(w, answer, quiet) })
		}),
	}
	cmd.Flags().StringVarP(&pool, "pool", "p", "", "only those of a pool")
	cmd.Flags().StringVar(&tree, "tree", "", "only those of a pool tree")
	cmd.Flags().StringVarP(&user, "user", "u", "", "only those of a user")
	cmd.Flags().StringVarP(&state, "state", "s", "", "only those in a state, such as running, pending, failed")
	cmd.Flags().StringVar(&filter, "filter", "", "only those with this text in them")
	cmd.Flags().Int64Var(&limit, "limit", 100, "at most so many")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print ids only")
	r.mustComplete(cmd, "pool", r.completePools())
	r.mustComplete(cmd, "tree", r.completeTrees())
	r.mustComplete(cmd, "state", cobra.FixedCompletions([]cobra.Completion{"running", "pending", "completed", "failed", "aborted"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (s *session) writeOperations(w io.Writer, answer yson.Node, quiet bool) error {
	paint, now := painter(w), time.Now()
	t := newTable(w)
	if !quiet {
		t.row("ID", "STATE", "POOL", "USER", "AGE", "RUNNING", "DONE", "TITLE")
		t.alignRight(4, 5, 6)
		t.fit(widthOf(w), 7, 2, 3)
	}
	for _, o := range field(answer, "operations").Items() {
		id := cell(field(o, "id"))
		if quiet {
			t.row(id)
			continue
		}
		state := cell(field(o, "state"))
		if suspended, _ := field(o, "suspended").Boolean(); suspended && !hasEnded(state) {
			state = "suspended"
		}
		counts := countsOf(field(o, "brief_progress"))
		title := cell(field(o, "brief_spec", "title"))
		if alias, ok := field(o, "alias").Text(); ok {
			title = strings.TrimSuffix(alias+" "+title, " "+nothing)
		}
		t.row(id, stateStyle(paint, state), placesOf(field(o, "runtime_parameters")), cell(field(o, "authenticated_user")),
			age(now, moment(field(o, "start_time"))), fmt.Sprint(counts.running), fmt.Sprintf("%d/%d", counts.completed, counts.total), title)
	}
	if err := t.flush(); err != nil {
		return err
	}
	if more, _ := field(answer, "incomplete").Boolean(); more {
		fmt.Fprintln(s.errs, "There are more: --limit shows them.")
	}
	return nil
}

func newOpGetCommand(r *remote) *cobra.Command {
	var attributes []string
	cmd := &cobra.Command{
		Use:   "get OPERATION",
		Short: "Show an operation: state, pools, jobs, its error",
		Example: `  weir op get '*nightly'

  # What it runs by, with defaults; how far it is
  weir op get '*nightly' --attribute full_spec -o yaml
  weir op get '*nightly' --attribute progress -o json`,
		Args:              oneName("operation"),
		ValidArgsFunction: r.completeOperations(),
		RunE: r.do(func(s *session, args []string) error {
			answer, err := s.getOperation(args[0], attributes...)
			if err != nil {
				return err
			}
			return s.print(answer, func(w io.Writer) error {
				if len(attributes) > 0 {
					return writePretty(w, answer)
				}
				return writeOperation(w, answer)
			})
		}),
	}
	cmd.Flags().StringSliceVar(&attributes, "attribute", nil, "only this attribute; may be repeated")
	return cmd
}

// writeOperation writes what people want to know of an operation first.
func writeOperation(w io.Writer, o yson.Node) error {
	paint := painter(w)
	t := newTable(w)
	row := func(name, value string) {
		if value != "" && value != nothing {
			t.row(name, value)
		}
	}
	state := cell(field(o, "state"))
	if suspended, _ := field(o, "suspended").Boolean(); suspended && !hasEnded(state) {
		state += ", suspended"
	}
	row("id", cell(field(o, "id")))
	row("alias", cell(field(o, "alias")))
	row("title", cell(field(o, "brief_spec", "title")))
	row("state", stateStyle(paint, state))
	row("user", cell(field(o, "authenticated_user")))
	row("pool", placesOf(field(o, "runtime_parameters")))
	row("started", cell(field(o, "start_time")))
	row("finished", cell(field(o, "finish_time")))
	row("jobs", countsOf(field(o, "brief_progress")).String())
	var waits []string
	for _, pool := range field(o, "waiting_for_pools").Items() {
		waits = append(waits, cell(pool))
	}
	row("waits for", strings.Join(waits, ", "))
	if err := t.flush(); err != nil {
		return err
	}
	for _, alert := range field(o, "alerts").Entries() {
		fmt.Fprintf(w, "alert %s: %v\n", alert.Key, client.ErrorOf(alert.Value))
	}
	if failure := resultError(o); failure != nil {
		fmt.Fprintf(w, "error: %v\n", failure)
	}
	return nil
}

// resultError is why an operation failed, nil if it did not.
func resultError(o yson.Node) error {
	result := client.ErrorOf(field(o, "result", "error"))
	if result.Code == 0 {
		return nil
	}
	return result
}

// opCommand is a command on one or several operations that prints nothing.
func (r *remote) opCommand(cmd *cobra.Command, each func(s *session, name string) error) *cobra.Command {
	cmd.Args = cobra.MinimumNArgs(1)
	complete := r.completeOperations()
	cmd.ValidArgsFunction = func(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return complete(cmd, nil, prefix)
	}
	cmd.RunE = r.do(func(s *session, args []string) error {
		var failures []error
		for _, name := range args {
			failures = append(failures, each(s, name))
		}
		return errors.Join(failures...)
	})
	return cmd
}

func newOpAbortCommand(r *remote) *cobra.Command {
	var message string
	cmd := r.opCommand(&cobra.Command{
		Use:     "abort OPERATION...",
		Short:   "End operations without a result; their jobs are aborted",
		Example: `  weir op abort '*nightly' --message 'wrong input'`,
	}, func(s *session, name string) error {
		_, err := s.change("abort_operation", operationKey(name), textIf("abort_message", message))
		return err
	})
	cmd.Flags().StringVarP(&message, "message", "m", "", "why, for those who look at it later")
	return cmd
}

func newOpCompleteCommand(r *remote) *cobra.Command {
	return r.opCommand(&cobra.Command{
		Use:     "complete OPERATION...",
		Short:   "End operations with what they have done so far",
		Example: `  weir op complete '*nightly'`,
	}, func(s *session, name string) error {
		_, err := s.change("complete_operation", operationKey(name))
		return err
	})
}

func newOpSuspendCommand(r *remote) *cobra.Command {
	var abort bool
	var reason string
	cmd := r.opCommand(&cobra.Command{
		Use:   "suspend OPERATION...",
		Short: "Give operations no new jobs until they are resumed",
		Example: `  weir op suspend '*nightly'
  weir op suspend '*nightly' --abort-running-jobs`,
	}, func(s *session, name string) error {
		_, err := s.change("suspend_operation", operationKey(name), flagIf("abort_running_jobs", abort), textIf("reason", reason))
		return err
	})
	cmd.Flags().BoolVar(&abort, "abort-running-jobs", false, "also abort the jobs that run")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for those who look at it later")
	return cmd
}

func newOpResumeCommand(r *remote) *cobra.Command {
	return r.opCommand(&cobra.Command{
		Use:   "resume OPERATION...",
		Short: "Undo weir op suspend",
		Example: `  weir op suspend '*nightly'
  weir op resume '*nightly'`,
	}, func(s *session, name string) error {
		_, err := s.change("resume_operation", operationKey(name))
		return err
	})
}

func newOpUpdateCommand(r *remote) *cobra.Command {
	var pool, more string
	var weight float64
	cmd := r.opCommand(&cobra.Command{
		Use:   "update OPERATION...",
		Short: "Change parameters of running operations: pool, weight, limits",
		Long: `Change parameters of running operations. Each change is made entirely or not at all.
--parameters takes what update_operation_parameters does, as YSON or JSON.`,
		Example: `  weir op update '*nightly' --weight 3
  weir op update '*nightly' --pool research
  weir op update '*nightly' --parameters '{scheduling_options_per_pool_tree={default={resource_limits={cpu=10}}}}'`,
	}, nil)
	cmd.RunE = r.do(func(s *session, args []string) error {
		change, err := parseMapping("--parameters", more)
		if err != nil {
			return err
		}
		if pool != "" {
			change = change.With("pool", yson.String(pool))
		}
		if s.cmd.Flags().Changed("weight") {
			change = change.With("weight", yson.Double(weight))
		}
		if len(change.Entries()) == 0 {
			return usageErrorf("nothing to change: give --pool, --weight or --parameters")
		}
		var failures []error
		for _, name := range args {
			_, err := s.change("update_operation_parameters", operationKey(name), yson.Pair("parameters", change))
			failures = append(failures, err)
		}
		return errors.Join(failures...)
	})
	cmd.Flags().StringVarP(&pool, "pool", "p", "", "move it to this pool")
	cmd.Flags().Float64Var(&weight, "weight", 0, "its weight among the operations of its pool")
	cmd.Flags().StringVar(&more, "parameters", "", "parameters, a map")
	r.mustComplete(cmd, "pool", r.completePools())
	return cmd
}
