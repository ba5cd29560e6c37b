package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
)

// Reasons of conditions beside the rules of pooltree and document.
const (
	ReasonAccepted = "Accepted"
	// ReasonWaiting is that of an object that is right itself, in a tree that is not.
	ReasonWaiting = "WaitsForTree"
	// ReasonTwice is that of a second object for one pool.
	ReasonTwice = "SecondObject"
	// ReasonNoTree is that of a pool whose tree does not exist.
	ReasonNoTree = "NoSuchTree"
	// ReasonSelector is that of a tree whose nodeSelector has no formula.
	ReasonSelector = "BadSelector"
	// ReasonBusy is that of a deleted object whose pool or tree has operations or subpools.
	ReasonBusy = "InUse"
	// ReasonOverlap is that of a tree that would have nodes of another one.
	ReasonOverlap = "NodeInTwoTrees"
)

// Verdict is what became of an object.
type Verdict struct {
	Accepted        bool
	Reason, Message string
}

var accepted = Verdict{Accepted: true, Reason: ReasonAccepted}

// Known is what there is beside the objects.
type Known struct {
	// Trees are those in force, and Default the name of the default one.
	Trees   []Standing
	Default string
	// Operations returns how many operations a pool and everything below it have.
	Operations func(tree, pool string) int
	// Labels are the labels of nodes that are tags.
	Labels []string
	// Reading returns how a tree of a name is read.
	Reading func(tree string) pooltree.Options
}

// Standing is a tree in force.
type Standing struct {
	Name string
	Tree *pooltree.Tree
}

// Place is a pool of a tree; with an empty pool, the tree itself.
type Place struct{ Tree, Pool string }

// Decision is what the objects mean.
type Decision struct {
	// Put are the trees to put into force, in the order of their names; Remove are the names of trees to remove.
	Put    []Standing
	Remove []string
	// Default is the name of the default tree.
	Default string
	// Pools and Trees are the verdicts by names of objects.
	Pools, Trees map[string]Verdict
	// Released are the deleted objects that nothing holds any more once the trees are in force: pools, then trees.
	ReleasedPools, ReleasedTrees []string
	// Managed are all pools and trees that have an object, sorted, with the objects' names.
	Managed map[Place]string
}

// decider makes a decision for one tree.
type decider struct {
	known *Known
	out   *Decision
	name  string
	now   *pooltree.Tree // nil if it is new
	tree  *Tree          // its object, nil if it has none
	pools []*Pool        // the objects of its pools, first objects only, sorted
}

// Decide returns what a set of objects means for the trees in force.
func Decide(known Known, trees []Tree, pools []Pool) *Decision {
	out := &Decision{Default: known.Default, Pools: map[string]Verdict{}, Trees: map[string]Verdict{}, Managed: map[Place]string{}}
	byName := map[string]*decider{}
	var order []string
	at := func(name string) *decider {
		if byName[name] == nil {
			byName[name] = &decider{known: &known, out: out, name: name, now: known.tree(name)}
			order = append(order, name)
		}
		return byName[name]
	}
	trees, pools = slices.Clone(trees), slices.Clone(pools)
	slices.SortFunc(trees, func(a, b Tree) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(pools, func(a, b Pool) int { return cmp.Compare(a.Object, b.Object) })
	for i := range trees {
		at(trees[i].Name).tree = &trees[i]
		out.Managed[Place{Tree: trees[i].Name}] = trees[i].Name
	}
	for i := range pools {
		p := &pools[i]
		place := Place{p.Tree, p.Name}
		if first, taken := out.Managed[place]; taken {
			out.Pools[p.Object] = Verdict{Reason: ReasonTwice, Message: fmt.Sprintf("the pool %q of the tree %q has another object, %s", p.Name, p.Tree, first)}
			if p.Deleted {
				out.ReleasedPools = append(out.ReleasedPools, p.Object)
			}
			continue
		}
		out.Managed[place] = p.Object
		d := at(p.Tree)
		d.pools = append(d.pools, p)
	}
	slices.Sort(order)
	for _, name := range order {
		byName[name].decide()
	}
	slices.Sort(out.ReleasedPools)
	slices.Sort(out.ReleasedTrees)
	return out
}

func (k *Known) tree(name string) *pooltree.Tree {
	for _, t := range k.Trees {
		if t.Name == name {
			return t.Tree
		}
	}
	return nil
}

func (d *decider) decide() {
	if d.now == nil && d.tree == nil {
		for _, p := range d.pools {
			d.out.Pools[p.Object] = Verdict{Reason: ReasonNoTree, Message: fmt.Sprintf("there is no tree %q", p.Tree)}
			if p.Deleted {
				d.out.ReleasedPools = append(d.out.ReleasedPools, p.Object)
			}
		}
		return
	}
	leaving := d.leaving()
	if d.tree != nil && d.tree.Deleted && d.removeTree(leaving) {
		return
	}
	v, objects, problem := d.document(leaving)
	if problem != nil {
		d.out.Trees[d.name] = *problem
		d.wait(nil)
		return
	}
	options := d.known.Reading(d.name)
	tree, warnings, err := pooltree.FromValue(v, options)
	if err == nil {
		err = d.unknownOf(warnings, objects).Err()
	}
	if err != nil {
		d.refuse(err, objects)
		return
	}
	if d.tree != nil && !d.tree.Deleted {
		d.out.Trees[d.name] = accepted
	}
	for _, p := range d.pools {
		if !p.Deleted {
			d.out.Pools[p.Object] = accepted
		} else if leaving[p.Name] {
			d.out.ReleasedPools = append(d.out.ReleasedPools, p.Object)
		}
	}
	if d.now == nil || !isEmpty(pooltree.Diff(d.now, tree)) {
		d.out.Put = append(d.out.Put, Standing{d.name, tree})
	}
	if d.out.Default == "" {
		d.out.Default = d.name
	}
}

func isEmpty(c pooltree.Changes) bool {
	return len(c.Tree)+len(c.Removed)+len(c.Added)+len(c.Moved)+len(c.Changed)+len(c.Reordered) == 0
}

// leaving returns the pools of the tree in force that are removed now, and says of the others that were deleted what holds
// them. A pool is removed when it has no operations and no subpools that stay.
func (d *decider) leaving() map[string]bool {
	leaving, deleted := map[string]bool{}, map[string]*Pool{}
	for _, p := range d.pools {
		if p.Deleted {
			deleted[p.Name] = p
			if d.now == nil || !d.has(p.Name) {
				leaving[p.Name] = true
			}
		}
	}
	if d.now == nil {
		return leaving
	}
	list := slices.Collect(d.now.Pools())
	for i := len(list) - 1; i >= 0; i-- { // children before their parents
		pool := list[i]
		object := deleted[pool.Name()]
		if object == nil {
			continue
		}
		var stay []string
		for _, child := range pool.Children() {
			if !leaving[child.Name()] {
				stay = append(stay, child.Name())
			}
		}
		for _, p := range d.pools { // objects that want to be below it
			if !p.Deleted && p.Parent == pool.Name() && !slices.Contains(stay, p.Name) {
				stay = append(stay, p.Name)
			}
		}
		operations := d.known.Operations(d.name, pool.Name())
		switch {
		case operations == 0 && len(stay) == 0:
			leaving[pool.Name()] = true
		case operations > 0:
			d.out.Pools[object.Object] = Verdict{Accepted: true, Reason: ReasonBusy, Message: fmt.Sprintf("the pool is removed when its %s ended", count(operations, "operation has", "operations have"))}
		default:
			d.out.Pools[object.Object] = Verdict{Accepted: true, Reason: ReasonBusy, Message: "the pool is removed when its subpools are: " + strings.Join(stay, ", ")}
		}
	}
	return leaving
}

func (d *decider) has(pool string) bool {
	_, there := d.now.Pool(pool)
	return there
}

func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// removeTree removes the whole tree, if nothing holds it.
func (d *decider) removeTree(leaving map[string]bool) bool {
	if d.now == nil {
		d.out.ReleasedTrees = append(d.out.ReleasedTrees, d.name)
		for _, p := range d.pools {
			d.out.Pools[p.Object] = Verdict{Reason: ReasonNoTree, Message: fmt.Sprintf("the tree %q is being removed", d.name)}
			if p.Deleted {
				d.out.ReleasedPools = append(d.out.ReleasedPools, p.Object)
			}
		}
		return true
	}
	operations := d.known.Operations(d.name, pooltree.RootName)
	var stay []string
	for pool := range d.now.Pools() {
		if !leaving[pool.Name()] {
			stay = append(stay, pool.Name())
		}
	}
	for _, p := range d.pools {
		if !p.Deleted && !slices.Contains(stay, p.Name) {
			stay = append(stay, p.Name)
		}
	}
	if operations == 0 && len(stay) == 0 {
		d.out.Remove = append(d.out.Remove, d.name)
		if d.out.Default == d.name {
			d.out.Default = ""
		}
		d.out.ReleasedTrees = append(d.out.ReleasedTrees, d.name)
		for _, p := range d.pools {
			d.out.ReleasedPools = append(d.out.ReleasedPools, p.Object)
		}
		return true
	}
	message := fmt.Sprintf("the tree is removed when its %s ended", count(operations, "operation has", "operations have"))
	if operations == 0 {
		message = "the tree is removed when its pools are: " + strings.Join(stay, ", ")
	}
	d.out.Trees[d.name] = Verdict{Accepted: true, Reason: ReasonBusy, Message: message}
	return false
}

// document returns the whole tree that is wanted. Positions in it lead back to objects: line i+1 is that of objects[i], the
// tree's own object is nil.
func (d *decider) document(leaving map[string]bool) (v document.Value, objects []*Pool, problem *Verdict) {
	v = document.Map()
	if d.now != nil {
		config := d.now.Config()
		v = pooltree.TreeOptions.WriteAsWritten(&config, document.ForPrograms)
	}
	if d.tree != nil && !d.tree.Deleted {
		objects = append(objects, nil)
		filter, err := d.tree.Selector.filter(d.known.Labels)
		if err != nil {
			return v, nil, &Verdict{Reason: ReasonSelector, Message: err.Error()}
		}
		v = d.tree.Options
		if v.IsNull() {
			v = document.Map()
		}
		if !d.tree.Selector.isEmpty() {
			v = v.With("nodes_filter", document.Text(filter))
		}
		v = marked(v, 1)
	}
	wanted := map[string]*Pool{}
	for _, p := range d.pools {
		if !p.Deleted {
			wanted[p.Name] = p
		}
	}
	var list []document.Value
	add := func(p *Pool) {
		objects = append(objects, p)
		entries := []document.Entry{document.Pair("name", document.Text(p.Name))}
		if p.Parent != "" {
			entries = append(entries, document.Pair("parent", document.Text(p.Parent)))
		}
		entries = append(entries, p.Options.Entries()...)
		if p.Namespaces != nil {
			entries = append(entries, document.Pair("kubernetes", document.Map(document.Pair("namespaces", textsOf(p.Namespaces)))))
		}
		list = append(list, marked(document.Map(entries...), len(objects)))
	}
	if d.now != nil {
		for pool := range d.now.Pools() {
			if p := wanted[pool.Name()]; p != nil {
				add(p)
				continue
			}
			if leaving[pool.Name()] {
				continue
			}
			config := pool.Config()
			entries := []document.Entry{document.Pair("name", document.Text(pool.Name()))}
			if parent, _ := pool.Parent(); !parent.IsRoot() {
				entries = append(entries, document.Pair("parent", document.Text(parent.Name())))
			}
			list = append(list, document.Map(append(entries, pooltree.PoolOptions.WriteAsWritten(&config, document.ForPrograms).Entries()...)...))
		}
	}
	for _, p := range d.pools {
		if !p.Deleted && (d.now == nil || !d.has(p.Name)) {
			add(p)
		}
	}
	if len(list) > 0 {
		v = v.With("pools", document.List(list...))
	}
	return v, objects, nil
}

// marked returns a value all of whose parts are in one line.
func marked(v document.Value, line int) document.Value {
	at := document.Position{Line: int32(line), Column: 1}
	switch v.Kind() {
	case document.MapKind:
		entries := slices.Clone(v.Entries())
		for i := range entries {
			entries[i].At, entries[i].Value = at, marked(entries[i].Value, line)
		}
		return document.Map(entries...).At(at)
	case document.ListKind:
		items := slices.Clone(v.Items())
		for i := range items {
			items[i] = marked(items[i], line)
		}
		return document.List(items...).At(at)
	}
	return v.At(at)
}

// unknownOf returns the unknown options of objects. Those of pools without an object are kept.
func (d *decider) unknownOf(warnings document.Problems, objects []*Pool) (list document.Problems) {
	for _, rule := range []document.Rule{document.RuleUnknownKey, pooltree.RuleUnknownPreset} {
		for _, w := range warnings.With(rule) {
			if w.Line > 0 && int(w.Line) <= len(objects) {
				w.Message = strings.Replace(w.Message, "; it is kept but has no effect", "", 1)
				w.Message = strings.TrimSuffix(w.Message, "; it has no effect")
				list = append(list, w)
			}
		}
	}
	return list
}

// refuse says which objects keep the tree from being valid; the others wait.
func (d *decider) refuse(err error, objects []*Pool) {
	var problems document.Problems
	if !errors.As(err, &problems) {
		problems = document.Problems{{Message: err.Error(), Rule: "Invalid"}}
	}
	told := map[string]bool{}
	for _, p := range problems {
		sentence := p.Message
		if _, option, nested := strings.Cut(strings.TrimPrefix(p.Path, "pools/"), "/"); nested {
			sentence = option + ": " + sentence
		} else if !strings.HasPrefix(p.Path, "pools/") && p.Path != "" {
			sentence = p.Path + ": " + sentence
		}
		verdict := Verdict{Reason: reasonOf(p.Rule), Message: sentence}
		switch {
		case p.Line > 0 && int(p.Line) <= len(objects) && objects[p.Line-1] != nil:
			name := objects[p.Line-1].Object
			if !told[name] { // the first problem of an object is enough to begin with
				d.out.Pools[name], told[name] = verdict, true
			}
		case d.tree != nil && !told[""]:
			d.out.Trees[d.name], told[""] = verdict, true
		case d.tree == nil && p.Line == 0:
			for _, o := range d.pools { // a pool without an object is in the way
				if !told[o.Object] {
					d.out.Pools[o.Object] = Verdict{Reason: reasonOf(p.Rule), Message: p.Path + ": " + p.Message}
				}
			}
		}
	}
	d.wait(told)
}

// wait says of all objects of the tree that have no verdict that they wait for the others.
func (d *decider) wait(told map[string]bool) {
	message := "the tree as a whole is not valid, so nothing of it was changed; see the other objects of the tree"
	if d.tree != nil && !d.tree.Deleted && !told[""] && d.out.Trees[d.name].Reason == "" {
		d.out.Trees[d.name] = Verdict{Reason: ReasonWaiting, Message: message}
	}
	for _, p := range d.pools {
		if !p.Deleted && !told[p.Object] && d.out.Pools[p.Object].Reason == "" {
			d.out.Pools[p.Object] = Verdict{Reason: ReasonWaiting, Message: message}
		}
	}
}

// reasonOf turns a rule into a reason as Kubernetes wants it: unknown_parent is UnknownParent.
func reasonOf(rule document.Rule) string {
	var b strings.Builder
	for part := range strings.SplitSeq(string(rule), "_") {
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}
