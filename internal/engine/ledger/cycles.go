package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/scheduling"
)

// Cycles of preemption are operations that take each other's resources in turn.
//
// Let a be the tolerance of an operation and its shortfall max(0, a × share − usage). A
// preemption that leaves the victim at its tolerance or above, and whose winner was below
// its own, lowers the sum of all shortfalls when the winner starts and makes nobody starve.
// Starts never raise the sum. So while shares and demand stay, operations cannot preempt each
// other in turn unless jobs end by themselves in between. A window in which these premises hold
// is proven to have no cycle, whatever its graph. Otherwise the strongly connected components
// of the graph of operations are named as cycles, with the premises that do not hold.
//
// When shares change, operations may rightly take resources from each other once in each
// direction: a burst pool takes the cluster, and gives it back when its savings are spent. Such
// a handover is no cycle.

// Premise is a set of premises of that proof that do not hold.
type Premise uint8

const (
	// VictimStarves: a victim was left with less than its tolerance.
	VictimStarves Premise = 1 << iota
	// WinnerHadEnough: a winner had its tolerance already: its pool starved, not itself.
	WinnerHadEnough
	// SharesChanged: the fair share of an operation changed between preemptions.
	SharesChanged
)

// String names the premises that do not hold.
func (p Premise) String() string {
	text := ""
	for i, name := range []string{"victim_starves", "winner_had_enough", "shares_changed"} {
		if p&(1<<i) != 0 {
			if text != "" {
				text += ","
			}
			text += name
		}
	}
	return text
}

// Cycle is operations that took each other's resources in turn.
type Cycle struct {
	Tree       string
	Operations []int32 // in order
	Pools      []string
	Jobs       int64
	Lost       AmountSums
	Premises   Premise
}

// cycleWindow is how long preemptions are remembered to find cycles, in minutes.
const cycleWindow = 10

// pair is two operations.
type pair struct{ victim, winner int32 }

// graph has the preemptions of a tree's last minutes.
type graph struct {
	minutes [cycleWindow]minute // by number modulo the window
	checked int64               // the last minute that was checked
	// named are the cycles found, with the minute in which they were named.
	named map[string]int64
}

// minute is the preemptions of a minute.
type minute struct {
	number int64
	flows  map[pair]*flow
	shares map[int32][2]float64 // the least and the largest fair share seen
}

// flow is the preemptions of a pair.
type flow struct {
	jobs        int64
	lost        AmountSums
	premises    Premise
	first, last time.Time
}

const microsPerMinute = int64(time.Minute / time.Microsecond)

func (g *graph) at(now time.Time) *minute {
	number := now.UnixMicro() / microsPerMinute
	m := &g.minutes[number%cycleWindow]
	if m.number != number || m.flows == nil {
		*m = minute{number: number, flows: map[pair]*flow{}, shares: map[int32][2]float64{}}
	}
	return m
}

func (m *minute) flow(of pair) *flow {
	f := m.flows[of]
	if f == nil {
		f = &flow{}
		m.flows[of] = f
	}
	return f
}

// span widens the time of a flow.
func (f *flow) span(first, last time.Time) {
	if f.first.IsZero() || first.Before(f.first) {
		f.first = first
	}
	if last.After(f.last) {
		f.last = last
	}
}

func (g *graph) add(now time.Time, of pair, b *scheduling.Balance) {
	m := g.at(now)
	f := m.flow(of)
	f.jobs++
	f.span(now, now)
	const rounding = 1e-9
	if b.VictimLeft < b.VictimTolerance-rounding {
		f.premises |= VictimStarves
	}
	if b.WinnerHad >= b.WinnerTolerance-rounding {
		f.premises |= WinnerHadEnough
	}
	m.see(of.victim, b.VictimShare)
	m.see(of.winner, b.WinnerShare)
}

func (m *minute) see(operation int32, share float64) {
	seen, there := m.shares[operation]
	if !there {
		seen = [2]float64{share, share}
	}
	m.shares[operation] = [2]float64{min(seen[0], share), max(seen[1], share)}
}

func (g *graph) lose(now time.Time, of pair, work *AmountSums) { g.at(now).flow(of).lost.plus(work) }

// Check looks for cycles in the minutes that have ended since the last check, and returns
// those that were not named in the window before. pool returns the pool of an operation.
func (p *Preemptions) Check(now time.Time, pool func(tree string, operation int32) string) (cycles []Cycle) {
	for _, tree := range slices.Sorted(maps.Keys(p.graphs)) {
		g := p.graphs[tree]
		last := now.UnixMicro()/microsPerMinute - 1
		if last <= g.checked {
			continue
		}
		fresh, old := false, true
		for i := range g.minutes {
			m := &g.minutes[i]
			fresh = fresh || m.number > g.checked && m.number <= last && len(m.shares) > 0
			old = old && m.number <= last-cycleWindow
		}
		g.checked = last
		if !fresh {
			if old {
				delete(p.graphs, tree)
			}
			continue
		}
		found, proven := g.cycles(last)
		line := p.Watch.line(now, tree, tree)
		line.Minutes++
		if proven {
			line.Proven++
		}
		for i := range found {
			if c := &found[i]; g.name(last, c.Operations) {
				c.Tree = tree
				for _, id := range c.Operations {
					c.Pools = append(c.Pools, pool(tree, id))
				}
				line.Cycles++
				cycles = append(cycles, *c)
			}
		}
	}
	return cycles
}

// name notes that a cycle is named, and reports whether it was not in the window before.
func (g *graph) name(now int64, operations []int32) bool {
	key := fmt.Sprint(operations)
	if g.named == nil {
		g.named = map[string]int64{}
	}
	maps.DeleteFunc(g.named, func(_ string, at int64) bool { return at <= now-cycleWindow })
	_, known := g.named[key]
	if !known {
		g.named[key] = now
	}
	return !known
}

// losses returns the flows of the window that ends with a minute.
func (g *graph) losses(last int64) map[pair]*flow {
	sum := map[pair]*flow{}
	for i := range g.minutes {
		m := &g.minutes[i]
		if m.number > last || m.number <= last-cycleWindow {
			continue
		}
		for of, f := range m.flows {
			if sum[of] == nil {
				sum[of] = &flow{}
			}
			if f.jobs > 0 { // else it has only losses of jobs that were preempted in an earlier minute
				sum[of].span(f.first, f.last)
			}
			sum[of].jobs += f.jobs
			sum[of].lost.plus(&f.lost)
			sum[of].premises |= f.premises
		}
	}
	return sum
}

// cycles returns the cycles of the window that ends with a minute, in the order of their
// first operations, and whether it is proven that there is none.
func (g *graph) cycles(last int64) (found []Cycle, proven bool) {
	flows := g.losses(last)
	shares := minute{shares: map[int32][2]float64{}}
	for i := range g.minutes {
		if m := &g.minutes[i]; m.number <= last && m.number > last-cycleWindow {
			for id, seen := range m.shares {
				shares.see(id, seen[0])
				shares.see(id, seen[1])
			}
		}
	}
	pairs := slices.SortedFunc(maps.Keys(flows), func(a, b pair) int {
		return cmp.Or(cmp.Compare(a.victim, b.victim), cmp.Compare(a.winner, b.winner))
	})
	for _, component := range components(pairs) {
		c := Cycle{Operations: component}
		for _, of := range pairs {
			if _, in := slices.BinarySearch(component, of.victim); !in {
				continue
			}
			if _, in := slices.BinarySearch(component, of.winner); in {
				f := flows[of]
				c.Jobs += f.jobs
				c.Lost.plus(&f.lost)
				c.Premises |= f.premises
			}
		}
		for _, id := range component {
			if seen := shares.shares[id]; seen[1]-seen[0] > 1e-9 {
				c.Premises |= SharesChanged
			}
		}
		if c.Premises != 0 && !(c.Premises == SharesChanged && isHandover(component, pairs, flows)) { // else the proof holds
			found = append(found, c)
		}
	}
	return found, len(found) == 0
}

// isHandover reports whether the operations of a component only took resources back: without the
// flows that had ended before the opposite flow of the same two operations began, it has no cycle.
func isHandover(component []int32, pairs []pair, flows map[pair]*flow) bool {
	var kept []pair
	for _, of := range pairs {
		_, from := slices.BinarySearch(component, of.victim)
		_, to := slices.BinarySearch(component, of.winner)
		back := flows[pair{of.winner, of.victim}]
		if from && to && (back == nil || !flows[of].last.Before(back.first)) {
			kept = append(kept, of)
		}
	}
	return len(components(kept)) == 0
}

// components returns the strongly connected components of at least two operations, each in
// order, in the order of their first operations. pairs must be in order.
func components(pairs []pair) (list [][]int32) {
	next := map[int32][]int32{}
	var ids []int32
	for _, p := range pairs {
		next[p.victim] = append(next[p.victim], p.winner)
		ids = append(ids, p.victim, p.winner)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	index, low, on := map[int32]int{}, map[int32]int{}, map[int32]bool{}
	var stack []int32
	var visit func(id int32)
	visit = func(id int32) { // Tarjan's algorithm
		index[id] = len(index) + 1
		low[id] = index[id]
		stack, on[id] = append(stack, id), true
		for _, to := range next[id] {
			if index[to] == 0 {
				visit(to)
				low[id] = min(low[id], low[to])
			} else if on[to] {
				low[id] = min(low[id], index[to])
			}
		}
		if low[id] != index[id] {
			return
		}
		at := slices.Index(stack, id)
		component := slices.Clone(stack[at:])
		for _, member := range component {
			on[member] = false
		}
		stack = stack[:at]
		if len(component) > 1 {
			slices.Sort(component)
			list = append(list, component)
		}
	}
	for _, id := range ids {
		if index[id] == 0 {
			visit(id)
		}
	}
	slices.SortFunc(list, slices.Compare)
	return list
}
