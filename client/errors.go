package client

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/weirhq/weir/internal/value/yson"
)

// Code is the kind of an Error. It implements error, so that callers can test for it with
// errors.Is.
type Code int64

// Codes that callers handle most often; the API has others.
const (
	CodeGeneric           Code = 1
	CodeUnavailable       Code = 105   // the cluster has no leader at the moment
	CodeOperationState    Code = 201   // the operation's state does not allow this; it may have ended
	CodeTooManyOperations Code = 202   // the pool or the cluster has its maximum number of operations
	CodeResolve           Code = 500   // the path does not exist
	CodeAlreadyExists     Code = 501   // the object already exists
	CodeAuthentication    Code = 900   // the token is missing or invalid
	CodeAuthorization     Code = 901   // the user lacks the permission
	CodeNoOperation       Code = 1915  // the operation does not exist
	CodeNoJob             Code = 1916  // the job does not exist
	CodeOvercommit        Code = 29000 // the tree's nodes cannot meet the pools' guarantees
)

// Error returns the code as text, such as "code 500".
func (c Code) Error() string { return fmt.Sprintf("code %d", int64(c)) }

// Error is an error that a server returned: why it refused a request, or why an operation
// or a job failed.
type Error struct {
	Code    Code
	Message string
	// Attributes are details, such as the path that was not found. Value.Any lists their
	// types.
	Attributes map[string]any
	// Inner holds the errors that caused this one.
	Inner []*Error
}

// Error returns the message and, indented below it, those of the inner errors. A code
// other than CodeGeneric follows its message.
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

// Is reports whether target is the code of this error. errors.Is also searches the inner
// errors.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && e.Code == code
}

// Unwrap returns the inner errors.
func (e *Error) Unwrap() []error {
	inner := make([]error, len(e.Inner))
	for i, each := range e.Inner {
		inner[i] = each
	}
	return inner
}

// Unreachable reports that no server answered, or that an answer broke off.
type Unreachable struct {
	// Address is the URL of the server that was tried last.
	Address string
	// Err is the cause.
	Err error
}

// Error returns the server's address and the cause.
func (e *Unreachable) Error() string {
	return fmt.Sprintf("the scheduler at %s cannot be reached: %v", e.Address, e.Err)
}

// Unwrap returns the cause.
func (e *Unreachable) Unwrap() error { return e.Err }

// readError decodes the error in a response. If the body is not an API error, the error
// contains the start of the body.
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

// errorOf decodes an error, such as an operation's result.
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
