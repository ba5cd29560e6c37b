package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/value/yson"
)

// maintenanceTypes are the types of maintenance, the most useful first.
var maintenanceTypes = []cobra.Completion{
	"ban", "disable_scheduler_jobs", "decommission", "pending_restart", "disable_write_sessions", "disable_tablet_cells",
}

// someNames validates the arguments of commands that take one or more names.
func someNames(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usageErrorf("%s takes at least one %s", cmd.Name(), what)
		}
		return nil
	}
}

func newNodesBanCommand(r *remote) *cobra.Command {
	var comment string
	cmd := &cobra.Command{
		Use:   "ban NODE...",
		Short: "Ban nodes: abort their jobs and give them no new ones",
		Example: `  weir nodes ban node-1 --comment "the disk is broken"
  weir nodes release node-1 --mine`,
		Args: someNames("node"), ValidArgsFunction: r.completeNodes(),
		RunE: r.do(func(s *session, args []string) error { return s.maintain(args, "ban", comment) }),
	}
	addComment(cmd, &comment)
	return cmd
}

func newNodesDisableCommand(r *remote) *cobra.Command {
	var kind, comment string
	cmd := &cobra.Command{
		Use:   "disable NODE...",
		Short: "Give nodes no new jobs; running jobs continue",
		Long: `Give nodes no new jobs; running jobs continue. --type decommission does the same and states
that the node will be removed. Other types are only recorded.`,
		Example: `  weir nodes disable node-1 node-2 --comment "a new kernel tonight"
  weir nodes release node-1 node-2 --type disable_scheduler_jobs
  weir nodes disable node-1 --type decommission --comment "the lease ends in May"`,
		Args: someNames("node"), ValidArgsFunction: r.completeNodes(),
		RunE: r.do(func(s *session, args []string) error { return s.maintain(args, kind, comment) }),
	}
	cmd.Flags().StringVar(&kind, "type", "disable_scheduler_jobs", "type of request: disable_scheduler_jobs, decommission, pending_restart, disable_write_sessions, disable_tablet_cells")
	r.mustComplete(cmd, "type", cobra.FixedCompletions(maintenanceTypes[1:], cobra.ShellCompDirectiveNoFileComp))
	addComment(cmd, &comment)
	return cmd
}

func addComment(cmd *cobra.Command, comment *string) {
	cmd.Flags().StringVarP(comment, "comment", "m", "", "reason, shown with the node")
}

// maintain adds maintenance requests to nodes and prints the identifiers of the requests.
func (s *session) maintain(nodes []string, kind, comment string) error {
	return s.eachNode(nodes, func(node string) (yson.Node, string, error) {
		id, err := s.AddMaintenance(s.ctx, node, client.MaintenanceType(kind), comment)
		return yson.String(id), id, err
	})
}

// eachNode runs a function for one node after the other. It prints the completed ones even if a
// later one is refused.
func (s *session) eachNode(nodes []string, do func(node string) (answer yson.Node, text string, err error)) error {
	var done []yson.Entry
	var failed error
	t := newTable(s.out)
	for _, node := range nodes {
		answer, text, err := do(node)
		if err != nil {
			failed = err
			break
		}
		t.row(node, text)
		done = append(done, yson.Pair(node, answer))
	}
	if len(done) == 0 && failed != nil {
		return failed
	}
	answer, err := client.ValueOf(yson.Map(done...))
	if err == nil {
		err = s.print(answer, func(io.Writer) error { return t.flush() })
	}
	if failed != nil {
		return failed
	}
	return err
}

func newNodesReleaseCommand(r *remote) *cobra.Command {
	var filter client.MaintenanceFilter
	cmd := &cobra.Command{
		Use:   "release NODE...",
		Short: "Remove maintenance requests; nodes get jobs again after the last one is gone",
		Long: `Remove the maintenance requests that match all flags. A node gets jobs again after the last request that
blocks it is gone. weir nodes shows what is left, weir get //sys/cluster_nodes/NODE/@maintenance_requests all requests.`,
		Example: `  weir nodes release node-1 --mine
  weir nodes release node-1 --type ban --user root
  weir nodes release node-1 node-2 --all`,
		Args: someNames("node"), ValidArgsFunction: r.completeNodes(),
	}
	cmd.RunE = r.do(func(s *session, args []string) error {
		if !filter.All && !filter.Mine && filter.Type == "" && filter.User == "" && len(filter.IDs) == 0 {
			return usageErrorf("release needs a selection of requests: --mine, --type, --id, --user or --all")
		}
		return s.eachNode(args, func(node string) (yson.Node, string, error) {
			removed, err := s.RemoveMaintenance(s.ctx, node, filter)
			var counts []yson.Entry
			var parts []string
			for _, m := range removed {
				counts = append(counts, yson.Pair(string(m.Type), yson.Int64(m.Count)))
				parts = append(parts, fmt.Sprintf("%s: %d", m.Type, m.Count))
			}
			return yson.Map(counts...), firstNonEmpty(strings.Join(parts, ", "), "nothing to remove"), err
		})
	})
	cmd.Flags().StringVar((*string)(&filter.Type), "type", "", "only requests of this type: ban, disable_scheduler_jobs, decommission, …")
	cmd.Flags().StringVar(&filter.User, "user", "", "only those of this user")
	cmd.Flags().StringSliceVar(&filter.IDs, "id", nil, "only requests with these ids")
	cmd.Flags().BoolVar(&filter.Mine, "mine", false, "only your own requests")
	cmd.Flags().BoolVar(&filter.All, "all", false, "all requests")
	r.mustComplete(cmd, "type", cobra.FixedCompletions(maintenanceTypes, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
