// Package rerun runs a recorded time again, with other pools or nodes. What came from outside
// is kept: operations that users started, their commands to them, and nodes that came
// and went. What jobs did is replaced, because other jobs run: a job runs as long as
// it did when it completed, and otherwise as long as others of its task.
//
//	Read      what a journal says about a time
//	Run       that time again, as recorded or with other pools and nodes
//	Compare   recorded, again with the recorded pools, and again with other pools
//
// The second of the three shows the error of the model itself.
package rerun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/journal"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/sim"
	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/sim/scenario"
	"github.com/weirhq/weir/internal/value/document"
)

// History is what a journal says about a time.
type History struct {
	// From is the first update after all trees were there, and To the last record, or the first gap.
	From, To time.Time
	// Recorded are the figures of what happened.
	Recorded *Figures
	// Gap reports whether the journal goes on after a gap.
	Gap bool

	start             *core.Core
	update, heartbeat time.Duration
	events            []scenario.Event
	trees             []scenario.Event // changes of pools
	added             []scenario.NodeGroup
	arrivals          []core.OperationID // their recorded numbers
	ran               map[jobKey]time.Duration
	age               map[jobKey]time.Duration // of jobs that did not complete
	tasks             map[taskKey]sample
	all               sample
}

type taskKey struct {
	operation core.OperationID
	task      int32
}

type jobKey struct {
	taskKey
	cookie int32
}

// sample is the sum of some durations.
type sample struct {
	sum   time.Duration
	count int64
}

// Read plays a journal up to a moment, or to its end if that is zero, and returns what
// happened. A journal that is cut ends there.
func Read(p *journal.Player, until time.Time) (*History, error) {
	r := reader{player: p}
	r.reset()
	for {
		e, err := p.Step()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, journal.ErrCut), err == nil && r.over(&e, until):
			return r.finish()
		case err != nil:
			return nil, err
		}
		if e.Input != nil {
			r.input(&e)
		}
	}
}

// reader follows a player.
type reader struct {
	*History
	player  *journal.Player
	running map[core.JobID]*job
	nodes   map[core.NodeID]*node
}

type job struct {
	key     jobKey
	started time.Time
}

// node is a node with its state at present.
type node struct {
	name  string
	alive bool
}

// reset forgets what happened so far: the history starts with the next update.
func (r *reader) reset() {
	r.History = &History{ran: map[jobKey]time.Duration{}, age: map[jobKey]time.Duration{}, tasks: map[taskKey]sample{}}
	r.running, r.nodes = map[core.JobID]*job{}, map[core.NodeID]*node{}
}

// over reports whether an event ends the history: another core takes over, or the
// moment has come.
func (r *reader) over(e *journal.Event, until time.Time) bool {
	if r.start == nil {
		return false
	}
	if !until.IsZero() && e.Time.After(until) {
		return true
	}
	r.Gap = e.Segment != nil && len(r.player.Played.Gaps) > 0
	return r.Gap
}

func (r *reader) finish() (*History, error) {
	if r.start == nil {
		return nil, errors.New("the journal has no update, so there is nothing to run again")
	}
	for _, j := range r.running {
		r.age[j.key] = max(r.age[j.key], r.To.Sub(j.started))
	}
	r.Recorded.finish()
	if r.To.Sub(r.From) < time.Second {
		return nil, fmt.Errorf("the journal has only %v after its first update", r.To.Sub(r.From))
	}
	return r.History, nil
}

// begin takes the state at the first update.
func (r *reader) begin(now time.Time) {
	r.start, r.From, r.To = r.player.Core.Fork(), now, now
	r.update, r.heartbeat = max(r.player.Header.UpdatePeriod, 100*time.Millisecond), max(r.player.Header.HeartbeatPeriod, 100*time.Millisecond)
	r.Recorded = newFigures(r.player.Core, now)
	picture := r.start.Picture(now)
	for n := range picture.Nodes() {
		r.nodes[n.ID] = &node{name: n.Name, alive: n.Online}
	}
	for op := range picture.Operations() {
		for _, info := range r.start.JobsOf(op.ID) {
			r.running[info.Job] = &job{jobKey{taskKey{op.ID, info.JobRef.Task}, info.Cookie}, info.Started}
		}
	}
}

// happens adds an event at the present moment.
func (r *reader) happens(into *[]scenario.Event, a scenario.Action) {
	*into = append(*into, scenario.Event{At: r.To.Sub(r.From), Action: a, Tolerated: true, Where: "journal"})
}

func (r *reader) input(e *journal.Event) {
	_, updates := e.Input.(*core.UpdateInput)
	if r.start == nil {
		if updates {
			r.begin(e.Time)
		}
		return
	}
	r.To = e.Time
	r.decisions(r.player.Decisions())
	if updates {
		r.Recorded.sample(r.player.Core, e.Time)
	}
	if e.Refused {
		return
	}
	switch in := e.Input.(type) {
	case *core.HeartbeatInput:
		r.ended(in.Finished)
		r.seen(in.Node)
	case *core.ReportInput:
		r.ended(in.Finished)
	case *core.SeenInput:
		r.seen(in.Node)
	case *core.NodeInput:
		r.node(in)
	case *core.NodeLossInput:
		r.lost(in.Node)
	case *core.StartInput:
		r.arrivals = append(r.arrivals, in.Operation)
		r.happens(&r.events, scenario.StartOperation{Name: nameOf(in.Operation), User: in.User, Spec: in.Spec})
	case *core.AbortInput:
		r.command(in.Operation, scenario.Abort)
	case *core.CompleteInput:
		r.command(in.Operation, scenario.Complete)
	case *core.SuspendInput:
		r.command(in.Operation, scenario.Suspend)
	case *core.ResumeInput:
		r.command(in.Operation, scenario.Resume)
	case *core.ParametersInput:
		r.happens(&r.events, scenario.UpdateOperation{Operation: nameOf(in.Operation), Update: in.Update})
	case *core.TreesInput:
		if len(in.Trees) > len(r.start.Trees()) { // a run cannot add trees: it starts after this
			r.reset()
			return
		}
		for _, t := range in.Trees {
			r.happens(&r.trees, scenario.ReplaceTree{Tree: t.Name, Config: t.Value})
		}
	}
}

// nameOf is the name of an operation in a run.
func nameOf(id core.OperationID) string { return fmt.Sprintf("operation-%d", id) }

func (r *reader) command(id core.OperationID, c scenario.Command) {
	r.happens(&r.events, scenario.ControlOperation{Operation: nameOf(id), Command: c})
}

// decisions notes which jobs start and stop.
func (r *reader) decisions(d *core.Decisions) {
	r.Recorded.decided(r.player.Core, d)
	for i := range d.Started {
		s := &d.Started[i]
		r.running[s.Job] = &job{jobKey{taskKey{s.Operation, s.Task}, s.Cookie}, r.To}
	}
	for i := range d.Stopped {
		if s := &d.Stopped[i]; s.Reason == operation.AbortNodeOffline {
			r.lost(s.Node)
		}
	}
}

// ended notes how long jobs ran.
func (r *reader) ended(list []core.Finished) {
	for i := range list {
		j := r.running[list[i].Job]
		if j == nil {
			continue
		}
		delete(r.running, list[i].Job)
		took := r.To.Sub(j.started)
		if list[i].State != core.JobCompleted {
			r.age[j.key] = max(r.age[j.key], took)
			continue
		}
		r.ran[j.key] = took
		s := r.tasks[j.key.taskKey]
		r.tasks[j.key.taskKey] = sample{s.sum + took, s.count + 1}
		r.all = sample{r.all.sum + took, r.all.count + 1}
	}
}

func (r *reader) seen(id core.NodeID) {
	if n := r.nodes[id]; n != nil && !n.alive {
		n.alive = true
		r.happens(&r.events, scenario.ReturnNodes{Group: n.name, Count: 1})
	}
}

func (r *reader) lost(id core.NodeID) {
	if n := r.nodes[id]; n != nil && n.alive {
		n.alive = false
		r.happens(&r.events, scenario.LoseNodes{Group: n.name, Count: 1})
	}
}

// node notes a node that registers. A new one is there from the start, lost at once,
// and comes back now.
func (r *reader) node(in *core.NodeInput) {
	if r.nodes[in.Node] == nil {
		r.nodes[in.Node] = &node{name: in.Name}
		r.added = append(r.added, scenario.NodeGroup{Name: in.Name, Count: 1, Single: true, Resources: in.Resources, Tags: in.Tags})
		first := scenario.Event{Action: scenario.LoseNodes{Group: in.Name, Count: 1}, Tolerated: true, Where: "journal"}
		r.events = slices.Insert(r.events, 0, first)
	}
	r.seen(in.Node)
	r.happens(&r.events, scenario.ResizeNodes{Group: in.Name, Count: 1, Resources: in.Resources})
}

// duration returns how long an attempt runs.
func (h *History) duration(a sim.Attempt) time.Duration {
	id := a.Operation
	if first := h.start.NextOperation(); id >= first {
		id = h.arrivals[id-first]
	}
	key := jobKey{taskKey{id, a.Task}, a.Cookie}
	expected, known := h.ran[key]
	if !known {
		s := h.tasks[key.taskKey]
		if s.count == 0 {
			s = h.all
		}
		expected = time.Minute
		if s.count > 0 {
			expected = s.sum / time.Duration(s.count)
		}
		if age := h.age[key]; expected <= age { // it ran at least that long
			expected = 2 * age
		}
	}
	return max(expected, a.Age+time.Millisecond)
}

// Change is what differs from the recording.
type Change struct {
	// Pools replace the recorded configuration of trees. The recorded changes of other trees happen.
	Pools []document.Named[*pooltree.Tree]
	// Add are nodes that are there from the start, and Without the names of nodes that are never there.
	Add     []MoreNodes
	Without []string
}

// MoreNodes are nodes that equal a recorded one.
type MoreNodes struct {
	Count int
	Like  string
}

// Run runs the time again, with a change. The error names a node that the recording does not know.
func (h *History) Run(ctx context.Context, change Change) (*outcome.Result, error) {
	pools := change.Pools
	start := sim.From(h.start, h.From, h.duration)
	start.Name = nameOf
	length := h.To.Sub(h.From)
	s := &scenario.Scenario{
		Start: h.From, Duration: document.Some(length), Seed: 1,
		Scheduler:  scenario.Scheduler{HeartbeatPeriod: h.heartbeat, UpdatePeriod: h.update},
		Statistics: scenario.Statistics{Period: max(length/600, h.update), Samples: 60, Operations: 1 << 30},
	}
	for _, t := range pools {
		s.Events = append(s.Events, scenario.Event{Action: scenario.ReplaceTree{Tree: t.Name, Config: t.Value}, Where: "--with"})
	}
	if err := h.changeNodes(s, &change); err != nil {
		return nil, err
	}
	for _, e := range h.trees {
		replaced := func(t document.Named[*pooltree.Tree]) bool { return t.Name == e.Action.(scenario.ReplaceTree).Tree }
		if !slices.ContainsFunc(pools, replaced) {
			s.Events = append(s.Events, e)
		}
	}
	slices.SortStableFunc(s.Events, func(a, b scenario.Event) int { return int(min(max(a.At-b.At, -1), 1)) })
	return sim.Resume(ctx, start, s, sim.Options{})
}

// changeNodes adds the nodes of a change and the recorded events, without those of nodes that are not there.
func (h *History) changeNodes(s *scenario.Scenario, change *Change) error {
	known := map[string]scenario.NodeGroup{}
	for n := range h.start.Picture(h.From).Nodes() {
		known[n.Name] = scenario.NodeGroup{Resources: n.Resources, Tags: n.Tags}
	}
	for _, n := range h.added {
		known[n.Name] = n
	}
	s.Nodes = slices.Clone(h.added)
	for i, more := range change.Add {
		like, there := known[more.Like]
		if !there {
			return fmt.Errorf("the recording has no node %q", more.Like)
		}
		s.Nodes = append(s.Nodes, scenario.NodeGroup{Name: fmt.Sprintf("more-%d", i+1), Count: more.Count, Resources: like.Resources, Tags: like.Tags})
	}
	for _, name := range change.Without {
		if _, there := known[name]; !there {
			return fmt.Errorf("the recording has no node %q", name)
		}
		s.Events = append(s.Events, scenario.Event{Action: scenario.LoseNodes{Group: name, Count: 1}, Tolerated: true, Where: "change"})
	}
	for _, e := range h.events {
		if group, is := nodeOf(e.Action); !is || !slices.Contains(change.Without, group) {
			s.Events = append(s.Events, e)
		}
	}
	return nil
}

// nodeOf returns the node that an event is about.
func nodeOf(a scenario.Action) (name string, is bool) {
	switch a := a.(type) {
	case scenario.LoseNodes:
		return a.Group, true
	case scenario.ReturnNodes:
		return a.Group, true
	case scenario.ResizeNodes:
		return a.Group, true
	}
	return "", false
}
