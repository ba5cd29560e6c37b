// Package auth authenticates requests and decides what their users may do. It owns
//
//   - [Directory]: users and groups, with nested membership that has no cycles;
//   - [Token] and [Tokens]: secrets of people and programs, stored only as hashes;
//   - [Visitor]: a user whom another authority has authenticated, as Kubernetes does;
//   - [Directory.Authenticate]: turns the credentials of a request into an [Identity];
//   - [ACL]: access control lists as YTsaurus has them, read from and written to
//     documents;
//   - [Directory.Check]: one permission on one object, whose answer names the
//     entry that decided;
//   - [Need]: what a command needs, as permissions on objects. The functions that
//     return needs are the rules of pools and operations.
//
// A pool, with everything below it, belongs to the users who may write to it: they divide
// what the pool has among its children. What the pool itself gets (guarantees, weight,
// limits, numbers of operations) is decided by users who may write to its parent, so
// users cannot raise their own guarantee.
//
// Everything here is a function of its arguments. The package keeps no state, knows
// neither HTTP nor the store and must not import them. It generates no random numbers:
// the caller provides the bytes of a token.
package auth
