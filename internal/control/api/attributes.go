package api

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

// commonAttributes are what every node has. Clients expect them.
var commonAttributes = []string{
	"id", "type", "key", "path", "parent_id", "count", "creation_time", "modification_time", "access_time", "revision",
	"owner", "account", "acl", "inherit_acl", "effective_acl", "ref_counter", "resource_usage", "user_attribute_keys",
	"builtin", "opaque", "lock_mode", "lock_count", "access_counter", "external", "native_cell_tag",
}

// attributeAt returns an attribute of a node: one of its own, else one that all
// nodes have.
func (c *call) attributeAt(at *place, name string) (yson.Node, bool, error) {
	if n, there, err := at.attribute(c, at, name); there || err != nil {
		return n, there, err
	}
	m := at.meta(c)
	switch name {
	case "id":
		return yson.String(at.identity(c).String()), true, nil
	case "type":
		return yson.String(at.kind()), true, nil
	case "key":
		return yson.String(at.key), at.above != nil, nil
	case "path":
		return yson.String(at.path()), true, nil
	case "parent_id":
		if at.above == nil {
			return yson.String("0-0-0-0"), true, nil
		}
		return yson.String(at.above.identity(c).String()), true, nil
	case "count":
		if at.shape() == documentShape || at.shape() == linkShape {
			return yson.Entity(), false, nil
		}
		keys, err := at.keys(c)
		return yson.Int64(int64(len(keys))), true, err
	case "creation_time":
		return instant(firstTime(m.created, c.tree.started)), true, nil
	case "modification_time", "access_time":
		return instant(firstTime(m.modified, m.created, c.tree.started)), true, nil
	case "revision":
		return yson.Uint64(uint64(firstTime(m.modified, m.created, c.tree.started).UnixMicro())), true, nil
	case "user_attribute_keys":
		_, custom := at.attributeNames(c)
		return texts(custom), true, nil
	}
	return c.constantAttribute(at, name)
}

// constantAttribute returns attributes that say the same of most nodes, and those
// about access.
func (c *call) constantAttribute(at *place, name string) (yson.Node, bool, error) {
	switch name {
	case "owner":
		return yson.String(at.access(c, at).Owner), true, nil
	case "acl":
		return fromDocument(at.access(c, at).ACL.Value()), true, nil
	case "inherit_acl":
		return yson.Boolean(!at.access(c, at).Isolated), true, nil
	case "effective_acl":
		return fromDocument(effectiveACL(at.chain(c)).Value()), true, nil
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
		return yson.Boolean(at.shape() == opaqueShape), true, nil
	case "native_cell_tag":
		return yson.Uint64(0x3ff), true, nil
	case "resource_usage":
		return yson.Map(
			yson.Pair("node_count", yson.Int64(1)), yson.Pair("chunk_count", yson.Int64(0)), yson.Pair("disk_space", yson.Int64(0)),
			yson.Pair("disk_space_per_medium", yson.Map()), yson.Pair("master_memory", yson.Int64(0))), true, nil
	}
	return yson.Entity(), false, nil
}

// effectiveACL is all entries that reach the first object of a chain.
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
func (c *call) allAttributes(at *place) (yson.Node, error) {
	builtin, custom := at.attributeNames(c)
	var entries []yson.Entry
	for _, name := range sortedUnique(slices.Concat(commonAttributes, builtin, custom)) {
		n, there, err := c.attributeAt(at, name)
		if err != nil {
			return n, err
		}
		if there {
			entries = append(entries, yson.Pair(name, n))
		}
	}
	return yson.Map(entries...), nil
}

// readAttribute returns what steps that begin with an attribute lead to.
func (c *call) readAttribute(t *target) (yson.Node, error) {
	first, rest := t.attribute[0], t.attribute[1:]
	if first.Kind == ypath.AllAttributes {
		n, err := c.allAttributes(t.place)
		if err != nil {
			return n, err
		}
		return dig(n, rest, t.place.path()+"/@")
	}
	if first.Kind != ypath.Attribute {
		return yson.Node{}, errorf(codeGeneric, `"*" stands only at the end of paths to remove`)
	}
	if spelled, ok := t.object.(interface {
		normal(name string, steps []ypath.Step) []ypath.Step
	}); ok {
		rest = spelled.normal(first.Name, rest)
	}
	n, there, err := c.attributeAt(t.place, first.Name)
	switch {
	case err != nil:
		return n, err
	case !there:
		return n, resolveError(t.path, c.noAttribute(t.place, first.Name))
	}
	n, err = dig(n, rest, t.place.path()+"/@"+ypath.Escape(first.Name))
	if err != nil {
		return n, resolveError(t.path, err)
	}
	return n, nil
}

// noAttribute is the answer about an attribute that is not there: one that nobody
// has set, or one that nobody knows.
func (c *call) noAttribute(at *place, name string) *Error {
	if known, ok := at.object.(interface{ knows(string) bool }); ok && known.knows(name) {
		e := errorf(codeResolve, "Builtin attribute %q is not found", name)
		if pool, ok := at.object.(*poolNode); ok {
			e.Message += fmt.Sprintf(": it is not set; what holds for the pool is in //sys/scheduler/orchid/scheduler/pool_trees/%s/pools/%s",
				ypath.Escape(pool.tree.Name), ypath.Escape(pool.pool.Name()))
		}
		return e
	}
	builtin, custom := at.object.attributeNames(c)
	names := slices.Concat(builtin, custom)
	if _, ok := at.object.(*poolNode); ok {
		for _, option := range pooltree.PoolOptions.Options() {
			names = append(names, option.Name)
		}
	}
	return errorf(codeResolve, "Attribute %q is not found%s", name, didYouMean(name, names))
}

// attributeFilter says which attributes nodes are to be returned with.
type attributeFilter struct {
	keys  []string
	paths [][]ypath.Step
}

// filterOf reads the parameter attributes: names, or maps of keys and paths.
func filterOf(p parameters) (f attributeFilter, err error) {
	n, given := p.get("attributes")
	if !given {
		return f, nil
	}
	if n.Kind() != yson.MapKind {
		f.keys, err = p.textList("attributes")
		return f, err
	}
	inner := parameters{n}
	if f.keys, err = inner.textList("keys"); err != nil {
		return f, err
	}
	paths, err := inner.textList("paths")
	for _, text := range paths {
		if !strings.HasPrefix(text, "/") {
			text = "/" + text
		}
		steps, err := ypath.ParseSteps(text)
		if err != nil {
			return f, errorf(codeGeneric, "Error parsing parameter /attributes/paths").because(err)
		}
		if len(steps) > 0 {
			f.paths = append(f.paths, steps)
		}
	}
	return f, err
}

func (f attributeFilter) isEmpty() bool { return len(f.keys) == 0 && len(f.paths) == 0 }

// on returns those attributes of a node that the filter asks for and that are
// there.
func (f attributeFilter) on(c *call, at *place) ([]yson.Entry, error) {
	if f.isEmpty() {
		return nil, nil
	}
	found := make([]yson.Entry, 0, len(f.keys))
	for i, name := range f.keys {
		if slices.Contains(f.keys[:i], name) {
			continue
		}
		n, there, err := c.attributeAt(at, name)
		if err != nil {
			return nil, err
		}
		if there {
			found = append(found, yson.Pair(name, n))
		}
	}
	all := yson.Map(found...)
	for _, steps := range f.paths {
		n, there, err := c.attributeAt(at, steps[0].Name)
		if err != nil {
			return nil, err
		}
		if !there {
			continue
		}
		inner, err := dig(n, steps[1:], "")
		if err != nil {
			continue // it is not there
		}
		for i := len(steps) - 1; i >= 0; i-- {
			inner = yson.Map(yson.Pair(steps[i].Name, inner))
		}
		all = merge(all, inner)
	}
	return all.Entries(), nil
}

// firstTime is the first of some times that is known.
func firstTime(list ...time.Time) time.Time {
	for _, t := range list {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}
