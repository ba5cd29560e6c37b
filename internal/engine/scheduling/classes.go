package scheduling

import "slices"

// Classes is a set of constraint classes, one bit each. It is replaced, never changed.
type Classes []uint64

// Has reports whether a class is in the set.
func (c Classes) Has(class int32) bool {
	return class >= 0 && int(class>>6) < len(c) && c[class>>6]&(1<<(class&63)) != 0
}

// With returns a set with one more class.
func (c Classes) With(class int32) Classes {
	added := make(Classes, max(len(c), int(class>>6)+1))
	copy(added, c)
	added[class>>6] |= 1 << (class & 63)
	return added
}

// SetDenied sets which constraint classes a node denies. Jobs of these classes that run
// there stay.
func (t *Tree) SetDenied(at Node, denied Classes) {
	n := &t.nodes[at]
	if slices.Equal(n.denied, denied) {
		return
	}
	n.denied = denied
	t.abandonAt(at)
	t.pulses[at].changed, t.pulses[at].full = true, 0
}

// Denied returns which constraint classes a node denies. The caller must not modify it.
func (t *Tree) Denied(at Node) Classes { return t.nodes[at].denied }

// denies reports whether no job of a group may start on a node, whatever room it has.
func (t *Tree) denies(n *node, g *Group) bool {
	return n.denied.Has(g.Class) || g.Class > 0 && g.Alone && slices.Contains(t.lonely, g.Class)
}

// noteAlone notes that a job starts, if no other one of its class may start on the
// current heartbeat.
func (t *Tree) noteAlone(g *Group) {
	if g.Alone && g.Class > 0 {
		t.lonely = append(t.lonely, g.Class)
	}
}
