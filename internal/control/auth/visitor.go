package auth

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirhq/weir/internal/value/document"
)

// Visitor is a user whom another authority has authenticated: the API server of a Kubernetes cluster. Its names are those of
// that authority, and access lists may have them.
type Visitor struct {
	User   string
	Groups []string
	// Powerful makes the visitor a superuser.
	Powerful bool
}

// Errors of visitors. Use errors.Is.
var (
	ErrVisitorName = errors.New("the other authority's name cannot be used here: a user's name must be " + nameSays)
	ErrVisitorRole = errors.New("the other authority's user has the name of a built-in user or group")
)

// ForeignToken returns the token of an Authorization header that is none of Weir's own.
func ForeignToken(header string) (token string, found bool) {
	scheme, rest, ok := strings.Cut(strings.Trim(header, " \t"), " ")
	if !ok || !strings.EqualFold(scheme, "OAuth") && !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	token = strings.Trim(rest, " \t")
	return token, token != "" && !strings.HasPrefix(token, TokenPrefix)
}

// Admit returns the directory with a visitor in it: a user in the visitor's groups, in addition to what the directory has
// under these names. Built-in subjects cannot be had from elsewhere: a visitor of such a name is refused, and such groups
// are left out.
func (d *Directory) Admit(v Visitor) (*Directory, error) {
	switch {
	case !isName(v.User):
		return nil, fmt.Errorf("user %q: %w", document.Shorten(v.User), ErrVisitorName)
	case isBuiltin(v.User) || d.IsGroup(v.User):
		return nil, fmt.Errorf("user %q: %w", v.User, ErrVisitorRole)
	}
	next := *d
	next.visitor, next.visitorIn = v.User, []string{Users}
	for _, group := range v.Groups {
		if isName(group) && !isBuiltin(group) && !d.IsUser(group) {
			next.visitorIn = append(next.visitorIn, group)
		}
	}
	if v.Powerful {
		next.visitorIn = append(next.visitorIn, Superusers)
	}
	return &next, nil
}

// Welcoming returns the directory for a server that has visitors: access lists may have names that it does not know.
func (d *Directory) Welcoming() *Directory {
	next := *d
	next.welcoming = true
	return &next
}
