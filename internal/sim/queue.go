package sim

import "time"

// kind is the kind of an event. Events of the same moment are ordered by kind:
// first what ends, then what changes, then what the scheduler does, then
// observations.
type kind uint8

const (
	kindFinish    kind = iota // a: slot of a job, b: its generation
	kindGraceOver             // a: slot of a job, b: its generation
	kindAction                // a: index of an event of the scenario
	kindArrival               // a: index of a source
	kindAgain                 // a: operation that has run out of jobs
	kindClose                 // a: operation whose demand window closes
	kindUpdate                //
	kindOutOfBand             // a: node
	kindHeartbeat             // a: node; of the ring, never in the queue
	kindBaseline              // a: index of an expectation whose average starts
	kindObserve               //
	kindExpect                // a: index of an expectation
	kindEnd                   //
)

// event is something that happens at a moment. It is a small value, so that a
// queue of millions is one block of memory.
type event struct {
	at time.Duration
	// order is the kind in the upper eight bits and a running number below, so
	// that one comparison orders events of the same moment.
	order uint64
	a, b  int32
}

const sequenceBits = 56

func (e event) kind() kind { return kind(e.order >> sequenceBits) }

func (e event) before(f event) bool {
	return e.at < f.at || e.at == f.at && e.order < f.order
}

// queue yields events in order of time, kind and insertion. It is a heap with
// four children, which is shallower than one with two and touches fewer cache
// lines. The zero queue is empty.
type queue struct {
	heap []event
	next uint64 // running number
}

// push adds an event.
func (q *queue) push(at time.Duration, k kind, a, b int32) {
	e := event{at: at, order: uint64(k)<<sequenceBits | q.next, a: a, b: b}
	q.next++
	q.heap = append(q.heap, e)
	h, i := q.heap, len(q.heap)-1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
}

// top returns the first event, which must exist.
func (q *queue) top() *event { return &q.heap[0] }

// pop removes the first event, which must exist.
func (q *queue) pop() event {
	first := q.heap[0]
	n := len(q.heap) - 1
	last := q.heap[n]
	q.heap = q.heap[:n]
	if n == 0 {
		return first
	}
	h, i := q.heap, 0
	for {
		child := 4*i + 1
		if child >= n {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, n); c++ {
			if h[c].before(h[least]) {
				least = c
			}
		}
		if !h[least].before(last) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = last
	return first
}
