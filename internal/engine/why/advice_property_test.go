package why_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/engine/why"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

// with applies inputs to a copy of the world, then one update and a heartbeat of every node that
// gets work. It returns what the core decides, and whether it accepts the inputs.
func (w *world) with(c *core.Core, at time.Time, opens []core.NodeID, inputs ...core.Input) (out core.Decisions, err error) {
	for _, input := range inputs {
		if err := c.Apply(at, input, &out); err != nil {
			return out, err
		}
	}
	_ = c.Apply(at, &core.UpdateInput{}, &out)
	for id := range c.NextNode() {
		gated := slices.ContainsFunc(w.gates.Nodes, func(g why.NodeGate) bool { return g.Node == id && !slices.Contains(opens, id) })
		if _, in := c.NodeTree(id); in && !gated && !c.IsAwaited(id) {
			_ = c.Apply(at, &core.HeartbeatInput{Node: id}, &out)
		}
	}
	return out, nil
}

func startsIn(out core.Decisions, id core.OperationID) (n int) {
	for _, s := range out.Started {
		if s.Operation == id {
			n++
		}
	}
	return n
}

// advise asks for advice about an operation that waits.
func (w *world) advise(q why.Question) *why.Advice {
	w.tb.Helper()
	a, err := w.look().Advise(q, always)
	if err != nil {
		w.tb.Fatal(err)
	}
	return a
}

// waitingOperation draws a world and one of its operations.
func waitingOperation(r *rapid.T) (*world, core.OperationID) {
	w := draw(r)
	live := w.Live()
	var alive []core.OperationID
	scene := w.look()
	for _, id := range live {
		if x, err := scene.Operation(id); err == nil && len(x.Kinds) > 0 { // a time limit may end it in the round
			alive = append(alive, id)
		}
	}
	if len(alive) == 0 {
		r.Skip("nothing waits")
	}
	return w, alive[rapid.IntRange(0, len(alive)-1).Draw(r, "asked")]
}

// TestPropertyFixesHelp is C1 and C5: every fix, applied to the live world, starts the jobs in the
// round, on the node and with the losses that it states.
func TestPropertyFixesHelp(t *testing.T) {
	expected.Tenth(t)
	rapid.Check(t, func(r *rapid.T) {
		w, id := waitingOperation(r)
		before, _ := w.Hash()
		a := w.advise(why.Question{Operation: id, Upto: why.Administrator, Jobs: rapid.SampledFrom([]int{0, 0, 2, why.AllJobs}).Draw(r, "jobs")})
		if after, _ := w.Hash(); after != before {
			r.Fatal("advice changes the core")
		}
		usual, _ := w.with(w.Fork(), w.now, nil)
		infos := map[core.JobID]core.JobInfo{}
		for _, op := range w.Live() {
			for _, j := range w.JobsOf(op) {
				infos[j.Job] = j
			}
		}
		for i, f := range a.Fixes {
			live := w.Fork()
			if i == len(a.Fixes)-1 {
				live = w.Core
			}
			out, err := w.with(live, f.At, f.Opens, f.Inputs...)
			if err != nil {
				r.Fatalf("%s: refused: %v", f.Text(plainName), err)
			}
			if got := startsIn(out, f.Operation); got != f.Starts || got < a.Jobs {
				r.Fatalf("%s: %d jobs start, want %d, at least %d", f.Text(plainName), got, f.Starts, a.Jobs)
			}
			h := why.Harm{}
			for _, s := range out.Stopped {
				j, ran := infos[s.Job]
				if !ran || slices.ContainsFunc(usual.Stopped, func(u core.Stopped) bool { return u.Job == s.Job }) {
					continue
				}
				lost := j.Resources[resource.CPU] * w.now.Sub(j.Started).Microseconds()
				if s.Operation == id {
					h.OwnStopped++
					h.OwnLost += lost
				} else {
					h.Stopped++
					h.Lost += lost
				}
			}
			if h.Stopped != f.Harm.Stopped || h.Lost != f.Harm.Lost || h.OwnStopped != f.Harm.OwnStopped || h.OwnLost != f.Harm.OwnLost {
				r.Fatalf("%s: %d jobs lose %d, want %d and %d", f.Text(plainName), f.Harm.Stopped, f.Harm.Lost, h.Stopped, h.Lost)
			}
		}
		if (a.Outcome == why.Found || a.Outcome == why.Waits) && len(a.Fixes)+len(a.Gates) == 0 {
			r.Fatalf("%v without fixes", a.Outcome)
		}
		checkOrder(r, a)
	})
}

func plainName(id core.OperationID) string { return "operation " + string(rune('0'+id%10)) }

func checkOrder(r *rapid.T, a *why.Advice) {
	for i := 1; i < len(a.Fixes); i++ {
		x, y := &a.Fixes[i-1], &a.Fixes[i]
		if x.Who > y.Who || x.Who == y.Who && x.Harm.Lost > y.Harm.Lost {
			r.Fatalf("%q comes before %q", x.Text(plainName), y.Text(plainName))
		}
	}
}

// less makes the change of a knob at a smaller distance, without the code that searches. ok is
// false for knobs with one position.
func (w *world) less(id core.OperationID, c *why.Change, by int64) (input core.Input, ok bool) {
	edit := func(e pooltree.Edit) (core.Input, bool) {
		trees := w.Configuration()
		for i := range trees.Trees {
			if trees.Trees[i].Name != c.Tree {
				continue
			}
			next, _, err := trees.Trees[i].Value.With(e)
			if err != nil {
				return nil, false
			}
			trees.Trees[i].Value = next
		}
		return &trees, true
	}
	set := func(v document.Value) (core.Input, bool) {
		if c.Pool == core.RootName {
			return edit(pooltree.SetTreeOption{Option: c.Option, Value: v})
		}
		return edit(pooltree.SetPoolOption{Pool: c.Pool, Option: c.Option, Value: v})
	}
	from, _ := c.From.Float64()
	to, _ := c.To.Float64()
	switch {
	case (c.Knob == why.KnobLimit || c.Knob == why.KnobGuarantee) && c.Pool != "" && c.ToAmount-by > c.FromAmount:
		return set(document.Number(float64(c.ToAmount-by) / float64(c.Resource.Scale())))
	case c.Knob == why.KnobLimit && c.Pool == "" && c.ToAmount-by > c.FromAmount:
		limits := w.ControllerOf(id).Spec().OperationOptions.For(c.Tree).ResourceLimits.Value().With(c.Resource, c.ToAmount-by)
		return &core.ParametersInput{Operation: id, Update: operation.Update{Trees: pooltree.OperationOptions{
			PerTree: []document.Named[pooltree.SchedulingOptions]{{Name: c.Tree, Value: pooltree.SchedulingOptions{ResourceLimits: document.Some(limits)}}},
		}}}, true
	case c.Knob == why.KnobCount && to-float64(by) > from:
		return set(document.Int(int64(to) - by))
	case c.Knob == why.KnobShareRatio && to-float64(by)/1000 > from:
		return set(document.Number(to - float64(by)/1000))
	case c.Knob == why.KnobWeight && c.Pool != "" && to-from*float64(by)/100 > from*1.001:
		return set(document.Number(to - from*float64(by)/100))
	}
	return nil, false
}

// TestPropertyLessIsNotEnough is C2 and C3: for a minimal fix the next smaller value is not enough,
// and brute force over the grid below finds none that is.
func TestPropertyLessIsNotEnough(t *testing.T) {
	expected.Tenth(t)
	rapid.Check(t, func(r *rapid.T) {
		w, id := waitingOperation(r)
		a := w.advise(why.Question{Operation: id, Upto: why.Administrator})
		for _, f := range a.Fixes {
			if !f.Minimal || len(f.Changes) > 1 {
				continue
			}
			c := &f.Changes[0]
			for by := int64(1); ; by = by + 1 + by/8 {
				input, more := w.less(id, c, by)
				if !more {
					break
				}
				out, err := w.with(w.Fork(), w.now, nil, input)
				if err == nil && startsIn(out, id) >= a.Jobs {
					r.Fatalf("%s: %d less is enough too", c.Text(plainName), by)
				}
			}
		}
	})
}

// TestPropertyNeverMeansNever is C4: if the answer is never, no knob but nodes and smaller jobs
// helps, however far it is turned.
func TestPropertyNeverMeansNever(t *testing.T) {
	expected.Tenth(t)
	rapid.Check(t, func(r *rapid.T) {
		w, id := waitingOperation(r)
		a := w.advise(why.Question{Operation: id, Upto: why.Administrator})
		if a.Outcome != why.Never {
			r.Skip("it may start")
		}
		for _, f := range a.Fixes {
			for _, c := range f.Changes {
				if c.Knob != why.KnobNodes && c.Knob != why.KnobNeed && len(f.Changes) == 1 {
					r.Fatalf("never, but: %s", c.Text(plainName))
				}
			}
		}
		for _, input := range w.everything(id) {
			if out, err := w.with(w.Fork(), w.now, nil, input...); err == nil && startsIn(out, id) >= a.Jobs {
				r.Fatalf("never, but %#v helps", input[0])
			}
		}
	})
}

// everything is the far end of every knob of every pool and operation, by brute force.
func (w *world) everything(id core.OperationID) (list [][]core.Input) {
	trees := w.Configuration()
	edit := func(tree int, e pooltree.Edit) {
		next := w.Configuration()
		if changed, _, err := trees.Trees[tree].Value.With(e); err == nil {
			next.Trees[tree].Value = changed
			list = append(list, []core.Input{&next})
		}
	}
	for i, t := range trees.Trees {
		for p := range t.Value.Pools() {
			for _, o := range []struct {
				option string
				value  document.Value
			}{
				{"resource_limits", document.Null()}, {"max_share_ratio", document.Null()}, {"scheduling_tag_filter", document.Null()},
				{"max_running_operation_count", document.Int(1000)}, {"weight", document.Int(1000)}, {"fair_share_preemption_timeout", document.Text("0s")},
			} {
				edit(i, pooltree.SetPoolOption{Pool: p.Name(), Option: o.option, Value: o.value})
			}
			list = append(list, []core.Input{&core.ParametersInput{Operation: id, Update: operation.Update{Trees: pooltree.OperationOptions{
				SchedulingOptions: pooltree.SchedulingOptions{Pool: document.Some(p.Name())},
			}}}})
		}
		edit(i, pooltree.SetTreeOption{Option: "max_running_operation_count", Value: document.Int(1000)})
	}
	list = append(list, []core.Input{&core.ParametersInput{Operation: id, Update: operation.Update{Trees: pooltree.OperationOptions{
		SchedulingOptions: pooltree.SchedulingOptions{Weight: document.Some(1000.0)},
	}}}}, []core.Input{&core.ResumeInput{Operation: id}})
	for _, other := range w.Live() {
		if other != id {
			list = append(list, []core.Input{&core.SuspendInput{Operation: other, AbortRunning: true}}, []core.Input{&core.AbortInput{Operation: other}})
		}
	}
	return list
}
