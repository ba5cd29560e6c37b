package client

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/weirhq/weir/internal/value/yson"
)

// Code says what kind of error an Error is. It is an error itself, for errors.Is.
type Code int64

// Codes that callers look for.
const (
	CodeGeneric           Code = 1
	CodeUnavailable       Code = 105   // nobody leads at the moment
	CodeTooManyOperations Code = 202   // the pool or the cluster has as many operations as it may
	CodeResolve           Code = 500   // there is nothing at the path
	CodeAlreadyExists     Code = 501   // there is something already
	CodeAuthentication    Code = 900   // no token, or a wrong one
	CodeAuthorization     Code = 901   // the user may not do this
	CodeNoOperation       Code = 1915  // there is no such operation
	CodeNoJob             Code = 1916  // there is no such job
	CodeOvercommit        Code = 29000 // the guarantees of pools exceed their cluster
)

// Error is the code as a number.
func (c Code) Error() string { return fmt.Sprintf("code %d", int64(c)) }

// Error is the refusal of a server, or why an operation or a job failed.
type Error struct {
	Code    Code
	Message string
	// Attributes are details, such as the path that was not found; see Value.Any for
	// their types.
	Attributes map[string]any
	// Inner are the errors that this one comes from.
	Inner []*Error
}

// Error is the message with those below it, one a line, each with its code unless that
// says nothing.
func (e *Error) Error() string {
	var b strings.Builder
	e.write(&b, 0)
	return b.String()
}

func (e *Error) write(b *strings.Builder, depth int) {
	if depth > 0 {
		b.WriteString("\n" + strings.Repeat("  ", depth))
	}
	indented := "\n" + strings.Repeat("  ", depth)
	b.WriteString(strings.ReplaceAll(strings.TrimRight(e.Message, "\n"), "\n", indented))
	if e.Code != CodeGeneric && e.Code != 0 {
		fmt.Fprintf(b, " (%v)", e.Code)
	}
	for _, inner := range e.Inner {
		inner.write(b, depth+1)
	}
}

// Is says whether target is the code of the error; errors.Is also looks below it.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && e.Code == code
}

// Unwrap returns the errors below this one.
func (e *Error) Unwrap() []error {
	inner := make([]error, len(e.Inner))
	for i, each := range e.Inner {
		inner[i] = each
	}
	return inner
}

// Unreachable is why there is no answer.
type Unreachable struct {
	// Address is the URL of the server; the last one that was tried.
	Address string
	Err     error
}

// Error says which server is meant.
func (e *Unreachable) Error() string {
	return fmt.Sprintf("the scheduler at %s cannot be reached: %v", e.Address, e.Err)
}

// Unwrap returns the reason.
func (e *Unreachable) Unwrap() error { return e.Err }

// readError reads the error of a response. What is no error of ours is shown as
// it is.
func readError(response *http.Response, data []byte) error {
	node, err := yson.ParseJSON(data, yson.JSONOptions{UTF8: true})
	if err == nil && node.Kind() == yson.MapKind {
		return errorOf(node)
	}
	text := strings.TrimSpace(string(data))
	const most = 300
	if len(text) > most {
		text = text[:most] + "…"
	}
	code := CodeGeneric
	if response.StatusCode >= http.StatusInternalServerError {
		code = CodeUnavailable
	}
	return &Error{Code: code, Message: fmt.Sprintf("%s: %s", response.Status, text)}
}

// errorOf reads an error from a document, such as the result of an operation.
func errorOf(n yson.Node) *Error {
	code, _ := field(n, "code").Int64()
	message, _ := field(n, "message").Text()
	attributes, _ := plain(field(n, "attributes")).(map[string]any)
	e := &Error{Code: Code(code), Message: message, Attributes: attributes}
	for _, each := range field(n, "inner_errors").Items() {
		e.Inner = append(e.Inner, errorOf(each))
	}
	return e
}
