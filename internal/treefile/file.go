// Package treefile reads a pool tree together with its cluster and its
// operations from a file, and writes the shares computed from it. Two formats
// are read: YAML made for people, and the JSON of the conformance vectors.
package treefile

import (
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/fairshare"
)

// File is a tree as read from a file, ready for the fair-share engine.
type File struct {
	ID    string
	Tree  fairshare.Tree
	Names []string // by slot
	// Elapsed is the time since the previous update, or fairshare.FirstUpdate.
	Elapsed time.Duration
	// Brief asks for output without attributes that are zero.
	Brief bool
}

// checkStructure refuses trees that are no trees.
func checkStructure(file *File) error {
	elements := file.Tree.Elements
	depth := make([]int, len(elements))
	depth[0] = 1
	var walk func(slot int32, steps int) (int, error)
	walk = func(slot int32, steps int) (int, error) {
		if depth[slot] != 0 {
			return depth[slot], nil
		}
		if steps > len(elements) {
			return 0, fmt.Errorf("element %q: is its own ancestor", file.Names[slot])
		}
		parent, err := walk(elements[slot].Parent, steps+1)
		if err != nil {
			return 0, err
		}
		depth[slot] = parent + 1
		return depth[slot], nil
	}
	for slot := 1; slot < len(elements); slot++ {
		element := &elements[slot]
		parent := &elements[element.Parent]
		if parent.Kind != fairshare.KindPool {
			return fmt.Errorf("element %q: its parent %q is not a pool", file.Names[slot], file.Names[element.Parent])
		}
		if parent.Pool != nil && parent.Pool.Mode == fairshare.FIFO && element.Kind == fairshare.KindPool {
			return fmt.Errorf("element %q: its parent %q is a FIFO pool, which may hold operations only", file.Names[slot], file.Names[element.Parent])
		}
		if _, err := walk(int32(slot), 0); err != nil {
			return err
		}
	}
	return nil
}
