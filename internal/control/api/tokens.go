package api

import (
	"crypto/rand"
	"errors"
	"time"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/yson"
)

// maxTokenDescription bounds the description of a token.
const maxTokenDescription = 1000

// issueToken makes a token and answers with its secret. The server stores only the hash, in the
// token's row and in the stored response, so it cannot return the secret again.
func issueToken(c *call) (yson.Node, error) {
	record, err := c.readNewToken()
	if err != nil {
		return yson.Node{}, err
	}
	token := newSecret()
	record.Hash = token.Hash()
	c.Remembered = record.Hash.String()
	err = c.EditRegistry("token "+string(record.ID()), func(r *server.Registry) (*store.Batch, error) {
		tokens, err := pathtree.TokensOf(r)
		if tokens == nil {
			return nil, err
		}
		if tokens.IsEmpty() && c.Who.Open && !c.Subjects.IsSuperuser(record.User) {
			return nil, wire.Errorf(wire.CodeGeneric, "The first token must belong to root or another member of %q: "+
				"once it exists, requests from this machine no longer act as root, and nobody could create a second token", auth.Superusers)
		}
		if c.Who.Open && !tokens.IsEmpty() {
			return nil, &auth.Unauthenticated{Cause: errors.New("the first token was created a moment ago; use it")}
		}
		if tokens, err = tokens.With(record); err != nil {
			return nil, err
		}
		c.warnOfLastKey(tokens)
		batch := &store.Batch{}
		batch.Put.Tokens = append(batch.Put.Tokens, store.Token{
			Hash: record.Hash.String(), User: record.User, Name: record.Description, Created: record.Created, Expires: record.Expires,
		})
		return batch, nil
	})
	if err != nil {
		return yson.Node{}, err
	}
	return yson.String(token.Reveal()), nil
}

// newSecret returns a random token.
func newSecret() auth.Token {
	var random [32]byte
	_, _ = rand.Read(random[:]) // it never fails
	return auth.NewToken(random)
}

// readNewToken reads the properties of a new token, without its secret.
func (c *call) readNewToken() (record auth.TokenRecord, err error) {
	record.Created = c.Now
	if record.User, err = c.Parameters.Text("user", c.Who.User); err != nil {
		return record, err
	}
	if record.Description, err = c.Parameters.Text("description", ""); err != nil {
		return record, err
	}
	if len(record.Description) > maxTokenDescription {
		return record, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /description: it has %d bytes; the limit is %d", len(record.Description), maxTokenDescription)
	}
	if record.Expires, err = c.Parameters.Moment("expiration_time"); err != nil {
		return record, err
	}
	lasts, err := c.Parameters.Duration("expiration_timeout", 0)
	switch {
	case err != nil:
		return record, err
	case lasts > 0 && !record.Expires.IsZero():
		return record, wire.Errorf(wire.CodeGeneric, "A token has an expiration_time or an expiration_timeout, not both")
	case lasts > 0:
		record.Expires = c.Now.Add(lasts)
	case !record.Expires.IsZero() && !record.Expires.After(c.Now):
		return record, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /expiration_time: %s has passed", record.Expires.Format(wire.TimeLayout))
	}
	return record, nil
}

// mayRuleTokens refuses to make, list or revoke another user's tokens without permission.
func (c *call) mayRuleTokens(user string) error {
	switch {
	case c.Subjects.MayRuleTokens(c.Who.User, user):
		return nil
	case c.Who.User == auth.Guest:
		return wire.Errorf(auth.CodeAuthorization, "Access denied for user %q: managing tokens requires a token", auth.Guest)
	case user == auth.Guest:
		return wire.Errorf(wire.CodeGeneric, "User %q cannot have tokens: it stands for requests without one", auth.Guest)
	case !c.Subjects.IsUser(user):
		return wire.Errorf(auth.CodeNoSuchUser, "No such user %q", wire.CutText(user, 100))
	}
	return wire.Errorf(auth.CodeAuthorization,
		"Access denied for user %q: tokens of %q are ruled by themselves and by administrators, those of superusers by superusers", c.Who.User, user)
}

// warnOfLastKey warns if no user will be left who can make tokens.
func (c *call) warnOfLastKey(tokens *auth.Tokens) {
	var last time.Time
	for _, r := range tokens.List() {
		switch {
		case !r.Revoked.IsZero() || !c.Subjects.IsSuperuser(r.User) || !r.Expires.IsZero() && !r.Expires.After(c.Now):
			continue
		case r.Expires.IsZero():
			return
		case r.Expires.After(last):
			last = r.Expires
		}
	}
	message := "no superuser has a token that is good: root of the scheduler's machine can make one there"
	if !last.IsZero() {
		message = "the last token of a superuser expires at " + last.Format(wire.TimeLayout) + "; make another before"
	}
	c.Warn(document.Problems{{Path: "tokens", Message: message}})
}

// replayToken answers a repeated request: the token exists.
func replayToken(_ *call, response []byte) (yson.Node, error) {
	hash, err := auth.ParseTokenHash(string(response))
	if err != nil {
		return yson.Node{}, err
	}
	return yson.Node{}, wire.Errorf(wire.CodeGeneric,
		"This request has already created token %s, whose secret is shown only once: if the answer was lost, revoke the token and create another", hash.ID()).
		With("token_sha256", yson.String(hash.String()))
}

// listTokens lists the token hashes of one user, or of all users whose tokens the caller
// administers. With with_metadata the answer is a map with their metadata. Revoked tokens are
// listed only on request.
func listTokens(c *call) (yson.Node, error) {
	user, err := c.Parameters.Text("user", "")
	if err != nil {
		return yson.Node{}, err
	}
	metadata, err := c.Parameters.Boolean("with_metadata", false)
	if err != nil {
		return yson.Node{}, err
	}
	revoked, err := c.Parameters.Boolean("include_revoked", false)
	if err != nil {
		return yson.Node{}, err
	}
	tokens, err := pathtree.TokensOf(c.Server.Registry())
	if tokens == nil {
		return yson.Node{}, err
	}
	var hashes []string
	var entries []yson.Entry
	for _, r := range tokens.List() {
		if user != "" && r.User != user || !c.rulesToken(r) || !revoked && !r.Revoked.IsZero() {
			continue
		}
		hashes = append(hashes, r.Hash.String())
		entries = append(entries, yson.Pair(r.Hash.String(), tokenMetadata(r)))
	}
	if metadata {
		return yson.Map(entries...), nil
	}
	return wire.Texts(hashes), nil
}

// rulesToken reports whether the caller may list and revoke a token. Tokens of deleted users belong
// to everybody who administers users.
func (c *call) rulesToken(r auth.TokenRecord) bool {
	return c.Subjects.MayRuleTokens(c.Who.User, r.User) || !c.Subjects.IsUser(r.User) && c.Subjects.IsSuperuser(c.Who.User)
}

func tokenMetadata(r auth.TokenRecord) yson.Node {
	entries := []yson.Entry{
		yson.Pair("user", yson.String(r.User)),
		yson.Pair("description", yson.String(r.Description)),
		yson.Pair("creation_time", yson.String(r.Created.UTC().Format(wire.TimeLayout))),
	}
	for _, optional := range []struct {
		name string
		at   time.Time
	}{{"expiration_time", r.Expires}, {"revoked_time", r.Revoked}} {
		if !optional.at.IsZero() {
			entries = append(entries, yson.Pair(optional.name, yson.String(optional.at.UTC().Format(wire.TimeLayout))))
		}
	}
	return yson.Map(entries...)
}

// revokeToken revokes a token. Revoking it again is no error.
func revokeToken(c *call) (yson.Node, error) {
	text, err := c.Parameters.NeedText("token_sha256")
	if err != nil {
		return yson.Node{}, err
	}
	hash, err := auth.ParseTokenHash(text)
	if err != nil {
		// The message omits the text: it may be a token.
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /token_sha256").Because(err)
	}
	user, err := c.Parameters.Text("user", "")
	if err != nil {
		return yson.Node{}, err
	}
	return nothing(c.EditRegistry("token "+string(hash.ID()), func(r *server.Registry) (*store.Batch, error) {
		row, there := r.Token(hash.String())
		if !there || user != "" && row.User != user {
			return nil, wire.Errorf(wire.CodeGeneric, "Provided token is not recognized: there is no token %s", hash.ID())
		}
		record, err := pathtree.TokenRecord(row)
		if err != nil {
			return nil, err
		}
		if !c.rulesToken(record) {
			return nil, c.mayRuleTokens(row.User)
		}
		batch := &store.Batch{}
		if row.Revoked.IsZero() {
			row.Revoked = c.Now
			batch.Put.Tokens = append(batch.Put.Tokens, row)
		}
		tokens, err := pathtree.TokensOf(r)
		if tokens != nil {
			tokens, err = tokens.Revoke(hash.ID(), c.Now)
		}
		if err == nil {
			c.warnOfLastKey(tokens)
		}
		return batch, err
	}))
}
