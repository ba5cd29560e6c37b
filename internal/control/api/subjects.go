package api

import (
	"encoding/json"
	"maps"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/yson"
)

// subjectsNode is //sys/users or //sys/groups.
type subjectsNode struct {
	bare
	groups bool
}

func (n subjectsNode) kind() string {
	if n.groups {
		return "group_map"
	}
	return "user_map"
}

func (n subjectsNode) keys(c *call) ([]string, error) {
	if n.groups {
		return c.subjects.GroupNames(), nil
	}
	return c.subjects.UserNames(), nil
}

func (n subjectsNode) child(c *call, key string) (object, error) {
	if n.groups && !c.subjects.IsGroup(key) || !n.groups && !c.subjects.IsUser(key) {
		return nil, nil
	}
	d, err := subjectRow(c.server.Registry(), n.groups, key)
	return subjectNode{name: key, group: n.groups, document: d}, err
}

// subjectRow is what is stored of a user or a group; those that are always there
// need have nothing.
func subjectRow(r *server.Registry, group bool, name string) (subjectDocument, error) {
	if group {
		row, _ := r.Group(name)
		return subjectOf(row.Document)
	}
	row, _ := r.User(name)
	return subjectOf(row.Document)
}

// subjectNode is a user or a group.
type subjectNode struct {
	bare
	name     string
	group    bool
	document subjectDocument
}

func (n subjectNode) kind() string {
	if n.group {
		return "group"
	}
	return "user"
}

func (subjectNode) shape() shape { return opaqueShape }

func (n subjectNode) meta(*call) meta { return metaOf(n.document.Object) }

func (n subjectNode) attribute(c *call, _ *place, name string) (yson.Node, bool, error) {
	switch {
	case name == "name":
		return yson.String(n.name), true, nil
	case name == "member_of":
		return texts(c.subjects.MemberOf(n.name)), true, nil
	case name == "member_of_closure":
		var closure []string
		for _, group := range c.subjects.Closure(n.name) {
			if group != n.name {
				closure = append(closure, group)
			}
		}
		return texts(closure), true, nil
	case name == "members" && n.group:
		return texts(c.subjects.Members(n.name)), true, nil
	case name == "banned" && !n.group:
		return yson.Boolean(c.subjects.IsBanned(n.name)), true, nil
	}
	data, there := n.document.Attributes[name]
	value, err := unstored(data)
	return value, there, err
}

func (n subjectNode) attributeNames(*call) (builtin, custom []string) {
	builtin = []string{"name", "member_of", "member_of_closure", "banned"}
	if n.group {
		builtin = []string{"name", "member_of", "member_of_closure", "members"}
	}
	for name := range n.document.Attributes {
		custom = append(custom, name)
	}
	return builtin, sortedUnique(custom)
}

func (n subjectNode) editAttributes(c *call, at *place, edits []attributeEdit) error {
	if err := c.require(auth.Requires(auth.Write, at.chain(c))); err != nil {
		return err
	}
	return c.editRegistry(at.path(), func(r *server.Registry) (*store.Batch, error) {
		d, err := subjectRow(r, n.group, n.name)
		if err != nil {
			return nil, err
		}
		for _, e := range edits {
			if err := d.edit(c, n, e); err != nil {
				return nil, err
			}
		}
		return n.rows(d)
	})
}

func (d *subjectDocument) edit(c *call, n subjectNode, e attributeEdit) error {
	switch {
	case e.name == "banned" && !n.group && len(e.steps) == 0:
		value, keep, err := e.edit(yson.Boolean(d.Banned), true)
		if err != nil {
			return err
		}
		banned, ok := value.Boolean()
		if keep && !ok {
			return errorf(codeGeneric, "Attribute \"banned\" has invalid type: expected boolean, actual %s", value.Kind())
		}
		d.Banned = keep && banned
		_, err = c.subjects.With(auth.SetBanned{Name: n.name, Banned: d.Banned})
		return err
	case isFixed(e.name) || isAccessAttribute(e.name) || e.name == "name" || e.name == "members" || e.name == "member_of" || e.name == "banned":
		return cannotSet(e.name)
	}
	data, there := d.Attributes[e.name]
	old, err := unstored(data)
	if err != nil {
		return err
	}
	next, keep, err := e.on(false)(old, there)
	if err != nil {
		return err
	}
	attributes := maps.Clone(d.Attributes)
	if attributes == nil {
		attributes = map[string][]byte{}
	}
	delete(attributes, e.name)
	if keep {
		if attributes[e.name], err = stored(next); err != nil {
			return err
		}
	}
	d.Attributes = attributes
	return nil
}

// rows is the row of a subject.
func (n subjectNode) rows(d subjectDocument) (*store.Batch, error) {
	data, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	batch := &store.Batch{}
	if n.group {
		batch.Put.Groups = append(batch.Put.Groups, store.Group{Name: n.name, Document: data})
	} else {
		batch.Put.Users = append(batch.Put.Users, store.User{Name: n.name, Document: data})
	}
	return batch, nil
}

func (n subjectNode) remove(c *call, at *place, _ bool) error {
	if err := c.require(auth.Requires(auth.Remove, at.chain(c))); err != nil {
		return err
	}
	var change auth.Change = auth.RemoveUser{Name: n.name}
	if n.group {
		change = auth.RemoveGroup{Name: n.name}
	}
	return c.editRegistry(at.path(), func(r *server.Registry) (*store.Batch, error) {
		d, _ := directoryOf(r)
		if _, err := d.With(change); err != nil {
			return nil, err
		}
		batch := &store.Batch{}
		if n.group {
			batch.Delete.Groups = append(batch.Delete.Groups, store.Group{Name: n.name})
		} else {
			batch.Delete.Users = append(batch.Delete.Users, store.User{Name: n.name})
			for _, token := range r.Tokens() {
				if token.User == n.name && token.Revoked.IsZero() {
					token.Revoked = c.now
					batch.Put.Tokens = append(batch.Put.Tokens, token)
				}
			}
		}
		for _, member := range r.Members() {
			if member.Group == n.name || member.Member == n.name {
				batch.Delete.Members = append(batch.Delete.Members, member)
			}
		}
		return batch, nil
	})
}

func makeUser(c *call, attributes yson.Node, ignoreExisting bool) (guid.ID, error) {
	return c.makeSubject(attributes, ignoreExisting, false)
}

func makeGroup(c *call, attributes yson.Node, ignoreExisting bool) (guid.ID, error) {
	return c.makeSubject(attributes, ignoreExisting, true)
}

func (c *call) makeSubject(attributes yson.Node, ignoreExisting, group bool) (guid.ID, error) {
	given, _ := attributes.Get("name")
	name, ok := given.Text()
	if !ok {
		return guid.ID{}, errorf(codeGeneric, "Attribute \"name\" is needed")
	}
	n := subjectNode{name: name, group: group, document: subjectDocument{Object: server.Object{ID: newID(guid.Object), Created: c.now}}}
	path := joinPath("//sys/"+n.kind()+"s", name)
	above, err := c.chainAtPath("//sys/" + n.kind() + "s")
	if err != nil {
		return guid.ID{}, err
	}
	if err := c.require(auth.Requires(auth.Create, above)); err != nil {
		return guid.ID{}, err
	}
	if ignoreExisting && (group && c.subjects.IsGroup(name) || !group && c.subjects.IsUser(name)) {
		return (&place{object: n, key: name}).identity(c), nil
	}
	var change auth.Change = auth.AddUser{Name: name}
	if group {
		change = auth.AddGroup{Name: name}
	}
	c.remembered = n.document.ID.String()
	return n.document.ID, c.editRegistry(path, func(r *server.Registry) (*store.Batch, error) {
		d, _ := directoryOf(r)
		if _, err := d.With(change); err != nil {
			return nil, err
		}
		for _, e := range editsOf(attributes.Without("name")) {
			if err := n.document.edit(c, subjectNode{name: auth.Guest, group: group}, e); err != nil {
				return nil, err
			}
		}
		return n.rows(n.document)
	})
}

// accountsNode is //sys/accounts. Nothing is accounted here; clients only look
// whether an account is there.
type accountsNode struct{ bare }

func (accountsNode) kind() string { return "account_map" }

var accounts = []string{"intermediate", "sys", "tmp"}

func (accountsNode) keys(*call) ([]string, error) { return accounts, nil }

func (accountsNode) child(_ *call, key string) (object, error) {
	for _, name := range accounts {
		if name == key {
			return accountNode{name: name}, nil
		}
	}
	return nil, nil
}

type accountNode struct {
	bare
	name string
}

func (accountNode) kind() string { return "account" }
func (accountNode) shape() shape { return opaqueShape }

func (n accountNode) attribute(_ *call, _ *place, name string) (yson.Node, bool, error) {
	return yson.String(n.name), name == "name", nil
}

func (accountNode) attributeNames(*call) (builtin, custom []string) { return []string{"name"}, nil }

func makeAccount(*call, yson.Node, bool) (guid.ID, error) {
	return guid.ID{}, errorf(codeGeneric, "Accounts cannot be created: storage is not accounted here")
}
