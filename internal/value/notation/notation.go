// Package notation reads documents that people and programs write as YAML or JSON, and writes YAML.
// It turns a text into a [document.Value] in which every value has its line and column, or returns
// [document.Problems] with the place and the rule.
//
// Both notations have the same limits: one document in a text, UTF-8, no duplicate keys in a map,
// nesting down to [document.MaxDepth], exact whole numbers.
//
// It is a layer above document, so that code that computes with values, most of all the core, needs
// only the standard library. [document.Value.JSON] writes JSON.
package notation

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/weirhq/weir/internal/value/document"
)

// Limits on texts. They are far above what people write and far below what does harm.
const (
	// MaxSize is the longest text in bytes.
	MaxSize = 64 << 20
	// maxAliased is the most values that all aliases of a YAML document may expand to.
	maxAliased = 1 << 20
)

var tooDeep = fmt.Sprintf("lists and maps are nested deeper than %d levels", document.MaxDepth)

// Parse reads a document as JSON if the name of the file ends in .json, and as YAML otherwise.
func Parse(file string, data []byte) (document.Value, error) {
	if strings.EqualFold(filepath.Ext(file), ".json") {
		return ParseJSON(file, data)
	}
	return ParseYAML(file, data)
}

// checkText refuses text that no format may contain.
func checkText(file string, data []byte) error {
	if len(data) > MaxSize {
		return document.Problems{{File: file, Rule: document.RuleTooLarge,
			Message: fmt.Sprintf("the document has %d bytes; the limit is %d", len(data), MaxSize)}}
	}
	if utf8.Valid(data) {
		return nil
	}
	at := document.Position{Line: 1, Column: 1}
	for rest := data; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		if r == utf8.RuneError && size == 1 {
			break
		}
		at = after(at, rest[:size])
		rest = rest[size:]
	}
	return document.Problems{{File: file, Position: at, Rule: document.RuleSyntax, Message: "the text is not UTF-8"}}
}

// after returns the position after text that starts at p. Columns count characters.
func after(p document.Position, text []byte) document.Position {
	for _, c := range text {
		switch {
		case c == '\n':
			p.Line, p.Column = p.Line+1, 1
		case c&0xC0 != 0x80: // not the rest of a multi-byte character
			p.Column++
		}
	}
	return p
}

func duplicateMessage(key string, first document.Position) string {
	return fmt.Sprintf("key %q is here for the second time; the first is at line %d", document.Shorten(key), first.Line)
}

// keySet finds duplicate keys: it compares all entries while there are few, and uses a map if there
// are many.
type keySet struct {
	index map[string]int
}

// add returns the entry that already has this key, if there is one. The new entry must be the next
// of entries.
func (s *keySet) add(entries []document.Entry, key string) (first document.Entry, duplicate bool) {
	const few = 16
	if s.index == nil {
		for _, e := range entries {
			if e.Key == key {
				return e, true
			}
		}
		if len(entries) >= few {
			s.index = make(map[string]int, 2*few)
			for i, e := range entries {
				s.index[e.Key] = i
			}
			s.index[key] = len(entries)
		}
		return document.Entry{}, false
	}
	if i, ok := s.index[key]; ok {
		return entries[i], true
	}
	s.index[key] = len(entries)
	return document.Entry{}, false
}
