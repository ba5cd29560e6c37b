package api

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/internal/value/yson"
)

// accessAttributes are the attributes that say who may do what with a node. They
// are stored beside it.
var accessAttributes = []string{"acl", "inherit_acl", "owner"}

func isAccessAttribute(name string) bool { return slices.Contains(accessAttributes, name) }

// isFixed says whether an attribute is one that all nodes have and nobody sets.
func isFixed(name string) bool {
	return slices.Contains(commonAttributes, name) && !isAccessAttribute(name) && name != "account"
}

func cannotSet(name string) *Error {
	return errorf(codeGeneric, "Builtin attribute %q cannot be set", name)
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

// edit makes one change of what is stored beside a node.
func (d *accessDocument) edit(c *call, e attributeEdit) error {
	old, there, err := d.get(e.name)
	if err != nil {
		return err
	}
	next, keep, err := e.on(false)(old, there)
	if err != nil {
		return err
	}
	switch e.name {
	case "acl":
		return d.setACL(c, next, keep)
	case "inherit_acl":
		inherit, ok := next.Boolean()
		if keep && !ok {
			return errorf(codeGeneric, "Attribute \"inherit_acl\" has invalid type: expected boolean, actual %s", next.Kind())
		}
		d.Isolated = keep && !inherit
		return nil
	case "owner":
		owner, ok := next.Text()
		if keep && (!ok || !c.subjects.IsUser(owner) && !c.subjects.IsGroup(owner)) {
			return errorf(auth.CodeNoSuchUser, "No such user or group %s", cutText(next.String(), 100))
		}
		d.Owner = owner
		return nil
	}
	custom := maps.Clone(d.Custom)
	if custom == nil {
		custom = map[string][]byte{}
	}
	delete(custom, e.name)
	if keep {
		if custom[e.name], err = stored(next); err != nil {
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
		return fromDocument(v), true, err
	case "inherit_acl":
		return yson.Boolean(!d.Isolated), true, nil
	case "owner":
		return yson.String(d.Owner), d.Owner != "", nil
	}
	data, there := d.Custom[name]
	n, err := unstored(data)
	return n, there, err
}

func (d *accessDocument) setACL(c *call, n yson.Node, keep bool) error {
	if !keep {
		n = yson.List()
	}
	v, err := toDocument(n)
	if err != nil {
		return err
	}
	list, err := auth.ParseACL(v)
	if err != nil {
		return errorf(codeGeneric, "Error parsing the access control list").because(err)
	}
	r := document.NewReader("")
	c.subjects.CheckACL(r, list)
	if err := r.Problems().Err(); err != nil {
		return errorf(auth.CodeNoSuchUser, "The access control list names somebody who does not exist").because(err)
	}
	d.ACL, err = list.Value().JSON("")
	return err
}

// besideRows are the rows that the edits of what is beside a node make.
func (c *call) besideRows(r *server.Registry, key string, edits []attributeEdit) (*store.Batch, error) {
	d, err := besideOf(r, key)
	if err != nil {
		return nil, err
	}
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

// editBeside changes what is stored beside a node.
func (c *call) editBeside(object, key string, edits []attributeEdit) error {
	if len(edits) == 0 {
		return nil
	}
	return c.editRegistry(object, func(r *server.Registry) (*store.Batch, error) { return c.besideRows(r, key, edits) })
}

// besideNeeds is what changes beside a node need: the list, to administer it;
// owners are for superusers; everything else, to write.
func besideNeeds(chain auth.Chain, edits []attributeEdit) auth.Needs {
	var names []string
	for _, e := range edits {
		names = append(names, e.name)
	}
	return auth.SetTree(chain, names...)
}
