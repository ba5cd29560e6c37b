package pathtree

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/internal/value/yson"
)

// accessAttributes are the attributes about access to a node. They are stored beside it.
var accessAttributes = []string{"acl", "inherit_acl", "owner"}

func isAccessAttribute(name string) bool { return slices.Contains(accessAttributes, name) }

// isFixed reports whether an attribute is one that all nodes have and nobody can set.
func isFixed(name string) bool {
	return slices.Contains(commonAttributes, name) && !isAccessAttribute(name) && name != "account"
}

func cannotSet(name string) *wire.Error {
	return wire.Errorf(wire.CodeGeneric, "Builtin attribute %q cannot be set", name)
}

// besideOf reads what is stored beside a node.
func besideOf(r *server.Registry, key string) (d accessDocument, err error) {
	row, there := r.ACL(key)
	if !there {
		if list := builtinACL(key); list != nil {
			d.ACL, err = list.Value().JSON("")
		}
		return d, err
	}
	err = json.Unmarshal(row.Document, &d)
	return d, err
}

// edit applies one change to the data that is stored beside a node.
func (d *accessDocument) edit(c *Request, e AttributeEdit) error {
	old, there, err := d.get(e.Name)
	if err != nil {
		return err
	}
	next, keep, err := e.on(false)(old, there)
	if err != nil {
		return err
	}
	switch e.Name {
	case "acl":
		return d.setACL(c, next, keep)
	case "inherit_acl":
		inherit, ok := next.Boolean()
		if keep && !ok {
			return wire.Errorf(wire.CodeGeneric, "Attribute \"inherit_acl\" has invalid type: expected boolean, actual %s", next.Kind())
		}
		d.Isolated = keep && !inherit
		return nil
	case "owner":
		owner, ok := next.Text()
		if keep && (!ok || !c.Subjects.IsUser(owner) && !c.Subjects.IsGroup(owner)) {
			return wire.Errorf(auth.CodeNoSuchUser, "No such user or group %s", wire.CutText(next.String(), 100))
		}
		d.Owner = owner
		return nil
	}
	custom := maps.Clone(d.Custom)
	if custom == nil {
		custom = map[string][]byte{}
	}
	delete(custom, e.Name)
	if keep {
		if custom[e.Name], err = wire.Stored(next); err != nil {
			return err
		}
	}
	d.Custom = custom
	return nil
}

// get returns an attribute that is stored beside a node.
func (d *accessDocument) get(name string) (yson.Node, bool, error) {
	switch name {
	case "acl":
		if len(d.ACL) == 0 {
			return yson.List(), true, nil
		}
		v, err := notation.ParseJSON("", d.ACL)
		return wire.FromDocument(v), true, err
	case "inherit_acl":
		return yson.Boolean(!d.Isolated), true, nil
	case "owner":
		return yson.String(d.Owner), d.Owner != "", nil
	}
	data, there := d.Custom[name]
	n, err := wire.Unstored(data)
	return n, there, err
}

func (d *accessDocument) setACL(c *Request, n yson.Node, keep bool) error {
	if !keep {
		n = yson.List()
	}
	v, err := wire.ToDocument(n)
	if err != nil {
		return err
	}
	list, err := auth.ParseACL(v)
	if err != nil {
		return wire.Errorf(wire.CodeGeneric, "Error parsing the access control list").Because(err)
	}
	r := document.NewReader("")
	c.Subjects.CheckACL(r, list)
	if err := r.Problems().Err(); err != nil {
		return wire.Errorf(auth.CodeNoSuchUser, "The access control list names a subject that does not exist").Because(err)
	}
	d.ACL, err = list.Value().JSON("")
	return err
}

// besideRows are the rows that edits of the data beside a node produce.
func (c *Request) besideRows(r *server.Registry, key string, edits []AttributeEdit) (*store.Batch, error) {
	d, err := besideOf(r, key)
	if err != nil {
		return nil, err
	}
	return c.accessRows(d, key, edits)
}

// accessRows are the rows of an edited access document.
func (c *Request) accessRows(d accessDocument, key string, edits []AttributeEdit) (*store.Batch, error) {
	for _, e := range edits {
		if err := d.edit(c, e); err != nil {
			return nil, err
		}
	}
	data, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	batch := &store.Batch{}
	batch.Put.ACLs = append(batch.Put.ACLs, store.ACL{Path: key, Document: data})
	return batch, nil
}

// editBeside changes the data that is stored beside a node.
func (c *Request) editBeside(object, key string, edits []AttributeEdit) error {
	if len(edits) == 0 {
		return nil
	}
	return c.EditRegistry(object, func(r *server.Registry) (*store.Batch, error) { return c.besideRows(r, key, edits) })
}

// besideNeeds returns the permissions that changes beside a node need: administer for the list,
// superuser for the owner, write for everything else.
func besideNeeds(chain auth.Chain, edits []AttributeEdit) auth.Needs {
	var names []string
	for _, e := range edits {
		names = append(names, e.Name)
	}
	return auth.SetTree(chain, names...)
}
