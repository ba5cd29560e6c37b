package auth

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/value/document"
)

// Built-in subjects.
const (
	Root  = "root"  // may do everything
	Guest = "guest" // requests without a token

	Everyone   = "everyone"   // all users and the guest
	Users      = "users"      // all users but the guest
	Superusers = "superusers" // may do everything; lists are not checked
	Admins     = "admins"     // administrators: may act as others; lists apply to them

	// Owner in a list is the owner of the object that is checked.
	Owner = "owner"
)

// Errors of changes to the directory. Use errors.Is.
var (
	ErrExists  = errors.New("already exists")
	ErrUnknown = errors.New("does not exist")
	ErrBuiltin = errors.New("is built in")
	ErrCycle   = errors.New("would be a member of itself")
	ErrMember  = errors.New("is a member already")
	ErrNot     = errors.New("is no member")
	ErrPower   = errors.New("requests without a token would get administrative permissions")
	ErrName    = errors.New("must be " + nameSays)
)

const (
	nameSays = "a name of 1 to 100 bytes without spaces, quotes, / and control characters"
	mostName = 100
)

// isName reports whether name is a valid subject name.
func isName(name string) bool {
	if name == "" || len(name) > mostName {
		return false
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`/"'\`, c) >= 0 {
			return false
		}
	}
	return true
}

func sentence(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// Directory holds all users and groups. It is immutable: a change makes a new
// one, so any goroutine may read a snapshot of it.
type Directory struct {
	users   map[string]user
	groups  map[string][]string // direct members, sorted
	parents map[string][]string // groups that a subject is directly in, sorted

	// visitor is the user of one request whom another authority has authenticated, and visitorIn the groups that it is in
	// beside those of the directory; see Admit.
	visitor   string
	visitorIn []string
	// welcoming accepts unknown names in access lists; see Welcoming.
	welcoming bool

	// fresh are the lists of groups and of parents that no older directory
	// shares, while changes are applied; nil afterwards.
	freshGroups, freshParents map[string]bool
}

type user struct{ banned bool }

// NewDirectory returns a directory of the built-in subjects.
func NewDirectory() *Directory {
	d := &Directory{
		users:   map[string]user{Root: {}, Guest: {}},
		groups:  map[string][]string{Everyone: {}, Users: {}, Superusers: {}, Admins: {}},
		parents: map[string][]string{},

		freshGroups: map[string]bool{}, freshParents: map[string]bool{},
	}
	d.join(Users, Everyone)
	d.join(Guest, Everyone)
	d.join(Root, Users)
	d.join(Root, Superusers)
	d.freshGroups, d.freshParents = nil, nil
	return d
}

func isBuiltin(name string) bool {
	return slices.Contains([]string{Root, Guest, Everyone, Users, Superusers, Admins, Owner}, name)
}

// A Change is one step from a directory to the next.
type Change interface {
	apply(d *Directory) error
}

// AddUser adds a user, who is in the group of all users at once.
type AddUser struct{ Name string }

// RemoveUser removes a user and all memberships. Lists that name the user keep
// the name, which then matches nobody; see ACL.Without.
type RemoveUser struct{ Name string }

// SetBanned bans a user from everything, or lifts the ban.
type SetBanned struct {
	Name   string
	Banned bool
}

// AddGroup adds a group without members.
type AddGroup struct{ Name string }

// RemoveGroup removes a group. Its members stay.
type RemoveGroup struct{ Name string }

// AddMember adds a user or a group to a group.
type AddMember struct{ Member, Group string }

// RemoveMember removes a user or a group from a group.
type RemoveMember struct{ Member, Group string }

// With returns the directory after the changes, applied in order. If any is
// invalid, it returns all problems and changes nothing.
func (d *Directory) With(changes ...Change) (*Directory, error) {
	next := &Directory{
		users: maps.Clone(d.users), groups: maps.Clone(d.groups), parents: maps.Clone(d.parents),
		freshGroups: map[string]bool{}, freshParents: map[string]bool{},
	}
	var wrong []error
	for _, c := range changes {
		if err := c.apply(next); err != nil {
			wrong = append(wrong, err)
		}
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	next.freshGroups, next.freshParents = nil, nil
	return next, nil
}

// join adds a new member to a group.
func (d *Directory) join(member, group string) {
	insert(d.groups, d.freshGroups, group, member)
	insert(d.parents, d.freshParents, member, group)
}

// leave removes a member from a group.
func (d *Directory) leave(member, group string) {
	remove(d.groups, d.freshGroups, group, member)
	remove(d.parents, d.freshParents, member, group)
}

// own returns a list that may be modified. It copies a list that older
// directories share, once per series of changes.
func own(lists map[string][]string, fresh map[string]bool, key string) []string {
	if fresh[key] {
		return lists[key]
	}
	fresh[key] = true
	return slices.Clone(lists[key])
}

func insert(lists map[string][]string, fresh map[string]bool, key, name string) {
	list := own(lists, fresh, key)
	at, _ := slices.BinarySearch(list, name)
	lists[key] = slices.Insert(list, at, name)
}

func remove(lists map[string][]string, fresh map[string]bool, key, name string) {
	list := own(lists, fresh, key)
	if at, found := slices.BinarySearch(list, name); found {
		list = slices.Delete(list, at, at+1)
	}
	lists[key] = list
}

func (d *Directory) exists(name string) bool {
	_, isUser := d.users[name]
	_, isGroup := d.groups[name]
	return isUser || isGroup || name == Owner
}

func (d *Directory) mayAdd(kind, name string) error {
	switch {
	case !isName(name):
		return fmt.Errorf("%s %q: the name %w", kind, document.Shorten(name), ErrName)
	case d.exists(name):
		return fmt.Errorf("%s %q: a user or group of this name %w", kind, name, ErrExists)
	}
	return nil
}

func (c AddUser) apply(d *Directory) error {
	if err := d.mayAdd("user", c.Name); err != nil {
		return err
	}
	d.users[c.Name] = user{}
	d.join(c.Name, Users)
	return nil
}

func (c RemoveUser) apply(d *Directory) error {
	if err := d.mayRemove("user", c.Name, d.IsUser(c.Name)); err != nil {
		return err
	}
	for _, group := range slices.Clone(d.parents[c.Name]) {
		d.leave(c.Name, group)
	}
	delete(d.users, c.Name)
	delete(d.parents, c.Name)
	return nil
}

func (d *Directory) mayRemove(kind, name string, there bool) error {
	switch {
	case !there:
		return fmt.Errorf("%s %q %w", kind, document.Shorten(name), ErrUnknown)
	case isBuiltin(name):
		return fmt.Errorf("%s %q %w", kind, name, ErrBuiltin)
	}
	return nil
}

func (c SetBanned) apply(d *Directory) error {
	if !d.IsUser(c.Name) {
		return fmt.Errorf("user %q %w", document.Shorten(c.Name), ErrUnknown)
	}
	if c.Name == Root && c.Banned {
		return fmt.Errorf("user %q %w: nobody could lift the ban", c.Name, ErrBuiltin)
	}
	d.users[c.Name] = user{banned: c.Banned}
	return nil
}

func (c AddGroup) apply(d *Directory) error {
	if err := d.mayAdd("group", c.Name); err != nil {
		return err
	}
	d.groups[c.Name] = []string{}
	return nil
}

func (c RemoveGroup) apply(d *Directory) error {
	if err := d.mayRemove("group", c.Name, d.IsGroup(c.Name)); err != nil {
		return err
	}
	for _, member := range slices.Clone(d.groups[c.Name]) {
		d.leave(member, c.Name)
	}
	for _, group := range slices.Clone(d.parents[c.Name]) {
		d.leave(c.Name, group)
	}
	delete(d.groups, c.Name)
	delete(d.parents, c.Name)
	return nil
}

func (c AddMember) apply(d *Directory) error {
	if err := d.checkMembership(c.Member, c.Group); err != nil {
		return err
	}
	switch _, in := slices.BinarySearch(d.groups[c.Group], c.Member); {
	case in:
		return fmt.Errorf("%q in group %q: %w", c.Member, c.Group, ErrMember)
	case d.IsGroup(c.Member) && slices.Contains(d.Closure(c.Group), c.Member):
		return fmt.Errorf("%q in group %q: the group %w", c.Member, c.Group, ErrCycle)
	case slices.Contains(d.Closure(Guest), c.Member) && d.hasPower(c.Group):
		return fmt.Errorf("%q in group %q: %w", c.Member, c.Group, ErrPower)
	}
	d.join(c.Member, c.Group)
	return nil
}

// hasPower reports whether members of a group are administrators or superusers.
func (d *Directory) hasPower(group string) bool {
	closure := d.Closure(group)
	return slices.Contains(closure, Superusers) || slices.Contains(closure, Admins)
}

func (c RemoveMember) apply(d *Directory) error {
	if err := d.checkMembership(c.Member, c.Group); err != nil {
		return err
	}
	if _, in := slices.BinarySearch(d.groups[c.Group], c.Member); !in {
		return fmt.Errorf("%q in group %q: %w", c.Member, c.Group, ErrNot)
	}
	if c.Member == Root && c.Group == Superusers {
		return fmt.Errorf("%q in group %q: the membership %w", c.Member, c.Group, ErrBuiltin)
	}
	d.leave(c.Member, c.Group)
	return nil
}

// checkMembership refuses groups whose members are determined by what the users
// are.
func (d *Directory) checkMembership(member, group string) error {
	switch {
	case !d.IsGroup(group):
		return fmt.Errorf("group %q %w", document.Shorten(group), ErrUnknown)
	case !d.IsUser(member) && !d.IsGroup(member):
		return fmt.Errorf("user or group %q %w", document.Shorten(member), ErrUnknown)
	case group == Users || group == Everyone:
		return fmt.Errorf("group %q %w: its members are %s", group, ErrBuiltin,
			map[string]string{Users: "all users but the guest", Everyone: "all users and the guest"}[group])
	}
	return nil
}

// IsUser reports whether the user exists.
func (d *Directory) IsUser(name string) bool {
	_, ok := d.users[name]
	return ok || d.visitor != "" && name == d.visitor
}

// IsGroup reports whether the group exists.
func (d *Directory) IsGroup(name string) bool {
	_, ok := d.groups[name]
	return ok
}

// IsBanned reports whether a user is banned.
func (d *Directory) IsBanned(name string) bool { return d.users[name].banned }

// UserNames lists the users in alphabetical order.
func (d *Directory) UserNames() []string { return slices.Sorted(maps.Keys(d.users)) }

// GroupNames lists the groups in alphabetical order.
func (d *Directory) GroupNames() []string { return slices.Sorted(maps.Keys(d.groups)) }

// Members lists the direct members of a group in alphabetical order.
func (d *Directory) Members(group string) []string { return slices.Clone(d.groups[group]) }

// MemberOf lists the groups that a subject is directly in, in alphabetical order.
func (d *Directory) MemberOf(subject string) []string { return slices.Clone(d.parents[subject]) }

// Closure returns the subject and all groups that it is in, directly or through
// others, in alphabetical order.
func (d *Directory) Closure(subject string) []string {
	reached := []string{subject}
	for i := 0; i < len(reached); i++ {
		groups := d.parents[reached[i]]
		if i == 0 && d.visitor != "" && subject == d.visitor {
			groups = append(slices.Clone(groups), d.visitorIn...)
		}
		for _, group := range groups {
			if !slices.Contains(reached, group) {
				reached = append(reached, group)
			}
		}
	}
	slices.Sort(reached)
	return reached
}

// IsSuperuser reports whether a user may do everything.
func (d *Directory) IsSuperuser(name string) bool {
	return d.IsUser(name) && slices.Contains(d.Closure(name), Superusers)
}

// CheckACL rejects subjects of a list that do not exist.
func (d *Directory) CheckACL(r *document.Reader, list ACL) {
	for i, e := range list {
		for _, subject := range e.Subjects {
			if !d.exists(subject) && !(d.welcoming && isName(subject)) {
				r.Enter(sentence("%d/subjects", i))
				message := sentence("no such user or group: %q", document.Shorten(subject))
				if nearest, ok := document.Nearest(subject, append(d.UserNames(), d.GroupNames()...)); ok {
					message += sentence("; did you mean %q?", nearest)
				}
				r.Refuse(document.Position{}, RuleNoSuchSubject, message, document.Pair("subject", document.Text(document.Shorten(subject))))
				r.Leave()
			}
		}
	}
}
