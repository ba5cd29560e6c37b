package pathtree

import (
	"slices"

	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

// Dig returns the part of a value at steps. at is the value's path, for messages.
func Dig(n yson.Node, steps []ypath.Step, at string) (yson.Node, error) {
	for i, step := range steps {
		here := textAt(at, steps[:i])
		switch step.Kind {
		case ypath.Child:
			next, err := childOf(n, step, here)
			if err != nil {
				return n, err
			}
			n = next
		case ypath.Attribute:
			next, ok := n.Attribute(step.Name)
			if !ok {
				return n, wire.Errorf(wire.CodeResolve, "Attribute %q is not found at %s", step.Name, here)
			}
			n = next
		case ypath.AllAttributes:
			n = yson.Map(n.Attributes()...)
		default:
			return n, wire.Errorf(wire.CodeGeneric, `"*" stands only at the end of paths to remove`)
		}
	}
	return n, nil
}

func childOf(n yson.Node, step ypath.Step, here string) (yson.Node, error) {
	switch n.Kind() {
	case yson.MapKind:
		if next, ok := n.Get(step.Name); ok {
			return next, nil
		}
		return n, noChild(here, step.Name)
	case yson.ListKind:
		position, ok := step.Position()
		if !ok || position.Where != ypath.At {
			return n, wire.Errorf(wire.CodeResolve, "Node %s is a list: %q is not an index", here, step.Name)
		}
		i, ok := position.Resolve(len(n.Items()))
		if !ok {
			return n, wire.Errorf(wire.CodeResolve, "Node %s has no child with index %d: it has %d items", here, position.Index, len(n.Items()))
		}
		return n.Items()[i], nil
	}
	return n, wire.Errorf(wire.CodeResolve, "Node %s cannot have children: it is of type %s", here, n.Kind())
}

// EditInside turns an edit of the part at steps into an edit of the whole value. With makeMaps it
// creates missing maps along the way. at is for messages.
func EditInside(steps []ypath.Step, makeMaps bool, at string, e edit) edit {
	if len(steps) == 0 {
		return e
	}
	return func(old yson.Node, there bool) (yson.Node, bool, error) {
		next, err := editSteps(old, there, steps, makeMaps, at, e)
		return next, true, err
	}
}

func editSteps(n yson.Node, there bool, steps []ypath.Step, makeMaps bool, at string, e edit) (yson.Node, error) {
	step, rest := steps[0], steps[1:]
	if !there {
		if !makeMaps {
			return n, wire.Errorf(wire.CodeResolve, "Node %s does not exist", at)
		}
		n = yson.Map()
	}
	inner := EditInside(rest, makeMaps, textAt(at, steps[:1]), e)
	switch {
	case step.Kind == ypath.Attribute:
		attributes, err := editEntry(n.Attributes(), step.Name, inner)
		return n.WithAttributes(attributes...), err
	case step.Kind != ypath.Child:
		return n, wire.Errorf(wire.CodeGeneric, "%s cannot be changed here", ypath.FormatSteps(steps))
	case n.Kind() == yson.MapKind:
		entries, err := editEntry(n.Entries(), step.Name, inner)
		if err != nil {
			return n, err
		}
		return yson.Map(entries...).WithAttributes(n.Attributes()...), nil
	case n.Kind() == yson.ListKind:
		return editItem(n, step, inner, at)
	}
	return n, wire.Errorf(wire.CodeResolve, "Node %s cannot have children: it is of type %s", at, n.Kind())
}

// editEntry edits the entry under a key.
func editEntry(entries []yson.Entry, key string, e edit) ([]yson.Entry, error) {
	i := slices.IndexFunc(entries, func(entry yson.Entry) bool { return entry.Key == key })
	var old yson.Node
	if i >= 0 {
		old = entries[i].Value
	}
	next, keep, err := e(old, i >= 0)
	switch {
	case err != nil:
		return entries, err
	case !keep && i >= 0:
		return slices.Delete(slices.Clone(entries), i, i+1), nil
	case !keep:
		return entries, nil
	case i >= 0:
		entries = slices.Clone(entries)
		entries[i].Value = next
		return entries, nil
	}
	return append(slices.Clip(entries), yson.Pair(key, next)), nil
}

// editItem edits an item of a list, or inserts a new one.
func editItem(n yson.Node, step ypath.Step, e edit, at string) (yson.Node, error) {
	position, ok := step.Position()
	if !ok {
		return n, wire.Errorf(wire.CodeResolve, "Node %s is a list: %q is not an index", at, step.Name)
	}
	items := slices.Clone(n.Items())
	i, ok := position.Resolve(len(items))
	if !ok {
		return n, wire.Errorf(wire.CodeResolve, "Node %s has no child with index %d: it has %d items", at, position.Index, len(items))
	}
	isNew := position.Where != ypath.At
	var old yson.Node
	if !isNew {
		old = items[i]
	}
	next, keep, err := e(old, !isNew)
	switch {
	case err != nil:
		return n, err
	case isNew && keep:
		items = slices.Insert(items, i, next)
	case keep:
		items[i] = next
	case !isNew:
		items = slices.Delete(items, i, i+1)
	}
	return yson.List(items...).WithAttributes(n.Attributes()...), nil
}

// SetTo is the edit that replaces a value.
func SetTo(value yson.Node) edit {
	return func(yson.Node, bool) (yson.Node, bool, error) { return value, true, nil }
}

// Removed is the edit that removes a value. The value must exist unless force is set.
func Removed(what string, force bool) edit {
	return func(_ yson.Node, there bool) (yson.Node, bool, error) {
		if !there && !force {
			return yson.Node{}, false, wire.Errorf(wire.CodeResolve, "%s is not found", what)
		}
		return yson.Node{}, false, nil
	}
}
