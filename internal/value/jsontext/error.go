package jsontext

import "fmt"

// Code classifies errors.
type Code uint8

const (
	Syntax     Code = iota // the text breaks the grammar
	Truncated              // the text ends inside the document
	Trailing               // the text continues after the document
	TooDeep                // nested deeper than MaxDepth
	OutOfRange             // a number that no type holds
	Duplicate              // a key that its object already has
)

// Error is what is wrong with a text.
type Error struct {
	Code    Code
	Offset  int    // in bytes, from zero; the length of the text if it ends too early
	First   int    // the offset of the first of two equal keys
	Message string // without the place
}

func (e *Error) Error() string { return fmt.Sprintf("JSON at byte %d: %s", e.Offset, e.Message) }

// QuoteByte names a byte in a message.
func QuoteByte(c byte) string {
	if c < 0x20 || c >= 0x7f {
		return fmt.Sprintf(`\x%02x`, c)
	}
	return `"` + string(rune(c)) + `"`
}

// Excerpt quotes a piece of a text for a message and shortens it if it is long.
func Excerpt(text []byte) string {
	const longest = 40
	if len(text) <= longest {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprintf("%q…", text[:longest])
}

// grouped writes a number below a million with a comma between thousands.
func grouped(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}
