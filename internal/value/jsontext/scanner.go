package jsontext

import (
	"bytes"
	"fmt"
	"slices"
)

// Kind is the kind of a value.
type Kind byte

const (
	None Kind = iota // no value; the Scanner has recorded an error
	Null
	True
	False
	Number
	String
	List
	Object
)

// kinds maps the first byte of a value to its kind.
var kinds = func() (table [256]Kind) {
	for c := '0'; c <= '9'; c++ {
		table[c] = Number
	}
	table['-'], table['"'], table['['], table['{'] = Number, String, List, Object
	table['n'], table['t'], table['f'] = Null, True, False
	return table
}()

// words are the values that are words, by kind.
var words = [...]string{Null: "null", True: "true", False: "false"}

// DefaultDepth is the deepest nesting if a Scanner has no MaxDepth.
const DefaultDepth = 10_000

// Scanner reads one text. Set Data, and the options if needed, before the first call.
type Scanner struct {
	// Data is the text. It must not change during the scan.
	Data []byte
	// MaxDepth is the deepest nesting of lists and objects; zero means DefaultDepth.
	MaxDepth int
	// Bytes reads every character of a string as one byte and refuses characters above U+00FF.
	Bytes bool
	// Duplicates accepts duplicate keys. Otherwise they end the scan with an error.
	Duplicates bool

	pos     int
	first   bool // a list or object was opened and nothing in it has been read
	open    []container
	keys    []key // of the open objects, outermost first
	scratch []byte
	err     *Error
}

// container is an open list or object.
type container struct {
	keys  int            // where its keys start in Scanner.keys
	index map[string]int // of its keys, if they are many
}

// key is a key of an open object.
type key struct {
	text []byte
	at   int
}

// Err returns the first error, or nil.
func (s *Scanner) Err() *Error { return s.err }

// Refuse ends the scan with an error at an offset, unless there is one already. It returns false,
// as do all methods that fail.
func (s *Scanner) Refuse(code Code, at int, format string, args ...any) bool {
	if s.err == nil {
		at = min(at, len(s.Data))
		if code == Syntax && at == len(s.Data) {
			code = Truncated
		}
		s.err = &Error{Code: code, Offset: at, Message: fmt.Sprintf(format, args...)}
	}
	s.pos = len(s.Data)
	return false
}

// space skips white space and reports whether something follows it.
func (s *Scanner) space() bool {
	for s.pos < len(s.Data) {
		switch s.Data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return true
		}
	}
	return false
}

// next skips white space and returns the byte after it, zero at the end.
func (s *Scanner) next() byte {
	if s.space() {
		return s.Data[s.pos]
	}
	return 0
}

// found says in a message what is at the current offset.
func (s *Scanner) found() string {
	if s.pos >= len(s.Data) {
		return "but the document ends"
	}
	return "not " + QuoteByte(s.Data[s.pos])
}

// Offset skips white space and returns the offset of what follows.
func (s *Scanner) Offset() int {
	s.space()
	return s.pos
}

// Since returns the text from an offset to the end of the last token.
func (s *Scanner) Since(offset int) []byte { return s.Data[offset:s.pos] }

// Peek returns the kind of the next value without reading it. If there is no value, it ends the scan
// with an error and returns None.
func (s *Scanner) Peek() Kind {
	kind := kinds[s.next()]
	if Null <= kind && kind <= False && !s.isWord(words[kind]) {
		kind = None
	}
	if kind == None {
		s.Refuse(Syntax, s.pos, "a value must be here, %s", s.found())
	}
	return kind
}

// isWord reports whether a word is next, and no longer one.
func (s *Scanner) isWord(word string) bool {
	end := s.pos + len(word)
	return end <= len(s.Data) && string(s.Data[s.pos:end]) == word && (end == len(s.Data) || !inWord[s.Data[end]])
}

// inWord is the set of bytes that would continue a word.
var inWord = func() (set [256]bool) {
	for c := range 256 {
		set[c] = '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '-' || c == '.'
	}
	return set
}()

// Word reads the value that Peek has found to be Null, True or False.
func (s *Scanner) Word() { s.pos += len(words[kinds[s.Data[s.pos]]]) }

// Open enters the value that Peek has found to be a List or an Object. It fails if that is nested
// too deep. Afterwards the caller must call Item or Key until it returns false.
func (s *Scanner) Open() bool {
	deepest := s.MaxDepth
	if deepest == 0 {
		deepest = DefaultDepth
	}
	if len(s.open) == deepest {
		return s.Refuse(TooDeep, s.pos, "lists and objects are nested deeper than %s levels", grouped(deepest))
	}
	s.open = append(s.open, container{keys: len(s.keys)})
	s.pos++
	s.first = true
	return true
}

// Item moves to the next item of the open list and reports whether there is one. The caller must
// then read it. At the end it leaves the list.
func (s *Scanner) Item() bool {
	c := s.next()
	switch {
	case c == ']':
		return s.close()
	case s.first:
		s.first = false
	case c == ',':
		s.pos++
	default:
		return s.Refuse(Syntax, s.pos, `after an item must come "," or "]", %s`, s.found())
	}
	return s.err == nil
}

// Key reads the next key of the open object, and returns it with its offset. The caller must not
// modify it, and must then read the value. At the end Key leaves the object and more is false.
func (s *Scanner) Key() (text []byte, at int, more bool) {
	c := s.next()
	switch {
	case c == '}':
		return nil, s.pos, s.close()
	case s.first:
		s.first = false
	case c == ',':
		s.pos++
		c = s.next()
	default:
		return nil, s.pos, s.Refuse(Syntax, s.pos, `after a value must come "," or "}", %s`, s.found())
	}
	if c != '"' {
		return nil, s.pos, s.Refuse(Syntax, s.pos, "a key must be here, a string in double quotes, %s", s.found())
	}
	at = s.pos
	text, copied, ok := s.text()
	if !ok {
		return nil, at, false
	}
	if copied {
		text = bytes.Clone(text) // it must live as long as the object is open
	}
	if s.next() != ':' {
		return nil, at, s.Refuse(Syntax, s.pos, `after a key must come ":", %s`, s.found())
	}
	s.pos++
	return text, at, s.Duplicates || s.addKey(text, at)
}

// addKey adds a key to the innermost object, which must not have it yet. It compares few keys one
// by one and uses a map for many.
func (s *Scanner) addKey(text []byte, at int) bool {
	const few = 16
	object := &s.open[len(s.open)-1]
	keys := s.keys[object.keys:]
	first, twice := object.index[string(text)]
	if object.index == nil {
		first = slices.IndexFunc(keys, func(k key) bool { return string(k.text) == string(text) })
		twice = first >= 0
	}
	if twice {
		s.Refuse(Duplicate, at, "key %s is here for the second time", Excerpt(text))
		s.err.First = keys[first].at
		return false
	}
	s.keys = append(s.keys, key{text, at})
	if len(keys) == few {
		object.index = make(map[string]int, 2*few)
		for i, k := range keys {
			object.index[string(k.text)] = i
		}
	}
	if object.index != nil {
		object.index[string(text)] = len(keys)
	}
	return true
}

// close leaves a list or an object.
func (s *Scanner) close() bool {
	s.pos++
	s.keys = s.keys[:s.open[len(s.open)-1].keys]
	s.open = s.open[:len(s.open)-1]
	s.first = false
	return false
}

// Skip reads the next value, whatever it is, and drops it.
func (s *Scanner) Skip() bool {
	switch s.Peek() {
	case None:
	case Number:
		s.Number()
	case String:
		s.Text()
	case List:
		if s.Open() {
			for s.Item() {
				s.Skip()
			}
		}
	case Object:
		if s.Open() {
			for _, _, more := s.Key(); more; _, _, more = s.Key() {
				s.Skip()
			}
		}
	default:
		s.Word()
	}
	return s.err == nil
}

// End checks that the text ends here. It reports whether the whole text has been read.
func (s *Scanner) End() bool {
	if s.err == nil && s.space() {
		s.Refuse(Trailing, s.pos, "there is more after the end of the document")
	}
	return s.err == nil
}
