// Package auth decides who somebody is and what they may do. It owns
//
//   - [Directory]: users and groups, with nested membership that has no cycles;
//   - [Token] and [Tokens]: what people and programs show, kept only as hashes;
//   - [Directory.Authenticate]: from what a request shows to an [Identity];
//   - [ACL]: access control lists as YTsaurus has them, read from and written to
//     documents;
//   - [Directory.Check]: one permission on one object, whose answer names the
//     entry that decided;
//   - [Need]: what a command needs, as permissions on objects. The functions that
//     return needs are the rules of pools and operations.
//
// A pool belongs to the one who may write to it, with all below it: they divide
// what the pool has among its children. What the pool itself gets (guarantees,
// weight, limits, numbers of operations) is for those who may write to its
// parent, so nobody can raise their own guarantee.
//
// Everything here is a function of its arguments. The package keeps nothing,
// knows neither HTTP nor the store, and draws no random numbers: the bytes of a
// token come from the caller. It must not import them either.
package auth
