package api

import (
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
	kind, err := c.parameters.needText("type")
	if err != nil {
		return yson.Node{}, err
	}
	attributes, err := c.parameters.mapping("attributes")
	if err != nil {
		return yson.Node{}, err
	}
	for _, e := range attributes.Entries() {
		if err := mustBeText(e.Key); err != nil {
			return yson.Node{}, err
		}
	}
	f, err := c.flags()
	if err != nil {
		return yson.Node{}, err
	}
	if !c.parameters.has("path") {
		make, known := makers[kind]
		if !known {
			return yson.Node{}, errorf(codeGeneric, "Objects of type %q cannot be created without a path%s", cutText(kind, 100), nearestType(kind))
		}
		c.resultKey = "object_id"
		return idNode(make(c, attributes, f.ignoreExisting))
	}
	path, err := c.parameters.path("path")
	if err != nil {
		return yson.Node{}, err
	}
	t, err := c.walk(path, true)
	if err != nil {
		return yson.Node{}, err
	}
	if len(t.attribute) > 0 || len(t.inside) > 0 {
		return yson.Node{}, errorf(codeGeneric, "A node cannot be created at %s", path)
	}
	what := creation{kind: kind, attributes: attributes, recursive: f.recursive}
	if value, given := c.parameters.get("value"); given {
		what.value = value
	}
	if len(t.missing) == 0 {
		return c.createOver(&t, f, what)
	}
	return idNode(c.createAt(&t, what))
}

// createOver is a creation where there is something already.
func (c *call) createOver(t *target, f flags, what creation) (yson.Node, error) {
	if f.ignoreExisting {
		same := t.kind() == what.kind
		if mismatch, err := c.parameters.boolean("ignore_type_mismatch", false); err != nil || !same && !mismatch {
			if err == nil {
				err = errorf(codeAlreadyExists, "%s already exists and is of type %q, not %q", t.place.path(), t.kind(), cutText(what.kind, 100))
			}
			return yson.Node{}, err
		}
		if err := c.mayReadNode(t.place); err != nil {
			return yson.Node{}, err
		}
		return yson.String(t.identity(c).String()), nil
	}
	above, ok := parentOf(t)
	if !f.force || !ok {
		return yson.Node{}, alreadyExists(t.place)
	}
	what.replace = true
	return idNode(above.create(c, t.above, []string{t.key}, what))
}

func parentOf(t *target) (parent, bool) {
	if t.above == nil {
		return nil, false
	}
	above, ok := t.above.object.(parent)
	return above, ok
}

func alreadyExists(at *place) *Error {
	return errorf(codeAlreadyExists, "Node %s already exists", at.path()).with("path", yson.String(at.path()))
}

// createdBefore finds what a create made that is repeated.
func createdBefore(c *call, response []byte) (yson.Node, error) {
	if !c.parameters.has("path") {
		c.resultKey = "object_id"
	}
	if len(response) > 0 {
		return yson.String(string(response)), nil
	}
	if c.parameters.has("path") {
		return c.identityOf("path")
	}
	attributes, err := c.parameters.mapping("attributes")
	if err != nil {
		return yson.Node{}, err
	}
	kind, err := c.parameters.text("type", "")
	if err != nil {
		return yson.Node{}, err
	}
	name, _ := attributes.Get("name")
	text, _ := name.Text()
	return c.namedObject(kind, text, attributes)
}

// namedObject returns the id of an object that has a name.
func (c *call) namedObject(kind, name string, attributes yson.Node) (yson.Node, error) {
	switch kind {
	case "scheduler_pool":
		place, err := poolPlaceOf(c, attributes)
		if err != nil {
			return yson.Node{}, err
		}
		return yson.String(place.Pool(name).ID.String()), nil
	case "scheduler_pool_tree":
		return c.identityAt(joinPath("//sys/pool_trees", name))
	case "user", "group", "account":
		return c.identityAt(joinPath("//sys/"+kind+"s", name))
	}
	return yson.Node{}, errorf(codeResolve, "No such object")
}

func (c *call) identityAt(path string) (yson.Node, error) {
	parsed, err := ypath.Parse(path)
	if err != nil {
		return yson.Node{}, err
	}
	t, err := c.find(parsed, true)
	if err != nil {
		return yson.Node{}, err
	}
	return yson.String(t.identity(c).String()), nil
}

// identityOf is the id of the node that a parameter leads to.
func (c *call) identityOf(parameter string) (yson.Node, error) {
	path, err := c.parameters.path(parameter)
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
	source, err := c.parameters.path("source_path")
	if err != nil {
		return yson.Node{}, err
	}
	destination, err := c.parameters.path("destination_path")
	if err != nil {
		return yson.Node{}, err
	}
	f, err := c.flags()
	if err != nil {
		return yson.Node{}, err
	}
	from, err := c.find(source, true)
	if err != nil {
		return yson.Node{}, err
	}
	to, err := c.walk(destination, true)
	if err != nil {
		return yson.Node{}, err
	}
	m, ok := from.object.(mover)
	if !ok || len(from.attribute) > 0 || len(from.inside) > 0 || len(to.attribute) > 0 || len(to.inside) > 0 {
		return yson.Node{}, errorf(codeGeneric, "Node %s cannot be copied or moved to %s", source, destination)
	}
	for at := to.place; at != nil; at = at.above {
		if at.path() == from.place.path() && (len(to.missing) > 0 || at != to.place) {
			return yson.Node{}, errorf(codeGeneric, "Cannot copy or move an object to its descendant")
		}
	}
	above, key := to.place, ""
	switch {
	case len(to.missing) == 0 && to.above != nil:
		if f.ignoreExisting {
			return yson.String(to.identity(c).String()), nil
		}
		same := to.place.path() == from.place.path()
		if !f.force && !same {
			return yson.Node{}, alreadyExists(to.place)
		}
		if same {
			return yson.Node{}, alreadyExists(to.place)
		}
		gone := target{place: to.place, path: destination}
		if err := c.first(func() error { return c.removeTarget(&gone, flags{recursive: true}) }); err != nil {
			return yson.Node{}, err
		}
		above, key = to.above, to.key
	case len(to.missing) == 1:
		key = to.missing[0].Name
	case len(to.missing) > 1 && f.recursive:
		rest := to
		rest.missing = to.missing[:len(to.missing)-1]
		err := c.first(func() error {
			_, err := c.createAt(&rest, creation{kind: "map_node", attributes: yson.Map(), recursive: true})
			return err
		})
		if err != nil {
			return yson.Node{}, err
		}
		up, last, _ := destination.Parent()
		if to, err = c.find(up, false); err != nil {
			return yson.Node{}, err
		}
		above, key = to.place, last.Name
	default:
		return yson.Node{}, to.mustExist(c)
	}
	if key == "" {
		return yson.Node{}, alreadyExists(to.place)
	}
	return idNode(m.move(c, from.place, above, key, copying))
}

func link(c *call) (yson.Node, error) {
	to, err := c.parameters.path("target_path")
	if err != nil {
		return yson.Node{}, err
	}
	path, err := c.parameters.path("link_path")
	if err != nil {
		return yson.Node{}, err
	}
	f, err := c.flags()
	if err != nil {
		return yson.Node{}, err
	}
	if _, err := c.find(to, false); err != nil && !f.force {
		return yson.Node{}, err
	}
	attributes, err := c.parameters.mapping("attributes")
	if err != nil {
		return yson.Node{}, err
	}
	t, err := c.walk(path, true)
	if err != nil {
		return yson.Node{}, err
	}
	if len(t.attribute) > 0 || len(t.inside) > 0 {
		return yson.Node{}, errorf(codeGeneric, "A node cannot be created at %s", path)
	}
	what := creation{kind: "link", value: yson.String(to.String()), attributes: attributes, recursive: f.recursive}
	if len(t.missing) == 0 {
		return c.createOver(&t, f, what)
	}
	return idNode(c.createAt(&t, what))
}
