package store

import (
	"errors"
	"fmt"
)

// Batch is what one commit writes. Rows to delete are deleted first, then rows are put, so a row in
// both is in the store afterwards. Only the key of a row to delete matters. Deleting a row that does
// not exist is not an error.
//
// If several rows to put have the same key, the last one wins; for jobs, the first finished one.
// Deleting an operation also deletes its specification, progress, snapshot, jobs, their output and its
// uses of contents.
//
// After ErrUnavailable or ErrFull, the same unchanged batch may be passed to Commit again.
type Batch struct {
	Put    Rows
	Delete Rows

	lost *attempt // the last attempt, if its answer was lost
}

// Append adds the rows of another batch, as if it were committed right after this one. It drops a row
// that this batch puts and the other deletes. For an operation it drops only the row itself and not
// what belongs to it, so delete operations in a separate batch.
func (b *Batch) Append(other *Batch) {
	for _, t := range tables {
		t.join(b, other)
	}
}

// Empty reports whether the batch has no rows.
func (b *Batch) Empty() bool { return b.Len() == 0 }

// Len returns the number of rows.
func (b *Batch) Len() int {
	n := 0
	for _, t := range tables {
		n += t.count(&b.Put) + t.count(&b.Delete)
	}
	return n
}

// Check returns all violations that an engine would reject, or nil. Rows that pass cannot make a shared
// commit fail, except by a conflict of operation numbers. Commit checks too.
func (b *Batch) Check() error {
	var problems []error
	for _, t := range tables {
		problems = append(problems, t.check(&b.Put, false)...)
		problems = append(problems, t.check(&b.Delete, true)...)
		if t.isInsertOnly() && t.count(&b.Delete) > 0 {
			problems = append(problems, fmt.Errorf("%w: rows of %s are deleted by retention only", ErrInvalid, t.tableName()))
		}
	}
	return errors.Join(problems...)
}

// Receipt describes what a commit did.
type Receipt struct {
	// Revision of the commit; the last revision if the batch was empty.
	Revision int64
	// LastEvent and LastAudit are the greatest numbers assigned so far. The rows of the batch have
	// theirs.
	LastEvent int64
	LastAudit int64
	// Duplicates are finished jobs of the batch that were already finished in the store, or that were
	// in the batch twice. They did not change.
	Duplicates []uint64
}
