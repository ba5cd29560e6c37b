package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/value/yson"
)

// maintenanceTypes are what nodes can be kept from, the most useful first.
var maintenanceTypes = []cobra.Completion{
	"ban", "disable_scheduler_jobs", "decommission", "pending_restart", "disable_write_sessions", "disable_tablet_cells",
}

// someNames is the rule of commands that take names of something.
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
		Short: "Take nodes out of their trees: their jobs are aborted, they get no others",
		Example: `  weir nodes ban node-00001 --comment "the disk is broken"
  weir nodes release node-00001 --mine`,
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
		Short: "Give nodes no new jobs; those that run there end as they would",
		Long: `Give nodes no new jobs; those that run there end as they would. --type decommission does the same and says
that the node is to go. Other types are only noted.`,
		Example: `  weir nodes disable node-00000 node-00001 --comment "a new kernel tonight"
  weir nodes release node-00000 node-00001 --type disable_scheduler_jobs
  weir nodes disable node-00001 --type decommission --comment "the lease ends in May"`,
		Args: someNames("node"), ValidArgsFunction: r.completeNodes(),
		RunE: r.do(func(s *session, args []string) error { return s.maintain(args, kind, comment) }),
	}
	cmd.Flags().StringVar(&kind, "type", "disable_scheduler_jobs", "what for: disable_scheduler_jobs, decommission, pending_restart, disable_write_sessions, disable_tablet_cells")
	r.mustComplete(cmd, "type", cobra.FixedCompletions(maintenanceTypes[1:], cobra.ShellCompDirectiveNoFileComp))
	addComment(cmd, &comment)
	return cmd
}

func addComment(cmd *cobra.Command, comment *string) {
	cmd.Flags().StringVarP(comment, "comment", "m", "", "why, for those who wonder")
}

// maintain asks for maintenance of nodes, one after the other, and prints the
// identifiers of the requests.
func (s *session) maintain(nodes []string, kind, comment string) error {
	return s.eachNode("add_maintenance", nodes, []yson.Entry{textIf("type", kind), yson.Pair("comment", yson.String(comment))}, cell)
}

// eachNode gives a command about maintenance for every node. What was done is printed
// also if a later one is refused.
func (s *session) eachNode(command string, nodes []string, more []yson.Entry, say func(yson.Node) string) error {
	var done []yson.Entry
	var failed error
	for _, node := range nodes {
		entries := append([]yson.Entry{
			textIf("component", "cluster_node"), textIf("address", node), flagIf("supports_per_target_response", true),
		}, more...)
		answer, err := s.Execute(s.ctx, client.Request{Command: command, Parameters: parameters(entries...), Mutating: true})
		if err != nil {
			failed = err
			break
		}
		done = append(done, answer.Entries()...)
	}
	answer := yson.Map(done...)
	if len(done) == 0 && failed != nil {
		return failed
	}
	err := s.print(answer, func(w io.Writer) error {
		t := newTable(w)
		for _, e := range done {
			t.row(e.Key, say(e.Value))
		}
		return t.flush()
	})
	if failed != nil {
		return failed
	}
	return err
}

func newNodesReleaseCommand(r *remote) *cobra.Command {
	var kind, user string
	var ids []string
	var mine, all bool
	cmd := &cobra.Command{
		Use:   "release NODE...",
		Short: "Take back what keeps nodes from jobs; they get some when nobody keeps them any more",
		Long: `Take back requests for maintenance, those that all flags choose. A node gets jobs again when the last request that
keeps it from them is gone; weir nodes shows what is left, weir get //sys/cluster_nodes/NODE/@maintenance_requests all of it.`,
		Example: `  weir nodes release node-00001 --mine
  weir nodes release node-00001 --type ban --user root
  weir nodes release node-00000 node-00001 --all`,
		Args: someNames("node"), ValidArgsFunction: r.completeNodes(),
	}
	cmd.RunE = r.do(func(s *session, args []string) error {
		if !all && !mine && kind == "" && user == "" && len(ids) == 0 {
			return usageErrorf("release needs to know which requests: --mine, --type, --id, --user or --all")
		}
		return s.eachNode("remove_maintenance", args, []yson.Entry{
			textIf("type", kind), textIf("user", user), wordsIf("ids", ids), flagIf("mine", mine), flagIf("all", all),
		}, countsCell)
	})
	cmd.Flags().StringVar(&kind, "type", "", "only those of a type: ban, disable_scheduler_jobs, decommission, …")
	cmd.Flags().StringVar(&user, "user", "", "only those of a user")
	cmd.Flags().StringSliceVar(&ids, "id", nil, "only those with these ids")
	cmd.Flags().BoolVar(&mine, "mine", false, "only your own")
	cmd.Flags().BoolVar(&all, "all", false, "all of them")
	r.mustComplete(cmd, "type", cobra.FixedCompletions(maintenanceTypes, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// countsCell is numbers by name in one column.
func countsCell(counts yson.Node) string {
	var parts []string
	for _, e := range counts.Entries() {
		n, _ := e.Value.Int64()
		parts = append(parts, fmt.Sprintf("%s: %d", e.Key, n))
	}
	if len(parts) == 0 {
		return "nothing to take back"
	}
	return strings.Join(parts, ", ")
}

// maintenanceRemarks say who keeps a node from what, and why. Attributes that were set say
// nothing more than the state does.
func maintenanceRemarks(n yson.Node) (remarks []string) {
	for _, e := range field(n, "maintenance_requests").Entries() {
		if strings.HasPrefix(e.Key, "0-0-0-") {
			continue
		}
		remark := cell(field(e.Value, "type")) + " by " + cell(field(e.Value, "user"))
		if comment, _ := field(e.Value, "comment").Text(); comment != "" {
			remark += ": " + comment
		}
		remarks = append(remarks, remark)
	}
	return remarks
}
