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

// Shape says how a node of the tree is read.
type Shape uint8

const (
	MapShape      Shape = iota // a map of its children
	OpaqueShape                // has children and attributes, and is the entity when read
	DocumentShape              // a value that paths go into
	LinkShape                  // stands for another node; value is its path
)

// Meta is what every node has.
type Meta struct {
	ID                guid.ID
	Created, Modified time.Time
}

// Object is a node of the tree of paths as one request sees it. Embed [bare] for
// what a kind of nodes does not have.
type Object interface {
	// Kind is the attribute type: map_node, scheduler_pool.
	Kind() string
	Shape() Shape
	// Meta identifies the node; a zero id is replaced by one made of the path.
	Meta(c *Request) Meta
	// access is the node as something that has an access control list.
	access(c *Request, at *Place) auth.Object
	// Child returns the child under a key, or nil.
	Child(c *Request, key string) (Object, error)
	// Keys lists the children in their order.
	Keys(c *Request) ([]string, error)
	// Value is what a document or another leaf holds.
	Value(c *Request) (yson.Node, error)
	// Attribute returns an attribute of the node's own; the ones that all nodes
	// have are added to them.
	Attribute(c *Request, at *Place, name string) (value yson.Node, there bool, err error)
	// AttributeNames lists the attributes of the node's own that are there now, and
	// which of them were made by users.
	AttributeNames(c *Request) (builtin, custom []string)
}

// An edit makes a new value of an old one. Without keep the value is removed.
type edit func(old yson.Node, there bool) (next yson.Node, keep bool, err error)

// AttributeEdit is an edit of one attribute.
type AttributeEdit struct {
	Name string
	// Steps are where inside of the attribute the change is, for messages and for
	// rules about parts of attributes.
	Steps []ypath.Step
	Edit  edit
}

// What nodes can do besides being read. Each method checks permissions itself and adds
// its changes to the request's transaction, so that methods can be combined.
type (
	// AttributesEditor changes attributes, all or none.
	AttributesEditor interface {
		EditAttributes(c *Request, at *Place, edits []AttributeEdit) error
	}
	// ValueEditor changes the value of a document.
	ValueEditor interface {
		EditValue(c *Request, at *Place, e edit) error
	}
	// Parent makes children: a node under the last of the keys, and directories
	// under those before it.
	Parent interface {
		Create(c *Request, at *Place, keys []string, what Creation) (guid.ID, error)
	}
	// Remover removes itself.
	Remover interface {
		Remove(c *Request, at *Place, recursive bool) error
	}
	// Mover gives itself another parent and name: the last of the keys, below new
	// directories under those before it.
	Mover interface {
		Move(c *Request, at *Place, to *Place, keys []string, copying bool) (guid.ID, error)
	}
)

// Creation is what is to be created.
type Creation struct {
	Kind       string
	Attributes yson.Node // a map
	Value      yson.Node // of documents and the like
	Recursive  bool
	// Replace says that a node that is there goes with everything below it.
	Replace bool
	id      guid.ID // of a plain node; zero means a new one
}

// Bare has nothing; nodes embed it.
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

// Place is a node together with the way to it from the root.
type Place struct {
	Object
	Key   string
	Above *Place // nil at the root
}

// Path is the way from the root as text.
func (p *Place) Path() string {
	if p.Above == nil {
		return "/"
	}
	return p.Above.Path() + "/" + ypath.Escape(p.Key)
}

// Chain is the node and everything above it, for questions about permissions.
func (p *Place) Chain(c *Request) auth.Chain {
	var chain auth.Chain
	for at := p; at != nil; at = at.Above {
		chain = append(chain, at.access(c, at))
	}
	return chain
}

// Identity is the id of the node. One that has none gets it from its path.
func (p *Place) Identity(c *Request) guid.ID {
	if m := p.Meta(c); !m.ID.IsZero() {
		return m.ID
	}
	return pathID(p.Path())
}

// pathID is the id of a node that is always there.
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
	// Missing are steps to children that are not there.
	Missing []ypath.Step
	// Inside are steps into the value of a document.
	Inside []ypath.Step
	// Attribute begins with the step to an attribute; empty if the path leads to
	// a node.
	Attribute []ypath.Step
}

// maxLinks is how many links a path may lead through.
const maxLinks = 16

// Walk follows a path as far as there are nodes. stay says that a link at the end
// of the path is meant itself.
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
				return t, ResolveError(path, wire.Errorf(wire.CodeResolve, "The path leads through more than %d links", maxLinks))
			}
			if t.Place, err = c.follow(t.Place); err != nil {
				return t, ResolveError(path, err)
			}
		}
	}
	return t, nil
}

// follow returns where a link leads.
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

// startOf is the node at which a path begins.
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

// Find follows a path that must lead somewhere.
func (c *Request) Find(path ypath.Path, stay bool) (Target, error) {
	t, err := c.Walk(path, stay)
	if err != nil {
		return t, err
	}
	return t, t.MustExist(c)
}

// MustExist refuses a target whose nodes are not all there. Those who may not
// read the last node that is there do not learn what is below it.
func (t *Target) MustExist(c *Request) error {
	if len(t.Missing) == 0 {
		return nil
	}
	if err := c.MayReadNode(t.Place); err != nil {
		return err
	}
	cause := noChild(t.Place.Path(), t.Missing[0].Name)
	cause.Message += c.nearestKey(t.Place, t.Missing[0].Name)
	return ResolveError(t.Path, cause)
}

// mostCompared is how many names are compared with one that is not there: more are
// too much work for a guess.
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

// ResolveError says that a path leads nowhere, and why.
func ResolveError(path ypath.Path, cause error) *wire.Error {
	text := path.String()
	return wire.Errorf(wire.CodeResolve, "Error resolving path %s", text).With("path", yson.String(text)).Because(cause)
}

// IsResolve says whether an error means that something is not there.
func IsResolve(err error) bool { return err != nil && wire.AsError(err).Code == wire.CodeResolve }

// steps joins keys to a path.
func JoinPath(path, key string) string {
	if path == "/" {
		return "//" + ypath.Escape(key)
	}
	return path + "/" + ypath.Escape(key)
}

// textAt writes where inside a value something is.
func textAt(base string, steps []ypath.Step) string {
	return strings.TrimSuffix(base, "/") + ypath.FormatSteps(steps)
}

// ChainAtPath is the chain of the node at a path, for questions about
// permissions.
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

// ChainAt is the node at a path with what is above it.
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

// MayReadNode refuses what the user may not read.
func (c *Request) MayReadNode(at *Place) error {
	return c.Require(auth.Requires(auth.Read, at.Chain(c)))
}
