package api

import (
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

var _ = register(
	command{name: "set", input: structured, volatile: true, silentV3: true, run: set},
	command{name: "multiset_attributes", input: structured, volatile: true, silentV3: true, run: multisetAttributes},
	command{name: "remove", volatile: true, silentV3: true, run: remove},
	command{name: "create", volatile: true, result: "node_id", run: create, replay: createdBefore},
	command{name: "copy", volatile: true, result: "node_id", run: func(c *call) (yson.Node, error) { return transplant(c, true) }, replay: destinationOf},
	command{name: "move", volatile: true, result: "node_id", run: func(c *call) (yson.Node, error) { return transplant(c, false) }, replay: destinationOf},
	command{name: "link", volatile: true, result: "node_id", run: link, replay: linkedBefore},
)

// flags are the switches that commands on paths share.
type flags struct{ recursive, force, ignoreExisting bool }

func (c *call) flags() (f flags, err error) {
	for name, at := range map[string]*bool{"recursive": &f.recursive, "force": &f.force, "ignore_existing": &f.ignoreExisting} {
		value, wrong := c.parameters.boolean(name, false)
		if wrong != nil {
			return f, wrong
		}
		*at = value
	}
	return f, nil
}

func set(c *call) (yson.Node, error) {
	path, err := c.parameters.path("path")
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
	t, err := c.walk(path, false)
	if err != nil {
		return yson.Node{}, err
	}
	switch {
	case len(t.attribute) > 0:
		return nothing(c.setAttribute(&t, value))
	case len(t.missing) > 0:
		what := creation{kind: kindOf(value), value: value, attributes: yson.Map(value.Attributes()...), recursive: f.recursive}
		_, err := c.createAt(&t, what)
		return nothing(err)
	}
	editor, ok := t.object.(valueEditor)
	if !ok {
		return nothing(errorf(codeGeneric, "Node %s of type %q cannot be set; its attributes are below %[1]s/@", t.place.path(), t.kind()))
	}
	if t.shape() == mapShape && !f.force {
		return nothing(errorf(codeGeneric, "Node %s is a map: set it with force, or set its children", t.place.path()))
	}
	return nothing(editor.editValue(c, t.place, editInside(t.inside, f.recursive || len(t.inside) == 1, t.place.path(), setTo(value))))
}

// setAttribute sets an attribute, something inside one, or all of them.
func (c *call) setAttribute(t *target, value yson.Node) error {
	first, rest := t.attribute[0], t.attribute[1:]
	switch first.Kind {
	case ypath.Attribute:
		return c.editAttributesAt(t, []attributeEdit{{name: first.Name, steps: rest, edit: setTo(value)}})
	case ypath.AllAttributes:
		if value.Kind() != yson.MapKind {
			return errorf(codeGeneric, "Attributes must be a map, not %s", value.Kind())
		}
		edits := editsOf(value)
		_, custom := t.attributeNames(c)
		for _, name := range custom {
			if _, kept := value.Get(name); !kept {
				edits = append(edits, attributeEdit{name: name, edit: removed("", true)})
			}
		}
		return c.editAttributesAt(t, edits)
	}
	return errorf(codeGeneric, `"*" stands only at the end of paths to remove`)
}

// editAttributesAt changes attributes of a node that must be there and let itself
// be changed.
func (c *call) editAttributesAt(t *target, edits []attributeEdit) error {
	if err := t.mustExist(c); err != nil {
		return err
	}
	for _, e := range edits {
		if err := mustBeText(e.name); err != nil {
			return err
		}
	}
	editor, ok := t.object.(attributesEditor)
	if !ok {
		name := "@"
		if len(edits) > 0 {
			name = edits[0].name
		}
		return errorf(codeGeneric, "Builtin attribute %q cannot be set: node %s cannot be changed", name, t.place.path())
	}
	return editor.editAttributes(c, t.place, edits)
}

func multisetAttributes(c *call) (yson.Node, error) {
	path, err := c.parameters.path("path")
	if err != nil {
		return yson.Node{}, err
	}
	value, err := c.input()
	if err != nil {
		return yson.Node{}, err
	}
	t, err := c.walk(path, false)
	if err != nil {
		return yson.Node{}, err
	}
	switch {
	case value.Kind() != yson.MapKind:
		return nothing(errorf(codeGeneric, "Attributes must be a map, not %s", value.Kind()))
	case len(t.attribute) == 0:
		return nothing(errorf(codeGeneric, `The path must end with "/@"`))
	case len(t.attribute) == 1 && t.attribute[0].Kind == ypath.AllAttributes:
		return nothing(c.editAttributesAt(&t, editsOf(value)))
	case t.attribute[0].Kind != ypath.Attribute:
		return nothing(errorf(codeGeneric, `The path must end with "/@" or the name of an attribute`))
	}
	var edits []attributeEdit
	for _, e := range value.Entries() {
		steps := append(t.attribute[1:len(t.attribute):len(t.attribute)], ypath.Step{Name: e.Key})
		edits = append(edits, attributeEdit{name: t.attribute[0].Name, steps: steps, edit: setTo(e.Value)})
	}
	return nothing(c.editAttributesAt(&t, edits))
}

func remove(c *call) (yson.Node, error) {
	path, err := c.parameters.path("path")
	if err != nil {
		return yson.Node{}, err
	}
	f, err := c.flags()
	if err != nil {
		return yson.Node{}, err
	}
	t, err := c.walk(path, true)
	if err == nil {
		err = c.removeTarget(&t, f)
	}
	if f.force && isResolve(err) {
		err = nil
	}
	return nothing(err)
}

func (c *call) removeTarget(t *target, f flags) error {
	if err := t.mustExist(c); err != nil {
		return err
	}
	if len(t.attribute) > 0 {
		return c.removeAttribute(t, f)
	}
	if len(t.inside) > 0 {
		if t.inside[len(t.inside)-1].Kind == ypath.EveryChild {
			return c.removeChildren(t, f)
		}
		editor, ok := t.object.(valueEditor)
		if !ok {
			return cannotRemove(t.path.String())
		}
		e := editInside(t.inside, false, t.place.path(), removed("Node "+t.path.String(), f.force))
		return editor.editValue(c, t.place, e)
	}
	r, ok := t.object.(remover)
	if !ok {
		return cannotRemove(t.place.path())
	}
	return r.remove(c, t.place, f.recursive)
}

func (c *call) removeAttribute(t *target, f flags) error {
	first, rest := t.attribute[0], t.attribute[1:]
	switch {
	case first.Kind == ypath.EveryAttribute:
		var edits []attributeEdit
		_, custom := t.attributeNames(c)
		for _, name := range custom {
			edits = append(edits, attributeEdit{name: name, edit: removed("", true)})
		}
		return c.editAttributesAt(t, edits)
	case first.Kind != ypath.Attribute || len(rest) > 0 && rest[len(rest)-1].Kind != ypath.Child:
		return errorf(codeGeneric, "A path to remove must end with a name or \"*\"")
	}
	what := "Attribute \"" + first.Name + "\""
	if len(rest) > 0 {
		what = "Node " + t.path.String()
	}
	return c.editAttributesAt(t, []attributeEdit{{name: first.Name, steps: rest, edit: removed(what, f.force)}})
}

// removeChildren empties a directory.
func (c *call) removeChildren(t *target, f flags) error {
	if len(t.inside) > 1 || t.shape() == documentShape {
		return errorf(codeGeneric, `"*" stands only behind directories`)
	}
	keys, err := t.keys(c)
	if err != nil {
		return err
	}
	f.recursive = true
	for _, key := range keys {
		child, err := t.below(c, key)
		if err != nil {
			return err
		}
		if child == nil {
			continue
		}
		one := target{place: child, path: t.path}
		if err := c.removeTarget(&one, f); err != nil {
			return err
		}
	}
	return nil
}

// createAt makes the missing nodes of a target, the last one of them as asked.
func (c *call) createAt(t *target, what creation) (guid.ID, error) {
	if len(t.missing) > 1 && !what.recursive {
		return guid.ID{}, t.mustExist(c)
	}
	var keys []string
	for _, step := range t.missing {
		if step.Kind != ypath.Child {
			return guid.ID{}, t.mustExist(c)
		}
		keys = append(keys, step.Name)
	}
	above, ok := t.object.(parent)
	if !ok {
		return guid.ID{}, errorf(codeGeneric, "Node %s of type %q cannot have children", t.place.path(), t.kind())
	}
	return above.create(c, t.place, keys, what)
}
