package api

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
	codeOperationState       = 201
	codeTooManyOperations    = 202
	codeNoSuchAllocation     = 203
	codePoolTrees            = 214
	codeGangInFairSharePool  = 222
	codeNoSuchPool           = 223
)

var _ = translate(operationError)

// operationError turns errors of the core and the server about operations and jobs
// into those that clients know.
func operationError(err error) *Error {
	var (
		joined interface{ Unwrap() []error }
		count  *scheduling.CountError
		pool   *core.PoolError
		state  *operation.StateError
	)
	if errors.As(err, &joined) && len(joined.Unwrap()) > 1 {
		return joinedError(joined.Unwrap())
	}
	switch {
	case errors.As(err, &count):
		return countError(count)
	case errors.As(err, &pool):
		return poolError(pool)
	case errors.As(err, &state):
		return errorf(codeOperationState, "Cannot %s the operation: it is in %q state", state.What, state.State).
			with("state", yson.String(state.State.String()))
	case errors.Is(err, core.ErrTooManyOperations):
		return errorf(codeTooManyOperations, "Limit for the total number of concurrent operations has been reached")
	case errors.Is(err, server.ErrNoSuchOperation):
		return errorf(codeSchedulerNoOperation, "No such operation: %s", err)
	case errors.Is(err, server.ErrOperationEnded):
		return errorf(codeOperationState, "%s", err)
	case errors.Is(err, server.ErrNoSuchJob):
		return errorf(codeNoSuchAllocation, "No such job: %s", err)
	case errors.Is(err, server.ErrAliasInUse):
		return errorf(codeGeneric, "Operation alias is already used: %s", err)
	}
	return nil
}

// joinedError is a refusal by several trees. Its code is that of the first.
func joinedError(list []error) *Error {
	first := asError(list[0])
	return (&Error{Code: first.Code, Message: first.Message}).because(list...)
}

func countError(e *scheduling.CountError) *Error {
	what := "concurrent"
	if e.Running {
		what = "running"
	}
	return errorf(codeTooManyOperations, "Limit for the number of %s operations %d for pool %q has been reached", what, e.Limit, e.Pool).
		with("pool", yson.String(e.Pool)).with("limit", yson.Int64(int64(e.Limit))).
		because(errorf(codeTooManyOperations, "%s", e))
}

func poolError(e *core.PoolError) *Error {
	code, message := codeGeneric, e.Error()
	switch e.Rule {
	case core.PoolForbidsOperations:
		message = fmt.Sprintf("Starting operations immediately in pool %q of tree %q is forbidden", e.Pool, e.Tree)
	case core.PoolsPerUser:
		message = fmt.Sprintf("Cannot create new ephemeral pool %q as limit for number of ephemeral pools %d for user %q in tree %q has been reached",
			e.Pool, e.Limit, e.User, e.Tree)
	case core.PoolMissing:
		code, message = codeNoSuchPool, fmt.Sprintf("Pool %q of tree %q does not exist", e.Pool, e.Tree)
	}
	return errorf(code, "%s", message).with("pool", yson.String(e.Pool)).with("pool_tree", yson.String(e.Tree)).
		because(errorf(code, "%s", e))
}

// operationResult writes an error of an operation or a job in the form that
// clients know.
func operationResult(e *operation.Error) yson.Node {
	if e == nil {
		return yson.Map(
			yson.Pair("code", yson.Int64(0)), yson.Pair("message", yson.String("")),
			yson.Pair("attributes", yson.Map()), yson.Pair("inner_errors", yson.List()))
	}
	inner := make([]yson.Node, len(e.Inner))
	for i := range e.Inner {
		inner[i] = operationResult(&e.Inner[i])
	}
	return yson.Map(
		yson.Pair("code", yson.Int64(int64(e.Code))),
		yson.Pair("message", yson.String(sentence(e.Message))),
		yson.Pair("attributes", yson.Map()),
		yson.Pair("inner_errors", yson.List(inner...)))
}

// sentence begins a message with a capital, as clients and tests of others expect.
func sentence(text string) string {
	switch {
	case text == "operation aborted":
		return "Operation aborted by user request"
	case text != "" && text[0] >= 'a' && text[0] <= 'z':
		return strings.ToUpper(text[:1]) + text[1:]
	}
	return text
}

// escapedTree is the name of a tree in a path.
func escapedTree(name string) string { return ypath.Escape(name) }
