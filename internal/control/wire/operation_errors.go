package wire

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

// Codes of errors about operations.
const (
	codeSchedulerNoOperation = 200
	CodeOperationState       = 201
	CodeTooManyOperations    = 202
	CodeNoSuchAllocation     = 203
	CodePoolTrees            = 214
	CodeGangInFairSharePool  = 222
	CodeNoSuchPool           = 223
)

// operationError turns errors of the core and the server about operations and jobs into errors that
// clients know.
func operationError(err error) *Error {
	var (
		joined interface{ Unwrap() []error }
		count  *scheduling.CountError
		pool   *core.PoolError
		state  *operation.StateError
		live   *server.LiveError
	)
	if errors.As(err, &joined) && len(joined.Unwrap()) > 1 {
		return joinedError(joined.Unwrap())
	}
	switch {
	case errors.As(err, &live):
		code := CodeGeneric
		if live.Reason == server.LiveJobEnded {
			code = CodeNoSuchJob
		}
		return Errorf(code, "%s", live).With("reason", yson.String(string(live.Reason)))
	case errors.As(err, &count):
		return countError(count)
	case errors.As(err, &pool):
		return poolError(pool)
	case errors.As(err, &state):
		return Errorf(CodeOperationState, "Cannot %s the operation: it is in %q state", state.What, state.State).
			With("state", yson.String(state.State.String()))
	case errors.Is(err, core.ErrTooManyOperations):
		return Errorf(CodeTooManyOperations, "Limit for the total number of concurrent operations has been reached")
	case errors.Is(err, server.ErrNoSuchOperation):
		return Errorf(codeSchedulerNoOperation, "No such operation: %s", err)
	case errors.Is(err, server.ErrOperationEnded):
		return Errorf(CodeOperationState, "%s", err)
	case errors.Is(err, server.ErrNoSuchJob):
		return Errorf(CodeNoSuchAllocation, "No such job: %s", err)
	case errors.Is(err, server.ErrAliasInUse):
		return Errorf(CodeGeneric, "Operation alias is already used: %s", err)
	}
	return nil
}

// joinedError is a refusal by several trees. Its code is that of the first.
func joinedError(list []error) *Error {
	first := AsError(list[0])
	return (&Error{Code: first.Code, Message: first.Message}).Because(list...)
}

func countError(e *scheduling.CountError) *Error {
	what := "concurrent"
	if e.Running {
		what = "running"
	}
	return Errorf(CodeTooManyOperations, "Limit for the number of %s operations %d for pool %q has been reached", what, e.Limit, e.Pool).
		With("pool", yson.String(e.Pool)).With("limit", yson.Int64(int64(e.Limit))).
		Because(Errorf(CodeTooManyOperations, "%s", e))
}

func poolError(e *core.PoolError) *Error {
	code, message := CodeGeneric, e.Error()
	switch e.Rule {
	case core.PoolForbidsOperations:
		message = fmt.Sprintf("Starting operations immediately in pool %q of tree %q is forbidden", e.Pool, e.Tree)
	case core.PoolsPerUser:
		message = fmt.Sprintf("Cannot create new ephemeral pool %q as limit for number of ephemeral pools %d for user %q in tree %q has been reached",
			e.Pool, e.Limit, e.User, e.Tree)
	case core.PoolMissing:
		code, message = CodeNoSuchPool, fmt.Sprintf("Pool %q of tree %q does not exist", e.Pool, e.Tree)
	}
	return Errorf(code, "%s", message).With("pool", yson.String(e.Pool)).With("pool_tree", yson.String(e.Tree)).
		Because(Errorf(code, "%s", e))
}

// OperationResult writes an error of an operation or a job in the form that clients expect.
func OperationResult(e *operation.Error) yson.Node {
	if e == nil {
		return yson.Map(
			yson.Pair("code", yson.Int64(0)), yson.Pair("message", yson.String("")),
			yson.Pair("attributes", yson.Map()), yson.Pair("inner_errors", yson.List()))
	}
	return operationResult(e, sentence(e.Message))
}

func operationResult(e *operation.Error, message string) yson.Node {
	inner := make([]yson.Node, len(e.Inner))
	for i := range e.Inner {
		said := e.Inner[i].Message // by the user who aborted the operation
		if e.Message != operationAborted {
			said = sentence(said)
		}
		inner[i] = operationResult(&e.Inner[i], said)
	}
	return yson.Map(
		yson.Pair("code", yson.Int64(int64(e.Code))),
		yson.Pair("message", yson.String(message)),
		yson.Pair("attributes", yson.Map()),
		yson.Pair("inner_errors", yson.List(inner...)))
}

// operationAborted is the error of an operation that a user aborted. Inside it is what the user said.
const operationAborted = "operation aborted"

// sentence capitalises a message, as clients and the tests of others expect. A path at its start stays as users write it.
func sentence(text string) string {
	first, _, _ := strings.Cut(text, " ")
	switch {
	case strings.HasSuffix(first, ":") && strings.ContainsAny(first, "/_"):
	case text == operationAborted:
		return "Operation aborted by user request"
	case text != "" && text[0] >= 'a' && text[0] <= 'z':
		return strings.ToUpper(text[:1]) + text[1:]
	}
	return text
}

// EscapedTree is the name of a tree in a path.
func EscapedTree(name string) string { return ypath.Escape(name) }
