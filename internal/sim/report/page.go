package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/value/chart"
	"github.com/weirhq/weir/internal/value/resource"
)

//go:embed page.css
var pageStyle string

//go:embed page.html
var pageText string

var pages = template.Must(template.New("pages").Parse(pageText))

// page is the data of the template "report".
type page struct {
	frame
	Description, Subtitle string
	Stalled               bool
	Troubles              []string
	Seed                  uint64
	Cards                 []card
	Expectations          table
	Cluster               []template.HTML
	Pools                 table
	PoolsNote             string
	PoolCharts            []poolCharts
	PoolsOmitted          string
	Operations            table
	OperationsNote        string
	Work                  table
}

// frame is what every page has.
type frame struct {
	Title  string
	Style  template.CSS
	Script template.JS
}

func newFrame(title string) frame {
	return frame{Title: title, Style: template.CSS(pageStyle + chart.Style), Script: template.JS(chart.Script)}
}

type card struct{ Name, Value, Note, Tone string }

type table struct {
	Header []string
	// Left is how many columns are aligned to the left.
	Left int
	Rows [][]cell
}

type cell struct {
	Text   string
	Class  string
	Indent int
}

func text(values ...string) (cells []cell) {
	for _, v := range values {
		cells = append(cells, cell{Text: v})
	}
	return cells
}

type poolCharts struct {
	Name, Note string
	Charts     []template.HTML
	// More are charts of other resources, shown on demand.
	More     []template.HTML
	MoreName string
}

// HTML writes a page with all figures and charts. It loads nothing from
// elsewhere.
func HTML(w io.Writer, r *outcome.Result) error {
	k := Primary(r)
	p := page{
		frame: newFrame(r.Scenario), Description: r.Description, Subtitle: span(r), Stalled: r.Stalled, Troubles: troubles(r), Seed: r.Seed,
		Cards: cards(r, k), Expectations: expectationTable(r), Cluster: clusterCharts(r, k),
		Operations: operationTable(r, k), Work: workTable(r),
		PoolsNote: fmt.Sprintf("Asked, entitled and got are averages of %v over the run. A guarantee is kept while the pool has 99 %% of what it is guaranteed and asks for.", k),
	}
	var omitted string
	p.Pools, omitted = poolTable(r, k)
	p.PoolsNote += omitted
	p.PoolCharts, p.PoolsOmitted = poolSections(r, k)
	if n := r.OperationsOmitted; n > 0 {
		p.OperationsNote = fmt.Sprintf("Out of the first %s; %s more are not listed one by one.", grouped(int64(len(r.Operations))), grouped(int64(n)))
	}
	return render(w, "report", p)
}

// render writes a page only if all of it can be made.
func render(w io.Writer, name string, data any) error {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, data); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func cards(r *outcome.Result, k resource.Kind) (list []card) {
	c := &r.Cluster
	part, of := inUse(r, k)
	list = append(list, card{Name: k.String() + " in use", Value: part, Note: "of " + of + " on " + grouped(int64(c.Nodes)) + " nodes"})
	if k != resource.GPU && c.Capacity[resource.GPU] > 0 {
		part, of = inUse(r, resource.GPU)
		list = append(list, card{Name: "gpu in use", Value: part, Note: "of " + of})
	}
	list = append(list, card{Name: "jobs completed", Value: grouped(c.Jobs.Completed), Note: grouped(c.Jobs.Started) + " started"})
	list = append(list, card{Name: "operations completed", Value: grouped(c.Operations.Completed), Note: operationsNote(c.Operations)})
	if c.Waits.Count > 0 {
		list = append(list, card{Name: "a job waits (median)", Value: chart.FormatTime(c.Waits.P50), Note: "p99 " + chart.FormatTime(c.Waits.P99) + ", max " + chart.FormatTime(c.Waits.Max)})
	}
	list = append(list, card{Name: "preemptions", Value: grouped(c.Jobs.Preempted), Note: lost(resource.CPU, c.Lost[resource.CPU]) + " lost"})
	if n := len(r.Expectations); n > 0 {
		failed := len(r.Failed())
		e := card{Name: "expectations", Value: "all hold", Note: fmt.Sprintf("%d checked", n), Tone: "good"}
		if failed > 0 {
			e.Value, e.Tone = fmt.Sprintf("%d failed", failed), "bad"
		}
		list = append(list, e)
	}
	return list
}

func operationsNote(o outcome.OperationCounts) string {
	parts := []string{"of " + grouped(o.Arrived)}
	for _, more := range []struct {
		name  string
		count int64
	}{{"failed", o.Failed}, {"aborted", o.Aborted}, {"rejected", o.Rejected}, {"unfinished", o.Unfinished}} {
		if more.count > 0 {
			parts = append(parts, grouped(more.count)+" "+more.name)
		}
	}
	return strings.Join(parts, ", ")
}

// expectationTable lists those that failed first.
func expectationTable(r *outcome.Result) table {
	t := table{Header: []string{"", "of", "expected", "found", "where"}, Left: 2}
	list := slices.Clone(r.Expectations)
	slices.SortStableFunc(list, func(a, b outcome.Expectation) int {
		return cmp.Compare(fmt.Sprint(a.Held), fmt.Sprint(b.Held))
	})
	for _, e := range list {
		mark, tone := "✓ ", "good"
		if !e.Held {
			mark, tone = "✗ ", "bad"
		}
		t.Rows = append(t.Rows, []cell{
			{Text: mark + e.Figure, Class: tone}, {Text: e.Subject}, {Text: e.Want}, {Text: e.Got}, {Text: e.Where, Class: "faint"},
		})
	}
	return t
}

// mostPoolRows bounds the pools that a page lists: those that got most.
const mostPoolRows = 200

// poolTable lists pools. omitted describes those that it leaves out.
func poolTable(r *outcome.Result, k resource.Kind) (t table, omitted string) {
	shown, left, got := chosenPools(r, k, mostPoolRows)
	if left > 0 {
		omitted = fmt.Sprintf(" There are %s, which got %s together.", more(left), amount(k, got))
	}
	rows := poolRows(r, k, shown, func(name string) string { return name })
	t = table{Header: rows[0], Left: 1}
	for i := range r.Pools {
		if !shown[i] {
			continue
		}
		row := rows[len(t.Rows)+1]
		cells := text(row...)
		p := &r.Pools[i]
		cells[0] = cell{Text: strings.TrimSpace(row[0]), Indent: 10 + 18*p.Depth}
		if c := p.Guarantee; c.DemandingSeconds > 0 {
			cells[10].Class = "good"
			if c.Ratio() < 0.9 {
				cells[10].Class = "bad"
			} else if c.Ratio() < 0.99 {
				cells[10].Class = "warn"
			}
		}
		t.Rows = append(t.Rows, cells)
	}
	return t, omitted
}

// mostOperations bounds the table of operations.
const mostOperations = 30

func operationTable(r *outcome.Result, k resource.Kind) table {
	t := table{Header: []string{"operation", "pool", "state", "arrived", "first job after", "jobs wait (mean)", "finished", "jobs", "got (average)", "preempted", "caused", "work lost"}, Left: 3}
	list := slices.Clone(r.Operations)
	slices.SortStableFunc(list, func(a, b outcome.Operation) int {
		return cmp.Or(cmp.Compare(longest(r, &b), longest(r, &a)), cmp.Compare(a.Arrived, b.Arrived))
	})
	for _, o := range list[:min(len(list), mostOperations)] {
		started, finished := "never", "–"
		if o.Started >= 0 {
			started = chart.FormatTime(o.Started - o.Arrived)
		}
		lasted := r.Seconds - o.Arrived
		if o.Finished >= 0 {
			finished = chart.FormatTime(o.Finished)
			lasted = o.Finished - o.Arrived
		}
		got := 0.0
		if lasted > 0 {
			got = o.Got[k] / lasted
		}
		cells := text(o.Name, o.Pool, o.State, chart.FormatTime(o.Arrived), started, chart.FormatTime(o.MeanWait), finished,
			jobsDone(&o), amount(k, got),
			grouped(o.Jobs.Preempted), grouped(o.PreemptionsCaused), lost(k, o.Lost[k]))
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// jobsDone writes how many jobs of an operation have completed, and out of how
// many if that is known.
func jobsDone(o *outcome.Operation) string {
	if o.JobCount == 0 {
		return grouped(o.Jobs.Completed)
	}
	return grouped(o.Jobs.Completed) + " of " + grouped(int64(o.JobCount))
}

// longest is how long an operation waited for its first job or, if that is
// longer, its jobs on average.
func longest(r *outcome.Result, o *outcome.Operation) float64 {
	if o.Started < 0 {
		if o.Finished >= 0 {
			return 0
		}
		return r.Seconds - o.Arrived
	}
	return max(o.Started-o.Arrived, o.MeanWait)
}

func workTable(r *outcome.Result) table {
	t := table{Header: []string{"what", "count"}, Left: 1}
	w := r.Cluster.Work
	for _, row := range []struct {
		name  string
		count int64
	}{{"heartbeats", w.Heartbeats}, {"updates of fair shares", w.Updates}, {"decisions", w.Decisions}} {
		t.Rows = append(t.Rows, text(row.name, grouped(row.count)))
	}
	for _, s := range r.Cluster.Stages {
		t.Rows = append(t.Rows, text("jobs started in stage "+s.Name, grouped(s.Count)))
	}
	for _, s := range r.Cluster.Reasons {
		t.Rows = append(t.Rows, text("jobs stopped: "+s.Name, grouped(s.Count)))
	}
	return t
}
