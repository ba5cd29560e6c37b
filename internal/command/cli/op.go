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
		Long: `Start, list, watch, change and end operations. Name an operation by its id, by the beginning of its id
if that is unique, or by its alias, which starts with a star: '*nightly'.`,
		Example: `  weir op list
  weir op get '*nightly'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newOpAbortCommand(r), newOpArtifactsCommand(r), newOpCompleteCommand(r), newOpGetCommand(r), newOpJobsCommand(r), newOpListCommand(r),
		newOpResumeCommand(r), newOpStartCommand(r), newOpSuspendCommand(r), newOpUpdateCommand(r), newOpWaitCommand(r),
	)
	return r.addTo(cmd)
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
func placesOf(places []client.Place) string {
	var list []string
	for _, place := range places {
		pool := orNothing(place.Pool)
		if len(places) > 1 {
			pool = place.Tree + ":" + pool
		}
		list = append(list, pool)
	}
	return orNothing(strings.Join(list, ","))
}

// countsText describes an operation's progress.
func countsText(c client.JobCounts) string {
	text := fmt.Sprintf("%d of %d completed, %d running, %d waiting", c.Completed, c.Total, c.Running, c.Pending)
	if c.Failed > 0 {
		text += fmt.Sprintf(", %d failed", c.Failed)
	}
	if c.Aborted > 0 {
		text += fmt.Sprintf(", %d aborted", c.Aborted)
	}
	return text
}

// orNothing is the text of a table cell, with a mark if it is empty.
func orNothing(text string) string { return firstNonEmpty(text, nothing) }

// stamp is an instant in the API's format.
func stamp(at time.Time) string {
	if at.IsZero() {
		return nothing
	}
	return at.UTC().Format("2006-01-02T15:04:05.000000Z")
}

// clockText is a moment as a clock shows it here, with the date unless it is today's.
func clockText(now, at time.Time) string {
	if at.IsZero() {
		return nothing
	}
	here := at.Local()
	if y, m, d := here.Date(); now.Local().Year() == y && now.Local().Month() == m && now.Local().Day() == d {
		return here.Format("15:04:05")
	}
	return here.Format("2006-01-02 15:04:05")
}

// age is the time since a moment, in one suitable unit.
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
	var filter client.OperationFilter
	var quiet, eta bool
	var before string
	var since time.Duration
	var again redraw
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List operations, newest first",
		Long: `List operations, newest first. If there are more than --limit, the command prints how to list the next ones:
--before continues a list at the time where the last one stopped.`,
		Example: `  weir op list
  weir op list --state running --pool research
  weir op list --user root --limit 5 -o json
  weir op list --since 1h
  weir op list --state running --eta

  # Refresh every two seconds until Ctrl-C
  weir op list --state running --watch &`,
		Args: noArgs,
		RunE: r.do(func(s *session, _ []string) error {
			if before != "" {
				at, err := time.Parse(time.RFC3339, before)
				if err != nil {
					return usageErrorf("--before: %q is not a time such as %s", before, time.Now().UTC().Format(time.RFC3339))
				}
				filter.Before = at
			}
			return again.show(s, func(w io.Writer) error {
				if since > 0 {
					filter.From = time.Now().Add(-since)
				}
				page, err := s.ListOperations(s.ctx, filter)
				if err != nil {
					return err
				}
				return s.opts.print(w, page.Raw, func(w io.Writer) error { return s.writeOperations(w, page, quiet, eta) })
			})
		}),
	}
	cmd.Flags().StringVarP(&filter.Pool, "pool", "p", "", "only those of this pool")
	cmd.Flags().StringVar(&filter.Tree, "tree", "", "only those of this pool tree")
	cmd.Flags().StringVarP(&filter.User, "user", "u", "", "only those of this user")
	cmd.Flags().StringVarP((*string)(&filter.State), "state", "s", "", "only operations in this state, such as running, pending, failed")
	cmd.Flags().StringVar(&filter.Text, "filter", "", "only operations that contain this text")
	cmd.Flags().Int64Var(&filter.Limit, "limit", 100, "list at most this many")
	cmd.Flags().StringVar(&before, "before", "", "only operations that started before this time, such as 2026-01-31T12:00:00Z")
	cmd.Flags().DurationVar(&since, "since", 0, "only operations that started in the last 30m, or another duration")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print ids only")
	cmd.Flags().BoolVar(&eta, "eta", false, "show when operations start and finish; see weir forecast")
	again.addTo(cmd)
	r.mustComplete(cmd, "pool", r.completePools())
	r.mustComplete(cmd, "tree", r.completeTrees())
	r.mustComplete(cmd, "state", cobra.FixedCompletions([]cobra.Completion{"running", "pending", "completed", "failed", "aborted"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (s *session) writeOperations(w io.Writer, page *client.OperationPage, quiet, eta bool) error {
	paint, now := painter(w), time.Now()
	t := newTable(w)
	if !quiet {
		heads := []string{"ID", "STATE", "POOL", "USER", "STARTED", "TIME", "RUNNING", "DONE", "TITLE"}
		if eta {
			heads = append(heads, "ETA")
		}
		t.row(heads...)
		t.alignRight(5, 6, 7)
		t.fit(widthOf(w), 8, 2, 3)
	}
	for _, o := range page.Operations {
		if quiet {
			t.row(o.ID)
			continue
		}
		state := string(o.State)
		if o.Suspended && !o.State.Ended() {
			state = "suspended"
		}
		title := orNothing(strings.TrimSpace(o.Alias + " " + o.Title))
		end := o.Finished
		if end.IsZero() {
			end = now
		}
		cells := []string{o.ID, stateStyle(paint, state), placesOf(o.Places), o.User, clockText(now, o.Started), shortDuration(end.Sub(o.Started)), fmt.Sprint(o.Jobs.Running),
			fmt.Sprintf("%d/%d", o.Jobs.Completed, o.Jobs.Total), title}
		if eta {
			cells = append(cells, etaOf(now, &o))
		}
		t.row(cells...)
	}
	if err := t.flush(); err != nil {
		return err
	}
	if page.More && len(page.Operations) > 0 && !quiet {
		last := page.Operations[len(page.Operations)-1].Started
		fmt.Fprintf(s.errs, "There are more: list the next ones with --before %s, or raise --limit.\n", last.UTC().Format(time.RFC3339Nano))
	}
	return nil
}

func newOpGetCommand(r *remote) *cobra.Command {
	var attributes []string
	cmd := &cobra.Command{
		Use:   "get OPERATION",
		Short: "Show an operation: state, pools, jobs, error",
		Example: `  weir op get '*nightly'

  # Its full specification with defaults, and its progress
  weir op get '*nightly' --attribute full_spec -o yaml
  weir op get '*nightly' --attribute progress -o json`,
		Args:              oneName("operation"),
		ValidArgsFunction: r.completeOperations(),
		RunE: r.do(func(s *session, args []string) error {
			name, err := s.operation(args[0])
			if err != nil {
				return err
			}
			o, err := s.GetOperation(s.ctx, name, attributes...)
			if err != nil {
				return err
			}
			return s.print(o.Raw, func(w io.Writer) error {
				if len(attributes) > 0 {
					return writeYSON(w, o.Raw)
				}
				return writeOperation(w, o)
			})
		}),
	}
	cmd.Flags().StringSliceVar(&attributes, "attribute", nil, "only this attribute (repeatable)")
	return cmd
}

// writeOperation writes the most important facts about an operation.
func writeOperation(w io.Writer, o *client.Operation) error {
	paint := painter(w)
	t := newTable(w)
	row := func(name, value string) {
		if value != "" && value != nothing {
			t.row(name, value)
		}
	}
	state := string(o.State)
	if o.Suspended && !o.State.Ended() {
		state += ", suspended"
	}
	row("id", o.ID)
	row("alias", o.Alias)
	row("title", o.Title)
	row("state", stateStyle(paint, state))
	row("user", o.User)
	row("pool", placesOf(o.Places))
	row("started", stamp(o.Started))
	row("finished", stamp(o.Finished))
	row("jobs", countsText(o.Jobs))
	row("waits for", strings.Join(o.WaitingForPools, ", "))
	if err := t.flush(); err != nil {
		return err
	}
	for _, alert := range o.Alerts {
		fmt.Fprintf(w, "alert %s: %v\n", alert.Type, &alert.Error)
	}
	if o.Result != nil && o.Result.Code != 0 {
		fmt.Fprintf(w, "error: %v\n", o.Result)
	}
	return nil
}

// opCommand is a command on one or several operations that prints nothing.
func (r *remote) opCommand(cmd *cobra.Command, each func(s *session, name string) error) *cobra.Command {
	cmd.Args = someNames("operation")
	complete := r.completeOperations()
	cmd.ValidArgsFunction = func(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return complete(cmd, nil, prefix)
	}
	cmd.RunE = r.do(func(s *session, args []string) error {
		var failures []error
		for _, name := range args {
			name, err := s.operation(name)
			if err == nil {
				err = each(s, name)
			}
			failures = append(failures, err)
		}
		return errors.Join(failures...)
	})
	return cmd
}

func newOpAbortCommand(r *remote) *cobra.Command {
	var message string
	cmd := r.opCommand(&cobra.Command{
		Use:     "abort OPERATION...",
		Short:   "Abort operations and their jobs",
		Example: `  weir op abort '*nightly' --message 'wrong input'`,
	}, func(s *session, name string) error {
		return s.AbortOperation(s.ctx, name, message)
	})
	cmd.Flags().StringVarP(&message, "message", "m", "", "reason, shown with the operation")
	return cmd
}

func newOpCompleteCommand(r *remote) *cobra.Command {
	return r.opCommand(&cobra.Command{
		Use:     "complete OPERATION...",
		Short:   "Complete operations early; their running jobs are aborted",
		Example: `  weir op complete '*nightly'`,
	}, func(s *session, name string) error {
		return s.CompleteOperation(s.ctx, name)
	})
}

func newOpSuspendCommand(r *remote) *cobra.Command {
	var suspend client.SuspendOptions
	cmd := r.opCommand(&cobra.Command{
		Use:   "suspend OPERATION...",
		Short: "Suspend operations: give them no new jobs until they are resumed",
		Example: `  weir op suspend '*nightly'
  weir op suspend '*nightly' --abort-running-jobs`,
	}, func(s *session, name string) error {
		return s.SuspendOperation(s.ctx, name, suspend)
	})
	cmd.Flags().BoolVar(&suspend.AbortRunningJobs, "abort-running-jobs", false, "also abort running jobs")
	cmd.Flags().StringVar(&suspend.Reason, "reason", "", "reason, shown with the operation")
	return cmd
}

func newOpResumeCommand(r *remote) *cobra.Command {
	return r.opCommand(&cobra.Command{
		Use:   "resume OPERATION...",
		Short: "Resume suspended operations",
		Example: `  weir op suspend '*nightly'
  weir op resume '*nightly'`,
	}, func(s *session, name string) error {
		return s.ResumeOperation(s.ctx, name)
	})
}

func newOpUpdateCommand(r *remote) *cobra.Command {
	var pool, more string
	var weight float64
	cmd := r.opCommand(&cobra.Command{
		Use:   "update OPERATION...",
		Short: "Change parameters of running operations: pool, weight, limits",
		Long: `Change parameters of running operations. Each change is applied entirely or not at all.
--parameters takes the parameters of update_operation_parameters, as YSON or JSON.`,
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
			name, err := s.operation(name)
			if err == nil {
				err = s.UpdateOperation(s.ctx, name, change)
			}
			failures = append(failures, err)
		}
		return errors.Join(failures...)
	})
	cmd.Flags().StringVarP(&pool, "pool", "p", "", "move the operation to this pool")
	cmd.Flags().Float64Var(&weight, "weight", 0, "weight among the operations of its pool")
	cmd.Flags().StringVar(&more, "parameters", "", "parameters as a map")
	r.mustComplete(cmd, "pool", r.completePools())
	return cmd
}
