package pathtree

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

// plainKinds are the types of plain nodes with the kinds that their values may have; no kind means
// any.
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

// emptyValue is the value of a new node of a type.
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

// Limits of plain nodes: the scheduler keeps them in memory.
const (
	maxPlainNodes = 200_000
	maxPlainValue = 32 << 20
)

// checkValue refuses a value that a node of a type cannot have.
func checkValue(kind string, value yson.Node) error {
	allowed := plainKinds[kind]
	if len(allowed) > 0 && !slices.Contains(allowed, value.Kind()) {
		return wire.Errorf(wire.CodeGeneric, "Cannot update %s node with %s value; types must match", strings.TrimSuffix(kind, "_node"), value.Kind())
	}
	return nil
}

// plainRow is the row of a new node.
func (c *Request) plainRow(id guid.ID, path, kind string, value yson.Node, custom map[string][]byte) (store.PathNode, error) {
	row := store.PathNode{Path: path, Type: kind, Created: c.Now, Modified: c.Now}
	info := plainInfo{ID: id, Custom: custom}
	var err error
	if row.Attributes, err = json.Marshal(info); err != nil {
		return row, err
	}
	if kind == "map_node" || kind == "file" {
		return row, nil
	}
	row.Document, err = wire.Stored(value)
	if err == nil && len(row.Document) > maxPlainValue {
		err = wire.Errorf(wire.CodeGeneric, "The value has %d bytes; the limit is %d", len(row.Document), maxPlainValue)
	}
	return row, err
}

// plainGUID is the kind of ids for nodes of a type, as YTsaurus numbers them.
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
func (c *Request) plainRows(rows []store.PathNode, path string, what Creation) ([]store.PathNode, error) {
	if len(rows) > maxPlainNodes {
		return rows, wire.Errorf(wire.CodeMaxChildren, "There would be more than %d nodes", maxPlainNodes)
	}
	value := what.Value
	if value.IsEntity() {
		value = emptyValue(what.Kind)
	}
	if err := checkValue(what.Kind, value); err != nil {
		return rows, err
	}
	custom := map[string][]byte{}
	for _, e := range what.Attributes.Entries() {
		if isFixed(e.Key) {
			return rows, cannotSet(e.Key)
		}
		if err := wire.MustBeText(e.Key); err != nil {
			return rows, err
		}
		if isAccessAttribute(e.Key) || e.Key == "account" {
			continue
		}
		data, err := wire.Stored(e.Value)
		if err != nil {
			return rows, err
		}
		custom[e.Key] = data
	}
	if given, ok := what.Attributes.Get("value"); ok && what.Kind == "document" && what.Value.IsEntity() {
		value = given
		delete(custom, "value")
	}
	id := what.id
	if id.IsZero() {
		id = NewID(plainGUID(what.Kind))
	}
	row, err := c.plainRow(id, path, what.Kind, value.WithAttributes(), custom)
	if err != nil {
		return rows, err
	}
	rows = append(rows, row)
	if what.Kind != "map_node" {
		return rows, nil
	}
	for _, e := range value.Entries() {
		if e.Key == "" {
			return rows, wire.Errorf(wire.CodeGeneric, "The key of a child of %s is empty", path)
		}
		child := Creation{Kind: KindOf(e.Value), Value: e.Value, Attributes: yson.Map(e.Value.Attributes()...)}
		if rows, err = c.plainRows(rows, JoinPath(path, e.Key), child); err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// Create creates plain nodes.
func (n *PlainNode) Create(c *Request, at *Place, keys []string, what Creation) (guid.ID, error) {
	if n.Shape() != MapShape {
		return guid.ID{}, wire.Errorf(wire.CodeGeneric, "Node %s of type %q cannot have children", n.Path, n.Kind())
	}
	if _, known := plainKinds[what.Kind]; !known {
		return guid.ID{}, wire.Errorf(wire.CodeGeneric, "Nodes of type %q cannot be created here", wire.CutText(what.Kind, 100))
	}
	if err := c.Require(auth.Needs{{{Permission: auth.ModifyChildren, Chain: at.Chain(c)}, {Permission: auth.Write, Chain: at.Chain(c)}}}); err != nil {
		return guid.ID{}, err
	}
	what.id = NewID(plainGUID(what.Kind))
	c.Remembered = what.id.String()
	return what.id, c.EditRegistry(JoinPath(n.Path, strings.Join(keys, "/")), func(r *server.Registry) (*store.Batch, error) {
		if r.PathNodeCount() > maxPlainNodes {
			return nil, wire.Errorf(wire.CodeMaxChildren, "There are more than %d nodes", maxPlainNodes)
		}
		batch := &store.Batch{}
		last := len(keys) - 1
		above, err := c.plainDirectories(r, batch, n.Path, keys[:last])
		if err != nil {
			return nil, err
		}
		path, there, err := c.newPath(r, above, keys[last])
		if err != nil {
			return nil, err
		}
		if there && !what.Replace {
			return nil, wire.Errorf(wire.CodeAlreadyExists, "Node %s already exists", path)
		}
		if there {
			batch.Delete.PathNodes = rowsFrom(r, path)
		}
		if batch.Put.PathNodes, err = c.plainRows(batch.Put.PathNodes, path, what); err != nil {
			return nil, err
		}
		forgetAccess(r, batch, batch.Delete.PathNodes, batch.Put.PathNodes)
		return c.withAccess(batch, at, path, what.Attributes)
	})
}

// newPath returns the path of a node to be created, and whether it already exists. It refuses nodes
// that always exist.
func (c *Request) newPath(r *server.Registry, above, key string) (path string, there bool, err error) {
	if len(key) > 1000 {
		return "", false, wire.Errorf(wire.CodeGeneric, "The key of a node has %d bytes; the limit is 1000", len(key))
	}
	path = JoinPath(above, key)
	if _, mounted := c.Tree.mounts[path]; mounted || c.Tree.alwaysThere(path) {
		return "", false, wire.Errorf(wire.CodeAlreadyExists, "Node %s already exists", path)
	}
	_, there = r.PathNode(path)
	return path, there, nil
}

// plainDirectories adds the rows of the missing directories below a node, and returns the path of
// the last one.
func (c *Request) plainDirectories(r *server.Registry, batch *store.Batch, path string, keys []string) (string, error) {
	for _, key := range keys {
		next, there, err := c.newPath(r, path, key)
		if err != nil {
			return "", err
		}
		path = next
		if there {
			continue
		}
		if batch.Put.PathNodes, err = c.plainRows(batch.Put.PathNodes, path, Creation{Kind: "map_node", Attributes: yson.Map()}); err != nil {
			return "", err
		}
	}
	return path, nil
}

// forgetAccess deletes the data stored beside removed nodes, and beside paths at which new nodes
// are created: a new node must not inherit the access list of an old one.
func forgetAccess(r *server.Registry, batch *store.Batch, lists ...[]store.PathNode) {
	for _, rows := range lists {
		for _, row := range rows {
			if _, there := r.ACL(row.Path); there {
				batch.Delete.ACLs = append(batch.Delete.ACLs, store.ACL{Path: row.Path})
			}
		}
	}
}

// withAccess adds the rows for the access attributes of a new node.
func (c *Request) withAccess(batch *store.Batch, above *Place, path string, attributes yson.Node) (*store.Batch, error) {
	var edits []AttributeEdit
	for _, e := range EditsOf(attributes) {
		if isAccessAttribute(e.Name) {
			edits = append(edits, e)
		}
	}
	if len(edits) > 0 {
		if err := c.Require(besideNeeds(above.Chain(c), edits)); err != nil {
			return nil, err
		}
	}
	if !slices.ContainsFunc(edits, func(e AttributeEdit) bool { return e.Name == "owner" }) && c.Who.User != auth.Root {
		edits = append(edits, AttributeEdit{Name: "owner", Edit: SetTo(yson.String(c.Who.User))})
	}
	if len(edits) == 0 {
		return batch, nil
	}
	rows, err := c.accessRows(accessDocument{}, path, edits)
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

// EditValue changes the stored value.
func (n *PlainNode) EditValue(c *Request, at *Place, e edit) error {
	if n.Path == "/" || n.builtin || n.Kind() == "link" || n.Kind() == "file" {
		return wire.Errorf(wire.CodeGeneric, "Node %s of type %q cannot be set", n.Path, n.Kind())
	}
	if err := c.Require(auth.Requires(auth.Write, at.Chain(c))); err != nil {
		return err
	}
	return c.EditRegistry(n.Path, func(r *server.Registry) (*store.Batch, error) {
		row, there := r.PathNode(n.Path)
		if !there {
			return nil, wire.Errorf(wire.CodeResolve, "Node %s does not exist", n.Path)
		}
		batch := &store.Batch{}
		old, err := wire.Unstored(row.Document)
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
			batch.Delete.PathNodes = r.Below(n.Path)
			rows, err := c.plainRows(nil, n.Path, Creation{Kind: "map_node", Value: next, Attributes: yson.Map()})
			if err != nil {
				return nil, err
			}
			row.Modified = c.Now
			batch.Put.PathNodes = append([]store.PathNode{row}, rows[1:]...)
			forgetAccess(r, batch, batch.Delete.PathNodes, rows[1:])
			return batch, nil
		}
		if row.Document, err = wire.Stored(next); err != nil {
			return nil, err
		}
		if len(row.Document) > maxPlainValue {
			return nil, wire.Errorf(wire.CodeGeneric, "The value has %d bytes; the limit is %d", len(row.Document), maxPlainValue)
		}
		row.Modified = c.Now
		batch.Put.PathNodes = []store.PathNode{row}
		return batch, nil
	})
}

// EditAttributes changes stored attributes, all or none.
func (n *PlainNode) EditAttributes(c *Request, at *Place, edits []AttributeEdit) error {
	var own, beside []AttributeEdit
	for _, e := range edits {
		switch {
		case isAccessAttribute(e.Name):
			beside = append(beside, e)
		case isFixed(e.Name) || n.Path == "//sys/scheduler" && e.Name == "alerts" || n.Path == "//sys" && slices.Contains(sysAttributes, e.Name) && e.Name != "config" || n.Kind() == "link" && e.Name == "target_path":
			return cannotSet(e.Name)
		case e.Name == "account":
		default:
			own = append(own, e)
		}
	}
	if err := c.Require(besideNeeds(at.Chain(c), edits)); err != nil {
		return err
	}
	return c.EditRegistry(n.Path, func(r *server.Registry) (*store.Batch, error) {
		batch := &store.Batch{}
		if len(beside) > 0 {
			rows, err := c.besideRows(r, n.Path, beside)
			if err != nil {
				return nil, err
			}
			batch.Append(rows)
		}
		if len(own) == 0 {
			return batch, nil
		}
		row, there := r.PathNode(n.Path)
		if !there {
			if !n.builtin {
				return nil, wire.Errorf(wire.CodeResolve, "Node %s does not exist", n.Path)
			}
			row = store.PathNode{Path: n.Path, Type: "map_node", Created: c.Now}
		}
		info, err := plainInfoOf(row)
		if err != nil {
			return nil, err
		}
		if info.ID.IsZero() {
			info.ID = pathID(n.Path)
		}
		info.Custom = maps.Clone(info.Custom)
		for _, e := range own {
			if err := info.edit(e, n.Path == "//sys"); err != nil {
				return nil, err
			}
		}
		row.Modified = c.Now
		if row.Attributes, err = json.Marshal(info); err != nil {
			return nil, err
		}
		batch.Put.PathNodes = append(batch.Put.PathNodes, row)
		return batch, nil
	})
}

// edit changes a custom attribute.
func (info *plainInfo) edit(e AttributeEdit, makeMaps bool) error {
	data, there := info.Custom[e.Name]
	old, err := wire.Unstored(data)
	if err != nil {
		return err
	}
	if !there && len(e.Steps) > 0 && !makeMaps {
		return wire.Errorf(wire.CodeResolve, "Attribute %q is not found", e.Name)
	}
	next, keep, err := e.on(makeMaps)(old, there)
	if err != nil {
		return err
	}
	if info.Custom == nil {
		info.Custom = map[string][]byte{}
	}
	delete(info.Custom, e.Name)
	if keep {
		info.Custom[e.Name], err = wire.Stored(next)
	}
	return err
}

// Remove removes the node, with everything below it if recursive is set.
func (n *PlainNode) Remove(c *Request, at *Place, recursive bool) error {
	if n.builtin {
		return CannotRemove(n.Path)
	}
	if err := c.Require(auth.Requires(auth.Remove, at.Chain(c))); err != nil {
		return err
	}
	return c.EditRegistry(n.Path, func(r *server.Registry) (*store.Batch, error) {
		rows := rowsFrom(r, n.Path)
		if len(rows) > 1 && !recursive {
			return nil, wire.Errorf(wire.CodeGeneric, "Cannot remove non-empty composite node %s without recursive", n.Path)
		}
		batch := &store.Batch{}
		batch.Delete.PathNodes = rows
		forgetAccess(r, batch, rows)
		return batch, nil
	})
}

// Move copies or moves the node with everything below it.
func (n *PlainNode) Move(c *Request, at *Place, to *Place, keys []string, copying bool) (guid.ID, error) {
	above, ok := to.Object.(*PlainNode)
	if !ok || above.Shape() != MapShape || n.builtin {
		return guid.ID{}, wire.Errorf(wire.CodeGeneric, "Node %s cannot be copied or moved to %s", n.Path, to.Path())
	}
	needs := auth.Needs{{{Permission: auth.ModifyChildren, Chain: to.Chain(c)}, {Permission: auth.Write, Chain: to.Chain(c)}}}
	if copying {
		needs = append(needs, auth.Requires(auth.Read, at.Chain(c))...)
	} else {
		needs = append(needs, auth.Requires(auth.Remove, at.Chain(c))...)
	}
	if err := c.Require(needs); err != nil {
		return guid.ID{}, err
	}
	id := n.info.ID
	if copying {
		id = NewID(plainGUID(n.Kind()))
		if err := c.mayUseContents(n.Path); err != nil {
			return guid.ID{}, err
		}
	}
	c.Remembered = id.String()
	return id, c.EditRegistry(JoinPath(above.Path, strings.Join(keys, "/")), func(r *server.Registry) (*store.Batch, error) {
		batch := &store.Batch{}
		last := len(keys) - 1
		parent, err := c.plainDirectories(r, batch, above.Path, keys[:last])
		if err != nil {
			return nil, err
		}
		forgetAccess(r, batch, batch.Put.PathNodes)
		if last > 0 {
			if batch, err = c.withAccess(batch, to, parent, yson.Map()); err != nil {
				return nil, err
			}
		}
		path, there, err := c.newPath(r, parent, keys[last])
		if err != nil {
			return nil, err
		}
		if there {
			return nil, wire.Errorf(wire.CodeAlreadyExists, "Node %s already exists", path)
		}
		return batch, c.transplantRows(r, batch, n.Path, path, id, copying)
	})
}

// mayUseContents refuses to copy files of other users that the caller's quota has no room for.
func (c *Request) mayUseContents(path string) error {
	size := int64(0)
	for _, row := range rowsFrom(c.Server.Registry(), path) {
		if row.ContentUser != c.Who.User {
			size += row.ContentSize
		}
	}
	if size == 0 {
		return nil
	}
	return c.Server.CheckQuota(c.Context, c.Who.User, size)
}

// transplantRows adds the rows that copy or move a node and everything below it to another path.
// The node then has the given id. Copies get new ids and separate access lists.
func (c *Request) transplantRows(r *server.Registry, batch *store.Batch, from, to string, id guid.ID, copying bool) error {
	rows := rowsFrom(r, from)
	if len(rows) == 0 || rows[0].Path != from {
		return wire.Errorf(wire.CodeResolve, "Node %s does not exist", from)
	}
	for _, row := range rows {
		old := row.Path
		row.Path = to + strings.TrimPrefix(old, from)
		forgetAccess(r, batch, []store.PathNode{row})
		if copying {
			info, err := plainInfoOf(row)
			if err != nil {
				return err
			}
			if info.ID = NewID(plainGUID(row.Type)); old == from {
				info.ID = id
			}
			row.Created, row.Modified = c.Now, c.Now
			if row.Content != "" {
				row.ContentUser = c.Who.User
			}
			if row.Attributes, err = json.Marshal(info); err != nil {
				return err
			}
		} else {
			batch.Delete.PathNodes = append(batch.Delete.PathNodes, store.PathNode{Path: old})
			if acl, listed := r.ACL(old); listed {
				batch.Delete.ACLs = append(batch.Delete.ACLs, acl)
				acl.Path = row.Path
				batch.Put.ACLs = append(batch.Put.ACLs, acl)
			}
		}
		batch.Put.PathNodes = append(batch.Put.PathNodes, row)
	}
	return nil
}

// KindOf is the type of a node that is created from a value.
func KindOf(n yson.Node) string {
	switch n.Kind() {
	case yson.MapKind:
		return "map_node"
	case yson.EntityKind:
		return "document"
	}
	return n.Kind().String() + "_node"
}

// EditsOf are the edits that set attributes to the values of a map.
func EditsOf(attributes yson.Node) []AttributeEdit {
	var edits []AttributeEdit
	for _, e := range attributes.Entries() {
		edits = append(edits, AttributeEdit{Name: e.Key, Edit: SetTo(e.Value)})
	}
	return edits
}

// on is the edit of the whole attribute. With makeMaps it creates missing maps along the way.
func (e AttributeEdit) on(makeMaps bool) edit {
	return EditInside(e.Steps, makeMaps, "@"+ypath.Escape(e.Name), e.Edit)
}

// CannotRemove is the error for a node that cannot be removed.
func CannotRemove(path string) *wire.Error {
	return wire.Errorf(wire.CodeGeneric, "Node %s cannot be removed", path)
}
