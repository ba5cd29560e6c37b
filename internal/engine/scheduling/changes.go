package scheduling

import "slices"

// Readers are shown an element or a node again only if it may differ from
// what they were shown. The code that changes an element or a node marks it;
// the code that shows it clears the mark. The same goes for updates. Two values change so often, and
// back again, that they are compared as well: see glance.

// marks say who has not seen the last change of an element. Marked elements are
// listed, so that finding them does not cost a look at all others.
type marks uint8

const (
	// forReaders: readers may have to be shown a new value; see TakeChanges.
	forReaders marks = 1 << iota
	// forUpdate: the next update must look at the element.
	forUpdate
	// atAGlance: readers have to be shown a new value if its glance differs.
	atAGlance

	forBoth = forReaders | forUpdate
)

// mark notes that an element has changed.
func (t *Tree) mark(slot int32, who marks) {
	e := &t.elements[slot]
	if who&^e.changed == 0 {
		return
	}
	if who&forUpdate > e.changed&forUpdate {
		t.toUpdate = append(t.toUpdate, slot)
	}
	if e.changed&^forUpdate == 0 && who&^forUpdate != 0 {
		t.toShow = append(t.toShow, slot)
	}
	e.changed |= who
}

// markAll marks all elements, free slots included.
func (t *Tree) markAll(who marks) {
	for slot := range t.elements {
		t.mark(int32(slot), who)
	}
}

// glance is the part of an element, as last shown to readers, that heartbeats
// change back and forth.
type glance struct {
	satisfaction float64
	schedulable  bool
}

// TakeChanges appends the slots, free ones included, whose Pool, Operation or
// Groups may differ from those at the last call, in order, and clears their marks.
// The result may contain unchanged slots; slots that are not in it have not
// changed. Unless attributes is set, it may lack operations that differ only in
// Details.Shares, until the next call that sets it.
func (t *Tree) TakeChanges(into []int32, attributes bool) []int32 {
	if t.shownTotal != t.total {
		t.markAll(forReaders)
	}
	t.shownTotal = t.total
	if attributes {
		t.showReoffered()
	}
	for len(t.shown) < len(t.elements) {
		t.shown = append(t.shown, glance{})
	}
	slices.Sort(t.toShow)
	for _, slot := range t.toShow {
		e := &t.elements[slot]
		now := glance{e.satisfaction, e.schedulable()}
		if e.changed&forReaders != 0 || t.shown[slot] != now {
			into = append(into, slot)
		}
		e.changed, t.shown[slot] = e.changed&forUpdate, now
	}
	t.toShow = t.toShow[:0]
	return into
}

// showReoffered marks the operations in pools that offer other attributes.
func (t *Tree) showReoffered() {
	if len(t.reoffered) == 0 {
		return
	}
	for slot := range t.elements {
		if e := &t.elements[slot]; e.operation != nil && t.elements[e.parent].reoffered {
			t.mark(int32(slot), forReaders)
		}
	}
	for _, slot := range t.reoffered {
		t.elements[slot].reoffered = false
	}
	t.reoffered = t.reoffered[:0]
}

// TakeNodeChange reports whether NodeDetails may differ from those at the
// last call, and clears the mark.
func (t *Tree) TakeNodeChange(at Node) bool {
	changed := t.pulses[at].changed
	t.pulses[at].changed = false
	return changed
}
