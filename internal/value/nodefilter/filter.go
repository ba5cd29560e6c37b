// Package nodefilter owns boolean formulas over node tags, which select the nodes of a pool tree, a
// pool or an operation.
//
//	formula = [ term { "|" term } ]        empty: every node
//	term    = factor { "&" factor }
//	factor  = { "!" } ( tag | "%true" | "%false" | "(" formula ")" )
//
// The operator ! binds tightest, then &, then |. A tag is any run of printable characters other
// than white space and the operators, and does not start with %: internal, rack-1, gpu_a100,
// cluster/foo, a.b:c. This is wider than what YTsaurus accepts for tags of its nodes, so none of
// its formulas is refused. A tag is true for a node that has it.
//
// It has only values: the package knows nothing about nodes and imports nothing of ours.
package nodefilter

import (
	"encoding/binary"
	"slices"
	"strings"
)

// Filter is a formula. The zero value is the empty formula and matches every node. Filters are
// immutable values; two that differ only in spaces, needless parentheses or double negation are
// equal with ==.
type Filter struct {
	// text is the canonical form.
	text string
	// code is the compiled form of text: instructions of instructionSize bytes.
	// It is a string and not a slice so that filters can be compared and used
	// as keys of maps.
	code string
}

// An instruction tests one tag and selects the next instruction. Targets are numbers of later
// instructions, or accept or reject, so every evaluation ends.
//
//	bytes 0–3    offset of the tag in the canonical text
//	bytes 4–7    length of the tag; 0 goes to the first target at once
//	bytes 8–11   target if the node has the tag
//	bytes 12–15  target if it does not
const (
	instructionSize = 16

	accept = ^uint32(0)
	reject = ^uint32(0) - 1
)

// Matches reports whether a node satisfies the formula; has returns whether the node has a tag.
// Matches calls has only as often as it needs to, in the order of the text, and does not allocate.
func (f Filter) Matches(has func(tag string) bool) bool {
	if f.code == "" {
		return true
	}
	for next := uint32(0); ; {
		// The whole instruction is sliced out first so that bounds are checked
		// once.
		at := int(next) * instructionSize
		instruction := f.code[at : at+instructionSize]
		offset, length := word(instruction, 0), word(instruction, 4)
		if length == 0 || has(f.text[offset:offset+length]) {
			next = word(instruction, 8)
		} else {
			next = word(instruction, 12)
		}
		switch next {
		case accept:
			return true
		case reject:
			return false
		}
	}
}

// word reads what binary.LittleEndian.AppendUint32 wrote; that package has no
// function that reads from a string.
func word(s string, i int) uint32 {
	s = s[i : i+4]
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

// IsEmpty reports whether the formula is empty. %true also matches every node, but is not empty.
func (f Filter) IsEmpty() bool { return f.code == "" }

// String returns the canonical text: one space around & and |, and parentheses only where needed.
// Parse reads it back as an equal filter.
func (f Filter) String() string { return f.text }

// TokenCount returns the number of tags, constants and operators, each counted as often as it
// occurs; parentheses do not count. The limit on the size of pools' and operations' filters uses
// this number.
func (f Filter) TokenCount() int {
	count := 0
	f.scan(func(t token) {
		if t.kind != tokenOpen && t.kind != tokenClose {
			count++
		}
	})
	return count
}

// Tags visits the tags, each as often as it occurs.
func (f Filter) Tags(visit func(tag string)) {
	f.scan(func(t token) {
		if t.kind == tokenTag {
			visit(t.text)
		}
	})
}

// WithTags returns the same formula over other tags.
func (f Filter) WithTags(rename func(tag string) string) (Filter, error) {
	var text strings.Builder
	f.scan(func(t token) {
		word := t.text
		if t.kind == tokenTag {
			word = rename(word)
		}
		text.WriteString(word + " ")
	})
	return Parse(text.String())
}

// scan visits the tokens of the canonical text.
func (f Filter) scan(visit func(token)) {
	s := scanner{text: f.text}
	for {
		t, err := s.next()
		if err != nil || t.kind == tokenEnd {
			return
		}
		visit(t)
	}
}

// MarshalText returns the canonical text.
func (f Filter) MarshalText() ([]byte, error) { return []byte(f.text), nil }

// UnmarshalText is Parse.
func (f *Filter) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err == nil {
		*f = parsed
	}
	return err
}

// filter prints and compiles the tree. Both walks keep their own stacks, so
// that depth costs heap and not the goroutine's stack.
func (t tree) filter() Filter {
	if len(t) == 0 {
		return Filter{}
	}
	text, offsets := t.print()
	return Filter{text: text, code: t.compile(offsets)}
}

// print returns the canonical text and the offset in it of each leaf.
func (t tree) print() (string, []uint32) {
	type step struct {
		literal string // printed as it is if not empty
		node    int32
		above   kind // operator of the parent, which determines parentheses
	}
	var text strings.Builder
	offsets := make([]uint32, len(t))
	stack := []step{{node: t.root(), above: kindOr}}
	for len(stack) > 0 {
		s := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if s.literal != "" {
			text.WriteString(s.literal)
			continue
		}
		n := t[s.node]
		if n.kind.isLeaf() {
			offsets[s.node] = uint32(text.Len())
			text.WriteString(n.text)
			continue
		}
		if n.kind < s.above {
			text.WriteByte('(')
			stack = append(stack, step{literal: ")"})
		}
		if n.kind == kindNot {
			text.WriteByte('!')
			stack = append(stack, step{node: n.left, above: kindNot})
			continue
		}
		operator := " & "
		if n.kind == kindOr {
			operator = " | "
		}
		stack = append(stack, step{node: n.right, above: n.kind}, step{literal: operator}, step{node: n.left, above: n.kind})
	}
	return text.String(), offsets
}

// compile emits instructions from the last to the first, so that an instruction's target is known
// when it is emitted. Until the end, instructions are numbered in the order of emission.
func (t tree) compile(offsets []uint32) string {
	// entry, as a target, means the most recently emitted instruction at the time of the step.
	const entry = reject - 1
	type step struct {
		node           int32
		ifTrue, ifElse uint32
	}
	type instruction struct{ offset, length, ifTrue, ifElse uint32 }
	var emitted []instruction
	stack := []step{{t.root(), accept, reject}}
	for len(stack) > 0 {
		s := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if last := uint32(len(emitted)) - 1; s.ifTrue == entry {
			s.ifTrue = last
		} else if s.ifElse == entry {
			s.ifElse = last
		}
		switch n := t[s.node]; n.kind {
		case kindTag:
			emitted = append(emitted, instruction{offsets[s.node], uint32(len(n.text)), s.ifTrue, s.ifElse})
		case kindTrue:
			emitted = append(emitted, instruction{ifTrue: s.ifTrue, ifElse: s.ifTrue})
		case kindFalse:
			emitted = append(emitted, instruction{ifTrue: s.ifElse, ifElse: s.ifElse})
		case kindNot:
			stack = append(stack, step{n.left, s.ifElse, s.ifTrue})
		case kindAnd:
			stack = append(stack, step{n.left, entry, s.ifElse}, step{n.right, s.ifTrue, s.ifElse})
		case kindOr:
			stack = append(stack, step{n.left, s.ifTrue, entry}, step{n.right, s.ifTrue, s.ifElse})
		}
	}
	final := func(target uint32) uint32 {
		if target >= reject {
			return target
		}
		return uint32(len(emitted)) - 1 - target
	}
	code := make([]byte, 0, len(emitted)*instructionSize)
	for _, i := range slices.Backward(emitted) {
		code = binary.LittleEndian.AppendUint32(code, i.offset)
		code = binary.LittleEndian.AppendUint32(code, i.length)
		code = binary.LittleEndian.AppendUint32(code, final(i.ifTrue))
		code = binary.LittleEndian.AppendUint32(code, final(i.ifElse))
	}
	return string(code)
}
