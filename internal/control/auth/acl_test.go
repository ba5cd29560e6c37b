package auth

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
)

func parseText(t interface {
	Helper()
	Fatal(...any)
}, text string) (ACL, error) {
	t.Helper()
	v, err := notation.Parse("", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return ParseACL(v)
}

func TestListsAreReadAsYTsaurusWritesThem(t *testing.T) {
	list, err := parseText(t, `[
		{action: allow, subjects: [ann, team], permissions: [read, write]},
		{"action": "deny", "subjects": "guest", "permissions": "use", "inheritance_mode": "descendants_only"},
		{action: allow, subjects: [owner], permissions: [modify, modify-children, administer], inheritance-mode: immediate-descendants-only},
	]`)
	want := ACL{
		{Allow, []string{"ann", "team"}, SetOf(Read, Write), ObjectAndDescendants},
		{Deny, []string{"guest"}, SetOf(Use), DescendantsOnly},
		{Allow, []string{"owner"}, SetOf(Write, ModifyChildren, Administer), ImmediateDescendantsOnly},
	}
	if err != nil || !list.Equal(want) {
		t.Errorf("%v, %v", list, err)
	}
	if got := list[1].Value().String(); got != "{action: deny, subjects: [guest], permissions: [use], inheritance_mode: descendants_only}" {
		t.Errorf("written as %s", got)
	}
	if list, err := parseText(t, "[]"); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestEverythingThatIsWrongWithAListIsSaid(t *testing.T) {
	list, err := parseText(t, strings.Join([]string{
		"- {action: alow, subjects: [a], permissions: [read]}",
		"- {action: allow, subjects: [a b], permissions: [raed]}",
		"- {subjects: [], permissions: [read], action: allow}",
		"- {action: allow, subjects: [a], permissions: [read], columns: [x]}",
		"- {action: deny}",
		"- 5",
		"-",
	}, "\n"))
	want := []string{
		`1:12: 0/action: must be allow or deny, not "alow"; did you mean "allow"?`,
		`2:30: 1/subjects/0: must be a name of 1 to 100 bytes without spaces, quotes, / and control characters, not "a b"`,
		`2:50: 1/permissions/0: must be one of read, write, use, manage, remove, create, modify_children, administer, mount, not "raed"; did you mean "read"?`,
		`3:3: 2: the entry needs at least one subject and one permission`,
		`4:55: 3/columns: unknown option`,
		`5:3: 4: the entry needs subjects`,
		`5:3: 4: the entry needs permissions`,
		`6:3: 5: must be a map, not 5`,
		`7:2: 6: the entry needs action`,
		`7:2: 6: the entry needs subjects`,
		`7:2: 6: the entry needs permissions`,
	}
	if err == nil || list != nil {
		t.Fatalf("accepted: %v", list)
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{"{}", "allow", "null"} {
		if _, err := parseText(t, text); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
	long := "[" + strings.Repeat("{action: allow, subjects: [a], permissions: [read]},", MaxEntries+1) + "]"
	if _, err := parseText(t, long); err == nil || !strings.Contains(err.Error(), "has 1001 entries; the limit is 1000") {
		t.Errorf("says %v", err)
	}
	wide := "[{action: allow, subjects: [" + strings.Repeat("a,", MaxSubjects+1) + "], permissions: [read]}]"
	if _, err := parseText(t, wide); err == nil || !strings.Contains(err.Error(), "has 1001 subjects") {
		t.Errorf("says %v", err)
	}
}

func TestARemovedSubjectLeavesLists(t *testing.T) {
	list := ACL{
		{Allow, []string{"ann", "bob"}, SetOf(Read), 0}, {Allow, []string{"ann"}, SetOf(Use), 0}, {Deny, []string{"bob"}, SetOf(Use), 0},
	}
	rest := list.Without("ann")
	want := ACL{{Allow, []string{"bob"}, SetOf(Read), 0}, {Deny, []string{"bob"}, SetOf(Use), 0}}
	if !rest.Equal(want) || len(list[0].Subjects) != 2 {
		t.Errorf("%v of %v", rest, list)
	}
}

func TestNamesOfPermissions(t *testing.T) {
	for p := range permissionCount {
		if back, err := ParsePermission(p.String()); err != nil || back != p {
			t.Errorf("%v reads as %v, %v", p, back, err)
		}
	}
	if p, err := ParsePermission("modify-children"); err != nil || p != ModifyChildren {
		t.Errorf("%v, %v", p, err)
	}
	if _, err := ParsePermission("raed"); err == nil || !strings.Contains(err.Error(), `did you mean "read"?`) {
		t.Errorf("says %v", err)
	}
	if got := AllPermissions.String(); strings.Count(got, ",") != int(permissionCount)-1 {
		t.Errorf("all are %s", got)
	}
}

func TestRefusalsNameWhatDecided(t *testing.T) {
	d := people(t)
	objects := emptyObjects()
	objects[1].ACL = ACL{{Allow, []string{Users}, SetOf(Use), 0}, {Deny, []string{"ann", "dept"}, SetOf(Use), DescendantsOnly}}
	w := newWorld(objects)
	for _, test := range []struct {
		user  string
		needs Needs
		says  string
		code  int
	}{
		{"bob", UsePool(w.b), `Access denied for user "bob": "use" permission for pool "b" is denied for "dept" by entry 1 at pool tree "default"`, 901},
		{"guest", UsePool(w.b), `Access denied for user "guest": "use" permission for pool "b" is not allowed by any matching ACE`, 901},
		{"bob", SetPool(w.b, "mode", "weight"), `Access denied for user "bob": "write" permission for pool "b" is not allowed by any matching ACE`, 901},
		{"bob", SetPool(w.b, "weight"), `Access denied for user "bob": "write" permission for pool "a" is not allowed by any matching ACE`, 901},
		{"bob", SetPool(w.b, "owner"), `Access denied for user "bob": "administer" permission for the cluster is not allowed by any matching ACE`, 901},
		{"max", UsePool(w.b), `Access denied: user "max" is banned`, 901},
		{"nobody", UsePool(w.b), `No such user "nobody"`, 910},
	} {
		answer := d.Decide(test.user, test.needs)
		var denied *Denied
		if err := answer.Err(); !errors.As(err, &denied) || err.Error() != test.says || denied.Code() != test.code {
			t.Errorf("says %v\nwant %s", err, test.says)
		}
	}
	if answer := d.Decide("eve", UsePool(w.b)); !answer.Allowed || answer.Subject != Users || answer.DecidedAt != `pool tree "default"` || answer.Entry != 0 {
		t.Errorf("%+v", answer)
	}
	if answer := d.Decide("ann", nil); !answer.Allowed || answer.Reason != NothingNeeded {
		t.Errorf("%+v", answer)
	}
}

// The default lists: users may read and use, administrators may manage, the guest may do nothing.
// Only the author and administrators may read the output of jobs.
func TestListsOfTheBeginning(t *testing.T) {
	d := people(t)
	objects := emptyObjects()
	objects[0].ACL = RootACL()
	objects[6] = OperationObject("1-2-3-4", "ann", []string{"max", "ann"}, ACL{{Allow, []string{"team"}, SetOf(Read), 0}})
	w := newWorld(objects)
	for _, test := range []struct {
		user                                       string
		see, use, write, administer, stderr, abort bool
	}{
		{"ann", true, true, false, false, true, true},
		{"bob", true, true, false, false, true, false},
		{"eve", true, true, true, true, true, true},
		{"sue", true, true, true, true, true, true},
		{"guest", false, false, false, false, false, false},
		{"max", false, false, false, false, false, false},
	} {
		may := func(n Needs) bool { return d.Decide(test.user, n).Allowed }
		got := test
		got.see, got.use, got.write = may(Requires(Read, w.b)), may(UsePool(w.b)), may(SetPool(w.b, "mode", "weight"))
		got.administer, got.stderr, got.abort = may(SetPool(w.b, "acl", "fair_share_preemption_timeout")), may(ReadOperation(w.op)), may(ManageOperation(w.op))
		if got != test {
			t.Errorf("%+v, want %+v", got, test)
		}
	}
}

// The owner of a pool may divide its guarantee but not raise it.
func TestAnOwnerCannotRaiseTheirOwnGuarantee(t *testing.T) {
	d := people(t)
	objects := emptyObjects()
	objects[0].ACL = RootACL()
	objects[2].ACL = ACL{{Allow, []string{"team"}, SetOf(Write, Remove, Administer), 0}}
	w := newWorld(objects)
	for _, option := range []string{"strong_guarantee_resources", "min_share_resources", "integral-guarantees", "weight", "resource_limits", "max_operation_count"} {
		if d.Decide("bob", SetPool(w.a, option)).Allowed {
			t.Errorf("the owner of a changes its own %s", option)
		}
		if !d.Decide("bob", SetPool(w.b, option)).Allowed || !d.Decide("bob", CreatePool(w.a, option)).Allowed {
			t.Errorf("the owner of a cannot divide its %s", option)
		}
		if !IsGranted(option) {
			t.Errorf("%s is not granted", option)
		}
	}
	for _, needs := range []Needs{SetPool(w.a, "mode"), SetPool(w.a, "acl"), RemovePool(w.b, w.c), TransferPoolResources(w.c, w.b), MovePool(w.c, w.a)} {
		if answer := d.Decide("bob", needs); !answer.Allowed {
			t.Error(answer.Err())
		}
	}
	for _, needs := range []Needs{
		RemovePool(w.a, w.b, w.c), RenamePool(w.a), MovePool(w.c, w.x), TransferPoolResources(w.x, w.b), SetPool(w.b, "fair_share_preemption_timeout"), SetTree(w.tree, "config"),
	} {
		if answer := d.Decide("bob", needs); answer.Allowed {
			t.Errorf("allowed: %+v", answer)
		}
	}
}

func FuzzACL(f *testing.F) {
	for _, seed := range []string{
		"[]", "[{action: allow, subjects: [a], permissions: [read]}]", "[{action: deny, subjects: owner, permissions: modify, inheritance_mode: object_only}]",
		"[{action: allow, subjects: [], permissions: []}]", "[1, {}, null]", "{a: b}", "[{action: allow, subjects: [a, a], permissions: [read, read]}]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := notation.Parse("", data)
		if err != nil {
			return
		}
		list, err := ParseACL(v)
		if err != nil {
			var problems document.Problems
			if !errors.As(err, &problems) || len(problems) == 0 {
				t.Fatalf("refused with %T", err)
			}
			return
		}
		back, err := ParseACL(list.Value())
		if err != nil || !back.Equal(list) {
			t.Fatalf("%v is written as %v and read as %v, %v", list, list.Value(), back, err)
		}
		for _, e := range list {
			if len(e.Subjects) == 0 || e.Permissions == 0 {
				t.Fatalf("an entry that does nothing: %v", e)
			}
		}
	})
}
