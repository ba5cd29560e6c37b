package server

import (
	"container/heap"
	"container/list"
	"time"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// A heartbeat of a node that has nothing to hear is held: its answer waits until there are orders for the node, or
// until the time that the node allows has passed. While it waits it costs a goroutine and an entry here. When jobs
// begin to wait, the loop offers them to the nodes whose heartbeats it holds, longest held first.

// heldBeat is a heartbeat whose answer waits for orders.
type heldBeat struct {
	node     *activeNode
	request  *request
	beat     *exchange
	sequence uint64
	since    time.Time
	until    time.Time
	place    *list.Element // in heldBeats.order
	index    int           // in heldBeats.ends
}

// heldBeats are all held heartbeats. The zero value is ready to use, apart from the timer.
type heldBeats struct {
	order list.List // of *heldBeat, those to be offered work first in front
	ends  endHeap
	wake  *time.Timer // fires when the loop must look here again
	// stirred reports whether jobs may have begun to wait since the last offer.
	stirred bool
	// rest is when the loop may make the next offer.
	rest time.Time
	// left is how many nodes the present round still looks at; zero between rounds. missed is how many of the last
	// ones in a row got nothing.
	left, missed int
}

// Limits on offers.
const (
	// longestHold bounds what a node may ask for.
	longestHold = 5 * time.Minute
	// offerChunk is how many held nodes one step of the loop looks at. Requests are served between steps.
	offerChunk = 64
	// offerMisses is how many nodes with room in a row may get nothing before a round ends: what waits then fits few
	// nodes, and those get it with their next heartbeats.
	offerMisses = 64
	// offerShare limits offers to 1/offerShare of the loop's time.
	offerShare = 20
)

// hold keeps the answer to the request that is being served until there are orders for its node.
func (t *term) hold(node *activeNode, request *nodev1.HeartbeatRequest, beat *exchange) {
	now := time.Now()
	h := &heldBeat{
		node: node, request: t.serving, beat: beat, sequence: request.GetSequence(), since: now,
		until: now.Add(min(nodeproto.Duration(request.GetHoldUs()), longestHold)),
	}
	h.place = t.held.order.PushBack(h)
	heap.Push(&t.held.ends, h)
	node.held, t.serving = h, nil
}

// remove forgets a held heartbeat. The caller answers it.
func (l *heldBeats) remove(h *heldBeat) {
	l.order.Remove(h.place)
	heap.Remove(&l.ends, h.index)
	h.node.held = nil
}

// replace ends a node's held heartbeat with an error, because the node has sent another request and does not wait for
// this answer.
func (l *heldBeats) replace(node *activeNode, err error) {
	if h := node.held; h != nil {
		l.remove(h)
		h.request.done <- err
	}
}

// answer ends a held heartbeat with all orders that are durable.
func (t *term) answer(h *heldBeat) {
	t.held.remove(h)
	h.beat.held = time.Since(h.since)
	session := h.node.session
	session.Release(t.durable)
	answer := nodeproto.Answer{Holds: true}
	t.tellSettings(h.node, &answer)
	h.beat.response = session.Respond(h.sequence, answer)
	h.request.done <- nil
}

// answerHeld answers a node's held heartbeat, if there is one: the node has orders. Nobody reads an answer whose
// handler has gone; the orders then stay with the session for the next heartbeat.
func (t *term) answerHeld(node *activeNode) {
	switch h := node.held; {
	case h == nil:
	case h.beat.gone.Load():
		t.held.remove(h)
	default:
		t.answer(h)
	}
}

// endHolds answers the heartbeats that were held for as long as their nodes allow.
func (t *term) endHolds() {
	for now := time.Now(); len(t.held.ends) > 0 && !now.Before(t.held.ends[0].until); {
		t.answerHeld(t.held.ends[0].node)
	}
}

// setWake sets the timer to the first moment at which the loop has something to do here.
func (l *heldBeats) setWake() {
	at := time.Hour
	if len(l.ends) > 0 {
		at = time.Until(l.ends[0].until)
		if l.stirred {
			at = min(at, time.Until(l.rest))
		}
	}
	l.wake.Reset(max(at, 0))
}

// offer lets nodes whose heartbeats are held start the jobs that have begun to wait. Their orders end the hold when
// they are on disk. A round looks at every held node at most once, in steps, and rests after each step.
func (t *term) offer() {
	l := &t.held
	if !l.stirred {
		return
	}
	began := time.Now()
	if l.order.Len() == 0 || t.reviving || t.stalled() || len(t.requests) > t.server.settings().SoftQueue || !t.server.holdsLease() {
		l.endRound() // heartbeats will find what waits
		return
	}
	if began.Before(l.rest) {
		return
	}
	t.now = t.clock()
	if l.left == 0 {
		l.left = l.order.Len()
	}
	for range min(offerChunk, l.left, l.order.Len()) {
		h := l.order.Front().Value.(*heldBeat)
		l.order.MoveToBack(h.place)
		l.left--
		switch {
		case h.beat.gone.Load():
			l.remove(h)
		case !t.core.MayStart(h.node.id) || t.unfit(h.node) != nodev1.SkipReason_SKIP_REASON_NOT_SKIPPED:
		case t.offerTo(h.node):
			l.missed = 0
		default:
			l.missed++
		}
		if l.missed >= offerMisses {
			break
		}
	}
	if l.left == 0 || l.missed >= offerMisses {
		l.endRound()
	}
	l.rest = began.Add(offerShare * time.Since(began))
}

// offerTo lets a node start jobs, and reports whether it does or keeps room for a gang.
func (t *term) offerTo(node *activeNode) bool {
	before := len(t.open.ordered)
	t.beat.Node = node.id
	t.happens(&t.beat)
	kept := t.out.Kept // for a gang that starts when there is room for all of it
	t.take()
	return len(t.open.ordered) > before || kept > 0
}

// stir notes that jobs may have begun to wait. A round in progress starts again.
func (l *heldBeats) stir() { l.stirred, l.left = true, 0 }

// endRound notes that nothing is left to offer.
func (l *heldBeats) endRound() { l.stirred, l.left, l.missed = false, 0, 0 }

// endHeap orders held heartbeats by the time at which they are answered at the latest; of several at the same time,
// any may come first.
type endHeap []*heldBeat

func (h endHeap) Len() int           { return len(h) }
func (h endHeap) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h endHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push adds a heartbeat at the end; it is for package heap.
func (h *endHeap) Push(x any) {
	beat := x.(*heldBeat)
	beat.index = len(*h)
	*h = append(*h, beat)
}

// Pop removes the last heartbeat; it is for package heap.
func (h *endHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
