package pathtree

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

// commonAttributes are the attributes of every node. Clients expect them.
var commonAttributes = []string{
	"id", "type", "key", "path", "parent_id", "count", "creation_time", "modification_time", "access_time", "revision",
	"owner", "account", "acl", "inherit_acl", "effective_acl", "ref_counter", "resource_usage", "user_attribute_keys",
	"builtin", "opaque", "lock_mode", "lock_count", "access_counter", "external", "native_cell_tag",
}

// AttributeAt returns an attribute of a node: one of its own, else one that all nodes have.
func (c *Request) AttributeAt(at *Place, name string) (yson.Node, bool, error) {
	if n, there, err := at.Attribute(c, at, name); there || err != nil {
		return n, there, err
	}
	m := at.Meta(c)
	switch name {
	case "id":
		return yson.String(at.Identity(c).String()), true, nil
	case "type":
		return yson.String(at.Kind()), true, nil
	case "key":
		return yson.String(at.Key), at.Above != nil, nil
	case "path":
		return yson.String(at.Path()), true, nil
	case "parent_id":
		if at.Above == nil {
			return yson.String("0-0-0-0"), true, nil
		}
		return yson.String(at.Above.Identity(c).String()), true, nil
	case "count":
		if at.Shape() == DocumentShape || at.Shape() == LinkShape {
			return yson.Entity(), false, nil
		}
		keys, err := at.Keys(c)
		return yson.Int64(int64(len(keys))), true, err
	case "creation_time":
		return wire.Instant(firstTime(m.Created, c.Tree.Started)), true, nil
	case "modification_time", "access_time":
		return wire.Instant(firstTime(m.Modified, m.Created, c.Tree.Started)), true, nil
	case "revision":
		return yson.Uint64(uint64(firstTime(m.Modified, m.Created, c.Tree.Started).UnixMicro())), true, nil
	case "user_attribute_keys":
		_, custom := at.AttributeNames(c)
		return wire.Texts(custom), true, nil
	}
	return c.constantAttribute(at, name)
}

// constantAttribute returns attributes that are equal for most nodes, and those about access.
func (c *Request) constantAttribute(at *Place, name string) (yson.Node, bool, error) {
	switch name {
	case "owner":
		return yson.String(at.access(c, at).Owner), true, nil
	case "acl":
		return wire.FromDocument(at.access(c, at).ACL.Value()), true, nil
	case "inherit_acl":
		return yson.Boolean(!at.access(c, at).Isolated), true, nil
	case "effective_acl":
		return wire.FromDocument(effectiveACL(at.Chain(c)).Value()), true, nil
	case "account":
		return yson.String("sys"), true, nil
	case "ref_counter":
		return yson.Int64(1), true, nil
	case "access_counter", "lock_count":
		return yson.Int64(0), true, nil
	case "lock_mode":
		return yson.String("none"), true, nil
	case "builtin", "external":
		return yson.Boolean(false), true, nil
	case "opaque":
		return yson.Boolean(at.Shape() == OpaqueShape), true, nil
	case "native_cell_tag":
		return yson.Uint64(0x3ff), true, nil
	case "resource_usage":
		return yson.Map(
			yson.Pair("node_count", yson.Int64(1)), yson.Pair("chunk_count", yson.Int64(0)), yson.Pair("disk_space", yson.Int64(0)),
			yson.Pair("disk_space_per_medium", yson.Map()), yson.Pair("master_memory", yson.Int64(0))), true, nil
	}
	return yson.Entity(), false, nil
}

// effectiveACL is all entries that apply to the first object of a chain.
func effectiveACL(chain auth.Chain) auth.ACL {
	var list auth.ACL
	for i, o := range chain {
		for _, entry := range o.ACL {
			if i > 0 && entry.Inheritance == auth.ObjectOnly {
				continue
			}
			list = append(list, entry)
		}
		if o.Isolated {
			break
		}
	}
	return list
}

// allAttributes are the attributes of a node as a map.
func (c *Request) allAttributes(at *Place) (yson.Node, error) {
	builtin, custom := at.AttributeNames(c)
	var entries []yson.Entry
	for _, name := range SortedUnique(slices.Concat(commonAttributes, builtin, custom)) {
		n, there, err := c.AttributeAt(at, name)
		if err != nil {
			return n, err
		}
		if there {
			entries = append(entries, yson.Pair(name, n))
		}
	}
	return yson.Map(entries...), nil
}

// ReadAttribute returns the value at steps that start with an attribute.
func (c *Request) ReadAttribute(t *Target) (yson.Node, error) {
	first, rest := t.Attribute[0], t.Attribute[1:]
	if first.Kind == ypath.AllAttributes {
		n, err := c.allAttributes(t.Place)
		if err != nil {
			return n, err
		}
		return Dig(n, rest, t.Place.Path()+"/@")
	}
	if first.Kind != ypath.Attribute {
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, `"*" stands only at the end of paths to remove`)
	}
	if spelled, ok := t.Object.(interface {
		Normal(name string, steps []ypath.Step) []ypath.Step
	}); ok {
		rest = spelled.Normal(first.Name, rest)
	}
	n, there, err := c.AttributeAt(t.Place, first.Name)
	switch {
	case err != nil:
		return n, err
	case !there:
		return n, ResolveError(t.Path, c.noAttribute(t.Place, first.Name))
	}
	n, err = Dig(n, rest, t.Place.Path()+"/@"+ypath.Escape(first.Name))
	if err != nil {
		return n, ResolveError(t.Path, err)
	}
	return n, nil
}

// unsetOption states which value an option of a pool has that is not set: its default, or the one
// that the live state shows if the option is inherited or inferred.
func unsetOption(pool *poolNode, name string) string {
	primary, _ := pooltree.PoolOptions.Resolve(name)
	for _, option := range pooltree.PoolOptions.Options() {
		if option.Name == primary && !option.Default.IsNull() {
			return fmt.Sprintf("the default is %v", wire.FromDocument(option.Default))
		}
	}
	return fmt.Sprintf("the effective value is in //sys/scheduler/orchid/scheduler/pool_trees/%s/pools/%s", ypath.Escape(pool.tree.Name), ypath.Escape(pool.pool.Name()))
}

// noAttribute is the error for a missing attribute: one that is not set, or an unknown one.
func (c *Request) noAttribute(at *Place, name string) *wire.Error {
	if known, ok := at.Object.(interface{ knows(string) bool }); ok && known.knows(name) {
		e := wire.Errorf(wire.CodeResolve, "Attribute %q is not found", name)
		if pool, ok := at.Object.(*poolNode); ok {
			e.Because(wire.Errorf(wire.CodeResolve, "It is not set; %s", unsetOption(pool, name)))
		}
		return e
	}
	builtin, custom := at.Object.AttributeNames(c)
	names := slices.Concat(builtin, custom)
	if _, ok := at.Object.(*poolNode); ok {
		for _, option := range pooltree.PoolOptions.Options() {
			names = append(names, option.Name)
		}
	}
	e := wire.Errorf(wire.CodeResolve, "Attribute %q is not found", name)
	if nearest, found := document.Nearest(name, names); found {
		e.Because(wire.Errorf(wire.CodeResolve, "Did you mean %q?", nearest))
	}
	return e
}

// AttributeFilter selects the attributes that nodes are returned with.
type AttributeFilter struct {
	keys  []string
	paths [][]ypath.Step
}

// FilterOf reads the parameter attributes: a list of names, or a map of keys and paths.
func FilterOf(p wire.Parameters) (f AttributeFilter, err error) {
	n, given := p.Get("attributes")
	if !given {
		return f, nil
	}
	if n.Kind() != yson.MapKind {
		f.keys, err = p.TextList("attributes")
		return f, err
	}
	inner := wire.Parameters{Node: n}
	if f.keys, err = inner.TextList("keys"); err != nil {
		return f, err
	}
	paths, err := inner.TextList("paths")
	for _, text := range paths {
		if !strings.HasPrefix(text, "/") {
			text = "/" + text
		}
		steps, err := ypath.ParseSteps(text)
		if err != nil {
			return f, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /attributes/paths").Because(err)
		}
		if len(steps) > 0 {
			f.paths = append(f.paths, steps)
		}
	}
	return f, err
}

// IsEmpty reports whether nodes are returned without attributes.
func (f AttributeFilter) IsEmpty() bool { return len(f.keys) == 0 && len(f.paths) == 0 }

// On returns the attributes of a node that exist and that the filter selects.
func (f AttributeFilter) On(c *Request, at *Place) ([]yson.Entry, error) {
	if f.IsEmpty() {
		return nil, nil
	}
	found := make([]yson.Entry, 0, len(f.keys))
	for i, name := range f.keys {
		if slices.Contains(f.keys[:i], name) {
			continue
		}
		n, there, err := c.AttributeAt(at, name)
		if err != nil {
			return nil, err
		}
		if there {
			found = append(found, yson.Pair(name, n))
		}
	}
	all := yson.Map(found...)
	for _, steps := range f.paths {
		n, there, err := c.AttributeAt(at, steps[0].Name)
		if err != nil {
			return nil, err
		}
		if !there {
			continue
		}
		inner, err := Dig(n, steps[1:], "")
		if err != nil {
			continue // there is none
		}
		for i := len(steps) - 1; i >= 0; i-- {
			inner = yson.Map(yson.Pair(steps[i].Name, inner))
		}
		all = wire.Merge(all, inner)
	}
	return all.Entries(), nil
}

// firstTime is the first known time of a list.
func firstTime(list ...time.Time) time.Time {
	for _, t := range list {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}
