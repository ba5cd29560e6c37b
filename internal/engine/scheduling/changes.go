package scheduling

// Readers are shown an element or a node again only if it may differ from
// what they were shown. The code that changes an element or a node marks it;
// the code that shows it clears the mark. The same goes for updates. Two values change so often, and
// back again, that they are compared instead: see glance.

// marks say who has not seen the last change of an element.
type marks uint8

const (
	// forReaders: readers may have to be shown a new value; see TakeChanges.
	forReaders marks = 1 << iota
	// forUpdate: the next update must look at the element.
	forUpdate

	forBoth = forReaders | forUpdate
)

// glance is the part of an element, as last shown to readers, that heartbeats
// change without a mark.
type glance struct {
	satisfaction float64
	schedulable  bool
}

// TakeChanges appends the slots, free ones included, whose Pool, Operation or
// Groups may differ from those at the last call, and clears their marks. The
// result may contain unchanged slots; slots that are not in it have not
// changed.
func (t *Tree) TakeChanges(into []int32) []int32 {
	all := t.shownTotal != t.total
	t.shownTotal = t.total
	for len(t.shown) < len(t.elements) {
		t.shown = append(t.shown, glance{})
	}
	for slot := range t.elements {
		e := &t.elements[slot]
		now := glance{e.satisfaction, e.schedulable()}
		if all || e.changed&forReaders != 0 || t.shown[slot] != now {
			into = append(into, int32(slot))
		}
		e.changed, t.shown[slot] = e.changed&^forReaders, now
	}
	return into
}

// TakeNodeChange reports whether NodeDetails may differ from those at the
// last call, and clears the mark.
func (t *Tree) TakeNodeChange(at Node) bool {
	changed := t.nodes[at].changed
	t.nodes[at].changed = false
	return changed
}
