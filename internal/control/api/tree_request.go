package api

import (
	"crypto/rand"
	"encoding/binary"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
)

// editRegistry changes the registry and forgets what was known of it. What the
// edit sets as c.remembered is the answer to a repetition of the request.
func (c *call) editRegistry(object string, edit func(*server.Registry) (*store.Batch, error)) error {
	who := c.caller(object)
	who.Mutation = "" // it is written with the answer instead
	err := c.server.EditRegistry(c.ctx, who, func(r *server.Registry) (*store.Batch, error) {
		batch, err := edit(r)
		if err == nil && c.mutation != "" {
			batch.Put.Mutations = append(batch.Put.Mutations, store.Mutation{
				ID: c.mutation, Expires: c.now.Add(c.server.Settings().MutationTTL), Response: []byte(c.remembered),
			})
		}
		return batch, err
	})
	c.tree.people.forget()
	return err
}

// first runs a step that another one follows. The mutation is remembered with the
// last step only: a request that was cut off in between is not called done.
func (c *call) first(step func() error) error {
	mutation := c.mutation
	c.mutation = ""
	defer func() { c.mutation = mutation }()
	return step()
}

// firstIf is first if something follows.
func (c *call) firstIf(follows bool, step func() error) error {
	if follows {
		return c.first(step)
	}
	return step()
}

// caller is who asks for a change of an object, for the audit.
func (c *call) caller(object string) server.Caller {
	return server.Caller{User: c.who.String(), Command: c.commandName, Object: object, Request: c.request, Mutation: c.mutation}
}

// require refuses what the user may not do.
func (c *call) require(needs auth.Needs) error { return c.subjects.Decide(c.who.User, needs).Err() }

// live refuses to answer from a copy: what is asked for is known only to the
// leader. The request is then forwarded.
func (c *call) live() error {
	if !c.server.Leading() {
		return server.ErrNotLeading
	}
	return nil
}

// warn keeps what is worth telling beside a success.
func (c *call) warn(warnings document.Problems) { c.warnings = append(c.warnings, warnings...) }

// newID makes an identifier.
func newID(kind guid.Kind) guid.ID {
	var bytes [16]byte
	_, _ = rand.Read(bytes[:]) // it never fails
	return guid.New(kind, binary.LittleEndian.Uint64(bytes[:8]), binary.LittleEndian.Uint64(bytes[8:]))
}
