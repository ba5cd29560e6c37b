package ypath

import (
	"fmt"
	"strconv"
	"strings"
)

// Parse reads a path. Errors are of type *SyntaxError.
func Parse(text string) (Path, error) {
	const begins = `a path begins with "//", or with "#" and the id of an object`
	p := parser{text: text}
	var path Path
	var err error
	switch {
	case text == "":
		return Path{}, p.refuse(0, "the path is empty; "+begins)
	case text[0] == '#':
		if path.Object, err = p.object(); err != nil {
			return Path{}, err
		}
	case text[0] == '<':
		return Path{}, p.refuse(0, "attributes before a path are YSON and are to be taken off first")
	case text[0] != '/' || len(text) > 1 && text[1] != '/' && text[1] != '&':
		return Path{}, p.refuse(0, begins)
	default:
		p.pos = 1
	}
	path.Stay = p.skip('&')
	if path.Steps, err = p.steps(); err != nil {
		return Path{}, err
	}
	return path, nil
}

// ParseSteps reads relative steps: "/a/@b", or nothing. Errors are of type *SyntaxError.
func ParseSteps(text string) ([]Step, error) {
	p := parser{text: text}
	return p.steps()
}

// CutSuffix splits the text of a rich path in front of its columns or ranges, which start with the
// first "{" or "[" without a backslash: "//tmp/t{a,b}[#1:#2]". Without them the suffix is empty.
func CutSuffix(text string) (path, suffix string) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '{', '[':
			return text[:i], text[i:]
		}
	}
	return text, ""
}

type parser struct {
	text string
	pos  int
}

func (p *parser) refuse(at int, format string, args ...any) error {
	return &SyntaxError{Path: p.text, Offset: at, Message: fmt.Sprintf(format, args...)}
}

func (p *parser) skip(c byte) bool {
	if p.pos < len(p.text) && p.text[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

// object reads "#" and an id: four hexadecimal numbers of 32 bits.
func (p *parser) object() (string, error) {
	end := 1
	for end < len(p.text) && strings.IndexByte(special, p.text[end]) < 0 {
		end++
	}
	id := p.text[1:end]
	parts := strings.Split(id, "-")
	ok := len(parts) == 4
	for _, part := range parts {
		_, err := strconv.ParseUint(part, 16, 32)
		ok = ok && err == nil && len(part) <= 8
	}
	if !ok {
		return "", p.refuse(1, `after "#" must come the id of an object, four hexadecimal numbers such as 1-2-3-4`)
	}
	p.pos = end
	return id, nil
}

// steps reads to the end of the text. A "&" of the root has already been read.
func (p *parser) steps() ([]Step, error) {
	var steps []Step
	if count := strings.Count(p.text[p.pos:], "/"); count > 0 {
		steps = make([]Step, 0, min(count, 16))
	}
	stayed := true // there is nothing here that a "&" could belong to
	for p.pos < len(p.text) {
		at := p.pos
		if len(steps) > 0 {
			last := steps[len(steps)-1]
			stayed = last.Stay || last.Kind != Child
			if last.Kind != Child && last.Kind != Attribute {
				return nil, p.refuse(at, "nothing can follow %q", FormatSteps(steps[len(steps)-1:]))
			}
		}
		switch c := p.text[at]; {
		case c == '/':
			step, err := p.step()
			if err != nil {
				return nil, err
			}
			steps = append(steps, step)
		case c == '&' && !stayed:
			p.pos++
			steps[len(steps)-1].Stay = true
		case c == '&':
			return nil, p.refuse(at, `"&" stands only behind a root or a child, and only once`)
		default:
			return nil, p.refuseByte(at)
		}
	}
	return steps, nil
}

// refuseByte refuses the byte that ends a literal.
func (p *parser) refuseByte(at int) error {
	switch c := p.text[at]; c {
	case '[', '{':
		return p.refuse(at, `columns and ranges belong to tables, which are not here; in a name it is written "\%c"`, c)
	case '@', '*':
		return p.refuse(at, `%q stands only behind "/"; in a name it is written "\%c"`, string(rune(c)), c)
	}
	return p.refuse(at, `here must come "/" or the end of the path`)
}

// step reads "/" and its name or operator.
func (p *parser) step() (Step, error) {
	p.pos++
	kind := Child
	if p.skip('@') {
		kind = Attribute
	}
	if p.skip('*') {
		if kind == Child {
			return Step{Kind: EveryChild}, nil
		}
		return Step{Kind: EveryAttribute}, nil
	}
	start := p.pos
	name, err := p.literal()
	switch {
	case err != nil:
		return Step{}, err
	case p.pos > start:
		return Step{Kind: kind, Name: name}, nil
	case kind == Attribute:
		return Step{Kind: AllAttributes}, nil
	case start == len(p.text):
		return Step{}, p.refuse(start-1, `a path does not end with "/"`)
	case p.text[start] == '/':
		return Step{}, p.refuse(start, `between two "/" must be a name`)
	}
	return Step{}, p.refuse(start, `after "/" must come a name, "@" or "*"`)
}

// literal reads a name, empty if there is none.
func (p *parser) literal() (string, error) {
	start := p.pos
	for p.pos < len(p.text) && strings.IndexByte(special, p.text[p.pos]) < 0 {
		p.pos++
	}
	if p.pos == len(p.text) || p.text[p.pos] != '\\' {
		return p.text[start:p.pos], nil
	}
	name := []byte(p.text[start:p.pos])
	for p.pos < len(p.text) {
		c := p.text[p.pos]
		if c == '\\' {
			var err error
			if c, err = p.escape(); err != nil {
				return "", err
			}
		} else if strings.IndexByte(special, c) >= 0 {
			break
		} else {
			p.pos++
		}
		name = append(name, c)
	}
	return string(name), nil
}

func (p *parser) escape() (byte, error) {
	at := p.pos
	rest := p.text[at+1:]
	switch {
	case rest == "":
		return 0, p.refuse(at, `the path ends after "\"`)
	case strings.IndexByte(special, rest[0]) >= 0:
		p.pos += 2
		return rest[0], nil
	case rest[0] == 'x' && len(rest) >= 3:
		if value, err := strconv.ParseUint(rest[1:3], 16, 8); err == nil {
			p.pos += 4
			return byte(value), nil
		}
	}
	return 0, p.refuse(at, `after "\" must come one of %s or xHH with two hexadecimal digits`, strings.Join(strings.Split(special, ""), " "))
}

// Where is the meaning of a Position.
type Where uint8

const (
	At     Where = iota // the item with this index
	Before              // a new item in front of that one
	After               // a new item after that one
)

// A Position is a place in a list. A negative index counts from the end: -1 is the last item.
type Position struct {
	Where Where
	Index int64
}

// Position reads a Child as a position in a list: "3", "-1", "before:3", "after:-1", "begin" (in front
// of the first item) and "end" (after the last). It returns false for all other names.
func (s Step) Position() (Position, bool) {
	if s.Kind != Child {
		return Position{}, false
	}
	switch s.Name {
	case "begin":
		return Position{Where: Before, Index: 0}, true
	case "end":
		return Position{Where: After, Index: -1}, true
	}
	where, digits := At, s.Name
	if rest, ok := strings.CutPrefix(digits, "before:"); ok {
		where, digits = Before, rest
	} else if rest, ok := strings.CutPrefix(digits, "after:"); ok {
		where, digits = After, rest
	}
	index, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || digits[0] == '+' {
		return Position{}, false
	}
	return Position{Where: where, Index: index}, true
}

// Resolve returns the index of the position in a list of this length: for At, that of an existing item;
// otherwise, the index that a new item gets. It returns false outside the list. In an empty list
// "begin" and "end" are the same position.
func (p Position) Resolve(length int) (index int, ok bool) {
	if length == 0 && (p == Position{Before, 0} || p == Position{After, -1}) {
		return 0, true
	}
	i := p.Index
	if i < 0 {
		i += int64(length)
	}
	if i < 0 || i >= int64(length) {
		return 0, false
	}
	if p.Where == After {
		i++
	}
	return int(i), true
}
