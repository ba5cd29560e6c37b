package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/value/chart"
	"github.com/weirhq/weir/internal/value/resource"
)

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// mostPools bounds the pools that a summary lists: those that got most.
const mostPools = 60

// Summary writes the figures of a run for the terminal. Amounts are of one
// resource, averaged over the run.
func Summary(w io.Writer, r *outcome.Result, kind resource.Kind) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%s: %s, seed %d\n", r.Scenario, span(r), r.Seed)
	if r.Stalled {
		fmt.Fprintln(b, "The run was ended because nothing could start any more.")
	}
	fmt.Fprintln(b)
	writeTable(b, clusterRows(r), "lr")
	fmt.Fprintln(b)
	shown, omitted, got := chosenPools(r, kind, mostPools)
	writeTable(b, poolRows(r, kind, shown, shortName), "lr")
	if omitted > 0 {
		fmt.Fprintf(b, "and %s, which got %s together\n", more(omitted), amount(kind, got))
	}
	fmt.Fprintf(b, "\nAsked, entitled and got are averages of %v.\n", kind)
	writePromises(b, r)
	if lines := troubles(r); len(lines) > 0 {
		fmt.Fprintf(b, "\n%s\n", strings.Join(lines, "\n"))
	}
	writeExpectations(b, r)
	return b.Flush()
}

// clusterRows are the figures of the whole cluster, a name and a value each.
func clusterRows(r *outcome.Result) (rows [][]string) {
	c := &r.Cluster
	row := func(name, format string, args ...any) {
		rows = append(rows, []string{name, fmt.Sprintf(format, args...)})
	}
	row("nodes", "%s", grouped(int64(c.Nodes)))
	for _, k := range r.Kinds() {
		part, of := inUse(r, k)
		row(strings.ReplaceAll(k.String(), "_", " ")+" in use", "%s of %s", part, of)
	}
	o := c.Operations
	row("operations completed", "%s of %s", grouped(o.Completed), grouped(o.Arrived))
	for _, more := range []struct {
		name  string
		count int64
	}{{"failed", o.Failed}, {"aborted", o.Aborted}, {"rejected", o.Rejected}, {"unfinished", o.Unfinished}} {
		if more.count > 0 {
			row("operations "+more.name, "%s", grouped(more.count))
		}
	}
	row("jobs completed", "%s of %s started", grouped(c.Jobs.Completed), grouped(c.Jobs.Started))
	row("jobs preempted", "%s", grouped(c.Jobs.Preempted))
	if c.Jobs.LostWithNodes > 0 {
		row("jobs lost with nodes", "%s", grouped(c.Jobs.LostWithNodes))
	}
	row("work lost", "%s", lost(resource.CPU, c.Lost[resource.CPU]))
	if c.Waits.Count > 0 {
		row("jobs wait", "p50 %s, p90 %s, p99 %s, max %s", chart.FormatTime(c.Waits.P50), chart.FormatTime(c.Waits.P90),
			chart.FormatTime(c.Waits.P99), chart.FormatTime(c.Waits.Max))
	}
	if c.OperationWaits.Count > 0 {
		row("operations wait", "p50 %s, p99 %s", chart.FormatTime(c.OperationWaits.P50), chart.FormatTime(c.OperationWaits.P99))
	}
	row("decisions", "%s in %s heartbeats and %s updates", grouped(c.Work.Decisions), grouped(c.Work.Heartbeats), grouped(c.Work.Updates))
	return rows
}

// poolHeader names the columns of poolRows.
var poolHeader = []string{
	"pool", "asked", "entitled", "got", "of entitled", "wait p50", "wait p99", "preempted", "caused", "work lost", "guarantee kept", "starving",
}

// more counts pools that are left out.
func more(pools int) string {
	if pools == 1 {
		return "1 more pool"
	}
	return grouped(int64(pools)) + " more pools"
}

// shortName cuts names that would push everything else off a terminal.
func shortName(name string) string {
	const most = 48
	if letters := []rune(name); len(letters) > most {
		return string(letters[:most-1]) + "…"
	}
	return name
}

// poolRows are the figures of pools, indented by depth, with a header.
func poolRows(r *outcome.Result, k resource.Kind, shown []bool, name func(string) string) [][]string {
	rows := [][]string{poolHeader}
	for i, p := range r.Pools {
		if !shown[i] {
			continue
		}
		entitled, got := average(r, p.Entitled, k), average(r, p.Got, k)
		rows = append(rows, []string{
			strings.Repeat("  ", p.Depth) + name(poolLabel(r, p.Tree, p.Name)),
			amount(k, average(r, p.Asked, k)), amount(k, entitled), amount(k, got), ratio(got, entitled),
			wait(p.Waits, p.Waits.P50), wait(p.Waits, p.Waits.P99),
			grouped(p.Jobs.Preempted), grouped(p.PreemptionsCaused), lost(k, p.Lost[k]), kept(p.Guarantee),
			chart.FormatTime(p.StarvingSeconds),
		})
	}
	return rows
}

// writePromises writes the books of pools with guarantees, averaged over the run.
func writePromises(w io.Writer, r *outcome.Result) {
	if len(r.Promises) == 0 || r.Seconds == 0 {
		return
	}
	rows := [][]string{{"guarantee of", "promised", "asked", "due", "got", "short", "kept", "causes"}}
	for i := range r.Promises[:min(len(r.Promises), mostPools)] {
		p := &r.Promises[i]
		kind, _ := resource.ParseKind(p.Resource)
		average := func(v float64) string { return amount(kind, v/r.Seconds) }
		keeps := "–"
		if p.Kept != nil {
			keeps = percent(*p.Kept)
		}
		var causes []string
		for _, c := range p.Causes {
			causes = append(causes, c.Name+" "+average(c.Amount))
		}
		rows = append(rows, []string{
			shortName(poolLabel(r, p.Tree, p.Pool)) + ", " + p.Resource, average(p.Promised), average(p.Asked), average(p.Due), average(p.Got), average(p.Short), keeps, strings.Join(causes, ", "),
		})
	}
	fmt.Fprintln(w)
	writeTable(w, rows, "lrrrrrrl")
	if left := len(r.Promises) - mostPools; left > 0 {
		fmt.Fprintf(w, "and %s; -o json has all\n", more(left))
	}
	fmt.Fprintln(w, "Due is the part of the promise that was asked for; short is due minus got, by cause.")
}

// mostTroubles bounds the operations that a summary describes one by one.
const mostTroubles = 5

// troubles explains why operations were rejected or failed, and which ones could
// not start if the run ended for that.
func troubles(r *outcome.Result) (lines []string) {
	left := 0
	for _, o := range r.Operations {
		text := o.Reason
		switch {
		case o.State == "rejected" || o.State == "failed":
		case r.Stalled && o.Finished < 0:
			text = cmp.Or(text, "got no room for its jobs")
		default:
			continue
		}
		if len(lines) == mostTroubles {
			left++
			continue
		}
		lines = append(lines, fmt.Sprintf("%s %s: %s", o.State, o.Name, text))
	}
	if left > 0 {
		lines = append(lines, fmt.Sprintf("and %s more; -o json has all", grouped(int64(left))))
	}
	return lines
}

func writeExpectations(w io.Writer, r *outcome.Result) {
	if len(r.Expectations) == 0 {
		return
	}
	failed := r.Failed()
	fmt.Fprintf(w, "\n%d of %d expectations hold.\n", len(r.Expectations)-len(failed), len(r.Expectations))
	for _, e := range failed {
		fmt.Fprintf(w, "  %s\n", e)
	}
}

// writeTable writes rows with aligned columns: l for left, r for right; the last
// letter applies to all further columns.
func writeTable(w io.Writer, rows [][]string, align string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i > 0 {
				line.WriteString("  ")
			}
			if align[min(i, len(align)-1)] == 'r' && len(row) > 2 {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}
