package jsontext

import (
	"unicode/utf16"
	"unicode/utf8"
)

// plain is the set of bytes that stand for themselves in a string and are characters of one byte.
var plain = func() (set [256]bool) {
	for c := 0x20; c < 0x80; c++ {
		set[c] = c != '"' && c != '\\'
	}
	return set
}()

// Text reads the value that Peek has found to be a String. The bytes are valid until the next string
// is read, and must not be modified.
func (s *Scanner) Text() (text []byte, ok bool) {
	text, _, ok = s.text()
	return text, ok
}

// text also reports whether the text is a copy, which the next string overwrites.
func (s *Scanner) text() (text []byte, copied, ok bool) {
	start := s.pos
	s.pos++
	for s.pos < len(s.Data) && plain[s.Data[s.pos]] {
		s.pos++
	}
	if s.pos < len(s.Data) && s.Data[s.pos] == '"' {
		s.pos++
		return s.Data[start+1 : s.pos-1], false, true
	}
	b := append(s.scratch[:0], s.Data[start+1:s.pos]...)
	for s.pos < len(s.Data) {
		c := s.Data[s.pos]
		switch {
		case c == '"':
			s.pos++
			s.scratch = b
			return b, true, true
		case plain[c]:
			b = append(b, c)
			s.pos++
		case c < 0x20:
			return nil, false, s.Refuse(Syntax, s.pos, "%s in a string must be escaped", QuoteByte(c))
		default:
			at := s.pos
			r, ok := s.character()
			switch {
			case !ok:
				return nil, false, false
			case !s.Bytes:
				b = utf8.AppendRune(b, r)
			case r <= 0xff:
				b = append(b, byte(r))
			default:
				return nil, false, s.Refuse(Syntax, at, "U+%04X in a string: each character stands for one byte, up to U+00FF (encode_utf8)", r)
			}
		}
	}
	return nil, false, s.Refuse(Truncated, len(s.Data), "the string that begins at byte %d has no closing quote", start)
}

// escapes maps each letter after a backslash to its byte, zero for none.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// character reads an escape or a character of several bytes.
func (s *Scanner) character() (rune, bool) {
	at := s.pos
	if c := s.Data[at]; c != '\\' {
		r, size := utf8.DecodeRune(s.Data[at:])
		if r == utf8.RuneError && size <= 1 {
			return 0, s.Refuse(Syntax, at, "%s in a string is not UTF-8", QuoteByte(c))
		}
		s.pos += size
		return r, true
	}
	if at+1 == len(s.Data) {
		return 0, s.Refuse(Truncated, at+1, "the document ends inside an escape")
	}
	c := s.Data[at+1]
	s.pos += 2
	switch {
	case c == 'u':
		return s.escapedRune(at)
	case escapes[c] != 0:
		return rune(escapes[c]), true
	}
	return 0, s.Refuse(Syntax, at, `\%s is no escape; there are \" \\ \/ \b \f \n \r \t and \uHHHH`, printable(c))
}

func printable(c byte) string {
	if c < 0x20 || c >= 0x7f {
		return "(byte " + QuoteByte(c) + ")"
	}
	return string(rune(c))
}

// escapedRune reads \uHHHH, or two of them that form a pair, from at.
func (s *Scanner) escapedRune(at int) (rune, bool) {
	r, ok := s.fourDigits(at)
	if !ok || !utf16.IsSurrogate(r) {
		return r, ok
	}
	if s.pos+1 < len(s.Data) && s.Data[s.pos] == '\\' && s.Data[s.pos+1] == 'u' {
		s.pos += 2
		low, ok := s.fourDigits(s.pos - 2)
		if pair := utf16.DecodeRune(r, low); ok && pair != utf8.RuneError {
			return pair, true
		}
	}
	return 0, s.Refuse(Syntax, at, "U+%04X is half of a pair without its other half", r)
}

// fourDigits reads the digits of the escape that starts at an offset.
func (s *Scanner) fourDigits(at int) (rune, bool) {
	value := 0
	for range 4 {
		if s.pos >= len(s.Data) {
			return 0, s.Refuse(Truncated, s.pos, "the document ends inside an escape")
		}
		c := s.Data[s.pos]
		switch lower := c | 0x20; {
		case isDigit(c):
			value = value<<4 | int(c-'0')
		case 'a' <= lower && lower <= 'f':
			value = value<<4 | int(lower-'a'+10)
		default:
			return 0, s.Refuse(Syntax, at, `\u needs four hexadecimal digits`)
		}
		s.pos++
	}
	return rune(value), true
}

// AppendQuote appends text as a JSON string. Bytes that are not UTF-8 become U+FFFD. U+2028 and
// U+2029 are escaped, because JavaScript once took them for line breaks.
func AppendQuote(b []byte, text string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	from := 0
	for i := 0; i < len(text); {
		c := text[i]
		if plain[c] {
			i++
			continue
		}
		r, size := rune(c), 1
		if c >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(text[i:])
			if r != '\u2028' && r != '\u2029' && (r != utf8.RuneError || size > 1) {
				i += size
				continue
			}
		}
		b = append(b, text[from:i]...)
		i += size
		from = i
		switch r {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
		}
	}
	b = append(b, text[from:]...)
	return append(b, '"')
}
