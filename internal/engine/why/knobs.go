package why

import (
	"math"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/nodefilter"
	"github.com/weirhq/weir/internal/value/resource"
)

const cpu = resource.CPU

// Bounds of single knobs.
const (
	mostPools      = 8    // other pools that are tried
	mostWeight     = 1024 // times the present weight
	mostNodes      = 64   // that are added
	mostWaits      = 16   // jobs to wait for
	mostWaitNodes  = 256  // nodes that are compared
	mostOperations = 5000 // that run in a pool
)

// candidates collects the knobs that touch the blockers, what the user can do
// first, then by blocker.
func (a *adviser) candidates() {
	for i := range a.Blockers {
		a.touch(i, &a.Blockers[i])
	}
	if len(a.Blockers) > 0 && !a.stateOnly() {
		a.otherPools()
		a.otherTrees()
	}
	slices.SortStableFunc(a.knobs, func(x, y knob) int { return int(x.at(x.seed).Who) - int(y.at(y.seed).Who) })
	if more := len(a.knobs) - mostCandidates; more > 0 {
		for _, k := range a.knobs[mostCandidates:] {
			a.NotTried = append(a.NotTried, k.at(k.seed))
		}
		a.knobs = a.knobs[:mostCandidates]
	}
}

// stateOnly reports whether the operation itself keeps its jobs from starting.
func (a *adviser) stateOnly() bool {
	return slices.ContainsFunc(a.Blockers, func(b Blocker) bool { return b.Code.Class() == ClassState && b.Code != CountLimit })
}

// turn adds a knob, unless the question excludes it.
func (a *adviser) turn(blocker int, k knob) {
	k.blocker, k.steps, k.seed = blocker, max(k.steps, 1), max(k.seed, 1)
	c := k.at(min(k.seed, k.steps))
	if c.Who == Nobody && a.question.By > 0 { // the run ahead waits anyway
		return
	}
	if c.Who != Nobody && c.Who > a.question.Upto || len(a.question.Knobs) > 0 && !slices.Contains(a.question.Knobs, c.Knob) {
		return
	}
	for i := range a.knobs {
		other := a.knobs[i].at(a.knobs[i].seed)
		if other.Knob == c.Knob && other.Tree == c.Tree && other.Pool == c.Pool && other.Option == c.Option && other.Operation == c.Operation &&
			other.Node == c.Node && other.Task == c.Task && c.Knob != KnobWait {
			return
		}
	}
	a.knobs = append(a.knobs, k)
}

// choice adds a knob with one position.
func (a *adviser) choice(blocker int, c Change) {
	a.turn(blocker, knob{steps: 1, seed: 1, at: func(int64) Change { return c }})
}

// missing is how many more jobs must start.
func (a *adviser) missing() int64 { return int64(a.Jobs - a.Starts) }

func (a *adviser) spec() *operation.Spec {
	return a.scene.before.ControllerOf(a.question.Operation).Spec()
}

// tree returns the configuration of a tree.
func (a *adviser) tree(name string) *pooltree.Tree {
	for _, t := range a.scene.before.Configuration().Trees {
		if t.Name == name {
			return t.Value
		}
	}
	return nil
}

// touch adds the knobs that concern a blocker.
func (a *adviser) touch(i int, b *Blocker) {
	id := a.question.Operation
	switch b.Code {
	case OperationSuspended:
		a.choice(i, Change{Knob: KnobResume, Who: User, inputs: []core.Input{&core.ResumeInput{Operation: id}}})
	case OperationBacksOff:
		a.choice(i, Change{Knob: KnobWait, Who: Nobody, Operation: core.NoOperation, Until: b.Until, waits: true})
	case CountLimit:
		a.count(i, b)
	case Limit, JobLargerThanLimit:
		a.limit(i, b)
		a.need(i, b)
		a.holders(i, b)
		a.waitBelow(i, b)
	case AboveShareGraceful:
		a.weights(i, b)
	case NodeFilter, NoNodeMatches:
		a.filters(i, b)
	case NodeGated:
		a.release(i, b)
	case NodeResources:
		a.need(i, b)
		a.holders(i, b)
		a.starvation(i, b)
		a.nodes(i, b)
		a.waitOnNode(i, b)
	case JobLargerThanAnyNode:
		a.need(i, b)
		a.nodes(i, b)
	case TurnFIFO, TurnSatisfaction:
		a.weights(i, b)
		a.guarantee(i, b)
		for _, r := range b.Rivals {
			if r.Operation != id {
				a.choice(i, Change{Knob: KnobSuspend, Who: Owner, Operation: r.Operation, inputs: []core.Input{&core.SuspendInput{Operation: r.Operation}}})
			}
		}
	}
}

// option returns the edit that sets an option of a pool, or of the tree for the
// root.
func option(tree, pool, name string, value document.Value) treeEdit {
	if pool == core.RootName {
		return treeEdit{tree, pooltree.SetTreeOption{Option: name, Value: value}}
	}
	return treeEdit{tree, pooltree.SetPoolOption{Pool: pool, Option: name, Value: value}}
}

func amountValue(k resource.Kind, v int64) document.Value {
	if k.Scale() == 1 {
		return document.Int(v)
	}
	return document.Number(float64(v) / float64(k.Scale()))
}

// inTree returns a change of the operation's own parameters in one tree.
func (a *adviser) inTree(tree string, options pooltree.SchedulingOptions) core.Input {
	var u operation.Update
	if len(a.facts.Facts.Trees) == 1 && !options.ResourceLimits.IsSet() {
		u.Trees.Pool, u.Trees.Weight = options.Pool, options.Weight
	} else {
		u.Trees.PerTree = []document.Named[pooltree.SchedulingOptions]{{Name: tree, Value: options}}
	}
	return &core.ParametersInput{Operation: a.question.Operation, Update: u}
}

// limit raises a limit.
func (a *adviser) limit(i int, b *Blocker) {
	switch {
	case b.Option == scheduling.ByTagFilter:
		a.filters(i, b)
		return
	case b.Pool == core.RootName:
		a.nodes(i, b) // all that the tree has
		return
	case b.Option == scheduling.ByMaxShareRatio:
		a.shareRatio(i, b)
		return
	}
	short := b.Used + b.Need*a.missing() - b.Limit
	c := Change{
		Knob: KnobLimit, Who: Owner, Tree: b.Tree, Pool: b.Pool, Option: "resource_limits/" + b.Resource.String(),
		Resource: b.Resource, HasResource: true, FromAmount: b.Limit, From: amountValue(b.Resource, b.Limit),
	}
	if b.Pool == "" {
		c.Who = User
	} else if _, configured := a.tree(b.Tree).Pool(b.Pool); !configured {
		return
	}
	limits := a.spec().OperationOptions.For(b.Tree).ResourceLimits.Value()
	a.turn(i, knob{
		seed: short, steps: max(short, a.scene.core.TreeTotal(b.tree)[b.Resource]-b.Limit), scale: 1 / float64(max(b.Limit, b.Need, 1)),
		at: func(d int64) Change {
			c := c
			c.ToAmount = b.Limit + d
			c.To = amountValue(b.Resource, c.ToAmount)
			if b.Pool == "" {
				c.Limits = limits.With(b.Resource, c.ToAmount)
				c.inputs = []core.Input{a.inTree(b.Tree, pooltree.SchedulingOptions{ResourceLimits: document.Some(c.Limits)})}
			} else {
				c.edits = []treeEdit{option(b.Tree, b.Pool, c.Option, c.To)}
			}
			return c
		},
	})
}

// shareRatio raises max_share_ratio, in thousandths.
func (a *adviser) shareRatio(i int, b *Blocker) {
	p, configured := a.tree(b.Tree).Pool(b.Pool)
	if !configured {
		return
	}
	from := p.Config().MaxShareRatio.Or(1)
	need := float64(b.Used+b.Need*a.missing()) / float64(max(a.scene.core.TreeTotal(b.tree)[b.Resource], 1))
	if b.Limit > 0 {
		need = from * float64(b.Used+b.Need*a.missing()) / float64(b.Limit)
	}
	a.turn(i, knob{
		seed: int64(math.Ceil((need - from) * 1000)), steps: int64(math.Ceil((1 - from) * 1000)), scale: 1e-3,
		at: func(d int64) Change {
			to := document.Number(math.Min(math.Round(from*1000+float64(d))/1000, 1))
			return Change{
				Knob: KnobShareRatio, Who: Owner, Tree: b.Tree, Pool: b.Pool, Option: "max_share_ratio", From: document.Number(from), To: to,
				edits: []treeEdit{option(b.Tree, b.Pool, "max_share_ratio", to)},
			}
		},
	})
}

// count lets more operations run in a pool, or ends one of those that do.
func (a *adviser) count(i int, b *Blocker) {
	_, configured := a.tree(b.Tree).Pool(b.Pool)
	who := Owner
	if b.Pool == core.RootName {
		configured, who = true, Administrator
	}
	if configured {
		a.turn(i, knob{
			seed: int64(b.Ahead) + 1, steps: mostOperations, scale: 1 / float64(max(b.Most, 1)),
			at: func(d int64) Change {
				to := document.Int(int64(b.Most) + d)
				return Change{
					Knob: KnobCount, Who: who, Tree: b.Tree, Pool: b.Pool, Option: "max_running_operation_count", From: document.Int(int64(b.Most)), To: to,
					edits: []treeEdit{option(b.Tree, b.Pool, "max_running_operation_count", to)},
				}
			},
		})
	}
	for _, h := range b.Holders {
		a.choice(i, Change{Knob: KnobAbort, Who: Owner, Operation: h.Operation, Running: true, inputs: []core.Input{&core.AbortInput{Operation: h.Operation}}})
		a.choice(i, Change{Knob: KnobWait, Who: Nobody, Operation: h.Operation, inputs: []core.Input{&core.CompleteInput{Operation: h.Operation}}})
	}
}

// weights raises the weight of the operation and of its pool.
func (a *adviser) weights(i int, b *Blocker) {
	tree := a.treeFacts(b)
	if tree == nil {
		return
	}
	add := func(c Change, from float64, change func(*Change, float64)) {
		a.turn(i, knob{
			seed: 5, steps: (mostWeight - 1) * 100, scale: 1e-2,
			at: func(d int64) Change {
				c := c
				to := from * (1 + float64(d)/100)
				c.From, c.To = document.Number(from), document.Number(to)
				change(&c, to)
				return c
			},
		})
	}
	own := a.spec().OperationOptions.For(b.Tree).Weight.Or(1)
	add(Change{Knob: KnobWeight, Who: User, Tree: b.Tree, Option: "weight"}, own, func(c *Change, to float64) {
		c.inputs = []core.Input{a.inTree(b.Tree, pooltree.SchedulingOptions{Weight: document.Some(to)})}
	})
	if p, configured := a.tree(b.Tree).Pool(tree.Pool); configured {
		add(Change{Knob: KnobWeight, Who: Owner, Tree: b.Tree, Pool: tree.Pool, Option: "weight"}, p.Config().Weight.Or(1), func(c *Change, to float64) {
			c.edits = []treeEdit{option(b.Tree, tree.Pool, "weight", c.To)}
		})
	}
}

// treeFacts returns what is known of the operation in the tree of a blocker.
func (a *adviser) treeFacts(b *Blocker) *core.TreeExplanation {
	for i := range a.facts.Facts.Trees {
		if t := &a.facts.Facts.Trees[i]; t.Tree == b.Tree {
			return t
		}
	}
	return nil
}

// guarantee raises the strong guarantee of the operation's pool.
func (a *adviser) guarantee(i int, b *Blocker) {
	tree := a.treeFacts(b)
	config := a.tree(b.Tree)
	p, configured := config.Pool(tree.Pool)
	if !configured {
		return
	}
	main := config.Settings().MainResource.Value()
	from := p.Config().StrongGuarantee.Value().OrZero()[main]
	demand, _ := a.scene.core.PoolDemand(tree.ID, tree.Pool)
	total := a.scene.core.TreeTotal(tree.ID)[main]
	a.turn(i, knob{
		seed: demand.Usage[main] + b.need[main]*a.missing() - from, steps: total - from, scale: 1 / float64(max(total, 1)),
		at: func(d int64) Change {
			name := "strong_guarantee_resources/" + main.String()
			to := amountValue(main, from+d)
			return Change{
				Knob: KnobGuarantee, Who: Administrator, Tree: b.Tree, Pool: tree.Pool, Option: name, From: amountValue(main, from), To: to,
				Resource: main, HasResource: true, FromAmount: from, ToAmount: from + d, edits: []treeEdit{option(b.Tree, tree.Pool, name, to)},
			}
		},
	})
}

// starvation lets the operation starve, and so preempt, earlier or more.
func (a *adviser) starvation(i int, b *Blocker) {
	tree := a.treeFacts(b)
	config := a.tree(b.Tree)
	p, configured := config.Pool(tree.Pool)
	if !configured {
		return
	}
	s := &tree.Starvation
	if !s.BelowSince.IsZero() && s.Starvation == scheduling.NonStarving {
		left := s.Timeout - a.scene.now.Sub(s.BelowSince)
		a.turn(i, knob{
			seed: int64(math.Ceil(left.Seconds())), steps: int64(s.Timeout / time.Second), scale: 1 / max(s.Timeout.Seconds(), 1),
			at: func(d int64) Change {
				to := document.Text(document.FormatDuration(max(s.Timeout-time.Duration(d)*time.Second, 0)))
				return Change{
					Knob: KnobTimeout, Who: Owner, Tree: b.Tree, Pool: tree.Pool, Option: "fair_share_preemption_timeout",
					From: document.Text(document.FormatDuration(s.Timeout)), To: to,
					edits: []treeEdit{option(b.Tree, tree.Pool, "fair_share_preemption_timeout", to)},
				}
			},
		})
	}
	if s.Starvation != scheduling.NonStarving && !p.Effective().Aggressive && tree.Preemption.Aggressive > 0 {
		a.choice(i, Change{
			Knob: KnobAggressive, Who: Owner, Tree: b.Tree, Pool: tree.Pool, Option: "enable_aggressive_starvation", From: document.Bool(false), To: document.Bool(true),
			edits: []treeEdit{option(b.Tree, tree.Pool, "enable_aggressive_starvation", document.Bool(true))},
		})
	}
	if tree.Preemption.Priority == scheduling.NonStarving {
		return
	}
	for _, h := range b.Holders {
		for _, name := range chainOf(config, h.Pool) {
			victim, _ := config.Pool(name)
			if allowed, set := victim.Config().Preemption.AllowNormalPreemption.Get(); set && !allowed {
				a.choice(i, Change{
					Knob: KnobVictim, Who: Administrator, Tree: b.Tree, Pool: name, Option: "allow_normal_preemption", From: document.Bool(false), To: document.Bool(true),
					edits: []treeEdit{option(b.Tree, name, "allow_normal_preemption", document.Bool(true))},
				})
			}
		}
	}
}

// filters drops the filter of the operation or of a pool.
func (a *adviser) filters(i int, b *Blocker) {
	options := a.spec().OperationOptions.For(b.Tree)
	if own := options.SchedulingTagFilter.Value(); b.Pool == "" && !own.IsEmpty() {
		var u operation.Update
		u.Trees.SchedulingTagFilter = document.Some(nodefilter.Filter{})
		a.choice(i, Change{
			Knob: KnobFilter, Who: User, Tree: b.Tree, Option: "scheduling_tag_filter", From: document.Text(own.String()), To: document.Text(""),
			inputs: []core.Input{&core.ParametersInput{Operation: a.question.Operation, Update: u}},
		})
	}
	if p, configured := a.tree(b.Tree).Pool(b.Pool); configured && b.Pool != core.RootName {
		if filter := p.Config().SchedulingTagFilter.Value(); !filter.IsEmpty() {
			a.choice(i, Change{
				Knob: KnobFilter, Who: Owner, Tree: b.Tree, Pool: b.Pool, Option: "scheduling_tag_filter", From: document.Text(filter.String()), To: document.Text(""),
				edits: []treeEdit{option(b.Tree, b.Pool, "scheduling_tag_filter", document.Null())},
			})
		}
	}
}

// otherPools moves the operation to every other pool that its user may use,
// siblings first.
func (a *adviser) otherPools() {
	tried := 0
	for t := range a.facts.Facts.Trees {
		tree := &a.facts.Facts.Trees[t]
		config := a.tree(tree.Tree)
		chain := chainOf(config, tree.Pool)
		var near, far []string
		for p := range config.Pools() {
			parent, _ := p.Parent()
			e := p.Effective()
			if slices.Contains(chain, p.Name()) || e.ForbidImmediateOperations || a.question.MayUse != nil && !a.question.MayUse(tree.Tree, p.Name()) {
				continue
			}
			if len(chain) > 1 && parent.Name() == chain[1] || len(chain) == 1 && parent.IsRoot() {
				near = append(near, p.Name())
			} else {
				far = append(far, p.Name())
			}
		}
		for _, name := range append(near, far...) {
			c := Change{
				Knob: KnobPool, Who: User, Tree: tree.Tree, Pool: name, From: document.Text(tree.Pool), To: document.Text(name),
				inputs: []core.Input{a.inTree(tree.Tree, pooltree.SchedulingOptions{Pool: document.Some(name)})},
			}
			if tried++; tried > mostPools {
				a.NotTried = append(a.NotTried, c)
				continue
			}
			a.choice(-1, c)
		}
	}
}

// otherTrees starts the operation again in every other tree that its user may use.
// It loses what it has done.
func (a *adviser) otherTrees() {
	if !a.mayRestart() {
		return
	}
	for _, t := range a.scene.before.Configuration().Trees {
		in := slices.ContainsFunc(a.facts.Facts.Trees, func(x core.TreeExplanation) bool { return x.Tree == t.Name })
		pool := a.spec().OperationOptions.For(t.Name).Pool.Or(a.scene.before.UserOf(a.question.Operation))
		if in || a.question.MayUse != nil && !a.question.MayUse(t.Name, pool) {
			continue
		}
		a.again(-1, Change{Knob: KnobTree, Who: User, Tree: t.Name, Pool: pool, Option: "pool_trees", To: document.Text(t.Name)}, func(spec document.Value) document.Value {
			return spec.With("pool_trees", document.List(document.Text(t.Name)))
		})
	}
}

// mayRestart reports whether the operation loses no finished work if it starts
// again.
func (a *adviser) mayRestart() bool {
	return a.scene.before.ControllerOf(a.question.Operation).Statistics().Done == 0
}

// again adds the choice to start the operation again with another specification.
func (a *adviser) again(i int, c Change, edit func(document.Value) document.Value) {
	if c, ok := a.restarted(c, edit); ok {
		a.choice(i, c)
	}
}

func (a *adviser) restarted(c Change, edit func(document.Value) document.Value) (Change, bool) {
	id := a.question.Operation
	read, err := operation.Read(edit(a.spec().Document(document.ForPrograms)), operation.ReadOptions{CommandOptional: true, External: true})
	if err != nil {
		return c, false
	}
	c.restart = true
	c.inputs = []core.Input{
		&core.AbortInput{Operation: id},
		&core.StartInput{Operation: a.scene.before.NextOperation(), User: a.scene.before.UserOf(id), Spec: read.Spec},
	}
	return c, true
}

// holders suspends the operations that hold most of what is short.
func (a *adviser) holders(i int, b *Blocker) {
	for _, h := range b.Holders {
		if h.Operation != a.question.Operation {
			a.choice(i, Change{
				Knob: KnobSuspend, Who: Owner, Operation: h.Operation, Running: true,
				inputs: []core.Input{&core.SuspendInput{Operation: h.Operation, AbortRunning: true}},
			})
		}
	}
}

// release lets gated nodes get jobs again.
func (a *adviser) release(i int, b *Blocker) {
	added := 0
	for g := range a.scene.gates.Nodes {
		gate := &a.scene.gates.Nodes[g]
		if gate.Code == NodeAwaited || gate.Code == NodeWithoutTree || added == most {
			continue
		}
		if at, in := a.scene.core.NodeTree(gate.Node); in && at != b.tree {
			continue
		}
		added++
		a.choice(i, Change{
			Knob: KnobReleaseNode, Who: Administrator, Node: gate.Name, From: document.Text(gate.Code.String()), opens: []core.NodeID{gate.Node},
			inputs: []core.Input{
				&core.NodeInput{Node: gate.Node, Name: gate.Name, Resources: gate.Resources, Tags: gate.Tags}, &core.SeenInput{Node: gate.Node},
			},
		})
	}
}
