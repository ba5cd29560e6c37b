package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/treefile"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// explanation is a derivation in one resource, with names.
type explanation struct {
	Name       string            `json:"name"`
	Resource   string            `json:"resource"`
	FairShare  float64           `json:"fair_share"`
	Strong     float64           `json:"strong_guarantee"`
	Integral   float64           `json:"integral_guarantee"`
	ByWeight   float64           `json:"weight_proportional"`
	Bound      string            `json:"bound"`
	BoundBy    string            `json:"bound_by"`
	BoundIn    string            `json:"bound_resource,omitempty"`
	Says       string            `json:"says"`
	Chain      []explanationLink `json:"chain"`
	derivation fairshare.Derivation
}

type explanationLink struct {
	Name       string  `json:"name"`
	FairShare  float64 `json:"fair_share"`
	Guarantee  float64 `json:"guarantee"`
	Suggestion float64 `json:"suggestion"`
	Demand     float64 `json:"demand"`
	Limit      float64 `json:"limit"`
	Weight     float64 `json:"weight"`
	FIFOIndex  *int32  `json:"fifo_index,omitempty"`
}

func (c *sharesCall) printExplanation(file *treefile.File, result *fairshare.Result) error {
	slot, err := findElement(file, c.explain)
	if err != nil {
		return err
	}
	kind, ok := resource.ParseKind(c.resource)
	if !ok {
		kind = largestKind(result.Elements[slot].FairShare, file.Tree.Options.MainResource)
	}
	e := explain(file, result, slot, kind)
	return c.opts.print(c.out, e, func(w io.Writer) error { return c.writeExplanation(w, file, result, kind, &e) })
}

// findElement finds a pool or operation that takes part now.
func findElement(file *treefile.File, name string) (int32, error) {
	if slot, ok := file.Slot(name); ok {
		return slot, nil
	}
	for _, o := range file.Operations() {
		if file.Names[o.Slot] == name {
			return 0, fmt.Errorf("operation %s has no share: it %s", name, o.Waits)
		}
	}
	err := fmt.Errorf("there is no pool or operation %q in the file", name)
	if near, ok := document.Nearest(name, file.Names); ok {
		err = fmt.Errorf("%w; did you mean %q?", err, near)
	}
	return 0, err
}

// largestKind is the resource with the largest share; the main one if all are zero.
func largestKind(share resource.Shares, main resource.Kind) resource.Kind {
	best := main
	for _, k := range resource.Kinds {
		if share[k] > share[best] {
			best = k
		}
	}
	return best
}

func explain(file *treefile.File, result *fairshare.Result, slot int32, kind resource.Kind) explanation {
	d := fairshare.Explain(&file.Tree, result, slot)
	e := explanation{
		Name: file.Names[slot], Resource: kind.String(),
		FairShare: d.Share.Total[kind], Strong: d.Share.Strong[kind],
		Integral: d.Share.Integral[kind], ByWeight: d.Share.WeightProportional[kind],
		Bound: d.Bound.String(), BoundBy: file.Names[d.By], derivation: d,
	}
	switch d.Bound {
	case fairshare.BoundLimit, fairshare.BoundAncestorLimit, fairshare.BoundCluster:
		e.BoundIn = d.Resource.String()
	}
	for _, link := range d.Chain {
		l := explanationLink{
			Name: file.Names[link.Slot], FairShare: link.Share[kind], Guarantee: link.Guarantee[kind],
			Suggestion: link.Suggestion, Demand: link.Demand[kind], Limit: link.Limits[kind], Weight: link.Weight,
		}
		if link.FIFOIndex >= 0 {
			l.FIFOIndex = &link.FIFOIndex
		}
		e.Chain = append(e.Chain, l)
	}
	e.Says = e.sum(file) + ", bound by " + boundText(file, result, d)
	return e
}

// sum is the share by cause: "12.4 % = 5 % strong + 3.1 % burst + 4.3 % of the
// surplus".
func (e *explanation) sum(file *treefile.File) string {
	element := &file.Tree.Elements[e.derivation.Slot]
	if element.Kind == fairshare.KindOperation {
		return fmt.Sprintf("%s of %s from its pool %s", shortPercent(e.FairShare), e.Resource, file.Names[element.Parent])
	}
	integral := "integral"
	if element.Pool != nil {
		if name := guaranteeNames[element.Pool.Integral.Type]; name != "" {
			integral = name
		}
	}
	var parts []string
	for _, part := range []struct {
		share float64
		name  string
	}{{e.Strong, "strong"}, {e.Integral, integral}, {e.ByWeight, "of the surplus"}} {
		if part.share > fairshare.Epsilon {
			parts = append(parts, shortPercent(part.share)+" "+part.name)
		}
	}
	total := shortPercent(e.FairShare) + " of " + e.Resource
	if len(parts) == 0 {
		return total
	}
	return total + " = " + strings.Join(parts, " + ")
}

func boundText(file *treefile.File, result *fairshare.Result, d fairshare.Derivation) string {
	by := file.Names[d.By]
	limits := result.Attributes(&file.Tree, d.By).Limits
	limit := func() string {
		return fmt.Sprintf("%v: %s", d.Resource, shareAmount(result.Total, d.Resource, limits[d.Resource]))
	}
	switch d.Bound {
	case fairshare.BoundDemand:
		return "its demand: it gets all it demands"
	case fairshare.BoundLimit:
		return "its own limit on " + limit()
	case fairshare.BoundAncestorLimit:
		return fmt.Sprintf("the limit of pool %s on %s", by, limit())
	case fairshare.BoundCluster:
		return "the cluster: all of its " + exhausted(result, d.Resource) + " is given out"
	case fairshare.BoundFIFO:
		return fmt.Sprintf("the order of FIFO pool %s: operations before it take what the pool has", file.Names[file.Tree.Elements[d.Slot].Parent])
	case fairshare.BoundGang:
		return "being a gang: it gets all it demands or nothing, and all does not fit"
	case fairshare.BoundStep:
		return fmt.Sprintf("a step of %s: the next piece does not fit, so that a rest stays idle", by)
	}
	return d.Bound.String()
}

// exhausted names the resources of which the cluster has nothing left; if it finds none, the one
// that is known to be exhausted.
func exhausted(result *fairshare.Result, known resource.Kind) string {
	var names []string
	for _, k := range resource.Kinds {
		if result.Elements[0].FairShare[k] >= 1-fairshare.Epsilon {
			names = append(names, k.String())
		}
	}
	switch n := len(names); n {
	case 0:
		return known.String()
	case 1:
		return names[0]
	default:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
}

// savings describes what an integral pool has saved and how long that lasts.
func savings(file *treefile.File, result *fairshare.Result, slot int32, kind resource.Kind) string {
	pool := result.Pool(slot)
	if pool == nil || pool.FlowRatio == 0 || int(slot) >= len(result.States) {
		return ""
	}
	ratio := result.States[slot].Volume.Ratio(result.Total)
	total := result.Total.Float(kind)
	capacity := pool.FlowRatio * file.Tree.Options.CapacitySaturationPeriod.Seconds()
	text := fmt.Sprintf("saved %s of at most %s, with a flow of %s %v",
		resource.FormatVolume(kind, ratio*total), resource.FormatVolume(kind, capacity*total), shareAmount(result.Total, kind, pool.FlowRatio), kind)
	spent := result.States[slot].LastShareRatio - pool.FlowRatio
	if seconds := ratio / spent; spent > fairshare.Epsilon && seconds < (1000*24*time.Hour).Seconds() {
		text += ", which lasts " + document.FormatDuration(time.Duration(seconds*float64(time.Second)).Round(time.Second)) + " at this speed"
	}
	return text
}

func shortPercent(share float64) string {
	return strconv.FormatFloat(roundTo(share*100, 2), 'f', -1, 64) + " %"
}

// roundTo keeps some decimals, and more for small values, so that no nonzero value looks like zero.
func roundTo(v float64, decimals int) float64 {
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	if rounded, _ := strconv.ParseFloat(text, 64); rounded != 0 || v == 0 {
		return rounded
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 2, 64), 64)
	return rounded
}

func (c *sharesCall) writeExplanation(w io.Writer, file *treefile.File, result *fairshare.Result, kind resource.Kind, e *explanation) error {
	fmt.Fprintf(w, "%s is entitled to %s\n", c.style.paint(styleBold, e.Name), e.sum(file))
	fmt.Fprintf(w, "bound by %s\n", boundText(file, result, e.derivation))
	if text := savings(file, result, e.derivation.Slot, kind); text != "" {
		fmt.Fprintln(w, text)
	}
	fmt.Fprintln(w)
	t := newTable(w)
	t.alignRight(1, 2, 3, 4, 5, 6, 7)
	t.row("", "fair share", "", "guarantee", "offered above", "demand", "limit", "weight")
	amount := func(share float64) string { return shareAmount(result.Total, kind, share) }
	for _, link := range e.Chain {
		weight := strconv.FormatFloat(link.Weight, 'g', 4, 64)
		if link.FIFOIndex != nil {
			weight = "#" + strconv.Itoa(int(*link.FIFOIndex)+1) + " in line"
		} else if link.Name == treefile.RootName {
			weight = nothing
		}
		t.row(link.Name, amount(link.FairShare), percent(link.FairShare), amount(link.Guarantee),
			percent(link.Suggestion), amount(link.Demand), amount(link.Limit), weight)
	}
	if err := t.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nEach line is the pool of the line above it. A pool offers its children a part of every resource above\n"+
		"their guarantees, in proportion to their weights; %s means that only their own demand and limits bind them.\n", percent(1))
	return err
}
