// Package gate bounds what callers take from the process before anybody has looked at what
// they want: memory for the bodies of their requests, and time in which they keep a
// connection busy without moving data.
//
//   - [Budget] counts the bytes that bodies hold in memory, of all callers and of each one.
//     A caller who wants more is refused with [Full], which has the amounts.
//   - [Paced] gives every request deadlines that move with the data: a caller who neither
//     sends nor reads is cut off, a large transfer and a held request are not.
//   - [NewServer] makes the HTTP servers of this program, with limits on headers and idle
//     connections.
//
// The package knows neither users nor commands. Its users say who the caller is.
package gate
