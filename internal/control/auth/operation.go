package auth

import "slices"

// OperationObject is an operation as something that has an access control list:
// its author and, by the older option, its owners may read and manage it, and
// whoever its own list says.
func OperationObject(id, author string, owners []string, list ACL) Object {
	subjects := []string{author}
	for _, owner := range owners {
		if !slices.Contains(subjects, owner) {
			subjects = append(subjects, owner)
		}
	}
	own := ACE{Action: Allow, Subjects: subjects, Permissions: SetOf(Read, Manage)}
	return Object{Kind: KindOperation, Name: id, Owner: author, ACL: append(ACL{own}, list...)}
}

// RootACL is the list of the root of all paths in the beginning: users see
// everything and use every pool, administrators do everything. Whoever shows no
// token may do nothing.
func RootACL() ACL {
	return ACL{
		{Action: Allow, Subjects: []string{Users}, Permissions: SetOf(Read, Use)},
		{Action: Allow, Subjects: []string{Admins}, Permissions: AllPermissions},
	}
}

// OperationsACL is the list above all operations in the beginning. It is not that
// of the root: what jobs read and wrote is not for everybody.
func OperationsACL() ACL {
	return ACL{{Action: Allow, Subjects: []string{Admins}, Permissions: SetOf(Read, Manage, Administer)}}
}

// ReadOperation is what reading the private parts of an operation needs: standard
// error, inputs and specifications of its jobs.
func ReadOperation(operation Chain) Needs { return Requires(Read, operation) }

// ManageOperation is what aborting, completing, suspending and resuming an
// operation needs, and aborting its jobs.
func ManageOperation(operation Chain) Needs { return Requires(Manage, operation) }

// Place is where an operation is in one tree.
type Place struct {
	Tree string
	Pool Chain // of the nearest explicit pool
}

// OperationUpdate is which parameters of a running operation change.
type OperationUpdate struct {
	// Weight says that the weight changes in all trees, and WeightIn in which
	// trees it changes.
	Weight   bool
	WeightIn []string
	// Pools are the pools that the operation moves to.
	Pools []Chain
	// DetailedLogs says that detailed logs are switched.
	DetailedLogs bool
	// Other says that anything else changes: list, annotations, limits, filters.
	Other bool
}

// UpdateOperation is what a change of parameters needs. Who manages an operation
// changes everything, to pools that they may use. Who manages the pool it is in
// changes its weight there and nothing else.
func UpdateOperation(operation Chain, places []Place, u OperationUpdate) Needs {
	var needs Needs
	for _, place := range places {
		if u.Weight || slices.Contains(u.WeightIn, place.Tree) {
			needs = needs.add(Need{{Manage, operation}, {Manage, place.Pool}})
		}
	}
	inPlaces := func(tree string) bool {
		return slices.ContainsFunc(places, func(p Place) bool { return p.Tree == tree })
	}
	if u.Other || len(u.Pools) > 0 || u.Weight && len(places) == 0 ||
		slices.ContainsFunc(u.WeightIn, func(tree string) bool { return !inPlaces(tree) }) {
		needs = needs.add(Need{{Manage, operation}})
	}
	for _, pool := range u.Pools {
		needs = needs.add(Need{{Use, pool}})
	}
	if u.DetailedLogs {
		needs = needs.add(Need{{Administer, operation}})
	}
	if len(needs) == 0 {
		return Requires(Manage, operation) // nothing changes
	}
	return needs
}
