package ahead

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/sim/scenario"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Names resolves the names in a document against the live cluster.
type Names struct {
	User        string // who starts operations, unless the document says otherwise
	DefaultTree string
	// Tree returns the present configuration of a tree.
	Tree func(name string) (*pooltree.Tree, bool)
	// Replace reads a whole tree, as weir apply does.
	Replace func(tree string, v document.Value) (*pooltree.Tree, error)
	// Node returns a node of the cluster.
	Node func(name string) (resources resource.Amounts, tags []string, there bool)
	// Operation returns the name that Base.Name returns for an operation that has not
	// ended.
	Operation func(name string) (string, error)
}

type opt[F any] = document.Optional[F]

// planDocument is a question as written.
type planDocument struct {
	horizon   opt[time.Duration]
	durations opt[string]
	changes   []document.Value
}

// changeDocument is one change as written.
type changeDocument struct {
	at                    opt[time.Duration]
	tree, pool, operation opt[string]
	set                   opt[document.Value]
	pools                 opt[document.Value]
	removePool            opt[string]
	lose, ban, release    []string
	add                   opt[addDocument]
	start                 opt[startDocument]
	commands              [4]opt[string]
}

type addDocument struct {
	count opt[int]
	like  opt[string]
}

type startDocument struct {
	user  opt[string]
	spec  opt[document.Value]
	count opt[int]
}

var planTable = document.NewTable(
	document.Maybe("for", "How far to look ahead, at most 24h.",
		func(d *planDocument) *opt[time.Duration] { return &d.horizon }, document.Durations.Default(2*time.Hour)),
	document.Maybe("durations", "How long jobs are assumed to run: expected or limits.",
		func(d *planDocument) *opt[string] { return &d.durations }, document.Words.Default(Expected.String())),
	document.Plain("changes", "The changes, each a map with one of "+changeNames+".",
		func(d *planDocument) *[]document.Value { return &d.changes }, document.ListOf(document.Anything)),
)

const changeNames = "set (with pool, tree or operation), pools, remove_pool, lose_nodes, ban_nodes, release_nodes, add_nodes, start, abort, complete, suspend, resume"

var names = document.OneOrMore(document.Words)

var addTable = document.NewTable(
	document.Maybe("count", "How many nodes.",
		func(d *addDocument) *opt[int] { return &d.count }, document.Between(document.Ints, 1, 10_000).Default(1)),
	document.Maybe("like", "The node that they equal.",
		func(d *addDocument) *opt[string] { return &d.like }, document.Words),
)

var startTable = document.NewTable(
	document.Maybe("user", "Who starts it. Unset: the asker.",
		func(d *startDocument) *opt[string] { return &d.user }, document.Words),
	document.Maybe("spec", "Its specification.",
		func(d *startDocument) *opt[document.Value] { return &d.spec }, document.Anything),
	document.Maybe("count", "How many of them.",
		func(d *startDocument) *opt[int] { return &d.count }, document.Between(document.Ints, 1, 1000).Default(1)),
)

var changeTable = document.NewTable(
	document.Maybe("at", "When it happens, counted from now.",
		func(d *changeDocument) *opt[time.Duration] { return &d.at }, document.Durations.Default(0)),
	document.Maybe("pool", "The pool whose options are set.",
		func(d *changeDocument) *opt[string] { return &d.pool }, document.Words),
	document.Maybe("tree", "The tree of the pool, or, without a pool, the tree whose options are set. Unset: the default tree.",
		func(d *changeDocument) *opt[string] { return &d.tree }, document.Words),
	document.Maybe("operation", "The operation whose parameters are set.",
		func(d *changeDocument) *opt[string] { return &d.operation }, document.Words),
	document.Maybe("set", "The options to set, as a map; null unsets an option. A name may be a path: resource_limits/cpu.",
		func(d *changeDocument) *opt[document.Value] { return &d.set }, document.Anything),
	document.Maybe("pools", "A whole pool tree, as in a file for weir apply.",
		func(d *changeDocument) *opt[document.Value] { return &d.pools }, document.Anything),
	document.Maybe("remove_pool", "A pool to remove.",
		func(d *changeDocument) *opt[string] { return &d.removePool }, document.Words),
	document.Plain("lose_nodes", "Nodes that go offline with all their jobs.",
		func(d *changeDocument) *[]string { return &d.lose }, names),
	document.Plain("ban_nodes", "Nodes that get no more jobs.",
		func(d *changeDocument) *[]string { return &d.ban }, names),
	document.Plain("release_nodes", "Nodes that get jobs again.",
		func(d *changeDocument) *[]string { return &d.release }, names),
	document.Maybe("add_nodes", "Nodes to add, from the start.",
		func(d *changeDocument) *opt[addDocument] { return &d.add }, addTable.Type()),
	document.Maybe("start", "Operations to start.",
		func(d *changeDocument) *opt[startDocument] { return &d.start }, startTable.Type()),
	document.Maybe("abort", "An operation to abort.",
		func(d *changeDocument) *opt[string] { return &d.commands[scenario.Abort] }, document.Words),
	document.Maybe("complete", "An operation to complete early.",
		func(d *changeDocument) *opt[string] { return &d.commands[scenario.Complete] }, document.Words),
	document.Maybe("suspend", "An operation to suspend.",
		func(d *changeDocument) *opt[string] { return &d.commands[scenario.Suspend] }, document.Words),
	document.Maybe("resume", "An operation to resume.",
		func(d *changeDocument) *opt[string] { return &d.commands[scenario.Resume] }, document.Words),
)

// Options describes the documents of a question and of its changes.
func Options() (plan, change []document.Info) { return planTable.Options(), changeTable.Options() }

// Read reads a question. The error is of type document.Problems and lists every
// problem.
func Read(v document.Value, file string, names Names) (*Plan, error) {
	b := &reader{Reader: document.NewReader(file), names: names, plan: &Plan{}}
	var d planDocument
	planTable.Read(b.Reader, v, &d)
	b.plan.For = d.horizon.Or(2 * time.Hour)
	model, err := ParseModel(d.durations.Or(Expected.String()))
	if err != nil {
		b.Enter("durations")
		b.Refuse(v.Position(), document.RuleOutOfRange, err.Error())
		b.Leave()
	}
	b.plan.Durations = model
	for i, change := range d.changes {
		b.Enter(fmt.Sprintf("changes/%d", i))
		b.change(change)
		b.Leave()
	}
	if err := b.Problems().Err(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(b.plan.Events, func(a, b scenario.Event) int { return int(a.At - b.At) })
	return b.plan, b.plan.Validate()
}

type reader struct {
	*document.Reader
	names   Names
	plan    *Plan
	at      time.Duration
	started int
}

func (b *reader) refuse(v document.Value, format string, args ...any) {
	b.Refuse(v.Position(), document.RuleOutOfRange, fmt.Sprintf(format, args...))
}

func (b *reader) add(action scenario.Action) {
	where := b.Path()
	if file := b.File(); file != "" {
		where = file + ": " + where
	}
	b.plan.Events = append(b.plan.Events, scenario.Event{At: b.at, Action: action, Where: where})
}

// given returns the names of what a change does.
func (d *changeDocument) given() (list []string) {
	for _, g := range []struct {
		name string
		set  bool
	}{
		{"set", d.set.IsSet()}, {"pools", d.pools.IsSet()}, {"remove_pool", d.removePool.IsSet()}, {"lose_nodes", len(d.lose) > 0},
		{"ban_nodes", len(d.ban) > 0}, {"release_nodes", len(d.release) > 0}, {"add_nodes", d.add.IsSet()}, {"start", d.start.IsSet()},
		{"abort", d.commands[scenario.Abort].IsSet()}, {"complete", d.commands[scenario.Complete].IsSet()},
		{"suspend", d.commands[scenario.Suspend].IsSet()}, {"resume", d.commands[scenario.Resume].IsSet()},
	} {
		if g.set {
			list = append(list, g.name)
		}
	}
	return list
}

func (b *reader) change(v document.Value) {
	var d changeDocument
	if wrong := changeTable.Read(b.Reader, v, &d); v.Kind() != document.MapKind || len(wrong) > 0 || b.HasProblems() {
		return
	}
	switch given := d.given(); {
	case len(given) == 0:
		b.refuse(v, "does nothing; give one of %s", changeNames)
		return
	case len(given) > 1:
		b.refuse(v, "does several things (%s); make a change of each", strings.Join(given, ", "))
		return
	case given[0] != "set" && (d.pool.IsSet() || d.operation.IsSet()):
		b.refuse(v, "pool and operation name what to set; there is nothing to set")
		return
	}
	b.at = d.at.Value()
	tree := d.tree.Or(b.names.DefaultTree)
	for command := range d.commands {
		if name, ok := d.commands[command].Get(); ok {
			if known, ok := b.operation(v, name); ok {
				b.add(scenario.ControlOperation{Operation: known, Command: scenario.Command(command)})
			}
			return
		}
	}
	switch {
	case d.pools.IsSet():
		config, err := b.names.Replace(tree, d.pools.Value())
		if err != nil {
			b.refuse(v, "pools: %v", err)
			return
		}
		b.add(scenario.ReplaceTree{Tree: tree, Config: config})
	case d.removePool.IsSet():
		b.add(scenario.EditTree{Tree: tree, Edits: []pooltree.Edit{pooltree.RemovePool{Pool: d.removePool.Value()}}})
	case d.operation.IsSet():
		b.update(v, &d)
	case d.set.IsSet():
		b.set(v, tree, &d)
	case d.add.IsSet():
		b.addNodes(v, d.add.Value())
	case d.start.IsSet():
		b.start(v, d.start.Value())
	default:
		b.nodes(v, &d)
	}
}

func (b *reader) operation(v document.Value, name string) (string, bool) {
	known, err := b.names.Operation(name)
	if err != nil {
		b.refuse(v, "%v", err)
	}
	return known, err == nil
}

// set edits a pool or a tree, and validates the edit at once.
func (b *reader) set(v document.Value, tree string, d *changeDocument) {
	config, there := b.names.Tree(tree)
	if !there {
		b.refuse(v, "there is no pool tree %q", tree)
		return
	}
	var edits []pooltree.Edit
	for _, e := range d.set.Value().Entries() {
		if pool, ok := d.pool.Get(); ok {
			edits = append(edits, pooltree.SetPoolOption{Pool: pool, Option: e.Key, Value: e.Value})
		} else {
			edits = append(edits, pooltree.SetTreeOption{Option: e.Key, Value: e.Value})
		}
	}
	if len(edits) == 0 {
		b.refuse(v, "set must be a map of options")
		return
	}
	if _, _, err := config.With(edits...); err != nil && len(b.plan.Events) == 0 { // later ones depend on earlier ones
		b.refuse(v, "%v", err)
		return
	}
	b.add(scenario.EditTree{Tree: tree, Edits: edits})
}

func (b *reader) update(v document.Value, d *changeDocument) {
	known, ok := b.operation(v, d.operation.Value())
	if !ok {
		return
	}
	update, _, err := operation.ReadUpdate(d.set.Value(), b.File())
	if err != nil {
		b.refuse(v, "set: %v", err)
		return
	}
	b.add(scenario.UpdateOperation{Operation: known, Update: update})
}

func (b *reader) addNodes(v document.Value, d addDocument) {
	if b.at > 0 {
		b.refuse(v, "add_nodes: nodes are added from the start; leave at out")
		return
	}
	resources, tags, there := b.names.Node(d.like.Value())
	if !there {
		b.refuse(v, "add_nodes: like must name a node; there is no node %q", d.like.Value())
		return
	}
	b.plan.Nodes = append(b.plan.Nodes, scenario.NodeGroup{
		Name: fmt.Sprintf("new-%d", len(b.plan.Nodes)+1), Count: d.count.Or(1), Resources: resources, Tags: tags,
	})
}

func (b *reader) start(v document.Value, d startDocument) {
	if !d.spec.IsSet() {
		b.refuse(v, "start needs a spec")
		return
	}
	read, err := operation.Read(d.spec.Value(), operation.ReadOptions{File: b.File(), CommandOptional: true})
	if err != nil {
		b.refuse(v, "start/spec: %v", err)
		return
	}
	for range d.count.Or(1) {
		b.started++
		b.add(scenario.StartOperation{Name: fmt.Sprintf("new operation %d", b.started), User: d.user.Or(b.names.User), Spec: read.Spec})
	}
}

func (b *reader) nodes(v document.Value, d *changeDocument) {
	each := func(list []string, action func(string) scenario.Action) {
		for _, name := range list {
			if _, _, there := b.names.Node(name); !there {
				b.refuse(v, "there is no node %q", name)
				return
			}
			b.add(action(name))
		}
	}
	each(d.lose, func(name string) scenario.Action { return scenario.LoseNodes{Group: name, Count: 1} })
	each(d.ban, func(name string) scenario.Action { return scenario.CloseNodes{Group: name} })
	each(d.release, func(name string) scenario.Action { return scenario.CloseNodes{Group: name, Open: true} })
}
