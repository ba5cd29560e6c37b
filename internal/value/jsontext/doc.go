// Package jsontext reads JSON text. It is the only package that knows its grammar: the readers of
// YAML and JSON documents, of YT's JSON, of conformance vectors and of stored resources call it.
// Structs of our own that encoding/json decodes do not need it.
//
// A [Scanner] moves through a text in memory, one value at a time. The caller asks what comes next
// ([Scanner.Peek]) and reads it: a list with [Scanner.Open] and [Scanner.Item], an object with
// [Scanner.Open] and [Scanner.Key]. The caller's recursion is the stack, so a reader builds its own
// structures directly and no tree is made in between:
//
//	s := jsontext.Scanner{Data: data}
//	if s.Peek() == jsontext.List && s.Open() {
//		for s.Item() {
//			s.Skip()
//		}
//	}
//	s.End()
//	return s.Err()
//
// Numbers are exact, strings are UTF-8 without halves of surrogate pairs, keys of an object differ,
// and nesting is bounded.
// The first error ends the scan: the Scanner jumps to the end of the text, so every loop ends, and
// [Scanner.Err] returns the error with its offset. Callers add their own errors with
// [Scanner.Refuse].
//
// [AppendQuote] writes a string. The package imports nothing of ours.
package jsontext
