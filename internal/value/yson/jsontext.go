package yson

import (
	"unicode/utf16"
	"unicode/utf8"
)

// text reads a string as bytes, valid until the next one is read.
func (p *jsonParser) text() ([]byte, bool) {
	start := p.pos
	p.pos++
	for p.pos < len(p.data) && plainInText[p.data[p.pos]] {
		p.pos++
	}
	if p.pos < len(p.data) && p.data[p.pos] == '"' {
		p.pos++
		return p.data[start+1 : p.pos-1], true
	}
	b := append(p.scratch[:0], p.data[start+1:p.pos]...)
	for p.pos < len(p.data) {
		c := p.data[p.pos]
		switch {
		case c == '"':
			p.pos++
			p.scratch = b
			return b, true
		case plainInText[c] || c == 0x7f:
			b = append(b, c)
			p.pos++
		case c < 0x20:
			return nil, p.fail(p.pos, "%s in a string must be escaped", quoteByte(c))
		default:
			at := p.pos
			r, ok := p.character()
			if !ok {
				return nil, false
			}
			if b, ok = p.appendCharacter(b, r, at); !ok {
				return nil, false
			}
		}
	}
	return nil, p.fail(len(p.data), "the string that begins at byte %d has no closing quote", start)
}

func (p *jsonParser) appendCharacter(b []byte, r rune, at int) ([]byte, bool) {
	if p.utf8 {
		return utf8.AppendRune(b, r), true
	}
	if r > 0xff {
		return b, p.fail(at, "U+%04X in a string: each character stands for one byte, up to U+00FF (encode_utf8)", r)
	}
	return append(b, byte(r)), true
}

// character reads an escape or a character of several bytes.
func (p *jsonParser) character() (rune, bool) {
	if c := p.data[p.pos]; c != '\\' {
		r, size := utf8.DecodeRune(p.data[p.pos:])
		if r == utf8.RuneError && size <= 1 {
			return 0, p.fail(p.pos, "%s in a string is not UTF-8", quoteByte(c))
		}
		p.pos += size
		return r, true
	}
	at := p.pos
	if at+1 == len(p.data) {
		return 0, p.fail(at+1, "the document ends inside an escape")
	}
	c := p.data[at+1]
	p.pos += 2
	switch c {
	case '"', '\\', '/':
		return rune(c), true
	case 'b', 'f', 'n', 'r', 't':
		return rune(simpleEscapes[c]), true
	case 'u':
		return p.escapedRune(at)
	}
	return 0, p.fail(at, `\%s is no escape; there are \" \\ \/ \b \f \n \r \t and \uHHHH`, printable(c))
}

// escapedRune reads \uHHHH, or two of them that form a pair, from at.
func (p *jsonParser) escapedRune(at int) (rune, bool) {
	r, ok := p.fourDigits(at)
	if !ok || !utf16.IsSurrogate(r) {
		return r, ok
	}
	if p.pos+1 < len(p.data) && p.data[p.pos] == '\\' && p.data[p.pos+1] == 'u' {
		p.pos += 2
		low, ok := p.fourDigits(p.pos - 2)
		if pair := utf16.DecodeRune(r, low); ok && pair != utf8.RuneError {
			return pair, true
		}
	}
	return 0, p.fail(at, "U+%04X is half of a pair without its other half", r)
}

// fourDigits reads the digits of the escape that starts at a place.
func (p *jsonParser) fourDigits(at int) (rune, bool) {
	value := 0
	for range 4 {
		if p.pos >= len(p.data) {
			return 0, p.fail(p.pos, "the document ends inside an escape")
		}
		digit := hexDigit(p.data[p.pos])
		if digit < 0 {
			return 0, p.fail(at, `\u needs four hexadecimal digits`)
		}
		value = value<<4 | digit
		p.pos++
	}
	return rune(value), true
}
