package auth

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// people returns a directory: ann alone, bob in team in dept, eve in administrators, sue in
// superusers, max banned.
func people(t interface {
	Helper()
	Fatal(...any)
}) *Directory {
	t.Helper()
	d, err := NewDirectory().With(
		AddUser{"ann"}, AddUser{"bob"}, AddUser{"eve"}, AddUser{"sue"}, AddUser{"max"}, AddGroup{"team"}, AddGroup{"dept"}, AddGroup{"wheel"},
		AddMember{"bob", "team"}, AddMember{"team", "dept"}, AddMember{"eve", Admins}, AddMember{"wheel", Superusers}, AddMember{"sue", "wheel"},
		AddMember{"max", "dept"}, SetBanned{"max", true})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// everybody lists the users of people, the guest and a user who does not exist.
var everybody = []string{"root", "guest", "ann", "bob", "eve", "sue", "max", "nobody"}

// twin is the slow and obvious implementation of the rules: it builds the whole effective list
// and searches groups from the top.
type twin struct {
	d *Directory
}

func (w twin) isMember(user, group string) bool {
	for _, member := range w.d.Members(group) {
		if member == user || w.d.IsGroup(member) && w.isMember(user, member) {
			return true
		}
	}
	return false
}

func (w twin) can(user string, p Permission, chain Chain) bool {
	if !slices.Contains(w.d.UserNames(), user) || w.d.IsBanned(user) {
		return false
	}
	if w.isMember(user, "superusers") {
		return true
	}
	var actions []string
	for distance, object := range chain {
		for _, entry := range object.ACL {
			reaches := map[string]bool{
				"object_and_descendants": true, "object_only": distance == 0,
				"descendants_only": distance >= 1, "immediate_descendants_only": distance == 1,
			}[entry.Inheritance.String()]
			named := slices.ContainsFunc(entry.Subjects, func(s string) bool {
				return s == user || w.isMember(user, s) || s == "owner" && chain[0].Owner == user
			})
			if reaches && named && slices.Contains(strings.Split(entry.Permissions.String(), ", "), p.String()) {
				actions = append(actions, entry.Action.String())
			}
		}
		if object.Isolated {
			break
		}
	}
	return slices.Contains(actions, "allow") && !slices.Contains(actions, "deny")
}

// world is a tree of pools a/b/c and x, and an operation of ann in a/b.
type world struct {
	root, tree, a, b, c, x, op Chain
}

// newWorld arranges objects, root first: root, tree, a, b, c, x, operation.
func newWorld(objects [7]Object) world {
	chain := func(slots ...int) (c Chain) {
		for _, i := range slots {
			c = append(c, objects[i])
		}
		return c
	}
	above := Object{Kind: KindNode, Name: "operations", ACL: OperationsACL()}
	return world{
		root: chain(0), tree: chain(1, 0), a: chain(2, 1, 0), b: chain(3, 2, 1, 0), c: chain(4, 3, 2, 1, 0), x: chain(5, 1, 0),
		op: append(chain(6), above),
	}
}

func emptyObjects() (objects [7]Object) {
	kinds := [7]Kind{KindNode, KindTree, KindPool, KindPool, KindPool, KindPool, KindOperation}
	for i, name := range []string{"/", "default", "a", "b", "c", "x", "1-2-3-4"} {
		objects[i] = Object{Kind: kinds[i], Name: name, Owner: "ann"}
	}
	objects[6] = OperationObject("1-2-3-4", "ann", nil, nil)
	return objects
}

// command is an action: the permissions that the package requires for it, and the same rule in
// plain words.
type command struct {
	name  string
	needs func(w world) Needs
	plain func(can func(Permission, Chain) bool, w world) bool
}

var commands = []command{
	{"start an operation in b", func(w world) Needs { return UsePool(w.b) },
		func(can func(Permission, Chain) bool, w world) bool { return can(Use, w.b) }},
	{"set the mode of b", func(w world) Needs { return SetPool(w.b, "mode") },
		func(can func(Permission, Chain) bool, w world) bool { return can(Write, w.b) }},
	{"set an attribute of b that nobody knows", func(w world) Needs { return SetPool(w.b, "colour") },
		func(can func(Permission, Chain) bool, w world) bool { return can(Write, w.b) }},
	{"set nothing of b", func(w world) Needs { return SetPool(w.b) },
		func(can func(Permission, Chain) bool, w world) bool { return can(Write, w.b) }},
	{"set the guarantee of b", func(w world) Needs { return SetPool(w.b, "strong_guarantee_resources") },
		func(can func(Permission, Chain) bool, w world) bool { return can(Write, w.a) }},
	{"set the guarantee of a", func(w world) Needs { return SetPool(w.a, "min_share_resources") },
		func(can func(Permission, Chain) bool, w world) bool { return can(Write, w.tree) }},
	{"set the integral guarantee and the mode of c", func(w world) Needs { return SetPool(w.c, "integral-guarantees", "mode") },
		func(can func(Permission, Chain) bool, w world) bool { return can(Write, w.b) && can(Write, w.c) }},
	{"set a timeout of b", func(w world) Needs { return SetPool(w.b, "fair_share_preemption_timeout") },
		func(can func(Permission, Chain) bool, w world) bool { return can(Administer, w.tree) }},
	{"set the list of b", func(w world) Needs { return SetPool(w.b, "acl") },
		func(can func(Permission, Chain) bool, w world) bool { return can(Administer, w.b) }},
	{"set the owner of b", func(w world) Needs { return SetPool(w.b, "owner") },
		func(can func(Permission, Chain) bool, w world) bool { return can(Administer, nil) }},
	{"create a pool in b", func(w world) Needs { return CreatePool(w.b) },
		func(can func(Permission, Chain) bool, w world) bool {
			return can(ModifyChildren, w.b) || can(Write, w.b)
		}},
	{"create a pool with a mode in b", func(w world) Needs { return CreatePool(w.b, "mode") },
		func(can func(Permission, Chain) bool, w world) bool {
			return can(ModifyChildren, w.b) || can(Write, w.b)
		}},
	{"create a pool with a guarantee in b", func(w world) Needs { return CreatePool(w.b, "mode", "weight") },
		func(can func(Permission, Chain) bool, w world) bool { return can(Write, w.b) }},
	{"create a pool with a list in b", func(w world) Needs { return CreatePool(w.b, "acl") },
		func(can func(Permission, Chain) bool, w world) bool {
			return (can(ModifyChildren, w.b) || can(Write, w.b)) && can(Administer, w.b)
		}},
	{"remove b and c", func(w world) Needs { return RemovePool(w.b, w.c) },
		func(can func(Permission, Chain) bool, w world) bool {
			return can(Remove, w.b) && can(Remove, w.c) && (can(ModifyChildren, w.a) || can(Write, w.a))
		}},
	{"rename b", func(w world) Needs { return RenamePool(w.b) },
		func(can func(Permission, Chain) bool, w world) bool {
			return can(Write, w.b) && (can(ModifyChildren, w.a) || can(Write, w.a))
		}},
	{"move c to x", func(w world) Needs { return MovePool(w.c, w.x) },
		func(can func(Permission, Chain) bool, w world) bool {
			return can(Write, w.c) && can(Write, w.b) && can(Write, w.x)
		}},
	{"transfer from c to b", func(w world) Needs { return TransferPoolResources(w.c, w.b) },
		func(can func(Permission, Chain) bool, w world) bool { return can(Write, w.b) }},
	{"transfer from c to x", func(w world) Needs { return TransferPoolResources(w.c, w.x) },
		func(can func(Permission, Chain) bool, w world) bool {
			return can(Write, w.b) && can(Write, w.a) && can(Write, w.tree)
		}},
	{"set the configuration of the tree", func(w world) Needs { return SetTree(w.tree, "config") },
		func(can func(Permission, Chain) bool, w world) bool { return can(Write, w.tree) }},
	{"set the list of the tree", func(w world) Needs { return SetTree(w.tree, "acl", "x") },
		func(can func(Permission, Chain) bool, w world) bool {
			return can(Administer, w.tree) && can(Write, w.tree)
		}},
	{"create a tree", func(w world) Needs { return Requires(Create, w.root) },
		func(can func(Permission, Chain) bool, w world) bool { return can(Create, w.root) }},
	{"read the standard error", func(w world) Needs { return ReadOperation(w.op) },
		func(can func(Permission, Chain) bool, w world) bool { return can(Read, w.op) }},
	{"abort", func(w world) Needs { return ManageOperation(w.op) },
		func(can func(Permission, Chain) bool, w world) bool { return can(Manage, w.op) }},
	{"change the weight", func(w world) Needs {
		return UpdateOperation(w.op, []Place{{"default", w.b}}, OperationUpdate{Weight: true})
	}, func(can func(Permission, Chain) bool, w world) bool { return can(Manage, w.op) || can(Manage, w.b) }},
	{"change the weight in two trees", func(w world) Needs {
		return UpdateOperation(w.op, []Place{{"default", w.b}, {"gpu", w.x}}, OperationUpdate{Weight: true})
	}, func(can func(Permission, Chain) bool, w world) bool {
		return can(Manage, w.op) || can(Manage, w.b) && can(Manage, w.x)
	}},
	{"change the weight in one of two trees", func(w world) Needs {
		return UpdateOperation(w.op, []Place{{"default", w.b}, {"gpu", w.x}}, OperationUpdate{WeightIn: []string{"gpu"}})
	}, func(can func(Permission, Chain) bool, w world) bool { return can(Manage, w.op) || can(Manage, w.x) }},
	{"change the weight in a tree where it is not", func(w world) Needs {
		return UpdateOperation(w.op, []Place{{"default", w.b}}, OperationUpdate{WeightIn: []string{"gpu"}})
	}, func(can func(Permission, Chain) bool, w world) bool { return can(Manage, w.op) }},
	{"change the weight and annotations", func(w world) Needs {
		return UpdateOperation(w.op, []Place{{"default", w.b}}, OperationUpdate{Weight: true, Other: true})
	}, func(can func(Permission, Chain) bool, w world) bool { return can(Manage, w.op) }},
	{"move the operation to x", func(w world) Needs {
		return UpdateOperation(w.op, []Place{{"default", w.b}}, OperationUpdate{Pools: []Chain{w.x}})
	}, func(can func(Permission, Chain) bool, w world) bool { return can(Manage, w.op) && can(Use, w.x) }},
	{"switch detailed logs", func(w world) Needs {
		return UpdateOperation(w.op, nil, OperationUpdate{DetailedLogs: true})
	}, func(can func(Permission, Chain) bool, w world) bool { return can(Administer, w.op) }},
	{"update nothing", func(w world) Needs { return UpdateOperation(w.op, nil, OperationUpdate{}) },
		func(can func(Permission, Chain) bool, w world) bool { return can(Manage, w.op) }},
}

// TestTheMatrix tries every user with every command in every world that differs by one entry: its
// action, subject, permission, inheritance and position; with and without a list that allows
// everything, and with inheritance cut at a pool. Superusers and unknown users, for whom the
// world does not matter, are tested below.
func TestTheMatrix(t *testing.T) {
	d := people(t)
	slow := twin{d}
	decisions, allowed := 0, 0
	for _, base := range []ACL{nil, {{Action: Allow, Subjects: []string{Users}, Permissions: AllPermissions}}} {
		for _, isolated := range []int{-1, 3} {
			for place := range 7 {
				for _, action := range []Action{Allow, Deny} {
					for _, subject := range []string{"dept", Everyone, Owner} {
						for p := range Mount { // all but Mount, which has no effect
							for mode := range inheritanceCount {
								objects := emptyObjects()
								objects[0].ACL = base
								if isolated >= 0 {
									objects[isolated].Isolated = true
								}
								entry := ACE{Action: action, Subjects: []string{subject}, Permissions: SetOf(p), Inheritance: mode}
								objects[place].ACL = append(slices.Clone(objects[place].ACL), entry)
								w := newWorld(objects)
								n, yes := checkWorld(t, d, slow, w, fmt.Sprintf("base %v, isolated %d, place %d, %v", base != nil, isolated, place, entry.Value()))
								decisions, allowed = decisions+n, allowed+yes
							}
						}
					}
				}
			}
		}
	}
	t.Logf("%d decisions of %d commands, %d allowed", decisions, len(commands), allowed)
	if decisions < 800_000 || allowed < decisions/10 || allowed > decisions*9/10 {
		t.Errorf("%d decisions, %d allowed: the matrix is not what it was", decisions, allowed)
	}
}

// checkWorld compares every user and command with the plain rules. It asks the twin once for each
// pair of permission and object.
func checkWorld(t *testing.T, d *Directory, slow twin, w world, what string) (decisions, allowed int) {
	t.Helper()
	for _, user := range []string{"guest", "ann", "bob", "eve", "max"} {
		type question struct {
			p     Permission
			place string
		}
		known := map[question]bool{}
		can := func(p Permission, chain Chain) bool {
			q := question{p, ""}
			if len(chain) > 0 {
				q.place = chain[0].Name
			}
			answer, asked := known[q]
			if !asked {
				answer = slow.can(user, p, chain)
				known[q] = answer
			}
			return answer
		}
		for _, c := range commands {
			answer := d.Decide(user, c.needs(w))
			decisions++
			if answer.Allowed {
				allowed++
			}
			if answer.Allowed != c.plain(can, w) {
				t.Fatalf("%s: %s by %s is %+v", what, c.name, user, answer)
			}
			checkAnswer(t, answer)
		}
	}
	return decisions, allowed
}

// checkAnswer checks that the parts of an answer agree.
func checkAnswer(t *testing.T, a Answer) {
	byEntry := a.Reason == AllowedByEntry || a.Reason == DeniedByEntry
	switch {
	case a.Allowed != (a.Reason == AllowedByEntry || a.Reason == BySuperuser || a.Reason == NothingNeeded),
		byEntry != (a.DecidedAt != ""), byEntry != (a.Subject != ""),
		byEntry && (!a.ACE.Permissions.Has(a.Permission) || a.ACE.Action == Allow != a.Allowed || !slices.Contains(a.ACE.Subjects, a.Subject)),
		(a.Err() == nil) != a.Allowed:
		t.Fatalf("the answer contradicts itself: %+v", a)
	}
}

func TestSuperusersMayDoEverythingAndNobodyNothing(t *testing.T) {
	d := people(t)
	w := newWorld(emptyObjects())
	for _, c := range commands {
		for user, want := range map[string]bool{"root": true, "sue": true, "nobody": false, "max": false, "guest": false} {
			answer := d.Decide(user, c.needs(w))
			checkAnswer(t, answer)
			if answer.Allowed != want {
				t.Errorf("%s by %s: %+v", c.name, user, answer)
			}
		}
	}
}

// Random lists on random chains agree with the twin.
func TestCheckAgreesWithTheTwin(t *testing.T) {
	d := people(t)
	slow := twin{d}
	subjects := rapid.SampledFrom([]string{"ann", "bob", "eve", "max", "team", "dept", "wheel", Users, Everyone, Admins, Owner, Guest, "gone"})
	rapid.Check(t, func(t *rapid.T) {
		chain := make(Chain, rapid.IntRange(0, 5).Draw(t, "depth"))
		for i := range chain {
			chain[i] = Object{Name: fmt.Sprint(i), Owner: subjects.Draw(t, "owner"), Isolated: rapid.IntRange(0, 4).Draw(t, "isolated") == 0}
			for range rapid.IntRange(0, 4).Draw(t, "entries") {
				chain[i].ACL = append(chain[i].ACL, ACE{
					Action:      Action(min(1, rapid.IntRange(0, 4).Draw(t, "action")/4)),
					Subjects:    rapid.SliceOfN(subjects, 1, 3).Draw(t, "subjects"),
					Permissions: Permissions(rapid.IntRange(1, int(AllPermissions)).Draw(t, "permissions")),
					Inheritance: Inheritance(rapid.IntRange(0, int(inheritanceCount)-1).Draw(t, "inheritance")),
				})
			}
		}
		for _, user := range everybody {
			for p := range permissionCount {
				if got := d.Check(user, p, chain); got.Allowed != slow.can(user, p, chain) {
					t.Fatalf("%s, %v: %+v", user, p, got)
				}
			}
		}
	})
}

// Somebody who is no user has the permissions of a group, of all users, and its own.
func TestMembersWhoAreNoUsers(t *testing.T) {
	d := people(t)
	object := func(action Action, subject string) Chain {
		return Chain{{Name: "pool", ACL: ACL{{action, []string{subject}, SetOf(Use), 0}}}}
	}
	for subject, want := range map[string]bool{"namespace:shop": true, "namespaces": true, Users: true, Everyone: true, "namespace:other": false, Admins: false} {
		if got := d.CheckMember("namespace:shop", "namespaces", Use, object(Allow, subject)); got.Allowed != want {
			t.Errorf("allowed to %s: %+v", subject, got)
		}
	}
	if d.CheckMember("namespace:shop", "namespaces", Use, append(object(Deny, "namespaces"), object(Allow, Users)...)).Allowed {
		t.Error("an entry that denies wins")
	}
}

func BenchmarkDecide(b *testing.B) {
	d := people(b)
	objects := emptyObjects()
	objects[0].ACL = RootACL()
	objects[2].ACL = ACL{{Allow, []string{"dept"}, SetOf(Write), 0}}
	w := newWorld(objects)
	for b.Loop() {
		if !d.Decide("bob", SetPool(w.c, "weight", "mode")).Allowed {
			b.Fatal("refused")
		}
	}
}
