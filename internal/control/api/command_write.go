package api

import (
	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

// flags are the switches that commands on paths share.
type flags struct{ recursive, force, ignoreExisting bool }

func (c *call) flags() (f flags, err error) {
	for name, at := range map[string]*bool{"recursive": &f.recursive, "force": &f.force, "ignore_existing": &f.ignoreExisting} {
		value, wrong := c.Parameters.Boolean(name, false)
		if wrong != nil {
			return f, wrong
		}
		*at = value
	}
	return f, nil
}

func set(c *call) (yson.Node, error) {
	path, err := c.Parameters.Path("path")
	if err != nil {
		return yson.Node{}, err
	}
	value, err := c.input()
	if err != nil {
		return yson.Node{}, err
	}
	f, err := c.flags()
	if err != nil {
		return yson.Node{}, err
	}
	t, err := c.Walk(path, false)
	if err != nil {
		return yson.Node{}, err
	}
	switch {
	case len(t.Attribute) > 0:
		return nothing(c.setAttribute(&t, value))
	case len(t.Missing) > 0:
		what := pathtree.Creation{Kind: pathtree.KindOf(value), Value: value, Attributes: yson.Map(value.Attributes()...), Recursive: f.recursive}
		_, err := c.createAt(&t, what)
		return nothing(err)
	}
	editor, ok := t.Object.(pathtree.ValueEditor)
	if !ok {
		return nothing(wire.Errorf(wire.CodeGeneric, "Node %s of type %q cannot be set; its attributes are below %[1]s/@", t.Place.Path(), t.Kind()))
	}
	if t.Shape() == pathtree.MapShape && !f.force {
		return nothing(wire.Errorf(wire.CodeGeneric, "Node %s is a map: set it with force, or set its children", t.Place.Path()))
	}
	return nothing(editor.EditValue(c.Request, t.Place, pathtree.EditInside(t.Inside, f.recursive || len(t.Inside) == 1, t.Place.Path(), pathtree.SetTo(value))))
}

// setAttribute sets an attribute, a value inside one, or all attributes.
func (c *call) setAttribute(t *pathtree.Target, value yson.Node) error {
	first, rest := t.Attribute[0], t.Attribute[1:]
	switch first.Kind {
	case ypath.Attribute:
		return c.editAttributesAt(t, []pathtree.AttributeEdit{{Name: first.Name, Steps: rest, Edit: pathtree.SetTo(value)}})
	case ypath.AllAttributes:
		if value.Kind() != yson.MapKind {
			return wire.Errorf(wire.CodeGeneric, "Attributes must be a map, not %s", value.Kind())
		}
		edits := pathtree.EditsOf(value)
		_, custom := t.AttributeNames(c.Request)
		for _, name := range custom {
			if _, kept := value.Get(name); !kept {
				edits = append(edits, pathtree.AttributeEdit{Name: name, Edit: pathtree.Removed("", true)})
			}
		}
		return c.editAttributesAt(t, edits)
	}
	return wire.Errorf(wire.CodeGeneric, `"*" stands only at the end of paths to remove`)
}

// editAttributesAt changes attributes of a node. The node must exist and support changes.
func (c *call) editAttributesAt(t *pathtree.Target, edits []pathtree.AttributeEdit) error {
	if err := t.MustExist(c.Request); err != nil {
		return err
	}
	for _, e := range edits {
		if err := wire.MustBeText(e.Name); err != nil {
			return err
		}
	}
	editor, ok := t.Object.(pathtree.AttributesEditor)
	if !ok {
		name := "@"
		if len(edits) > 0 {
			name = edits[0].Name
		}
		return wire.Errorf(wire.CodeGeneric, "Builtin attribute %q cannot be set: node %s cannot be changed", name, t.Place.Path())
	}
	return editor.EditAttributes(c.Request, t.Place, edits)
}

// multisetAttributes sets several attributes of a node in one transaction. The extension
// "remove" lists attributes that the same transaction removes.
func multisetAttributes(c *call) (yson.Node, error) {
	path, err := c.Parameters.Path("path")
	if err != nil {
		return yson.Node{}, err
	}
	value, err := c.input()
	if err != nil {
		return yson.Node{}, err
	}
	t, err := c.Walk(path, false)
	if err != nil {
		return yson.Node{}, err
	}
	removed, err := c.Parameters.TextList("remove")
	if err != nil {
		return yson.Node{}, err
	}
	switch {
	case value.Kind() != yson.MapKind:
		return nothing(wire.Errorf(wire.CodeGeneric, "Attributes must be a map, not %s", value.Kind()))
	case len(t.Attribute) == 0:
		return nothing(wire.Errorf(wire.CodeGeneric, `The path must end with "/@"`))
	case len(t.Attribute) == 1 && t.Attribute[0].Kind == ypath.AllAttributes:
		edits := pathtree.EditsOf(value)
		for _, name := range removed {
			if _, both := value.Get(name); both {
				return nothing(wire.Errorf(wire.CodeGeneric, "Attribute %q is both set and removed", wire.CutText(name, 100)))
			}
			edits = append(edits, pathtree.AttributeEdit{Name: name, Edit: pathtree.Removed("Attribute \""+name+"\"", false)})
		}
		return nothing(c.editAttributesAt(&t, edits))
	case len(removed) > 0:
		return nothing(wire.Errorf(wire.CodeGeneric, `Attributes can be removed only if the path ends with "/@"`))
	case t.Attribute[0].Kind != ypath.Attribute:
		return nothing(wire.Errorf(wire.CodeGeneric, `The path must end with "/@" or the name of an attribute`))
	}
	var edits []pathtree.AttributeEdit
	for _, e := range value.Entries() {
		steps := append(t.Attribute[1:len(t.Attribute):len(t.Attribute)], ypath.Step{Name: e.Key})
		edits = append(edits, pathtree.AttributeEdit{Name: t.Attribute[0].Name, Steps: steps, Edit: pathtree.SetTo(e.Value)})
	}
	return nothing(c.editAttributesAt(&t, edits))
}

func remove(c *call) (yson.Node, error) {
	path, err := c.Parameters.Path("path")
	if err != nil {
		return yson.Node{}, err
	}
	f, err := c.flags()
	if err != nil {
		return yson.Node{}, err
	}
	t, err := c.Walk(path, true)
	if err == nil {
		err = c.removeTarget(&t, f)
	}
	if f.force && pathtree.IsResolve(err) {
		err = nil
	}
	return nothing(err)
}

func (c *call) removeTarget(t *pathtree.Target, f flags) error {
	if err := t.MustExist(c.Request); err != nil {
		return err
	}
	if len(t.Attribute) > 0 {
		return c.removeAttribute(t, f)
	}
	if len(t.Inside) > 0 {
		if t.Inside[len(t.Inside)-1].Kind == ypath.EveryChild {
			return c.removeChildren(t, f)
		}
		editor, ok := t.Object.(pathtree.ValueEditor)
		if !ok {
			return pathtree.CannotRemove(t.Path.String())
		}
		e := pathtree.EditInside(t.Inside, false, t.Place.Path(), pathtree.Removed("Node "+t.Path.String(), f.force))
		return editor.EditValue(c.Request, t.Place, e)
	}
	r, ok := t.Object.(pathtree.Remover)
	if !ok {
		return pathtree.CannotRemove(t.Place.Path())
	}
	return r.Remove(c.Request, t.Place, f.recursive)
}

func (c *call) removeAttribute(t *pathtree.Target, f flags) error {
	first, rest := t.Attribute[0], t.Attribute[1:]
	switch {
	case first.Kind == ypath.EveryAttribute:
		var edits []pathtree.AttributeEdit
		_, custom := t.AttributeNames(c.Request)
		for _, name := range custom {
			edits = append(edits, pathtree.AttributeEdit{Name: name, Edit: pathtree.Removed("", true)})
		}
		return c.editAttributesAt(t, edits)
	case first.Kind != ypath.Attribute || len(rest) > 0 && rest[len(rest)-1].Kind != ypath.Child:
		return wire.Errorf(wire.CodeGeneric, "A path to remove must end with a name or \"*\"")
	}
	what := "Attribute \"" + first.Name + "\""
	if len(rest) > 0 {
		what = "Node " + t.Path.String()
	}
	return c.editAttributesAt(t, []pathtree.AttributeEdit{{Name: first.Name, Steps: rest, Edit: pathtree.Removed(what, f.force)}})
}

// removeChildren empties a directory.
func (c *call) removeChildren(t *pathtree.Target, f flags) error {
	if len(t.Inside) > 1 || t.Shape() == pathtree.DocumentShape {
		return wire.Errorf(wire.CodeGeneric, `"*" stands only behind directories`)
	}
	keys, err := t.Keys(c.Request)
	if err != nil {
		return err
	}
	f.recursive = true
	for _, key := range keys {
		child, err := t.Below(c.Request, key)
		if err != nil {
			return err
		}
		if child == nil {
			continue
		}
		one := pathtree.Target{Place: child, Path: t.Path}
		if err := c.removeTarget(&one, f); err != nil {
			return err
		}
	}
	return nil
}

// createAt creates the missing nodes of a target; the last one is of the requested kind.
func (c *call) createAt(t *pathtree.Target, what pathtree.Creation) (guid.ID, error) {
	if len(t.Missing) > 1 && !what.Recursive {
		return guid.ID{}, t.MustExist(c.Request)
	}
	var keys []string
	for _, step := range t.Missing {
		if step.Kind != ypath.Child {
			return guid.ID{}, t.MustExist(c.Request)
		}
		keys = append(keys, step.Name)
	}
	above, ok := t.Object.(pathtree.Parent)
	if !ok {
		return guid.ID{}, wire.Errorf(wire.CodeGeneric, "Node %s of type %q cannot have children", t.Place.Path(), t.Kind())
	}
	return above.Create(c.Request, t.Place, keys, what)
}
