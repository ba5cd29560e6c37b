// Package resource holds amounts of the five resources that a cluster divides, as
// exact integers in a fixed array, and shares: the same amounts as fractions of a
// pool tree's total.
//
// It has only values: nothing here knows about pools, nodes or operations, and
// the package imports nothing of ours.
package resource

import "fmt"

// Kind is one of the five resources. The order is part of the contract: it
// breaks ties between equally dominant resources and is the order of components
// in every vector that is stored or printed.
type Kind uint8

const (
	UserSlots Kind = iota
	CPU
	GPU
	Memory
	Network

	// KindCount is the number of kinds and the length of every vector.
	KindCount = 5
)

// Kinds lists all kinds in their order.
var Kinds = [KindCount]Kind{UserSlots, CPU, GPU, Memory, Network}

var kindNames = [KindCount]string{"user_slots", "cpu", "gpu", "memory", "network"}

// String returns the name the kind has in configuration files.
func (k Kind) String() string {
	if k < KindCount {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// ParseKind finds a kind by name. "user_memory" is an alias of memory.
func ParseKind(name string) (Kind, bool) {
	if name == "user_memory" {
		return Memory, true
	}
	for k, n := range kindNames {
		if n == name {
			return Kind(k), true
		}
	}
	return 0, false
}

// Scale is the number of storage units in one unit that people write: cpu is
// stored in hundredths of a core, everything else as it is.
func (k Kind) Scale() int64 {
	if k == CPU {
		return 100
	}
	return 1
}
