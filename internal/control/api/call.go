package api

import (
	"fmt"
	"runtime/debug"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/orchid"
	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/yson"
)

// call is one command being carried out for somebody.
type call struct {
	*pathtree.Request
	api     *API
	command *command
	version int

	// data is what came beside the parameters, written in dataAs; value is the
	// same, given directly by a batch.
	data   []byte
	dataAs wire.Format
	value  *yson.Node

	retry bool

	// What permitted has found for the command: what the path leads to, the
	// operation, the job, the transaction, what is to be started or changed.
	target    *pathtree.Target
	missing   error // why there is no target
	operation *orchid.OperationView
	job       *orchid.JobView
	lease     guid.ID
	node      *server.Node
	start     *operation.Specification
	update    *operation.Update

	// resultKey replaces the command's key of the result, for commands that have
	// several.
	resultKey string
	answer    []byte // of commands with binary output
	about     yson.Node
	// outputAs is how the answer will be written, nil for a part of a batch. whole
	// is an answer that was written without a value; see writeWhole.
	outputAs *wire.Format
	whole    [][]byte
}

// input returns the structured data that came with the request: its body, or the
// parameter "value".
func (c *call) input() (yson.Node, error) {
	if c.value != nil {
		return *c.value, nil
	}
	if len(c.data) == 0 {
		if n, given := c.Parameters.Node.Get("value"); given {
			return n, nil
		}
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Command %q needs a value in the body of the request", c.command.name)
	}
	n, err := c.dataAs.Read(c.data)
	if err != nil {
		return n, wire.Errorf(wire.CodeGeneric, "Error parsing the value in the body of the request").Because(err)
	}
	return n, nil
}

// refusal is an error as the caller sees it. What the guest may not do others may
// who show a token, so it is a matter of who one is: clients then ask for a token.
func (c *call) refusal(err error) *wire.Error {
	e := wire.AsError(err)
	if c.Who.User == auth.Guest && c.Who.Token == "" && e.Code != auth.CodeAuthentication && e.HasCode(auth.CodeAuthorization) {
		return noToken(e)
	}
	return e
}

// answerBytes sets the answer of a command with binary output, and what is told
// about it in a header.
func (c *call) answerBytes(data []byte, about ...yson.Entry) (yson.Node, error) {
	c.answer, c.about = data, yson.Map(about...)
	return yson.Map(), nil
}

// nothing is the answer of commands without a result.
func nothing(err error) (yson.Node, error) { return yson.Map(), err }

// run carries the command out, once for each mutation id, and wraps the result as
// the version of the API wants it.
func (c *call) run() (yson.Node, error) {
	n, err := c.once()
	if err != nil {
		return n, err
	}
	return c.wrap(n)
}

func (c *call) wrap(n yson.Node) (yson.Node, error) {
	if c.command.result == "" || c.version == 3 {
		return n, nil
	}
	only, err := c.Parameters.Boolean("return_only_value", false)
	if err != nil || only {
		return n, err
	}
	key := c.command.result
	if c.resultKey != "" {
		key = c.resultKey
	}
	return yson.Map(yson.Pair(key, n)), nil
}

// guarded runs the command itself if it is permitted, and commits what it has changed, once. A panic is a mistake of ours: it is logged
// with its place and becomes an error that names the request.
func (c *call) guarded() (n yson.Node, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			c.api.log.Error("a command panicked", "alert", true, "command", c.command.name, "request", c.ID,
				"panic", fmt.Sprint(reason), "stack", string(debug.Stack()))
			n, err = yson.Node{}, wire.Errorf(wire.CodeGeneric, "Internal error; the log of the scheduler has more under request %s", c.ID)
		}
	}()
	if err := c.command.checkParameters(c.Parameters); err != nil {
		return yson.Node{}, err
	}
	if err := c.permitted(); err != nil {
		return yson.Node{}, err
	}
	if n, err = c.command.run(c); err == nil {
		err = c.Commit()
	}
	return n, err
}
