package scheduling

// Heaps of children know the position of each child, so one child can be
// moved or removed in logarithmic time.

func (t *Tree) heapInsert(p *poolState, slot int32) {
	p.heap = append(p.heap, slot)
	t.elements[slot].place = int32(len(p.heap) - 1)
	t.heapUp(p, len(p.heap)-1)
}

func (t *Tree) heapRemove(p *poolState, slot int32) {
	at := int(t.elements[slot].place)
	last := len(p.heap) - 1
	moved := p.heap[last]
	p.heap = p.heap[:last]
	t.elements[slot].place = none
	if at == last {
		return
	}
	p.heap[at] = moved
	t.elements[moved].place = int32(at)
	t.heapFix(p, moved)
}

// heapFix moves a child whose key has changed to its place.
func (t *Tree) heapFix(p *poolState, slot int32) {
	at := int(t.elements[slot].place)
	t.heapUp(p, at)
	if t.elements[slot].place == int32(at) {
		t.heapDown(p, at)
	}
}

func (t *Tree) heapUp(p *poolState, at int) {
	slot := p.heap[at]
	for at > 0 {
		above := (at - 1) / 2
		if !t.less(slot, p.heap[above]) {
			break
		}
		p.heap[at] = p.heap[above]
		t.elements[p.heap[at]].place = int32(at)
		at = above
	}
	p.heap[at] = slot
	t.elements[slot].place = int32(at)
}

func (t *Tree) heapDown(p *poolState, at int) {
	slot := p.heap[at]
	for {
		below := 2*at + 1
		if below >= len(p.heap) {
			break
		}
		if right := below + 1; right < len(p.heap) && t.less(p.heap[right], p.heap[below]) {
			below = right
		}
		if !t.less(p.heap[below], slot) {
			break
		}
		p.heap[at] = p.heap[below]
		t.elements[p.heap[at]].place = int32(at)
		at = below
	}
	p.heap[at] = slot
	t.elements[slot].place = int32(at)
}
