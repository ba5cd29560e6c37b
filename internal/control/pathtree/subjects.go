package pathtree

import (
	"encoding/json"
	"maps"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/yson"
)

// subjectsNode is //sys/users or //sys/groups.
type subjectsNode struct {
	Bare
	groups bool
}

func (n subjectsNode) Kind() string {
	if n.groups {
		return "group_map"
	}
	return "user_map"
}

func (n subjectsNode) Keys(c *Request) ([]string, error) {
	if n.groups {
		return c.Subjects.GroupNames(), nil
	}
	return c.Subjects.UserNames(), nil
}

func (n subjectsNode) Child(c *Request, key string) (Object, error) {
	if n.groups && !c.Subjects.IsGroup(key) || !n.groups && !c.Subjects.IsUser(key) {
		return nil, nil
	}
	d, err := subjectRow(c.Server.Registry(), n.groups, key)
	return subjectNode{name: key, group: n.groups, document: d}, err
}

// subjectRow is the stored data of a user or a group; the built-in ones need not have any.
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
	Bare
	name     string
	group    bool
	document subjectDocument
}

func (n subjectNode) Kind() string {
	if n.group {
		return "group"
	}
	return "user"
}

func (subjectNode) Shape() Shape { return OpaqueShape }

func (n subjectNode) Meta(*Request) Meta { return metaOf(n.document.Object) }

func (n subjectNode) Attribute(c *Request, _ *Place, name string) (yson.Node, bool, error) {
	switch {
	case name == "name":
		return yson.String(n.name), true, nil
	case name == "member_of":
		return wire.Texts(c.Subjects.MemberOf(n.name)), true, nil
	case name == "member_of_closure":
		var closure []string
		for _, group := range c.Subjects.Closure(n.name) {
			if group != n.name {
				closure = append(closure, group)
			}
		}
		return wire.Texts(closure), true, nil
	case name == "members" && n.group:
		return wire.Texts(c.Subjects.Members(n.name)), true, nil
	case name == "banned" && !n.group:
		return yson.Boolean(c.Subjects.IsBanned(n.name)), true, nil
	}
	data, there := n.document.Attributes[name]
	value, err := wire.Unstored(data)
	return value, there, err
}

func (n subjectNode) AttributeNames(*Request) (builtin, custom []string) {
	builtin = []string{"name", "member_of", "member_of_closure", "banned"}
	if n.group {
		builtin = []string{"name", "member_of", "member_of_closure", "members"}
	}
	for name := range n.document.Attributes {
		custom = append(custom, name)
	}
	return builtin, SortedUnique(custom)
}

func (n subjectNode) EditAttributes(c *Request, at *Place, edits []AttributeEdit) error {
	if err := c.Require(c.Subjects.ChangeSubject(auth.Write, n.name, at.Chain(c))); err != nil {
		return err
	}
	return c.EditRegistry(at.Path(), func(r *server.Registry) (*store.Batch, error) {
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

func (d *subjectDocument) edit(c *Request, n subjectNode, e AttributeEdit) error {
	switch {
	case e.Name == "banned" && !n.group && len(e.Steps) == 0:
		value, keep, err := e.Edit(yson.Boolean(d.Banned), true)
		if err != nil {
			return err
		}
		banned, ok := value.Boolean()
		if keep && !ok {
			return wire.Errorf(wire.CodeGeneric, "Attribute \"banned\" has invalid type: expected boolean, actual %s", value.Kind())
		}
		d.Banned = keep && banned
		_, err = c.Subjects.With(auth.SetBanned{Name: n.name, Banned: d.Banned})
		return err
	case isFixed(e.Name) || isAccessAttribute(e.Name) || e.Name == "name" || e.Name == "members" || e.Name == "member_of" || e.Name == "banned":
		return cannotSet(e.Name)
	}
	data, there := d.Attributes[e.Name]
	old, err := wire.Unstored(data)
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
	delete(attributes, e.Name)
	if keep {
		if attributes[e.Name], err = wire.Stored(next); err != nil {
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

func (n subjectNode) Remove(c *Request, at *Place, _ bool) error {
	if err := c.Require(c.Subjects.ChangeSubject(auth.Remove, n.name, at.Chain(c))); err != nil {
		return err
	}
	var change auth.Change = auth.RemoveUser{Name: n.name}
	if n.group {
		change = auth.RemoveGroup{Name: n.name}
	}
	return c.EditRegistry(at.Path(), func(r *server.Registry) (*store.Batch, error) {
		d, _ := DirectoryOf(r)
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
					token.Revoked = c.Now
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

func makeUser(c *Request, attributes yson.Node, ignoreExisting bool) (guid.ID, error) {
	return c.makeSubject(attributes, ignoreExisting, false)
}

func makeGroup(c *Request, attributes yson.Node, ignoreExisting bool) (guid.ID, error) {
	return c.makeSubject(attributes, ignoreExisting, true)
}

func (c *Request) makeSubject(attributes yson.Node, ignoreExisting, group bool) (guid.ID, error) {
	given, _ := attributes.Get("name")
	name, ok := given.Text()
	if !ok {
		return guid.ID{}, wire.Errorf(wire.CodeGeneric, "Attribute \"name\" is needed")
	}
	n := subjectNode{name: name, group: group, document: subjectDocument{Object: server.Object{ID: NewID(guid.Object), Created: c.Now}}}
	path := JoinPath("//sys/"+n.Kind()+"s", name)
	above, err := c.ChainAtPath("//sys/" + n.Kind() + "s")
	if err != nil {
		return guid.ID{}, err
	}
	if err := c.Require(auth.Requires(auth.Create, above)); err != nil {
		return guid.ID{}, err
	}
	if ignoreExisting && (group && c.Subjects.IsGroup(name) || !group && c.Subjects.IsUser(name)) {
		return (&Place{Object: n, Key: name}).Identity(c), nil
	}
	var change auth.Change = auth.AddUser{Name: name}
	if group {
		change = auth.AddGroup{Name: name}
	}
	c.Remembered = n.document.ID.String()
	return n.document.ID, c.EditRegistry(path, func(r *server.Registry) (*store.Batch, error) {
		d, _ := DirectoryOf(r)
		if _, err := d.With(change); err != nil {
			return nil, err
		}
		for _, e := range EditsOf(attributes.Without("name")) {
			if err := n.document.edit(c, subjectNode{name: auth.Guest, group: group}, e); err != nil {
				return nil, err
			}
		}
		return n.rows(n.document)
	})
}

// accountsNode is //sys/accounts. Nothing is accounted here; clients only check whether an account
// exists.
type accountsNode struct{ Bare }

func (accountsNode) Kind() string { return "account_map" }

var accounts = []string{"intermediate", "sys", "tmp"}

func (accountsNode) Keys(*Request) ([]string, error) { return accounts, nil }

func (accountsNode) Child(_ *Request, key string) (Object, error) {
	for _, name := range accounts {
		if name == key {
			return accountNode{name: name}, nil
		}
	}
	return nil, nil
}

type accountNode struct {
	Bare
	name string
}

func (accountNode) Kind() string { return "account" }
func (accountNode) Shape() Shape { return OpaqueShape }

func (n accountNode) Attribute(_ *Request, _ *Place, name string) (yson.Node, bool, error) {
	return yson.String(n.name), name == "name", nil
}

func (accountNode) AttributeNames(*Request) (builtin, custom []string) { return []string{"name"}, nil }

func makeAccount(*Request, yson.Node, bool) (guid.ID, error) {
	return guid.ID{}, wire.Errorf(wire.CodeGeneric, "Accounts cannot be created: Weir does not account for storage")
}
