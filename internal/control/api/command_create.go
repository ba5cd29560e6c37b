package api

import (
	"slices"

	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

func idNode(id guid.ID, err error) (yson.Node, error) {
	if err != nil {
		return yson.Node{}, err
	}
	return yson.String(id.String()), nil
}

func create(c *call) (yson.Node, error) {
	kind, err := c.Parameters.NeedText("type")
	if err != nil {
		return yson.Node{}, err
	}
	attributes, err := c.Parameters.Mapping("attributes")
	if err != nil {
		return yson.Node{}, err
	}
	for _, e := range attributes.Entries() {
		if err := wire.MustBeText(e.Key); err != nil {
			return yson.Node{}, err
		}
	}
	f, err := c.flags()
	if err != nil {
		return yson.Node{}, err
	}
	if !c.Parameters.Has("path") {
		make, known := pathtree.Makers[kind]
		if !known {
			return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Objects of type %q cannot be created without a path%s", wire.CutText(kind, 100), pathtree.NearestType(kind))
		}
		c.resultKey = "object_id"
		return idNode(make(c.Request, attributes, f.ignoreExisting))
	}
	path, err := c.Parameters.Path("path")
	if err != nil {
		return yson.Node{}, err
	}
	t, err := c.Walk(path, true)
	if err != nil {
		return yson.Node{}, err
	}
	if len(t.Attribute) > 0 || len(t.Inside) > 0 {
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "A node cannot be created at %s", path)
	}
	what := pathtree.Creation{Kind: kind, Attributes: attributes, Recursive: f.recursive}
	if value, given := c.Parameters.Get("value"); given {
		what.Value = value
	}
	if len(t.Missing) == 0 {
		return c.createOver(&t, f, what)
	}
	return idNode(c.createAt(&t, what))
}

// createOver handles a create at a path where a node already exists.
func (c *call) createOver(t *pathtree.Target, f flags, what pathtree.Creation) (yson.Node, error) {
	if f.ignoreExisting {
		same := t.Kind() == what.Kind
		if mismatch, err := c.Parameters.Boolean("ignore_type_mismatch", false); err != nil || !same && !mismatch {
			if err == nil {
				err = wire.Errorf(wire.CodeAlreadyExists, "%s already exists and is of type %q, not %q", t.Place.Path(), t.Kind(), wire.CutText(what.Kind, 100))
			}
			return yson.Node{}, err
		}
		if err := c.MayReadNode(t.Place); err != nil {
			return yson.Node{}, err
		}
		return yson.String(t.Identity(c.Request).String()), nil
	}
	above, ok := parentOf(t)
	if !f.force || !ok {
		return yson.Node{}, alreadyExists(t.Place)
	}
	what.Replace = true
	return idNode(above.Create(c.Request, t.Above, []string{t.Key}, what))
}

func parentOf(t *pathtree.Target) (pathtree.Parent, bool) {
	if t.Above == nil {
		return nil, false
	}
	above, ok := t.Above.Object.(pathtree.Parent)
	return above, ok
}

func alreadyExists(at *pathtree.Place) *wire.Error {
	return wire.Errorf(wire.CodeAlreadyExists, "Node %s already exists", at.Path()).With("path", yson.String(at.Path()))
}

// createdBefore answers a repeated create with the id of the node or object that the first one created.
func createdBefore(c *call, response []byte) (yson.Node, error) {
	if !c.Parameters.Has("path") {
		c.resultKey = "object_id"
	}
	if len(response) > 0 {
		return yson.String(string(response)), nil
	}
	if c.Parameters.Has("path") {
		return c.identityOf("path")
	}
	attributes, err := c.Parameters.Mapping("attributes")
	if err != nil {
		return yson.Node{}, err
	}
	kind, err := c.Parameters.Text("type", "")
	if err != nil {
		return yson.Node{}, err
	}
	name, _ := attributes.Get("name")
	text, _ := name.Text()
	return c.namedObject(kind, text, attributes)
}

// namedObject returns the id of an object that is found by name.
func (c *call) namedObject(kind, name string, attributes yson.Node) (yson.Node, error) {
	switch kind {
	case "scheduler_pool":
		place, err := pathtree.PoolPlaceOf(c.Request, attributes)
		if err != nil {
			return yson.Node{}, err
		}
		return yson.String(place.Pool(name).ID.String()), nil
	case "scheduler_pool_tree":
		return c.identityAt(pathtree.JoinPath("//sys/pool_trees", name))
	case "user", "group", "account":
		return c.identityAt(pathtree.JoinPath("//sys/"+kind+"s", name))
	}
	return yson.Node{}, wire.Errorf(wire.CodeResolve, "No such object")
}

func (c *call) identityAt(path string) (yson.Node, error) {
	parsed, err := ypath.Parse(path)
	if err != nil {
		return yson.Node{}, err
	}
	t, err := c.Find(parsed, true)
	if err != nil {
		return yson.Node{}, err
	}
	return yson.String(t.Identity(c.Request).String()), nil
}

// identityOf is the id of the node at the path in a parameter.
func (c *call) identityOf(parameter string) (yson.Node, error) {
	path, err := c.Parameters.Path(parameter)
	if err != nil {
		return yson.Node{}, err
	}
	return c.identityAt(path.String())
}

func destinationOf(c *call, response []byte) (yson.Node, error) {
	if len(response) > 0 {
		return yson.String(string(response)), nil
	}
	return c.identityOf("destination_path")
}

func linkedBefore(c *call, response []byte) (yson.Node, error) {
	if len(response) > 0 {
		return yson.String(string(response)), nil
	}
	return c.identityOf("link_path")
}

// transplant copies or moves a node.
func transplant(c *call, copying bool) (yson.Node, error) {
	source, err := c.Parameters.Path("source_path")
	if err != nil {
		return yson.Node{}, err
	}
	destination, err := c.Parameters.Path("destination_path")
	if err != nil {
		return yson.Node{}, err
	}
	f, err := c.flags()
	if err != nil {
		return yson.Node{}, err
	}
	from, err := c.Find(source, true)
	if err != nil {
		return yson.Node{}, err
	}
	to, err := c.Walk(destination, true)
	if err != nil {
		return yson.Node{}, err
	}
	m, ok := from.Object.(pathtree.Mover)
	if !ok || len(from.Attribute) > 0 || len(from.Inside) > 0 || len(to.Attribute) > 0 || len(to.Inside) > 0 {
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Node %s cannot be copied or moved to %s", source, destination)
	}
	for at := to.Place; at != nil; at = at.Above {
		if at.Path() == from.Place.Path() && (len(to.Missing) > 0 || at != to.Place) {
			return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Cannot copy or move an object to its descendant")
		}
	}
	above := to.Place
	var keys []string
	for _, step := range to.Missing {
		keys = append(keys, step.Name)
	}
	switch {
	case len(to.Missing) == 0 && to.Above != nil:
		if f.ignoreExisting {
			return yson.String(to.Identity(c.Request).String()), nil
		}
		if !f.force || to.Place.Path() == from.Place.Path() {
			return yson.Node{}, alreadyExists(to.Place)
		}
		gone := pathtree.Target{Place: to.Place, Path: destination}
		if err := c.removeTarget(&gone, flags{recursive: true}); err != nil {
			return yson.Node{}, err
		}
		above, keys = to.Above, []string{to.Key}
	case len(keys) == 0:
		return yson.Node{}, alreadyExists(to.Place)
	case len(keys) > 1 && !f.recursive || slices.ContainsFunc(to.Missing, func(s ypath.Step) bool { return s.Kind != ypath.Child }):
		return yson.Node{}, to.MustExist(c.Request)
	}
	return idNode(m.Move(c.Request, from.Place, above, keys, copying))
}

func link(c *call) (yson.Node, error) {
	to, err := c.Parameters.Path("target_path")
	if err != nil {
		return yson.Node{}, err
	}
	path, err := c.Parameters.Path("link_path")
	if err != nil {
		return yson.Node{}, err
	}
	f, err := c.flags()
	if err != nil {
		return yson.Node{}, err
	}
	if _, err := c.Find(to, false); err != nil && !f.force {
		return yson.Node{}, err
	}
	attributes, err := c.Parameters.Mapping("attributes")
	if err != nil {
		return yson.Node{}, err
	}
	t, err := c.Walk(path, true)
	if err != nil {
		return yson.Node{}, err
	}
	if len(t.Attribute) > 0 || len(t.Inside) > 0 {
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "A node cannot be created at %s", path)
	}
	what := pathtree.Creation{Kind: "link", Value: yson.String(to.String()), Attributes: attributes, Recursive: f.recursive}
	if len(t.Missing) == 0 {
		return c.createOver(&t, f, what)
	}
	return idNode(c.createAt(&t, what))
}
