package nodefilter

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// longestText bounds the text of a formula, as written and in its canonical form. It is far above
// any use, and far below the size at which offsets need more than 32 bits.
const longestText = 1 << 20

// Parse reads a formula. The error is a *SyntaxError.
func Parse(text string) (Filter, error) {
	if len(text) > longestText {
		return Filter{}, tooLong(text)
	}
	t, err := parseTree(text)
	if err != nil {
		return Filter{}, err
	}
	f := t.filter()
	if len(f.text) > longestText {
		return Filter{}, tooLong(text)
	}
	return f, nil
}

func tooLong(text string) error {
	return &SyntaxError{Text: text, Message: fmt.Sprintf("the formula is longer than %d bytes", longestText)}
}

// kind is the kind of a node of the syntax tree. Operators are in the order of how tightly they
// bind.
type kind uint8

const (
	kindOr kind = iota
	kindAnd
	kindNot
	kindTag
	kindTrue
	kindFalse
)

func (k kind) isLeaf() bool { return k >= kindTag }

type node struct {
	kind        kind
	left, right int32  // indices of operands; kindNot has left only
	text        string // of a leaf
}

// tree has operands before their operators; the root is the last node. An empty
// tree is the empty formula.
type tree []node

func (t tree) root() int32 { return int32(len(t)) - 1 }

// pending is an operator that waits for its right operand, or an open
// parenthesis.
type pending struct {
	token token
	kind  kind
}

// parser holds the two stacks of the shunting-yard method. There is no
// recursion: a text of a million parentheses costs a million stack entries on
// the heap.
type parser struct {
	text     string
	tree     tree
	operands []int32
	pending  []pending
}

func parseTree(text string) (tree, error) {
	p := parser{text: text}
	s := scanner{text: text}
	previous := token{kind: tokenStart}
	for {
		t, err := s.next()
		if err == nil {
			err = p.take(previous, t)
		}
		if err != nil {
			return nil, err
		}
		if t.kind == tokenEnd {
			return p.tree, nil
		}
		previous = t
	}
}

// take handles one token. The previous token determines whether an operand or an operator is
// expected.
func (p *parser) take(previous, t token) error {
	afterOperand := previous.kind == tokenTag || previous.kind == tokenConstant || previous.kind == tokenClose
	switch t.kind {
	case tokenTag, tokenConstant, tokenNot, tokenOpen:
		if afterOperand {
			return p.fail(t, "%s", missingOperator(previous, t))
		}
		return p.takePrefix(t)
	case tokenEnd:
		if !afterOperand && previous.kind != tokenStart {
			return p.fail(t, "expected a tag, ! or ( after %s", previous.text)
		}
		return p.finish()
	}
	if !afterOperand {
		return p.fail(t, "%s", missingOperand(previous, t))
	}
	if t.kind == tokenClose {
		return p.close(t)
	}
	k := kindAnd
	if t.kind == tokenOr {
		k = kindOr
	}
	p.reduce(k)
	p.pending = append(p.pending, pending{t, k})
	return nil
}

func (p *parser) takePrefix(t token) error {
	switch t.kind {
	case tokenTag:
		p.leaf(kindTag, t.text)
	case tokenConstant:
		switch t.text {
		case "%true":
			p.leaf(kindTrue, t.text)
		case "%false":
			p.leaf(kindFalse, t.text)
		default:
			return p.fail(t, "a tag cannot begin with %%; the constants are %%true and %%false")
		}
	case tokenNot:
		if last := len(p.pending) - 1; last >= 0 && p.pending[last].token.kind == tokenNot {
			p.pending = p.pending[:last] // two negations cancel out
			return nil
		}
		p.pending = append(p.pending, pending{t, kindNot})
	case tokenOpen:
		p.pending = append(p.pending, pending{token: t})
	}
	return nil
}

func (p *parser) leaf(k kind, text string) {
	p.push(node{kind: k, text: text})
}

func (p *parser) push(n node) {
	p.operands = append(p.operands, int32(len(p.tree)))
	p.tree = append(p.tree, n)
}

// reduce applies the pending operators, down to an open parenthesis, that bind
// at least as tightly as k.
func (p *parser) reduce(k kind) {
	for last := len(p.pending) - 1; last >= 0; last-- {
		top := p.pending[last]
		if top.token.kind == tokenOpen || top.kind < k {
			return
		}
		p.pending = p.pending[:last]
		p.apply(top.kind)
	}
}

func (p *parser) apply(k kind) {
	right := p.pop()
	if k != kindNot {
		p.push(node{kind: k, left: p.pop(), right: right})
		return
	}
	// !(!a) is a. The operand is the node pushed last, so dropping its
	// negation leaves no hole in the tree.
	if inner := p.tree[right]; inner.kind == kindNot {
		p.tree = p.tree[:right]
		p.operands = append(p.operands, inner.left)
		return
	}
	p.push(node{kind: kindNot, left: right})
}

func (p *parser) pop() int32 {
	last := len(p.operands) - 1
	operand := p.operands[last]
	p.operands = p.operands[:last]
	return operand
}

func (p *parser) close(t token) error {
	p.reduce(kindOr)
	last := len(p.pending) - 1
	if last < 0 {
		return p.fail(t, "this ) has no ( before it")
	}
	p.pending = p.pending[:last]
	return nil
}

func (p *parser) finish() error {
	p.reduce(kindOr)
	if last := len(p.pending) - 1; last >= 0 {
		return p.fail(p.pending[last].token, "this ( is never closed")
	}
	return nil
}

func (p *parser) fail(t token, format string, args ...any) error {
	return &SyntaxError{Text: p.text, Offset: t.offset, Message: fmt.Sprintf(format, args...)}
}

// missingOperand describes the error of an operator or ) where a tag should be.
func missingOperand(previous, t token) string {
	switch {
	case previous.kind == tokenOpen && t.kind == tokenClose:
		return "there is nothing between the parentheses"
	case previous.kind == t.kind && previous.offset+1 == t.offset:
		return "write a single " + t.text
	case previous.kind == tokenStart && t.kind == tokenClose:
		return "this ) has no ( before it"
	case previous.kind == tokenStart || previous.kind == tokenOpen:
		return "expected a tag, ! or ( before " + t.text
	}
	return fmt.Sprintf("expected a tag, ! or ( between %s and %s", previous.text, t.text)
}

// missingOperator describes the error of a tag, ! or ( that follows an operand.
func missingOperator(previous, t token) string {
	for _, tag := range []token{t, previous} {
		switch strings.ToLower(tag.text) {
		case "and":
			return "expected & or |; write & for \"and\""
		case "or":
			return "expected & or |; write | for \"or\""
		case "not":
			return "expected & or |; write ! for \"not\""
		}
	}
	return fmt.Sprintf("expected & or | before %s", shorten(t.text))
}

func shorten(text string) string {
	const longest = 40
	runes := 0
	for i := range text {
		if runes == longest {
			return text[:i] + "…"
		}
		runes++
	}
	return text
}

type tokenKind uint8

const (
	tokenStart tokenKind = iota // before the first token
	tokenEnd
	tokenTag
	tokenConstant
	tokenNot
	tokenAnd
	tokenOr
	tokenOpen
	tokenClose
)

type token struct {
	kind   tokenKind
	text   string
	offset int
}

// scanner splits a text into tokens.
type scanner struct {
	text   string
	offset int
}

func (s *scanner) next() (token, error) {
	for s.offset < len(s.text) {
		r, size := utf8.DecodeRuneInString(s.text[s.offset:])
		if !unicode.IsSpace(r) {
			break
		}
		s.offset += size
	}
	t := token{kind: tokenEnd, offset: s.offset}
	if s.offset == len(s.text) {
		return t, nil
	}
	if t.kind = operatorKind(s.text[s.offset]); t.kind != tokenEnd {
		s.offset++
	} else if err := s.skipTag(); err != nil {
		return token{}, err
	} else if s.text[t.offset] == '%' {
		t.kind = tokenConstant
	} else {
		t.kind = tokenTag
	}
	t.text = s.text[t.offset:s.offset]
	return t, nil
}

func (s *scanner) skipTag() error {
	for s.offset < len(s.text) {
		r, size := utf8.DecodeRuneInString(s.text[s.offset:])
		switch {
		case unicode.IsSpace(r) || operatorKind(s.text[s.offset]) != tokenEnd:
			return nil
		case r == utf8.RuneError && size == 1:
			return &SyntaxError{Text: s.text, Offset: s.offset, Message: fmt.Sprintf("byte 0x%02x is not UTF-8", s.text[s.offset])}
		case !unicode.IsPrint(r):
			return &SyntaxError{Text: s.text, Offset: s.offset, Message: fmt.Sprintf("character %U cannot be part of a tag", r)}
		}
		s.offset += size
	}
	return nil
}

// operatorKind returns tokenEnd for anything but an operator.
func operatorKind(c byte) tokenKind {
	switch c {
	case '!':
		return tokenNot
	case '&':
		return tokenAnd
	case '|':
		return tokenOr
	case '(':
		return tokenOpen
	case ')':
		return tokenClose
	}
	return tokenEnd
}

// SyntaxError describes an error in a formula and its place.
type SyntaxError struct {
	// Text is the whole formula.
	Text string
	// Offset is the byte in Text that the message is about; len(Text) if something is missing at
	// the end.
	Offset int
	// Message describes the error on one line, without the place.
	Message string
}

// Error returns the message with the place, and below it the picture.
func (e *SyntaxError) Error() string {
	character := utf8.RuneCountInString(e.Text[:e.Offset]) + 1
	return fmt.Sprintf("node filter, character %d: %s\n%s", character, e.Message, e.Picture())
}

// Picture returns two lines: the text around the place, and a caret below the
// place.
//
//	a & & b
//	    ^
func (e *SyntaxError) Picture() string {
	const around = 30
	before, after := []rune(e.Text[:e.Offset]), []rune(e.Text[e.Offset:])
	prefix, suffix := "", ""
	if len(before) > around {
		before, prefix = before[len(before)-around:], "…"
	}
	if len(after) > around {
		after, suffix = after[:around], "…"
	}
	visible := func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}
	line := prefix + strings.Map(visible, string(before)+string(after)) + suffix
	return line + "\n" + strings.Repeat(" ", utf8.RuneCountInString(prefix)+len(before)) + "^"
}
