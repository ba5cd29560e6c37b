// Package guid owns the identifiers that clients see: four hexadecimal numbers with dashes between
// them, as YTsaurus writes them.
//
//	9d1c2b3a-5e6f7081-3ff03e8-1a2b3c4d
//
// The third number contains the kind of the object. The caller passes in randomness. The package
// imports nothing of ours.
package guid

import (
	"fmt"
	"strconv"
	"strings"
)

// ID is an identifier. The zero value belongs to nothing.
type ID [4]uint32

// Kind is the kind of object that an identifier belongs to.
type Kind uint16

const (
	// Operation is an operation.
	Operation Kind = 1000
	// Job is a job.
	Job Kind = 900
	// Transaction is a transaction.
	Transaction Kind = 1
	// Pool is a pool.
	Pool Kind = 1001
	// PoolTree is a pool tree.
	PoolTree Kind = 1002
	// Object is any other node of the tree of paths.
	Object Kind = 303
)

// cell is the cluster part of identifiers. It is constant, because clusters do not share
// identifiers.
const cell = 0x3ff

// New returns an identifier of 96 random bits.
func New(kind Kind, high, low uint64) ID {
	return ID{uint32(high >> 32), uint32(high), cell<<16 | uint32(kind), uint32(low)}
}

// OfJob is the identifier of the job with a number. Numbers are never reused, so neither are these
// identifiers. The top byte of the last part counts the jobs of one allocation, from one: clients
// clear it to get the allocation.
func OfJob(number uint64) ID {
	return ID{uint32(number >> 32), uint32(number), cell<<16 | uint32(Job), 1<<24 | mix(number)&0xffffff}
}

// JobNumber is the inverse of OfJob.
func JobNumber(id ID) (number uint64, ok bool) {
	number = uint64(id[0])<<32 | uint64(id[1])
	return number, id == OfJob(number)
}

// mix makes the identifiers of consecutive numbers look different, for people who compare only
// their ends.
func mix(n uint64) uint32 {
	n ^= n >> 33
	n *= 0xff51afd7ed558ccd
	n ^= n >> 33
	return uint32(n)
}

// Kind returns the kind of object that the identifier belongs to.
func (id ID) Kind() Kind { return Kind(id[2]) }

// IsZero reports whether the identifier belongs to nothing.
func (id ID) IsZero() bool { return id == ID{} }

// String writes the four numbers without leading zeros.
func (id ID) String() string {
	return fmt.Sprintf("%x-%x-%x-%x", id[0], id[1], id[2], id[3])
}

// Parse reads what String writes.
func Parse(text string) (id ID, err error) {
	parts := strings.Split(text, "-")
	if len(parts) != len(id) {
		return ID{}, fmt.Errorf("%q is not an identifier: it must be four hexadecimal numbers with dashes between them", shorten(text))
	}
	for i, part := range parts {
		number, err := strconv.ParseUint(part, 16, 32)
		if err != nil || len(part) > 8 {
			return ID{}, fmt.Errorf("%q is not an identifier: part %d is not a hexadecimal number of at most eight digits", shorten(text), i+1)
		}
		id[i] = uint32(number)
	}
	return id, nil
}

func shorten(text string) string {
	const most = 60
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}

// MarshalText writes the identifier as String does.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what String writes.
func (id *ID) UnmarshalText(text []byte) (err error) {
	*id, err = Parse(string(text))
	return err
}
