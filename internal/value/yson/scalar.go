package yson

import (
	"encoding/binary"
	"math"
	"strconv"
)

const indentation = "                                                                "

// appendIndent appends four spaces for each level.
func appendIndent(b []byte, depth int) []byte {
	spaces := 4 * depth
	for spaces > len(indentation) {
		b = append(b, indentation...)
		spaces -= len(indentation)
	}
	return append(b, indentation[:spaces]...)
}

func appendBoolean(b []byte, value bool, format Format) []byte {
	switch {
	case format == Binary && value:
		return append(b, trueMarker)
	case format == Binary:
		return append(b, falseMarker)
	case value:
		return append(b, "%true"...)
	}
	return append(b, "%false"...)
}

func appendInt64(b []byte, value int64, format Format) []byte {
	if format == Binary {
		return binary.AppendVarint(append(b, int64Marker), value)
	}
	return strconv.AppendInt(b, value, 10)
}

func appendUint64(b []byte, value uint64, format Format) []byte {
	if format == Binary {
		return binary.AppendUvarint(append(b, uint64Marker), value)
	}
	return append(strconv.AppendUint(b, value, 10), 'u')
}

func appendDouble(b []byte, value float64, format Format) []byte {
	switch {
	case format == Binary:
		return binary.LittleEndian.AppendUint64(append(b, doubleMarker), math.Float64bits(value))
	case value != value:
		return append(b, "%nan"...)
	case math.IsInf(value, 1):
		return append(b, "%inf"...)
	case math.IsInf(value, -1):
		return append(b, "%-inf"...)
	}
	b, whole := appendDecimal(b, value)
	if whole {
		b = append(b, '.')
	}
	return b
}

// appendDecimal writes a finite number so that it reads back as the same, without an exponent if
// that is short. It reports whether the result looks like a whole number.
func appendDecimal(b []byte, value float64) (result []byte, whole bool) {
	magnitude := math.Abs(value)
	if magnitude != 0 && (magnitude < 1e-6 || magnitude >= 1e21) {
		return strconv.AppendFloat(b, value, 'e', -1, 64), false
	}
	return strconv.AppendFloat(b, value, 'f', -1, 64), value == math.Trunc(value)
}

const upperHex = "0123456789ABCDEF"

// plainInText is the set of bytes that need no escape between quotes.
var plainInText = func() (set [256]bool) {
	for c := 0x20; c < 0x7f; c++ {
		set[c] = c != '"' && c != '\\'
	}
	return set
}()

func appendString[S string | []byte](b []byte, s S, format Format) []byte {
	if format == Binary {
		b = binary.AppendVarint(append(b, stringMarker), int64(len(s)))
		return append(b, s...)
	}
	b = append(b, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if plainInText[c] {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'x', upperHex[c>>4], upperHex[c&15])
		}
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}
