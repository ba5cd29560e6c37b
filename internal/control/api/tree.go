package api

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

// shape says how a node of the tree is read.
type shape uint8

const (
	mapShape      shape = iota // a map of its children
	opaqueShape                // has children and attributes, and is the entity when read
	documentShape              // a value that paths go into
	linkShape                  // stands for another node; value is its path
)

// meta is what every node has.
type meta struct {
	id                guid.ID
	created, modified time.Time
}

// object is a node of the tree of paths as one request sees it. Embed [bare] for
// what a kind of nodes does not have.
type object interface {
	// kind is the attribute type: map_node, scheduler_pool.
	kind() string
	shape() shape
	// meta identifies the node; a zero id is replaced by one made of the path.
	meta(c *call) meta
	// access is the node as something that has an access control list.
	access(c *call, at *place) auth.Object
	// child returns the child under a key, or nil.
	child(c *call, key string) (object, error)
	// keys lists the children in their order.
	keys(c *call) ([]string, error)
	// value is what a document or another leaf holds.
	value(c *call) (yson.Node, error)
	// attribute returns an attribute of the node's own; the ones that all nodes
	// have are added to them.
	attribute(c *call, at *place, name string) (value yson.Node, there bool, err error)
	// attributeNames lists the attributes of the node's own that are there now, and
	// which of them were made by users.
	attributeNames(c *call) (builtin, custom []string)
}

// An edit makes a new value of an old one. Without keep the value is removed.
type edit func(old yson.Node, there bool) (next yson.Node, keep bool, err error)

// attributeEdit is an edit of one attribute.
type attributeEdit struct {
	name string
	// steps are where inside of the attribute the change is, for messages and for
	// rules about parts of attributes.
	steps []ypath.Step
	edit  edit
}

// What nodes can do besides being read. Each method checks permissions itself.
type (
	// attributesEditor changes attributes, all or none.
	attributesEditor interface {
		editAttributes(c *call, at *place, edits []attributeEdit) error
	}
	// valueEditor changes the value of a document.
	valueEditor interface {
		editValue(c *call, at *place, e edit) error
	}
	// parent makes children: a node under the last of the keys, and directories
	// under those before it.
	parent interface {
		create(c *call, at *place, keys []string, what creation) (guid.ID, error)
	}
	// remover removes itself.
	remover interface {
		remove(c *call, at *place, recursive bool) error
	}
	// mover gives itself another parent and name.
	mover interface {
		move(c *call, at *place, to *place, key string, copying bool) (guid.ID, error)
	}
)

// creation is what is to be created.
type creation struct {
	kind       string
	attributes yson.Node // a map
	value      yson.Node // of documents and the like
	recursive  bool
	// replace says that a node that is there goes with everything below it.
	replace bool
}

// bare has nothing; nodes embed it.
type bare struct{}

func (bare) shape() shape                                    { return mapShape }
func (bare) meta(*call) meta                                 { return meta{} }
func (bare) child(*call, string) (object, error)             { return nil, nil }
func (bare) keys(*call) ([]string, error)                    { return nil, nil }
func (bare) value(*call) (yson.Node, error)                  { return yson.Entity(), nil }
func (bare) attributeNames(*call) (builtin, custom []string) { return nil, nil }

func (bare) attribute(*call, *place, string) (yson.Node, bool, error) {
	return yson.Entity(), false, nil
}

func (bare) access(c *call, at *place) auth.Object {
	return c.accessOf(auth.Object{Kind: auth.KindNode, Name: at.path()}, at.path())
}

// place is a node together with the way to it from the root.
type place struct {
	object
	key   string
	above *place // nil at the root
}

// path is the way from the root as text.
func (p *place) path() string {
	if p.above == nil {
		return "/"
	}
	return p.above.path() + "/" + ypath.Escape(p.key)
}

// chain is the node and everything above it, for questions about permissions.
func (p *place) chain(c *call) auth.Chain {
	var chain auth.Chain
	for at := p; at != nil; at = at.above {
		chain = append(chain, at.access(c, at))
	}
	return chain
}

// identity is the id of the node. One that has none gets it from its path.
func (p *place) identity(c *call) guid.ID {
	if m := p.meta(c); !m.id.IsZero() {
		return m.id
	}
	return pathID(p.path())
}

// pathID is the id of a node that is always there.
func pathID(path string) guid.ID {
	sum := sha256.Sum256([]byte(path))
	return guid.New(guid.Object, binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16]))
}

// below is the place of a child, or nil.
func (p *place) below(c *call, key string) (*place, error) {
	child, err := p.child(c, key)
	if err != nil || child == nil {
		return nil, err
	}
	return &place{object: child, key: key, above: p}, nil
}

// target is what a path leads to.
type target struct {
	*place
	path ypath.Path
	// missing are steps to children that are not there.
	missing []ypath.Step
	// inside are steps into the value of a document.
	inside []ypath.Step
	// attribute begins with the step to an attribute; empty if the path leads to
	// a node.
	attribute []ypath.Step
}

// maxLinks is how many links a path may lead through.
const maxLinks = 16

// walk follows a path as far as there are nodes. stay says that a link at the end
// of the path is meant itself.
func (c *call) walk(path ypath.Path, stay bool) (target, error) {
	t := target{path: path}
	links := 0
	start, err := c.startOf(path)
	if err != nil {
		return t, err
	}
	t.place = start
	steps := path.Steps
	for i, step := range steps {
		switch {
		case step.Kind != ypath.Child:
			t.attribute = steps[i:]
			if step.Kind == ypath.EveryChild {
				t.attribute, t.inside = nil, steps[i:]
			}
			return t, nil
		case t.shape() == documentShape:
			t.inside = steps[i:]
			return t, nil
		}
		next, err := t.below(c, step.Name)
		if err != nil {
			return t, err
		}
		if next == nil {
			t.missing = steps[i:]
			return t, nil
		}
		t.place = next
		for t.shape() == linkShape && !step.Stay && !(stay && i == len(steps)-1) {
			if links++; links > maxLinks {
				return t, resolveError(path, errorf(codeResolve, "The path leads through more than %d links", maxLinks))
			}
			if t.place, err = c.follow(t.place); err != nil {
				return t, resolveError(path, err)
			}
		}
	}
	return t, nil
}

// follow returns where a link leads.
func (c *call) follow(link *place) (*place, error) {
	value, err := link.value(c)
	if err != nil {
		return nil, err
	}
	text, _ := value.Text()
	to, err := ypath.Parse(text)
	if err != nil {
		return nil, err
	}
	at := &place{object: rootObject(c)}
	for _, step := range to.Steps {
		next, err := at.below(c, step.Name)
		if err != nil {
			return nil, err
		}
		if next == nil || step.Kind != ypath.Child {
			return nil, errorf(codeResolve, "Link %s leads to %s, which does not exist", link.path(), text)
		}
		at = next
	}
	return at, nil
}

// startOf is the node at which a path begins.
func (c *call) startOf(path ypath.Path) (*place, error) {
	root := &place{object: rootObject(c)}
	if path.Object == "" {
		return root, nil
	}
	id, err := guid.Parse(path.Object)
	if err != nil {
		return nil, err
	}
	at, err := c.findID(root, id)
	if err == nil && at == nil {
		err = errorf(codeResolve, "No such object %s", id)
	}
	return at, err
}

// find follows a path that must lead somewhere.
func (c *call) find(path ypath.Path, stay bool) (target, error) {
	t, err := c.walk(path, stay)
	if err != nil {
		return t, err
	}
	return t, t.mustExist(c)
}

// mustExist refuses a target whose nodes are not all there. Those who may not
// read the last node that is there do not learn what is below it.
func (t *target) mustExist(c *call) error {
	if len(t.missing) == 0 {
		return nil
	}
	if err := c.mayReadNode(t.place); err != nil {
		return err
	}
	cause := noChild(t.place.path(), t.missing[0].Name)
	cause.Message += c.nearestKey(t.place, t.missing[0].Name)
	return resolveError(t.path, cause)
}

// mostCompared is how many names are compared with one that is not there: more are
// too much work for a guess.
const mostCompared = 1000

// nearestKey guesses which child of a node was meant.
func (c *call) nearestKey(at *place, key string) string {
	if at.object.shape() != mapShape {
		return ""
	}
	keys, err := at.object.keys(c)
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

func noChild(path, key string) *Error {
	return errorf(codeResolve, "Node %s has no child with key %q", path, key)
}

func resolveError(path ypath.Path, cause error) *Error {
	text := path.String()
	return errorf(codeResolve, "Error resolving path %s", text).with("path", yson.String(text)).because(cause)
}

// isResolve says whether an error means that something is not there.
func isResolve(err error) bool { return err != nil && asError(err).Code == codeResolve }

// steps joins keys to a path.
func joinPath(path, key string) string {
	if path == "/" {
		return "//" + ypath.Escape(key)
	}
	return path + "/" + ypath.Escape(key)
}

// textAt writes where inside a value something is.
func textAt(base string, steps []ypath.Step) string {
	return strings.TrimSuffix(base, "/") + ypath.FormatSteps(steps)
}

// chainAtPath is the chain of the node at a path, for questions about
// permissions.
func (c *call) chainAtPath(text string) (auth.Chain, error) {
	path, err := ypath.Parse(text)
	if err != nil {
		return nil, err
	}
	t, err := c.find(path, true)
	if err != nil {
		return nil, err
	}
	return t.chain(c), nil
}

// chainAt is the node at a path with what is above it.
func (c *call) chainAt(path string) (auth.Chain, error) {
	p, err := ypath.Parse(path)
	if err != nil {
		return nil, err
	}
	t, err := c.find(p, false)
	if err != nil {
		return nil, err
	}
	return t.chain(c), nil
}

func (c *call) mayReadNode(at *place) error { return c.require(auth.Requires(auth.Read, at.chain(c))) }
