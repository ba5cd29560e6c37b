package why

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/pooltree"
)

// adviser searches for fixes.
type adviser struct {
	Advice
	scene    *Scene
	question Question
	proceed  func() bool
	facts    *Operation
	knobs    []knob
}

// knob is a change of which there may be more or less. Its values are numbered by
// their distance from the present value, from 1 to steps.
type knob struct {
	steps int64
	// seed is the distance that should be enough.
	seed int64
	// scale is the size of one step in relation to the value.
	scale float64
	// blocker is the index of the blocker that it touches.
	blocker int
	at      func(distance int64) Change
}

// treeEdit is an edit of a tree.
type treeEdit struct {
	tree string
	edit pooltree.Edit
}

// errNoGuarantees is a refusal of guarantees that nodes cannot keep.
var errNoGuarantees = errors.New("the nodes cannot keep the guarantees")

// trial is a round on a fork with changes.
type trial struct {
	operation core.OperationID
	inputs    []core.Input
	opens     []core.NodeID
	at, first time.Time
	refused   error
	starts    int
	node      core.NodeID
	out       core.Decisions
	after     *core.Core
}

// over reports whether there is no time for further tests.
func (a *adviser) over() bool { return a.Tests >= mostTests || !a.proceed() }

// try runs a round on a fork with changes.
func (a *adviser) try(changes ...Change) *trial {
	a.Tests++
	s := a.scene
	t := &trial{operation: a.question.Operation, at: s.now}
	if t.inputs, t.refused = a.inputsOf(changes); t.refused != nil {
		return t
	}
	gates := s.gates
	for i := range changes {
		t.opens = append(t.opens, changes[i].opens...)
		if changes[i].waits {
			t.at = latest(t.at, changes[i].Until)
		}
		if changes[i].restart {
			t.operation = s.before.NextOperation()
		}
	}
	if len(t.opens) > 0 {
		gates.Nodes = nil
		for i := range s.gates.Nodes {
			if !slices.Contains(t.opens, s.gates.Nodes[i].Node) {
				gates.Nodes = append(gates.Nodes, s.gates.Nodes[i])
			}
		}
	}
	t.after = s.before.Fork()
	a.proceed()
	for _, input := range t.inputs {
		if t.refused = t.after.Apply(t.at, input, &t.out); t.refused != nil {
			return t
		}
	}
	if a.question.By > 0 {
		t.starts, t.first = a.question.Ahead(t.after, gates, t.operation)
		return t
	}
	update(t.after, t.at, &t.out)
	round(t.after, t.at, &gates, &t.out, a.proceed)
	for i := range t.out.Started {
		if start := &t.out.Started[i]; start.Operation == t.operation {
			if t.starts == 0 {
				t.node = start.Node
			}
			t.starts++
		}
	}
	return t
}

// inputsOf returns the inputs that make changes: all edits of trees in one, then
// the others.
func (a *adviser) inputsOf(changes []Change) (inputs []core.Input, err error) {
	trees := a.scene.before.Configuration()
	edited := false
	for i := range trees.Trees {
		named := &trees.Trees[i]
		var edits []pooltree.Edit
		guarantees := false
		for c := range changes {
			for _, e := range changes[c].edits {
				if e.tree == named.Name {
					edits = append(edits, e.edit)
					guarantees = guarantees || changes[c].Knob == KnobGuarantee
				}
			}
		}
		if len(edits) == 0 {
			continue
		}
		if named.Value, _, err = named.Value.With(edits...); err != nil {
			return nil, err
		}
		if guarantees && a.question.Feasible != nil {
			if err := a.question.Feasible(named.Name, named.Value); err != nil {
				return nil, errors.Join(errNoGuarantees, err)
			}
		}
		edited = true
	}
	if edited {
		inputs = append(inputs, &trees)
	}
	for i := range changes {
		inputs = append(inputs, changes[i].inputs...)
	}
	return inputs, nil
}

// search tries single knobs and, if none helps, combinations of several.
func (a *adviser) search() {
	a.candidates()
	for i := range a.knobs {
		k := &a.knobs[i]
		if a.over() {
			a.NotTried = append(a.NotTried, k.at(k.seed))
			continue
		}
		if found, minimal, ok := a.minimise(k, nil); ok {
			a.add(minimal, float64(found.distance)*k.scale, found.trial, found.change)
		} else if found.refused != nil {
			a.Tried = append(a.Tried, Attempt{Change: found.change, Refused: found.refused.Error()})
		} else {
			a.Tried = append(a.Tried, Attempt{Change: k.at(k.steps)})
		}
	}
	acts := func(f Fix) bool { return f.Who != Nobody }
	if !slices.ContainsFunc(a.Fixes, acts) {
		a.together()
	}
}

// found is the result of a search along one knob.
type found struct {
	distance int64
	change   Change
	trial    *trial
	refused  error
}

// Limits of the search along one knob.
const (
	mostGallops    = 12
	mostBisections = 20
	mostPasses     = 3
)

// minimise finds the least distance of a knob that is enough together with other
// changes. Success is not monotone in general, so it distrusts the first answer:
// it also tests the next smaller value and some points below. minimal reports that
// all of these fail.
func (a *adviser) minimise(k *knob, others []Change) (best found, minimal, ok bool) {
	results := map[int64]bool{}
	test := func(d int64) bool {
		if held, known := results[d]; known {
			return held
		}
		if a.over() {
			return false
		}
		change := k.at(d)
		t := a.try(append(slices.Clone(others), change)...)
		held := t.refused == nil && t.starts >= a.Jobs
		results[d] = held
		if held {
			best = found{distance: d, change: change, trial: t}
		} else if t.refused != nil && best.trial == nil {
			best = found{change: change, refused: t.refused}
		}
		return held
	}
	low, high := int64(0), int64(0)
	for d, n := min(max(k.seed, 1), k.steps), 0; n < mostGallops; n++ {
		if test(d) {
			high = d
			break
		}
		if low = d; d == k.steps || best.refused != nil {
			break
		}
		if d = min(d*2, k.steps); n == mostGallops-2 {
			d = k.steps
		}
	}
	if high == 0 {
		return best, false, false
	}
	for range mostPasses {
		low, high = bisect(low, high, test)
		before := high
		for _, part := range []float64{0.5, 0.25, 0.75} {
			if d := int64(float64(high) * part); d > 0 && d < high && test(d) {
				high, low = d, 0
				break
			}
		}
		if high == before {
			_, tested := results[high-1]
			return best, high == 1 || tested && !results[high-1], true
		}
	}
	return best, false, true
}

// bisect narrows a failure and a success to neighbours. It starts with the value
// just below the success, because seeds are often exact.
func bisect(low, high int64, test func(int64) bool) (int64, int64) {
	if high-low > 1 {
		if !test(high - 1) {
			return high - 1, high
		}
		high--
	}
	for n := 0; high-low > 1 && n < mostBisections; n++ {
		middle := low + (high-low)/2
		if low > 0 && high/low >= 4 { // far apart: by order of magnitude
			middle = int64(math.Sqrt(float64(low) * float64(high)))
		}
		if test(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return low, high
}

// Bounds of the search for several changes at once.
const (
	mostTogether     = 3
	mostCombinations = 32
)

// together tries one knob for each of the first blockers at the same time, and
// then reduces each of them while the others stay.
func (a *adviser) together() {
	var groups [][]*knob
	for b := range a.Blockers {
		var list []*knob
		for i := range a.knobs {
			if k := &a.knobs[i]; k.blocker == b && len(list) < mostTogether && k.at(k.seed).Who != Nobody {
				list = append(list, k)
			}
		}
		if len(list) > 0 && len(groups) < mostTogether {
			groups = append(groups, list)
		}
	}
	if len(groups) < 2 {
		return
	}
	chosen := make([]int, len(groups))
	for range mostCombinations {
		picked := make([]*knob, len(groups))
		for g := range groups {
			picked[g] = groups[g][chosen[g]]
		}
		if a.over() || a.tryTogether(picked) {
			return
		}
		g := 0
		for ; g < len(groups); g++ {
			if chosen[g]++; chosen[g] < len(groups[g]) {
				break
			}
			chosen[g] = 0
		}
		if g == len(groups) {
			return
		}
	}
}

// tryTogether adds the fix that turns some knobs together, if it helps.
func (a *adviser) tryTogether(picked []*knob) bool {
	changes := make([]Change, len(picked))
	for _, far := range []bool{false, true} {
		for i, k := range picked {
			if changes[i] = k.at(min(max(k.seed, 1), k.steps)); far {
				changes[i] = k.at(k.steps)
			}
		}
		if t := a.try(changes...); t.refused != nil || t.starts < a.Jobs {
			continue
		}
		minimal, size := true, 0.0
		var last *trial
		for i, k := range picked {
			others := slices.Delete(slices.Clone(changes), i, i+1)
			best, least, ok := a.minimise(k, others)
			if !ok { // no time is left
				return false
			}
			changes[i], last, size = best.change, best.trial, size+float64(best.distance)*k.scale
			minimal = minimal && least
		}
		a.add(minimal, size, last, changes...)
		return true
	}
	return false
}

// add adds a fix with its effects.
func (a *adviser) add(minimal bool, distance float64, t *trial, changes ...Change) {
	f := Fix{
		Changes: changes, Minimal: minimal, Operation: t.operation, Starts: t.starts, Node: t.after.NodeName(t.node),
		Inputs: t.inputs, Opens: t.opens, At: t.at, First: t.first, distance: distance,
	}
	if a.question.By > 0 {
		f.Node = "" // the run states only when
	}
	for i := range changes {
		f.Who = max(f.Who, changes[i].Who)
	}
	f.Harm = a.harm(t)
	a.Fixes = append(a.Fixes, f)
}

// harm compares a trial with the round without changes.
func (a *adviser) harm(t *trial) (h Harm) {
	s := a.scene
	anyway := map[core.JobID]bool{}
	for i := range s.stops {
		anyway[s.stops[i].Job] = true
	}
	for i := range t.out.Stopped {
		stop := &t.out.Stopped[i]
		info, ran := s.before.JobInfo(stop.Job)
		if anyway[stop.Job] || !ran {
			continue
		}
		lost := info.Resources[cpu] * s.now.Sub(info.Started).Microseconds()
		if stop.Operation == a.question.Operation {
			h.OwnStopped++
			h.OwnLost += lost
		} else {
			h.Stopped++
			h.Lost += lost
		}
	}
	if a.question.By > 0 {
		return h // what changes stop at once; weir what-if shows the rest
	}
	h.Broken = a.broken(t)
	counts := map[core.OperationID]int{}
	for i := range t.out.Started {
		counts[t.out.Started[i].Operation]++
	}
	usual := map[core.OperationID]int{}
	for i := range s.starts {
		usual[s.starts[i].Operation]++
	}
	for _, id := range s.core.Live() {
		if id != a.question.Operation && counts[id] < usual[id] {
			h.Delayed = append(h.Delayed, id)
		}
	}
	return h
}

// broken returns the guarantees that lack more than without the changes, except
// those of the operation's own pools.
func (a *adviser) broken(t *trial) (list []core.Guarantee) {
	type key struct {
		tree core.TreeID
		pool string
	}
	short := map[key]int64{}
	for _, b := range a.scene.after.BrokenGuarantees() {
		short[key{b.Tree, b.Pool}] = b.Short
	}
	trees := t.after.Configuration().Trees
	for _, b := range t.after.BrokenGuarantees() {
		if b.Short <= short[key{b.Tree, b.Pool}] {
			continue
		}
		own, in := t.after.PoolOf(t.operation, b.Tree)
		if !in || !slices.Contains(chainOf(trees[b.Tree].Value, own), b.Pool) {
			list = append(list, b)
		}
	}
	return list
}

// chainOf returns the names of a pool and of the pools above it, without the root.
func chainOf(tree *pooltree.Tree, pool string) (names []string) {
	p, there := tree.Pool(pool)
	for there && !p.IsRoot() {
		names = append(names, p.Name())
		p, there = p.Parent()
	}
	return names
}
