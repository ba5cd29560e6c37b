package auth

import (
	"slices"

	"github.com/weirhq/weir/internal/engine/pooltree"
)

// Way is one permission on one object.
type Way struct {
	Permission Permission
	Chain      Chain
}

// Need is met by any one of its ways. Only superusers meet a need without ways.
type Need []Way

// Needs must all be met.
type Needs []Need

// Requires returns the need for one permission on one object.
func Requires(p Permission, chain Chain) Needs { return Needs{{{p, chain}}} }

// Decide reports whether a user meets all needs. A refusal is about the first
// unmet need, and the first way of it. If all needs are met, the answer is that
// of the last one.
func (d *Directory) Decide(user string, needs Needs) Answer { return d.asker(user).decide(needs) }

// DecideFor reports whether the author of a request meets all needs, as Decide
// does for a user. A guest who may read counts as a member of the group of all
// users.
func (d *Directory) DecideFor(who Identity, needs Needs) Answer {
	asker := d.asker(who.User)
	if at, in := slices.BinarySearch(asker.closure, Users); who.OpenGuest() && asker.reason == NoEntry && !in {
		asker.closure = slices.Insert(slices.Clone(asker.closure), at, Users)
	}
	return asker.decide(needs)
}

func (a asker) decide(needs Needs) Answer {
	answer := Answer{Allowed: true, Reason: NothingNeeded, User: a.user}
	if a.reason != NoEntry {
		answer = a.check(Read, nil) // the needs do not matter
		if len(needs) > 0 && len(needs[0]) > 0 {
			answer = a.check(needs[0][0].Permission, needs[0][0].Chain)
		}
		return answer
	}
	for _, need := range needs {
		answer = Answer{User: a.user, Permission: Administer, Object: "the cluster"}
		for i, way := range need {
			tried := a.check(way.Permission, way.Chain)
			if i == 0 || tried.Allowed {
				answer = tried
			}
			if tried.Allowed {
				break
			}
		}
		if !answer.Allowed {
			return answer
		}
	}
	return answer
}

// ChangeSubject returns the need for changing a user or a group, or the members of a group. Superusers, and
// groups whose members are superusers, are changed by superusers only; otherwise administrators could make
// themselves superusers.
func (d *Directory) ChangeSubject(p Permission, name string, chain Chain) Needs {
	if slices.Contains(d.Closure(name), Superusers) {
		return Needs{{}}
	}
	return Requires(p, chain)
}

// granted are the options that determine what a pool gets from its parent, by
// their primary names. All other options of a pool concern what happens inside
// it.
var granted = []string{
	"weight", "min_share_resources", "integral_guarantees", "resource_limits", "max_share_ratio",
	"max_operation_count", "max_running_operation_count",
}

// IsGranted reports whether a pool's option, given by any of its names, is
// decided by users who may write to the parent.
func IsGranted(option string) bool {
	name, ok := pooltree.PoolOptions.Resolve(option)
	return ok && slices.Contains(granted, name)
}

// add appends needs that are not there yet.
func (n Needs) add(more ...Need) Needs {
	for _, need := range more {
		if !slices.ContainsFunc(n, func(other Need) bool { return slices.EqualFunc(need, other, sameWay) }) {
			n = append(n, need)
		}
	}
	return n
}

// sameWay compares ways by object identity, not by content.
func sameWay(a, b Way) bool {
	return a.Permission == b.Permission && len(a.Chain) == len(b.Chain) && (len(a.Chain) == 0 || &a.Chain[0] == &b.Chain[0])
}

// UsePool is what starting operations in a pool needs. For an ephemeral pool,
// pass the chain of the nearest explicit one.
func UsePool(pool Chain) Needs { return Requires(Use, pool) }

// SetPool is what setting options of a pool needs: write to the parent for what
// the pool gets from it; write to the pool for what happens inside, and for
// unknown attributes; administer the pool for its access control list; administer
// the tree for everything that only administrators may set. Only superusers
// change owners. Setting no options needs write to the pool.
func SetPool(pool Chain, options ...string) Needs {
	if len(options) == 0 {
		return Requires(Write, pool)
	}
	var needs Needs
	for _, option := range options {
		needs = needs.add(optionNeed(pool, pool.Parent(), Need{{Write, pool}}, option))
	}
	return needs
}

// optionNeed is what one option of a pool needs; inside is the need for options
// that concern only the inside of the pool.
func optionNeed(pool, parent Chain, inside Need, option string) Need {
	_, known := pooltree.PoolOptions.Resolve(option)
	switch {
	case option == "owner":
		return Need{}
	case option == "acl" || option == "inherit_acl":
		return Need{{Administer, pool}}
	case known && !pooltree.UserMaySet(option):
		return Need{{Administer, parent.Tree()}}
	case IsGranted(option):
		return Need{{Write, parent}}
	}
	return inside
}

// CreatePool is what creating a pool below a parent with these options needs.
// Permission to add children is enough for a pool that gets nothing from the
// parent.
func CreatePool(parent Chain, options ...string) Needs {
	children := changeChildren(parent)
	needs := Needs{children}
	for _, option := range options {
		// The new pool has no list yet: the parent's list applies.
		needs = needs.add(optionNeed(parent, parent, children, option))
	}
	return needs
}

// changeChildren is what adding and removing children of an object needs.
func changeChildren(parent Chain) Need { return Need{{ModifyChildren, parent}, {Write, parent}} }

// RemovePool is what removing a pool needs; below are the chains of all pools
// below it, which are removed with it.
func RemovePool(pool Chain, below ...Chain) Needs {
	needs := Needs{{{Remove, pool}}, changeChildren(pool.Parent())}
	for _, chain := range below {
		needs = needs.add(Need{{Remove, chain}})
	}
	return needs
}

// RenamePool is what renaming a pool needs.
func RenamePool(pool Chain) Needs {
	return Needs{{{Write, pool}}, changeChildren(pool.Parent())}
}

// MovePool is what moving a pool to another parent needs. Its guarantees move
// with it, so it needs write to both parents.
func MovePool(pool, newParent Chain) Needs {
	return Needs{{{Write, pool}}, {{Write, pool.Parent()}}, {{Write, newParent}}}
}

// TransferPoolResources is what moving guarantees from one pool to another needs.
// The guarantees of pools on both sides change, up to the common ancestor, so it
// needs write to the parent of each of them.
func TransferPoolResources(from, to Chain) Needs {
	common := 0
	for common < min(len(from), len(to)) {
		a, b := from[len(from)-1-common], to[len(to)-1-common]
		if a.Kind != b.Kind || a.Name != b.Name {
			break
		}
		common++
	}
	var needs Needs
	for _, chain := range []Chain{from, to} {
		for i := range len(chain) - common {
			needs = needs.add(Need{{Write, chain[i+1:]}})
		}
	}
	if len(needs) == 0 {
		return Requires(Write, from) // nothing moves
	}
	return needs
}

// SetTree is what changing options of a pool tree needs. Its access control list
// needs administer.
func SetTree(tree Chain, options ...string) Needs {
	if len(options) == 0 {
		return Requires(Write, tree)
	}
	var needs Needs
	for _, option := range options {
		switch option {
		case "owner":
			needs = needs.add(Need{})
		case "acl", "inherit_acl":
			needs = needs.add(Need{{Administer, tree}})
		default:
			needs = needs.add(Need{{Write, tree}})
		}
	}
	return needs
}
