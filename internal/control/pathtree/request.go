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

// Request is one run of a command for a user, as the tree of paths sees it.
type Request struct {
	Context context.Context
	Server  *server.Server
	Tree    *Tree
	Command string // its name
	// Who is the caller; the users and groups are as of the request's start.
	Who      auth.Identity
	Subjects *auth.Directory
	Now      time.Time

	Parameters wire.Parameters
	ID         string // for logs and audits
	Mutation   string // a name under which the request runs only once; may be empty
	// Remembered is the answer that is stored under the mutation.
	Remembered string
	// Warnings are returned with a success.
	Warnings document.Problems

	// spelling has the names of options that the user wrote, by primary name.
	spelling map[string]string
	// edits is the request's transaction; after runs when it is committed.
	edits     server.Edits
	after     []func()
	committed bool
}

// EditTrees adds a change of the pool trees to the request's transaction, which Commit commits. The
// edit sees the request's earlier changes.
func (c *Request) EditTrees(object string, edit func(*server.Trees) (*server.Trees, error)) error {
	c.edits.Trees = append(c.edits.Trees, server.TreesEdit{Object: object, Edit: edit})
	return c.stillOpen()
}

// EditRegistry adds a change of the registry to the request's transaction, which Commit commits.
// The edit sees the request's earlier changes. If it sets Remembered, that is the answer to a
// repeated request.
func (c *Request) EditRegistry(object string, edit func(*server.Registry) (*store.Batch, error)) error {
	c.edits.Registry = append(c.edits.Registry, server.RegistryEdit{Object: object, Edit: edit})
	return c.stillOpen()
}

// AfterCommit runs a function after the request's changes are on disk.
func (c *Request) AfterCommit(f func()) { c.after = append(c.after, f) }

// stillOpen refuses changes after the transaction was committed: a request has one.
func (c *Request) stillOpen() error {
	if c.committed {
		return wire.Errorf(wire.CodeGeneric, "Internal error: command %q changes something after its commit", c.Command)
	}
	return nil
}

// Commit commits the changes that the request has collected, all or none. It does nothing if there
// are none. The API calls it after a command has run without an error; a command calls it itself if
// its answer depends on the committed state.
func (c *Request) Commit() error {
	edits := c.edits
	if c.edits = (server.Edits{}); len(edits.Trees)+len(edits.Registry) == 0 {
		return nil
	}
	if err := c.stillOpen(); err != nil {
		return err
	}
	c.committed = true
	edits.Answer = func() []byte { return []byte(c.Remembered) }
	err := c.Server.Edit(c.Context, c.Caller(""), edits)
	if len(edits.Registry) > 0 {
		c.Tree.People.forget()
	}
	if err != nil {
		return err
	}
	for _, f := range c.after {
		f()
	}
	return nil
}

// Caller is the originator of a change of an object, for the audit.
func (c *Request) Caller(object string) server.Caller {
	return server.Caller{User: c.Who.String(), Command: c.Command, Object: object, Request: c.ID, Mutation: c.Mutation}
}

// Require refuses a request that the user's permissions do not allow.
func (c *Request) Require(needs auth.Needs) error { return c.Subjects.DecideFor(c.Who, needs).Err() }

// Live refuses to answer from a copy if only the leader has the state. The request is then
// forwarded.
func (c *Request) Live() error {
	if !c.Server.Leading() {
		return server.ErrNotLeading
	}
	return nil
}

// Warn adds warnings to a successful answer.
func (c *Request) Warn(warnings document.Problems) { c.Warnings = append(c.Warnings, warnings...) }

// NewID makes an identifier.
func NewID(kind guid.Kind) guid.ID {
	var bytes [16]byte
	_, _ = rand.Read(bytes[:]) // it never fails
	return guid.New(kind, binary.LittleEndian.Uint64(bytes[:8]), binary.LittleEndian.Uint64(bytes[8:]))
}
