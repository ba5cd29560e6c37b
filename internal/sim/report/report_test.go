package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

// small is a run with figures that are easy to check by hand.
func small() *outcome.Result {
	hour := 3600.0
	cpu := func(v float64) outcome.Vector { return outcome.Vector{resource.CPU: v} }
	r := &outcome.Result{
		Format: outcome.Format, Scenario: "small", Description: "Two pools <b>on</b> ten cores.", Seed: 3,
		Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Seconds: 2 * hour,
		Cluster: outcome.Cluster{
			Nodes: 2, Capacity: outcome.Vector{resource.CPU: 10, resource.Memory: 64 << 30, resource.UserSlots: 10},
			Utilisation: outcome.Vector{resource.CPU: 0.75, resource.Memory: 0.5, resource.UserSlots: 0.75},
			Used:        outcome.Vector{resource.CPU: 15 * hour, resource.Memory: 64 * hour * (1 << 30), resource.UserSlots: 15 * hour},
			Lost:        cpu(1.5 * hour), Jobs: outcome.Jobs{Started: 1234, Completed: 1200, Preempted: 12, LostWithNodes: 3},
			Waits:          outcome.Waits{Count: 1234, Mean: 40, P50: 4, P90: 90, P99: 600, Max: 3600},
			OperationWaits: outcome.Waits{Count: 2, P50: 1, P99: 30},
			Operations:     outcome.OperationCounts{Arrived: 4, Completed: 2, Rejected: 1, Unfinished: 1},
			Stages:         []outcome.Count{{Name: "regular", Count: 1222}, {Name: "preemptive", Count: 12}},
			Reasons:        []outcome.Count{{Name: "starvation", Count: 12}},
			Work:           outcome.Work{Heartbeats: 2880, Updates: 7200, Decisions: 1246},
			Histogram:      []outcome.HistogramBucket{{UpTo: 1, Count: 100}, {UpTo: 5, Count: 800}, {UpTo: 10, Count: 334}},
		},
		Pools: []outcome.Pool{
			{Tree: "default", Name: "<Root>", Entitled: cpu(15 * hour), Asked: cpu(30 * hour), Got: cpu(15 * hour)},
			{
				Tree: "default", Name: "first", Parent: "<Root>", Depth: 1, Integral: true, Volume: 100,
				Entitled: cpu(10 * hour), Guaranteed: cpu(8 * hour), Asked: cpu(20 * hour), Got: cpu(9 * hour),
				Jobs: outcome.Jobs{Started: 1000, Completed: 990}, PreemptionsCaused: 12, StarvingSeconds: 95,
				Waits:     outcome.Waits{Count: 1000, P50: 3, P99: 500},
				Guarantee: outcome.Compliance{DemandingSeconds: 2 * hour, BelowSeconds: 0.2 * hour, LongestSeconds: 300},
			},
			{
				Tree: "default", Name: "<script>alert(1)</script>", Parent: "<Root>", Depth: 1,
				Entitled: cpu(5 * hour), Asked: cpu(10 * hour), Got: cpu(6 * hour), Lost: cpu(1.5 * hour),
				Jobs: outcome.Jobs{Started: 234, Completed: 210, Preempted: 12},
			},
		},
		Operations: []outcome.Operation{
			{Name: "x", Pool: "first", State: "completed", Arrived: 0, Started: 1, Finished: hour, JobCount: 100, MeanWait: 20, Got: cpu(hour)},
			{Name: "y", Pool: "second", State: "running", Arrived: 60, Started: -1, Finished: -1, JobCount: 10},
		},
		Expectations: []outcome.Expectation{
			{Where: "s.yaml:9: expect/0", Subject: "pool first", Figure: "usage/cpu at 1h", Want: "5", Got: "5", Held: true},
			{Where: "s.yaml:10: expect/1", Subject: "operation y", Figure: "state at the end", Want: "completed", Got: "running"},
		},
	}
	r.Series = outcome.Series{Step: 1800, Cluster: outcome.ClusterSeries{
		RunningJobs: []float64{5, 8, 8, 9}, PendingJobs: []float64{0, 2, 4, 8}, Preemptions: []float64{0, 12, 0, 0},
	}}
	for _, k := range r.Kinds() {
		r.Series.Cluster.Capacity[k] = []float64{10, 10, 10, 10}
		r.Series.Cluster.Usage[k] = []float64{5, 8, 8, 9}
	}
	for _, p := range r.Pools {
		s := outcome.PoolSeries{Tree: p.Tree, Name: p.Name, Preemptions: []float64{0, 1, 0, 0}}
		if p.Integral {
			s.Volume = []float64{50, 60, 70, 80}
		}
		for _, k := range r.Kinds() {
			s.FairShare[k], s.Guaranteed[k] = []float64{4, 4, 5, 5}, []float64{4, 4, 4, 4}
			s.Usage[k], s.Demand[k] = []float64{3, 4, 5, 5}, []float64{50, 40, 30, 30}
		}
		r.Series.Pools = append(r.Series.Pools, s)
	}
	return r
}

func golden(t *testing.T, name string, write func(io.Writer) error) {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	expected.File(t, "testdata/"+name, b.String())
}

func TestTheSummaryOfARun(t *testing.T) {
	golden(t, "summary.txt", func(w io.Writer) error { return Summary(w, small(), resource.CPU) })
}

func TestTheTimeSeriesOfARun(t *testing.T) {
	golden(t, "series.csv", func(w io.Writer) error { return CSV(w, small()) })
}

func TestTwoRunsSideBySide(t *testing.T) {
	a, b := small(), small()
	b.Scenario = "other"
	b.Cluster.Utilisation[resource.CPU] = 0.9
	b.Cluster.Waits.P99 = 60
	b.Cluster.Jobs.Preempted = 0
	b.Pools[1].Got[resource.CPU] *= 1.5
	b.Pools[2].Name, b.Series.Pools[2].Name = "new", "new"
	golden(t, "compare.txt", func(w io.Writer) error { return CompareText(w, a, b, Labels{B: "b.json"}) })
}

// external matches everything that a browser would load from another place.
var external = regexp.MustCompile(`(?i)(src|href|action)\s*=|@import|url\(|<link|<iframe|fetch\(|import\(`)

func TestPagesLoadNothingAndEscapeNames(t *testing.T) {
	a, b := small(), small()
	for name, write := range map[string]func(io.Writer) error{
		"report":     func(w io.Writer) error { return HTML(w, a) },
		"comparison": func(w io.Writer) error { return CompareHTML(w, a, b, Labels{A: "<a>", B: "b"}) },
	} {
		var page bytes.Buffer
		if err := write(&page); err != nil {
			t.Fatal(err)
		}
		text := page.String()
		if found := external.FindString(text); found != "" {
			t.Errorf("the %s has %q in it", name, found)
		}
		if strings.Contains(text, "<script>alert") || strings.Contains(text, "<b>on</b>") || strings.Contains(text, "<a>") {
			t.Errorf("names in the %s are not escaped", name)
		}
		if strings.Count(text, "<svg") < 4 || strings.Count(text, "<svg") != strings.Count(text, "</svg>") {
			t.Errorf("the %s has %d charts", name, strings.Count(text, "<svg"))
		}
		var again bytes.Buffer
		if write(&again); !bytes.Equal(page.Bytes(), again.Bytes()) {
			t.Errorf("the %s differs from itself", name)
		}
	}
}

func TestThePageHasItsFiguresAndCharts(t *testing.T) {
	var page bytes.Buffer
	if err := HTML(&page, small()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Part of the cluster in use", "Usage of pools", "How long jobs waited", "Preemptions", "accumulated volume",
		">usage<", ">fair share<", ">demand, up to 50<", "1 failed", "✗ state at the end", "Two pools &lt;b&gt;on",
		"operation y", "guarantee kept", "jobs started in stage preemptive",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

func TestAnEmptyRunHasAReport(t *testing.T) {
	r := &outcome.Result{Format: outcome.Format, Scenario: "empty"}
	for _, write := range []func(io.Writer) error{
		func(w io.Writer) error { return HTML(w, r) },
		func(w io.Writer) error { return CSV(w, r) },
		func(w io.Writer) error { return Summary(w, r, Primary(r)) },
		func(w io.Writer) error { return CompareHTML(w, r, r, Labels{}) },
		func(w io.Writer) error { return CompareText(w, r, r, Labels{}) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil || b.Len() == 0 {
			t.Errorf("%v", err)
		}
	}
}

func TestSeriesOfDifferentStepsAreJoined(t *testing.T) {
	if got := coarser([]float64{1, 3, 5, 7, 9}, 10, 20, false); !cmp.Equal(got, []float64{2, 6, 9}) {
		t.Errorf("averages %v", got)
	}
	if got := coarser([]float64{1, 3, 5, 7, 9}, 10, 20, true); !cmp.Equal(got, []float64{4, 12, 9}) {
		t.Errorf("counts %v", got)
	}
	if got := coarser([]float64{1, 3}, 10, 10, true); !cmp.Equal(got, []float64{1, 3}) {
		t.Errorf("equal steps %v", got)
	}
}

func TestNumbersAreWrittenForPeople(t *testing.T) {
	for got, want := range map[string]string{
		grouped(1234567): "1 234 567", grouped(-1234): "-1 234", grouped(12): "12",
		percent(0.5): "50 %", percent(0.9876): "98.8 %", ratio(1, 0): "–",
		amount(resource.CPU, 12.34): "12.3", amount(resource.CPU, 1234.5): "1 235", amount(resource.CPU, 0.001): "<0.1",
		amount(resource.Memory, 3<<30): "3 GiB", lost(resource.CPU, 5400): "1.5 core·h", lost(resource.CPU, 0): "0",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestOfManyPoolsThoseThatGotMostAreShownWithAllAboveThem(t *testing.T) {
	depths := []int{0, 1, 2, 2, 1, 2, 1}
	got := chosen(depths, []float64{10, 1, 0, 1, 4, 4, 5}, 3)
	if want := []bool{true, false, false, false, true, false, true}; !cmp.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	got = chosen(depths, []float64{0, 0, 0, 7, 0, 0, 0}, 1)
	if want := []bool{true, true, false, true, false, false, false}; !cmp.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// many is a run with a thousand pools. Pool n used n cores, and one pool is below
// another.
func many() *outcome.Result {
	r := small()
	r.Pools, r.Series.Pools = r.Pools[:1], r.Series.Pools[:1]
	for n := range 1000 {
		name := fmt.Sprintf("pool-%03d", n)
		p := outcome.Pool{Tree: "default", Name: name, Parent: "<Root>", Depth: 1, Got: outcome.Vector{resource.CPU: float64(n) * r.Seconds}}
		r.Pools, r.Series.Pools = append(r.Pools, p), append(r.Series.Pools, outcome.PoolSeries{Tree: "default", Name: name})
		if n == 0 {
			p.Name, p.Depth, p.Parent = "below", 2, name
			r.Pools, r.Series.Pools = append(r.Pools, p), append(r.Series.Pools, outcome.PoolSeries{Tree: "default", Name: "below"})
		}
	}
	return r
}

func TestThousandsOfPoolsAreSummarised(t *testing.T) {
	var text, page bytes.Buffer
	r := many()
	if err := errors.Join(Summary(&text, r, resource.CPU), HTML(&page, r)); err != nil {
		t.Fatal(err)
	}
	// The report lists the root and the 60 largest pools; the others used 0 to 939 cores.
	if want := "and 941 more pools, which got 441 330 together"; !strings.Contains(text.String(), want) || strings.Count(text.String(), "pool-") != 60 {
		t.Errorf("no %q in\n%s", want, text.String())
	}
	for _, want := range []string{"There are 801 more pools", "994 others", "959 pools that got less have no charts."} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

func TestDatesAreOnTheAxisWhereTheyMeanSomething(t *testing.T) {
	r := small()
	r.Dated, r.Start = true, time.Date(1993, 10, 1, 7, 0, 0, 0, time.UTC)
	var page bytes.Buffer
	if err := HTML(&page, r); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page.String(), ">08:30<") || strings.Contains(page.String(), ">1h</text>") {
		t.Error("the axis has no times of day")
	}
}

func TestThousandthsOfGPUsAreCalledSo(t *testing.T) {
	r := small()
	r.GPUThousandths = true
	r.Cluster.Capacity[resource.GPU], r.Cluster.Used[resource.GPU] = 8000, 1
	r.Pools[1].Got[resource.GPU] = 1
	var text, page bytes.Buffer
	if err := errors.Join(Summary(&text, r, resource.CPU), HTML(&page, r)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "0 % of 8\n") || !strings.Contains(page.String(), "thousandths of GPUs") {
		t.Errorf("%s", text.String())
	}
}

func TestRejectedOperationsAndThoseThatStallARunAreNamed(t *testing.T) {
	r := small()
	r.Stalled = true
	for range 6 {
		r.Operations = append(r.Operations, outcome.Operation{Name: "z", State: "rejected", Reason: "there is no pool tree <x>", Started: -1, Finished: -1})
	}
	var text, page bytes.Buffer
	if err := errors.Join(Summary(&text, r, resource.CPU), HTML(&page, r)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nrunning y: got no room for its jobs\nrejected z: there is no pool tree <x>\n", "\nand 2 more; -o json has all\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if !strings.Contains(page.String(), "rejected z: there is no pool tree &lt;x&gt;") {
		t.Error("the page does not say why operations were rejected")
	}
}
