package store

import (
	"errors"
	"fmt"
)

// Kinds of errors; use errors.Is.
var (
	// ErrFenced says that the lease is not the current one: another process leads,
	// or the lease was released. Nothing was written.
	ErrFenced = errors.New("the lease is no longer valid")
	// ErrHeld says that somebody else holds the lease. The error is a *HeldError.
	ErrHeld = errors.New("the lease is held")
	// ErrInvalid says that rows or parameters break a rule; the text says which.
	ErrInvalid = errors.New("invalid")
	// ErrConflict says that a row would take the place of a different one, such as an
	// operation with the number of another. Nothing was written.
	ErrConflict = errors.New("conflict")
	// ErrFull says that the disk of the database is full. Nothing was written.
	ErrFull = errors.New("no room on the disk of the database")
	// ErrUnavailable says that the database does not answer, or is locked for longer
	// than we wait. Whether a commit took place is not known: repeat it with the same batch.
	ErrUnavailable = errors.New("the database is not available")
	// ErrNotFound says that there is no such row.
	ErrNotFound = errors.New("not found")
	// ErrTooOld says that changes since that revision are not known any more: load everything.
	ErrTooOld = errors.New("the revision is too old")
	// ErrTooNew says that the database was written by a newer version of weir.
	ErrTooNew = errors.New("the database belongs to a newer version")
	// ErrNotEmpty says that a store to import into has rows already.
	ErrNotEmpty = errors.New("the store is not empty")
	// ErrCorrupt says that an export is damaged or cut off.
	ErrCorrupt = errors.New("the export is damaged")
)

// HeldError says who holds the lease and for how long at least.
type HeldError struct {
	Leader Leader
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("the lease is held by %s at %s for another %v", e.Leader.Holder, e.Leader.Address, e.Leader.Remaining)
}

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// kindError gives an error of an engine one of the kinds above. Both are found by errors.Is.
type kindError struct {
	kind  error
	cause error
}

func (e *kindError) Error() string   { return e.kind.Error() + ": " + e.cause.Error() }
func (e *kindError) Unwrap() []error { return []error{e.kind, e.cause} }
