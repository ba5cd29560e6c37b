package pathtree

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
)

// people is a copy of the registry's users, groups and tokens, indexed for lookups. It is rebuilt
// after every change through this API, and at least once in peopleAge for changes from elsewhere.
type people struct {
	mutex    sync.Mutex
	made     time.Time
	subjects *auth.Directory
	tokens   *auth.Tokens
}

const peopleAge = 300 * time.Millisecond

// forget makes the next request read the registry again.
func (p *people) forget() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.made = time.Time{}
}

func (p *people) Current(t *Tree, now time.Time) (*auth.Directory, *auth.Tokens, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	// The first token must close the server at once.
	agrees := p.tokens.IsEmpty() == !t.server.Registry().HasTokens()
	if p.subjects != nil && !p.made.IsZero() && now.Sub(p.made) < peopleAge && agrees {
		return p.subjects, p.tokens, nil
	}
	subjects, err := DirectoryOf(t.server.Registry())
	if err != nil {
		t.Options.Log.Warn("cannot read all users and groups", "error", err)
	}
	tokens, err := TokensOf(t.server.Registry())
	if tokens == nil {
		return nil, nil, err
	}
	p.made, p.subjects, p.tokens = now, subjects, tokens
	return subjects, tokens, nil
}

// subjectDocument is the stored data of a user or a group beside the name.
type subjectDocument struct {
	server.Object
	Banned bool `json:"banned,omitempty"`
	// Attributes are custom ones, each as binary YSON.
	Attributes map[string][]byte `json:"attributes,omitempty"`
}

func subjectOf(data []byte) (d subjectDocument, err error) {
	if len(data) == 0 {
		return d, nil
	}
	err = json.Unmarshal(data, &d)
	return d, err
}

// DirectoryOf builds the directory from the registry. It skips and reports invalid rows.
func DirectoryOf(r *server.Registry) (*auth.Directory, error) {
	d := auth.NewDirectory()
	var changes []auth.Change
	for _, user := range r.Users() {
		if !d.IsUser(user.Name) {
			changes = append(changes, auth.AddUser{Name: user.Name})
		}
		if document, err := subjectOf(user.Document); err == nil && document.Banned {
			changes = append(changes, auth.SetBanned{Name: user.Name, Banned: true})
		}
	}
	for _, group := range r.Groups() {
		if !d.IsGroup(group.Name) {
			changes = append(changes, auth.AddGroup{Name: group.Name})
		}
	}
	for _, member := range r.Members() {
		changes = append(changes, auth.AddMember{Member: member.Member, Group: member.Group})
	}
	if next, err := d.With(changes...); err == nil {
		return next, nil
	}
	var wrong []error
	for _, change := range changes {
		next, err := d.With(change)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		d = next
	}
	return d, errors.Join(wrong...)
}

// TokensOf builds the tokens from the registry. A row that cannot be read is reported and counts as
// a revoked token: nobody can use it, and it does not open a server that has no other tokens.
func TokensOf(r *server.Registry) (*auth.Tokens, error) {
	var records []auth.TokenRecord
	var wrong []error
	for _, row := range r.Tokens() {
		record, err := TokenRecord(row)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("token of user %q made at %v: %w", row.User, row.Created, err))
			record.Hash, record.Revoked = sha256.Sum256([]byte(row.Hash)), time.Unix(0, 0)
		}
		records = append(records, record)
	}
	tokens, err := auth.NewTokens(records...)
	return tokens, errors.Join(append(wrong, err)...)
}

// TokenRecord reads a token of the registry.
func TokenRecord(row store.Token) (auth.TokenRecord, error) {
	hash, err := auth.ParseTokenHash(row.Hash)
	return auth.TokenRecord{
		Hash: hash, User: row.User, Description: row.Name, Created: row.Created, Expires: row.Expires, Revoked: row.Revoked,
	}, err
}

// SortedUnique returns a list sorted, without duplicates.
func SortedUnique(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}
