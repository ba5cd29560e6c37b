// Package store keeps what the scheduler must not forget, in SQLite or in
// PostgreSQL, behind one seam.
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
// requests the batch serves. When Commit returns without an error the batch is on disk,
// whole. When it returns an error the store says which kind:
//
//   - [ErrFenced]: another process has the lease. Nothing was written and
//     nothing will be; step down.
//   - [ErrInvalid]: a row that no engine would take ([Batch.Check] finds them
//     before they are in a batch with others). Nothing was written.
//   - [ErrFull]: no room on the disk. Nothing was written. Try again later.
//   - [ErrUnavailable]: the database does not answer or is busy. The batch
//     may or may not be there. Try again with the same *Batch: Commit
//     finds out what became of the first attempt and never applies it twice.
//
// Every commit has a revision, one more than the last, and every row carries
// the revision that wrote it last.
//
// # Reading
//
// [Store.Load] returns everything that a starting leader needs, [Store.Changes]
// the same since a revision, for a standby that keeps a warm copy. Everything
// else is a query. Reads never wait for writes.
//
// # Values
//
// Strings are UTF-8 without NUL (PostgreSQL takes no others). Empty and nil documents
// are the same and are read as nil. Times have microseconds, are read in UTC,
// and the zero time means "never". Finished operations and jobs are those with a
// finish time.
package store
