package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/entitlement"
	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/nodefilter"
	"github.com/weirhq/weir/internal/value/resource"
)

// standIn is a small scheduler behind the simulator's seam. Without fair it is
// strict: operations in the order of arrival, each job on the first node that
// reports and has room. With fair it orders operations by how little of their
// fair share they have, and starving ones preempt the newest jobs of operations
// above theirs. It knows running limits, ephemeral pools, tag filters, and
// several trees.
type standIn struct {
	fair  bool
	trees []*standTree
	nodes map[NodeID]*standNode
	ops   []*standOperation // by OperationID
	live  []*standOperation // those that have not ended
	jobs  map[JobID]*standJob
	next  JobID
	main  int // default tree
	// idle is what Idle says; jobs that wait make it false.
	waiting int
}

type standTree struct {
	name    string
	config  *pooltree.Tree
	tree    fairshare.Tree
	engine  fairshare.Engine
	result  fairshare.Result
	updated time.Time
	total   resource.Amounts
	slots   map[string]int32 // pools
	names   []string         // by slot; empty for operations
	made    map[int32]bool   // ephemeral pools
}

type standNode struct {
	resources, free resource.Amounts
	tags            []string
	tree            int // -1: none
	jobs            []*standJob
}

type standOperation struct {
	id        OperationID
	arrived   time.Time
	options   pooltree.OperationOptions
	each      resource.Amounts
	jobs      int
	fresh     int32 // index of the next job that never ran
	returned  []int32
	done      int
	running   []*standJob
	state     OperationState
	suspended bool
	trees     []int
	used      map[int]resource.Amounts // by tree
	slot      map[int]int32            // of its element, by tree
	pool      map[int]string
	belowFrom time.Time
	starving  bool
}

type standJob struct {
	id    JobID
	op    *standOperation
	index int32
	node  NodeID
	tree  int
	since time.Time
}

func newStandIn(fair bool) *standIn {
	return &standIn{fair: fair, nodes: map[NodeID]*standNode{}, jobs: map[JobID]*standJob{}}
}

// Matching and BestShare make a tree's nodes known to the engine.
func (t *standTree) Matching(nodefilter.Filter) (resource.Amounts, bool) { return t.total, true }
func (t *standTree) BestShare(resource.Amounts) resource.Shares          { return resource.Shares{} }

func (s *standIn) Apply(now time.Time, change Change, out *Decisions) error {
	switch c := change.(type) {
	case SetTrees:
		return s.setTrees(c)
	case SetVolume:
		t := s.trees[c.Tree]
		t.setState(t.slots[c.Pool], fairshare.State{Volume: resource.VolumeOf(t.total, c.Seconds, 1)})
	case AddNode:
		return s.addNode(now, c, out)
	case RemoveNode:
		s.dropNode(now, c.Node, out)
		delete(s.nodes, c.Node)
	case ResizeNode:
		s.resizeNode(c, out)
	case StartOperation:
		return s.start(now, c, out)
	case ChangeOperation:
		return s.changeOperation(c, out)
	case AbortOperation:
		return s.end(now, c.Operation, Aborted, "by the user", out)
	case CompleteOperation:
		return s.end(now, c.Operation, Completed, "", out)
	case SuspendOperation:
		s.ops[c.Operation].suspended = true
	case ResumeOperation:
		s.ops[c.Operation].suspended = false
	default:
		return fmt.Errorf("unknown change %T", change)
	}
	s.countWaiting()
	return nil
}

func (s *standIn) setTrees(c SetTrees) error {
	for i, named := range c.Trees {
		if named.Name == c.Default {
			s.main = i
		}
		if i == len(s.trees) {
			t := &standTree{name: named.Name, slots: map[string]int32{}, made: map[int32]bool{}}
			t.add(pooltree.RootName, entitlement.Root())
			s.trees = append(s.trees, t)
		}
		t := s.trees[i]
		t.config = named.Value
		t.tree.Options = entitlement.Options(named.Value)
		for p := range named.Value.Pools() {
			config := p.Config()
			element := entitlement.Pool(&config, t)
			parent, _ := p.Parent()
			element.Parent = t.slots[parent.Name()]
			if slot, known := t.slots[p.Name()]; known {
				t.tree.Elements[slot] = element
			} else {
				t.add(p.Name(), element)
			}
		}
	}
	return nil
}

func (t *standTree) add(name string, e fairshare.Element) int32 {
	slot := int32(len(t.tree.Elements))
	t.tree.Elements = append(t.tree.Elements, e)
	t.names = append(t.names, name)
	if name != "" {
		t.slots[name] = slot
	}
	return slot
}

func (t *standTree) setState(slot int32, state fairshare.State) {
	for len(t.tree.States) <= int(slot) {
		t.tree.States = append(t.tree.States, fairshare.State{})
	}
	t.tree.States[slot] = state
}

func (s *standIn) addNode(now time.Time, c AddNode, out *Decisions) error {
	if s.nodes[c.Node] != nil {
		s.dropNode(now, c.Node, out)
	}
	n := &standNode{resources: c.Resources, free: c.Resources, tags: c.Tags, tree: -1}
	var matching []string
	for i, t := range s.trees {
		if t.config.Settings().NodesFilter.Value().Matches(func(tag string) bool { return slices.Contains(c.Tags, tag) }) {
			n.tree = i
			matching = append(matching, t.name)
		}
	}
	if len(matching) > 1 {
		return fmt.Errorf("the node matches the trees %v", matching)
	}
	s.nodes[c.Node] = n
	if n.tree >= 0 {
		s.trees[n.tree].total = s.trees[n.tree].total.Add(c.Resources)
	}
	return nil
}

// resizeNode preempts the newest jobs of a node that has become too small.
func (s *standIn) resizeNode(c ResizeNode, out *Decisions) {
	n := s.nodes[c.Node]
	n.free = n.free.Add(c.Resources).Sub(n.resources)
	if n.tree >= 0 {
		s.trees[n.tree].total = s.trees[n.tree].total.Add(c.Resources).Sub(n.resources)
	}
	n.resources = c.Resources
	for !n.free.IsNonNegative() {
		s.stopJob(n.jobs[len(n.jobs)-1], Preempted, "resource_overcommit", NoOperation, out)
	}
}

func (s *standIn) dropNode(now time.Time, id NodeID, out *Decisions) {
	n := s.nodes[id]
	for len(n.jobs) > 0 {
		s.stopJob(n.jobs[0], NodeLost, "node_offline", NoOperation, out)
	}
	if n.tree >= 0 {
		s.trees[n.tree].total = s.trees[n.tree].total.Sub(n.resources)
		n.tree = -1
	}
}

func (s *standIn) start(now time.Time, c StartOperation, out *Decisions) error {
	o := &standOperation{
		id: c.Operation, arrived: now, options: c.Options, each: c.Resources, jobs: c.Jobs,
		slot: map[int]int32{}, pool: map[int]string{}, used: map[int]resource.Amounts{},
	}
	trees := []int{s.main}
	if names, ok := c.Options.PoolTrees.Get(); ok {
		trees = nil
		for i, t := range s.trees {
			if slices.Contains(names, t.name) {
				trees = append(trees, i)
			}
		}
	}
	for _, i := range trees {
		t := s.trees[i]
		name := c.Options.For(t.name).Pool.Or(c.User)
		if p, ok := t.config.Pool(name); ok && p.Config().CreateEphemeralSubpools.Value() {
			name += "$" + c.User
		}
		if p, ok := t.config.Pool(name); ok {
			here := 0
			for _, other := range s.live {
				if other.pool[i] == name {
					here++
				}
			}
			if most := p.Effective().MaxOperationCount; here >= most {
				s.ops = append(s.ops, nil)
				return fmt.Errorf("pool %q has %d operations, which is its limit", name, most)
			}
		}
		o.pool[i] = name
		o.slot[i] = t.add("", fairshare.Element{Kind: fairshare.KindNone})
		out.Placed = append(out.Placed, Placed{Operation: c.Operation, Tree: TreeID(i), Pool: name})
	}
	if len(trees) == 0 {
		s.ops = append(s.ops, nil)
		return errors.New("there is no such tree")
	}
	o.trees = trees
	s.ops = append(s.ops, o)
	s.live = append(s.live, o)
	s.admit(out)
	return nil
}

// admit lets pending operations run, in the order of arrival, as long as their
// pools have room for them.
func (s *standIn) admit(out *Decisions) {
	running := map[string]int{}
	for _, o := range s.live {
		if o.state == Running {
			running[o.pool[o.trees[0]]]++
		}
	}
	for _, o := range s.live {
		if o.state != Pending {
			continue
		}
		tree, name := s.trees[o.trees[0]], o.pool[o.trees[0]]
		most := math.MaxInt
		if p, ok := tree.config.Pool(name); ok {
			most = p.Effective().MaxRunningOperationCount
		}
		if running[name] < most {
			running[name]++
			o.state = Running
			out.Operations = append(out.Operations, OperationChange{Operation: o.id, State: Running})
		}
	}
	s.countWaiting()
}

func (s *standIn) changeOperation(c ChangeOperation, out *Decisions) error {
	o := s.ops[c.Operation]
	if weight, ok := c.Weight.Get(); ok {
		o.options.Weight = document.Some(weight)
	}
	if limits, ok := c.ResourceLimits.Get(); ok {
		o.options.ResourceLimits = document.Some(limits)
	}
	if pool, ok := c.Pool.Get(); ok {
		if _, known := s.trees[o.trees[0]].config.Pool(pool); !known {
			return fmt.Errorf("there is no pool %q", pool)
		}
		o.pool[o.trees[0]] = pool
		out.Placed = append(out.Placed, Placed{Operation: o.id, Tree: TreeID(o.trees[0]), Pool: pool})
	}
	return nil
}

func (s *standIn) end(now time.Time, id OperationID, state OperationState, reason string, out *Decisions) error {
	o := s.ops[id]
	if o == nil || o.state.hasEnded() {
		return errors.New("the operation has ended")
	}
	for len(o.running) > 0 {
		s.stopJob(o.running[0], OperationEnded, "operation_"+state.String(), NoOperation, out)
	}
	o.state = state
	s.live = slices.DeleteFunc(s.live, func(other *standOperation) bool { return other == o })
	for tree, slot := range o.slot {
		s.trees[tree].tree.Elements[slot] = fairshare.Element{Kind: fairshare.KindNone}
	}
	out.Operations = append(out.Operations, OperationChange{Operation: id, State: state, Reason: reason})
	s.admit(out)
	return nil
}

// stopJob ends a job; it will run again unless its operation has ended.
func (s *standIn) stopJob(j *standJob, kind StopKind, reason string, beneficiary OperationID, out *Decisions) {
	s.remove(j)
	j.op.returned = append(j.op.returned, j.index)
	out.Stopped = append(out.Stopped, Stopped{Job: j.id, Kind: kind, Reason: reason, For: beneficiary})
}

func (s *standIn) remove(j *standJob) {
	n := s.nodes[j.node]
	n.free = n.free.Add(j.op.each)
	is := func(k *standJob) bool { return k == j }
	n.jobs = slices.DeleteFunc(n.jobs, is)
	j.op.running = slices.DeleteFunc(j.op.running, is)
	j.op.used[j.tree] = j.op.used[j.tree].Sub(j.op.each)
	delete(s.jobs, j.id)
}

func (o *standOperation) pending() int { return o.jobs - int(o.fresh) + len(o.returned) }

// wants is how many more jobs may run now.
func (o *standOperation) wants() int {
	if o.state != Running || o.suspended {
		return 0
	}
	wanted := o.pending()
	if limits, ok := o.options.ResourceLimits.Get(); ok {
		for _, k := range resource.Kinds {
			if limit, has := limits.Get(k); has && o.each[k] > 0 {
				wanted = min(wanted, int(limit/o.each[k])-len(o.running))
			}
		}
	}
	return max(wanted, 0)
}

func (s *standIn) countWaiting() {
	s.waiting = 0
	for _, o := range s.live {
		if o.state == Running {
			s.waiting += o.wants()
		}
	}
}

// Idle says that no job waits.
func (s *standIn) Idle() bool { return s.waiting == 0 }

func (s *standIn) Heartbeat(now time.Time, id NodeID, finished []Finished, out *Decisions) {
	for _, f := range finished {
		j := s.jobs[f.Job]
		s.remove(j)
		if f.Aborted {
			j.op.returned = append(j.op.returned, j.index)
			continue
		}
		if j.op.done++; j.op.done == j.op.jobs {
			s.end(now, j.op.id, Completed, "", out)
		}
	}
	n := s.nodes[id]
	if n.tree < 0 {
		return
	}
	for _, o := range s.order(n.tree) {
		filter := o.options.SchedulingTagFilter.Value()
		if !slices.Contains(o.trees, n.tree) || !filter.Matches(func(tag string) bool { return slices.Contains(n.tags, tag) }) {
			continue
		}
		for o.wants() > 0 && n.free.Dominates(o.each) {
			s.startJob(now, o, id, "regular", out)
		}
	}
	if s.fair {
		s.preempt(now, id, n, out)
	}
	s.countWaiting()
}

func (s *standIn) startJob(now time.Time, o *standOperation, id NodeID, stage string, out *Decisions) {
	n := s.nodes[id]
	index := o.fresh
	if len(o.returned) > 0 {
		index = o.returned[0]
		o.returned = o.returned[1:]
	} else {
		o.fresh++
	}
	s.next++
	j := &standJob{id: s.next, op: o, index: index, node: id, tree: n.tree, since: now}
	s.jobs[j.id] = j
	n.jobs = append(n.jobs, j)
	n.free = n.free.Sub(o.each)
	o.running = append(o.running, j)
	o.used[j.tree] = o.used[j.tree].Add(o.each)
	out.Started = append(out.Started, Started{Job: j.id, Operation: o.id, Index: index, Node: id, Tree: TreeID(n.tree), Stage: stage})
}

// order returns the operations in the order in which they get jobs.
func (s *standIn) order(tree int) (list []*standOperation) {
	for _, o := range s.live {
		if o.wants() > 0 {
			list = append(list, o)
		}
	}
	if s.fair {
		slices.SortStableFunc(list, func(a, b *standOperation) int {
			return cmp.Compare(s.satisfaction(a, tree), s.satisfaction(b, tree))
		})
	}
	return list
}

// satisfaction is the part of its fair share that an operation uses.
func (s *standIn) satisfaction(o *standOperation, tree int) float64 {
	t := s.trees[tree]
	slot := o.slot[tree]
	if int(slot) >= len(t.result.Elements) {
		return 0
	}
	share := t.result.Elements[slot].FairShare.Largest()
	if share <= 0 {
		return 1e9
	}
	return o.usage(tree).Share(t.total).Largest() / share
}

func (o *standOperation) usage(tree int) resource.Amounts { return o.used[tree] }

// preempt makes room for one job of the first starving operation.
func (s *standIn) preempt(now time.Time, id NodeID, n *standNode, out *Decisions) {
	for _, o := range s.order(n.tree) {
		if !o.starving || !n.resources.Dominates(o.each) {
			continue
		}
		victims := slices.Clone(n.jobs)
		slices.SortStableFunc(victims, func(a, b *standJob) int { return b.since.Compare(a.since) })
		for _, v := range victims {
			if n.free.Dominates(o.each) {
				break
			}
			if v.op != o && v.since != now && s.satisfaction(v.op, n.tree) > 1 {
				s.stopJob(v, Preempted, "starvation", o.id, out)
			}
		}
		if n.free.Dominates(o.each) {
			s.startJob(now, o, id, "preemptive", out)
		}
		return
	}
}

func (s *standIn) Update(now time.Time, _ *Decisions) {
	for i, t := range s.trees {
		t.tree.Total = t.total
		elapsed := fairshare.FirstUpdate
		if !t.updated.IsZero() {
			elapsed = now.Sub(t.updated)
		}
		t.updated = now
		s.fillTree(i, t)
		t.engine.Update(&t.tree, elapsed, &t.result)
		t.tree.States = append(t.tree.States[:0], t.result.States...)
	}
	for _, o := range s.live {
		if o.state != Running {
			continue
		}
		patience := pooltree.Starvation{Tolerance: 0.8, FairShareTimeout: 30 * time.Second}
		if p, ok := s.trees[o.trees[0]].config.Pool(o.pool[o.trees[0]]); ok {
			patience = p.Effective().Starvation
		}
		below := o.wants() > 0 && s.satisfaction(o, o.trees[0]) < patience.Tolerance-1e-9
		if !below {
			o.belowFrom, o.starving = time.Time{}, false
			continue
		}
		if o.belowFrom.IsZero() {
			o.belowFrom = now
		}
		o.starving = now.Sub(o.belowFrom) > patience.FairShareTimeout
	}
	s.countWaiting()
}

// fillTree makes the elements of operations, and of ephemeral pools that they
// need.
func (s *standIn) fillTree(tree int, t *standTree) {
	for slot := range t.made {
		t.tree.Elements[slot].Kind = fairshare.KindNone
	}
	for _, o := range s.live {
		slot := o.slot[tree]
		if o.state != Running || !slices.Contains(o.trees, tree) {
			continue
		}
		usage := o.usage(tree)
		demand := usage.Add(o.each.Times(float64(o.wants())))
		element := entitlement.Operation(&o.options, demand, usage, t)
		element.Parent = s.poolSlot(t, o.pool[tree])
		element.StartTime, element.Pending = o.arrived.UnixMicro(), int64(o.pending())
		t.tree.Elements[slot] = element
	}
}

func (s *standIn) poolSlot(t *standTree, name string) int32 {
	slot, known := t.slots[name]
	if !known || t.made[slot] {
		var config pooltree.PoolConfig
		element := entitlement.Pool(&config, t)
		if i := slices.IndexFunc([]byte(name), func(c byte) bool { return c == '$' }); i > 0 {
			element.Parent = t.slots[name[:i]]
		}
		if known {
			t.tree.Elements[slot] = element
		} else {
			slot = t.add(name, element)
		}
		t.made[slot] = true
	}
	return slot
}

func (s *standIn) Observe(_ time.Time, into *Observation) {
	into.Trees, into.Pools, into.Operations = into.Trees[:0], into.Pools[:0], into.Operations[:0]
	for i, t := range s.trees {
		into.Trees = append(into.Trees, TreeState{Total: t.total})
		s.observePools(i, t, into)
	}
	if !into.WithOperations {
		return
	}
	for _, o := range s.live {
		if o.state.hasEnded() {
			continue
		}
		for _, tree := range o.trees {
			v := OperationView{
				Operation: o.id, Tree: TreeID(tree), Usage: o.usage(tree), Suspended: o.suspended,
				RunningJobs: int32(len(o.running)), PendingJobs: int32(o.pending()),
			}
			v.Demand = v.Usage.Add(o.each.Times(float64(o.wants())))
			if slot := o.slot[tree]; int(slot) < len(s.trees[tree].result.Elements) {
				v.FairShare = s.trees[tree].result.Elements[slot].FairShare
			}
			if !o.belowFrom.IsZero() {
				v.Status = BelowFairShare
			}
			if o.starving {
				v.Starvation = Starving
			}
			v.Classes[NonPreemptible] = int32(len(o.running))
			into.Operations = append(into.Operations, v)
		}
	}
}

// observePools lists the pools of a tree. Slots of parents are before those of
// their children.
func (s *standIn) observePools(tree int, t *standTree, into *Observation) {
	index := map[int32]int32{}
	for slot := range t.tree.Elements {
		e := &t.tree.Elements[slot]
		if t.names[slot] == "" || e.Kind == fairshare.KindNone {
			continue
		}
		p := PoolState{Tree: TreeID(tree), Name: t.names[slot], Parent: -1, Ephemeral: t.made[int32(slot)]}
		if slot > 0 {
			p.Parent = index[e.Parent]
		}
		if slot < len(t.result.Elements) {
			p.FairShare = t.result.Split(int32(slot))
		}
		if slot < len(t.tree.States) {
			p.Volume = t.tree.States[slot].Volume.Ratio(t.total)
		}
		p.Integral = e.Pool != nil && e.Pool.Integral.Type != fairshare.NoIntegral
		index[int32(slot)] = int32(len(into.Pools))
		into.Pools = append(into.Pools, p)
	}
	for _, o := range s.live {
		if o.state != Running || !slices.Contains(o.trees, tree) {
			continue
		}
		usage := o.usage(tree)
		demand := usage.Add(o.each.Times(float64(o.wants())))
		slot, known := t.slots[o.pool[tree]]
		at, there := index[slot]
		for known && there && at >= 0 {
			p := &into.Pools[at]
			p.Usage, p.Demand = p.Usage.Add(usage), p.Demand.Add(demand)
			p.RunningOperations++
			p.RunningJobs += int32(len(o.running))
			p.PendingJobs += int32(o.pending())
			at = p.Parent
		}
	}
}

var (
	_ System = (*standIn)(nil)
	_ Idler  = (*standIn)(nil)
)
