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
	startsQuoted
	startsNumber
	startsPercent
	startsBinary
	startsEntity
	startsContainer
)

func classify() (table [256]uint8) {
	for c := range 256 {
		switch b := byte(c); {
		case b == ' ' || '\t' <= b && b <= '\r':
			table[c] = startsSpace
		case isLetter(b):
			table[c] = startsWord
		case isDigit(b) || b == '-' || b == '+':
			table[c] = startsNumber
		case stringMarker <= b && b <= uint64Marker:
			table[c] = startsBinary
		case b == '[' || b == '{' || b == '<':
			table[c] = startsContainer
		}
	}
	table['"'], table['%'], table['#'] = startsQuoted, startsPercent, startsEntity
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

// Scanners read one token that starts at pos. They look ahead, counting from pos, and move pos only
// when they have the whole token, because fill drops what is in front of it.

// span returns the length of the token at pos: its first byte and all following bytes in the set.
func (r *Reader) span(set *[256]bool) int {
	length := 1
	for {
		data := r.data[r.pos:]
		for length < len(data) && set[data[length]] {
			length++
		}
		if length < len(data) || !r.fill() {
			return length
		}
	}
}

func (r *Reader) scanWord() bool {
	length := r.span(&inWord)
	r.text = r.data[r.pos : r.pos+length]
	r.pos += length
	return true
}

func (r *Reader) scanQuoted() bool {
	end, escaped := 1, false
	for {
		data := r.data[r.pos:]
		for end < len(data) && data[end] != '"' {
			if data[end] == '\\' {
				escaped = true
				end++
			}
			end++
		}
		if end < len(data) {
			break
		}
		if !r.fill() {
			return r.fail(0, true, "this string has no closing quote")
		}
	}
	r.text = r.data[r.pos+1 : r.pos+end]
	if escaped {
		var bad int
		var why string
		if r.scratch, bad, why = unescape(r.scratch[:0], r.text); why != "" {
			return r.fail(1+bad, false, why)
		}
		r.text = r.scratch
	}
	r.pos += end + 1
	return true
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

func (r *Reader) scanNumber() (Token, bool) {
	length := r.span(&inNumber)
	word := r.data[r.pos : r.pos+length]
	if rest := r.data[r.pos+length:]; len(rest) > 0 && inWord[rest[0]] {
		return NoToken, r.fail(0, false, jsontext.Excerpt(r.data[r.pos:r.pos+length+1])+
			" is not a number; a string that begins with a digit or a sign stands in quotes")
	}
	token, number, why := parseNumber(word)
	if why != "" {
		return NoToken, r.fail(0, false, jsontext.Excerpt(word)+" "+why)
	}
	r.number = number
	r.pos += length
	return token, true
}

// parseNumber reads a number whose bytes are all inNumber. If it is not a number, why is the
// reason.
func parseNumber(word []byte) (token Token, number uint64, why string) {
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
		return DoubleToken, math.Float64bits(double), ""
	}
	switch {
	case len(digits) == 0:
		return NoToken, 0, notNumber
	case overflow:
		return NoToken, 0, "does not fit into 64 bits"
	case unsigned && negative:
		return NoToken, 0, "is negative, but a uint64 cannot be"
	case unsigned:
		return Uint64Token, number, ""
	case negative && number <= 1<<63:
		return Int64Token, -number, ""
	case negative:
		return NoToken, 0, "does not fit into an int64"
	case number > math.MaxInt64:
		return NoToken, 0, `does not fit into an int64; a uint64 ends in "u"`
	}
	return Int64Token, number, ""
}

const notNumber = "is not a number"

// parseDouble is parseNumber for numbers that are neither whole nor short.
func parseDouble(word []byte) (token Token, number uint64, why string) {
	double, err := strconv.ParseFloat(string(word), 64)
	switch {
	case err == nil:
		return DoubleToken, math.Float64bits(double), ""
	case err.(*strconv.NumError).Err == strconv.ErrRange:
		return NoToken, 0, "is too large for a double"
	}
	return NoToken, 0, notNumber
}

// scanPercent reads %true, %false, %nan, %inf, %+inf or %-inf.
func (r *Reader) scanPercent() (Token, bool) {
	length := r.span(&inPercent)
	token, number := NoToken, uint64(0)
	switch string(r.data[r.pos+1 : r.pos+length]) {
	case "true":
		token, number = BooleanToken, 1
	case "false":
		token = BooleanToken
	case "nan":
		token, number = DoubleToken, math.Float64bits(math.NaN())
	case "inf", "+inf":
		token, number = DoubleToken, math.Float64bits(math.Inf(1))
	case "-inf":
		token, number = DoubleToken, math.Float64bits(math.Inf(-1))
	default:
		return NoToken, r.fail(0, false, jsontext.Excerpt(r.data[r.pos:r.pos+length])+
			" is not one of %true, %false, %nan, %inf and %-inf")
	}
	r.number = number
	r.pos += length
	return token, true
}

var inPercent = func() (set [256]bool) {
	set = inWord
	set['+'] = true
	return set
}()

func (r *Reader) scanBinary(marker byte) (Token, bool) {
	switch marker {
	case stringMarker:
		return StringToken, r.scanBinaryString()
	case int64Marker:
		value, length, ok := r.varint(binary.MaxVarintLen64, math.MaxUint64)
		if ok {
			r.number = uint64(unzigzag(value))
			r.pos += length
		}
		return Int64Token, ok
	case uint64Marker:
		value, length, ok := r.varint(binary.MaxVarintLen64, math.MaxUint64)
		if ok {
			r.number = value
			r.pos += length
		}
		return Uint64Token, ok
	case doubleMarker:
		if !r.ensure(9) {
			return NoToken, r.fail(0, true, "the input ends inside a binary double")
		}
		r.number = binary.LittleEndian.Uint64(r.data[r.pos+1:])
		r.pos += 9
		return DoubleToken, true
	}
	r.number = 0
	if marker == trueMarker {
		r.number = 1
	}
	r.pos++
	return BooleanToken, true
}

func (r *Reader) scanBinaryString() bool {
	value, start, ok := r.varint(binary.MaxVarintLen32, math.MaxUint32)
	if !ok {
		return false
	}
	size := unzigzag(value)
	if size < 0 {
		return r.fail(0, false, fmt.Sprintf("the length of a binary string is negative: %d", size))
	}
	if !r.ensure(start + int(size)) {
		return r.fail(0, true, fmt.Sprintf("a binary string has %d bytes, but the input ends after %d of them",
			size, len(r.data)-r.pos-start))
	}
	r.text = r.data[r.pos+start : r.pos+start+int(size)]
	r.pos += start + int(size)
	return true
}

func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// ensure reads until size bytes are available from pos. It does not trust a length before the bytes
// are there: a short input cannot make it allocate much.
func (r *Reader) ensure(size int) bool {
	for len(r.data)-r.pos < size {
		if !r.fill() {
			return false
		}
	}
	return true
}

// varint reads the number after the marker at pos. It returns where the token continues, counted
// from pos.
func (r *Reader) varint(longest int, largest uint64) (value uint64, next int, ok bool) {
	for i := range longest {
		if !r.ensure(i + 2) {
			return 0, 0, r.fail(0, true, "the input ends inside a binary number")
		}
		c := r.data[r.pos+1+i]
		if i == 9 && c > 1 {
			break
		}
		value |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			if value > largest {
				break
			}
			return value, i + 2, true
		}
	}
	return 0, 0, r.fail(0, false, fmt.Sprintf("a binary number is longer than %d bytes or too large", longest))
}
