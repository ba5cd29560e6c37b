package api

import (
	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/yson"
)

// maxNodes is the most nodes that one get returns.
const maxNodes = 200_000

// found is the target of the parameter path, which the user may read. It is looked up only once.
func (c *call) found() (pathtree.Target, error) {
	if c.target == nil {
		t, err := c.findTarget()
		c.target, c.missing = &t, err
	}
	return *c.target, c.missing
}

func (c *call) findTarget() (pathtree.Target, error) {
	path, err := c.Parameters.Path("path")
	if err != nil {
		return pathtree.Target{}, err
	}
	t, err := c.Find(path, false)
	if err != nil {
		return t, err
	}
	return t, c.MayReadNode(t.Place)
}

func get(c *call) (yson.Node, error) {
	t, err := c.found()
	if err != nil {
		return yson.Node{}, err
	}
	if len(t.Attribute) > 0 {
		return c.ReadAttribute(&t)
	}
	reading, err := c.newReading()
	if err != nil {
		return yson.Node{}, err
	}
	if len(t.Inside) == 0 {
		if done, err := c.writeWhole(t.Place, reading.filter); done || err != nil {
			return yson.Entity(), err
		}
		return reading.node(t.Place, true)
	}
	n, err := t.Value(c.Request)
	if err != nil {
		return n, err
	}
	n, err = pathtree.Dig(n, t.Inside, t.Place.Path())
	if err != nil {
		return n, pathtree.ResolveError(t.Path, err)
	}
	return n, nil
}

// reading is a walk through a part of the tree.
type reading struct {
	*call
	filter pathtree.AttributeFilter
	most   int64 // children of the first node; zero means all
	nodes  int
	all    bool // the user may read everything
}

func (c *call) newReading() (*reading, error) {
	filter, err := pathtree.FilterOf(c.Parameters)
	if err != nil {
		return nil, err
	}
	most, err := c.Parameters.Integer("max_size", 0)
	return &reading{call: c, filter: filter, most: most, all: c.Subjects.IsSuperuser(c.Who.User)}, err
}

// node returns a node with everything below it.
func (r *reading) node(at *pathtree.Place, top bool) (yson.Node, error) {
	if r.nodes++; r.nodes > maxNodes {
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "There are more than %d nodes below the path; read it in parts", maxNodes)
	}
	attributes, err := r.filter.On(r.call.Request, at)
	if err != nil {
		return yson.Node{}, err
	}
	var n yson.Node
	switch shape := at.Shape(); {
	case shape == pathtree.DocumentShape:
		if n, err = at.Value(r.call.Request); err != nil {
			return n, err
		}
		attributes = append(attributes, n.Attributes()...)
	case shape == pathtree.MapShape || shape == pathtree.OpaqueShape && top:
		var cut bool
		if n, cut, err = r.children(at, top); err != nil {
			return n, err
		}
		if shape == pathtree.OpaqueShape && len(n.Entries()) == 0 {
			n = yson.Entity()
		}
		if cut {
			attributes = append(attributes, yson.Pair("incomplete", yson.Boolean(true)))
		}
	}
	return n.WithAttributes(wire.Distinct(attributes)...), nil
}

func (r *reading) children(at *pathtree.Place, top bool) (n yson.Node, cut bool, err error) {
	keys, err := at.Keys(r.call.Request)
	if err != nil {
		return n, false, err
	}
	if top && r.most > 0 && int64(len(keys)) > r.most {
		keys, cut = keys[:r.most], true
	}
	entries := make([]yson.Entry, 0, len(keys))
	for _, key := range keys {
		child, err := at.Below(r.call.Request, key)
		if err != nil {
			return n, false, err
		}
		if child == nil {
			continue // it was removed meanwhile
		}
		value := yson.Entity()
		if r.all || r.MayReadNode(child) == nil {
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
	if len(t.Attribute) > 0 || len(t.Inside) > 0 || t.Shape() == pathtree.DocumentShape {
		n, err := get(c)
		if err != nil {
			return n, err
		}
		return reading.keysOf(n, t.Path.String())
	}
	if t.Shape() == pathtree.LinkShape {
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Node %s is a link and has no children", t.Place.Path())
	}
	keys, err := t.Keys(c.Request)
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
		if !reading.filter.IsEmpty() {
			child, err := t.Below(c.Request, key)
			if err != nil {
				return item, err
			}
			if child == nil {
				continue
			}
			attributes, err := reading.filter.On(c.Request, child)
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
		return n, wire.Errorf(wire.CodeGeneric, "Cannot list %s: it is of type %s and has no keys", path, n.Kind())
	}
	var keys []string
	for _, e := range n.Entries() {
		if r.most > 0 && int64(len(keys)) >= r.most {
			return incomplete(wire.Texts(keys), true), nil
		}
		keys = append(keys, e.Key)
	}
	return wire.Texts(keys), nil
}

// exists answers false for every path that leads nowhere.
func exists(c *call) (yson.Node, error) {
	t, err := c.found()
	if err == nil {
		switch {
		case len(t.Attribute) > 0:
			_, err = c.ReadAttribute(&t)
		case len(t.Inside) > 0:
			var n yson.Node
			if n, err = t.Value(c.Request); err == nil {
				_, err = pathtree.Dig(n, t.Inside, "")
			}
		}
	}
	if pathtree.IsResolve(err) {
		return yson.Boolean(false), nil
	}
	return yson.Boolean(true), err
}
