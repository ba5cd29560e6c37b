// Package yson is the notation of the YT world: a tree of values with attributes on any of
// them, written as text, as indented text or as bytes, and its mapping to JSON.
//
// It owns:
//
//   - [Node]: a value in memory. Immutable; the zero Node is the entity "#".
//   - [Parse] and [Append]: between bytes and Nodes. Text and binary may be mixed freely on
//     input, whatever the caller was told about the format.
//   - [Reader] and [Writer]: the same, token by token, for input and output that should not be
//     held in memory. A fragment (the rows of a table, the entries of a map without its braces)
//     is read one Node at a time with [Reader.ReadNode].
//   - [ParseJSON] and [AppendJSON]: the JSON form, in which attributes are "$attributes" and
//     strings of bytes are strings of code points up to U+00FF.
//
// Three decisions hold everywhere:
//
//   - Order. A map keeps its keys in the order in which they were read or given, and they are
//     written in that order. Nothing sorts; the same Node is always written as the same bytes.
//   - Keys. A map with one key twice is refused when it becomes a Node. The Reader hands out
//     tokens and does not compare keys.
//   - Depth. Lists, maps and attributes nest at most [MaxDepth] deep, in both directions, so
//     that what was read can be written and what was written can be read.
//
// Size is the caller's to limit: a list of entities grows twentyfold when it becomes a Node,
// and a Reader holds one string whole. Errors in a notation are of type [*SyntaxError] and say
// where they are; no input makes the package panic.
//
// Buffers are handed in: Append continues a slice, Reader and Writer have Reset and keep theirs.
// Pools of such things belong to those who have goroutines.
//
// The package imports nothing of ours. Which format a request asked for, and what a value means,
// is the business of its users.
package yson

// MaxDepth is how deep lists, maps and attributes may nest.
const MaxDepth = 256
