package api

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

// plainKinds are the types of plain nodes with what their values must be; no kind
// means any.
var plainKinds = map[string][]yson.Kind{
	"map_node":     {yson.MapKind},
	"string_node":  {yson.StringKind},
	"int64_node":   {yson.Int64Kind, yson.Uint64Kind},
	"uint64_node":  {yson.Uint64Kind, yson.Int64Kind},
	"double_node":  {yson.DoubleKind, yson.Int64Kind, yson.Uint64Kind},
	"boolean_node": {yson.BooleanKind},
	"list_node":    {yson.ListKind},
	"document":     nil,
	"link":         {yson.StringKind},
	"file":         nil,
}

// emptyValue is what a new node of a type holds.
func emptyValue(kind string) yson.Node {
	switch kind {
	case "string_node":
		return yson.String("")
	case "int64_node":
		return yson.Int64(0)
	case "uint64_node":
		return yson.Uint64(0)
	case "double_node":
		return yson.Double(0)
	case "boolean_node":
		return yson.Boolean(false)
	case "list_node":
		return yson.List()
	case "map_node":
		return yson.Map()
	}
	return yson.Entity()
}

// Bounds of plain nodes: the scheduler keeps them in memory.
const (
	maxPlainNodes = 200_000
	maxPlainValue = 32 << 20
)

// checkValue refuses a value that a node of a type cannot have.
func checkValue(kind string, value yson.Node) error {
	allowed := plainKinds[kind]
	if len(allowed) > 0 && !slices.Contains(allowed, value.Kind()) {
		return errorf(codeGeneric, "Cannot update %s node with %s value; types must match", strings.TrimSuffix(kind, "_node"), value.Kind())
	}
	return nil
}

// plainRow is the row of a new node.
func (c *call) plainRow(path, kind string, value yson.Node, custom map[string][]byte) (store.PathNode, error) {
	row := store.PathNode{Path: path, Type: kind, Created: c.now, Modified: c.now}
	info := plainInfo{ID: newID(plainGUID(kind)), Custom: custom}
	var err error
	if row.Attributes, err = json.Marshal(info); err != nil {
		return row, err
	}
	if kind == "map_node" || kind == "file" {
		return row, nil
	}
	row.Document, err = stored(value)
	if err == nil && len(row.Document) > maxPlainValue {
		err = errorf(codeGeneric, "The value has %d bytes; the most is %d", len(row.Document), maxPlainValue)
	}
	return row, err
}

// plainGUID is the kind of ids of nodes of a type, as YTsaurus numbers them.
func plainGUID(kind string) guid.Kind {
	switch kind {
	case "string_node":
		return 300
	case "int64_node":
		return 301
	case "double_node":
		return 302
	case "list_node":
		return 304
	case "boolean_node":
		return 305
	case "uint64_node":
		return 306
	case "file":
		return 400
	case "link":
		return 417
	case "document":
		return 421
	}
	return guid.Object
}

// plainRows are the rows of a node and, for a map with a value, of its children.
func (c *call) plainRows(rows []store.PathNode, path string, what creation) ([]store.PathNode, error) {
	if len(rows) > maxPlainNodes {
		return rows, errorf(codeMaxChildren, "There would be more than %d nodes", maxPlainNodes)
	}
	value := what.value
	if value.IsEntity() {
		value = emptyValue(what.kind)
	}
	if err := checkValue(what.kind, value); err != nil {
		return rows, err
	}
	custom := map[string][]byte{}
	for _, e := range what.attributes.Entries() {
		if isFixed(e.Key) {
			return rows, cannotSet(e.Key)
		}
		if err := mustBeText(e.Key); err != nil {
			return rows, err
		}
		if isAccessAttribute(e.Key) || e.Key == "account" {
			continue
		}
		data, err := stored(e.Value)
		if err != nil {
			return rows, err
		}
		custom[e.Key] = data
	}
	if given, ok := what.attributes.Get("value"); ok && what.kind == "document" && what.value.IsEntity() {
		value = given
		delete(custom, "value")
	}
	row, err := c.plainRow(path, what.kind, value.WithAttributes(), custom)
	if err != nil {
		return rows, err
	}
	rows = append(rows, row)
	if what.kind != "map_node" {
		return rows, nil
	}
	for _, e := range value.Entries() {
		if e.Key == "" {
			return rows, errorf(codeGeneric, "The key of a child of %s is empty", path)
		}
		child := creation{kind: kindOf(e.Value), value: e.Value, attributes: yson.Map(e.Value.Attributes()...)}
		if rows, err = c.plainRows(rows, joinPath(path, e.Key), child); err != nil {
			return rows, err
		}
	}
	return rows, nil
}

func (n *plainNode) create(c *call, at *place, keys []string, what creation) (guid.ID, error) {
	if n.shape() != mapShape {
		return guid.ID{}, errorf(codeGeneric, "Node %s of type %q cannot have children", n.path, n.kind())
	}
	if _, known := plainKinds[what.kind]; !known {
		return guid.ID{}, errorf(codeGeneric, "Nodes of type %q cannot be created here", cutText(what.kind, 100))
	}
	if err := c.require(auth.Needs{{{Permission: auth.ModifyChildren, Chain: at.chain(c)}, {Permission: auth.Write, Chain: at.chain(c)}}}); err != nil {
		return guid.ID{}, err
	}
	if len(c.server.Registry().Below("/")) > maxPlainNodes {
		return guid.ID{}, errorf(codeMaxChildren, "There are more than %d nodes", maxPlainNodes)
	}
	var path string
	var id guid.ID
	err := c.editRegistry(joinPath(n.path, strings.Join(keys, "/")), func(r *server.Registry) (*store.Batch, error) {
		batch := &store.Batch{}
		path = n.path
		for i, key := range keys {
			if len(key) > 1000 {
				return nil, errorf(codeGeneric, "The key of a node has %d bytes; the most is 1000", len(key))
			}
			path = joinPath(path, key)
			if _, mounted := c.tree.mounts[path]; mounted || c.tree.alwaysThere(path) {
				return nil, errorf(codeAlreadyExists, "Node %s already exists", path)
			}
			one := creation{kind: "map_node", attributes: yson.Map()}
			if i == len(keys)-1 {
				one = what
			}
			if _, there := r.PathNode(path); there {
				if i < len(keys)-1 {
					continue
				}
				if !what.replace {
					return nil, errorf(codeAlreadyExists, "Node %s already exists", path)
				}
				batch.Delete.PathNodes = append(batch.Delete.PathNodes, rowsFrom(r, path)...)
			}
			var err error
			if batch.Put.PathNodes, err = c.plainRows(batch.Put.PathNodes, path, one); err != nil {
				return nil, err
			}
			if i == len(keys)-1 {
				info, err := plainInfoOf(batch.Put.PathNodes[slices.IndexFunc(batch.Put.PathNodes, func(row store.PathNode) bool { return row.Path == path })])
				if err != nil {
					return nil, err
				}
				id = info.ID
			}
		}
		c.remembered = id.String()
		return c.withAccess(r, batch, at, path, what.attributes)
	})
	return id, err
}

// withAccess adds the rows of the access attributes of a new node.
func (c *call) withAccess(r *server.Registry, batch *store.Batch, above *place, path string, attributes yson.Node) (*store.Batch, error) {
	var edits []attributeEdit
	for _, e := range editsOf(attributes) {
		if isAccessAttribute(e.name) {
			edits = append(edits, e)
		}
	}
	if len(edits) > 0 {
		if err := c.require(besideNeeds(above.chain(c), edits)); err != nil {
			return nil, err
		}
	}
	if !slices.ContainsFunc(edits, func(e attributeEdit) bool { return e.name == "owner" }) && c.who.User != auth.Root {
		edits = append(edits, attributeEdit{name: "owner", edit: setTo(yson.String(c.who.User))})
	}
	if len(edits) == 0 {
		return batch, nil
	}
	rows, err := c.besideRows(r, path, edits)
	if err != nil {
		return nil, err
	}
	batch.Append(rows)
	return batch, nil
}

// rowsFrom are the rows of a node and everything below.
func rowsFrom(r *server.Registry, path string) []store.PathNode {
	var rows []store.PathNode
	if row, there := r.PathNode(path); there {
		rows = append(rows, row)
	}
	return append(rows, r.Below(path)...)
}

func (n *plainNode) editValue(c *call, at *place, e edit) error {
	if n.path == "/" || n.builtin || n.kind() == "link" || n.kind() == "file" {
		return errorf(codeGeneric, "Node %s of type %q cannot be set", n.path, n.kind())
	}
	if err := c.require(auth.Requires(auth.Write, at.chain(c))); err != nil {
		return err
	}
	return c.editRegistry(n.path, func(r *server.Registry) (*store.Batch, error) {
		row, there := r.PathNode(n.path)
		if !there {
			return nil, errorf(codeResolve, "Node %s does not exist", n.path)
		}
		batch := &store.Batch{}
		old, err := unstored(row.Document)
		if err != nil {
			return nil, err
		}
		next, _, err := e(old, true)
		if err != nil {
			return nil, err
		}
		if err := checkValue(row.Type, next); err != nil {
			return nil, err
		}
		if row.Type == "map_node" {
			batch.Delete.PathNodes = r.Below(n.path)
			rows, err := c.plainRows(nil, n.path, creation{kind: "map_node", value: next, attributes: yson.Map()})
			if err != nil {
				return nil, err
			}
			row.Modified = c.now
			batch.Put.PathNodes = append([]store.PathNode{row}, rows[1:]...)
			return batch, nil
		}
		if row.Document, err = stored(next); err != nil {
			return nil, err
		}
		if len(row.Document) > maxPlainValue {
			return nil, errorf(codeGeneric, "The value has %d bytes; the most is %d", len(row.Document), maxPlainValue)
		}
		row.Modified = c.now
		batch.Put.PathNodes = []store.PathNode{row}
		return batch, nil
	})
}

func (n *plainNode) editAttributes(c *call, at *place, edits []attributeEdit) error {
	var own, beside []attributeEdit
	for _, e := range edits {
		switch {
		case isAccessAttribute(e.name):
			beside = append(beside, e)
		case isFixed(e.name) || n.path == "//sys/scheduler" && e.name == "alerts" || n.path == "//sys" && slices.Contains(sysAttributes, e.name) && e.name != "config" || n.kind() == "link" && e.name == "target_path":
			return cannotSet(e.name)
		case e.name == "account":
		default:
			own = append(own, e)
		}
	}
	if err := c.require(besideNeeds(at.chain(c), edits)); err != nil {
		return err
	}
	return c.editRegistry(n.path, func(r *server.Registry) (*store.Batch, error) {
		batch := &store.Batch{}
		if len(beside) > 0 {
			rows, err := c.besideRows(r, n.path, beside)
			if err != nil {
				return nil, err
			}
			batch.Append(rows)
		}
		if len(own) == 0 {
			return batch, nil
		}
		row, there := r.PathNode(n.path)
		if !there {
			if !n.builtin {
				return nil, errorf(codeResolve, "Node %s does not exist", n.path)
			}
			row = store.PathNode{Path: n.path, Type: "map_node", Created: c.now}
		}
		info, err := plainInfoOf(row)
		if err != nil {
			return nil, err
		}
		if info.ID.IsZero() {
			info.ID = pathID(n.path)
		}
		info.Custom = maps.Clone(info.Custom)
		for _, e := range own {
			if err := info.edit(e, n.path == "//sys"); err != nil {
				return nil, err
			}
		}
		row.Modified = c.now
		if row.Attributes, err = json.Marshal(info); err != nil {
			return nil, err
		}
		batch.Put.PathNodes = append(batch.Put.PathNodes, row)
		return batch, nil
	})
}

// edit changes a custom attribute.
func (info *plainInfo) edit(e attributeEdit, makeMaps bool) error {
	data, there := info.Custom[e.name]
	old, err := unstored(data)
	if err != nil {
		return err
	}
	if !there && len(e.steps) > 0 && !makeMaps {
		return errorf(codeResolve, "Attribute %q is not found", e.name)
	}
	next, keep, err := e.on(makeMaps)(old, there)
	if err != nil {
		return err
	}
	if info.Custom == nil {
		info.Custom = map[string][]byte{}
	}
	delete(info.Custom, e.name)
	if keep {
		info.Custom[e.name], err = stored(next)
	}
	return err
}

func (n *plainNode) remove(c *call, at *place, recursive bool) error {
	if n.builtin {
		return cannotRemove(n.path)
	}
	if err := c.require(auth.Requires(auth.Remove, at.chain(c))); err != nil {
		return err
	}
	return c.editRegistry(n.path, func(r *server.Registry) (*store.Batch, error) {
		rows := rowsFrom(r, n.path)
		if len(rows) > 1 && !recursive {
			return nil, errorf(codeGeneric, "Cannot remove non-empty composite node %s without recursive", n.path)
		}
		batch := &store.Batch{}
		batch.Delete.PathNodes = rows
		for _, row := range rows {
			if _, there := r.ACL(row.Path); there {
				batch.Delete.ACLs = append(batch.Delete.ACLs, store.ACL{Path: row.Path})
			}
		}
		return batch, nil
	})
}

func (n *plainNode) move(c *call, at *place, to *place, key string, copying bool) (guid.ID, error) {
	above, ok := to.object.(*plainNode)
	if !ok || above.shape() != mapShape || n.builtin {
		return guid.ID{}, errorf(codeGeneric, "Node %s cannot be copied or moved to %s", n.path, to.path())
	}
	needs := auth.Needs{{{Permission: auth.ModifyChildren, Chain: to.chain(c)}, {Permission: auth.Write, Chain: to.chain(c)}}}
	if copying {
		needs = append(needs, auth.Requires(auth.Read, at.chain(c))...)
	} else {
		needs = append(needs, auth.Requires(auth.Remove, at.chain(c))...)
	}
	if err := c.require(needs); err != nil {
		return guid.ID{}, err
	}
	path := joinPath(above.path, key)
	var id guid.ID
	err := c.editRegistry(path, func(r *server.Registry) (*store.Batch, error) {
		batch := &store.Batch{}
		if _, there := r.PathNode(path); there || c.tree.alwaysThere(path) || c.tree.mounts[path] != nil {
			return nil, errorf(codeAlreadyExists, "Node %s already exists", path)
		}
		for _, row := range rowsFrom(r, n.path) {
			old := row.Path
			row.Path = path + strings.TrimPrefix(old, n.path)
			info, err := plainInfoOf(row)
			if err != nil {
				return nil, err
			}
			acl, listed := r.ACL(old)
			if copying {
				info.ID = newID(plainGUID(row.Type))
				row.Created, row.Modified = c.now, c.now
				if row.Attributes, err = json.Marshal(info); err != nil {
					return nil, err
				}
			} else {
				batch.Delete.PathNodes = append(batch.Delete.PathNodes, store.PathNode{Path: old})
				if listed {
					batch.Delete.ACLs = append(batch.Delete.ACLs, acl)
				}
			}
			if listed && !copying {
				acl.Path = row.Path
				batch.Put.ACLs = append(batch.Put.ACLs, acl)
			}
			if row.Path == path {
				id = info.ID
				c.remembered = id.String()
			}
			batch.Put.PathNodes = append(batch.Put.PathNodes, row)
		}
		if len(batch.Put.PathNodes) == 0 {
			return nil, errorf(codeResolve, "Node %s does not exist", n.path)
		}
		return batch, nil
	})
	return id, err
}

// kindOf is the type of a node that is made of a value.
func kindOf(n yson.Node) string {
	switch n.Kind() {
	case yson.MapKind:
		return "map_node"
	case yson.EntityKind:
		return "document"
	}
	return n.Kind().String() + "_node"
}

func editsOf(attributes yson.Node) []attributeEdit {
	var edits []attributeEdit
	for _, e := range attributes.Entries() {
		edits = append(edits, attributeEdit{name: e.Key, edit: setTo(e.Value)})
	}
	return edits
}

// on is the edit of the whole attribute. Maps on the way into it are made if
// makeMaps says so.
func (e attributeEdit) on(makeMaps bool) edit {
	return editInside(e.steps, makeMaps, "@"+ypath.Escape(e.name), e.edit)
}

func cannotRemove(path string) *Error { return errorf(codeGeneric, "Node %s cannot be removed", path) }
