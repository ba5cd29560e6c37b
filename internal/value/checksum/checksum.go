// Package checksum names contents by their SHA-256. Two contents with the same name are equal for every purpose here:
// stores and caches keep one of them, and readers compare what they got with its name.
package checksum

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
)

// Sum is the SHA-256 of a content. The zero value names no content.
type Sum [sha256.Size]byte

// Of returns the sum of a content.
func Of(content []byte) Sum { return sha256.Sum256(content) }

// Parse reads 64 lower-case hexadecimal digits.
func Parse(text string) (s Sum, err error) {
	if len(text) != 2*len(s) {
		return s, fmt.Errorf("%.80q is no SHA-256: want %d hexadecimal digits", text, 2*len(s))
	}
	if _, err := hex.Decode(s[:], []byte(text)); err != nil || s.String() != text {
		return Sum{}, fmt.Errorf("%q is no SHA-256: want lower-case hexadecimal digits", text)
	}
	return s, nil
}

// String returns the sum as Parse reads it.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// IsZero reports whether the sum names no content.
func (s Sum) IsZero() bool { return s == Sum{} }

// Meter computes the sum and the size of what is written to it.
type Meter struct {
	hash hash.Hash
	size int64
}

// NewMeter returns a meter of an empty content.
func NewMeter() *Meter { return &Meter{hash: sha256.New()} }

// Write adds data to the content. It never fails.
func (m *Meter) Write(data []byte) (int, error) {
	m.size += int64(len(data))
	return m.hash.Write(data)
}

// Size returns the number of bytes so far.
func (m *Meter) Size() int64 { return m.size }

// Sum returns the sum of the content so far.
func (m *Meter) Sum() (s Sum) {
	m.hash.Sum(s[:0])
	return s
}
