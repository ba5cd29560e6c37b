package yson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// A SyntaxError describes an error in an input, and its place.
type SyntaxError struct {
	Notation string // "YSON" or "JSON"
	Message  string
	Offset   int64 // of the offending byte, from zero
	Line     int   // from one; newlines inside binary strings count too
	Column   int   // in bytes, from one

	truncated bool
}

// Error gives the place twice: line and column for text, the offset for bytes.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s at line %d, column %d (byte %d): %s", e.Notation, e.Line, e.Column, e.Offset, e.Message)
}

// Unwrap returns io.ErrUnexpectedEOF if the input ended too early.
func (e *SyntaxError) Unwrap() error {
	if e.truncated {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// errTooDeep is the error of Append and AppendJSON for a Node that could not be read back.
var errTooDeep = errors.New(tooDeepMessage)

var tooDeepMessage = fmt.Sprintf("values are nested deeper than %d levels", MaxDepth)

// lineAndColumn finds a place in a text that starts at line and column one.
func lineAndColumn(before []byte) (line, column int) {
	return 1 + bytes.Count(before, newline), len(before) - bytes.LastIndexByte(before, '\n')
}

var newline = []byte{'\n'}
