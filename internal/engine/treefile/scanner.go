package treefile

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/jsontext"
	"github.com/weirhq/weir/internal/value/notation"
)

// maxProblems is how many problems of one tree are reported separately; the rest
// are counted. A file of 100,000 elements can have 100,000 problems.
const maxProblems = 100

// scanner walks JSON text once and collects what is wrong with it. It exists
// because a tree of 100,000 operations is 25 MB of text: [document.Value] would
// hold all of it at once.
//
// After a syntax error (broken) every read returns at once with nothing.
type scanner struct {
	file     string
	json     jsontext.Scanner
	path     []string
	broken   bool
	problems []flaw
	omitted  int
}

// flaw is a problem whose line is not known yet.
type flaw struct {
	offset  int
	problem document.Problem
}

func newScanner(file string, data []byte) *scanner {
	return &scanner{file: file, json: jsontext.Scanner{Data: data}}
}

// here is the offset of the next value.
func (s *scanner) here() int { return s.json.Offset() }

func (s *scanner) enter(key string) { s.path = append(s.path, key) }

func (s *scanner) leave() { s.path = s.path[:len(s.path)-1] }

// refuse adds a problem at the current path.
func (s *scanner) refuse(offset int, rule document.Rule, format string, args ...any) {
	parts := make([]string, len(s.path))
	for i, part := range s.path {
		parts[i] = shorten(part)
	}
	s.refuseAt(offset, strings.Join(parts, "/"), rule, format, args...)
}

func (s *scanner) refuseAt(offset int, path string, rule document.Rule, format string, args ...any) {
	if len(s.problems) >= maxProblems {
		s.omitted++
		return
	}
	s.problems = append(s.problems, flaw{offset, document.Problem{
		File: s.file, Path: path, Rule: rule, Message: fmt.Sprintf(format, args...),
	}})
}

// err returns all problems in the order of the text.
func (s *scanner) err() error {
	slices.SortStableFunc(s.problems, func(a, b flaw) int { return cmp.Compare(a.offset, b.offset) })
	var problems document.Problems
	data := s.json.Data
	line, from := int32(1), 0 // from is where that line starts
	seen := 0
	for _, f := range s.problems {
		at := min(max(f.offset, seen), len(data))
		if n := bytes.Count(data[seen:at], []byte{'\n'}); n > 0 {
			line += int32(n)
			from = seen + bytes.LastIndexByte(data[seen:at], '\n') + 1
		}
		seen = at
		f.problem.Position = document.Position{Line: line, Column: int32(utf8.RuneCount(data[from:at])) + 1}
		problems = append(problems, f.problem)
	}
	if s.omitted > 0 {
		problems = append(problems, document.Problem{
			File: s.file, Rule: document.RuleTooLarge, Message: fmt.Sprintf("and %d more problems like these", s.omitted),
		})
	}
	return problems.Err()
}

// check reports a syntax error where it is found.
func (s *scanner) check() {
	if err := s.json.Err(); err != nil && !s.broken {
		s.broken = true
		problem := notation.JSONProblem(err)
		s.refuse(err.Offset, problem.Rule, "%s", problem.Message)
	}
}

// skip skips the next value, whatever it is.
func (s *scanner) skip() {
	s.json.Skip()
	s.check()
}

// expect reports whether the next value is of this kind. It skips a null, which
// means the same as an absent key, and rejects anything else.
func (s *scanner) expect(kind jsontext.Kind, says string) bool {
	switch found := s.json.Peek(); found {
	case kind:
		return true
	case jsontext.Null:
		s.json.Word()
	case jsontext.None:
		s.check()
	default:
		at := s.here()
		s.skip()
		if !s.broken {
			s.refuse(at, document.RuleWrongType, "must be %s, not %s", says, s.describe(found, at))
		}
	}
	return false
}

// describe names the value of this kind that starts at offset and was read last.
func (s *scanner) describe(kind jsontext.Kind, offset int) string {
	switch kind {
	case jsontext.Object:
		return "an object"
	case jsontext.List:
		return "a list"
	}
	return shorten(string(s.json.Since(offset)))
}

func shorten(text string) string {
	const longest = 60
	if len(text) <= longest {
		return text
	}
	cut := longest
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// text reads a string.
func (s *scanner) text() (string, bool) {
	if !s.expect(jsontext.String, "a string") {
		return "", false
	}
	text, ok := s.json.Text()
	s.check()
	return string(text), ok
}

// flag reads a boolean.
func (s *scanner) flag() (value, ok bool) {
	isFalse := s.json.Peek() == jsontext.False
	if !isFalse && !s.expect(jsontext.True, "true or false") {
		return false, false
	}
	s.json.Word()
	return !isFalse, true
}

// numeral reads a number as it is written.
func (s *scanner) numeral() (n jsontext.Numeral, at int, ok bool) {
	at = s.here()
	if !s.expect(jsontext.Number, "a number") {
		return n, at, false
	}
	n, ok = s.json.Number()
	s.check()
	return n, at, ok
}

// number reads a finite number from lo to hi.
func (s *scanner) number(lo, hi float64) (float64, bool) {
	n, at, ok := s.numeral()
	if !ok {
		return 0, false
	}
	value, ok := n.Float64()
	if !ok {
		s.refuse(at, document.RuleOutOfRange, "%s is out of the range of numbers", shorten(string(n.Text)))
		return 0, false
	}
	if value < lo || value > hi {
		s.refuse(at, document.RuleOutOfRange, "must be a number from %g to %g, not %s", lo, hi, shorten(string(n.Text)))
		return 0, false
	}
	return value, true
}

// list reads a list and calls item for each of its items.
func (s *scanner) list(says string, item func(index int)) {
	if !s.expect(jsontext.List, says) {
		return
	}
	s.json.Open()
	for index := 0; s.json.Item(); index++ {
		s.enter(strconv.Itoa(index))
		item(index)
		s.leave()
	}
	s.check()
}

// fields are the keys of an object that is read into a T.
type fields[T any] struct {
	names  []string
	byName map[string]*field[T]
}

// field is one of them. Read must consume one value.
type field[T any] struct {
	name string
	read func(*scanner, *T)
}

func newFields[T any](list ...field[T]) *fields[T] {
	f := &fields[T]{byName: make(map[string]*field[T], len(list))}
	for i := range list {
		f.names = append(f.names, list[i].name)
		f.byName[list[i].name] = &list[i]
	}
	return f
}

// object reads an object and rejects unknown keys. It reports whether there was
// one.
func (f *fields[T]) object(s *scanner, into *T) bool {
	if !s.expect(jsontext.Object, "an object") {
		return false
	}
	s.json.Open()
	for {
		key, at, more := s.json.Key()
		if !more {
			break
		}
		if known := f.byName[string(key)]; known != nil {
			s.enter(known.name)
			known.read(s, into)
		} else {
			s.enter(string(key))
			s.refuse(at, document.RuleUnknownKey, "unknown key%s", didYouMean(string(key), f.names))
			s.skip()
		}
		s.leave()
	}
	s.check()
	return !s.broken
}

func didYouMean(name string, candidates []string) string {
	if nearest, ok := document.Nearest(name, candidates); ok {
		return fmt.Sprintf("; did you mean %q?", nearest)
	}
	return ""
}

// Readers of fields, by their Go types.

func textField[T any](name string, at func(*T) *string) field[T] {
	return field[T]{name, func(s *scanner, into *T) {
		if text, ok := s.text(); ok {
			*at(into) = text
		}
	}}
}

func flagField[T any](name string, at func(*T) *bool) field[T] {
	return field[T]{name, func(s *scanner, into *T) {
		if value, ok := s.flag(); ok {
			*at(into) = value
		}
	}}
}

// numberField reads a number from lo to hi.
func numberField[T any](name string, lo, hi float64, at func(*T) *document.Optional[float64]) field[T] {
	return field[T]{name, func(s *scanner, into *T) {
		if value, ok := s.number(lo, hi); ok {
			*at(into) = document.Some(value)
		}
	}}
}

func objectField[T, F any](name string, inner *fields[F], at func(*T) *F) field[T] {
	return field[T]{name, func(s *scanner, into *T) { inner.object(s, at(into)) }}
}

// wordField reads one of the words.
func wordField[T, E any](name string, words []string, values []E, at func(*T) *E) field[T] {
	return field[T]{name, func(s *scanner, into *T) {
		if value, ok := readWord(s, words, values); ok {
			*at(into) = value
		}
	}}
}

func readWord[E any](s *scanner, words []string, values []E) (value E, ok bool) {
	at := s.here()
	text, ok := s.text()
	if !ok {
		return value, false
	}
	i := slices.Index(words, text)
	if i < 0 {
		s.refuse(at, document.RuleUnknownValue, "must be %s, not %q%s", oneOf(words), shorten(text), didYouMean(text, words))
		return value, false
	}
	return values[i], true
}

func oneOf(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
