package pathtree

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

// Shape is how a node of the tree is read.
type Shape uint8

const (
	MapShape      Shape = iota // a map of its children
	OpaqueShape                // has children and attributes, and is the entity when read
	DocumentShape              // a value that paths lead into
	LinkShape                  // a link to another node; value is its path
)

// Meta is the metadata of every node.
type Meta struct {
	ID                guid.ID
	Created, Modified time.Time
}

// Object is a node of the tree of paths as one request sees it. Embed [Bare] for the methods that a
// kind of nodes does not need.
type Object interface {
	// Kind is the attribute type: map_node, scheduler_pool.
	Kind() string
	Shape() Shape
	// Meta identifies the node; a zero id is replaced by one derived from the path.
	Meta(c *Request) Meta
	// access returns the node as an object with an access control list.
	access(c *Request, at *Place) auth.Object
	// Child returns the child under a key, or nil.
	Child(c *Request, key string) (Object, error)
	// Keys lists the children in their order.
	Keys(c *Request) ([]string, error)
	// Value is the value of a document or another leaf.
	Value(c *Request) (yson.Node, error)
	// Attribute returns one of the node's own attributes, not one that all nodes have.
	Attribute(c *Request, at *Place, name string) (value yson.Node, there bool, err error)
	// AttributeNames lists the node's own attributes that exist now, and which of them users made.
	AttributeNames(c *Request) (builtin, custom []string)
}

// An edit computes a new value from an old one. Without keep the value is removed.
type edit func(old yson.Node, there bool) (next yson.Node, keep bool, err error)

// AttributeEdit is an edit of one attribute.
type AttributeEdit struct {
	Name string
	// Steps lead to the change inside the attribute, for messages and for rules about parts of
	// attributes.
	Steps []ypath.Step
	Edit  edit
}

// What nodes can do besides being read. Each method checks permissions itself and adds its changes
// to the request's transaction, so that methods can be combined.
type (
	// AttributesEditor changes attributes, all or none.
	AttributesEditor interface {
		EditAttributes(c *Request, at *Place, edits []AttributeEdit) error
	}
	// ValueEditor changes the value of a document.
	ValueEditor interface {
		EditValue(c *Request, at *Place, e edit) error
	}
	// Parent creates children: a node under the last of the keys, and directories under the keys in
	// front of it.
	Parent interface {
		Create(c *Request, at *Place, keys []string, what Creation) (guid.ID, error)
	}
	// Remover removes itself.
	Remover interface {
		Remove(c *Request, at *Place, recursive bool) error
	}
	// Mover moves itself to another parent and name: the last of the keys, below new directories
	// under the keys in front of it.
	Mover interface {
		Move(c *Request, at *Place, to *Place, keys []string, copying bool) (guid.ID, error)
	}
)

// Creation describes a node to create.
type Creation struct {
	Kind       string
	Attributes yson.Node // a map
	Value      yson.Node // for documents and the like
	Recursive  bool
	// Replace reports whether an existing node is removed with everything below it.
	Replace bool
	id      guid.ID // for a plain node; zero means a new one
}

// Bare is an empty node; other nodes embed it.
type Bare struct{}

// Shape is that of a directory.
func (Bare) Shape() Shape { return MapShape }

// Meta is empty.
func (Bare) Meta(*Request) Meta { return Meta{} }

// Child finds nothing.
func (Bare) Child(*Request, string) (Object, error) { return nil, nil }

// Keys lists nothing.
func (Bare) Keys(*Request) ([]string, error) { return nil, nil }

// Value is the entity.
func (Bare) Value(*Request) (yson.Node, error) { return yson.Entity(), nil }

// AttributeNames lists nothing.
func (Bare) AttributeNames(*Request) (builtin, custom []string) { return nil, nil }

// Attribute finds nothing.
func (Bare) Attribute(*Request, *Place, string) (yson.Node, bool, error) {
	return yson.Entity(), false, nil
}

func (Bare) access(c *Request, at *Place) auth.Object {
	return c.AccessOf(auth.Object{Kind: auth.KindNode, Name: at.Path()}, at.Path())
}

// Place is a node together with its path from the root.
type Place struct {
	Object
	Key   string
	Above *Place // nil at the root
}

// Path is the path from the root as text.
func (p *Place) Path() string {
	if p.Above == nil {
		return "/"
	}
	return p.Above.Path() + "/" + ypath.Escape(p.Key)
}

// Chain is the node and everything above it, for permission checks.
func (p *Place) Chain(c *Request) auth.Chain {
	var chain auth.Chain
	for at := p; at != nil; at = at.Above {
		chain = append(chain, at.access(c, at))
	}
	return chain
}

// Identity is the id of the node. A node without one gets it from its path.
func (p *Place) Identity(c *Request) guid.ID {
	if m := p.Meta(c); !m.ID.IsZero() {
		return m.ID
	}
	return pathID(p.Path())
}

// pathID is the id of a node that always exists.
func pathID(path string) guid.ID {
	sum := sha256.Sum256([]byte(path))
	return guid.New(guid.Object, binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16]))
}

// Below is the place of a child, or nil.
func (p *Place) Below(c *Request, key string) (*Place, error) {
	child, err := p.Child(c, key)
	if err != nil || child == nil {
		return nil, err
	}
	return &Place{Object: child, Key: key, Above: p}, nil
}

// Target is what a path leads to.
type Target struct {
	*Place
	Path ypath.Path
	// Missing are steps to children that do not exist.
	Missing []ypath.Step
	// Inside are steps into the value of a document.
	Inside []ypath.Step
	// Attribute starts with the step to an attribute; empty if the path leads to a node.
	Attribute []ypath.Step
}

// maxLinks is the most links that a path may follow.
const maxLinks = 16

// Walk follows a path as far as nodes exist. With stay it does not follow a link at the end of the
// path.
func (c *Request) Walk(path ypath.Path, stay bool) (Target, error) {
	t := Target{Path: path}
	links := 0
	start, err := c.startOf(path)
	if err != nil {
		return t, err
	}
	t.Place = start
	steps := path.Steps
	for i, step := range steps {
		switch {
		case step.Kind != ypath.Child:
			t.Attribute = steps[i:]
			if step.Kind == ypath.EveryChild {
				t.Attribute, t.Inside = nil, steps[i:]
			}
			return t, nil
		case t.Shape() == DocumentShape:
			t.Inside = steps[i:]
			return t, nil
		}
		next, err := t.Below(c, step.Name)
		if err != nil {
			return t, err
		}
		if next == nil {
			t.Missing = steps[i:]
			return t, nil
		}
		t.Place = next
		for t.Shape() == LinkShape && !step.Stay && !(stay && i == len(steps)-1) {
			if links++; links > maxLinks {
				return t, ResolveError(path, wire.Errorf(wire.CodeResolve, "The path contains more than %d links", maxLinks))
			}
			if t.Place, err = c.follow(t.Place); err != nil {
				return t, ResolveError(path, err)
			}
		}
	}
	return t, nil
}

// follow returns the target of a link.
func (c *Request) follow(link *Place) (*Place, error) {
	value, err := link.Value(c)
	if err != nil {
		return nil, err
	}
	text, _ := value.Text()
	to, err := ypath.Parse(text)
	if err != nil {
		return nil, err
	}
	at := &Place{Object: rootObject(c)}
	for _, step := range to.Steps {
		next, err := at.Below(c, step.Name)
		if err != nil {
			return nil, err
		}
		if next == nil || step.Kind != ypath.Child {
			return nil, wire.Errorf(wire.CodeResolve, "Link %s leads to %s, which does not exist", link.Path(), text)
		}
		at = next
	}
	return at, nil
}

// startOf is the node at which a path starts.
func (c *Request) startOf(path ypath.Path) (*Place, error) {
	root := &Place{Object: rootObject(c)}
	if path.Object == "" {
		return root, nil
	}
	id, err := guid.Parse(path.Object)
	if err != nil {
		return nil, err
	}
	at, err := c.findID(root, id)
	if err == nil && at == nil {
		err = wire.Errorf(wire.CodeResolve, "No such object %s", id)
	}
	return at, err
}

// Find follows a path that must lead to an existing node.
func (c *Request) Find(path ypath.Path, stay bool) (Target, error) {
	t, err := c.Walk(path, stay)
	if err != nil {
		return t, err
	}
	return t, t.MustExist(c)
}

// MustExist refuses a target with missing nodes. Users who may not read the last existing node do
// not learn what is below it.
func (t *Target) MustExist(c *Request) error {
	if len(t.Missing) == 0 {
		return nil
	}
	if err := c.MayReadNode(t.Place); err != nil {
		return err
	}
	cause := noChild(t.Place.Path(), t.Missing[0].Name)
	if known, ok := t.Place.Object.(interface{ knows(string) bool }); ok && known.knows(t.Missing[0].Name) {
		cause.Message += fmt.Sprintf("; it is an attribute: %s/@%[2]s", t.Place.Path(), ypath.Escape(t.Missing[0].Name))
	} else {
		cause.Message += c.nearestKey(t.Place, t.Missing[0].Name)
	}
	return ResolveError(t.Path, cause)
}

// mostCompared is the most names that are compared with a missing one: more would be too much work
// for a guess.
const mostCompared = 1000

// nearestKey guesses which child of a node was meant.
func (c *Request) nearestKey(at *Place, key string) string {
	if at.Object.Shape() != MapShape {
		return ""
	}
	keys, err := at.Object.Keys(c)
	if err != nil || len(keys) > mostCompared {
		return ""
	}
	return didYouMean(key, keys)
}

// didYouMean guesses which name was meant; empty if none is near.
func didYouMean(name string, names []string) string {
	if near, found := document.Nearest(name, names); found {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

func noChild(path, key string) *wire.Error {
	return wire.Errorf(wire.CodeResolve, "Node %s has no child with key %q", path, key)
}

// ResolveError is the error for a path that leads nowhere, with the cause.
func ResolveError(path ypath.Path, cause error) *wire.Error {
	text := path.String()
	return wire.Errorf(wire.CodeResolve, "Error resolving path %s", text).With("path", yson.String(text)).Because(cause)
}

// IsResolve reports whether an error means that something does not exist.
func IsResolve(err error) bool { return err != nil && wire.AsError(err).Code == wire.CodeResolve }

// JoinPath appends a key to a path.
func JoinPath(path, key string) string {
	if path == "/" {
		return "//" + ypath.Escape(key)
	}
	return path + "/" + ypath.Escape(key)
}

// textAt writes the position inside a value.
func textAt(base string, steps []ypath.Step) string {
	return strings.TrimSuffix(base, "/") + ypath.FormatSteps(steps)
}

// ChainAtPath is the chain of the node at a path, for permission checks.
func (c *Request) ChainAtPath(text string) (auth.Chain, error) {
	path, err := ypath.Parse(text)
	if err != nil {
		return nil, err
	}
	t, err := c.Find(path, true)
	if err != nil {
		return nil, err
	}
	return t.Chain(c), nil
}

// ChainAt is the node at a path with everything above it.
func (c *Request) ChainAt(path string) (auth.Chain, error) {
	p, err := ypath.Parse(path)
	if err != nil {
		return nil, err
	}
	t, err := c.Find(p, false)
	if err != nil {
		return nil, err
	}
	return t.Chain(c), nil
}

// MayReadNode refuses nodes that the user may not read.
func (c *Request) MayReadNode(at *Place) error {
	return c.Require(auth.Requires(auth.Read, at.Chain(c)))
}
