package store

import (
	"errors"
	"fmt"
)

// Batch is what one commit writes. Rows to delete are deleted first, then rows
// are put, so a row that is in both is there afterwards. Of rows to delete only
// the key counts. Deleting what is not there is no error.
//
// If several rows to put have the same key the last one counts; of jobs, the first finished
// one. Deleting an operation also deletes its specification, progress, snapshot, jobs and their output.
//
// A batch may be given to Commit again after ErrUnavailable or ErrFull, unchanged.
type Batch struct {
	Put    Rows
	Delete Rows

	lost *attempt // the last attempt, if its answer was lost
}

// Append adds the rows of another batch, as if it had been committed right after this one.
// A row that this batch puts and the other deletes is dropped; of an operation, only the row
// itself and not what belongs to it, so delete operations in a batch of their own.
func (b *Batch) Append(other *Batch) {
	for _, t := range tables {
		t.join(b, other)
	}
}

// Empty says whether the batch has no rows.
func (b *Batch) Empty() bool { return b.Len() == 0 }

// Len is the number of rows.
func (b *Batch) Len() int {
	n := 0
	for _, t := range tables {
		n += t.count(&b.Put) + t.count(&b.Delete)
	}
	return n
}

// Check returns everything that no engine would take, nil if there is nothing. Rows that pass
// cannot make a commit fail that they share with others, except for a conflict of
// operation numbers. Commit checks too.
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

// Receipt says what a commit did.
type Receipt struct {
	// Revision of the commit; that of the last one if the batch was empty.
	Revision int64
	// LastEvent and LastAudit are the greatest numbers given so far. The rows of the
	// batch have theirs.
	LastEvent int64
	LastAudit int64
	// Duplicates are finished jobs of the batch that were finished in the store already,
	// or stood in the batch twice. They did not change.
	Duplicates []uint64
}
