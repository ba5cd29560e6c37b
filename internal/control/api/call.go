package api

import (
	"fmt"
	"io"
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

// call is one run of a command for a user.
type call struct {
	*pathtree.Request
	api     *API
	command *command
	version int

	// data is the input beside the parameters, in the format dataAs. value is the same input as a batch gives it directly.
	data   []byte
	dataAs wire.Format
	value  *yson.Node
	// stream is the input of commands that read it themselves; nil if the request has none.
	stream *stream

	retry bool

	// The results of permitted for the command: the target of the path, the operation, the job, the transaction, the specification or
	// the update.
	target    *pathtree.Target
	missing   error // why there is no target
	operation *orchid.OperationView
	job       *orchid.JobView
	lease     guid.ID
	node      *server.Node
	start     *operation.Specification
	update    *operation.Update

	// resultKey replaces the command's result key, for commands that have several.
	resultKey string
	answer    []byte // for commands with binary output
	about     yson.Node
	// answerStream replaces answer if it is not nil; it has answerSize bytes.
	answerStream io.ReadCloser
	answerSize   int64
	// outputAs is the format of the answer, nil in a batch. whole is an answer that was written without a value; see writeWhole.
	outputAs *wire.Format
	whole    [][]byte
}

// input returns the structured input of the request: its body, or the parameter "value".
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

// refusal is an error as the caller sees it. If the guest lacks a permission, the error is about authentication, because a user with a
// token may have it. Clients then ask for a token. A guest who may read is only told what is missing: a page then shows the rest.
func (c *call) refusal(err error) *wire.Error {
	e := wire.AsError(err)
	if c.Who.User == auth.Guest && c.Who.Token == "" && !c.Who.Open && e.Code != auth.CodeAuthentication && e.HasCode(auth.CodeAuthorization) {
		return noToken(e)
	}
	return e
}

// answerBytes sets the answer of a command with binary output, and the facts about it that a header carries.
func (c *call) answerBytes(data []byte, about ...yson.Entry) (yson.Node, error) {
	c.answer, c.about = data, yson.Map(about...)
	return yson.Map(), nil
}

// answerFrom sets an answer that is copied to the client, and closes it then.
func (c *call) answerFrom(data io.ReadCloser, size int64, about ...yson.Entry) (yson.Node, error) {
	c.answerStream, c.answerSize, c.about = data, size, yson.Map(about...)
	return yson.Map(), nil
}

// nothing is the answer of commands without a result.
func nothing(err error) (yson.Node, error) { return yson.Map(), err }

// run runs the command once for each mutation id, and wraps the result as the version of the API requires.
func (c *call) run() (yson.Node, error) {
	n, err := c.outcome()
	if err != nil {
		return n, err
	}
	return c.wrap(n)
}

// outcome is what became of the command. A change that the store neither takes nor refuses
// goes on by itself when its caller is told so, and a repetition waits for it.
func (c *call) outcome() (yson.Node, error) {
	if !c.command.changes {
		return c.once()
	}
	var n yson.Node
	var err error
	own, request := *c, *c.Request
	own.Request = &request
	done := make(chan struct{})
	go func() {
		defer close(done)
		n, err = own.once()
	}()
	if unknown := c.Server.WaitOutcome(done); unknown != nil {
		return yson.Node{}, unknown
	}
	*c.Request = request
	own.Request = c.Request
	*c = own
	return n, err
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

// guarded runs the command if it is permitted, and commits its changes once. A panic is our bug: guarded logs it with its location and
// returns an error that names the request.
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
