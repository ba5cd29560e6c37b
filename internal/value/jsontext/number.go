package jsontext

import (
	"math"
	"strconv"
)

// Numeral is a number as it is written. Its methods convert it; ok is false if the type does not
// hold it.
type Numeral struct {
	Text []byte // valid as long as the Scanner's Data
	numeral
}

type numeral struct {
	digits   uint64 // all digits in front of the exponent, unless long
	decimals int    // how many of them are after the point
	negative bool
	long     bool // the digits do not fit
	fraction bool // it has a point or an exponent
	exponent bool
}

// Int64 returns a whole number.
func (n *Numeral) Int64() (value int64, ok bool) {
	switch {
	case n.fraction || n.long:
		return 0, false
	case n.negative:
		return int64(-n.digits), n.digits <= 1<<63
	}
	return int64(n.digits), n.digits <= math.MaxInt64
}

// Uint64 returns a whole number without a sign.
func (n *Numeral) Uint64() (value uint64, ok bool) {
	return n.digits, !n.fraction && !n.long && !n.negative
}

// Float64 returns any number, rounded.
func (n *Numeral) Float64() (value float64, ok bool) {
	value, ok = Decimal(n.digits, n.decimals)
	if !ok || n.exponent || n.long {
		value, err := strconv.ParseFloat(string(n.Text), 64)
		return value, err == nil
	}
	if n.negative {
		value = -value
	}
	return value, true
}

// Decimal returns digits / 10^decimals. It is not ok if they are too large for an exact result.
func Decimal(digits uint64, decimals int) (value float64, ok bool) {
	if digits > 1<<53 || decimals >= len(powersOfTen) {
		return 0, false
	}
	// Both operands are exact, so the quotient is rounded once, and correctly.
	return float64(digits) / powersOfTen[decimals], true
}

// powersOfTen are those that float64 holds exactly.
var powersOfTen = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// Number reads the value that Peek has found to be a Number. The number may be out of the range of
// every type.
func (s *Scanner) Number() (n Numeral, ok bool) {
	start := s.pos
	for s.pos < len(s.Data) && inNumber[s.Data[s.pos]] {
		s.pos++
	}
	n.Text = s.Data[start:s.pos]
	if n.numeral, ok = parseNumber(n.Text); !ok {
		s.Refuse(Syntax, start, "%s is not a number", Excerpt(n.Text))
	}
	return n, ok
}

// Type is the type of a number in memory.
type Type uint8

const (
	NoType Type = iota // out of the range of all
	Int64
	Uint64
	Float64
)

// Exact reads a number as Number does and converts it: whole numbers to Int64 if they fit, else to
// Uint64, all others to Float64. It refuses numbers out of range, and returns the type and the bits.
func (s *Scanner) Exact() (Type, uint64) {
	start := s.pos
	n, ok := s.Number()
	if !ok {
		return NoType, 0
	}
	if n.fraction {
		f, ok := n.Float64()
		if !ok {
			s.Refuse(OutOfRange, start, "%s is too large: it is out of the range of numbers", Excerpt(n.Text))
			return NoType, 0
		}
		return Float64, math.Float64bits(f)
	}
	if i, ok := n.Int64(); ok {
		return Int64, uint64(i)
	}
	if u, ok := n.Uint64(); ok {
		return Uint64, u
	}
	s.Refuse(OutOfRange, start, "%s does not fit into 64 bits", Excerpt(n.Text))
	return NoType, 0
}

// ParseNumber reads a number without anything around it.
func ParseNumber(text string) (n Numeral, ok bool) {
	n.Text = []byte(text)
	n.numeral, ok = parseNumber(n.Text)
	return n, ok
}

// inNumber is the set of bytes that continue a number. The letter u, which ends a uint64 in YSON, is
// there for the message.
var inNumber = func() (set [256]bool) {
	for _, c := range []byte("0123456789+-.eEu") {
		set[c] = true
	}
	return set
}()

// parseNumber follows the grammar -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)?.
func parseNumber(text []byte) (n numeral, ok bool) {
	i := 0
	if i < len(text) && text[i] == '-' {
		n.negative = true
		i++
	}
	start := i
	i = n.read(text, i)
	if i == start || text[start] == '0' && i > start+1 {
		return n, false
	}
	if i < len(text) && text[i] == '.' {
		n.fraction = true
		start = i + 1
		i = n.read(text, start)
		if n.decimals = i - start; n.decimals == 0 {
			return n, false
		}
	}
	if i < len(text) && text[i]|0x20 == 'e' {
		n.fraction, n.exponent = true, true
		if i++; i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		start = i
		for i < len(text) && isDigit(text[i]) {
			i++
		}
		if i == start {
			return n, false
		}
	}
	return n, i == len(text)
}

// read adds the digits from an offset on and returns the offset after them.
func (n *numeral) read(text []byte, i int) int {
	for ; i < len(text) && isDigit(text[i]); i++ {
		digit := uint64(text[i] - '0')
		n.long = n.long || n.digits > math.MaxUint64/10 || n.digits*10 > math.MaxUint64-digit
		n.digits = n.digits*10 + digit
	}
	return i
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
