package forecast

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weirhq/weir/internal/sim/distribution"
)

// Accuracy is how well the forecasts of a trial held.
type Accuracy struct {
	Arrived int              `json:"arrived"` // operations
	Waited  int              `json:"waited"`  // of them, those that could not start at once
	Made    int              `json:"made"`    // of them, those with a forecast
	Targets []TargetAccuracy `json:"targets"`
}

// TargetAccuracy is the accuracy of forecasts of one target, by method.
type TargetAccuracy struct {
	Target string `json:"target"`
	// Scored counts the forecasts that were calibrated and whose outcomes are known.
	Scored  int              `json:"scored"`
	Methods []MethodAccuracy `json:"methods"`
}

// MethodAccuracy is the accuracy of one method.
type MethodAccuracy struct {
	Method string `json:"method"`
	// IsBaseline marks the simpler methods that forecasts are compared with: history,
	// the mean, and single runs.
	IsBaseline bool `json:"is_baseline"`
	// Coverage is the part of the outcomes within the nominal 90 % interval, with a
	// 95 % interval from a bootstrap of days; Below and Above are the parts beyond
	// its ends.
	Coverage     float64 `json:"coverage"`
	CoverageFrom float64 `json:"coverage_from"`
	CoverageTo   float64 `json:"coverage_to"`
	Below        float64 `json:"below"`
	Above        float64 `json:"above"`
	// Width is the median length of intervals in seconds, and LogWidth their mean
	// length on the logarithmic scale.
	Width    float64 `json:"width_seconds"`
	LogWidth float64 `json:"width_log"`
	// Loss and LogLoss are the mean pinball losses.
	Loss    float64 `json:"pinball_seconds"`
	LogLoss float64 `json:"pinball_log"`
}

const bootstraps = 2000

// rival is a method that is compared with others.
type rival uint8

const (
	shown rival = iota
	ensembleRaw
	ensembleCorrected
	historyRaw
	historyCorrected
	historyOfAll
	meanOfRecent
	oneRunMean
	oneRunLimits
	rivalCount
)

var rivalNames = [rivalCount]string{
	"published", "ensemble, raw", "ensemble, conformal", "history by size", "history by size, conformal", "history of all sizes",
	"mean of recent", "one run, mean run times", "one run, limits (the longest so far)",
}

// scored is a record with the answers of all methods.
type scored struct {
	*Record
	rivals [rivalCount]Quantiles
}

// Judge publishes the forecasts of a collection one after the other, as they were
// made, and scores those that are calibrated. A forecast is corrected only by
// outcomes that were known when it was made.
func (c *Collection) Judge() *Accuracy {
	a := &Accuracy{Arrived: c.Arrived, Waited: c.Waited, Made: c.Made}
	keeper := NewKeeper()
	type open struct {
		Forecast
		known time.Time
		y     float64
	}
	var waiting []*open
	var lists [TargetCount][]scored
	for _, r := range c.Records {
		slices.SortStableFunc(waiting, func(a, b *open) int { return a.known.Compare(b.known) })
		for len(waiting) > 0 && !waiting[0].known.After(r.Made) {
			keeper.Settle(&waiting[0].Forecast, waiting[0].y)
			waiting = waiting[1:]
		}
		f, _ := keeper.Publish(r.Place, r.Target, r.Made, 0, r.Raw)
		if r.Outcome < 0 {
			continue
		}
		waiting = append(waiting, &open{f, r.Made.Add(time.Duration(r.Outcome * float64(time.Second))), r.Outcome})
		if f.Calibrated && r.Raw.There[ByHistory] {
			point := func(at float64) Quantiles { return Quantiles{at, at, at} }
			lists[r.Target] = append(lists[r.Target], scored{r, [rivalCount]Quantiles{
				shown: f.Shown(), ensembleRaw: r.Raw.Quantiles[ByEnsemble], ensembleCorrected: f.Corrected[ByEnsemble],
				historyRaw: r.Raw.Quantiles[ByHistory], historyCorrected: f.Corrected[ByHistory], historyOfAll: r.OfAll,
				meanOfRecent: point(r.Mean), oneRunMean: point(r.Runs[0]), oneRunLimits: point(r.Runs[1]),
			}})
		}
	}
	for target, list := range lists {
		t := TargetAccuracy{Target: Target(target).String(), Scored: len(list)}
		for r := range rivalCount {
			t.Methods = append(t.Methods, accuracyOf(r, list, distribution.Seed(c.Seed)))
		}
		a.Targets = append(a.Targets, t)
	}
	return a
}

// accuracyOf compares the forecasts of one method with their outcomes.
func accuracyOf(r rival, list []scored, seed distribution.Seed) MethodAccuracy {
	m := MethodAccuracy{Method: rivalNames[r], IsBaseline: r > ensembleCorrected && r != historyCorrected}
	n := float64(len(list))
	var widths []float64
	type day struct{ held, all float64 }
	days := map[int64]int{}
	var blocks []day
	for _, s := range list {
		q := s.rivals[r]
		date := s.Made.Unix() / int64((24 * time.Hour).Seconds())
		at, ok := days[date]
		if !ok {
			at = len(blocks)
			days[date] = at
			blocks = append(blocks, day{})
		}
		blocks[at].all++
		switch {
		case s.Outcome < q[0]:
			m.Below++
		case s.Outcome > q[2]:
			m.Above++
		default:
			m.Coverage++
			blocks[at].held++
		}
		widths = append(widths, q[2]-q[0])
		m.LogWidth += logTime(q[2]) - logTime(q[0])
		m.Loss += Loss(q, s.Outcome)
		m.LogLoss += LogLoss(q, s.Outcome)
	}
	if len(list) == 0 {
		return m
	}
	for _, sum := range []*float64{&m.Coverage, &m.Below, &m.Above, &m.LogWidth, &m.Loss, &m.LogLoss} {
		*sum /= n
	}
	slices.Sort(widths)
	m.Width = quantile(widths, 0.5)
	stream := seed.Named("bootstrap").Stream()
	again := make([]float64, bootstraps)
	for i := range again {
		var sum day
		for range blocks {
			b := blocks[int(stream.Float64()*float64(len(blocks)))]
			sum.held, sum.all = sum.held+b.held, sum.all+b.all
		}
		again[i] = sum.held / sum.all
	}
	slices.Sort(again)
	m.CoverageFrom, m.CoverageTo = quantile(again, 0.025), quantile(again, 0.975)
	return m
}

// Write writes the tables as Markdown.
func (a *Accuracy) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d operations arrived, %d could not start at once, %d forecasts were made.\n", a.Arrived, a.Waited, a.Made)
	for _, t := range a.Targets {
		fmt.Fprintf(&b, "\n%s, %d scored\n\n", t.Target, t.Scored)
		table := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
		fmt.Fprintln(table, "| method\t| cover\t| 95 % interval\t| below, above\t| width\t| log width\t| pinball s\t| log\t|")
		fmt.Fprintln(table, "|---\t|---\t|---\t|---\t|---\t|---\t|---\t|---\t|")
		for _, m := range t.Methods {
			fmt.Fprintf(table, "| %s\t| %s\t| %s–%s\t| %s, %s\t| %.0f s\t| %.2f\t| %.1f\t| %.4f\t|\n", m.Method, percent(m.Coverage), percent(m.CoverageFrom),
				percent(m.CoverageTo), percent(m.Below), percent(m.Above), m.Width, m.LogWidth, m.Loss, m.LogLoss)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func percent(part float64) string { return fmt.Sprintf("%.1f %%", math.Round(part*1000)/10) }
