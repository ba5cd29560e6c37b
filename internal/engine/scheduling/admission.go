package scheduling

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// CountError reports that a pool accepts no more operations.
type CountError struct {
	Pool    string
	Slot    int32
	Limit   int
	Running bool // the limit is on running operations
}

// Error names the pool and the limit.
func (e *CountError) Error() string {
	option := "max_operation_count"
	if e.Running {
		option = "max_running_operation_count"
	}
	return fmt.Sprintf("pool %s has reached its limit of %d operations (%s)", e.Pool, e.Limit, option)
}

// fullPool returns the lowest pool, from the given one up to the root, that
// accepts no more operations, or none.
func (t *Tree) fullPool(slot int32, running bool) int32 {
	for {
		p := t.elements[slot].pool
		if running && p.running >= p.maxRunning || !running && p.operations >= p.maxOperations {
			return slot
		}
		if slot == 0 {
			return none
		}
		slot = t.elements[slot].parent
	}
}

// count changes the operation counts of a pool and of all pools above it.
func (t *Tree) count(slot int32, operations, running int) {
	for {
		p := t.elements[slot].pool
		t.mark(slot, forBoth)
		p.operations += operations
		p.running += running
		if slot == 0 {
			return
		}
		slot = t.elements[slot].parent
	}
}

// CanAdd returns an error if a pool accepts no more operations.
func (t *Tree) CanAdd(pool int32) error {
	if full := t.fullPool(pool, false); full != none {
		p := t.elements[full].pool
		return &CountError{Pool: p.name, Slot: full, Limit: p.maxOperations}
	}
	return nil
}

// AddOperation adds an operation to a pool, if the pool and all pools above
// it accept one more, and returns its slot. The operation runs at once if
// they can also run one more; otherwise it waits for the lowest pool that
// cannot.
func (t *Tree) AddOperation(pool int32, p OperationParameters) (int32, error) {
	if err := t.CanAdd(pool); err != nil {
		return none, err
	}
	slot := t.addOperation(pool, p)
	t.count(pool, 1, 0)
	t.admit(slot)
	return slot, nil
}

// IsRunning reports whether an operation may get resources and, if not, for
// which pool's limit it waits.
func (t *Tree) IsRunning(slot int32) (running bool, waitsAt int32) {
	op := t.elements[slot].operation
	return op.running, op.waitsAt
}

// admit lets an operation run, or queues it at the lowest pool that cannot
// run more. It reports whether the operation runs.
func (t *Tree) admit(slot int32) bool {
	e := &t.elements[slot]
	t.mark(slot, forBoth)
	full := t.fullPool(e.parent, true)
	e.operation.waitsAt = full
	if full != none {
		p := t.elements[full].pool
		t.mark(full, forBoth)
		p.waiting = append(p.waiting, slot)
		return false
	}
	t.run(slot)
	return true
}

// run lets an operation run regardless of limits.
func (t *Tree) run(slot int32) {
	e := &t.elements[slot]
	t.mark(slot, forBoth)
	e.operation.running = true
	t.count(e.parent, 0, 1)
	t.refresh(slot)
}

// RemoveOperation removes an operation and returns the operations that run in
// its place. Its allocations must have been finished before.
func (t *Tree) RemoveOperation(slot int32) (admitted []int32) {
	pool := t.elements[slot].parent
	t.leave(slot)
	t.free(slot)
	return t.admitWaiting(pool)
}

// leave removes an operation from the counts, queues and heaps of its pools.
func (t *Tree) leave(slot int32) {
	t.abandon(slot)
	e := &t.elements[slot]
	t.mark(slot, forBoth)
	op := e.operation
	if op.waitsAt != none {
		t.leaveQueue(op.waitsAt, slot)
	}
	running := 0
	if op.running {
		running = -1
	}
	t.count(e.parent, -1, running)
	op.running, op.activatedAt = false, time.Time{}
	t.refresh(slot)
}

// admitWaiting admits operations that wait for a pool or one above it, in the
// order they came, and returns them. An operation that is admitted by one
// pool may be refused by another; then it waits there.
func (t *Tree) admitWaiting(pool int32) (admitted []int32) {
	for {
		p := t.elements[pool].pool
		t.mark(pool, forBoth)
		for len(p.waiting) > 0 && p.running < p.maxRunning {
			slot := p.waiting[0]
			p.waiting = p.waiting[1:] // what waits behind it is not copied
			if t.admit(slot) {
				admitted = append(admitted, slot)
			}
		}
		if pool == 0 {
			return admitted
		}
		pool = t.elements[pool].parent
	}
}

// AdmitAll tries all waiting operations again after limits were raised.
func (t *Tree) AdmitAll() (admitted []int32) {
	for slot := range t.elements {
		p := t.elements[slot].pool
		if p == nil || len(p.waiting) == 0 {
			continue
		}
		queue := p.waiting
		p.waiting = nil
		t.mark(int32(slot), forBoth)
		for _, waiting := range queue {
			if t.admit(waiting) {
				admitted = append(admitted, waiting)
			}
		}
	}
	return admitted
}

// CanMove returns why a pool, or one above it, refuses an operation of the
// tree. Limits of pools that the operation already runs in do not count
// against it.
func (t *Tree) CanMove(slot, pool int32) error {
	e := &t.elements[slot]
	for at := pool; ; at = t.elements[at].parent {
		if t.contains(at, slot) && e.operation.running {
			return nil
		}
		p := t.elements[at].pool
		if !t.contains(at, slot) && p.operations >= p.maxOperations {
			return &CountError{Pool: p.name, Slot: at, Limit: p.maxOperations}
		}
		if p.running >= p.maxRunning {
			return &CountError{Pool: p.name, Slot: at, Limit: p.maxRunning, Running: true}
		}
		if at == 0 {
			return nil
		}
	}
}

// MoveOperation moves an operation to another pool, if CanMove allows it: a
// move never makes a running operation wait. It returns the operations that
// run because of it.
func (t *Tree) MoveOperation(slot, pool int32) (admitted []int32, err error) {
	if err := t.CanMove(slot, pool); err != nil {
		return nil, err
	}
	e := &t.elements[slot]
	running := e.operation.running
	old := t.carry(slot, pool)
	if running {
		t.run(slot)
	} else {
		t.admit(slot)
	}
	t.lowerLeast(slot)
	return t.admitWaiting(old), nil
}

// Transfer moves an operation to another pool as TransferAll does. It reports
// whether the operation runs now and did not before.
func (t *Tree) Transfer(slot, pool int32) (admitted bool) {
	return len(t.TransferAll([]Move{{slot, pool}})) > 0
}

// Move is an operation and its new pool.
type Move struct {
	Operation, Pool int32
}

// TransferAll moves operations to other pools because theirs will be removed.
// Unlike MoveOperation it is never refused; if a pool cannot run more
// operations, the last ones in the list wait, even if they ran before. It
// returns operations that run now and did not before. The caller must call
// AdmitAll to admit others.
func (t *Tree) TransferAll(list []Move) (admitted []int32) {
	ran := make([]bool, len(list))
	for i, move := range list {
		ran[i] = t.elements[move.Operation].operation.running
		t.carry(move.Operation, move.Pool)
	}
	for i, move := range list {
		if t.admit(move.Operation) && !ran[i] {
			admitted = append(admitted, move.Operation)
		}
		t.lowerLeast(move.Operation)
	}
	return admitted
}

// Outlook returns a pool's guarantee under full load, as of the last update,
// and the current demand of all of its operations except one.
func (t *Tree) Outlook(pool, but int32) (guarantee resource.Shares, demand resource.Amounts) {
	if p := t.result.Pool(pool); p != nil && t.elements[pool].known {
		guarantee = p.Estimated
	}
	for slot := range t.elements {
		e := &t.elements[slot]
		if e.operation == nil || int32(slot) == but || !t.contains(pool, int32(slot)) {
			continue
		}
		demand = demand.Add(e.usage)
		if e.operation.running && !e.operation.suspended {
			for _, g := range e.operation.groups {
				for k := range g.Resources {
					demand[k] += g.Resources[k] * int64(g.Waiting)
				}
			}
		}
	}
	return guarantee, demand
}

// carry moves an operation with its usage from one pool to another, where it
// does not run yet, and returns its old pool.
func (t *Tree) carry(slot, pool int32) (old int32) {
	e := &t.elements[slot]
	old = e.parent
	t.leave(slot)
	t.addUsage(old, resource.Amounts{}.Sub(e.usage))
	e.parent, t.shares.Elements[slot].Parent = pool, pool
	t.addUsage(pool, e.usage)
	t.noteUsage(slot)
	t.count(pool, 1, 0)
	return old
}

// contains reports whether an operation is somewhere below a pool.
func (t *Tree) contains(pool, slot int32) bool {
	for slot != 0 {
		slot = t.elements[slot].parent
		if slot == pool {
			return true
		}
	}
	return false
}

// CountLimit is a pool that cannot run more operations.
type CountLimit struct {
	Pool           int32
	Running, Limit int
	// Ahead is the number of operations in front of it that wait for the same
	// pool.
	Ahead int
}

// CountLimit returns the limit that keeps an operation from running, if there
// is one.
func (t *Tree) CountLimit(slot int32) (CountLimit, bool) {
	at := t.elements[slot].operation.waitsAt
	if at == none {
		return CountLimit{}, false
	}
	p := t.elements[at].pool
	return CountLimit{Pool: at, Running: p.running, Limit: p.maxRunning, Ahead: slices.Index(p.waiting, slot)}, true
}
