package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/value/yson"
)

func newOpStartCommand(r *remote) *cobra.Command {
	var kind, pool, file string
	var wait bool
	var admission admission
	cmd := &cobra.Command{
		Use:   "start FILE",
		Short: "Start an operation described by a file and print its id",
		Long: `Start an operation. FILE holds the specification: YSON if its name ends in .yson, JSON if it ends in
.json, else YAML; - means standard input, in any of the three. docs/operations.md lists the options.`,
		Example: `  weir op start examples/cluster/sleep.yaml
  weir op start examples/cluster/sleep.yaml --pool research --wait`,
		Args: func(cmd *cobra.Command, args []string) error {
			if file != "" {
				args = append(args, file)
			}
			return oneFile(cmd, args)
		},
		ValidArgsFunction: completeTreeFiles,
		RunE: r.do(func(s *session, args []string) error {
			spec, label, err := readDocument(s.cmd, append(args, file)[0])
			if err != nil {
				return err
			}
			if spec.Kind() != yson.MapKind {
				return fmt.Errorf("%s: a specification is a map with tasks, not %s", label, spec.Kind())
			}
			if pool != "" {
				spec = spec.With("pool", yson.String(pool))
			}
			given, _ := spec.Get("pool")
			name, _ := given.Text()
			if err := admission.checkPool(s, name, treeOf(spec)); err != nil {
				return err
			}
			id, err := admission.start(s, kind, spec)
			if err != nil {
				return err
			}
			if err := s.printID("operation_id", id); err != nil || !wait {
				return err
			}
			return s.waitFor(id)
		}),
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "file with the specification, instead of FILE")
	cmd.Flags().StringVar(&kind, "type", "vanilla", "type of the operation")
	cmd.Flags().StringVarP(&pool, "pool", "p", "", "pool, instead of the one in the file")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it ends, as weir op wait does")
	admission.addTo(cmd)
	r.mustComplete(cmd, "pool", r.completePools())
	return cmd
}

// treeOf is the first pool tree of a specification; empty if it names none.
func treeOf(spec yson.Node) string {
	trees, _ := spec.Get("pool_trees")
	for _, tree := range trees.Items() {
		name, _ := tree.Text()
		return name
	}
	return ""
}

func newOpWaitCommand(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "wait OPERATION",
		Short: "Wait until an operation ends and report how it ended",
		Long: `Wait until an operation ends. Exit code 0: it completed; 1: it failed or was aborted, and the
command prints the reason.`,
		Example: `  weir op wait '*quick'`,

		Args:              oneName("operation"),
		ValidArgsFunction: r.completeOperations(),
		RunE: r.do(func(s *session, args []string) error {
			name, err := s.operation(args[0])
			if err != nil {
				return err
			}
			return s.waitFor(name)
		}),
	}
}

// waitFor waits for the end of an operation.
func (s *session) waitFor(name string) error {
	bar := newWatchBar(s)
	defer bar.clear()
	var last *client.Operation
	for o, err := range s.WatchOperation(s.ctx, name) {
		if err != nil {
			return err
		}
		last = o
		bar.show(o)
	}
	bar.clear()
	return s.verdict(name, last)
}

// verdict is the result of a command that waited for an operation.
func (s *session) verdict(name string, o *client.Operation) error {
	if o.State == client.Completed {
		return nil
	}
	fmt.Fprintf(s.errs, "weir: operation %s %s: %v\n", name, o.State, withFigures(o.Err()))
	return errReported
}

func newOpJobsCommand(r *remote) *cobra.Command {
	filter := client.JobFilter{SortBy: "start_time", Descending: true}
	var quiet bool
	cmd := &cobra.Command{
		Use:   "jobs OPERATION",
		Short: "List jobs of an operation, running and finished",
		Example: `  weir op jobs '*nightly'
  weir op jobs '*nightly' --state failed

  # What the last failed job wrote
  weir job stderr $(weir op jobs '*nightly' --state failed --limit 1 -q)`,
		Args:              oneName("operation"),
		ValidArgsFunction: r.completeOperations(),
		RunE: r.do(func(s *session, args []string) error {
			name, err := s.operation(args[0])
			if err != nil {
				return err
			}
			page, err := s.ListJobs(s.ctx, name, filter)
			if err != nil {
				return err
			}
			return s.print(page.Raw, func(w io.Writer) error { return s.writeJobs(w, page, quiet) })
		}),
	}
	cmd.Flags().StringVarP((*string)(&filter.State), "state", "s", "", "only jobs in this state: waiting, running, completed, failed, aborted")
	cmd.Flags().StringVar(&filter.Node, "node", "", "only those of this node")
	cmd.Flags().StringVar(&filter.Task, "task", "", "only jobs of this task")
	cmd.Flags().Int64Var(&filter.Limit, "limit", 1000, "list at most this many")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print ids only")
	r.mustComplete(cmd, "node", r.completeNodes())
	r.mustComplete(cmd, "state", cobra.FixedCompletions([]cobra.Completion{"waiting", "running", "completed", "failed", "aborted"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
