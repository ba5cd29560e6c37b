package cli

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/treefile"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// history is the history of some pools, in one resource.
type history struct {
	file   *treefile.File
	total  resource.Amounts
	kind   resource.Kind
	series []treefile.Series
}

func (c *sharesCall) printHistory(ctx context.Context, file *treefile.File) error {
	h := history{file: file, total: file.Tree.Total, kind: c.kind(file)}
	slots := file.Pools()
	if len(c.pools) > 0 {
		slots = slots[:0]
	}
	for _, name := range c.pools {
		slot, err := findAny(file, name)
		if err != nil {
			return err
		}
		slots = append(slots, slot)
	}
	span := treefile.Span{For: time.Duration(c.length), Step: time.Duration(c.step), Period: time.Duration(c.period)}
	if smooth := file.Tree.Options.SmoothPeriod; span.Period > smooth {
		fmt.Fprintf(c.errs, "weir: warning: updates every %v are too rare for integral pools, which may spend all they have in %v\n",
			span.Period, smooth)
	}
	bar := newProgress(c.errs, span.For)
	span.Watch = func(now time.Duration) bool {
		bar.show(now)
		return ctx.Err() == nil
	}
	h.series = treefile.History(file, span, slots)
	bar.clear()
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.plot != "" {
		if err := h.plot(c.plot); err != nil {
			return err
		}
	}
	switch {
	case c.csv:
		return h.writeCSV(c.out)
	case c.plot != "" && c.opts.output == outputTable:
		if err := h.writeAverages(c.out); err != nil {
			return err
		}
		_, err := fmt.Fprintf(c.out, "\ndrawn: %s\n", c.plot)
		return err
	}
	return c.opts.print(c.out, h.document(), h.writeTable)
}

// findAny is findElement for elements that may take part only later.
func findAny(file *treefile.File, name string) (int32, error) {
	for _, o := range file.Operations() {
		if file.Names[o.Slot] == name {
			return o.Slot, nil
		}
	}
	return findElement(file, name)
}

// isIntegral reports whether a series has a volume.
func (h *history) isIntegral(s *treefile.Series) bool {
	pool := h.file.Tree.Elements[s.Slot].Pool
	return pool != nil && pool.Integral.Type != fairshare.NoIntegral
}

func (h *history) amount(share float64) string { return shareAmount(h.total, h.kind, share) }

// volume is a ratio volume in the unit of the resource.
func (h *history) volume(ratio float64) string {
	if ratio == 0 {
		return nothing
	}
	return resource.FormatVolume(h.kind, ratio*h.total.Float(h.kind))
}

// writeTable writes a line for every sample and a group of columns for every pool.
func (h *history) writeTable(w io.Writer) error {
	fmt.Fprintf(w, "cluster: %v; amounts are of %v\n\n", h.total, h.kind)
	t := newTable(w)
	names, header := []string{""}, []string{"time"}
	for i := range h.series {
		s := &h.series[i]
		names = append(names, s.Name, "")
		header = append(header, "demand", "entitled")
		if h.isIntegral(s) {
			names = append(names, "", "")
			header = append(header, "integral", "saved")
		}
	}
	for column := range header {
		if column > 0 {
			t.alignRight(column)
		}
	}
	t.row(names...)
	t.row(header...)
	if len(h.series) > 0 {
		for n := range h.series[0].Samples {
			row := []string{document.FormatDuration(h.series[0].Samples[n].At)}
			for i := range h.series {
				s := &h.series[i]
				sample := &s.Samples[n]
				row = append(row, h.amount(sample.Demand[h.kind]), h.amount(sample.FairShare.Total[h.kind]))
				if h.isIntegral(s) {
					row = append(row, h.amount(sample.FairShare.Integral[h.kind]), h.volume(sample.RatioVolume))
				}
			}
			t.row(row...)
		}
		row := []string{"average"}
		for i := range h.series {
			s := &h.series[i]
			row = append(row, "", h.amount(s.Mean.Total[h.kind]))
			if h.isIntegral(s) {
				row = append(row, h.amount(s.Mean.Integral[h.kind]), "")
			}
		}
		t.row(row...)
	}
	return t.flush()
}

// writeAverages writes a line for every pool.
func (h *history) writeAverages(w io.Writer) error {
	t := newTable(w)
	t.alignRight(1, 2, 3, 4, 5)
	t.row(fmt.Sprintf("average %v", h.kind), "entitled", "strong", "integral", "by weight", "saved at the end")
	for i := range h.series {
		s := &h.series[i]
		saved := nothing
		if n := len(s.Samples); n > 0 && h.isIntegral(s) {
			saved = h.volume(s.Samples[n-1].RatioVolume)
		}
		t.row(s.Name, h.amount(s.Mean.Total[h.kind]), h.amount(s.Mean.Strong[h.kind]),
			h.amount(s.Mean.Integral[h.kind]), h.amount(s.Mean.WeightProportional[h.kind]), saved)
	}
	return t.flush()
}

var historyColumns = []string{
	"time_seconds", "pool", "resource", "demand", "fair_share", "strong_guarantee", "integral_guarantee", "weight_proportional",
	"mean_fair_share", "accumulated_resource_volume", "accumulated_resource_ratio_volume", "integral_pool_capacity_ratio",
}

// writeCSV writes a line for every pool and sample. Amounts are in the unit of the resource,
// volumes in that unit × seconds, ratios in seconds of the whole cluster.
func (h *history) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	out.Write(historyColumns)
	if len(h.series) == 0 {
		out.Flush()
		return out.Error()
	}
	total := h.total.Float(h.kind)
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	amount := func(share resource.Shares) string { return number(share[h.kind] * total) }
	for n := range h.series[0].Samples {
		for i := range h.series {
			s := &h.series[i]
			sample := &s.Samples[n]
			split := &sample.FairShare
			out.Write([]string{
				number(sample.At.Seconds()), s.Name, h.kind.String(), amount(sample.Demand), amount(split.Total),
				amount(split.Strong), amount(split.Integral), amount(split.WeightProportional), amount(sample.Mean.Total),
				number(sample.Volume[h.kind]), number(sample.RatioVolume), number(sample.CapacityRatio),
			})
		}
	}
	out.Flush()
	return out.Error()
}

// historyDocument is the history for programs.
type historyDocument struct {
	Resource string          `json:"resource"`
	Total    float64         `json:"total"`
	Series   []seriesElement `json:"series"`
}

type seriesElement struct {
	Name    string          `json:"name"`
	Average historyShare    `json:"average"`
	Samples []historySample `json:"samples"`
}

// historyShare is a share in the unit of the resource.
type historyShare struct {
	FairShare float64 `json:"fair_share"`
	Strong    float64 `json:"strong_guarantee"`
	Integral  float64 `json:"integral_guarantee"`
	ByWeight  float64 `json:"weight_proportional"`
}

type historySample struct {
	Time   float64 `json:"time_seconds"`
	Demand float64 `json:"demand"`
	historyShare
	RatioVolume   *float64 `json:"accumulated_resource_ratio_volume,omitempty"`
	CapacityRatio *float64 `json:"integral_pool_capacity_ratio,omitempty"`
}

func (h *history) document() historyDocument {
	total := h.total.Float(h.kind)
	share := func(s fairshare.Split) historyShare {
		return historyShare{
			s.Total[h.kind] * total, s.Strong[h.kind] * total, s.Integral[h.kind] * total, s.WeightProportional[h.kind] * total,
		}
	}
	d := historyDocument{Resource: h.kind.String(), Total: total, Series: []seriesElement{}}
	for i := range h.series {
		s := &h.series[i]
		element := seriesElement{Name: s.Name, Average: share(s.Mean)}
		for n := range s.Samples {
			from := &s.Samples[n]
			sample := historySample{Time: from.At.Seconds(), Demand: from.Demand[h.kind] * total, historyShare: share(from.FairShare)}
			if h.isIntegral(s) {
				sample.RatioVolume, sample.CapacityRatio = &from.RatioVolume, &from.CapacityRatio
			}
			element.Samples = append(element.Samples, sample)
		}
		d.Series = append(d.Series, element)
	}
	return d
}

// plot draws into a file, which it replaces as a whole.
func (h *history) plot(name string) error {
	return os.WriteFile(name, h.draw(), 0o644)
}
