package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/weirhq/weir/internal/control/store"
)

// Registry holds what the scheduler stores but does not interpret: nodes of the path
// tree, users, groups, tokens, access lists, settings.
type Registry struct {
	mutex    sync.RWMutex
	paths    map[string]store.PathNode
	settings map[string]store.Setting
	users    map[string]store.User
	groups   map[string]store.Group
	members  map[store.Member]bool
	tokens   map[string]store.Token
	acls     map[string]store.ACL
}

func newRegistry() *Registry {
	return &Registry{
		paths: map[string]store.PathNode{}, settings: map[string]store.Setting{}, users: map[string]store.User{},
		groups: map[string]store.Group{}, members: map[store.Member]bool{}, tokens: map[string]store.Token{}, acls: map[string]store.ACL{},
	}
}

// reset replaces everything with the stored rows.
func (r *Registry) reset(rows *store.Rows) {
	r.mutex.Lock()
	for _, m := range []func(){
		func() { clear(r.paths) }, func() { clear(r.settings) }, func() { clear(r.users) }, func() { clear(r.groups) },
		func() { clear(r.members) }, func() { clear(r.tokens) }, func() { clear(r.acls) },
	} {
		m()
	}
	r.mutex.Unlock()
	r.apply(&store.Batch{Put: *rows})
}

// apply applies a change of rows.
func (r *Registry) apply(b *store.Batch) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	change(r.paths, b.Delete.PathNodes, b.Put.PathNodes, func(n store.PathNode) string { return n.Path })
	change(r.settings, b.Delete.Settings, b.Put.Settings, func(s store.Setting) string { return s.Name })
	change(r.users, b.Delete.Users, b.Put.Users, func(u store.User) string { return u.Name })
	change(r.groups, b.Delete.Groups, b.Put.Groups, func(g store.Group) string { return g.Name })
	change(r.tokens, b.Delete.Tokens, b.Put.Tokens, func(t store.Token) string { return t.Hash })
	change(r.acls, b.Delete.ACLs, b.Put.ACLs, func(a store.ACL) string { return a.Path })
	for _, m := range b.Delete.Members {
		delete(r.members, m)
	}
	for _, m := range b.Put.Members {
		r.members[m] = true
	}
}

func change[V any](table map[string]V, remove, put []V, key func(V) string) {
	for _, v := range remove {
		delete(table, key(v))
	}
	for _, v := range put {
		table[key(v)] = v
	}
}

// inverse returns the rows that undo a change. Call it before the change is applied.
func (r *Registry) inverse(b *store.Batch) *store.Batch {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	undo := &store.Batch{}
	restore(r.paths, b.Delete.PathNodes, b.Put.PathNodes, func(n store.PathNode) string { return n.Path }, &undo.Delete.PathNodes, &undo.Put.PathNodes)
	restore(r.settings, b.Delete.Settings, b.Put.Settings, func(s store.Setting) string { return s.Name }, &undo.Delete.Settings, &undo.Put.Settings)
	restore(r.users, b.Delete.Users, b.Put.Users, func(u store.User) string { return u.Name }, &undo.Delete.Users, &undo.Put.Users)
	restore(r.groups, b.Delete.Groups, b.Put.Groups, func(g store.Group) string { return g.Name }, &undo.Delete.Groups, &undo.Put.Groups)
	restore(r.tokens, b.Delete.Tokens, b.Put.Tokens, func(t store.Token) string { return t.Hash }, &undo.Delete.Tokens, &undo.Put.Tokens)
	restore(r.acls, b.Delete.ACLs, b.Put.ACLs, func(a store.ACL) string { return a.Path }, &undo.Delete.ACLs, &undo.Put.ACLs)
	for _, list := range [][]store.Member{b.Delete.Members, b.Put.Members} {
		for _, m := range list {
			if r.members[m] {
				undo.Put.Members = append(undo.Put.Members, m)
			} else {
				undo.Delete.Members = append(undo.Delete.Members, m)
			}
		}
	}
	return undo
}

// restore adds, for each row of a change, the row that the table has under its key.
func restore[V any](table map[string]V, removed, put []V, key func(V) string, undoRemoved, undoPut *[]V) {
	for _, list := range [][]V{removed, put} {
		for _, v := range list {
			if old, there := table[key(v)]; there {
				*undoPut = append(*undoPut, old)
			} else {
				*undoRemoved = append(*undoRemoved, v)
			}
		}
	}
}

func (r *Registry) read(f func()) {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	f()
}

// PathNode returns a node of the path tree.
func (r *Registry) PathNode(path string) (node store.PathNode, there bool) {
	r.read(func() { node, there = r.paths[path] })
	return node, there
}

// PathNodeCount returns the number of nodes in the path tree.
func (r *Registry) PathNodeCount() (count int) {
	r.read(func() { count = len(r.paths) })
	return count
}

// Below returns the nodes below a path at any depth, sorted by path.
func (r *Registry) Below(path string) (nodes []store.PathNode) {
	r.read(func() {
		for at, node := range r.paths {
			if strings.HasPrefix(at, path+"/") {
				nodes = append(nodes, node)
			}
		}
	})
	slices.SortFunc(nodes, func(a, b store.PathNode) int { return strings.Compare(a.Path, b.Path) })
	return nodes
}

// Setting returns a document by its name.
func (r *Registry) Setting(name string) (document []byte, there bool) {
	r.read(func() {
		s, ok := r.settings[name]
		document, there = s.Document, ok
	})
	return document, there
}

// User returns a user.
func (r *Registry) User(name string) (user store.User, there bool) {
	r.read(func() { user, there = r.users[name] })
	return user, there
}

// Users returns all users, sorted by name.
func (r *Registry) Users() (list []store.User) {
	r.read(func() { list = sorted(r.users) })
	return list
}

// Group returns a group.
func (r *Registry) Group(name string) (group store.Group, there bool) {
	r.read(func() { group, there = r.groups[name] })
	return group, there
}

// Groups returns all groups, sorted by name.
func (r *Registry) Groups() (list []store.Group) {
	r.read(func() { list = sorted(r.groups) })
	return list
}

// Members returns the members of all groups, sorted by group and member.
func (r *Registry) Members() (list []store.Member) {
	r.read(func() {
		for m := range r.members {
			list = append(list, m)
		}
	})
	slices.SortFunc(list, func(a, b store.Member) int {
		return strings.Compare(a.Group+"\x00"+a.Member, b.Group+"\x00"+b.Member)
	})
	return list
}

// Token returns a token by its secret's hash.
func (r *Registry) Token(hash string) (token store.Token, there bool) {
	r.read(func() { token, there = r.tokens[hash] })
	return token, there
}

// Tokens returns all tokens, sorted by hash.
func (r *Registry) Tokens() (list []store.Token) {
	r.read(func() { list = sorted(r.tokens) })
	return list
}

// HasTokens reports whether there is a token. Once there is one, the server requires
// tokens.
func (r *Registry) HasTokens() (has bool) {
	r.read(func() { has = len(r.tokens) > 0 })
	return has
}

// ACL returns the access list of a path.
func (r *Registry) ACL(path string) (acl store.ACL, there bool) {
	r.read(func() { acl, there = r.acls[path] })
	return acl, there
}

func sorted[V any](table map[string]V) []V {
	keys := make([]string, 0, len(table))
	for key := range table {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	list := make([]V, len(keys))
	for i, key := range keys {
		list[i] = table[key]
	}
	return list
}

// Registry returns the registry as it is on disk. It must not be modified.
func (s *Server) Registry() *Registry { return s.registry }

func checkRegistryRows(b *store.Batch) error {
	for _, rows := range []*store.Rows{&b.Put, &b.Delete} {
		if len(rows.Trees)+len(rows.Pools)+len(rows.Operations)+len(rows.Jobs)+len(rows.Nodes)+len(rows.Volumes) > 0 {
			return fmt.Errorf("rows of pools, operations, jobs and nodes are not the registry's")
		}
	}
	return b.Check()
}

// EditNode changes the administrators' settings of a node. The node need not have
// registered yet.
func (s *Server) EditNode(ctx context.Context, who Caller, name string, edit func(*NodeSettings) error) error {
	return s.EditNodeWithAnswer(ctx, who, name, func(settings *NodeSettings) ([]byte, error) { return nil, edit(settings) })
}

// PruneImages orders a node to delete the images that none of its jobs uses.
func (s *Server) PruneImages(ctx context.Context, who Caller, name string) error {
	_, err := ask(ctx, s, func(t *term) (struct{}, error) {
		node := t.nodes[name]
		if node == nil || node.session == nil || !node.session.Confirmed() || !node.record.Online {
			return struct{}{}, fmt.Errorf("node %s does not answer", name)
		}
		t.ordersTo(node).PruneImages()
		who.Object = "//sys/cluster_nodes/" + name
		t.audit(who, nil, mustJSON(map[string]bool{"prune_images": true}))
		return struct{}{}, nil
	})
	return err
}

// EditNodeWithAnswer is EditNode with an answer that is returned to a repeated
// request.
func (s *Server) EditNodeWithAnswer(ctx context.Context, who Caller, name string, edit func(*NodeSettings) ([]byte, error)) error {
	_, err := ask(ctx, s, func(t *term) (struct{}, error) {
		node := t.nodes[name]
		settings := NodeSettings{}
		if node != nil {
			settings = node.settings
			settings.UserTags = slices.Clone(settings.UserTags)
		}
		answer, err := edit(&settings)
		if err != nil {
			return struct{}{}, err
		}
		if node == nil {
			node = t.newNode(name)
		}
		return struct{}{}, t.setNode(node, settings, who, answer)
	})
	return err
}

// setNode applies settings to a node. A banned node loses its jobs.
func (t *term) setNode(node *activeNode, settings NodeSettings, who Caller, answer []byte) error {
	before := node.settings
	record := *node.record
	record.Tags = mergeTags(node.tags, settings.UserTags, record.Name)
	limits := record.Resources
	if reported := record.Status.Limits; reported != nil {
		limits = *reported
	}
	record.Limits = settings.LimitOverrides.Or(limits)
	node.settings = settings
	if node.session != nil {
		if err := t.addNode(node, &record); err != nil {
			node.settings = before
			return err
		}
	}
	t.showNode(node, &record)
	t.storeNode(node)
	who.Object = "//sys/cluster_nodes/" + record.Name
	t.audit(who, mustJSON(before), mustJSON(settings))
	t.remember(who, answer)
	return nil
}
