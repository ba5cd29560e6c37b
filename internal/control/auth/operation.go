package auth

import "slices"

// OperationObject returns an operation as an object with an access control list.
// Its author, its owners (an older option) and the subjects of its own list may
// read and manage it.
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

// RootACL is the initial list of the root of all paths: users see everything and
// use every pool, administrators do everything. Requests without a token may do
// nothing.
func RootACL() ACL {
	return ACL{
		{Action: Allow, Subjects: []string{Users}, Permissions: SetOf(Read, Use)},
		{Action: Allow, Subjects: []string{Admins}, Permissions: AllPermissions},
	}
}

// OperationsACL is the initial list above all operations. It differs from the
// root's, because what jobs read and wrote is not for everyone.
func OperationsACL() ACL {
	return ACL{{Action: Allow, Subjects: []string{Admins}, Permissions: SetOf(Read, Manage, Administer)}}
}

// ReadOperation is what reading the private parts of an operation needs: its
// jobs' standard error, inputs and specifications.
func ReadOperation(operation Chain) Needs { return Requires(Read, operation) }

// ManageOperation is what aborting, completing, suspending and resuming an
// operation needs, and aborting its jobs.
func ManageOperation(operation Chain) Needs { return Requires(Manage, operation) }

// Place is where an operation is in one tree.
type Place struct {
	Tree string
	Pool Chain // of the nearest explicit pool
}

// OperationUpdate lists which parameters of a running operation change.
type OperationUpdate struct {
	// Weight reports whether the weight changes in all trees; WeightIn lists the
	// trees in which it changes.
	Weight   bool
	WeightIn []string
	// Pools are the pools that the operation moves to.
	Pools []Chain
	// DetailedLogs reports whether detailed logs are switched.
	DetailedLogs bool
	// Other reports whether anything else changes: list, annotations, limits,
	// filters.
	Other bool
}

// UpdateOperation is what a change of parameters needs. A user who manages the
// operation may change everything, and may move it to pools that they may use. A
// user who manages its pool may change its weight there and nothing else.
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
