package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
)

func newNodesCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	var tree, tag, state, filter string
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "List the nodes of the cluster: state, tags, what is used of what; keep some from jobs",
		Long: `List the nodes of the cluster. The commands below keep nodes from jobs, with a reason, and let them have some again.
A node is tagged or given other limits by its attributes: weir set //sys/cluster_nodes/NODE/@user_tags,
…/@resource_limits_overrides. To set …/@banned or …/@disable_scheduler_jobs takes the place of all requests of that kind.`,
		Example: `  weir nodes
  weir nodes --state online --tree default
  weir nodes --tag ssd -o json`,
		Args: noArgs,
		RunE: r.do(func(s *session, _ []string) error {
			answer, err := s.ask("list_nodes", textIf("pool_tree", tree), textIf("tag", tag), textIf("state", state), textIf("filter", filter))
			if err != nil {
				return err
			}
			return s.print(answer, func(w io.Writer) error { return writeNodes(w, answer) })
		}),
	}
	cmd.Flags().StringVar(&tree, "tree", "", "only those of a pool tree")
	cmd.Flags().StringVar(&tag, "tag", "", "only those with a tag")
	cmd.Flags().StringVarP(&state, "state", "s", "", "only those in a state: online, offline, banned, refused")
	cmd.Flags().StringVar(&filter, "filter", "", "only those with this in their names")
	r.mustComplete(cmd, "tree", r.completeTrees())
	r.mustComplete(cmd, "state", cobra.FixedCompletions([]cobra.Completion{"online", "offline", "banned", "refused"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.AddCommand(newNodesBanCommand(r), newNodesDisableCommand(r), newNodesReleaseCommand(r))
	return r.addTo(cmd)
}

func writeNodes(w io.Writer, answer yson.Node) error {
	paint := painter(w)
	nodes := field(answer, "nodes").Items()
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
		state := cell(field(n, "state"))
		row := []string{cell(field(n, "address")), nodeStyle(paint, state), cell(field(n, "pool_tree")), fmt.Sprint(whole(n, "running_job_count"))}
		for _, kind := range kinds {
			row = append(row, used(n, kind))
		}
		t.row(append(row, joinCells(field(n, "tags"), ","), nodeRemarks(n))...)
	}
	return t.flush()
}

// kindsOf are the resources that any of the nodes has.
func kindsOf(nodes []yson.Node) (kinds []resource.Kind) {
	for _, kind := range []resource.Kind{resource.CPU, resource.Memory, resource.GPU, resource.UserSlots, resource.Network} {
		if slices.ContainsFunc(nodes, func(n yson.Node) bool { return number(n, "resource_limits", kind.String()) > 0 }) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func used(n yson.Node, kind resource.Kind) string {
	amount := func(of string) string {
		return resource.FormatAmount(kind, resource.FromFloat(kind, number(n, of, kind.String())))
	}
	return amount("resource_usage") + "/" + amount("resource_limits")
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

func nodeRemarks(n yson.Node) string {
	var remarks []string
	if disabled, _ := field(n, "jobs_disabled").Boolean(); disabled {
		remarks = append(remarks, "takes no jobs")
	}
	if draining, _ := field(n, "draining").Boolean(); draining {
		remarks = append(remarks, "draining")
	}
	remarks = append(remarks, maintenanceRemarks(n)...)
	for _, alert := range field(n, "alerts").Items() {
		remarks = append(remarks, cell(alert))
	}
	return strings.Join(remarks, "; ")
}

// joinCells is a list in one column.
func joinCells(list yson.Node, separator string) string {
	var cells []string
	for _, item := range list.Items() {
		cells = append(cells, cell(item))
	}
	return strings.Join(cells, separator)
}
