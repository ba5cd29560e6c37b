package report

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/value/chart"
	"github.com/weirhq/weir/internal/value/resource"
)

// used returns the resources that jobs have used, the primary one first. It omits
// user slots, which only repeat the number of jobs.
func used(r *outcome.Result, primary resource.Kind) (kinds []resource.Kind) {
	for _, k := range r.Kinds() {
		if r.Cluster.Used[k] > 0 && k != primary && k != resource.UserSlots {
			kinds = append(kinds, k)
		}
	}
	return append([]resource.Kind{primary}, kinds...)
}

func drawn(c interface{ SVG() string }) template.HTML { return template.HTML(c.SVG()) }

// overTime is a chart over the time of a run, without lines.
func overTime(r *outcome.Result, title string, unit chart.Unit) chart.TimeChart {
	c := chart.TimeChart{Title: title, Unit: unit, Step: r.Series.Step, End: r.Seconds}
	if r.Dated {
		c.Start = r.Start
	}
	return c
}

// nearlyIdle is the utilisation below which the axis does not extend to the whole
// cluster, because nothing would be visible.
const nearlyIdle = 0.25

// clusterCharts are the charts of the whole cluster.
func clusterCharts(r *outcome.Result, primary resource.Kind) []template.HTML {
	s := &r.Series.Cluster
	utilisation := overTime(r, "Part of the cluster in use", chart.Unit{Percent: true})
	busiest := 0.0
	for i, k := range used(r, primary) {
		look := chart.Solid
		if i == 0 {
			look = chart.Filled
		}
		utilisation.Lines = append(utilisation.Lines, chart.Line{
			Name: strings.ReplaceAll(k.String(), "_", " "), Values: divide(s.Usage[k], s.Capacity[k]), Look: look, Colour: i,
		})
		busiest = max(busiest, largest(utilisation.Lines[i].Values))
	}
	if busiest > nearlyIdle {
		utilisation.Least = 1
	}
	charts := []template.HTML{drawn(utilisation)}
	if c, several := siblingsChart(r, primary); several {
		charts = append(charts, drawn(c))
	}
	jobs := overTime(r, "Jobs", chart.Unit{Whole: true})
	jobs.Lines = []chart.Line{
		{Name: "running", Values: s.RunningJobs, Look: chart.Filled},
		{Name: "waiting", Values: s.PendingJobs, Look: chart.Solid, Colour: 1},
	}
	charts = append(charts, drawn(jobs))
	if r.Cluster.Jobs.Preempted > 0 {
		preemptions := overTime(r, "Preemptions", chart.Unit{Name: "in " + chart.FormatTime(r.Series.Step), Whole: true})
		preemptions.Lines = []chart.Line{{Name: "jobs preempted", Values: s.Preemptions, Look: chart.Filled, Colour: 1}}
		charts = append(charts, drawn(preemptions))
	}
	if len(r.Cluster.Histogram) > 0 {
		charts = append(charts, drawn(waitChart(r)))
	}
	return charts
}

// divide returns a/b point by point.
func divide(a, b []float64) []float64 {
	parts := make([]float64, len(a))
	for i := range a {
		if i < len(b) && b[i] > 0 {
			parts[i] = a[i] / b[i]
		}
	}
	return parts
}

// mostSiblings bounds the pools with their own colour; the others are grey.
const (
	mostSiblings = 6
	grey         = 6
)

// siblingsChart stacks the usage of the largest pools at the top of the trees, and
// of everything else.
func siblingsChart(r *outcome.Result, k resource.Kind) (chart.TimeChart, bool) {
	var top []int
	for i, p := range r.Pools {
		if p.Depth == 1 {
			top = append(top, i)
		}
	}
	slices.SortStableFunc(top, func(a, b int) int { return cmp.Compare(r.Pools[b].Got[k], r.Pools[a].Got[k]) })
	c := overTime(r, "Usage of pools", unitOf(r, k))
	rest := rootUsage(r, k)
	for i, p := range top[:min(len(top), mostSiblings)] {
		values := r.Series.Pools[p].Usage[k]
		c.Lines = append(c.Lines, chart.Line{Name: poolLabel(r, r.Pools[p].Tree, r.Pools[p].Name), Values: values, Look: chart.Stacked, Colour: i})
		for j := range min(len(rest), len(values)) {
			rest[j] -= values[j]
		}
	}
	// Rounding residues are not drawn.
	if least := 1e-4 * largest(rootUsage(r, k)); largest(rest) > least {
		name := "operations in the root"
		if others := len(top) - mostSiblings; others > 0 {
			name = grouped(int64(others)) + " others"
		}
		c.Lines = append(c.Lines, chart.Line{Name: name, Values: rest, Look: chart.Stacked, Colour: grey})
	}
	return c, len(top) > 1
}

// rootUsage adds up the usage of all trees.
func rootUsage(r *outcome.Result, k resource.Kind) (sum []float64) {
	for i, p := range r.Pools {
		if p.Depth > 0 {
			continue
		}
		values := r.Series.Pools[i].Usage[k]
		for len(sum) < len(values) {
			sum = append(sum, 0)
		}
		for j, v := range values {
			sum[j] += v
		}
	}
	return sum
}

// waitChart is the distribution of waiting times.
func waitChart(r *outcome.Result) chart.BarChart {
	c := chart.BarChart{Title: "How long jobs waited", Unit: chart.Unit{Name: "jobs that waited up to …", Whole: true}, Colour: 2}
	for _, b := range r.Cluster.Histogram {
		c.Bars = append(c.Bars, chart.Bar{Label: chart.FormatTime(b.UpTo), Value: float64(b.Count)})
	}
	return c
}

// mostPoolCharts bounds the pools with separate charts: those that got most.
const mostPoolCharts = 40

func poolSections(r *outcome.Result, primary resource.Kind) (sections []poolCharts, omitted string) {
	var chosen []int
	for i, p := range r.Pools {
		if p.Depth > 0 && (p.Asked != (outcome.Vector{}) || p.Got != (outcome.Vector{})) {
			chosen = append(chosen, i)
		}
	}
	if rest := len(chosen) - mostPoolCharts; rest > 0 {
		slices.SortStableFunc(chosen, func(a, b int) int { return cmp.Compare(r.Pools[b].Got[primary], r.Pools[a].Got[primary]) })
		chosen = chosen[:mostPoolCharts]
		slices.Sort(chosen)
		omitted = fmt.Sprintf("%d pools that got less have no charts.", rest)
	}
	for _, i := range chosen {
		sections = append(sections, poolSection(r, i, primary))
	}
	return sections, omitted
}

func poolSection(r *outcome.Result, i int, primary resource.Kind) poolCharts {
	p, s := &r.Pools[i], &r.Series.Pools[i]
	section := poolCharts{Name: poolLabel(r, p.Tree, p.Name), Note: poolNote(r, p, primary)}
	section.Charts = append(section.Charts, drawn(poolChart(r, s, primary, p.Integral || p.Guaranteed != (outcome.Vector{}))))
	if p.Integral {
		section.Charts = append(section.Charts, drawn(volumeChart(r, p, s, primary)))
	}
	var names []string
	for _, k := range used(r, primary)[1:] {
		if p.Asked[k] > 0 || p.Got[k] > 0 {
			section.More = append(section.More, drawn(poolChart(r, s, k, p.Guaranteed[k] > 0)))
			names = append(names, strings.ReplaceAll(k.String(), "_", " "))
		}
	}
	section.MoreName = strings.Join(names, ", ")
	return section
}

func poolNote(r *outcome.Result, p *outcome.Pool, k resource.Kind) string {
	note := fmt.Sprintf("asked for %s on average, was entitled to %s, got %s",
		amount(k, average(r, p.Asked, k)), amount(k, average(r, p.Entitled, k)), amount(k, average(r, p.Got, k)))
	if p.Jobs.Preempted > 0 || p.PreemptionsCaused > 0 {
		note += fmt.Sprintf("; %s jobs preempted, %s of others for it", grouped(p.Jobs.Preempted), grouped(p.PreemptionsCaused))
	}
	return note
}

// poolChart shows usage against fair share and demand. It cuts a demand far beyond
// everything else, so that the rest is visible.
func poolChart(r *outcome.Result, s *outcome.PoolSeries, k resource.Kind, guaranteed bool) chart.TimeChart {
	c := overTime(r, strings.ReplaceAll(k.String(), "_", " "), unitOf(r, k))
	most := max(largest(s.Usage[k]), largest(s.FairShare[k]), largest(s.Guaranteed[k]))
	demand := "demand"
	if asked := largest(s.Demand[k]); most > 0 && asked > 2*most {
		c.Cap = 1.2 * most
		demand = "demand, up to " + c.Unit.Format(asked)
	}
	c.Lines = []chart.Line{
		{Name: "usage", Values: s.Usage[k], Look: chart.Filled},
		{Name: "fair share", Values: s.FairShare[k], Look: chart.Wide, Colour: 2},
		{Name: demand, Values: s.Demand[k], Look: chart.Dashed, Colour: 1},
	}
	if guaranteed {
		c.Lines = append(c.Lines, chart.Line{Name: "by guarantee", Values: s.Guaranteed[k], Look: chart.Dotted, Colour: 3})
	}
	return c
}

func largest(values []float64) (most float64) {
	for _, v := range values {
		most = max(most, v)
	}
	return most
}

// volumeChart shows what an integral pool has saved, in core hours if there are
// cores.
func volumeChart(r *outcome.Result, p *outcome.Pool, s *outcome.PoolSeries, k resource.Kind) chart.TimeChart {
	c := overTime(r, "accumulated volume", chart.Unit{Name: "seconds of the tree"})
	scale := 1.0
	if k == resource.CPU && trees(r) == 1 {
		scale, c.Unit = r.Cluster.Capacity[k]/3600, chart.Unit{Name: "core hours"}
	}
	values := make([]float64, len(s.Volume))
	for i, v := range s.Volume {
		values[i] = v * scale
	}
	c.Lines = []chart.Line{{Name: "volume of " + p.Name, Values: values, Look: chart.Filled, Colour: 4}}
	return c
}

// trees counts the trees of a result.
func trees(r *outcome.Result) (count int) {
	for _, p := range r.Pools {
		if p.Depth == 0 {
			count++
		}
	}
	return count
}
