// Package store keeps the scheduler's durable state in SQLite or PostgreSQL, behind
// one interface.
//
// It owns the tables, their migrations, the leader's lease and the rule that
// only the holder of the current lease writes. Rows are plain Go values and
// documents are bytes: the package knows neither pools nor jobs and imports no
// other room. It starts no goroutine.
//
// # Writing
//
// There is one writer, the leader. It collects rows to put and to delete in a
// [Batch] and calls [Store.Commit], which is one transaction and one fsync however many
// requests the batch serves. If Commit returns without an error, the whole batch is on
// disk. Otherwise the kind of the error tells what happened:
//
//   - [ErrFenced]: another process has the lease. Nothing was written and
//     nothing will be; step down.
//   - [ErrInvalid]: an engine would reject a row ([Batch.Check] finds such rows
//     before they share a batch with others). Nothing was written.
//   - [ErrFull]: no room on the disk. Nothing was written. Try again later.
//   - [ErrUnavailable]: the database does not answer or is busy. The batch
//     may or may not be in the store. Try again with the same *Batch: Commit
//     determines the outcome of the first attempt and never applies it twice.
//
// Every commit has a revision, one more than the last. Rows that a standby follows
// carry the revision that wrote them last.
//
// # Reading
//
// [Store.Load] returns everything that a starting leader needs. [Store.Changes]
// returns what has changed since a revision, for a standby that keeps a copy. Everything
// else is a query. Reads never wait for writes.
//
// # Values
//
// Strings are UTF-8 without NUL (PostgreSQL accepts no others). Empty and nil documents
// are the same and are read as nil. Times have microsecond precision, are
// read in UTC, and the zero time means "never". Operations and jobs are finished if they
// have a finish time.
package store
