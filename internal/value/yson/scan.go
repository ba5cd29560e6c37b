package yson

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/weirhq/weir/internal/value/jsontext"
)

// Bytes that start a binary scalar.
const (
	stringMarker = 0x01
	int64Marker  = 0x02
	doubleMarker = 0x03
	falseMarker  = 0x04
	trueMarker   = 0x05
	uint64Marker = 0x06
)

// starts classifies tokens by their first byte.
var starts = classify()

const (
	startsNothing = iota
	startsSpace
	startsWord
	startsScalar // any other
)

func classify() (table [256]uint8) {
	for c := range 256 {
		switch b := byte(c); {
		case b == ' ' || '\t' <= b && b <= '\r':
			table[c] = startsSpace
		case isLetter(b):
			table[c] = startsWord
		case isDigit(b) || b == '-' || b == '+' || b == '"' || b == '%' || b == '#' || stringMarker <= b && b <= uint64Marker:
			table[c] = startsScalar
		}
	}
	return table
}

// inWord is the set of bytes that continue a bare word, inNumber the set that continue a number.
var inWord, inNumber = continuations()

func continuations() (word, number [256]bool) {
	for c := range 256 {
		b := byte(c)
		word[c] = isLetter(b) || isDigit(b) || b == '-' || b == '.'
		number[c] = isDigit(b) || b == '-' || b == '+' || b == '.' || b == 'e' || b == 'E' || b == 'u'
	}
	return word, number
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }

// scalar reads a scalar that starts with c.
func (p *parser) scalar(n *Node, c byte) (ok bool) {
	var text []byte
	switch {
	case starts[c] == startsWord:
		n.kind, text, ok = StringKind, p.word(), true
	case c == '"':
		n.kind = StringKind
		text, ok = p.quoted()
	case c == stringMarker:
		n.kind = StringKind
		text, ok = p.binaryString()
	case c < ' ':
		return p.binary(n, c)
	case c == '%':
		return p.percent(n)
	case c == '#':
		p.pos++
		return true
	default:
		return p.number(n)
	}
	n.text = p.build.copyText(text)
	return ok
}

// span returns the length of the token at pos: its first byte and all following bytes in the set.
func (p *parser) span(set *[256]bool) int {
	end := p.pos + 1
	for end < len(p.data) && set[p.data[end]] {
		end++
	}
	return end - p.pos
}

// word reads a string without quotes.
func (p *parser) word() []byte {
	start := p.pos
	p.pos += p.span(&inWord)
	return p.data[start:p.pos]
}

func (p *parser) quoted() (text []byte, ok bool) {
	start := p.pos + 1
	end, escaped := start, false
	for ; end < len(p.data) && p.data[end] != '"'; end++ {
		if p.data[end] == '\\' {
			escaped = true
			end++
		}
	}
	if end >= len(p.data) {
		return nil, p.truncated("this string has no closing quote")
	}
	text = p.data[start:end]
	if escaped {
		var bad int
		var why string
		if p.scratch, bad, why = unescape(p.scratch[:0], text); why != "" {
			return nil, p.fail(start+bad, why)
		}
		text = p.scratch
	}
	p.pos = end + 1
	return text, true
}

// simpleEscapes maps each letter after a backslash to its byte, zero for none.
var simpleEscapes = [256]byte{
	'n': '\n', 't': '\t', 'r': '\r', '\\': '\\', '"': '"', '\'': '\'', 'a': '\a', 'b': '\b', 'f': '\f', 'v': '\v',
}

// unescape appends text to b with its escapes replaced. If one is wrong it returns its place and
// the reason.
func unescape(b, text []byte) (result []byte, bad int, why string) {
	for i := 0; i < len(text); {
		c := text[i]
		if c != '\\' {
			b = append(b, c)
			i++
			continue
		}
		c = text[i+1] // the scanner has ensured that something follows
		if simple := simpleEscapes[c]; simple != 0 {
			b = append(b, simple)
			i += 2
			continue
		}
		value, length := 0, 0
		switch {
		case c == 'x':
			value, length = digits(text[i+2:], 16, 2)
			if length > 0 {
				length++
			}
		case '0' <= c && c <= '7':
			value, length = digits(text[i+1:], 8, 3)
		}
		if length == 0 {
			return b, i, fmt.Sprintf(`\%s is no escape; there are \n \t \r \\ \" \' \a \b \f \v, \xHH and \NNN`, printable(c))
		}
		b = append(b, byte(value))
		i += 1 + length
	}
	return b, 0, ""
}

func printable(c byte) string {
	if c < 0x20 || c >= 0x7f {
		return fmt.Sprintf("(byte 0x%02x)", c)
	}
	return string(rune(c))
}

// digits reads at most longest digits as long as their value is a byte.
func digits(text []byte, base, longest int) (value, length int) {
	for length < longest && length < len(text) {
		digit := hexDigit(text[length])
		if digit < 0 || digit >= base || value*base+digit > 0xff {
			break
		}
		value = value*base + digit
		length++
	}
	return value, length
}

func hexDigit(c byte) int {
	switch {
	case isDigit(c):
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func (p *parser) number(n *Node) bool {
	length := p.span(&inNumber)
	word, rest := p.data[p.pos:p.pos+length], p.data[p.pos+length:]
	if len(rest) > 0 && inWord[rest[0]] {
		return p.fail(p.pos, jsontext.Excerpt(p.data[p.pos:p.pos+length+1])+
			" is not a number; a string that begins with a digit or a sign stands in quotes")
	}
	var why string
	if n.kind, n.number, why = parseNumber(word); why != "" {
		return p.fail(p.pos, jsontext.Excerpt(word)+" "+why)
	}
	p.pos += length
	return true
}

// parseNumber reads a number whose bytes are all inNumber. If it is not a number, why is the
// reason.
func parseNumber(word []byte) (kind Kind, number uint64, why string) {
	digits := word
	negative := digits[0] == '-'
	if negative || digits[0] == '+' {
		digits = digits[1:]
	}
	overflow, point, unsigned := false, -1, false
	for i, c := range digits {
		digit := uint64(c - '0')
		if digit <= 9 {
			overflow = overflow || number > math.MaxUint64/10 || number*10 > math.MaxUint64-digit
			number = number*10 + digit
			continue
		}
		switch {
		case c == '.' && point < 0:
			point = i
		case c == 'u' && i == len(digits)-1 && i > 0 && point < 0:
			unsigned = true
		default:
			return parseDouble(word)
		}
	}
	if point >= 0 {
		double, ok := jsontext.Decimal(number, len(digits)-1-point)
		if !ok || overflow || len(digits) == 1 {
			return parseDouble(word)
		}
		if negative {
			double = -double
		}
		return DoubleKind, math.Float64bits(double), ""
	}
	switch {
	case len(digits) == 0:
		return EntityKind, 0, notNumber
	case overflow:
		return EntityKind, 0, "does not fit into 64 bits"
	case unsigned && negative:
		return EntityKind, 0, "is negative, but a uint64 cannot be"
	case unsigned:
		return Uint64Kind, number, ""
	case negative && number <= 1<<63:
		return Int64Kind, -number, ""
	case negative:
		return EntityKind, 0, "does not fit into an int64"
	case number > math.MaxInt64:
		return EntityKind, 0, `does not fit into an int64; a uint64 ends in "u"`
	}
	return Int64Kind, number, ""
}

const notNumber = "is not a number"

// parseDouble is parseNumber for numbers that are neither whole nor short.
func parseDouble(word []byte) (kind Kind, number uint64, why string) {
	double, err := strconv.ParseFloat(string(word), 64)
	switch {
	case err == nil:
		return DoubleKind, math.Float64bits(double), ""
	case err.(*strconv.NumError).Err == strconv.ErrRange:
		return EntityKind, 0, "is too large for a double"
	}
	return EntityKind, 0, notNumber
}

// percent reads %true, %false, %nan, %inf, %+inf or %-inf.
func (p *parser) percent(n *Node) bool {
	length := p.span(&inPercent)
	switch word := p.data[p.pos : p.pos+length]; string(word[1:]) {
	case "true":
		*n = Boolean(true)
	case "false":
		*n = Boolean(false)
	case "nan":
		*n = Double(math.NaN())
	case "inf", "+inf":
		*n = Double(math.Inf(1))
	case "-inf":
		*n = Double(math.Inf(-1))
	default:
		return p.fail(p.pos, jsontext.Excerpt(word)+" is not one of %true, %false, %nan, %inf and %-inf")
	}
	p.pos += length
	return true
}

var inPercent = func() (set [256]bool) {
	set = inWord
	set['+'] = true
	return set
}()

// binary reads a binary scalar that is not a string.
func (p *parser) binary(n *Node, marker byte) bool {
	switch marker {
	case int64Marker, uint64Marker:
		value, next, ok := p.varint(binary.MaxVarintLen64, math.MaxUint64)
		if !ok {
			return false
		}
		p.pos = next
		*n = Uint64(value)
		if marker == int64Marker {
			*n = Int64(unzigzag(value))
		}
	case doubleMarker:
		if len(p.data)-p.pos < 9 {
			return p.truncated("the input ends inside a binary double")
		}
		n.kind, n.number = DoubleKind, binary.LittleEndian.Uint64(p.data[p.pos+1:])
		p.pos += 9
	default:
		*n = Boolean(marker == trueMarker)
		p.pos++
	}
	return true
}

func (p *parser) binaryString() (text []byte, ok bool) {
	value, start, ok := p.varint(binary.MaxVarintLen32, math.MaxUint32)
	if !ok {
		return nil, false
	}
	size, left := unzigzag(value), int64(len(p.data)-start)
	if size < 0 {
		return nil, p.fail(p.pos, fmt.Sprintf("the length of a binary string is negative: %d", size))
	}
	if size > left {
		return nil, p.truncated(fmt.Sprintf("a binary string has %d bytes, but the input ends after %d of them", size, left))
	}
	p.pos = start + int(size)
	return p.data[start:p.pos], true
}

func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// varint reads the number after the marker at pos, and returns the offset after it.
func (p *parser) varint(longest int, largest uint64) (value uint64, next int, ok bool) {
	value, length := binary.Uvarint(p.data[p.pos+1:])
	switch {
	case length == 0:
		return 0, 0, p.truncated("the input ends inside a binary number")
	case length < 0 || value > largest:
		return 0, 0, p.fail(p.pos, fmt.Sprintf("a binary number is longer than %d bytes or too large", longest))
	}
	return value, p.pos + 1 + length, true
}
