package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/value/resource"
)

// poolsCall is one call of weir pools.
type poolsCall struct {
	resources  []string
	tree       string
	operations bool
	redraw     redraw
}

func newPoolsCommand(opts *options) *cobra.Command {
	r, c := newRemote(opts), &poolsCall{}
	cmd := &cobra.Command{
		Use:   "pools [TREE]",
		Short: "Show the live pool tree: what each pool uses and is entitled to",
		Long: `Show the live pool tree as a table: what each pool uses, demands and is entitled to, with a bar of the
whole cluster. TREE defaults to the default tree. Columns show cpu; --resource selects other resources, and
the bar shows the first of them.`,
		Example: `  weir pools
  weir pools default --operations
  weir pools --resource memory,cpu
  weir pools -o json

  # Refresh every second until Ctrl-C
  weir pools --watch --interval 1s &`,
		Args:              oneTree(&c.tree),
		ValidArgsFunction: r.completeTrees(),
		RunE: r.do(func(s *session, args []string) error {
			kinds, err := c.kinds()
			if err != nil {
				return err
			}
			tree := firstNonEmpty(append(args, c.tree)...)
			return c.redraw.show(s, func(w io.Writer) error { return c.show(s, w, tree, kinds) })
		}),
	}
	cmd.Flags().StringSliceVar(&c.resources, "resource", []string{"cpu"}, "resources to show: cpu, memory, user_slots, gpu, network")
	cmd.Flags().BoolVar(&c.operations, "operations", false, "also show operations in their pools")
	c.redraw.addTo(cmd)
	addTree(r, cmd, &c.tree)
	r.mustComplete(cmd, "resource", cobra.FixedCompletions([]cobra.Completion{"cpu", "memory", "user_slots", "gpu", "network"}, cobra.ShellCompDirectiveNoFileComp))
	return r.addTo(cmd)
}

func (c *poolsCall) kinds() (kinds []resource.Kind, err error) {
	for _, name := range c.resources {
		kind, known := resource.ParseKind(name)
		if !known {
			return nil, usageErrorf("--resource must be cpu, memory, user_slots, gpu or network, not %q", name)
		}
		kinds = append(kinds, kind)
	}
	if len(kinds) == 0 {
		return nil, usageErrorf("--resource needs a name")
	}
	return kinds, nil
}

// show prints the tree once.
func (c *poolsCall) show(s *session, w io.Writer, tree string, kinds []resource.Kind) error {
	found, err := s.GetPoolTree(s.ctx, tree, c.operations)
	if err != nil {
		return s.explainTree(err, tree)
	}
	return s.opts.print(w, found.Raw, func(w io.Writer) error {
		t := &poolTable{tree: found, kinds: kinds, style: barStyleOf(w), width: widthOf(w)}
		t.collect()
		return t.write(w)
	})
}

// poolTable is the table of one tree.
type poolTable struct {
	tree  *client.PoolTree
	kinds []resource.Kind
	style barStyle
	width int

	pools      map[string][]*client.Pool          // by parent
	operations map[string][]*client.PoolOperation // by pool
}

// collect finds the children of each pool, in the order of the answer.
func (t *poolTable) collect() {
	t.pools, t.operations = map[string][]*client.Pool{}, map[string][]*client.PoolOperation{}
	for i := range t.tree.Pools {
		p := &t.tree.Pools[i]
		t.pools[p.Parent] = append(t.pools[p.Parent], p)
	}
	for i := range t.tree.Operations {
		o := &t.tree.Operations[i]
		t.operations[o.Pool] = append(t.operations[o.Pool], o)
	}
}

func (t *poolTable) write(w io.Writer) error {
	var amounts []string
	for name, amount := range t.tree.Resources.All() {
		if amount > 0 {
			amounts = append(amounts, name+" "+amountText(name, amount))
		}
	}
	fmt.Fprintf(w, "%s: %s; amounts are of %s\n\n", t.style.paint(styleBold, t.tree.Name), firstNonEmpty(strings.Join(amounts, ", "), "no nodes"), t.kinds[0])
	table := newTable(w)
	header := []string{"pool", "mode", "weight", "ops"}
	right := []int{2, 3}
	for i, kind := range t.kinds {
		prefix := ""
		if i > 0 {
			prefix = kind.String() + " "
		}
		right = append(right, len(header), len(header)+1, len(header)+2, len(header)+3)
		header = append(header, prefix+"usage", prefix+"demand", prefix+"fair share", "")
	}
	header = append(header, "guarantee", "", "")
	right = append(right, len(header)-3)
	table.row(header...)
	table.alignRight(right...)
	table.fit(t.width, 0, len(header)-2)
	for _, root := range t.pools[""] {
		t.add(table, root, 0)
	}
	if err := table.flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%s\n", t.style.legend())
	return nil
}

// add writes a pool and everything below it. A pool is never below itself.
func (t *poolTable) add(table *table, p *client.Pool, depth int) {
	mode, guarantee, remarks := orNothing(p.Mode), nothing, starvationRemark(p.Starvation)
	if p.Ephemeral {
		mode += ", ephemeral"
	}
	if amount := p.StrongGuarantee.Of(t.kinds[0].String()); amount > 0 && depth > 0 {
		guarantee = amountText(t.kinds[0].String(), amount)
	}
	if p.IntegralType != "none" && p.IntegralType != "" {
		remarks = append(remarks, fmt.Sprintf("%s, saved %s", p.IntegralType, resource.FormatVolume(t.kinds[0], p.AccumulatedVolume*t.tree.Resources.Of(t.kinds[0].String()))))
	}
	table.row(t.row(p.Name, mode, fmt.Sprintf("%d/%d", p.RunningOperations, p.Operations), guarantee, remarks, depth, &p.Standing)...)
	for _, child := range t.pools[p.Name] {
		t.add(table, child, depth+1)
	}
	for _, o := range t.operations[p.Name] {
		mode := string(o.State)
		if o.Suspended {
			mode = "suspended"
		}
		table.row(t.row(strings.TrimSpace(o.ID+" "+o.Title), mode, nothing, nothing, starvationRemark(o.Starvation), depth+1, &o.Standing)...)
	}
}

// row is a pool or an operation.
func (t *poolTable) row(name, mode, operations, guarantee string, remarks []string, depth int, u *client.Standing) []string {
	weight := nothing
	if u.Weight != 0 && depth > 0 {
		weight = strconv.FormatFloat(u.Weight, 'g', 4, 64)
	}
	row := []string{strings.Repeat("  ", depth) + name, mode, weight, operations}
	for _, kind := range t.kinds {
		k := kind.String()
		share := u.FairShare.Of(k)
		row = append(row, poolAmount(k, u.Usage.Of(k)), poolAmount(k, u.Demand.Of(k)), poolAmount(k, share*t.tree.Resources.Of(k)), percent(share))
	}
	k := t.kinds[0].String()
	return append(row, guarantee, strings.Join(remarks, "; "), t.style.bar(u.UsageShare.Of(k), u.FairShare.Of(k), u.DemandShare.Of(k)))
}

// poolAmount writes an amount for a column that has many zeros.
func poolAmount(kind string, value float64) string {
	if value == 0 {
		return "0"
	}
	return amountText(kind, value)
}

func starvationRemark(status string) (remarks []string) {
	if status == "starving" || status == "aggressively_starving" {
		remarks = append(remarks, strings.ReplaceAll(status, "_", " "))
	}
	return remarks
}

// explainTree lists the existing pool trees if the named one does not exist.
func (s *session) explainTree(err error, tree string) error {
	if !errors.Is(err, client.CodeResolve) || tree == "" {
		return err
	}
	names, failed := s.PoolTrees(s.ctx)
	if failed != nil || slices.Contains(names, tree) {
		return err
	}
	if pools, failed := s.PoolNames(s.ctx, ""); failed == nil && slices.Contains(pools, tree) {
		return fmt.Errorf("%q is a pool, not a pool tree; weir explain pool:%[1]s describes it", tree)
	}
	there := "there are none"
	if len(names) > 0 {
		there = "there are: " + strings.Join(names, ", ")
	}
	return fmt.Errorf("there is no pool tree %q; %s", tree, there)
}
