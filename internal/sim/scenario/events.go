package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Event is something that happens at a given time.
type Event struct {
	At time.Duration
	// Every repeats the event; zero: once.
	Every  time.Duration
	Action Action
	// Refused reports whether the scheduler must refuse it; then nothing
	// changes.
	Refused bool
	// Tolerated reports whether the scheduler may refuse it; then nothing changes.
	Tolerated bool
	// Where is the position of the event, for messages: "x.yaml:12: events/3".
	Where string
}

// Action is what an event does: one of the types below.
type Action interface{ isAction() }

// EditTree changes a pool tree.
type EditTree struct {
	Tree  string
	Edits []pooltree.Edit
}

// ChangeOperation changes operations at run time. Unset fields stay unchanged.
type ChangeOperation struct {
	Operation      string
	Pool           document.Optional[string]
	Weight         document.Optional[float64]
	ResourceLimits document.Optional[resource.Partial]
}

// Command is a user's command to an operation.
type Command uint8

const (
	Abort Command = iota
	Complete
	Suspend
	Resume
)

var commandNames = [...]string{"abort", "complete", "suspend", "resume"}

// String returns the name that documents use.
func (c Command) String() string {
	if int(c) < len(commandNames) {
		return commandNames[c]
	}
	return fmt.Sprintf("Command(%d)", uint8(c))
}

// ControlOperation gives a command to operations.
type ControlOperation struct {
	Operation string
	Command   Command
}

// LoseNodes removes nodes of a group with everything that runs on them, lowest
// numbers first.
type LoseNodes struct {
	Group string
	Count int
	// Silently makes nodes fall silent, so that the scheduler has to detect the
	// loss by itself.
	Silently bool
}

// ReturnNodes brings back lost nodes of a group, empty, lowest numbers first.
type ReturnNodes struct {
	Group string
	Count int
}

// ResizeNodes changes the resources of nodes of a group, lowest numbers first:
// their owner needs a part of them, or returns it. Jobs on them keep running
// until the scheduler acts.
type ResizeNodes struct {
	Group     string
	Count     int
	Resources resource.Amounts
}

// ReplaceTree replaces the configuration of a pool tree.
type ReplaceTree struct {
	Tree   string
	Config *pooltree.Tree
}

// StartOperation starts an operation with a full specification. Its jobs run for
// as long as the durations of the start say, so it needs one.
type StartOperation struct {
	Name, User string
	Spec       *operation.Spec
}

// UpdateOperation changes any parameters of operations at run time.
type UpdateOperation struct {
	Operation string
	Update    operation.Update
}

// CloseNodes lets a node get no more jobs; those on it continue to run. Open undoes
// it.
type CloseNodes struct {
	Group string
	Open  bool
}

func (EditTree) isAction()         {}
func (ReplaceTree) isAction()      {}
func (StartOperation) isAction()   {}
func (CloseNodes) isAction()       {}
func (UpdateOperation) isAction()  {}
func (ChangeOperation) isAction()  {}
func (ControlOperation) isAction() {}
func (LoseNodes) isAction()        {}
func (ReturnNodes) isAction()      {}
func (ResizeNodes) isAction()      {}

// eventDocument is an event as written: a subject with what to set, or one of
// the commands.
type eventDocument struct {
	at, every              opt[time.Duration]
	refused                bool
	pool, tree, operation  opt[string]
	set                    opt[document.Value]
	addPool                opt[document.Value]
	removePool             opt[string]
	commands               [len(commandNames)]opt[string]
	loseNodes, returnNodes opt[nodesDocument]
	resizeNodes            opt[nodesDocument]
}

type nodesDocument struct {
	group     opt[string]
	count     opt[int]
	silently  opt[bool]
	resources opt[resource.Partial]
}

// runtimeDocument is what can be set on a running operation.
type runtimeDocument struct {
	pool   opt[string]
	weight opt[float64]
	limits opt[resource.Partial]
}

var runtimeTable = document.NewTable(
	document.Maybe("pool", "The pool that the operation moves to.",
		func(d *runtimeDocument) *opt[string] { return &d.pool }, document.Words),
	document.Maybe("weight", "Its new weight.",
		func(d *runtimeDocument) *opt[float64] { return &d.weight },
		document.Between(document.Numbers, pooltree.MinWeight, pooltree.MaxWeight)),
	document.Maybe("resource_limits", "The most that all of its jobs may use in total.",
		func(d *runtimeDocument) *opt[resource.Partial] { return &d.limits }, amounts),
)

func nodesTable(more ...document.Option[nodesDocument]) *document.Table[nodesDocument] {
	return document.NewTable(append([]document.Option[nodesDocument]{
		document.Maybe("group", "The name of the group of nodes.",
			func(d *nodesDocument) *opt[string] { return &d.group }, document.Words),
		document.Maybe("count", "How many of them. Unset: all.",
			func(d *nodesDocument) *opt[int] { return &d.count }, positive),
	}, more...)...)
}

var (
	loseTable = nodesTable(document.Maybe("silently", "The nodes fall silent, and the scheduler is not notified.",
		func(d *nodesDocument) *opt[bool] { return &d.silently }, document.Bools.Default(false)))
	returnTable = nodesTable()
	resizeTable = nodesTable(document.Maybe("resources", "The new resources of each node. Resources left out do not change.",
		func(d *nodesDocument) *opt[resource.Partial] { return &d.resources }, amounts))
)

var eventTable = document.NewTable(
	document.Maybe("at", "When it happens.",
		func(d *eventDocument) *opt[time.Duration] { return &d.at }, moment),
	document.Maybe("every", "The event repeats with this period.",
		func(d *eventDocument) *opt[time.Duration] { return &d.every }, period),
	document.Plain("refused", "The scheduler must refuse it; the run fails if it does not.",
		func(d *eventDocument) *bool { return &d.refused }, document.Bools),
	document.Maybe("pool", "The pool whose options are set.",
		func(d *eventDocument) *opt[string] { return &d.pool }, document.Words),
	document.Maybe("tree", "The tree of the pool, or, without a pool, the tree whose options are set. Unset: the default tree.",
		func(d *eventDocument) *opt[string] { return &d.tree }, document.Words),
	document.Maybe("operation", "The operation whose pool, weight or resource_limits are set; the name of a template means all of its running operations.",
		func(d *eventDocument) *opt[string] { return &d.operation }, document.Words),
	document.Maybe("set", "The options to set, as a map; null unsets an option. A name may be a path: integral_guarantees/resource_flow.",
		func(d *eventDocument) *opt[document.Value] { return &d.set }, document.Anything),
	document.Maybe("add_pool", "A pool to add: its options with a name and, unless it is directly below the root, a parent.",
		func(d *eventDocument) *opt[document.Value] { return &d.addPool }, document.Anything),
	document.Maybe("remove_pool", "A pool to remove.",
		func(d *eventDocument) *opt[string] { return &d.removePool }, document.Words),
	document.Maybe("abort", "An operation to abort.",
		func(d *eventDocument) *opt[string] { return &d.commands[Abort] }, document.Words),
	document.Maybe("complete", "An operation to complete before all of its jobs have run.",
		func(d *eventDocument) *opt[string] { return &d.commands[Complete] }, document.Words),
	document.Maybe("suspend", "An operation to suspend: it gets no new jobs.",
		func(d *eventDocument) *opt[string] { return &d.commands[Suspend] }, document.Words),
	document.Maybe("resume", "An operation to resume.",
		func(d *eventDocument) *opt[string] { return &d.commands[Resume] }, document.Words),
	document.Maybe("lose_nodes", "Nodes that go offline with all their jobs.",
		func(d *eventDocument) *opt[nodesDocument] { return &d.loseNodes }, loseTable.Type()),
	document.Maybe("return_nodes", "Nodes that come back.",
		func(d *eventDocument) *opt[nodesDocument] { return &d.returnNodes }, returnTable.Type()),
	document.Maybe("resize_nodes", "Nodes whose resources change.",
		func(d *eventDocument) *opt[nodesDocument] { return &d.resizeNodes }, resizeTable.Type()),
)

func (b *builder) event(v document.Value) {
	var d eventDocument
	wrong := eventTable.Read(b.r, v, &d)
	if v.Kind() != document.MapKind || len(wrong) > 0 {
		return
	}
	if !d.at.IsSet() {
		b.r.Refuse(v.Position(), document.RuleMissing, "needs at: when it happens")
	}
	action := b.action(v, &d)
	if action == nil {
		return
	}
	b.out.Events = append(b.out.Events, Event{
		At: d.at.Value(), Every: d.every.Value(), Action: action, Refused: d.refused, Where: b.where(b.here(v)),
	})
	b.eventAt = append(b.eventAt, b.here(v))
}

// given returns the names of the actions that an event has.
func (d *eventDocument) given() (names []string) {
	for _, a := range []struct {
		name string
		set  bool
	}{
		{"set", d.set.IsSet()}, {"add_pool", d.addPool.IsSet()}, {"remove_pool", d.removePool.IsSet()},
		{"lose_nodes", d.loseNodes.IsSet()}, {"return_nodes", d.returnNodes.IsSet()},
		{"resize_nodes", d.resizeNodes.IsSet()},
	} {
		if a.set {
			names = append(names, a.name)
		}
	}
	for c := range d.commands {
		if d.commands[c].IsSet() {
			names = append(names, commandNames[c])
		}
	}
	return names
}

const actionNames = "set, add_pool, remove_pool, abort, complete, suspend, resume, lose_nodes, return_nodes, resize_nodes"

// action returns what an event does, nil after a problem.
func (b *builder) action(v document.Value, d *eventDocument) Action {
	switch given := d.given(); {
	case len(given) == 0:
		b.r.Refuse(v.Position(), document.RuleMissing, "does nothing; give one of "+actionNames)
		return nil
	case len(given) > 1:
		b.r.Refuse(v.Position(), document.RuleTwoNames, "does several things ("+strings.Join(given, ", ")+"); make an event of each")
		return nil
	case given[0] != "set" && (d.pool.IsSet() || d.operation.IsSet()):
		b.r.Refuse(v.Position(), document.RuleTwoNames, "pool and operation say what to set; there is nothing to set")
		return nil
	}
	for c := range d.commands {
		if name, ok := d.commands[c].Get(); ok {
			return ControlOperation{Operation: name, Command: Command(c)}
		}
	}
	switch {
	case d.loseNodes.IsSet():
		n := d.loseNodes.Value()
		group, count, ok := b.nodesOf(v, n)
		if !ok {
			return nil
		}
		return LoseNodes{Group: group, Count: count, Silently: n.silently.Value()}
	case d.returnNodes.IsSet():
		group, count, ok := b.nodesOf(v, d.returnNodes.Value())
		if !ok {
			return nil
		}
		return ReturnNodes{Group: group, Count: count}
	case d.resizeNodes.IsSet():
		return b.resize(v, d.resizeNodes.Value())
	case d.operation.IsSet():
		return b.runtimeChange(v, d)
	}
	edits := b.edits(v, d)
	if edits == nil {
		return nil
	}
	return EditTree{Tree: d.tree.Value(), Edits: edits}
}

func (b *builder) resize(v document.Value, n nodesDocument) Action {
	group, count, ok := b.nodesOf(v, n)
	if !ok {
		return nil
	}
	if !n.resources.IsSet() {
		b.r.Refuse(v.Position(), document.RuleMissing, "resize_nodes needs resources")
		return nil
	}
	i := slices.IndexFunc(b.out.Nodes, func(g NodeGroup) bool { return g.Name == group })
	return ResizeNodes{Group: group, Count: count, Resources: n.resources.Value().Or(b.out.Nodes[i].Resources)}
}

// nodesOf checks the group and the number of nodes that an event names.
func (b *builder) nodesOf(v document.Value, n nodesDocument) (group string, count int, ok bool) {
	group, ok = n.group.Get()
	if !ok {
		b.r.Refuse(v.Position(), document.RuleMissing, "needs a group of nodes")
		return "", 0, false
	}
	var names []string
	for _, g := range b.out.Nodes {
		if g.Name != group {
			names = append(names, g.Name)
			continue
		}
		count = n.count.Or(g.Count)
		if count > g.Count {
			b.r.Refuse(v.Position(), document.RuleOutOfRange, fmt.Sprintf("group %q has %d nodes, not %d", group, g.Count, count))
			return "", 0, false
		}
		return group, count, true
	}
	b.r.Refuse(v.Position(), document.RuleUnknownValue, fmt.Sprintf("there is no group of nodes %q", group)+didYouMean(group, names))
	return "", 0, false
}

func (b *builder) runtimeChange(v document.Value, d *eventDocument) Action {
	if d.pool.IsSet() || d.tree.IsSet() {
		b.r.Refuse(v.Position(), document.RuleTwoNames, "sets something of a pool or of an operation, not of both; a new pool of an operation stands under set")
		return nil
	}
	b.r.Enter("set")
	defer b.r.Leave()
	var change runtimeDocument
	if wrong := runtimeTable.Read(b.r, d.set.Value(), &change); len(wrong) > 0 {
		return nil
	}
	if len(d.set.Value().Entries()) == 0 {
		b.r.Refuse(v.Position(), document.RuleMissing, "there is nothing to set")
		return nil
	}
	return ChangeOperation{
		Operation: d.operation.Value(), Pool: change.pool, Weight: change.weight, ResourceLimits: change.limits,
	}
}

// edits returns the changes of a tree, nil after a problem.
func (b *builder) edits(v document.Value, d *eventDocument) (edits []pooltree.Edit) {
	if name, ok := d.removePool.Get(); ok {
		return []pooltree.Edit{pooltree.RemovePool{Pool: name}}
	}
	if pool, ok := d.addPool.Get(); ok {
		b.r.Enter("add_pool")
		defer b.r.Leave()
		draft := pooltree.Read(b.r, document.Map(document.Pair("pools", document.List(pool))), pooltree.Keys{})
		for _, p := range draft.Pools {
			edits = append(edits, pooltree.AddPool{Pool: p.Name, Parent: p.Parent, Config: *p.Config})
		}
		return edits
	}
	set := d.set.Value()
	if len(set.Entries()) == 0 {
		b.r.Refuse(v.Position(), document.RuleWrongType, "set must be a map of options")
		return nil
	}
	for _, e := range set.Entries() {
		if pool, ok := d.pool.Get(); ok {
			edits = append(edits, pooltree.SetPoolOption{Pool: pool, Option: e.Key, Value: e.Value})
		} else {
			edits = append(edits, pooltree.SetTreeOption{Option: e.Key, Value: e.Value})
		}
	}
	return edits
}

// rehearse applies all changes of trees in order of time, once each, so that an
// invalid one is found before the run and not in its third hour.
func (b *builder) rehearse() {
	trees := slices.Clone(b.out.Trees)
	order := make([]int, len(b.out.Events))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int {
		return cmp.Compare(b.out.Events[x].At, b.out.Events[y].At)
	})
	for _, i := range order {
		event := &b.out.Events[i]
		edit, ok := event.Action.(EditTree)
		if !ok {
			continue
		}
		if edit.Tree == "" {
			edit.Tree = b.out.DefaultTree
			event.Action = edit
		}
		n := slices.IndexFunc(trees, func(t document.Named[*pooltree.Tree]) bool { return t.Name == edit.Tree })
		if n < 0 {
			b.refuseAt(b.eventAt[i], document.RuleUnknownValue, fmt.Sprintf("there is no pool tree %q", edit.Tree)+didYouMean(edit.Tree, b.treeNames()))
			continue
		}
		next, _, err := trees[n].Value.With(edit.Edits...)
		switch {
		case err == nil:
			trees[n].Value = next
			b.noteTree(next)
		case !event.Refused:
			for _, p := range err.(document.Problems) {
				b.refuseAt(b.eventAt[i], p.Rule, p.Path+": "+p.Message, p.Facts...)
			}
		}
	}
}
