// Package report writes the outcome of a simulation for human readers: a summary
// for the terminal, a table of time series (CSV), an HTML page with charts that
// opens without a network, and two runs side by side.
//
// It is a function of the outcome alone: equal outcomes give equal bytes. The
// package imports outcome, chart and resource.
package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/value/chart"
	"github.com/weirhq/weir/internal/value/resource"
)

// Primary returns the resource that tables and charts show first: cpu, or what
// the cluster has if it has none.
func Primary(r *outcome.Result) resource.Kind {
	kinds := r.Kinds()
	for _, k := range kinds {
		if k == resource.CPU {
			return k
		}
	}
	if len(kinds) > 0 {
		return kinds[0]
	}
	return resource.CPU
}

// unitOf returns how amounts of a resource are written on charts.
func unitOf(r *outcome.Result, k resource.Kind) chart.Unit {
	switch k {
	case resource.CPU:
		return chart.Unit{Name: "cores"}
	case resource.Memory:
		return chart.Unit{Binary: true}
	case resource.GPU:
		if r.GPUThousandths {
			return chart.Unit{Name: "thousandths of GPUs"}
		}
		return chart.Unit{Name: "GPUs"}
	}
	return chart.Unit{Name: strings.ReplaceAll(k.String(), "_", " ")}
}

// amount writes an average amount of a resource.
func amount(k resource.Kind, v float64) string {
	if k == resource.Memory {
		return chart.Unit{Binary: true}.Format(v)
	}
	switch {
	case v != 0 && v < 0.05:
		return "<0.1"
	case v < 100:
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	}
	return grouped(int64(v + 0.5))
}

// grouped writes a whole number with spaces between thousands.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, text = "-", text[1:]
	}
	var parts []string
	for len(text) > 3 {
		parts = append([]string{text[len(text)-3:]}, parts...)
		text = text[:len(text)-3]
	}
	return sign + strings.Join(append([]string{text}, parts...), " ")
}

// percent writes a part of one.
func percent(v float64) string {
	text := strconv.FormatFloat(v*100, 'f', 1, 64)
	return strings.TrimSuffix(text, ".0") + " %"
}

// ratio writes a/b in percent, or a dash if b is zero.
func ratio(a, b float64) string {
	if b == 0 {
		return "–"
	}
	return percent(a / b)
}

// lost writes work that had to be done again, in core hours for cpu.
func lost(k resource.Kind, v float64) string {
	if v == 0 {
		return "0"
	}
	if k == resource.CPU {
		return amount(k, v/3600) + " core·h"
	}
	return resource.FormatVolume(k, v)
}

// wait writes a waiting time.
func wait(w outcome.Waits, seconds float64) string {
	if w.Count == 0 {
		return "–"
	}
	return chart.FormatTime(seconds)
}

// kept writes how well a guarantee was kept.
func kept(c outcome.Compliance) string {
	if c.DemandingSeconds == 0 {
		return "–"
	}
	return percent(c.Ratio())
}

// average divides an integral by the time of the run.
func average(r *outcome.Result, v outcome.Vector, k resource.Kind) float64 {
	if r.Seconds == 0 {
		return 0
	}
	return v[k] / r.Seconds
}

// inUse returns the utilisation of a resource and its capacity.
func inUse(r *outcome.Result, k resource.Kind) (part, of string) {
	of = amount(k, r.Cluster.Capacity[k])
	if k == resource.GPU && r.GPUThousandths {
		of = amount(k, r.Cluster.Capacity[k]/1000)
	}
	return percent(r.Cluster.Utilisation[k]), of
}

// span writes the start and the end of the run.
func span(r *outcome.Result) string {
	const layout = "2006-01-02 15:04"
	end := r.Start.Add(seconds(r.Seconds))
	return fmt.Sprintf("%s of virtual time, %s to %s", chart.FormatTime(r.Seconds), r.Start.Format(layout), end.Format(layout))
}

// poolLabel names a pool; if there are several trees, with its tree.
func poolLabel(r *outcome.Result, tree, name string) string {
	for _, p := range r.Pools {
		if p.Tree != tree {
			return tree + ": " + name
		}
	}
	return name
}
