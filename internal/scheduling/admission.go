package scheduling

import (
	"fmt"

	"github.com/weirhq/weir/internal/resource"
)

// CountError says that a pool takes no more operations.
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

// fullPool returns the lowest pool, from one up to the root, that takes no more
// operations, or none.
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

// count changes the numbers of operations of a pool and of all above it.
func (t *Tree) count(slot int32, operations, running int) {
	for {
		p := t.elements[slot].pool
		p.operations += operations
		p.running += running
		if slot == 0 {
			return
		}
		slot = t.elements[slot].parent
	}
}

// CanAdd says whether a pool takes one more operation.
func (t *Tree) CanAdd(pool int32) error {
	if full := t.fullPool(pool, false); full != none {
		p := t.elements[full].pool
		return &CountError{Pool: p.name, Slot: full, Limit: p.maxOperations}
	}
	return nil
}

// AddOperation adds an operation to a pool, if the pool and all above it take
// one more, and returns its slot. It runs at once if they also run one more;
// otherwise it waits for the lowest pool that does not.
func (t *Tree) AddOperation(pool int32, p OperationParameters) (int32, error) {
	if err := t.CanAdd(pool); err != nil {
		return none, err
	}
	slot := t.addOperation(pool, p)
	t.count(pool, 1, 0)
	t.admit(slot)
	return slot, nil
}

// IsRunning says whether an operation may get resources, and if not, which
// pool's limit it waits for.
func (t *Tree) IsRunning(slot int32) (running bool, waitsAt int32) {
	op := t.elements[slot].operation
	return op.running, op.waitsAt
}

// admit lets an operation run, or queues it at the lowest pool that runs no
// more. It says whether the operation runs.
func (t *Tree) admit(slot int32) bool {
	e := &t.elements[slot]
	full := t.fullPool(e.parent, true)
	e.operation.waitsAt = full
	if full != none {
		p := t.elements[full].pool
		p.waiting = append(p.waiting, slot)
		return false
	}
	t.run(slot)
	return true
}

// run lets an operation run, whatever the limits are.
func (t *Tree) run(slot int32) {
	e := &t.elements[slot]
	e.operation.running = true
	t.count(e.parent, 0, 1)
	t.refresh(slot)
}

// RemoveOperation forgets an operation, whose allocations must have been
// finished before, and returns those that run instead of it.
func (t *Tree) RemoveOperation(slot int32) (admitted []int32) {
	pool := t.elements[slot].parent
	t.leave(slot)
	t.free(slot)
	return t.admitWaiting(pool)
}

// leave takes an operation out of the counts, queues and heaps of its pools.
func (t *Tree) leave(slot int32) {
	e := &t.elements[slot]
	op := e.operation
	if op.waitsAt != none {
		p := t.elements[op.waitsAt].pool
		for i, waiting := range p.waiting {
			if waiting == slot {
				p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
				break
			}
		}
		op.waitsAt = none
	}
	running := 0
	if op.running {
		running = -1
	}
	t.count(e.parent, -1, running)
	op.running = false
	t.refresh(slot)
}

// admitWaiting lets operations run that wait for a pool or one above it, in the
// order they came, and returns them. An operation that has got past one pool may
// be stopped by another; it waits there from then on.
func (t *Tree) admitWaiting(pool int32) (admitted []int32) {
	for {
		p := t.elements[pool].pool
		queue := p.waiting
		p.waiting = nil
		for i, slot := range queue {
			if p.running >= p.maxRunning {
				p.waiting = append(p.waiting, queue[i:]...)
				break
			}
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

// AdmitAll tries all operations that wait anywhere, after limits were raised.
func (t *Tree) AdmitAll() (admitted []int32) {
	for slot := range t.elements {
		p := t.elements[slot].pool
		if p == nil || len(p.waiting) == 0 {
			continue
		}
		queue := p.waiting
		p.waiting = nil
		for _, waiting := range queue {
			if t.admit(waiting) {
				admitted = append(admitted, waiting)
			}
		}
	}
	return admitted
}

// MoveOperation moves an operation to another pool. Limits of pools that it is
// in already do not count against it if it runs there; a move never makes a
// running operation wait.
func (t *Tree) MoveOperation(slot, pool int32) (admitted []int32, err error) {
	e := &t.elements[slot]
	for at := pool; ; at = t.elements[at].parent {
		if t.contains(at, slot) && e.operation.running {
			break
		}
		p := t.elements[at].pool
		if !t.contains(at, slot) && p.operations >= p.maxOperations {
			return nil, &CountError{Pool: p.name, Slot: at, Limit: p.maxOperations}
		}
		if p.running >= p.maxRunning {
			return nil, &CountError{Pool: p.name, Slot: at, Limit: p.maxRunning, Running: true}
		}
		if at == 0 {
			break
		}
	}
	old, usage, running := e.parent, e.usage, e.operation.running
	t.leave(slot)
	t.addUsage(old, resource.Amounts{}.Sub(usage))
	e.parent, t.shares.Elements[slot].Parent = pool, pool
	t.addUsage(pool, usage)
	t.count(pool, 1, 0)
	if running {
		t.run(slot)
	} else {
		t.admit(slot)
	}
	t.lowerLeast(slot)
	return t.admitWaiting(old), nil
}

// contains says whether an operation is somewhere below a pool.
func (t *Tree) contains(pool, slot int32) bool {
	for slot != 0 {
		slot = t.elements[slot].parent
		if slot == pool {
			return true
		}
	}
	return false
}
