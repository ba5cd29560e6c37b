package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/value/resource"
)

func newNodesCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	var filter client.NodeFilter
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "List the cluster's nodes with state, tags and usage; keep jobs off them",
		Long: `List the nodes of the cluster. The commands below keep jobs off nodes, with a reason, and allow them again.
Attributes set a node's tags and limits: weir set //sys/cluster_nodes/NODE/@user_tags,
…/@resource_limits_overrides. Setting …/@banned or …/@disable_scheduler_jobs replaces all requests of that type.`,
		Example: `  weir nodes
  weir nodes --state online --tree default
  weir nodes --tag ssd -o json`,
		Args: noArgs,
		RunE: r.do(func(s *session, _ []string) error {
			list, err := s.ListNodes(s.ctx, filter)
			if err != nil {
				return err
			}
			return s.print(list.Raw, func(w io.Writer) error { return writeNodes(w, list.Nodes) })
		}),
	}
	cmd.Flags().StringVar(&filter.Tree, "tree", "", "only those of this pool tree")
	cmd.Flags().StringVar(&filter.Tag, "tag", "", "only nodes with this tag")
	cmd.Flags().StringVarP(&filter.State, "state", "s", "", "only nodes in this state: online, offline, banned, refused")
	cmd.Flags().StringVar(&filter.Text, "filter", "", "only nodes whose name contains this text")
	r.mustComplete(cmd, "tree", r.completeTrees())
	r.mustComplete(cmd, "state", cobra.FixedCompletions([]cobra.Completion{"online", "offline", "banned", "refused"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.AddCommand(newNodesBanCommand(r), newNodesDisableCommand(r), newNodesDrainCommand(r), newNodesGetCommand(r), newNodesReleaseCommand(r))
	return r.addTo(cmd)
}

func writeNodes(w io.Writer, nodes []client.Node) error {
	paint := painter(w)
	kinds := kindsOf(nodes)
	t := newTable(w)
	header := []string{"NODE", "STATE", "TREE", "JOBS"}
	right := []int{3}
	for _, kind := range kinds {
		right = append(right, len(header))
		header = append(header, strings.ToUpper(kind.String()))
	}
	header = append(header, "TAGS", "REMARKS")
	t.row(header...)
	t.alignRight(right...)
	t.fit(widthOf(w), len(header)-1, len(header)-2, 0)
	for _, n := range nodes {
		row := []string{n.Name, nodeStyle(paint, nodeState(&n)), orNothing(n.Tree), fmt.Sprint(n.RunningJobs)}
		for _, kind := range kinds {
			row = append(row, amountText(kind.String(), n.Usage.Of(kind.String()))+"/"+amountText(kind.String(), n.Limits.Of(kind.String())))
		}
		t.row(append(row, strings.Join(n.Tags, ","), nodeRemarks(&n))...)
	}
	return t.flush()
}

// kindsOf are the resources that at least one of the nodes has.
func kindsOf(nodes []client.Node) (kinds []resource.Kind) {
	for _, kind := range []resource.Kind{resource.CPU, resource.Memory, resource.GPU, resource.UserSlots, resource.Network} {
		if slices.ContainsFunc(nodes, func(n client.Node) bool { return n.Limits.Of(kind.String()) > 0 }) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// nodeState is the state of a node; an online node that gets no jobs is disabled.
func nodeState(n *client.Node) string {
	if n.State == "online" && n.JobsDisabled {
		return "disabled"
	}
	return n.State
}

func nodeStyle(paint func(style, string) string, state string) string {
	switch state {
	case "online":
		return paint(styleGreen, state)
	case "offline", "refused":
		return paint(styleRed, state)
	}
	return paint(styleYellow, state)
}

func nodeRemarks(n *client.Node) string {
	var remarks []string
	if n.JobsDisabled && n.RunningJobs > 0 {
		remarks = append(remarks, "gets no new jobs; "+plural(n.RunningJobs, "job still runs", "jobs still run"))
	}
	if n.Draining {
		remarks = append(remarks, "draining")
	}
	for _, m := range n.Maintenance {
		if strings.HasPrefix(m.ID, "0-0-0-") { // an attribute that was set, which adds nothing to the state
			continue
		}
		remark := string(m.Type) + " by " + m.User
		if m.Comment != "" {
			remark += ": " + m.Comment
		}
		remarks = append(remarks, remark)
	}
	return strings.Join(append(remarks, n.Alerts...), "; ")
}
