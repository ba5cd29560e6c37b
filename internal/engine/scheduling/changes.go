package scheduling

// Readers are shown an element or a node again only if it may differ from what
// they were shown. Whatever changes one marks it, and the marks are taken away by
// who shows it. Two things change so often, and back again, that they are compared
// instead: see glance.

// glance is what readers were last shown of an element and heartbeats change
// without a mark.
type glance struct {
	satisfaction float64
	schedulable  bool
}

// TakeChanges appends the slots, free ones included, whose Pool, Operation or
// Groups may differ from those at the last call, and forgets them. A slot may be
// there without a reason; one that is not there has not changed.
func (t *Tree) TakeChanges(into []int32) []int32 {
	all := t.shownTotal != t.total
	t.shownTotal = t.total
	for len(t.shown) < len(t.elements) {
		t.shown = append(t.shown, glance{})
	}
	for slot := range t.elements {
		e := &t.elements[slot]
		now := glance{e.satisfaction, e.schedulable()}
		if all || e.changed || t.shown[slot] != now {
			into = append(into, int32(slot))
		}
		e.changed, t.shown[slot] = false, now
	}
	return into
}

// TakeNodeChange says whether NodeDetails may differ from those at the last call,
// and forgets it.
func (t *Tree) TakeNodeChange(at Node) bool {
	changed := t.nodes[at].changed
	t.nodes[at].changed = false
	return changed
}
