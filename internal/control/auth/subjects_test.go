package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/value/document"
)

func TestSubjectsThatAreAlwaysThere(t *testing.T) {
	d := NewDirectory()
	if diff := cmp.Diff([]string{"guest", "root"}, d.UserNames()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"admins", "everyone", "superusers", "users"}, d.GroupNames()); diff != "" {
		t.Error(diff)
	}
	if got := fmt.Sprint(d.Closure("root"), d.Closure("guest"), d.MemberOf("users"), d.Members("everyone")); got != "[everyone root superusers users] [everyone guest] [everyone] [guest users]" {
		t.Error(got)
	}
	if !d.IsSuperuser("root") || d.IsSuperuser("guest") || d.IsSuperuser("superusers") || d.IsSuperuser("nobody") {
		t.Error("the wrong ones are superusers")
	}
}

func TestChangesThatAreRefused(t *testing.T) {
	for _, test := range []struct {
		change Change
		want   error
	}{
		{AddUser{"ann"}, ErrExists}, {AddUser{"team"}, ErrExists}, {AddUser{"owner"}, ErrExists}, {AddUser{""}, ErrName}, {AddUser{"a b"}, ErrName},
		{AddUser{strings.Repeat("x", 101)}, ErrName}, {AddUser{"a/b"}, ErrName}, {AddUser{"a\x00"}, ErrName},
		{AddGroup{"ann"}, ErrExists}, {AddGroup{"users"}, ErrExists}, {AddGroup{"'"}, ErrName},
		{RemoveUser{"nobody"}, ErrUnknown}, {RemoveUser{"team"}, ErrUnknown}, {RemoveUser{"root"}, ErrBuiltin}, {RemoveUser{"guest"}, ErrBuiltin},
		{RemoveGroup{"ann"}, ErrUnknown}, {RemoveGroup{"users"}, ErrBuiltin}, {RemoveGroup{"admins"}, ErrBuiltin},
		{AddMember{"ann", "nothing"}, ErrUnknown}, {AddMember{"nobody", "team"}, ErrUnknown}, {AddMember{"owner", "team"}, ErrUnknown},
		{AddMember{"bob", "team"}, ErrMember}, {AddMember{"dept", "team"}, ErrCycle}, {AddMember{"team", "team"}, ErrCycle}, {AddMember{"superusers", "wheel"}, ErrCycle},
		{AddMember{"ann", "users"}, ErrBuiltin}, {AddMember{"team", "everyone"}, ErrBuiltin},
		{AddMember{"guest", "admins"}, ErrPower}, {AddMember{"everyone", "superusers"}, ErrPower},
		{RemoveMember{"ann", "team"}, ErrNot}, {RemoveMember{"root", "superusers"}, ErrBuiltin}, {RemoveMember{"ann", "users"}, ErrBuiltin},
		{RemoveMember{"nobody", "team"}, ErrUnknown}, {SetBanned{"nobody", true}, ErrUnknown}, {SetBanned{"root", true}, ErrBuiltin},
	} {
		t.Run(fmt.Sprintf("%T %+v", test.change, test.change), func(t *testing.T) {
			d := people(t)
			next, err := d.With(test.change)
			if !errors.Is(err, test.want) || next != nil {
				t.Errorf("says %v, want %v", err, test.want)
			}
		})
	}
}

// The guest must not gain permissions through a group either.
func TestTheGuestGetsNoPowerThroughGroups(t *testing.T) {
	d, err := NewDirectory().With(AddGroup{"g"}, AddMember{"g", Admins})
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{Guest, Everyone} {
		if _, err := d.With(AddMember{member, "g"}); !errors.Is(err, ErrPower) {
			t.Errorf("%s becomes an administrator: %v", member, err)
		}
	}
	d, err = NewDirectory().With(AddGroup{"g"}, AddMember{Guest, "g"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.With(AddMember{"g", Superusers}); !errors.Is(err, ErrPower) {
		t.Errorf("a group with the guest becomes superuser: %v", err)
	}
}

func TestAllThatIsWrongWithChangesIsSaidAndNothingIsDone(t *testing.T) {
	d := people(t)
	_, err := d.With(AddUser{"new"}, AddUser{"ann"}, RemoveGroup{"users"})
	if !errors.Is(err, ErrExists) || !errors.Is(err, ErrBuiltin) || d.IsUser("new") {
		t.Errorf("says %v", err)
	}
}

// Random histories of changes keep membership free of cycles and consistent in both directions,
// and leave older directories unchanged.
func TestHistoriesOfTheDirectory(t *testing.T) {
	names := rapid.SampledFrom([]string{"u1", "u2", "u3", "g1", "g2", "g3", "g4", "guest", "root", "users", "everyone", "superusers", "admins"})
	rapid.Check(t, func(t *rapid.T) {
		d := NewDirectory()
		for range rapid.IntRange(0, 40).Draw(t, "length") {
			a, b := names.Draw(t, "a"), names.Draw(t, "b")
			c, e := names.Draw(t, "c"), names.Draw(t, "e")
			changes := []Change{AddUser{a}, AddGroup{a}, AddMember{a, b}, AddMember{a, b}, RemoveMember{a, b}, RemoveUser{a}, RemoveGroup{a}, SetBanned{a, b < "n"}}
			before := describe(d)
			next, err := d.With(changes[rapid.IntRange(0, len(changes)-1).Draw(t, "change")],
				[]Change{AddMember{c, e}, RemoveMember{c, e}, SetBanned{c, false}, AddGroup{c}}[rapid.IntRange(0, 3).Draw(t, "second")])
			if after := describe(d); before != after {
				t.Fatalf("the older directory changed from\n%s\nto\n%s", before, after)
			}
			if err == nil {
				d = next
			}
			checkDirectory(t, d)
		}
	})
}

// A whole directory is loaded from the store as a series of changes.
func BenchmarkDirectoryOf10000Users(b *testing.B) {
	var changes []Change
	for g := range 100 {
		changes = append(changes, AddGroup{fmt.Sprint("g", g)})
	}
	for u := range 10_000 {
		name := fmt.Sprint("u", u)
		changes = append(changes, AddUser{name}, AddMember{name, fmt.Sprint("g", u%100)})
	}
	for b.Loop() {
		if _, err := NewDirectory().With(changes...); err != nil {
			b.Fatal(err)
		}
	}
}

func describe(d *Directory) string {
	var b strings.Builder
	for _, name := range append(d.UserNames(), d.GroupNames()...) {
		fmt.Fprintln(&b, name, d.IsBanned(name), d.Members(name), d.MemberOf(name))
	}
	return b.String()
}

func checkDirectory(t *rapid.T, d *Directory) {
	slow := twin{d}
	for _, group := range d.GroupNames() {
		if !slices.IsSorted(d.Members(group)) {
			t.Fatalf("members of %s are %v", group, d.Members(group))
		}
		for _, member := range d.Members(group) {
			if !slices.Contains(d.MemberOf(member), group) {
				t.Fatalf("%s is in %s on one side only", member, group)
			}
			// isMember would not return if there were a cycle.
			if member == group || d.IsGroup(member) && slices.Contains(d.Closure(group), member) {
				t.Fatalf("%s and %s are a cycle", member, group)
			}
		}
	}
	for _, user := range d.UserNames() {
		closure := d.Closure(user)
		for _, group := range d.GroupNames() {
			if slices.Contains(closure, group) != slow.isMember(user, group) {
				t.Fatalf("%s in %s: closure %v", user, group, closure)
			}
		}
		if slices.Contains(closure, Users) != (user != Guest) || !slices.Contains(closure, Everyone) {
			t.Fatalf("%s is in %v", user, closure)
		}
	}
	if d.IsSuperuser(Guest) || slices.Contains(d.Closure(Guest), Admins) || !d.IsSuperuser(Root) {
		t.Fatal("the guest has power, or root has none")
	}
}

func TestListsWithUnknownSubjects(t *testing.T) {
	d := people(t)
	r := document.NewReader("")
	d.CheckACL(r, ACL{
		{Subjects: []string{"ann", "owner", "team"}}, {Subjects: []string{"an", "nobodyatall"}},
	})
	want := "1/subjects: no such user or group: \"an\"; did you mean \"ann\"?\n1/subjects: no such user or group: \"nobodyatall\""
	if got := r.Problems().Error(); got != want {
		t.Errorf("says\n%s\nwant\n%s", got, want)
	}
}
