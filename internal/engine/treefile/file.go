package treefile

import (
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
)

// Rules of this package, beside those of document and pooltree.
const (
	ruleNoSuchPool       document.Rule = "no_such_pool"       // a parent or a pool that does not exist
	ruleNotAPool         document.Rule = "not_a_pool"         // children of an operation
	ruleCycle            document.Rule = "cycle"              // an element that is its own ancestor
	ruleFIFOSubpools     document.Rule = "fifo_subpools"      // a pool in a FIFO pool
	ruleUsageAboveDemand document.Rule = "usage_above_demand" // an operation that uses more than it demands
	ruleNoVolume         document.Rule = "no_volume"          // saved volume of a pool that cannot save
	ruleForbiddenPool    document.Rule = "forbidden_pool"     // a pool that does not accept this operation
)

// RootName is the name of the root pool.
const RootName = pooltree.RootName

// BadInput is the error for an invalid file. It wraps document.Problems.
type BadInput struct {
	// ID is the tree's, as far as it was read.
	ID       string
	Problems error
}

func (e *BadInput) Error() string { return e.Problems.Error() }

func (e *BadInput) Unwrap() error { return e.Problems }

// File is a tree as read from a file, ready for the fair-share engine.
type File struct {
	ID    string
	Tree  fairshare.Tree
	Names []string // by slot
	// Elapsed is the time since the previous update, or fairshare.FirstUpdate.
	Elapsed time.Duration
	// Brief requests output without attributes that are zero.
	Brief bool

	// The rest exists only in the readable form, not in vectors.

	// Config is the configuration of the pools.
	Config  *pooltree.Tree
	Cluster Cluster

	operations []Operation
	counts     []operationCounts // by slot of pools
}

// Operations returns what is known about operations besides their elements, in
// the order of the file. Vectors have none.
func (f *File) Operations() []Operation { return f.operations }

// Slot returns the slot of the element with this name.
func (f *File) Slot(name string) (int32, bool) {
	for slot, n := range f.Names {
		if n == name && f.Tree.Elements[slot].Kind != fairshare.KindNone {
			return int32(slot), true
		}
	}
	return 0, false
}

// checkStructure rejects input that is not a tree: every element must be below
// the root, below pools only, and FIFO pools hold operations only. Its cost is
// linear in the number of elements.
func checkStructure(file *File, refuse func(slot int32, rule document.Rule, message string)) {
	elements := file.Tree.Elements
	const (
		unknown  = 0
		entered  = -1
		detached = -2 // in or below a cycle that was reported
	)
	depth := make([]int32, len(elements)) // of the root: 1
	depth[0] = 1
	var chain []int32
	for start := range elements {
		slot := int32(start)
		chain = chain[:0]
		for depth[slot] == unknown {
			depth[slot] = entered
			chain = append(chain, slot)
			slot = elements[slot].Parent
		}
		above := depth[slot]
		if above == entered {
			refuse(slot, ruleCycle, fmt.Sprintf("%q is its own ancestor", shorten(file.Names[slot])))
			above = detached
		}
		for i := len(chain) - 1; i >= 0; i-- {
			if above > 0 {
				above++
			}
			depth[chain[i]] = above
			if above == maxTreeDepth+1 {
				refuse(chain[i], document.RuleTooDeep, fmt.Sprintf("pools are nested deeper than %d levels", maxTreeDepth))
			}
		}
	}
	for slot := 1; slot < len(elements); slot++ {
		element := &elements[slot]
		parent := &elements[element.Parent]
		name := shorten(file.Names[element.Parent])
		switch {
		case parent.Kind != fairshare.KindPool:
			refuse(int32(slot), ruleNotAPool, fmt.Sprintf("its parent %q is an operation, not a pool", name))
		case parent.Pool != nil && parent.Pool.Mode == fairshare.FIFO && element.Kind == fairshare.KindPool:
			refuse(int32(slot), ruleFIFOSubpools, fmt.Sprintf("its parent %q is a FIFO pool, which may hold operations only", name))
		}
	}
}
