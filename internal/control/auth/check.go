package auth

import (
	"fmt"
	"slices"
	"strconv"
)

// Kind is the kind of an object.
type Kind uint8

const (
	KindNode      Kind = iota // a node of the path tree, including the root
	KindTree                  // a pool tree
	KindPool                  // an explicit pool
	KindOperation             // an operation
)

func (k Kind) String() string { return [...]string{"node", "pool tree", "pool", "operation"}[k] }

// Object is something that has an access control list.
type Object struct {
	Kind  Kind
	Name  string // a path, or the name of a tree, a pool or an operation
	Owner string
	ACL   ACL
	// Isolated objects inherit no entries: inherit_acl is false.
	Isolated bool
}

func (o Object) String() string { return o.Kind.String() + " " + strconv.Quote(o.Name) }

// Chain is an object, its parent, its parent's parent, and so on up to the root.
type Chain []Object

// Parent is the chain of the object's parent; empty at the root.
func (c Chain) Parent() Chain { return c[min(1, len(c)):] }

// Tree is the part of the chain from the pool tree up, or the whole chain if it
// is in no pool tree.
func (c Chain) Tree() Chain {
	if i := slices.IndexFunc(c, func(o Object) bool { return o.Kind == KindTree }); i >= 0 {
		return c[i:]
	}
	return c
}

// Reason is why an answer allows or denies.
type Reason uint8

const (
	NoEntry        Reason = iota // no entry applies to the user: denied
	AllowedByEntry               // an entry allows it and none denies it
	DeniedByEntry                // an entry denies it
	BySuperuser                  // the user is a superuser
	UserUnknown                  // there is no such user
	UserBanned                   // the user is banned
	NothingNeeded                // no permission is needed
)

func (r Reason) String() string {
	return [...]string{"no_entry", "allowed_by_entry", "denied_by_entry", "superuser", "no_such_user", "banned", "nothing_needed"}[r]
}

// Answer reports whether a user may do something, and what decided it.
type Answer struct {
	Allowed    bool
	Reason     Reason
	User       string
	Permission Permission
	// Object is the object that was checked.
	Object string
	// DecidedAt is the object that has the deciding entry, Entry its index there,
	// ACE the entry itself, and Subject the subject in it that matched the user.
	// They are set if an entry decided.
	DecidedAt string
	Entry     int
	ACE       ACE
	Subject   string
}

// Check reports whether a user has a permission on the first object of a chain.
// All lists that reach the object count as one: an entry that denies wins
// wherever it is; otherwise one entry that allows is enough; otherwise the
// permission is denied. If several entries decide, the answer names the one
// nearest to the object, and the first one there.
func (d *Directory) Check(user string, p Permission, chain Chain) Answer {
	return d.asker(user).check(p, chain)
}

// CheckMember is Check for somebody who need not be a user of the directory, but is a member of a group as well as of the
// group of all users.
func (d *Directory) CheckMember(name, group string, p Permission, chain Chain) Answer {
	closure := slices.Concat(d.Closure(name), d.Closure(group), d.Closure(Users))
	slices.Sort(closure)
	return asker{user: name, closure: slices.Compact(closure)}.check(p, chain)
}

// asker is a user for whom several permissions are checked.
type asker struct {
	user    string
	closure []string
	reason  Reason // why no list need be checked, or NoEntry
}

func (d *Directory) asker(user string) asker {
	a := asker{user: user}
	switch {
	case !d.IsUser(user):
		a.reason = UserUnknown
	case d.IsBanned(user):
		a.reason = UserBanned
	default:
		a.closure = d.Closure(user)
		if _, super := slices.BinarySearch(a.closure, Superusers); super {
			a.reason = BySuperuser
		}
	}
	return a
}

func (a asker) check(p Permission, chain Chain) Answer {
	answer := Answer{User: a.user, Permission: p, Allowed: a.reason == BySuperuser, Reason: a.reason}
	if len(chain) == 0 {
		return answer
	}
	answer.Object = chain[0].String()
	if a.reason != NoEntry {
		return answer
	}
	owner := chain[0].Owner
	for steps, object := range chain {
		for i, entry := range object.ACL {
			if !entry.Permissions.Has(p) || !entry.Inheritance.appliesAt(steps) {
				continue
			}
			subject, concerned := concerns(entry, a.user, a.closure, owner)
			if !concerned || answer.Allowed && entry.Action == Allow {
				continue
			}
			answer.DecidedAt, answer.Entry, answer.ACE, answer.Subject = object.String(), i, entry, subject
			if entry.Action == Deny {
				answer.Allowed, answer.Reason = false, DeniedByEntry
				return answer
			}
			answer.Allowed, answer.Reason = true, AllowedByEntry
		}
		if object.Isolated {
			break
		}
	}
	return answer
}

// concerns returns the first subject of an entry that matches the user.
func concerns(entry ACE, user string, closure []string, owner string) (subject string, ok bool) {
	for _, subject := range entry.Subjects {
		if subject == Owner {
			if owner == user {
				return subject, true
			}
			continue
		}
		if _, in := slices.BinarySearch(closure, subject); in {
			return subject, true
		}
	}
	return "", false
}

// Err returns a refusal as an error of type *Denied, and nil if the answer
// allows.
func (a Answer) Err() error {
	if a.Allowed {
		return nil
	}
	return &Denied{Answer: a}
}

// Error codes, as clients of YTsaurus know them.
const (
	CodeAuthentication = 900
	CodeAuthorization  = 901
	CodeNoSuchUser     = 910
)

// Denied is the error for an action that a user is not allowed to take.
type Denied struct {
	Answer Answer
}

// Code is the error code by which clients distinguish refusals.
func (e *Denied) Code() int {
	if e.Answer.Reason == UserUnknown {
		return CodeNoSuchUser
	}
	return CodeAuthorization
}

func (e *Denied) Error() string {
	a := e.Answer
	switch a.Reason {
	case UserUnknown:
		return fmt.Sprintf("No such user %q", a.User)
	case UserBanned:
		return fmt.Sprintf("Access denied: user %q is banned", a.User)
	case DeniedByEntry:
		return fmt.Sprintf("Access denied for user %q: %q permission for %s is denied for %q by entry %d at %s",
			a.User, a.Permission, a.Object, a.Subject, a.Entry, a.DecidedAt)
	}
	return fmt.Sprintf("Access denied for user %q: %q permission for %s is not allowed by any matching ACE",
		a.User, a.Permission, a.Object)
}
