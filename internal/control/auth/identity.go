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
	// Loopback reports whether the request came from this machine.
	Loopback bool
}

// Identity is who makes a request.
type Identity struct {
	// User is the user that the request acts as, and Real the user that makes it;
	// they differ under impersonation. Audits name both.
	User, Real string
	// Token identifies the token that was presented; empty if there was none.
	Token TokenID
	// Open reports whether no token exists yet and the request came from this
	// machine.
	Open bool
}

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
	ErrNotOpen      = errors.New("no token exists yet, so only this machine itself is let in; make a token there first")
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
// Until the first token is created, every request from this machine is root,
// whatever it presents, and all others are refused. After that, a token
// authenticates its user, and a request without one is the guest. Superusers may
// act as any user; administrators as any user who is not a superuser. The error
// is of type *Unauthenticated.
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
	if tokens.IsEmpty() {
		if !c.Loopback {
			return Identity{}, ErrNotOpen
		}
		return Identity{User: Root, Real: Root, Open: true}, nil
	}
	if c.Authorization == "" {
		return Identity{User: Guest, Real: Guest}, nil
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
