package why

import (
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

// Scene is a core as of one moment, with what the next round would do. Questions
// change nothing, so they may be asked concurrently.
type Scene struct {
	now    time.Time
	before *core.Core // before the round
	core   *core.Core // after the update of the round
	after  *core.Core // after the whole round
	gates  Gates
	closed func(core.NodeID) bool
	starts []core.Started
	stops  []core.Stopped
	// started counts starts and finds the first node, by kind.
	started map[kindKey]*kindStarts
}

// kindKey identifies a kind.
type kindKey struct {
	operation core.OperationID
	tree      core.TreeID
	task      int32
}

type kindStarts struct {
	count int
	node  core.NodeID
}

// Look runs a round on forks of a core. The scene owns the core from then on.
func Look(c *core.Core, now time.Time, gates Gates) *Scene {
	return LookSlowly(c, now, gates, func() bool { return true })
}

// LookSlowly is Look for a caller that must not work without pauses: it calls pace, which may wait,
// between heartbeats. What pace returns does not matter: a scene is always whole.
func LookSlowly(c *core.Core, now time.Time, gates Gates, pace func() bool) *Scene {
	s := &Scene{now: now, before: c, core: c.Fork(), gates: gates, closed: gates.closed(), started: map[kindKey]*kindStarts{}}
	var out core.Decisions
	pace()
	update(s.core, now, &out)
	pace()
	s.after = s.core.Fork()
	round(s.after, now, &s.gates, &out, pace)
	s.starts, s.stops = out.Started, out.Stopped
	for i := range s.starts {
		start := &s.starts[i]
		key := kindKey{start.Operation, start.Tree, start.Task}
		if s.started[key] == nil {
			s.started[key] = &kindStarts{node: start.Node}
		}
		s.started[key].count++
	}
	return s
}

// AsOf returns the moment of the scene.
func (s *Scene) AsOf() time.Time { return s.now }

// Gates returns the gates.
func (s *Scene) Gates() Gates { return s.gates }

func update(c *core.Core, now time.Time, out *core.Decisions) {
	_ = c.Apply(now, &core.UpdateInput{}, out) // never refused
}

// round sends a heartbeat of every open node. It calls pace between them.
func round(c *core.Core, now time.Time, gates *Gates, out *core.Decisions, pace func() bool) {
	if len(gates.Cluster) > 0 {
		return
	}
	closed := gates.closed()
	for _, id := range c.OpenNodes() {
		if closed == nil || !closed(id) {
			_ = c.Apply(now, &core.HeartbeatInput{Node: id}, out) // never refused
			pace()
		}
	}
}

// Kind is the waiting jobs of one task in one tree.
type Kind struct {
	Tree, Pool, Task string
	// Need is what each of the Waiting jobs needs.
	Need    resource.Amounts
	Waiting int32
	// Starts is the number of jobs that start in the round, Node the node of the
	// first.
	Starts int
	Node   string
	// Blockers are what keeps all of them waiting, in order; it is empty if and only
	// if Starts is positive. Then are the blockers of the next job after the round.
	Blockers, Then []Blocker
	// Nodes is the number of nodes in the tree, Fitting those with room for a job.
	Nodes, Fitting int
	LastStart      time.Time
}

// Operation is the situation of an operation.
type Operation struct {
	AsOf time.Time
	// Facts are the conditions that blockers are made of, and where its shares come
	// from.
	Facts core.OperationExplanation
	Kinds []Kind
	// Starts is the number of jobs that start in the round, Node the node of the
	// first. Blockers are what keeps all of its jobs waiting, in order; it is empty if
	// Starts is positive. Then are the blockers of kinds, or further jobs, that do not
	// start although others do.
	Starts         int
	Node           string
	Blockers, Then []Blocker
}

// Operation explains an operation. It returns core.ErrNoOperation if the operation
// does not exist.
func (s *Scene) Operation(id core.OperationID) (*Operation, error) { return s.operation(id, true) }

func (s *Scene) operation(id core.OperationID, preemption bool) (*Operation, error) {
	facts, err := s.core.ExplainOperation(s.now, id, s.closed, preemption)
	if err != nil {
		return nil, err
	}
	x := &Operation{AsOf: s.now, Facts: facts}
	var later *core.OperationExplanation
	state := s.stateBlockers(id, &facts)
	var blocked []Blocker
	for i := range facts.Trees {
		tree := &facts.Trees[i]
		for task := range tree.Tasks {
			if tree.Tasks[task].Waiting == 0 {
				continue
			}
			k := s.kind(id, &facts, tree, int32(task))
			if k.Starts > 0 && int(k.Waiting) > k.Starts {
				if later == nil {
					if found, err := s.after.ExplainOperation(s.now, id, s.closed, false); err == nil {
						later = &found
					} else {
						later = &core.OperationExplanation{}
					}
				}
				k.Then = s.next(later, tree.ID, int32(task), id)
			}
			if k.Starts > 0 && x.Starts == 0 {
				x.Node = k.Node
			}
			x.Starts += k.Starts
			blocked = append(append(blocked, k.Blockers...), k.Then...)
			x.Kinds = append(x.Kinds, k)
		}
	}
	all := append(state, blocked...)
	if len(x.Kinds) == 0 || len(state) > 0 {
		all = append(all, s.gateBlockers(id)...)
	}
	all = merge(all, len(x.Kinds) > 1)
	rank(all)
	if x.Starts > 0 {
		x.Then = all
	} else {
		x.Blockers = all
	}
	return x, nil
}

// merge removes repeated blockers and, if there is one kind only, the task's name.
func merge(list []Blocker, several bool) (merged []Blocker) {
	type key struct {
		code       Code
		tree       core.TreeID
		task       int32
		pool       string
		resource   resource.Kind
		ownElement bool
	}
	seen := map[key]bool{}
	for _, b := range list {
		if !several {
			b.Task = ""
		}
		k := key{b.Code, b.tree, b.task, b.Pool, b.Resource, b.Pool == ""}
		switch b.Code.Class() {
		case ClassGate:
			k = key{code: b.Code}
		case ClassState:
			k.task = 0
		}
		switch b.Code {
		case NodeFilter, NodeBan, NodeGated, AboveShareGraceful, Gang:
			k.task, b.Task = 0, ""
		}
		if !seen[k] {
			seen[k] = true
			merged = append(merged, b)
		}
	}
	return merged
}

// kind explains the waiting jobs of a task in a tree.
func (s *Scene) kind(id core.OperationID, facts *core.OperationExplanation, tree *core.TreeExplanation, task int32) Kind {
	t := &tree.Tasks[task]
	k := Kind{
		Tree: tree.Tree, Pool: tree.Pool, Task: t.Task, Need: t.Resources, Waiting: t.Waiting, Nodes: tree.Nodes, Fitting: t.Fitting,
		LastStart: tree.LastStart,
	}
	if start := s.started[kindKey{id, tree.ID, task}]; start != nil {
		k.Starts, k.Node = start.count, s.core.NodeName(start.node)
		return k
	}
	k.Blockers = append(s.gateBlockers(id), s.conditions(s.core, tree, task)...)
	if len(k.Blockers) == 0 {
		k.Blockers = s.turn(id, tree, task)
	}
	for i := range k.Blockers {
		b := &k.Blockers[i]
		b.owner, b.tree, b.task, b.need = id, tree.ID, task, t.Need
		if b.Tree == "" && b.Code.Class() != ClassGate {
			b.Tree = tree.Tree
		}
		if b.Code.Class() != ClassGate && b.Code.Class() != ClassState {
			b.Task = t.Task
		}
		if b.Since.IsZero() && (b.Code.Class() == ClassNodes || b.Code.Class() == ClassTurn) {
			b.Since, b.SinceLastStart = tree.LastStart, true
		}
	}
	rank(k.Blockers)
	return k
}

// next returns the blockers of the next job of a kind after the round.
func (s *Scene) next(later *core.OperationExplanation, tree core.TreeID, task int32, id core.OperationID) []Blocker {
	for i := range later.Trees {
		t := &later.Trees[i]
		if t.ID != tree || int(task) >= len(t.Tasks) || t.Tasks[task].Waiting == 0 {
			continue
		}
		list := s.conditions(s.after, t, task)
		for i := range list {
			b := &list[i]
			b.owner, b.tree, b.task, b.need, b.Tree, b.Task = id, tree, task, t.Tasks[task].Need, t.Tree, t.Tasks[task].Task
		}
		rank(list)
		return list
	}
	return nil
}

// gateBlockers returns the gates that are closed, as blockers of an operation.
func (s *Scene) gateBlockers(id core.OperationID) (list []Blocker) {
	for _, g := range s.gates.Cluster {
		list = append(list, Blocker{
			Code: g.Code, owner: id, Since: g.Since, Until: g.Until, Names: g.Nodes[:min(len(g.Nodes), most)], Nodes: len(g.Nodes), Waiting: g.Waiting, Detail: g.Detail,
		})
	}
	return list
}

// stateBlockers returns the blockers that concern the whole operation.
func (s *Scene) stateBlockers(id core.OperationID, facts *core.OperationExplanation) (list []Blocker) {
	add := func(b Blocker) {
		b.owner = id
		list = append(list, b)
	}
	for i := range facts.Trees {
		tree := &facts.Trees[i]
		if w := tree.Waits; w != nil {
			b := Blocker{
				Code: CountLimit, Tree: tree.Tree, Pool: w.Pool, Running: w.Running, Most: w.Limit, Ahead: w.Ahead, Since: facts.StartTime, tree: tree.ID,
			}
			for _, holder := range w.Oldest {
				h := core.Holding{Operation: holder}
				if x := s.core.ControllerOf(holder); x != nil {
					h.Since = x.StartTime()
				}
				b.Holders = append(b.Holders, h)
			}
			b.Others = max(w.Running-len(b.Holders), 0)
			add(b)
		}
	}
	switch facts.Block {
	case operation.BlockedNotRunning:
		if len(list) == 0 {
			add(Blocker{Code: OperationNotRunning, Detail: facts.State.String()})
		}
	case operation.BlockedSuspended:
		add(Blocker{Code: OperationSuspended})
	case operation.BlockedFailing:
		add(Blocker{Code: OperationFailing})
	case operation.BlockedNoPendingJobs:
		add(Blocker{Code: NoWaitingJobs})
	case operation.BlockedBackingOff:
		add(Blocker{Code: OperationBacksOff, Until: facts.BacksOffUntil})
	}
	return list
}

// conditions returns the conditions of a start that are false in a core: limits,
// shares and nodes.
func (s *Scene) conditions(c *core.Core, tree *core.TreeExplanation, task int32) (list []Blocker) {
	t := &tree.Tasks[task]
	distance := s.distances(tree)
	for i := range t.Obstacles {
		o := &t.Obstacles[i]
		if o.Refusal != scheduling.RefusedOperationLimit && o.Refusal != scheduling.RefusedPoolLimit {
			continue
		}
		if o.Option == scheduling.ByTagFilter && o.Limit == 0 {
			continue // no node matches, which the conditions of nodes state
		}
		b := Blocker{
			Code: Limit, Pool: o.Pool, Distance: distance[o.Pool], Option: o.Option, Resource: o.Resource, HasResource: true,
			Need: o.Needed, Limit: o.Limit, Used: o.Used, Short: o.Used + o.Needed - o.Limit, Since: o.Since,
		}
		if o.Needed > o.Limit {
			b.Code = JobLargerThanLimit
		}
		if o.Pool != "" {
			b.hold(c.Holders(tree.ID, o.Pool, o.Resource))
		}
		list = append(list, b)
	}
	for i := range tree.Obstacles {
		switch o := &tree.Obstacles[i]; o.Refusal {
		case scheduling.RefusedGracefulAboveShare:
			list = append(list, Blocker{Code: AboveShareGraceful})
		case scheduling.RefusedSuspended:
			list = append(list, Blocker{Code: OperationSuspended})
		case scheduling.RefusedCount:
			list = append(list, Blocker{Code: CountLimit, Pool: o.Pool, Running: int(o.Needed) - 1, Most: int(o.Available)})
		case scheduling.RefusedGang:
			b := Blocker{Code: Gang, Gang: *tree.Gang}
			if tree.Gang.Aside.After(s.now) {
				b.Until = tree.Gang.Aside
			}
			list = append(list, b)
		}
	}
	if t.Fitting == 0 {
		list = append(list, s.nodeConditions(c, tree, task, distance)...)
	}
	return list
}

// distances returns how many levels above the operation each pool is.
func (s *Scene) distances(tree *core.TreeExplanation) map[string]int {
	levels := map[string]int{}
	if tree.Share != nil {
		for i, link := range tree.Share.Chain {
			levels[link.Pool] = i
		}
	}
	return levels
}

// nodeConditions states why no node has room for a job.
func (s *Scene) nodeConditions(c *core.Core, tree *core.TreeExplanation, task int32, distance map[string]int) (list []Blocker) {
	t := &tree.Tasks[task]
	gated := s.gatedNodes(tree)
	outside := 0 // nodes that might be in the tree without their gates
	for _, count := range gated.Gates {
		outside += count
	}
	if tree.Nodes == 0 && outside == 0 {
		return []Blocker{{Code: TreeWithoutNodes}}
	}
	excluded, avoided := 0, 0
	for i := range tree.Obstacles {
		o := &tree.Obstacles[i]
		b := Blocker{Pool: o.Pool, Distance: distance[o.Pool], Nodes: o.Nodes, Names: o.Names}
		switch o.Refusal {
		case scheduling.RefusedTag:
			b.Code = NodeFilter
			excluded += o.Nodes
		case scheduling.RefusedBanned:
			b.Code = NodeBan
			avoided += o.Nodes
		default:
			continue
		}
		list = append(list, b)
	}
	for i := range t.Obstacles {
		if o := &t.Obstacles[i]; o.Refusal == scheduling.RefusedConstraints {
			list = append(list, Blocker{Code: NodeConstraints, Nodes: o.Nodes, Names: o.Names})
			avoided += o.Nodes
		}
	}
	if outside > 0 {
		list = append(list, gated)
	}
	switch {
	case tree.Nodes > 0 && excluded == tree.Nodes && outside == 0:
		list = append(list, Blocker{Code: NoNodeMatches, Nodes: excluded})
	case t.Lacking > 0 && t.TooSmall == t.Lacking && avoided == 0 && outside == 0:
		b := s.shortOnNodes(c, tree, task)
		b.Code = JobLargerThanAnyNode
		b.Limit, b.Free = t.Largest[b.Resource], 0
		b.Short = b.Need - b.Limit
		if b.Short <= 0 { // every resource is on some node, but not all on one
			b.Short, b.Detail = 0, "no node has all resources that a job needs"
		}
		list = append(list, b)
	case t.Lacking > 0:
		list = append(list, s.shortOnNodes(c, tree, task))
	}
	return list
}

// shortOnNodes describes what the nodes lack: the resource that most of them lack.
func (s *Scene) shortOnNodes(c *core.Core, tree *core.TreeExplanation, task int32) Blocker {
	t := &tree.Tasks[task]
	b := Blocker{Code: NodeResources, Nodes: t.Lacking, TooSmall: t.TooSmall}
	lacking := 0
	for i := range t.Obstacles {
		o := &t.Obstacles[i]
		if o.Refusal != scheduling.RefusedNodeResources || o.Nodes <= lacking {
			continue
		}
		lacking = o.Nodes
		b.Resource, b.HasResource, b.Need, b.Free, b.Names, b.at = o.Resource, true, o.Needed, o.Available, o.Names, o.At
		b.Short = o.Needed - o.Available
	}
	b.Fragmented = t.Free.Dominates(t.Need)
	b.Spare = b.Need > t.Group.Resources[b.Resource]
	b.hold(c.HoldersOn(tree.ID, b.at, b.Resource))
	return b
}

// gatedNodes counts the nodes with gates that are in a tree, or might be.
func (s *Scene) gatedNodes(tree *core.TreeExplanation) Blocker {
	b := Blocker{Code: NodeGated}
	for i := range s.gates.Nodes {
		g := &s.gates.Nodes[i]
		if at, in := s.core.NodeTree(g.Node); in && at != tree.ID {
			continue
		}
		b.Nodes++
		b.Gates[g.Code]++
		if len(b.Names) < most {
			b.Names = append(b.Names, g.Name)
		}
	}
	return b
}

// turn explains a kind that no condition keeps from starting, and that does not
// start in the round: packing refuses the nodes, or others are served first.
func (s *Scene) turn(id core.OperationID, tree *core.TreeExplanation, task int32) (list []Blocker) {
	if refused := s.refusedByPacking(id, tree); refused > 0 {
		list = append(list, Blocker{Code: Packing, Nodes: refused})
	}
	b := Blocker{Code: TurnSatisfaction, Own: tree.Satisfaction, Nodes: tree.Tasks[task].Fitting}
	var rivals []Rival
	index := map[core.OperationID]int{}
	for i := range s.starts {
		start := &s.starts[i]
		if start.Tree != tree.ID && start.Operation != id {
			continue
		}
		at, known := index[start.Operation]
		if !known {
			at = len(rivals)
			index[start.Operation] = at
			pool, _ := s.core.PoolOf(start.Operation, tree.ID)
			rivals = append(rivals, Rival{Operation: start.Operation, Pool: pool, Satisfaction: s.core.Satisfaction(start.Operation, tree.ID)})
		}
		rivals[at].Jobs++
	}
	if len(rivals) == 0 && len(list) > 0 {
		return list
	}
	if tree.FIFO && len(rivals) > 0 && rivals[0].Pool == tree.Pool {
		b.Code = TurnFIFO
	}
	b.Rivals = rivals[:min(len(rivals), most)]
	b.OtherRivals = len(rivals) - len(b.Rivals)
	return append(list, b)
}

// refusedByPacking counts the nodes that packing refused in the round.
func (s *Scene) refusedByPacking(id core.OperationID, tree *core.TreeExplanation) int {
	return int(s.after.PackingRefusals(id, tree.ID)) - int(tree.PackingRefusals)
}
