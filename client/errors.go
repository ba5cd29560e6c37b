package client

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/weirhq/weir/internal/value/yson"
)

// Codes of errors that callers look for.
const (
	CodeGeneric        = 1
	CodeUnavailable    = 105
	CodeResolve        = 500
	CodeAlreadyExists  = 501
	CodeAuthentication = 900
	CodeAuthorization  = 901
	CodeNoOperation    = 1915
	CodeNoJob          = 1916
)

// Error is the refusal of a server.
type Error struct {
	Code       int64
	Message    string
	Attributes []yson.Entry
	Inner      []*Error
}

// Unreachable is why there is no answer.
type Unreachable struct {
	Address string
	Err     error
}

// Error says which server is meant.
func (e *Unreachable) Error() string {
	return fmt.Sprintf("the scheduler at %s cannot be reached: %v", e.Address, e.Err)
}

// Unwrap returns the reason.
func (e *Unreachable) Unwrap() error { return e.Err }

// Error is the message with those below it, one a line, each with its code
// unless that says nothing.
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
		fmt.Fprintf(b, " (code %d)", e.Code)
	}
	for _, inner := range e.Inner {
		inner.write(b, depth+1)
	}
}

// Has says whether the error or one below it has a code.
func (e *Error) Has(code int64) bool {
	if e.Code == code {
		return true
	}
	for _, inner := range e.Inner {
		if inner.Has(code) {
			return true
		}
	}
	return false
}

// readError reads the error of a response. What is no error of ours is shown as
// it is.
func readError(response *http.Response, data []byte) error {
	node, err := yson.ParseJSON(data, yson.JSONOptions{UTF8: true})
	if err == nil && node.Kind() == yson.MapKind {
		return ErrorOf(node)
	}
	text := strings.TrimSpace(string(data))
	const most = 300
	if len(text) > most {
		text = text[:most] + "…"
	}
	code := int64(1)
	if response.StatusCode >= http.StatusInternalServerError {
		code = CodeUnavailable
	}
	return &Error{Code: code, Message: fmt.Sprintf("%s: %s", response.Status, text)}
}

// ErrorOf reads an error from a document, such as the result of an operation.
func ErrorOf(n yson.Node) *Error {
	e := &Error{}
	if code, there := n.Get("code"); there {
		e.Code, _ = code.Int64()
	}
	if message, there := n.Get("message"); there {
		e.Message, _ = message.Text()
	}
	if attributes, there := n.Get("attributes"); there {
		e.Attributes = attributes.Entries()
	}
	if inner, there := n.Get("inner_errors"); there {
		for _, each := range inner.Items() {
			e.Inner = append(e.Inner, ErrorOf(each))
		}
	}
	return e
}
