package store

import (
	"errors"
	"fmt"
)

// Kinds of errors; use errors.Is.
var (
	// ErrFenced means that the lease is not the current one: another process leads, or the
	// lease was released. Nothing was written.
	ErrFenced = errors.New("the lease is no longer valid")
	// ErrHeld means that another holder has the lease. The error is a *HeldError.
	ErrHeld = errors.New("the lease is held")
	// ErrInvalid means that rows or parameters break a rule; the text names it.
	ErrInvalid = errors.New("invalid")
	// ErrConflict means that a row would replace a different one, such as an operation with
	// the number of another. Nothing was written.
	ErrConflict = errors.New("conflict")
	// ErrFull means that the database's disk is full. Nothing was written.
	ErrFull = errors.New("no room on the disk of the database")
	// ErrUnavailable means that the database does not answer, or is locked for longer than we
	// wait. It is unknown whether a commit took place: repeat it with the same batch.
	ErrUnavailable = errors.New("the database is not available")
	// ErrNotFound means that there is no such row.
	ErrNotFound = errors.New("not found")
	// ErrTooOld means that changes since that revision are no longer known: load everything.
	ErrTooOld = errors.New("the revision is too old")
	// ErrTooNew means that a newer version of weir wrote the database.
	ErrTooNew = errors.New("the database belongs to a newer version")
	// ErrNotEmpty means that the store to import into already has rows.
	ErrNotEmpty = errors.New("the store is not empty")
	// ErrCorrupt means that an export is damaged or truncated.
	ErrCorrupt = errors.New("the export is damaged")
)

// HeldError names the holder of the lease. Its Remaining is how long this process has to watch
// the lease unchanged before it may take it.
type HeldError struct {
	Leader Leader
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("the lease is held by %s at %s for another %v", e.Leader.Holder, e.Leader.Address, e.Leader.Remaining)
}

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// kindError gives an engine's error one of the kinds above. errors.Is finds both.
type kindError struct {
	kind  error
	cause error
}

func (e *kindError) Error() string   { return e.kind.Error() + ": " + e.cause.Error() }
func (e *kindError) Unwrap() []error { return []error{e.kind, e.cause} }
