package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/value/document"
)

// Credentials are what a request presents.
type Credentials struct {
	// Authorization is the header of this name, unmodified; empty if there is
	// none.
	Authorization string
	// Impersonate is the user that the request asks to act as; empty if it acts
	// as itself.
	Impersonate string
	// Visitor is the user whom another authority vouches for, admitted to the directory; empty if there is none.
	Visitor string
	// Local reports whether the request came over the scheduler's own socket from root or
	// from the user that the scheduler runs as.
	Local bool
	// Loopback reports whether the request came from this machine, from any process there.
	Loopback bool
	// Trusted reports whether the operator trusts all processes of this machine.
	Trusted bool
}

// Identity is who makes a request.
type Identity struct {
	// User is the user that the request acts as, and Real the user that makes it;
	// they differ under impersonation. Audits name both.
	User, Real string
	// Token identifies the token that was presented; empty if there was none.
	Token TokenID
	// Local reports whether the scheduler's own socket vouches for the user.
	Local bool
	// Open reports whether no token exists yet and the request came from this
	// machine without proof of who sent it. The guest may then read.
	Open bool
}

// OpenGuest reports whether the author is a guest who may read, because no token
// exists yet.
func (i Identity) OpenGuest() bool { return i.Open && i.User == Guest }

// Impersonated reports whether a user acts as another user.
func (i Identity) Impersonated() bool { return i.User != i.Real }

func (i Identity) String() string {
	if i.Impersonated() {
		return fmt.Sprintf("%s (as %s)", i.Real, i.User)
	}
	return i.User
}

// Errors of authentication. Use errors.Is. Messages never repeat a token.
var (
	ErrScheme       = errors.New(`the Authorization header must be "OAuth TOKEN" or "Bearer TOKEN"`)
	ErrTokenUnknown = errors.New("the token is unknown")
	ErrTokenRevoked = errors.New("the token was revoked")
	ErrTokenExpired = errors.New("the token has expired")
	ErrNotOpen      = errors.New("no token exists yet, so only the scheduler's own machine is let in; make a token there first: weir token create root")
	ErrNoSuchUser   = errors.New("there is no such user")
	ErrBanned       = errors.New("the user is banned")
	ErrImpersonate  = errors.New("only administrators may act as others, and only superusers as superusers")
)

// Unauthenticated is the error for a request whose author cannot be verified.
type Unauthenticated struct {
	Cause error
}

func (e *Unauthenticated) Error() string { return "Authentication failed: " + e.Cause.Error() }

func (e *Unauthenticated) Unwrap() error { return e.Cause }

// Code is the error code by which clients distinguish refusals.
func (e *Unauthenticated) Code() int {
	switch {
	case errors.Is(e.Cause, ErrNoSuchUser):
		return CodeNoSuchUser
	case errors.Is(e.Cause, ErrImpersonate), errors.Is(e.Cause, ErrBanned):
		return CodeAuthorization
	}
	return CodeAuthentication
}

// ParseAuthorization parses the Authorization header: the scheme OAuth or Bearer
// in any case, blanks, and a token.
func ParseAuthorization(header string) (Token, error) {
	scheme, rest, ok := strings.Cut(strings.Trim(header, " \t"), " ")
	if !ok || !strings.EqualFold(scheme, "OAuth") && !strings.EqualFold(scheme, "Bearer") {
		return Token{}, ErrScheme
	}
	return ParseToken(strings.Trim(rest, " \t"))
}

// Authenticate returns the identity of a request's author.
//
// A token authenticates its user; so does a visitor's authority. Without a token, a request over the scheduler's
// socket from its own user or from root is root, and any other is the guest. Until
// the first token is created, requests of this machine may read as the guest, or
// are root, whatever they present, if the operator trusts the machine; requests
// from elsewhere are refused. Superusers may act as any user; administrators as
// any user who is not a superuser. The error is of type *Unauthenticated.
func (d *Directory) Authenticate(tokens *Tokens, c Credentials, now time.Time) (Identity, error) {
	who, err := d.real(tokens, c, now)
	if err == nil && d.IsBanned(who.Real) {
		err = fmt.Errorf("user %q: %w", who.Real, ErrBanned)
	}
	if err == nil && c.Impersonate != "" && c.Impersonate != who.Real {
		who.User, err = c.Impersonate, d.mayImpersonate(who.Real, c.Impersonate)
	}
	if err != nil {
		return Identity{}, &Unauthenticated{Cause: err}
	}
	return who, nil
}

// real returns the author of a request before impersonation.
func (d *Directory) real(tokens *Tokens, c Credentials, now time.Time) (Identity, error) {
	switch {
	case c.Local && c.Authorization == "":
		return Identity{User: Root, Real: Root, Local: true}, nil
	case c.Visitor != "":
		return Identity{User: c.Visitor, Real: c.Visitor}, nil
	case tokens.IsEmpty() && !c.Local && !c.Loopback:
		return Identity{}, ErrNotOpen
	case tokens.IsEmpty() && c.Trusted && c.Loopback:
		return Identity{User: Root, Real: Root, Open: true}, nil
	case c.Authorization == "":
		return Identity{User: Guest, Real: Guest, Open: tokens.IsEmpty()}, nil
	}
	token, err := ParseAuthorization(c.Authorization)
	if err != nil {
		return Identity{}, err
	}
	record, ok := tokens.Find(token)
	switch {
	case !ok:
		return Identity{}, ErrTokenUnknown
	case !record.Revoked.IsZero():
		return Identity{}, fmt.Errorf("token %s: %w", record.ID(), ErrTokenRevoked)
	case !record.Expires.IsZero() && !now.Before(record.Expires):
		return Identity{}, fmt.Errorf("token %s: %w", record.ID(), ErrTokenExpired)
	case !d.IsUser(record.User):
		return Identity{}, fmt.Errorf("user %q of token %s: %w", record.User, record.ID(), ErrNoSuchUser)
	}
	return Identity{User: record.User, Real: record.User, Token: record.ID()}, nil
}

func (d *Directory) mayImpersonate(from, to string) error {
	if !d.hasPowerOver(from, to) {
		return fmt.Errorf("user %q as %q: %w", from, document.Shorten(to), ErrImpersonate)
	}
	if !d.IsUser(to) {
		return fmt.Errorf("user %q: %w", document.Shorten(to), ErrNoSuchUser)
	}
	if d.IsBanned(to) {
		return fmt.Errorf("user %q: %w", to, ErrBanned)
	}
	return nil
}

// hasPowerOver reports whether one user may act as another and manage their
// tokens.
func (d *Directory) hasPowerOver(from, to string) bool {
	return d.IsSuperuser(from) || slices.Contains(d.Closure(from), Admins) && !d.IsSuperuser(to)
}

// MayRuleTokens reports whether a user may create, list and revoke tokens of
// another. Users may do so for their own tokens, administrators for those of all
// users who are not superusers, and superusers for all. The guest has none.
func (d *Directory) MayRuleTokens(from, of string) bool {
	switch {
	case !d.IsUser(from) || !d.IsUser(of) || d.IsBanned(from) || from == Guest || of == Guest:
		return false
	case from == of:
		return true
	}
	return d.hasPowerOver(from, of)
}
