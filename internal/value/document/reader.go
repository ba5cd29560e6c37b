package document

import "strings"

// Reader collects the problems of a document while tables read it. It knows the path to the current
// value.
type Reader struct {
	// KeepUnknown makes tables that support it keep unknown keys and warn about them, instead of
	// refusing them.
	KeepUnknown bool

	file     string
	path     []string
	problems Problems
	warnings Problems
}

// NewReader returns a reader whose problems name this file, which may be empty.
func NewReader(file string) *Reader { return &Reader{file: file} }

// File returns the name given to NewReader.
func (r *Reader) File() string { return r.file }

// Problems returns all problems so far in the order of a report.
func (r *Reader) Problems() Problems { return r.problems.Sorted() }

// Warnings returns all warnings so far in the order of a report.
func (r *Reader) Warnings() Problems { return r.warnings.Sorted() }

// Enter makes key the last part of the path until Leave.
func (r *Reader) Enter(key string) { r.path = append(r.path, key) }

// Leave undoes Enter.
func (r *Reader) Leave() { r.path = r.path[:len(r.path)-1] }

// Path returns the path to the current value.
func (r *Reader) Path() string {
	if len(r.path) == 0 {
		return ""
	}
	parts := make([]string, len(r.path))
	for i, part := range r.path {
		parts[i] = Shorten(part)
	}
	return strings.Join(parts, "/")
}

// Refuse adds a problem at the current path.
func (r *Reader) Refuse(at Position, rule Rule, message string, facts ...Entry) {
	r.problems = append(r.problems, r.problem(at, rule, message, facts))
}

// Warn adds a warning at the current path.
func (r *Reader) Warn(at Position, rule Rule, message string, facts ...Entry) {
	r.warnings = append(r.warnings, r.problem(at, rule, message, facts))
}

func (r *Reader) problem(at Position, rule Rule, message string, facts []Entry) Problem {
	return Problem{File: r.file, Position: at, Path: r.Path(), Rule: rule, Message: message, Facts: facts}
}

// Add adds a problem as it is, for rules that are applied after reading.
func (r *Reader) Add(p Problem) { r.problems = append(r.problems, p) }

// AddWarning adds a warning as it is.
func (r *Reader) AddWarning(p Problem) { r.warnings = append(r.warnings, p) }

// HasProblems reports whether the reader has any problem.
func (r *Reader) HasProblems() bool { return len(r.problems) > 0 }
