package pathtree

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"time"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
)

// Request is one command being carried out for somebody, as the tree of paths sees it.
type Request struct {
	Context context.Context
	Server  *server.Server
	Tree    *Tree
	Command string // its name
	// Who makes the request, and the users and groups as of its beginning.
	Who      auth.Identity
	Subjects *auth.Directory
	Now      time.Time

	Parameters wire.Parameters
	ID         string // for logs and audits
	Mutation   string // a name under which it is carried out once; may be empty
	// Remembered is what is stored of the answer under the mutation.
	Remembered string
	// Warnings are told beside a success.
	Warnings document.Problems
}

// EditRegistry changes the registry and forgets what was known of it. What the
// edit sets as c.remembered is the answer to a repetition of the request.
func (c *Request) EditRegistry(object string, edit func(*server.Registry) (*store.Batch, error)) error {
	who := c.Caller(object)
	who.Mutation = "" // it is written with the answer instead
	err := c.Server.EditRegistry(c.Context, who, func(r *server.Registry) (*store.Batch, error) {
		batch, err := edit(r)
		if err == nil && c.Mutation != "" {
			batch.Put.Mutations = append(batch.Put.Mutations, store.Mutation{
				ID: c.Mutation, Expires: c.Now.Add(c.Server.Settings().MutationTTL), Response: []byte(c.Remembered),
			})
		}
		return batch, err
	})
	c.Tree.People.forget()
	return err
}

// First runs a step that another one follows. The mutation is remembered with the
// last step only: a request that was cut off in between is not called done.
func (c *Request) First(step func() error) error {
	mutation := c.Mutation
	c.Mutation = ""
	defer func() { c.Mutation = mutation }()
	return step()
}

// firstIf is first if something follows.
func (c *Request) firstIf(follows bool, step func() error) error {
	if follows {
		return c.First(step)
	}
	return step()
}

// Caller is who asks for a change of an object, for the audit.
func (c *Request) Caller(object string) server.Caller {
	return server.Caller{User: c.Who.String(), Command: c.Command, Object: object, Request: c.ID, Mutation: c.Mutation}
}

// Require refuses what the user may not do.
func (c *Request) Require(needs auth.Needs) error { return c.Subjects.Decide(c.Who.User, needs).Err() }

// Live refuses to answer from a copy: what is asked for is known only to the
// leader. The request is then forwarded.
func (c *Request) Live() error {
	if !c.Server.Leading() {
		return server.ErrNotLeading
	}
	return nil
}

// Warn keeps what is worth telling beside a success.
func (c *Request) Warn(warnings document.Problems) { c.Warnings = append(c.Warnings, warnings...) }

// NewID makes an identifier.
func NewID(kind guid.Kind) guid.ID {
	var bytes [16]byte
	_, _ = rand.Read(bytes[:]) // it never fails
	return guid.New(kind, binary.LittleEndian.Uint64(bytes[:8]), binary.LittleEndian.Uint64(bytes[8:]))
}
