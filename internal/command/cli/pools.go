package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
)

// poolsCall is one call of weir pools.
type poolsCall struct {
	resources  []string
	tree       string
	operations bool
	watch      bool
	interval   time.Duration
}

func newPoolsCommand(opts *options) *cobra.Command {
	r, c := newRemote(opts), &poolsCall{}
	cmd := &cobra.Command{
		Use:   "pools [TREE]",
		Short: "Show the live tree of pools: who uses what, who is entitled to what",
		Long: `Show the live tree of pools as a table: what each uses, wants and is entitled to, with a bar of the
whole cluster. Without TREE it is the default one. Columns are of cpu; --resource names others, of
which the first has the bar.`,
		Example: `  weir pools
  weir pools default --operations
  weir pools --resource memory,cpu
  weir pools -o json

  # Again every second, until Ctrl-C
  weir pools --watch --interval 1s &`,
		Args:              oneTree(&c.tree),
		ValidArgsFunction: r.completeTrees(),
		RunE: r.do(func(s *session, args []string) error {
			kinds, err := c.kinds()
			if err != nil {
				return err
			}
			tree := firstNonEmpty(append(args, c.tree)...)
			if c.watch {
				return c.repeat(s, tree, kinds)
			}
			return c.show(s, s.out, tree, kinds)
		}),
	}
	cmd.Flags().StringSliceVar(&c.resources, "resource", []string{"cpu"}, "the resources of columns: cpu, memory, user_slots, gpu, network")
	cmd.Flags().BoolVar(&c.operations, "operations", false, "also show operations in their pools")
	cmd.Flags().BoolVarP(&c.watch, "watch", "w", false, "show it again and again, until Ctrl-C")
	cmd.Flags().DurationVar(&c.interval, "interval", 2*time.Second, "how often, with --watch")
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

// repeat shows the tree until the command is told to end.
func (c *poolsCall) repeat(s *session, tree string, kinds []resource.Kind) error {
	if c.interval < 100*time.Millisecond {
		return usageErrorf("--interval must be at least 100ms, not %v", c.interval)
	}
	onScreen := widthOf(s.out) > 0
	ticker := time.NewTicker(c.interval)
	defer ticker.Stop()
	for {
		// One write makes a screen that does not flicker.
		var page bytes.Buffer
		err := c.show(s, &screen{Buffer: &page, behind: s.out}, tree, kinds)
		switch {
		case s.ctx.Err() != nil:
			return s.ctx.Err()
		case err != nil && !onScreen:
			return err
		case err != nil:
			page.Reset()
			fmt.Fprintf(&page, "%v\n", err)
		}
		if onScreen {
			fmt.Fprint(s.out, "\x1b[H\x1b[2J", time.Now().Format("15:04:05"), "  every ", c.interval, ", Ctrl-C ends\n\n")
		}
		if _, err := s.out.Write(page.Bytes()); err != nil {
			return err
		}
		select {
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-ticker.C:
			if !onScreen {
				fmt.Fprintln(s.out)
			}
		}
	}
}

// screen collects what is written and looks like the writer behind it.
type screen struct {
	*bytes.Buffer
	behind io.Writer
}

// behindOf is the writer that what is written will end at.
func behindOf(w io.Writer) io.Writer {
	if collected, ok := w.(*screen); ok {
		return collected.behind
	}
	return w
}

// poolFields are what the table needs of each pool.
var poolFields = []string{
	"parent", "mode", "weight", "is_ephemeral", "running_operation_count", "operation_count", "resource_usage", "resource_demand",
	"usage_share", "demand_share", "detailed_fair_share", "strong_guarantee_resources", "integral_guarantee_type",
	"accumulated_resource_ratio_volume", "starvation_status", "satisfaction_ratio",
}

// operationFields are what the table needs of each operation.
var operationFields = []string{
	"pool", "title", "user", "state", "suspended", "weight", "resource_usage", "resource_demand", "usage_share", "demand_share", "detailed_fair_share",
	"starvation_status",
}

// show prints the tree once.
func (c *poolsCall) show(s *session, w io.Writer, tree string, kinds []resource.Kind) (err error) {
	if tree == "" {
		if tree, err = s.defaultTree(); err != nil {
			return err
		}
	}
	t := &poolTable{name: tree, kinds: kinds, style: barStyleOf(behindOf(w)), width: widthOf(behindOf(w))}
	at := orchid + "/" + tree
	if t.total, err = s.Get(s.ctx, at+"/resource_limits"); err != nil {
		return s.explainTree(err, tree)
	}
	pools, err := s.ask("get", textIf("path", at+"/pools"), flagIf("return_only_value", true), wordsIf("fields", poolFields))
	if err != nil {
		return err
	}
	operations := yson.Map()
	if c.operations {
		operations, err = s.ask("get", textIf("path", at+"/operations"), flagIf("return_only_value", true), wordsIf("fields", operationFields))
		if err != nil {
			return err
		}
	}
	answer := yson.Map(yson.Pair("pool_tree", yson.String(tree)), yson.Pair("resource_limits", t.total), yson.Pair("pools", pools))
	if c.operations {
		answer = answer.With("operations", operations)
	}
	return s.opts.print(w, answerNode{answer}, func(w io.Writer) error {
		t.collect(pools, operations)
		return t.write(w)
	})
}

// poolTable is the table of one tree.
type poolTable struct {
	name  string
	kinds []resource.Kind
	style barStyle
	width int
	total yson.Node

	elements []yson.Entry // pools, then operations
	pools    int
	children map[string][]int
}

const rootPool = "<Root>"

// collect finds the children of each pool, in the order of the answer.
func (t *poolTable) collect(pools, operations yson.Node) {
	t.elements = append(t.elements[:0], pools.Entries()...)
	t.pools = len(t.elements)
	t.elements = append(t.elements, operations.Entries()...)
	t.children = map[string][]int{}
	for i, e := range t.elements {
		key := "parent"
		if i >= t.pools {
			key = "pool"
		}
		if parent, ok := field(e.Value, key).Text(); ok {
			t.children[parent] = append(t.children[parent], i)
		}
	}
}

func (t *poolTable) write(w io.Writer) error {
	var amounts []string
	for _, kind := range resource.Kinds {
		if amount := number(t.total, kind.String()); amount > 0 {
			amounts = append(amounts, kind.String()+" "+t.amount(kind, amount))
		}
	}
	fmt.Fprintf(w, "%s: %s; amounts are of %s\n\n", t.style.paint(styleBold, t.name), firstNonEmpty(strings.Join(amounts, ", "), "no nodes"), t.kinds[0])
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
	for i, e := range t.elements[:t.pools] {
		if e.Key == rootPool {
			t.add(table, i, 0)
		}
	}
	if err := table.flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%s\n", t.style.legend())
	return nil
}

// add writes an element and everything below it. A pool is never below itself.
func (t *poolTable) add(table *table, at, depth int) {
	e := t.elements[at]
	table.row(t.row(e, at < t.pools, depth)...)
	if at >= t.pools {
		return
	}
	for _, child := range t.children[e.Key] {
		t.add(table, child, depth+1)
	}
}

func (t *poolTable) row(e yson.Entry, isPool bool, depth int) []string {
	name, mode, operations, guarantee := e.Key, cell(field(e.Value, "mode")), nothing, nothing
	if isPool {
		operations = fmt.Sprintf("%d/%d", whole(e.Value, "running_operation_count"), whole(e.Value, "operation_count"))
		if ephemeral, _ := field(e.Value, "is_ephemeral").Boolean(); ephemeral {
			mode += ", ephemeral"
		}
		if amount := number(e.Value, "strong_guarantee_resources", t.kinds[0].String()); amount > 0 && depth > 0 {
			guarantee = t.amount(t.kinds[0], amount)
		}
	} else {
		mode = cell(field(e.Value, "state"))
		if suspended, _ := field(e.Value, "suspended").Boolean(); suspended {
			mode = "suspended"
		}
		if title, ok := field(e.Value, "title").Text(); ok {
			name += " " + title
		}
	}
	weight := nothing
	if w, ok := field(e.Value, "weight").Double(); ok && depth > 0 {
		weight = strconv.FormatFloat(w, 'g', 4, 64)
	}
	row := []string{strings.Repeat("  ", depth) + name, mode, weight, operations}
	for _, kind := range t.kinds {
		k := kind.String()
		share := number(e.Value, "detailed_fair_share", "total", k)
		row = append(row, t.amount(kind, number(e.Value, "resource_usage", k)), t.amount(kind, number(e.Value, "resource_demand", k)),
			t.amount(kind, share*number(t.total, k)), percent(share))
	}
	k := t.kinds[0].String()
	bar := t.style.bar(number(e.Value, "usage_share", k), number(e.Value, "detailed_fair_share", "total", k), number(e.Value, "demand_share", k))
	return append(row, guarantee, t.remark(e.Value, isPool), bar)
}

// remark says what is special about an element.
func (t *poolTable) remark(e yson.Node, isPool bool) string {
	var remarks []string
	if status := cell(field(e, "starvation_status")); status == "starving" || status == "aggressively_starving" {
		remarks = append(remarks, strings.ReplaceAll(status, "_", " "))
	}
	if kind := cell(field(e, "integral_guarantee_type")); isPool && kind != "none" && kind != nothing {
		remarks = append(remarks, fmt.Sprintf("%s, saved %.4g", kind, number(e, "accumulated_resource_ratio_volume")))
	}
	return strings.Join(remarks, "; ")
}

// amount writes an amount that the API gives in the units of people.
func (t *poolTable) amount(kind resource.Kind, value float64) string {
	if value == 0 {
		return "0"
	}
	return resource.FormatAmount(kind, resource.FromFloat(kind, value))
}

// explainTree says which pool trees there are when one was named that is not.
func (s *session) explainTree(err error, tree string) error {
	var refusal *client.Error
	if !errors.As(err, &refusal) || !refusal.Has(client.CodeResolve) {
		return err
	}
	trees, failed := s.List(s.ctx, "//sys/pool_trees")
	if failed != nil || slices.ContainsFunc(trees, func(n yson.Node) bool { return cell(n) == tree }) {
		return err
	}
	names := make([]string, len(trees))
	for i, n := range trees {
		names[i] = cell(n)
	}
	there := "there are none"
	if len(names) > 0 {
		there = "there are: " + strings.Join(names, ", ")
	}
	return fmt.Errorf("there is no pool tree %q; %s", tree, there)
}
