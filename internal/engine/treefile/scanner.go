package treefile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/weirhq/weir/internal/value/document"
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
	data     []byte
	decoder  *jsontext.Decoder
	path     []string
	broken   bool
	problems []flaw
	omitted  int
}

// flaw is a problem whose line is not known yet.
type flaw struct {
	offset  int64
	problem document.Problem
}

func newScanner(file string, data []byte) *scanner {
	return &scanner{file: file, data: data, decoder: jsontext.NewDecoder(bytes.NewBuffer(data))}
}

// here is the offset of the next token.
func (s *scanner) here() int64 {
	at := s.decoder.InputOffset()
	for at < int64(len(s.data)) && strings.IndexByte(" \t\r\n,:", s.data[at]) >= 0 {
		at++
	}
	return at
}

func (s *scanner) enter(key string) { s.path = append(s.path, key) }

func (s *scanner) leave() { s.path = s.path[:len(s.path)-1] }

// refuse adds a problem at the current path.
func (s *scanner) refuse(offset int64, rule document.Rule, format string, args ...any) {
	parts := make([]string, len(s.path))
	for i, part := range s.path {
		parts[i] = shorten(part)
	}
	s.refuseAt(offset, strings.Join(parts, "/"), rule, format, args...)
}

func (s *scanner) refuseAt(offset int64, path string, rule document.Rule, format string, args ...any) {
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
	line, from := int32(1), int64(0) // from is where that line starts
	seen := int64(0)
	for _, f := range s.problems {
		at := min(max(f.offset, seen), int64(len(s.data)))
		if n := bytes.Count(s.data[seen:at], []byte{'\n'}); n > 0 {
			line += int32(n)
			from = seen + int64(bytes.LastIndexByte(s.data[seen:at], '\n')) + 1
		}
		seen = at
		f.problem.Position = document.Position{Line: line, Column: int32(utf8.RuneCount(s.data[from:at])) + 1}
		problems = append(problems, f.problem)
	}
	if s.omitted > 0 {
		problems = append(problems, document.Problem{
			File: s.file, Rule: document.RuleTooLarge, Message: fmt.Sprintf("and %d more problems like these", s.omitted),
		})
	}
	return problems.Err()
}

// fail records a syntax error and stops the scanner.
func (s *scanner) fail(err error) {
	if s.broken {
		return
	}
	s.broken = true
	offset := s.here()
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		offset, err = syntax.ByteOffset, syntax.Err
	}
	rule, message := document.RuleSyntax, err.Error()
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		message = "the document ends too early"
	case errors.Is(err, jsontext.ErrDuplicateName):
		rule, message = document.RuleDuplicateKey, "this key is here for the second time"
	case strings.Contains(message, "max depth"):
		rule, message = document.RuleTooDeep, "lists and objects are nested deeper than 10,000 levels"
	}
	s.refuse(offset, rule, "%s", message)
}

// skip skips the next value, whatever it is.
func (s *scanner) skip() {
	if s.broken {
		return
	}
	if err := s.decoder.SkipValue(); err != nil {
		s.fail(err)
	}
}

// token returns the next token if it is of this kind. It skips a null, which
// means the same as an absent key, and rejects anything else.
func (s *scanner) token(kind jsontext.Kind, says string) (token jsontext.Token, ok bool) {
	if s.broken {
		return token, false
	}
	switch found := s.decoder.PeekKind(); found {
	case kind:
		token, err := s.decoder.ReadToken()
		if err != nil {
			s.fail(err)
			return token, false
		}
		return token, true
	case 'n':
		s.skip()
	case jsontext.KindInvalid:
		s.skip() // which reports it
	default:
		at := s.here()
		s.skip()
		if !s.broken {
			s.refuse(at, document.RuleWrongType, "must be %s, not %s", says, s.describe(found, at))
		}
	}
	return token, false
}

// describe names the value of this kind that starts at offset and was read last.
func (s *scanner) describe(kind jsontext.Kind, offset int64) string {
	switch kind {
	case '{':
		return "an object"
	case '[':
		return "a list"
	}
	return shorten(string(s.data[offset:s.decoder.InputOffset()]))
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
	token, ok := s.token('"', "a string")
	if !ok {
		return "", false
	}
	return token.String(), true
}

// flag reads a boolean.
func (s *scanner) flag() (value, ok bool) {
	if kind := s.decoder.PeekKind(); kind == 't' || kind == 'f' {
		s.skip()
		return kind == 't', !s.broken
	}
	_, ok = s.token('t', "true or false")
	return false, ok
}

// digits reads a number as it is written; the text is valid until the next read.
func (s *scanner) digits() (text []byte, at int64, ok bool) {
	at = s.here()
	if _, ok = s.token('0', "a number"); !ok {
		return nil, at, false
	}
	return s.data[at:s.decoder.InputOffset()], at, true
}

// number reads a finite number from lo to hi.
func (s *scanner) number(lo, hi float64) (float64, bool) {
	text, at, ok := s.digits()
	if !ok {
		return 0, false
	}
	value, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		s.refuse(at, document.RuleOutOfRange, "%s is out of the range of numbers", shorten(string(text)))
		return 0, false
	}
	if value < lo || value > hi {
		s.refuse(at, document.RuleOutOfRange, "must be a number from %g to %g, not %s", lo, hi, shorten(string(text)))
		return 0, false
	}
	return value, true
}

// list reads a list and calls item for each of its items.
func (s *scanner) list(says string, item func(index int)) {
	if _, ok := s.token('[', says); !ok {
		return
	}
	for index := 0; ; index++ {
		switch s.decoder.PeekKind() {
		case ']':
			s.decoder.ReadToken()
			return
		case jsontext.KindInvalid:
			s.skip()
			return
		}
		s.enter(strconv.Itoa(index))
		item(index)
		s.leave()
		if s.broken {
			return
		}
	}
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
	if _, ok := s.token('{', "an object"); !ok {
		return false
	}
	for {
		if s.decoder.PeekKind() == '}' {
			s.decoder.ReadToken()
			return true
		}
		// The key as written, quotes included, costs no allocation.
		quoted, err := s.decoder.ReadValue()
		if err != nil {
			s.fail(err)
			return false
		}
		if known := f.byName[string(quoted[1:len(quoted)-1])]; known != nil {
			s.enter(known.name)
			known.read(s, into)
		} else {
			f.other(s, into, quoted)
		}
		if s.broken {
			return false
		}
		s.leave()
	}
}

// other reads a key that is unknown, or known and written with escapes.
func (f *fields[T]) other(s *scanner, into *T, quoted jsontext.Value) {
	at := s.decoder.InputOffset() - int64(len(quoted))
	plain, _ := jsontext.AppendUnquote(nil, quoted) // the decoder has checked it
	key := string(plain)
	s.enter(key)
	if known := f.byName[key]; known != nil {
		known.read(s, into)
		return
	}
	s.refuse(at, document.RuleUnknownKey, "unknown key%s", didYouMean(key, f.names))
	s.skip()
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
