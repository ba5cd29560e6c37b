package report

import (
	"bufio"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/value/chart"
	"github.com/weirhq/weir/internal/value/resource"
)

// comparison is two runs side by side.
type comparison struct {
	a, b  *outcome.Result
	kind  resource.Kind
	names [2]string
}

// Labels name the two runs of a comparison, for example by their files.
type Labels struct{ A, B string }

func compare(a, b *outcome.Result, labels Labels) *comparison {
	c := &comparison{a: a, b: b, kind: Primary(a), names: [2]string{labels.A, labels.B}}
	for i, r := range []*outcome.Result{a, b} {
		if c.names[i] == "" {
			c.names[i] = r.Scenario
		}
	}
	return c
}

// figure is one line of a comparison.
type figure struct {
	name  string
	a, b  float64
	write func(float64) string
	// better is the direction that is better: +1 more, -1 less, 0 neither.
	better int
	// absentA and absentB report whether a run lacks the figure.
	absentA, absentB bool
}

// change writes the difference between the two values.
func (f *figure) change() string {
	switch d := f.b - f.a; {
	case f.absentA || f.absentB:
		return "–"
	case d == 0:
		return "same"
	case f.a == 0:
		return "+" + f.write(d)
	default:
		sign := "+"
		if d < 0 {
			sign = "-"
		}
		if part := percent(math.Abs(d / f.a)); part != "0 %" {
			return sign + part
		}
		return sign + "<0.1 %"
	}
}

// tone is how a page colours the difference. Small ones are noise.
func (f *figure) tone() string {
	d := (f.b - f.a) * float64(f.better)
	switch {
	case f.absentA || f.absentB || math.Abs(f.b-f.a) <= 0.01*math.Abs(f.a):
		return ""
	case d > 0:
		return "good"
	case d < 0:
		return "bad"
	}
	return ""
}

func (f *figure) values() (a, b string) {
	a, b = f.write(f.a), f.write(f.b)
	if f.absentA {
		a = "–"
	}
	if f.absentB {
		b = "–"
	}
	return a, b
}

func count(v float64) string { return grouped(int64(v)) }

func (c *comparison) cluster() []figure {
	x, y := &c.a.Cluster, &c.b.Cluster
	var list []figure
	add := func(name string, a, b float64, write func(float64) string, better int) {
		list = append(list, figure{name: name, a: a, b: b, write: write, better: better})
	}
	add("virtual time", c.a.Seconds, c.b.Seconds, chart.FormatTime, 0)
	for _, k := range resource.Kinds {
		if x.Capacity[k] > 0 || y.Capacity[k] > 0 {
			add(strings.ReplaceAll(k.String(), "_", " ")+" in use", x.Utilisation[k], y.Utilisation[k], percent, +1)
		}
	}
	add("operations completed", float64(x.Operations.Completed), float64(y.Operations.Completed), count, +1)
	add("operations rejected", float64(x.Operations.Rejected), float64(y.Operations.Rejected), count, -1)
	add("operations unfinished", float64(x.Operations.Unfinished), float64(y.Operations.Unfinished), count, -1)
	add("jobs completed", float64(x.Jobs.Completed), float64(y.Jobs.Completed), count, +1)
	add("jobs preempted", float64(x.Jobs.Preempted), float64(y.Jobs.Preempted), count, -1)
	add("jobs lost with nodes", float64(x.Jobs.LostWithNodes), float64(y.Jobs.LostWithNodes), count, -1)
	add("work lost, core·h", x.Lost[resource.CPU]/3600, y.Lost[resource.CPU]/3600, func(v float64) string { return amount(resource.CPU, v) }, -1)
	waits := func(who string, a, b outcome.Waits, names ...string) {
		for _, name := range names {
			va, _ := a.Get(name)
			vb, _ := b.Get(name)
			list = append(list, figure{
				name: who + " wait, " + name, a: va, b: vb, write: chart.FormatTime, better: -1, absentA: a.Count == 0, absentB: b.Count == 0,
			})
		}
	}
	waits("jobs", x.Waits, y.Waits, "mean", "p50", "p90", "p99", "max")
	waits("operations", x.OperationWaits, y.OperationWaits, "p50", "p99")
	add("decisions", float64(x.Work.Decisions), float64(y.Work.Decisions), count, 0)
	add("expectations that failed", float64(len(c.a.Failed())), float64(len(c.b.Failed())), count, -1)
	return list
}

// pair is a pool of both runs, or of one of them.
type pair struct {
	label string
	depth int
	a, b  int // index in Pools; -1: absent
}

// pools joins the pools of both runs in the order of the first; pools that only
// the second has are last.
func (c *comparison) pools() (pairs []pair) {
	type key struct{ tree, name string }
	second := map[key]int{}
	for i, p := range c.b.Pools {
		second[key{p.Tree, p.Name}] = i
	}
	joined := map[key]bool{}
	for i, p := range c.a.Pools {
		j, both := second[key{p.Tree, p.Name}]
		if !both {
			j = -1
		}
		joined[key{p.Tree, p.Name}] = true
		pairs = append(pairs, pair{poolLabel(c.a, p.Tree, p.Name), p.Depth, i, j})
	}
	for j, p := range c.b.Pools {
		if !joined[key{p.Tree, p.Name}] {
			pairs = append(pairs, pair{poolLabel(c.b, p.Tree, p.Name), p.Depth, -1, j})
		}
	}
	return pairs
}

// chosenPools are those that got most in either run, in the order of pools, and
// how many others there are.
func (c *comparison) chosenPools(most int) (pairs []pair, omitted int) {
	all := c.pools()
	depths, weights := make([]int, len(all)), make([]float64, len(all))
	for i, p := range all {
		depths[i] = p.depth
		if p.a >= 0 {
			weights[i] = c.a.Pools[p.a].Got[c.kind]
		}
		if p.b >= 0 {
			weights[i] = max(weights[i], c.b.Pools[p.b].Got[c.kind])
		}
	}
	for i, shown := range chosen(depths, weights, most) {
		if shown {
			pairs = append(pairs, all[i])
		}
	}
	return pairs, len(all) - len(pairs)
}

// figures compares one pool.
func (c *comparison) figures(p pair) []figure {
	var x, y outcome.Pool
	if p.a >= 0 {
		x = c.a.Pools[p.a]
	}
	if p.b >= 0 {
		y = c.b.Pools[p.b]
	}
	k := c.kind
	write := func(v float64) string { return amount(k, v) }
	list := []figure{
		{name: "entitled", a: average(c.a, x.Entitled, k), b: average(c.b, y.Entitled, k), write: write},
		{name: "got", a: average(c.a, x.Got, k), b: average(c.b, y.Got, k), write: write, better: +1},
		{name: "wait p50", a: x.Waits.P50, b: y.Waits.P50, write: chart.FormatTime, better: -1, absentA: x.Waits.Count == 0, absentB: y.Waits.Count == 0},
		{name: "wait p99", a: x.Waits.P99, b: y.Waits.P99, write: chart.FormatTime, better: -1, absentA: x.Waits.Count == 0, absentB: y.Waits.Count == 0},
		{name: "preempted", a: float64(x.Jobs.Preempted), b: float64(y.Jobs.Preempted), write: count, better: -1},
		{name: "guarantee kept", a: x.Guarantee.Ratio(), b: y.Guarantee.Ratio(), write: percent, better: +1,
			absentA: x.Guarantee.DemandingSeconds == 0, absentB: y.Guarantee.DemandingSeconds == 0},
	}
	for i := range list {
		list[i].absentA = list[i].absentA || p.a < 0
		list[i].absentB = list[i].absentB || p.b < 0
	}
	return list
}

// CompareText writes two runs side by side for the terminal.
func CompareText(w io.Writer, a, b *outcome.Result, labels Labels) error {
	c := compare(a, b, labels)
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "A: %s\nB: %s\n\n", c.names[0], c.names[1])
	rows := [][]string{{"cluster", "A", "B", "B against A"}}
	for _, f := range c.cluster() {
		x, y := f.values()
		rows = append(rows, []string{f.name, x, y, f.change()})
	}
	writeTable(out, rows, "lr")
	fmt.Fprintln(out)
	rows = [][]string{c.poolHeader()}
	pools, omitted := c.chosenPools(mostPools)
	for _, p := range pools {
		row := []string{strings.Repeat("  ", p.depth) + shortName(p.label)}
		for _, f := range c.figures(p) {
			x, y := f.values()
			row = append(row, x, y)
		}
		rows = append(rows, row)
	}
	writeTable(out, rows, "lr")
	if omitted > 0 {
		fmt.Fprintf(out, "and %s, which got less\n", more(omitted))
	}
	fmt.Fprintf(out, "\nEntitled and got are averages of %v.\n", c.kind)
	return out.Flush()
}

func (c *comparison) poolHeader() []string {
	header := []string{"pool"}
	for _, f := range c.figures(pair{a: -1, b: -1}) {
		header = append(header, f.name+" A", "B")
	}
	return header
}

// comparisonPage is the data of the template "comparison".
type comparisonPage struct {
	frame
	A, B      string
	Cluster   table
	Pools     table
	PoolsNote string
	Charts    []template.HTML
}

// CompareHTML writes two runs side by side as a page.
func CompareHTML(w io.Writer, a, b *outcome.Result, labels Labels) error {
	c := compare(a, b, labels)
	p := comparisonPage{
		frame: newFrame("Two runs side by side"),
		A:     c.names[0] + ", " + span(a), B: c.names[1] + ", " + span(b),
		Cluster:   table{Header: []string{"", "A", "B", "B against A"}, Left: 1},
		Pools:     table{Header: c.poolHeader(), Left: 1},
		PoolsNote: fmt.Sprintf("Entitled and got are averages of %v over the runs.", c.kind),
		Charts:    c.charts(),
	}
	for _, f := range c.cluster() {
		x, y := f.values()
		p.Cluster.Rows = append(p.Cluster.Rows, []cell{{Text: f.name}, {Text: x}, {Text: y}, {Text: f.change(), Class: f.tone()}})
	}
	pools, omitted := c.chosenPools(mostPoolRows)
	if omitted > 0 {
		p.PoolsNote += fmt.Sprintf(" There are %s, which got less.", more(omitted))
	}
	for _, pool := range pools {
		cells := []cell{{Text: pool.label, Indent: 10 + 18*pool.depth}}
		for _, f := range c.figures(pool) {
			x, y := f.values()
			cells = append(cells, cell{Text: x}, cell{Text: y, Class: f.tone()})
		}
		p.Pools.Rows = append(p.Pools.Rows, cells)
	}
	return render(w, "comparison", p)
}

// charts draws the curves of both runs over each other, with the coarser of the
// two steps.
func (c *comparison) charts() (charts []template.HTML) {
	end := max(c.a.Seconds, c.b.Seconds)
	step := max(c.a.Series.Step, c.b.Series.Step)
	k := c.kind
	both := func(title string, unit chart.Unit, a, b []float64, counts bool) {
		drawing := overTime(c.a, title, unit)
		drawing.Step, drawing.End = step, end
		if !c.b.Dated || !c.b.Start.Equal(c.a.Start) {
			drawing.Start = time.Time{}
		}
		drawing.Lines = []chart.Line{
			{Name: "A", Values: coarser(a, c.a.Series.Step, step, counts), Look: chart.Filled},
			{Name: "B", Values: coarser(b, c.b.Series.Step, step, counts), Colour: 1},
		}
		charts = append(charts, drawn(drawing))
	}
	x, y := &c.a.Series.Cluster, &c.b.Series.Cluster
	both(k.String()+" in use", chart.Unit{Percent: true}, divide(x.Usage[k], x.Capacity[k]), divide(y.Usage[k], y.Capacity[k]), false)
	both("jobs waiting", chart.Unit{Whole: true}, x.PendingJobs, y.PendingJobs, false)
	if c.a.Cluster.Jobs.Preempted+c.b.Cluster.Jobs.Preempted > 0 {
		both("preemptions", chart.Unit{Name: "in " + chart.FormatTime(step), Whole: true}, x.Preemptions, y.Preemptions, true)
	}
	pools, _ := c.chosenPools(mostPoolCharts)
	for _, p := range pools {
		if p.depth == 0 || p.a < 0 || p.b < 0 {
			continue
		}
		both("usage of "+p.label, unitOf(c.a, k), c.a.Series.Pools[p.a].Usage[k], c.b.Series.Pools[p.b].Usage[k], false)
	}
	return charts
}

// coarser joins neighbouring points of a series until they are a step apart. Both
// steps are powers of two times one period, if the runs had the same period;
// otherwise the series stays as it is.
func coarser(values []float64, from, to float64, counts bool) []float64 {
	times := int(math.Round(to / max(from, 1e-9)))
	if times <= 1 || math.Abs(float64(times)*from-to) > 1e-6*to {
		return values
	}
	var joined []float64
	for i := 0; i < len(values); i += times {
		group := values[i:min(i+times, len(values))]
		sum := 0.0
		for _, v := range group {
			sum += v
		}
		if !counts {
			sum /= float64(len(group))
		}
		joined = append(joined, sum)
	}
	return joined
}
