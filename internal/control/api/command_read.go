package api

import (
	"github.com/weirhq/weir/internal/value/yson"
)

var _ = register(
	command{name: "get", result: "value", run: get},
	command{name: "list", result: "value", run: list},
	command{name: "exists", result: "value", run: exists},
)

// maxNodes is how many nodes one get returns at most.
const maxNodes = 200_000

// found is the target of the parameter path, which the user may read.
func (c *call) found() (target, error) {
	path, err := c.parameters.path("path")
	if err != nil {
		return target{}, err
	}
	t, err := c.find(path, false)
	if err != nil {
		return t, err
	}
	return t, c.mayReadNode(t.place)
}

func get(c *call) (yson.Node, error) {
	t, err := c.found()
	if err != nil {
		return yson.Node{}, err
	}
	if len(t.attribute) > 0 {
		return c.readAttribute(&t)
	}
	reading, err := c.newReading()
	if err != nil {
		return yson.Node{}, err
	}
	if len(t.inside) == 0 {
		if done, err := c.writeWhole(t.place, reading.filter); done || err != nil {
			return yson.Entity(), err
		}
		return reading.node(t.place, true)
	}
	n, err := t.value(c)
	if err != nil {
		return n, err
	}
	n, err = dig(n, t.inside, t.place.path())
	if err != nil {
		return n, resolveError(t.path, err)
	}
	return n, nil
}

// reading is a walk through a part of the tree.
type reading struct {
	*call
	filter attributeFilter
	most   int64 // children of the first node; zero means all
	nodes  int
	all    bool // the user may read everything
}

func (c *call) newReading() (*reading, error) {
	filter, err := filterOf(c.parameters)
	if err != nil {
		return nil, err
	}
	most, err := c.parameters.integer("max_size", 0)
	return &reading{call: c, filter: filter, most: most, all: c.subjects.IsSuperuser(c.who.User)}, err
}

// node returns a node with everything below it.
func (r *reading) node(at *place, top bool) (yson.Node, error) {
	if r.nodes++; r.nodes > maxNodes {
		return yson.Node{}, errorf(codeGeneric, "There are more than %d nodes below the path; read it in parts", maxNodes)
	}
	attributes, err := r.filter.on(r.call, at)
	if err != nil {
		return yson.Node{}, err
	}
	var n yson.Node
	switch shape := at.shape(); {
	case shape == documentShape:
		if n, err = at.value(r.call); err != nil {
			return n, err
		}
		attributes = append(attributes, n.Attributes()...)
	case shape == mapShape || shape == opaqueShape && top:
		var cut bool
		if n, cut, err = r.children(at, top); err != nil {
			return n, err
		}
		if shape == opaqueShape && len(n.Entries()) == 0 {
			n = yson.Entity()
		}
		if cut {
			attributes = append(attributes, yson.Pair("incomplete", yson.Boolean(true)))
		}
	}
	return n.WithAttributes(distinct(attributes)...), nil
}

func (r *reading) children(at *place, top bool) (n yson.Node, cut bool, err error) {
	keys, err := at.keys(r.call)
	if err != nil {
		return n, false, err
	}
	if top && r.most > 0 && int64(len(keys)) > r.most {
		keys, cut = keys[:r.most], true
	}
	entries := make([]yson.Entry, 0, len(keys))
	for _, key := range keys {
		child, err := at.below(r.call, key)
		if err != nil {
			return n, false, err
		}
		if child == nil {
			continue // it has just gone
		}
		value := yson.Entity()
		if r.all || r.mayReadNode(child) == nil {
			if value, err = r.node(child, false); err != nil {
				return n, false, err
			}
		}
		entries = append(entries, yson.Pair(key, value))
	}
	return yson.Map(entries...), cut, nil
}

func list(c *call) (yson.Node, error) {
	t, err := c.found()
	if err != nil {
		return yson.Node{}, err
	}
	reading, err := c.newReading()
	if err != nil {
		return yson.Node{}, err
	}
	if len(t.attribute) > 0 || len(t.inside) > 0 || t.shape() == documentShape {
		n, err := get(c)
		if err != nil {
			return n, err
		}
		return reading.keysOf(n, t.path.String())
	}
	if t.shape() == linkShape {
		return yson.Node{}, errorf(codeGeneric, "Node %s is a link and has no children", t.place.path())
	}
	keys, err := t.keys(c)
	if err != nil {
		return yson.Node{}, err
	}
	var cut bool
	if reading.most > 0 && int64(len(keys)) > reading.most {
		keys, cut = keys[:reading.most], true
	}
	items := make([]yson.Node, 0, len(keys))
	for _, key := range keys {
		item := yson.String(key)
		if !reading.filter.isEmpty() {
			child, err := t.below(c, key)
			if err != nil {
				return item, err
			}
			if child == nil {
				continue
			}
			attributes, err := reading.filter.on(c, child)
			if err != nil {
				return item, err
			}
			item = item.WithAttributes(attributes...)
		}
		items = append(items, item)
	}
	return incomplete(yson.List(items...), cut), nil
}

func incomplete(n yson.Node, cut bool) yson.Node {
	if cut {
		return n.WithAttributes(yson.Pair("incomplete", yson.Boolean(true)))
	}
	return n
}

// keysOf lists the keys of a value.
func (r *reading) keysOf(n yson.Node, path string) (yson.Node, error) {
	if n.Kind() != yson.MapKind {
		return n, errorf(codeGeneric, "Cannot list %s: it is of type %s and has no keys", path, n.Kind())
	}
	var keys []string
	for _, e := range n.Entries() {
		if r.most > 0 && int64(len(keys)) >= r.most {
			return incomplete(texts(keys), true), nil
		}
		keys = append(keys, e.Key)
	}
	return texts(keys), nil
}

// exists answers false for everything that does not lead anywhere.
func exists(c *call) (yson.Node, error) {
	t, err := c.found()
	if err == nil {
		switch {
		case len(t.attribute) > 0:
			_, err = c.readAttribute(&t)
		case len(t.inside) > 0:
			var n yson.Node
			if n, err = t.value(c); err == nil {
				_, err = dig(n, t.inside, "")
			}
		}
	}
	if isResolve(err) {
		return yson.Boolean(false), nil
	}
	return yson.Boolean(true), err
}
