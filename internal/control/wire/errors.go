package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/blob"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/yson"
)

// Codes of errors, as clients of YTsaurus know them.
const (
	CodeGeneric         = 1
	CodeTimeout         = 3
	codeUnavailable     = 105
	CodeQueueSize       = 108
	CodeLockConflict    = 402
	CodeResolve         = 500
	CodeAlreadyExists   = 501
	CodeMaxChildren     = 502
	CodeAccountLimit    = 902
	CodeNoSuchOperation = 1915
	CodeNoSuchJob       = 1916
	CodeNoSuchAttribute = 1920
	CodeNoTransaction   = 11000
)

// Error is an error as clients see it.
type Error struct {
	Code       int
	Message    string
	Attributes []yson.Entry
	Inner      []*Error
	// Status is the status of the answer; zero means 400.
	Status int
}

func (e *Error) Error() string {
	text := e.Message
	for _, inner := range e.Inner {
		text += ": " + inner.Error()
	}
	return text
}

// Errorf returns an error without attributes.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// With adds an attribute.
func (e *Error) With(name string, value yson.Node) *Error {
	e.Attributes = append(e.Attributes, yson.Pair(name, value))
	return e
}

// Because adds the causes of the error.
func (e *Error) Because(causes ...error) *Error {
	for _, cause := range causes {
		e.Inner = append(e.Inner, AsError(cause))
	}
	return e
}

// HasCode reports whether an error, or one inside it, has the code.
func (e *Error) HasCode(code int) bool {
	return e.Code == code || slices.ContainsFunc(e.Inner, func(inner *Error) bool { return inner.HasCode(code) })
}

// AsError turns any error into one for clients.
func AsError(err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	if e := operationError(err); e != nil {
		return e
	}
	var (
		denied   *auth.Denied
		refused  *auth.Unauthenticated
		problems document.Problems
		large    *http.MaxBytesError
		quota    *server.QuotaError
	)
	switch {
	case errors.As(err, &denied):
		return Errorf(denied.Code(), "%s", denied.Error()).
			With("user", yson.String(denied.Answer.User)).
			With("permission", yson.String(denied.Answer.Permission.String())).
			With("object", yson.String(denied.Answer.Object))
	case errors.As(err, &refused):
		e := Errorf(refused.Code(), "%s", refused.Error())
		if e.Code == auth.CodeAuthentication {
			e.Status = http.StatusUnauthorized
		}
		return e
	case errors.As(err, &problems):
		return problemsError(problems)
	case errors.As(err, &large):
		return Errorf(CodeGeneric, "The request is longer than %d bytes", large.Limit)
	case errors.As(err, &quota):
		return Errorf(CodeAccountLimit, "%s", quota.Error()).With("user", yson.String(quota.User)).With("used", yson.Int64(quota.Used)).
			With("wanted", yson.Int64(quota.Wanted)).With("limit", yson.Int64(quota.Limit))
	case errors.Is(err, server.ErrNotLeading), errors.Is(err, server.ErrUnknownOutcome):
		return Unavailable(err.Error())
	case errors.Is(err, server.ErrOverloaded):
		e := Errorf(CodeQueueSize, "%s", err.Error())
		e.Status = http.StatusServiceUnavailable
		return e
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrFull):
		return Unavailable("the store does not answer")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return Errorf(CodeTimeout, "The request was given up: %s", err.Error())
	case errors.Is(err, blob.ErrUnavailable):
		return Unavailable(err.Error())
	case errors.Is(err, auth.ErrExists):
		return Errorf(CodeAlreadyExists, "%s", err.Error())
	}
	return Errorf(CodeGeneric, "%s", err.Error())
}

// Unavailable is an error that makes clients wait and retry.
func Unavailable(message string) *Error {
	return &Error{Code: codeUnavailable, Message: message, Status: http.StatusServiceUnavailable}
}

// problemsError lists all problems of a document, one inner error for each.
func problemsError(problems document.Problems) *Error {
	list := make([]*Error, len(problems))
	for i, p := range problems {
		list[i] = problemError(p)
	}
	if len(list) == 1 {
		return list[0]
	}
	return &Error{Code: CodeGeneric, Message: fmt.Sprintf("%d things are wrong", len(list)), Inner: list}
}

// Node is the error as a document.
func (e *Error) Node() yson.Node {
	inner := make([]yson.Node, len(e.Inner))
	for i, cause := range e.Inner {
		inner[i] = cause.Node()
	}
	return yson.Map(
		yson.Pair("code", yson.Int64(int64(e.Code))),
		yson.Pair("message", yson.String(e.Message)),
		yson.Pair("attributes", yson.Map(Distinct(e.Attributes)...)),
		yson.Pair("inner_errors", yson.List(inner...)))
}

// Distinct keeps the first of the entries with equal keys.
func Distinct(entries []yson.Entry) []yson.Entry {
	var list []yson.Entry
	for _, e := range entries {
		if !slices.ContainsFunc(list, func(other yson.Entry) bool { return other.Key == e.Key }) {
			list = append(list, e)
		}
	}
	return list
}

// JSON is the error as JSON in ASCII on one line.
func (e *Error) JSON() []byte {
	text, err := yson.AppendJSON(nil, readable(e.Node()), yson.JSONOptions{UTF8: true, StringifyNaN: true})
	if err != nil {
		text = []byte(`{"code":` + strconv.Itoa(e.Code) + `,"message":"The error cannot be written as JSON","attributes":{},"inner_errors":[]}`)
	}
	return AsciiJSON(text)
}

// readable replaces bytes that are not text.
func readable(n yson.Node) yson.Node {
	entries := func(list []yson.Entry) []yson.Entry {
		out := make([]yson.Entry, len(list))
		for i, e := range list {
			out[i] = yson.Pair(strings.ToValidUTF8(e.Key, "?"), readable(e.Value))
		}
		return Distinct(out)
	}
	bare := n
	switch n.Kind() {
	case yson.StringKind:
		text, _ := n.Text()
		bare = yson.String(strings.ToValidUTF8(text, "?"))
	case yson.ListKind:
		items := make([]yson.Node, len(n.Items()))
		for i, item := range n.Items() {
			items[i] = readable(item)
		}
		bare = yson.List(items...)
	case yson.MapKind:
		bare = yson.Map(entries(n.Entries())...)
	}
	return bare.WithAttributes(entries(n.Attributes())...)
}

// AsciiJSON escapes everything in JSON that a header could not carry.
func AsciiJSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r < 0x20 || r == 0x7f:
			out = append(out, ' ') // only between tokens; strings have theirs escaped
		case r < 0x7f:
			out = append(out, byte(r))
		case r > 0xffff:
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		text = text[size:]
	}
	return out
}

// MaxErrorHeader is the longest error in a header: clients refuse longer lines.
const MaxErrorHeader = 32 << 10

// Header is the error for a header, shortened if it is long.
func (e *Error) Header() string {
	text := e.JSON()
	if len(text) <= MaxErrorHeader {
		return string(text)
	}
	short := &Error{Code: e.Code, Message: CutText(e.Message, 4<<10)}
	for _, code := range e.codes(nil) {
		if code != e.Code && len(short.Inner) < 20 {
			short.Inner = append(short.Inner, Errorf(code, "The whole error is in the body"))
		}
	}
	return string(short.JSON())
}

// codes lists the codes in an error, each once.
func (e *Error) codes(list []int) []int {
	if !slices.Contains(list, e.Code) {
		list = append(list, e.Code)
	}
	for _, inner := range e.Inner {
		list = inner.codes(list)
	}
	return list
}

// CutText shortens text to at most the given number of bytes.
func CutText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
