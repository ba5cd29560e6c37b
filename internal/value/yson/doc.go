// Package yson implements YSON, the notation of YT: a tree of values with attributes on any of
// them, written as text, as indented text or as bytes, and its mapping to JSON.
//
// It owns:
//
//   - [Node]: a value in memory. Immutable; the zero Node is the entity "#".
//   - [Parse] and [Append]: between bytes and Nodes. Text and binary may be mixed freely on
//     input, whatever format was declared.
//   - [ParseJSON] and [AppendJSON]: the JSON form, in which attributes are "$attributes" and
//     strings of bytes are strings of code points up to U+00FF.
//
// Three decisions hold everywhere:
//
//   - Order. A map keeps its keys in the order in which they were read or given, and is
//     written in that order. Nothing sorts; the same Node is always written as the same bytes.
//   - Keys. A map with a duplicate key is refused.
//   - Depth. Lists, maps and attributes nest at most [MaxDepth] deep, in both directions, so
//     that what was read can be written and what was written can be read.
//
// The caller must limit sizes: a list of entities grows twentyfold when it becomes a Node.
// Errors in a notation are of type [*SyntaxError] and include their place; no input makes the
// package panic.
//
// Of ours the package imports jsontext only. Which format a request asked for, and what a value means,
// is up to its users.
package yson

// MaxDepth is the deepest nesting of lists, maps and attributes.
const MaxDepth = 256
