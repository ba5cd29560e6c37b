package ledger

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
	"time"
)

// Sum is a sum of amounts × microseconds, an unsigned integer of 128 bits.
type Sum struct{ hi, lo uint64 }

// IsZero reports whether the sum is zero.
func (s Sum) IsZero() bool { return s == Sum{} }

// add adds amount × micros; both must not be negative.
func (s *Sum) add(amount, micros int64) {
	hi, lo := bits.Mul64(uint64(amount), uint64(micros))
	s.Add(Sum{hi, lo})
}

// AddAmount adds an amount held for a time; neither may be negative.
func (s *Sum) AddAmount(amount int64, held time.Duration) { s.add(amount, held.Microseconds()) }

// Add adds another sum.
func (s *Sum) Add(other Sum) {
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, other.lo, 0)
	s.hi, _ = bits.Add64(s.hi, other.hi, carry)
}

// Subtract takes away a part of the sum.
func (s *Sum) Subtract(part Sum) {
	var borrow uint64
	s.lo, borrow = bits.Sub64(s.lo, part.lo, 0)
	s.hi, _ = bits.Sub64(s.hi, part.hi, borrow)
}

// min returns the smaller sum.
func (s Sum) min(other Sum) Sum {
	if s.hi < other.hi || s.hi == other.hi && s.lo < other.lo {
		return s
	}
	return other
}

// beyond returns by how much the sum exceeds another one, zero if it does not.
func (s Sum) beyond(other Sum) Sum {
	s.Subtract(s.min(other))
	return s
}

// Seconds returns the sum as amount × seconds. The result is rounded.
func (s Sum) Seconds() float64 {
	return (math.Ldexp(float64(s.hi), 64) + float64(s.lo)) / 1e6
}

// String returns the exact sum as a decimal number.
func (s Sum) String() string {
	exact := new(big.Int).SetUint64(s.hi)
	return exact.Lsh(exact, 64).Add(exact, new(big.Int).SetUint64(s.lo)).String()
}

func (s Sum) encode(into []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(into, s.hi), s.lo)
}
