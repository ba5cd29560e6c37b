// Package gate limits what callers can use before their request is known: memory for the bodies of
// their requests and for answers that they do not read, and time in which they keep a connection busy
// without moving data.
//
//   - [Budget] counts the bytes that bodies and answers hold in memory, for all callers and for each one.
//     It refuses a caller who needs more with [Full], which states the amounts.
//   - [Paced] gives every request deadlines that move with the data: a caller who neither
//     sends nor reads is cut off; a large transfer or a held request is not.
//   - [NewServer] returns the HTTP servers of this program, with limits on headers and idle
//     connections.
//   - [ListenLocal] opens a socket for this machine; [IsOwner] reports whether a request came over
//     it from the server's own user or from root.
//
// The package does not know users or commands; its users pass in the caller.
package gate
