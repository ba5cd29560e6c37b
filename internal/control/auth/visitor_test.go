package auth

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/value/document"
)

func TestOnlyTokensOfOthersAreForeign(t *testing.T) {
	for header, want := range map[string]string{
		"Bearer eyJhbGciOi": "eyJhbGciOi", "oauth  x": "x", "Bearer weir_abc": "", "Basic eyJ": "", "": "", "Bearer": "", "Bearer  ": "",
	} {
		if got, found := ForeignToken(header); found != (want != "") || found && got != want {
			t.Errorf("%q: %q, %v", header, got, found)
		}
	}
}

// A visitor has the rights of its names, and no names give power that only Weir may give.
func TestAVisitorIsAUserInItsGroups(t *testing.T) {
	base, err := NewDirectory().With(AddUser{"anna"}, AddGroup{"team"}, AddMember{"anna", "team"}, AddUser{"bad"}, SetBanned{"bad", true})
	if err != nil {
		t.Fatal(err)
	}
	d, err := base.Admit(Visitor{User: "system:serviceaccount:ml:train", Groups: []string{"system:serviceaccounts:ml", "team", Superusers, Admins, "not a name", "anna"}})
	if err != nil {
		t.Fatal(err)
	}
	const name = "system:serviceaccount:ml:train"
	if got := d.Closure(name); !slices.Equal(got, []string{Everyone, name, "system:serviceaccounts:ml", "team", Users}) {
		t.Errorf("it is in %q", got)
	}
	if !d.IsUser(name) || d.IsSuperuser(name) || base.IsUser(name) {
		t.Error("it is a user of one request, without power")
	}
	who, err := d.Authenticate(nil, Credentials{Authorization: "Bearer x", Visitor: name}, time.Unix(0, 0))
	if err != nil || who.User != name || who.Open {
		t.Errorf("%+v, %v", who, err)
	}
	powerful, err := base.Admit(Visitor{User: "admin", Powerful: true})
	if err != nil || !powerful.IsSuperuser("admin") {
		t.Errorf("an administrator of the cluster: %v", err)
	}
	for _, name := range []string{Root, Guest, Everyone, Superusers, "team", "a/b", ""} {
		if _, err := base.Admit(Visitor{User: name}); !errors.Is(err, ErrVisitorName) && !errors.Is(err, ErrVisitorRole) {
			t.Errorf("%q: %v", name, err)
		}
	}
	banned, err := base.Admit(Visitor{User: "bad"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := banned.Authenticate(nil, Credentials{Visitor: "bad"}, time.Unix(0, 0)); !errors.Is(err, ErrBanned) {
		t.Errorf("a banned user: %v", err)
	}
}

func TestListsOfAWelcomingServerMayNameAnybody(t *testing.T) {
	list := ACL{{Action: Allow, Subjects: []string{"system:serviceaccounts:ml"}, Permissions: SetOf(Use)}}
	for _, d := range []*Directory{NewDirectory(), NewDirectory().Welcoming()} {
		r := document.NewReader("")
		d.CheckACL(r, list)
		if r.HasProblems() == d.welcoming {
			t.Errorf("welcoming %v: %v", d.welcoming, r.Problems())
		}
	}
}
